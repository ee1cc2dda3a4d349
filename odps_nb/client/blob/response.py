"""One ``BlobRead`` response as verified events (``docs/protocol.md`` sections 6.3, 6.4).

Feeds a response body to the decoders of ``wire``; adds the request id to errors, and checks the
length that HTTP itself states.
"""

from __future__ import annotations

from collections.abc import Iterator

from odps_nb.errors import ProtocolError
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import Compression
from odps_nb.wire.blocks import STORED_SIZE, TRAILER_SIZE
from odps_nb.wire.codings import from_http_name
from odps_nb.wire.frames import BlobEvent
from odps_nb.wire.layers import BlobBodyDecoder

__all__ = ["MAX_BLOB", "blob_events", "raw_size"]

MAX_BLOB = 1 << 40
"""Bytes of one blob that are accepted."""
_AROUND = 1 << 20  # bytes that header and footer of one blob may add, generously


def blob_events(
    response: HttpResponse, count: int, *, max_blob: int = MAX_BLOB
) -> Iterator[BlobEvent]:
    """Iterate over the events of a body of ``count`` blobs; the caller closes the response.

    Raises
    ------
    ChecksumError, TruncatedError, FramingError
        The body is damaged, cut, or holds another number of blobs.
    TransportError
        The connection broke.
    """
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
