"""`DownloadBody`: the tunnel's checksummed rows as an Arrow stream (``docs/protocol.md`` 9.4).

The tunnel sends record batches without schema and end marker, in chunks with checksums. This body
adds the schema, verifies each chunk before Arrow reads it, and adds the end marker once the
checksum of the whole stream was verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from odps_nb.client.read.arrow_body import Decoded
from odps_nb.http.transport import HttpResponse
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.calls.core import find_header
from odps_nb.wire.calls.errors import GZIP_MAGIC, MAX_ERROR_BYTES, find_error, find_page
from odps_nb.wire.codings import decoder, from_http_name
from odps_nb.wire.tunnel.chunks import SIZE_BYTES, ChunkVerifier

_READ = 1 << 18


class DownloadBody:
    """A response of the tunnel as the body of an Arrow stream with ``schema``."""

    headers: Mapping[str, str] = {}  # the content coding is decoded here

    def __init__(self, response: HttpResponse, schema: pa.Schema) -> None:
        self._response = response
        self.url: str = response.url
        self._ready = memoryview(schema.serialize()).cast("B")
        self._chunks: Iterator[memoryview] | None = self._verified()

    @property
    def request_id(self) -> str | None:
        """The server's id for this request."""
        return self._response.request_id

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``, or stop at the end of the stream; return the number of bytes."""
        target, at = memoryview(buffer).cast("B"), 0
        while at < len(target):
            if not self._ready:
                self._ready = self._next()
                if not self._ready:
                    break
            part = self._ready[: len(target) - at]
            target[at : at + len(part)] = part
            self._ready = self._ready[len(part) :]
            at += len(part)
        return at

    def read(self, n: int) -> bytes:
        """Return ``n`` bytes; fewer only at the end."""
        buffer = bytearray(n)
        count = self.readinto(buffer)
        return bytes(buffer[:count])

    def read1(self) -> bytes:
        """Return some bytes; empty at the end."""
        return self.read(_READ)

    def close(self) -> None:
        """Release the connection. Idempotent."""
        self._response.close()

    def _next(self) -> memoryview:
        if self._chunks is None:
            return memoryview(b"")
        chunk = next(self._chunks, None)
        if chunk is None:
            self._chunks = None
            return memoryview(END_MARKER)
        return chunk

    def _verified(self) -> Iterator[memoryview]:
        """Yield the payload of each chunk; a yielded view is valid until the next one."""
        fill = self._filler()
        head = bytearray(SIZE_BYTES)
        count = fill(memoryview(head))
        self._refuse(bytes(head[:count]))
        verifier = ChunkVerifier(head[:count])
        stored = memoryview(bytearray(verifier.stored_size))
        while count := fill(stored):
            if payload := verifier.verify(stored[:count]):
                yield payload
            if count < len(stored):
                break
        verifier.require_end()

    def _refuse(self, head: bytes) -> None:
        """Raise the error or web page that arrived in place of the rows, despite a 2xx status."""
        if head.lstrip()[:1] in (b"{", b"<") or head[:2] == GZIP_MAGIC:
            response = self._response
            body = head + response.read(MAX_ERROR_BYTES)
            sender = str(response.host), response.request_id
            error = find_error(response.headers, body) or find_page(body, *sender)
            if error is not None:
                raise error

    def _filler(self) -> Callable[[memoryview], int]:
        name = find_header(self._response.headers, "content-encoding")
        if name in (None, "identity"):
            return self._response.readinto
        coding = from_http_name("x-lz4-frame" if name == "x-odps-lz4-frame" else name)
        return Decoded(self._response, b"", decoder(coding)).readinto
