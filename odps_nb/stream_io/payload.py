"""The payload of a blob body as a file: the raw stream, decoded with `odps_nb.wire`.

Small reads return bytes from a window of verified payload. Large reads decode a run of blocks
directly into the caller's buffer.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

from odps_nb.errors import StateError
from odps_nb.terms import Compression
from odps_nb.wire._push import PieceDecoder
from odps_nb.wire.blocks import BLOCK_SIZE, STORED_SIZE, BlockDecoder
from odps_nb.wire.calls.core import find_header
from odps_nb.wire.codings import coding_of
from odps_nb.wire.layers import PayloadDecoder

_DIRECT = 64 << 10  # bytes; smaller reads use the window
_FIRST_RUN, _WINDOW_RUN, _DIRECT_RUN = 16, 128, 256  # run sizes in blocks
_TRUSTED_SIZE = 64 << 20  # up to this size, allocate at once; beyond it, as bytes arrive
_STEP = 1 << 20


def close_raw(raw: Any) -> None:
    """Call ``raw.close()`` if there is such a method."""
    close = getattr(raw, "close", None)
    if close is not None:
        close()


def _chunks_of(raw: Any) -> Callable[[int], memoryview | bytes]:
    """Return the cheapest function to read n bytes; a result is valid until the next call."""
    if type(raw) is io.BytesIO or isinstance(raw, (bytes, bytearray, memoryview)):
        return _in_memory(raw)
    if not hasattr(raw, "read"):
        raise TypeError(f"{type(raw).__name__} is not a raw stream: it has no read(n)")
    return _into_one_buffer(raw) if hasattr(raw, "readinto") else _by_reads(raw)


def _in_memory(raw: io.BytesIO | bytes | bytearray | memoryview) -> Callable[[int], memoryview]:
    # Unlike getbuffer(), getvalue() does not lock the buffer; it shares it instead of copying.
    source = raw if isinstance(raw, io.BytesIO) else None
    view = memoryview(raw.getvalue() if isinstance(raw, io.BytesIO) else raw).cast("B")
    at = source.tell() if source else 0

    def take(size: int) -> memoryview:
        nonlocal at
        chunk = view[at : at + size]
        at += len(chunk)
        if source is not None:
            source.seek(at)
        return chunk

    return take


def _into_one_buffer(raw: Any) -> Callable[[int], memoryview]:
    buffer = memoryview(b"")

    def take(size: int) -> memoryview:
        nonlocal buffer
        if len(buffer) < size:
            buffer = memoryview(bytearray(size))
        return buffer[: raw.readinto(buffer[:size]) or 0]

    return take


def _by_reads(raw: Any) -> Callable[[int], bytes]:
    def take(size: int) -> bytes:
        data: bytes = raw.read(size)
        if len(data) > size:
            raise StateError(
                f"the raw stream returned {len(data)} bytes where at most {size} were requested",
                hint="pass an object whose read(n) returns at most n bytes",
            )
        return data

    return take


class _Filler(io.RawIOBase):
    def __init__(self, fill: Callable[[memoryview], int]) -> None:
        self._fill = fill

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        return self._fill(memoryview(buffer)[:_STEP])


def read_into_new(fill: Callable[[memoryview], int], size: int) -> bytes:
    """Return up to ``size`` bytes from ``fill``, called for 1 MiB at a time until it returns 0."""
    if size <= _TRUSTED_SIZE:
        # A BufferedReader allocates bytes without zeroing them and fills them in place.
        return io.BufferedReader(_Filler(fill), 1).read(size)
    sink, buffer = io.BytesIO(), memoryview(bytearray(_STEP))
    while size and (count := fill(buffer[:size])):
        sink.write(buffer[:count])
        size -= count
    return sink.getvalue()


class PayloadStream(io.BufferedIOBase):
    """A file-like object that decodes a raw stream and returns only verified bytes.

    ``read(n)`` returns n bytes, except at the end. After an error, every call raises.
    """

    # Slots, because reading a few kilobytes takes only as long as about four attribute lookups.
    __slots__ = (
        *("_at", "_base", "_blocks", "_decoder", "_ended", "_pieces", "_raw", "_run"),
        *("_size", "_state", "_take", "_view", "_window"),
    )

    def __init__(self, raw: Any, decoder: PieceDecoder) -> None:
        self._raw, self._decoder = raw, decoder
        self._take = _chunks_of(raw)
        self._blocks = decoder if isinstance(decoder, BlockDecoder) else None
        self._pieces: Iterator[bytes] = iter(())
        self._ended = False
        self._run = _FIRST_RUN
        self._window, self._view = b"", memoryview(b"")
        self._size: int = 0  # size of the window
        self._at: int = 0
        self._base: int = 0  # payload bytes before the window
        self._state = ""

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes, fewer only at the end; if negative, all that remain."""
        at = self._at
        stop = at + (-1 if size is None else size)
        if at < stop <= self._size:
            self._at = stop
            return self._window[at:stop]
        self._check()
        missing = stop - at
        if not 0 <= missing <= _DIRECT:
            return read_into_new(self.readinto, missing if missing > 0 else 1 << 62)
        parts = []
        while missing and (self._at < self._size or self._refill()):
            part = self._window[self._at : self._at + missing]
            self._at += len(part)
            missing -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read1(self, size: int = -1) -> bytes:
        """Return available bytes, at most ``size``, reading the raw stream at most once."""
        self._check()
        if self._at == self._size:
            self._refill()
        left = self._size - self._at
        return self.read(left if size < 0 else min(size, left))

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer``, or stop at the end; return the number of bytes read."""
        self._check()
        target = memoryview(buffer).cast("B")
        done = 0
        while done < len(target):
            ready = min(self._size - self._at, len(target) - done)
            if ready:
                target[done : done + ready] = self._view[self._at : self._at + ready]
                self._at += ready
                done += ready
            elif len(target) - done >= _DIRECT and (
                count := self._guarded(self._fill, target[done:])
            ):
                self._base += count
                done += count
            elif not self._refill():
                break
        return done

    def peek(self, size: int = 1) -> bytes:
        """Return ``size`` bytes without consuming them; fewer only at the end."""
        self._check()
        while self._size - self._at < size and self.widen():
            pass
        return self._window[self._at : self._at + max(size, 0)]

    def tell(self) -> int:
        """Return the number of payload bytes consumed so far."""
        return self._base + self._at

    def readable(self) -> bool:
        """Whether the stream is open."""
        return not self.closed

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._state == "closed"

    def close(self) -> None:
        """Close this stream and the raw stream. Idempotent."""
        if not self.closed:
            self._state = "closed"
            self._set_window(b"")
            close_raw(self._raw)

    def widen(self) -> bool:
        """Append more payload to the unread part of the window; return ``False`` at the end."""
        more = self._guarded(self._next)
        base = self.tell()
        self._set_window(self._window[self._at :] + more)
        self._base = base
        return bool(more)

    def take_window(self, scan: Callable[[bytes, int], tuple[list[Any], int]]) -> list[Any]:
        """Scan the unread part of the window; return the results and consume what was scanned."""
        found, self._at = scan(self._window, self._at)
        return found

    @property
    def ready(self) -> int:
        """Number of bytes in the window that are not consumed yet."""
        return self._size - self._at

    def _refill(self) -> bool:
        window = self._guarded(self._next)
        if not window:
            return False
        self._base += self._size
        self._set_window(window)
        return True

    def _set_window(self, window: bytes) -> None:
        self._window, self._view = window, memoryview(window)
        self._size, self._at = len(window), 0

    def _guarded(self, step: Any, *arguments: Any) -> Any:
        self._state = "failed"  # remains "failed" if the step raises
        result = step(*arguments)
        self._state = ""
        return result

    def _check(self) -> None:
        if self._state == "closed":
            raise StateError("the stream is closed", hint="read it before closing it")
        if self._state:
            raise StateError(
                "the stream has already failed; data after a damaged part cannot be decoded"
            )

    def _next(self) -> bytes:
        """Return the next piece of payload, empty at the end."""
        while True:
            for piece in self._pieces:
                if piece:
                    return piece
            if self._ended:
                return b""
            # The first runs are short: a small blob costs little, and the first byte arrives early.
            chunk = self._take(self._run * STORED_SIZE)
            self._run = min(2 * self._run, _WINDOW_RUN)
            self._ended = not chunk
            if not chunk:
                self._pieces = self._decoder.pieces_eof()
            elif self._blocks is None:
                self._pieces = self._decoder.pieces(chunk)
            else:  # decode now, so that `_fill` may feed the decoder next
                self._pieces = iter((self._blocks.feed(chunk),))

    def _fill(self, target: memoryview) -> int:
        """Decode whole blocks into ``target``; return 0 if that is not possible."""
        if self._blocks is None:
            return 0
        count = 0
        self._run = _FIRST_RUN  # a small window next, so that the next large read is direct again
        while not count and not self._ended:
            chunk = self._take(min(len(target) // BLOCK_SIZE, _DIRECT_RUN) * STORED_SIZE)
            if chunk:
                count = self._blocks.feed_into(chunk, target)
            else:
                self._ended, self._pieces = True, self._decoder.pieces_eof()
        return count


class CrcStrippingStream(PayloadStream):
    """The verified payload of a stream of CRC32C blocks; linear time for any read size.

    Parameters
    ----------
    raw_stream
        The body as received: ``bytes``, or an object with ``read(n)``. Closed by `close`.

    Raises
    ------
    ChecksumError
        Raised by any read: a block does not match its checksum. The error's ``block`` and
        ``offset`` locate it.
    TruncatedError
        The body ends inside a block. Missing whole blocks at its end are detected by HTTP or by the
        frames (``docs/protocol.md`` section 6.3).

    Examples
    --------
    >>> from odps_nb.stream_io import CrcStrippingStream
    >>> body = bytes.fromhex("68656c6c6f 4cbb719a")
    >>> with CrcStrippingStream(body) as stream:
    ...     stream.peek(2), stream.read(4), stream.read()
    (b'he', b'hell', b'o')
    """

    __slots__ = ()

    def __init__(self, raw_stream: Any) -> None:
        super().__init__(raw_stream, BlockDecoder())


def open_payload(
    raw_stream: Any,
    content_encoding: str | Compression | None = None,
    *,
    max_output: int | None = None,
) -> PayloadStream:
    """Return the payload of a blob body; by default the stream's headers state the coding."""
    if content_encoding is None:
        headers = getattr(raw_stream, "headers", None) or {}
        content_encoding = find_header(headers, "content-encoding")
    coding = coding_of(content_encoding)
    if coding is Compression.NONE:
        return CrcStrippingStream(raw_stream)
    return PayloadStream(raw_stream, PayloadDecoder(coding, max_output=max_output))
