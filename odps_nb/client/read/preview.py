"""Reads the first rows of a table without a session (``docs/protocol.md`` section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from odps_nb.arrow.char import char_columns, stripped
from odps_nb.arrow.text import fit_text, text_types
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.read.stream_schema import find_columns
from odps_nb.errors import ArgumentError, FramingError, OdpsNbError
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
    cancel: CancelToken | None = None,
) -> pa.Table:
    """Return the first rows of a table; one request, retried as a whole.

    No rows may mean that the partition does not exist: the service does not report it.

    Parameters
    ----------
    columns
        The known columns of the table; the stream is checked against them.
    shown
        The same, text as BINARY where it is wanted as bytes. ``None``: ``columns``.
    text
        How text is given; CHAR is stripped of its padding only where ``columns`` are known.
    """
    if request.limit is None:
        raise ArgumentError(
            f"the preview of {request.table} has no limit", hint="say how many rows, 0 for all"
        )
    what = f"preview of {request.table}"
    with storage.attempts(what, tracker=tracker, cancel=cancel) as attempts:
        while True:
            try:
                response = storage.open(request, attempts=attempts)
                with response, RowStream(response, text=None, columns=columns) as stream:
                    batches = _batches(stream, columns)
                break
            except OdpsNbError as error:
                attempts.again(error, idempotent=True)
    types = text_types(stream.schema, columns if shown is None else shown, text.mode)
    chars = () if text.char_padding else char_columns(stream.schema.names, columns or ())
    fields = map(pa.Field.with_type, stream.schema, types)
    found, rows = [], 0
    for batch in batches:
        place = partial(_place, request, rows)
        fitted = fit_text(batch, types, text.mode, place, unprotected=stream.unprotected)
        found.append(stripped(fitted, chars))
        rows += batch.num_rows
    return pa.Table.from_batches(found, schema=pa.schema(fields, stream.schema.metadata))


def _batches(stream: RowStream, columns: Sequence[Column] | None) -> list[pa.RecordBatch]:
    if columns is not None:
        try:
            find_columns(stream.schema, columns)
        except FramingError as error:
            error.request_id = stream.request_id
            raise
    return list(iter(stream.next, None))


def _place(request: Preview, before: int, row: int) -> tuple[str, int]:
    return f"row {before + row} of the preview of {request.table}", before + row
