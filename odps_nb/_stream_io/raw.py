"""Reads raw byte streams as runs of whole blocks (face: pulls, on demand).

A raw stream is anything with ``read(n)``. One with ``readinto`` saves a copy, and one in memory
(`io.BytesIO`, ``bytes``) is not copied at all.
"""

from __future__ import annotations

import io
from typing import Any, Protocol

from odps_nb.errors import StateError
from odps_nb.wire.blocks import STORED_SIZE
from odps_nb.wire.calls.core import find_header

__all__ = ["RawStream", "Runs", "close_raw", "content_encoding_of", "read_some", "runs_of"]


class RawStream(Protocol):
    """The undecoded body of a response: at most ``size`` bytes a call, none at the end."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""


class Runs(Protocol):
    """Whole blocks, contiguous in memory."""

    tail: bytes | memoryview

    def take(self, blocks: int) -> memoryview:
        """Return 1…``blocks`` whole blocks, valid until the next call; none at the end.

        At the end ``tail`` holds the last, short block.
        """


class _MemoryRuns:
    """Runs of a body in memory: nothing is copied."""

    def __init__(self, raw: io.BytesIO | bytes | bytearray | memoryview) -> None:
        self._raw = raw if isinstance(raw, io.BytesIO) else None
        # getvalue() shares the buffer instead of copying it, and does not lock it as getbuffer().
        self._view = memoryview(raw.getvalue() if isinstance(raw, io.BytesIO) else raw).cast("B")
        self._at = raw.tell() if isinstance(raw, io.BytesIO) else 0
        self.tail: bytes | memoryview = b""

    def take(self, blocks: int) -> memoryview:
        whole = min(blocks, (len(self._view) - self._at) // STORED_SIZE)
        start = self._at
        if whole:
            self._at += whole * STORED_SIZE
        else:
            self.tail, self._at = self._view[start:], len(self._view)
        if self._raw is not None:
            self._raw.seek(self._at)
        return self._view[start : start + whole * STORED_SIZE]


class _CopiedRuns:
    """Runs of a stream, read into one buffer that is reused."""

    def __init__(self, raw: Any) -> None:
        self._buffer = memoryview(b"")
        self._readinto = raw.readinto if hasattr(raw, "readinto") else _reading_into(raw)
        self._rest = memoryview(b"")
        self.tail: bytes | memoryview = b""

    def take(self, blocks: int) -> memoryview:
        have, rest = len(self._rest), self._rest
        wanted = max(blocks * STORED_SIZE, have)
        if len(self._buffer) < wanted:
            self._buffer = memoryview(bytearray(wanted))
        self._buffer[:have] = rest
        while have < STORED_SIZE:
            count = self._readinto(self._buffer[have:wanted])
            if not count:
                self._rest, self.tail = memoryview(b""), bytes(self._buffer[:have])
                return self._rest
            have += count
        run = have // STORED_SIZE * STORED_SIZE
        self._rest = self._buffer[run:have]
        return self._buffer[:run]


def _reading_into(raw: RawStream) -> Any:
    def readinto(view: memoryview) -> int:
        data = read_some(raw, len(view))
        view[: len(data)] = data
        return len(data)

    return readinto


def read_some(raw: RawStream, size: int) -> bytes:
    """Read at most ``size`` bytes; a stream that returns more is refused."""
    data = raw.read(size)
    if len(data) > size:
        raise StateError(
            f"the raw stream returned {len(data)} bytes where at most {size} were requested",
            hint="pass an object whose read(n) returns at most n bytes",
        )
    return data


def runs_of(raw: Any) -> Runs:
    """Return the cheapest reader of whole blocks for ``raw``."""
    if type(raw) is io.BytesIO or isinstance(raw, (bytes, bytearray, memoryview)):
        return _MemoryRuns(raw)
    if not hasattr(raw, "read"):
        raise TypeError(f"{type(raw).__name__} is not a raw stream: it has no read(n)")
    return _CopiedRuns(raw)


def content_encoding_of(raw: Any) -> str | None:
    """Return the ``Content-Encoding`` of a response body, if it has headers."""
    return find_header(getattr(raw, "headers", None) or {}, "content-encoding")


def close_raw(raw: Any) -> None:
    """Close ``raw`` if it has ``close``."""
    close = getattr(raw, "close", None)
    if close is not None:
        close()
