"""Decodes a ``BlobRead`` response into verified events (``docs/protocol.md`` 6.3, 6.4).

Feeds the response body to the decoders in ``wire``, adds the request id to errors, and verifies
Content-Length. Also fetches a blob's size, type and name without its content.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import ChecksumError, NotFoundError, ProtocolError
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import BlobReference, Compression, shorten
from odps_nb.wire.blocks import STORED_SIZE, TRAILER_SIZE
from odps_nb.wire.calls import ReadBlobs
from odps_nb.wire.calls.errors import find_page
from odps_nb.wire.codings import from_http_name
from odps_nb.wire.crc32c import crc32c
from odps_nb.wire.frames import BlobEvent, BlobStart
from odps_nb.wire.layers import BlobBodyDecoder

MAX_BLOB = 1 << 40
"""Maximum bytes of one blob."""
WORTH_READING = 1 << 16
"""If at most this many bytes of a response remain, they are read to reuse the connection."""
_AROUND = 1 << 20  # ample allowance for one blob's header and footer, in bytes


def blob_events(
    response: HttpResponse, count: int, *, max_blob: int = MAX_BLOB
) -> Iterator[BlobEvent]:
    """Iterate over the events of a body with ``count`` blobs; the caller closes the response."""
    chunks = response.chunks()
    first = next(chunks, b"")
    if response.request_id is None:  # the service itself always sends an id
        page = find_page(first, str(response.host))
        if page is not None:
            raise page
    try:
        decoder = BlobBodyDecoder(
            response.headers.get("content-encoding"),
            count,
            (max_blob + _AROUND) * count,
            max_blob=max_blob,
        )
        for chunk in chain((first,), chunks):
            yield from decoder.events(chunk)
        yield from decoder.events_eof()
    except ProtocolError as error:
        error.request_id = error.request_id or response.request_id
        raise


def raw_size(response: HttpResponse) -> int | None:
    """Return the size of a single blob in bytes, from Content-Length; ``None`` if unknown."""
    coding = from_http_name(response.headers.get("content-encoding"))
    if response.length is None or coding is not Compression.NONE:
        return None
    blocks = -(-response.length // STORED_SIZE)
    return response.length - blocks * TRAILER_SIZE


class DeliveredPrefix:
    """Counts a blob's delivered bytes; if the blob is read again, verifies and skips them.

    Examples
    --------
    >>> prefix = DeliveredPrefix()
    >>> prefix.add(b"hel")
    >>> prefix.restart()
    >>> bytes(prefix.skip_delivered(b"he")), bytes(prefix.skip_delivered(b"llo"))
    (b'', b'lo')
    """

    __slots__ = ("_crc", "_left", "_seen", "size")

    def __init__(self) -> None:
        self.size: int = 0
        self._crc = self._seen = 0  # CRC of the delivered bytes, and of the bytes read again
        self._left = 0  # delivered bytes not yet read again after a restart

    def add(self, data: bytes | memoryview) -> None:
        """Count bytes that are delivered to the caller."""
        self.size += len(data)
        self._crc = crc32c(data, self._crc)

    def restart(self) -> None:
        """Restart at the first byte of the blob."""
        self._left, self._seen = self.size, 0

    def skip_delivered(self, data: bytes | memoryview) -> memoryview:
        """Verify and skip bytes that were already delivered; return the rest of ``data``."""
        view = memoryview(data)
        if not self._left:
            return view
        old, new = view[: self._left], view[self._left :]
        self._seen = crc32c(old, self._seen)
        self._left -= len(old)
        if not self._left:
            self._require_same()
        return new

    def finish(self) -> None:
        """Raise if the blob is now shorter than the data already delivered."""
        if self._left:
            self._require_same()

    def _require_same(self) -> None:
        if self._left or self._seen != self._crc:
            raise ChecksumError(
                "the blob has changed since the connection broke",
                expected=self._crc,
                actual=self._seen,
                offset=self.size,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobHead:
    """A blob's size, and the untrusted media type and name that its uploader chose."""

    size: int
    mime_type: str = ""
    file_name: str = ""


def head_of(start: BlobStart) -> BlobHead:
    """Return the size, media type and name in a framed blob's first event."""
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
    """Fetch a blob's size, type and name with one request; close the response after the header.

    Only frames contain type and name, and a response to a single reference has no frame, so the
    request contains the reference twice. ``receive_buffer``: see `open_blob`.
    """
    attempts = storage.attempts("the header of a blob", tracker=tracker, cancel=cancel)
    attempts.receive_buffer = receive_buffer
    request = ReadBlobs(references=(reference, reference))

    def once() -> BlobHead:
        with storage.open(request, attempts=attempts) as response:
            return _head(response)

    try:
        return attempts.run(once, idempotent=True)
    except NotFoundError as error:
        raise unknown_blob(error, reference, attempts.what) from error


def _head(response: HttpResponse) -> BlobHead:
    with closing(blob_events(response, 2)) as events:  # type: ignore[type-var]  # it is a generator
        start = next(iter(events))
        assert isinstance(start, BlobStart)  # a frame begins with its header
        if response.length is not None and response.length <= WORTH_READING:
            for _ in events:
                pass
    return head_of(start)


def unknown_blob(error: NotFoundError, reference: BlobReference, place: str) -> NotFoundError:
    """Return the error for a reference that is unknown to the service."""
    not_found = NotFoundError(
        f"the service does not know the blob reference {shorten(reference.token, 80)!r}: {error}",
        status=error.status,
        code=error.code,
        request_id=error.request_id,
        hint="use references from rows of this project; the row may have been deleted",
    )
    not_found.add_note(place)
    return not_found
