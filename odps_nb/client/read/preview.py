"""Reads the first rows of a table without a session (``docs/protocol.md`` section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.read.stream_schema import find_columns
from odps_nb.errors import ArgumentError, FramingError, OdpsNbError
from odps_nb.schema import Column
from odps_nb.wire.calls import Preview

__all__ = ["fetch_preview"]


def fetch_preview(
    storage: StorageClient,
    request: Preview,
    *,
    columns: Sequence[Column] | None = None,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> pa.Table:
    """Return the first rows of a table; one request, retried as a whole.

    ``columns`` are the known columns of the table; the stream is checked against them. No rows may
    mean that the partition does not exist: the service does not report it.

    Raises
    ------
    ArgumentError
        The request has no limit: the number of rows would be unknown.
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
                with response, RowStream(response) as stream:
                    return _table(stream, columns)
            except OdpsNbError as error:
                attempts.again(error, idempotent=True)


def _table(stream: RowStream, columns: Sequence[Column] | None) -> pa.Table:
    if columns is not None:
        try:
            find_columns(stream.schema, columns)
        except FramingError as error:
            error.request_id = stream.request_id
            raise
    return pa.Table.from_batches(list(iter(stream.next, None)), schema=stream.schema)
