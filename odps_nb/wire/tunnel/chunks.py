"""Checksummed chunks of the tunnel's Arrow streams (``docs/protocol.md`` section 9.4).

::

    | u32 BE chunk size | chunk | CRC32C of it, BE | … | last chunk, shorter | CRC32C of all, BE |

Some writers send no empty chunk at the end of the stream. Their last chunk has the full size, and
its checksum covers all chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from odps_nb.errors import ChecksumError, FramingError, StateError, TruncatedError
from odps_nb.wire._push import BytesLike
from odps_nb.wire.crc32c import crc32c

CHUNK_SIZE = 65_536
"""Chunk size of every known writer (pyodps: ``options.chunk_size``)."""
MAX_CHUNK = 64 * 2**20
"""Maximum chunk size to accept."""
SIZE_BYTES = CHECK_BYTES = 4
_RUN = 8
"""Number of chunks to encode at a time."""


class ChunkVerifier:
    """Verifies the chunks of one stream, in order; ``head`` is the stream's first four bytes.

    Read `stored_size` bytes at a time (fewer only at the end of the stream) and pass them to
    `verify`. At the end of the stream, call `require_end`.

    Examples
    --------
    >>> stream = b"".join(encode_chunks(iter([b"hello"])))
    >>> verifier = ChunkVerifier(stream[:4])
    >>> bytes(verifier.verify(memoryview(stream[4:])))
    b'hello'
    """

    def __init__(self, head: BytesLike) -> None:
        if len(head) < SIZE_BYTES:
            raise TruncatedError(
                "the tunnel's stream ends within its chunk size",
                offset=0,
                expected=SIZE_BYTES,
                actual=len(head),
                hint="read again; the bytes were truncated in transit",
            )
        size = int.from_bytes(head, "big")
        if not 0 < size <= MAX_CHUNK:
            raise FramingError(
                f"the tunnel's chunk size is {size} bytes; it must be 1 to {MAX_CHUNK}",
                offset=0,
                hint="check for a proxy that alters bodies",
            )
        self.stored_size: int = size + CHECK_BYTES
        """Bytes of a full chunk with its checksum."""
        self._total = 0
        self._at = SIZE_BYTES
        self._ended = False

    def verify(self, stored: memoryview) -> memoryview:
        """Return the payload of one chunk; a chunk below `stored_size` is the last one."""
        if self._ended:
            raise FramingError(
                f"{len(stored)} bytes follow the end of the tunnel's stream", offset=self._at
            )
        if len(stored) < CHECK_BYTES:
            raise TruncatedError(
                "the tunnel's stream ends without its checksum",
                offset=self._at,
                expected=CHECK_BYTES,
                actual=len(stored),
                hint="read again; the bytes were truncated in transit",
            )
        payload, received = stored[:-CHECK_BYTES], int.from_bytes(stored[-CHECK_BYTES:], "big")
        own = crc32c(payload)
        self._total = crc32c(payload, self._total)
        full = len(stored) == self.stored_size
        self._ended = received == self._total and not (full and received == own)
        if not self._ended and not (full and received == own):
            expected = own if full else self._total
            raise ChecksumError(
                f"CRC32C of the tunnel's chunk at byte {self._at} ({len(payload)} bytes) is "
                f"{expected:08x}, but {received:08x} was received",
                offset=self._at,
                expected=received,
                actual=expected,
                hint="read again; the bytes were damaged or truncated in transit",
            )
        self._at += len(stored)
        return payload

    def require_end(self) -> None:
        """Raise `TruncatedError` unless the last chunk was verified."""
        if not self._ended:
            raise TruncatedError(
                "the tunnel's stream ends without its last chunk",
                offset=self._at,
                hint="read again; the bytes were truncated in transit",
            )


class ChunkEncoder:
    """Encoder that divides a stream into chunks with checksums; pieces may end anywhere."""

    __slots__ = ("_begun", "_finished", "_held", "_total")

    def __init__(self) -> None:
        self._held = bytearray()
        self._begun = self._finished = False
        self._total = 0

    def feed(self, piece: BytesLike) -> Iterator[Any]:
        """Add bytes; yield the encoded bytes that are complete, as bytes-like objects."""
        if self._finished:
            raise StateError("this encoder is finished")
        if not self._begun:
            self._begun = True
            yield CHUNK_SIZE.to_bytes(SIZE_BYTES, "big")
        view = memoryview(piece).cast("B")
        if self._held:
            missing = CHUNK_SIZE - len(self._held)
            self._held += view[:missing]
            view = view[missing:]
            if len(self._held) < CHUNK_SIZE:
                return
            held, self._held = self._held, bytearray()
            yield self._encoded(memoryview(held))
        whole = len(view) // CHUNK_SIZE * CHUNK_SIZE
        for at in range(0, whole, _RUN * CHUNK_SIZE):
            yield self._encoded(view[at : min(whole, at + _RUN * CHUNK_SIZE)])
        self._held += view[whole:]

    def finish(self) -> bytes:
        """Return the last, short chunk with the checksum of the whole stream."""
        head = b"" if self._begun else CHUNK_SIZE.to_bytes(SIZE_BYTES, "big")
        self._begun = self._finished = True
        total = crc32c(self._held, self._total)
        return head + bytes(self._held) + total.to_bytes(CHECK_BYTES, "big")

    def _encoded(self, chunks: memoryview) -> memoryview:
        """Return full chunks, each followed by its checksum."""
        self._total = crc32c(chunks, self._total)
        out = np.empty(len(chunks) // CHUNK_SIZE, dtype=_STORED)
        out["payload"] = np.frombuffer(chunks, dtype=_PAYLOAD)
        out["crc"] = [
            crc32c(chunks[at : at + CHUNK_SIZE]) for at in range(0, len(chunks), CHUNK_SIZE)
        ]
        return out.view(np.uint8).data


_PAYLOAD = np.dtype(f"V{CHUNK_SIZE}")
_STORED = np.dtype([("payload", _PAYLOAD), ("crc", ">u4")])


def encode_chunks(pieces: Iterator[BytesLike]) -> Iterator[Any]:
    """Yield the pieces of a stream encoded as chunks, as bytes-like objects."""
    encoder = ChunkEncoder()
    for piece in pieces:
        yield from encoder.feed(piece)
    yield encoder.finish()
