"""Reads results of accelerated queries, which have no session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.reading.arriving import streaming_reader
from odps_nb.client.sql.result import iter_accelerated
from odps_nb.terms import TextMode

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

__all__ = ["accelerated_rows"]


def accelerated_rows(
    connection: Connection,
    instance_id: str,
    query_id: int,
    columns: tuple[str, ...],
    text: TextMode,
) -> pa.RecordBatchReader:
    """Return the rows as a reader; the first batch is fetched at once, to know the columns."""
    batches = iter_accelerated(
        connection.storage,
        project=connection.profile.project,
        instance_id=instance_id,
        query_id=query_id,
        columns=columns,
        text=text,
    )
    return streaming_reader(batches, lambda: pa.schema([]))  # without a row the columns are unknown
