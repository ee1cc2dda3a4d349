"""Reads the first rows of a table with one request, if the service offers a preview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.checks import check_columns, check_count, check_partition
from odps_nb.client.read.preview import fetch_preview
from odps_nb.client.read.resume import asks_for_micro
from odps_nb.convert.references import present_batch
from odps_nb.errors import (
    AccessDeniedError,
    ConversionError,
    FramingError,
    InvalidRequestError,
    NotFoundError,
)
from odps_nb.schema import text_as_binary
from odps_nb.terms import PartitionSpec, TextMode, TextOptions, Transfer
from odps_nb.wire.calls import Preview

if TYPE_CHECKING:
    from odps_nb.access.table import Table
    from odps_nb.client.calls.progress import ProgressTracker

MOST_ROWS = 1000
"""Maximum rows to request as a preview; the service's own limit is not documented."""


def preview_rows(
    table: Table,
    rows: int,
    *,
    partitions: Sequence[PartitionSpec],
    columns: Sequence[str] | None,
    text: TextOptions,
    tracker: ProgressTracker,
) -> pa.Table | None:
    """Return the first rows from the preview, or ``None`` if a full read is necessary.

    A read is necessary if the service rejects the preview, sends a time outside the nanosecond
    range, or sends fewer rows than requested. If there are fewer rows, the partition may be
    missing, or the service may have its own limit; the response does not show which (see
    ``preview_test.cpp``, the live tests of the C++ client).
    """
    row_count, schema = check_count("rows", rows, at_least=0) or 0, table.schema
    names = check_columns(columns, schema, table.name) if columns is not None else schema.names
    keys = {column.name for column in schema.partition_columns}
    if not 0 < row_count <= MOST_ROWS or (columns is not None and keys & set(names)):
        return None  # a preview of named columns omits partition columns
    specs = [check_partition(spec, schema, table.name) for spec in partitions]
    if len(specs) > 1 or table.connection._storage.transfer.current is not Transfer.STORAGE:
        return None
    request = Preview(
        table=table.name,
        limit=row_count,
        partition=specs[0] if specs and specs[0].items else None,
        columns=() if columns is None else names,
    )
    storage = table.connection._storage
    expected = [column for name in names if (column := schema.find(name)) is not None]
    shown = text_as_binary(schema) if text.mode is TextMode.BINARY else schema
    try:
        preview = fetch_preview(
            storage, request, columns=expected, shown=tuple(shown), text=text, tracker=tracker
        )
    except (InvalidRequestError, AccessDeniedError, NotFoundError):
        return None  # a full read shows whether the table itself is inaccessible or missing
    except FramingError as error:
        if not error.lasts:
            raise
        table.reload()  # columns were added after the metadata was cached
        return None
    except ConversionError as error:
        if asks_for_micro(error):
            return None
        raise
    if preview.num_rows < row_count:
        return None
    tracker.add(rows=preview.num_rows, decoded_bytes=preview.nbytes, complete_bytes=preview.nbytes)
    zone = table.connection.profile.timezone
    batches = [
        present_batch(batch, schema, timezone=zone)
        for batch in preview.slice(0, row_count).to_batches()
    ]
    return pa.Table.from_batches(batches).select(list(names))
