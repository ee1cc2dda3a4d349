"""Reads the payload of a blob body as file-like streams (face: pulls, on demand).

A stream buffers one window of verified payload for small reads; large reads go from the run of
blocks straight into their target.
"""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from odps_nb._stream_io.raw import close_raw, content_encoding_of, read_some, runs_of
from odps_nb.errors import StateError
from odps_nb.terms import Compression
from odps_nb.wire._push import PieceDecoder
from odps_nb.wire.blocks import (
    BLOCK_SIZE,
    RUN_BLOCKS,
    STORED_SIZE,
    strip_into,
    strip_trailers,
    verify_blocks,
    verify_tail,
)
from odps_nb.wire.codings import coding_of
from odps_nb.wire.layers import PayloadDecoder

__all__ = ["CrcStrippingStream", "DecodedStream", "PayloadStream", "open_payload"]

_CHUNK = 64 << 10
_DIRECT = 64 << 10  # smaller reads come from the window
_FIRST_RUN = 16
_WINDOW_RUN = 128  # blocks of a window: 512 KiB fit into the cache of a core
_WATCHED = 1 << 20
_TRUSTED_SIZE = 64 << 20  # up to this, memory is allocated at once; beyond, as the bytes arrive


class PayloadStream(io.BufferedIOBase):
    """File-like reads over windows of payload; ``read(n)`` returns n bytes except at the end.

    Every byte that is returned was verified. After an error the stream refuses every call.
    """

    # Slots, because a read of a few kilobytes takes no longer than four attribute lookups.
    __slots__ = ("_at", "_base", "_raw", "_size", "_state", "_view", "_window")

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._window = b""
        self._view = memoryview(b"")  # of the window
        self._size = 0  # of the window
        self._at = 0
        self._base = 0  # payload bytes in front of the window
        self._state = ""

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes, fewer only at the end; all that is left when negative."""
        at = self._at
        stop = at + (-1 if size is None else size)
        if at < stop <= self._size:
            self._at = stop
            return self._window[at:stop]
        return self._read_across(stop - at)

    def read1(self, size: int = -1) -> bytes:
        """Return what is ready, at most ``size`` bytes, reading the raw stream once at most."""
        self._check()
        if self._at == self._size:
            self._refill()
        left = self._size - self._at
        return self.read(left if size < 0 else min(size, left))

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer``, less only at the end; return the number of bytes."""
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
        parts = [self._window[self._at :]]
        have, at = len(parts[0]), self.tell()
        while have < size and self._refill():
            parts.append(self._window)
            have += self._size
        self._set_window(b"".join(parts))
        self._base = at
        return self._window[: max(size, 0)]

    def tell(self) -> int:
        """Return how many payload bytes were consumed."""
        return self._base + self._at

    def readable(self) -> bool:
        """Whether it is open."""
        return not self.closed

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._state == "closed"

    def close(self) -> None:
        """Close the raw stream too. Idempotent."""
        if not self.closed:
            self._state = "closed"
            self._set_window(b"")
            close_raw(self._raw)

    def _read_across(self, size: int) -> bytes:
        self._check()
        if size < 0 or size > _TRUSTED_SIZE:
            return self._read_growing(size)
        if size > _DIRECT:
            # A BufferedReader allocates bytes without zeroing them and fills them in place.
            return io.BufferedReader(_Filler(self), 1).read(size)
        parts, missing = [], size
        while missing and (self._at < self._size or self._refill()):
            part = self._window[self._at : self._at + missing]
            self._at += len(part)
            missing -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_watched(self, size: int, watch: Callable[[memoryview], None]) -> bytes:
        """Return what ``read`` would; pass each part to ``watch`` while it is in the cache."""
        if not _DIRECT < size <= _TRUSTED_SIZE:
            data = self.read(size)
            watch(memoryview(data))
            return data
        self._check()
        return io.BufferedReader(_Filler(self, watch), 1).read(size)

    def _read_growing(self, size: int) -> bytes:
        sink = io.BytesIO()
        while size and (self._at < self._size or self._refill()):
            part = (
                self._window[self._at :] if size < 0 else self._window[self._at : self._at + size]
            )
            self._at += len(part)
            size -= 0 if size < 0 else len(part)
            sink.write(part)
        return sink.getvalue()

    def _refill(self) -> bool:
        window = self._guarded(self._next)
        if not window:
            return False
        self._base += self._size
        self._set_window(window)
        return True

    def _widen(self) -> bool:
        """Append the next payload to the rest of the window; ``False`` at the end."""
        more = self._guarded(self._next)
        at, rest = self.tell(), self._window[self._at :]
        self._set_window(rest + more)
        self._base = at
        return bool(more)

    def _set_window(self, window: bytes) -> None:
        self._window, self._view = window, memoryview(window)
        self._size, self._at = len(window), 0

    def _guarded(self, step: Any, *arguments: Any) -> Any:
        self._state = "failed"  # until the step has succeeded
        result = step(*arguments)
        self._state = ""
        return result

    def _check(self) -> None:
        if self._state == "closed":
            raise StateError("the stream is closed", hint="read it before closing it")
        if self._state:
            raise StateError("the stream failed before; bytes after a defect cannot be decoded")

    @abstractmethod
    def _next(self) -> bytes:
        """Return the next payload, empty at the end."""

    def _fill(self, target: memoryview) -> int:
        """Write payload straight into ``target``; return 0 when that is not possible."""
        return 0


