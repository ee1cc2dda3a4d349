"""Results of accelerated queries, which have no session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.client.sql.result import iter_accelerated

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

__all__ = ["accelerated_rows"]


def accelerated_rows(
    connection: Connection, instance_id: str, query_id: int, columns: tuple[str, ...]
) -> pa.RecordBatchReader:
    """Return the rows as a reader; the first batch is fetched now, since it tells the columns."""
    batches = iter_accelerated(
        connection.storage,
        project=connection.profile.project,
        instance_id=instance_id,
        query_id=query_id,
        columns=columns,
    )
    first = next(batches, None)
    if first is None:  # without a row nobody tells the columns
        return pa.RecordBatchReader.from_batches(pa.schema([]), [])

    def rest() -> Iterator[pa.RecordBatch]:
        with closing(batches):
            yield first
            yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, rest())
