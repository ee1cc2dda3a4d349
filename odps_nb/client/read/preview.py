"""Reads a table's first rows without a session (``docs/protocol.md`` section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from odps_nb.arrow.char import char_columns, stripped
from odps_nb.arrow.text import fit_text, text_types
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.read.stream_schema import find_columns
from odps_nb.errors import ArgumentError
from odps_nb.schema import Column
from odps_nb.terms import STRICT_TEXT, TextOptions
from odps_nb.wire.calls import Preview


def fetch_preview(
    storage: StorageClient,
    request: Preview,
    *,
    columns: Sequence[Column] | None = None,
    shown: Sequence[Column] | None = None,
    text: TextOptions = STRICT_TEXT,
    tracker: ProgressTracker | None = None,
) -> pa.Table:
    """Return a table's first rows, fetched with one request that is retried as a whole.

    If the partition does not exist, the result is empty, because the service reports no error.
    ``columns``: the table's columns, used to check the stream and to remove CHAR padding.
    ``shown``: the same columns, but with BINARY in place of text that is requested as bytes.
    """
    if request.limit is None:
        raise ArgumentError(
            f"the preview of {request.table} needs a limit",
            hint="pass a number of rows, or 0 for all",
        )
    what = f"preview of {request.table}"
    attempts = storage.attempts(what, tracker=tracker)

    def once() -> tuple[RowStream, list[pa.RecordBatch]]:
        response = storage.open(request, attempts=attempts)
        with response, RowStream(response, text=None, columns=columns) as stream:
            if columns is not None:
                with stream.named_in_errors():
                    find_columns(stream.schema, columns)
            return stream, list(iter(stream.next, None))

    stream, batches = attempts.run(once, idempotent=True)
    types = text_types(stream.schema, columns if shown is None else shown, text.mode)
    chars = () if text.char_padding else char_columns(stream.schema.names, columns or ())
    fields = map(pa.Field.with_type, stream.schema, types)
    converted, rows = [], 0
    for batch in batches:
        locate = partial(_place, what, rows)
        fitted = fit_text(batch, types, text.mode, locate, unprotected=stream.unprotected)
        converted.append(stripped(fitted, chars))
        rows += batch.num_rows
    return pa.Table.from_batches(converted, schema=pa.schema(fields, stream.schema.metadata))


def _place(what: str, before: int, row: int) -> tuple[str, int]:
    return f"row {before + row} of the {what}", before + row