class _Filler(io.RawIOBase):
    """Adapter for `BufferedReader`, which lets a `PayloadStream` fill new bytes in place."""

    def __init__(
        self, stream: PayloadStream, watch: Callable[[memoryview], None] | None = None
    ) -> None:
        self._stream, self._watch = stream, watch

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._watch is None:
            return self._stream.readinto(buffer)
        count = self._stream.readinto(memoryview(buffer)[:_WATCHED])
        self._watch(memoryview(buffer)[:count])
        return count


class CrcStrippingStream(PayloadStream):
    """Payload of a stream of CRC32C blocks: verified, linear, at every read size.

    Parameters
    ----------
    raw_stream
        The body as it came, with ``read(n)``; ``bytes`` will do. Closed by `close`.

    Raises
    ------
    ChecksumError
        Any read may: a block does not match; ``block`` and ``offset`` say which.
    TruncatedError
        The body ends inside a block. An end behind a whole block is for HTTP or the frames to
        judge (``docs/protocol.md`` section 6.3).

    Examples
    --------
    >>> from odps_nb.stream_io import CrcStrippingStream
    >>> body = bytes.fromhex("68656c6c6f 4cbb719a")
    >>> with CrcStrippingStream(body) as stream:
    ...     stream.peek(2), stream.read(4), stream.read()
    (b'he', b'hell', b'o')
    """

    __slots__ = ("_blocks", "_ended", "_run", "_runs")

    def __init__(self, raw_stream: Any) -> None:
        super().__init__(raw_stream)
        self._runs = runs_of(raw_stream)
        self._blocks = 0
        self._run = _FIRST_RUN
        self._ended = False

    def _take(self, blocks: int) -> tuple[memoryview, int]:
        stored = self._runs.take(blocks)
        count = len(stored) // STORED_SIZE
        verify_blocks(stored, count, first_block=self._blocks)
        self._blocks += count
        return stored, count

    def _next(self) -> bytes:
        if self._ended:
            return b""
        # Runs begin small, so that a small blob costs little and the first byte comes early.
        stored, count = self._take(self._run)
        self._run = min(2 * self._run, _WINDOW_RUN)
        if count:
            return strip_trailers(stored, count)
        return self._end()

    def _end(self) -> bytes:
        self._ended = True
        tail = self._runs.tail
        return verify_tail(tail, block=self._blocks) if len(tail) else b""

    def _fill(self, target: memoryview) -> int:
        if self._ended:
            return 0
        stored, count = self._take(min(len(target) // BLOCK_SIZE, RUN_BLOCKS))
        self._run = _FIRST_RUN  # then a small window, so that the next large read is direct, too
        if count:
            return strip_into(stored, count, target)
        last = self._end()  # shorter than a block, so it fits
        target[: len(last)] = last
        return len(last)


class DecodedStream(PayloadStream):
    """A raw stream, decoded by a push decoder.

    Parameters
    ----------
    raw_stream
        Anything with ``read(n)``; ``bytes`` will do.
    decoder
        Fresh.
    """

    __slots__ = ("_decoder", "_ended", "_pieces", "_source")

    def __init__(self, raw_stream: Any, decoder: PieceDecoder) -> None:
        super().__init__(raw_stream)
        in_memory = isinstance(raw_stream, (bytes, bytearray, memoryview))
        self._source = io.BytesIO(raw_stream) if in_memory else raw_stream
        self._decoder = decoder
        self._pieces: Iterator[bytes] = iter(())
        self._ended = False

    def _next(self) -> bytes:
        while True:
            for piece in self._pieces:
                if piece:
                    return piece
            if self._ended:
                return b""
            chunk = read_some(self._source, _CHUNK)
            self._ended = not chunk
            self._pieces = self._decoder.pieces(chunk) if chunk else self._decoder.pieces_eof()


def open_payload(
    raw_stream: Any,
    content_encoding: str | Compression | None = None,
    *,
    max_output: int | None = None,
) -> PayloadStream:
    """Return the payload of a blob body.

    Parameters
    ----------
    raw_stream
        The body as it came, CRC blocks and coding included.
    content_encoding
        The header's value; ``None`` takes it from the stream's own headers, if it has any.
    max_output
        Bytes that the coding may decode to.
    """
    given = content_encoding if content_encoding is not None else content_encoding_of(raw_stream)
    coding = coding_of(given)
    if coding is Compression.NONE:
        return CrcStrippingStream(raw_stream)
    return DecodedStream(raw_stream, PayloadDecoder(coding, max_output=max_output))
