"""The payload of a blob body as a file: the raw stream, decoded with `odps_nb.wire`.

Small reads return bytes from a window of verified payload. Large reads decode several blocks at a
time directly into the caller's buffer.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

from odps_nb.errors import StateError
from odps_nb.stream_io.base import ByteReader, close_raw, read_into_new
from odps_nb.wire._push import PieceDecoder
from odps_nb.wire.blocks import BLOCK_SIZE, STORED_SIZE, BlockDecoder

_DIRECT = 128 << 10  # minimum bytes of a direct read; smaller reads use the window
# Blocks per read of the raw stream: for the first read; maxima for the window and direct reads.
_FIRST_RUN, _WINDOW_RUN, _DIRECT_RUN = 16, 128, 256


class PayloadStream(ByteReader):
    """A file-like object that decodes a raw stream and returns only verified bytes.

    ``read(n)`` returns n bytes, except at the end. After an error, every call raises.
    """

    # Slots make small reads faster: a read of 4 KiB takes no longer than a few attribute lookups.
    __slots__ = (
        "_at",
        "_base",
        "_blocks",
        "_buffer",
        "_decoder",
        "_in_memory",
        "_pieces",
        "_raw",
        "_run",
        "_size",
        "_window",
    )

    def __init__(self, raw: Any, decoder: PieceDecoder) -> None:
        self._raw, self._decoder = raw, decoder
        self._buffer = memoryview(b"")
        self._in_memory = type(raw) is io.BytesIO or isinstance(raw, (bytes, bytearray, memoryview))
        if type(raw) is io.BytesIO:  # getvalue() neither copies nor locks the buffer
            self._buffer = memoryview(raw.getvalue())[raw.tell() :]
            raw.seek(0, io.SEEK_END)
        elif self._in_memory:
            self._buffer = memoryview(raw).cast("B")
        elif not hasattr(raw, "read"):
            raise TypeError(f"{type(raw).__name__} is not a raw stream: it has no read(n)")
        self._blocks = decoder if isinstance(decoder, BlockDecoder) else None
        self._pieces: Iterator[bytes] = iter(())
        self._ended = False
        self._run = _FIRST_RUN
        self._window, self._size, self._at = b"", 0, 0
        self._base: int = 0  # payload bytes before the window

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes (negative: all that remain); fewer only at the end."""
        at = self._at
        stop = at + (-1 if size is None else size)
        if at < stop <= self._size:  # fast path for small reads
            self._at = stop
            return self._window[at:stop]
        missing = stop - at
        if not 0 <= missing <= _DIRECT:
            return read_into_new(self._read_into, missing if missing > 0 else 1 << 62)
        parts = [self.read1(missing)]
        while parts[-1] and (missing := missing - len(parts[-1])):
            parts.append(self.read1(missing))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read1(self, size: int = -1) -> bytes:
        """Return available bytes, at most ``size``, reading the raw stream at most once."""
        self._check_usable()
        if self._at == self._size and size:
            self._guarded(self._refill)
        at = self._at
        self._at = self._size if size < 0 else min(self._size, at + size)
        return self._window[at : self._at]

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer``, or stop at the end; return the number of bytes read."""
        target = memoryview(buffer).cast("B")
        done = 0
        while count := self._read_into(target[done:]):
            done += count
            if done == len(target):
                break
        return done

    def _read_into(self, target: memoryview) -> int:
        """Write available bytes into ``target``; return their number, 0 only at the end."""
        count: int = self._guarded(self._some_into, target)
        return count

    def _some_into(self, target: memoryview) -> int:
        if self._at == self._size and target:
            if len(target) >= _DIRECT and (count := self._fill(target)):
                return count
            self._refill()
        at = self._at
        self._at = min(self._size, at + len(target))
        target[: self._at - at] = memoryview(self._window)[at : self._at]
        return self._at - at

    def peek(self, size: int = 1) -> bytes:
        """Return ``size`` bytes without consuming them; fewer only at the end."""
        self._check_usable()
        while self.ready < size and self.widen():
            pass
        return self._window[self._at : self._at + max(size, 0)]

    def tell(self) -> int:
        """Return the number of payload bytes consumed so far."""
        return self._base + self._at

    def close(self) -> None:
        """Close this stream and the raw stream. Idempotent."""
        if not self._closed:
            self._closed = True
            self._set_window(b"")
            close_raw(self._raw)

    def widen(self) -> bool:
        """Append more payload to the unread part of the window; return ``False`` at the end."""
        more = self._guarded(self._next)
        self._base += self._at
        self._set_window(self._window[self._at :] + more)
        return bool(more)

    def take_window(self, scan: Callable[[bytes, int], tuple[list[Any], int]]) -> list[Any]:
        """Scan the unread part of the window; return the results and consume the scanned bytes."""
        found, self._at = scan(self._window, self._at)
        return found

    @property
    def ready(self) -> int:
        """Number of unread bytes in the window."""
        return self._size - self._at

    def _refill(self) -> None:
        if window := self._next():
            self._base += self._size
            self._set_window(window)

    def _set_window(self, window: bytes) -> None:
        self._window, self._size, self._at = window, len(window), 0

    def _take(self, size: int) -> memoryview | bytes:
        if self._in_memory:
            chunk, self._buffer = self._buffer[:size], self._buffer[size:]
            return chunk
        if not hasattr(self._raw, "readinto"):
            data: bytes = self._raw.read(size)
            if len(data) > size:  # the excess would not fit in the caller's buffer
                raise StateError(
                    f"the raw stream returned {len(data)} bytes; at most {size} were requested",
                    hint="pass an object whose read(n) returns at most n bytes",
                )
            return data
        if len(self._buffer) < size:
            self._buffer = memoryview(bytearray(size))
        return self._buffer[: min(size, self._raw.readinto(self._buffer[:size]) or 0)]

    def _next(self) -> bytes:
        """Return the next piece of payload, empty at the end."""
        while True:
            for piece in self._pieces:
                if piece:
                    return piece
            if self._ended:
                return b""
            # The first reads are short, so small blobs cost little and the first bytes arrive early
            chunk = self._take(self._run * STORED_SIZE)
            self._run = min(2 * self._run, _WINDOW_RUN)
            self._ended = not chunk
            if not chunk:
                self._pieces = self._decoder.pieces_eof()
            elif self._blocks is None:
                self._pieces = self._decoder.pieces(chunk)
            elif piece := self._blocks.feed(chunk):
                return piece

    def _fill(self, target: memoryview) -> int:
        """Decode whole blocks into ``target``; return 0 if that is not possible."""
        if self._blocks is None:
            return 0
        self._run = 1  # a partial block remains, so the next window is small
        size = min(len(target) // BLOCK_SIZE, _DIRECT_RUN) * STORED_SIZE
        while not self._ended:
            if not (chunk := self._take(size)):
                self._ended, self._pieces = True, self._decoder.pieces_eof()
            elif count := self._blocks.feed_into(chunk, target):
                self._base += count
                return count
        return 0


class CrcStrippingStream(PayloadStream):
    """The verified payload of a stream of CRC32C blocks; takes linear time for any read size.

    Parameters
    ----------
    raw_stream
        The body as received: ``bytes``, or an object with ``read(n)``. Closed by `close`.

    Raises
    ------
    ChecksumError
        Raised by any read: a block does not match its checksum. The error's ``block`` and
        ``offset`` locate the damage.
    TruncatedError
        The body ends inside a block. If whole blocks are missing at the end of the body, the HTTP
        client or the frame decoder detects this (``docs/protocol.md`` section 6.3).

    Examples
    --------
    >>> from odps_nb.stream_io import CrcStrippingStream
    >>> body = bytes.fromhex("68656c6c6f 4cbb719a")
    >>> with CrcStrippingStream(body) as stream:
    ...     stream.peek(2), stream.read(4), stream.read()
    (b'he', b'hell', b'o')
    """

    def __init__(self, raw_stream: Any) -> None:
        super().__init__(raw_stream, BlockDecoder())
