"""One ``BlobRead`` response as verified events (``docs/protocol.md`` sections 6.3, 6.4).

Feeds a response body to the decoders of ``wire``; adds the request id to errors, and checks the
length that HTTP itself states.
"""

from __future__ import annotations

from collections.abc import Iterator

from odps_nb.errors import ChecksumError, ProtocolError
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import Compression
from odps_nb.wire.blocks import STORED_SIZE, TRAILER_SIZE
from odps_nb.wire.codings import from_http_name
from odps_nb.wire.crc32c import crc32c
from odps_nb.wire.frames import BlobEvent
from odps_nb.wire.layers import BlobBodyDecoder

MAX_BLOB = 1 << 40
"""Bytes of one blob that are accepted."""
_AROUND = 1 << 20  # bytes that header and footer of one blob may add, generously


def blob_events(
    response: HttpResponse, count: int, *, max_blob: int = MAX_BLOB
) -> Iterator[BlobEvent]:
    """Iterate over the events of a body of ``count`` blobs; the caller closes the response."""
    try:
        decoder = BlobBodyDecoder(
            response.headers.get("content-encoding"),
            count,
            (max_blob + _AROUND) * count,
            max_blob=max_blob,
        )
        for chunk in response.chunks():
            yield from decoder.events(chunk)
        yield from decoder.events_eof()
    except ProtocolError as error:
        error.request_id = error.request_id or response.request_id
        raise


def raw_size(response: HttpResponse) -> int | None:
    """Return the size of a single blob in bytes, where Content-Length implies it."""
    coding = from_http_name(response.headers.get("content-encoding"))
    if response.length is None or coding is not Compression.NONE:
        return None
    blocks = -(-response.length // STORED_SIZE)
    return response.length - blocks * TRAILER_SIZE


class DeliveredPrefix:
    """Counts delivered bytes; verifies and skips them when the blob is read again.

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
        self._crc = self._seen = 0  # of the given bytes, and of those that came again
        self._left = 0  # given bytes that have not come again

    def add(self, data: bytes | memoryview) -> None:
        """Count bytes that are delivered to the caller."""
        self.size += len(data)
        self._crc = crc32c(data, self._crc)

    def restart(self) -> None:
        """Start over: the blob is read again from its first byte."""
        self._left, self._seen = self.size, 0

    def skip_delivered(self, data: bytes | memoryview) -> memoryview:
        """Return the part of the next bytes that was not delivered yet."""
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
        """End the blob; raise if it is shorter than what was delivered before."""
        if self._left:
            self._require_same()

    def _require_same(self) -> None:
        if self._left or self._seen != self._crc:
            raise ChecksumError(
                "the blob is not the same as before the connection broke",
                expected=self._crc,
                actual=self._seen,
                offset=self.size,
            )
