"""Size, type and name of a blob without its bytes (``docs/protocol.md`` section 6.4)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from odps_nb.client.blob.batch import WORTH_READING
from odps_nb.client.blob.response import blob_events
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import FramingError
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import BlobReference
from odps_nb.wire.calls import ReadBlobs
from odps_nb.wire.frames import BlobStart


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobHead:
    """Size, media type and name of a blob; the texts come from the uploader and are not trusted."""

    size: int
    mime_type: str = ""
    file_name: str = ""


def head_of(start: BlobStart) -> BlobHead:
    """Return the head that the first event of a blob in a frame has."""
    return BlobHead(
        size=start.length or 0,
        mime_type=start.content_type or "",
        file_name=start.custom_file_name or "",
    )


def fetch_blob_head(
    storage: StorageClient,
    reference: BlobReference,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
    receive_buffer: int | None = None,
) -> BlobHead:
    """Return the head of a blob; one request, closed after the head of the first frame.

    Only frames carry type and name, and the response to a single reference has no frame: the
    reference is requested twice. ``receive_buffer`` is that of `open_blob`.
    """
    attempts = storage.attempts("the head of a blob", tracker=tracker, cancel=cancel)
    attempts.receive_buffer = receive_buffer
    request = ReadBlobs(references=(reference, reference))

    def once() -> BlobHead:
        with storage.open(request, attempts=attempts) as response:
            return _head(response)

    return attempts.run(once, idempotent=True)


def _head(response: HttpResponse) -> BlobHead:
    with closing(blob_events(response, 2)) as events:  # type: ignore[type-var]  # it is a generator
        start = next(iter(events), None)
        if not isinstance(start, BlobStart) or start.length is None:
            raise FramingError("the blob has no head", request_id=response.request_id)
        if response.length is not None and response.length <= WORTH_READING:
            for _ in events:
                pass
    return head_of(start)
