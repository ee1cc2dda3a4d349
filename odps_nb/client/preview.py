"""The first rows of a table, without a session (floor 3; ``protocol.md`` section 3.4).

Must not know: sessions, splits.
"""

from __future__ import annotations

import pyarrow as pa

from odps_nb.client.cancel import CancelToken
from odps_nb.client.progress import ProgressTracker
from odps_nb.client.rows import RowStream
from odps_nb.client.storage import StorageClient
from odps_nb.errors import OdpsNbError
from odps_nb.wire.calls import Preview

__all__ = ["fetch_preview"]


def fetch_preview(
    storage: StorageClient,
    request: Preview,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> pa.Table:
    """Return the first rows of a table; one request, tried again as a whole."""
    what = f"preview of {request.table}"
    with storage.attempts(what, tracker=tracker, cancel=cancel) as attempts:
        while True:
            try:
                response = storage.open(request, attempts=attempts)
                with response, RowStream(response) as stream:
                    batches = list(iter(stream.next, None))
                    return pa.Table.from_batches(batches, schema=stream.schema)
            except OdpsNbError as error:
                attempts.again(error, idempotent=True)
