"""Base classes of this package's push decoders (no I/O, no clock, no threads).

``feed`` and ``feed_eof`` return the output that can be decoded so far and do nothing else. After an
error or after ``feed_eof``, every call raises `StateError`, because bytes after damage cannot be
decoded reliably.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from odps_nb.errors import StateError

BytesLike = bytes | bytearray | memoryview

Out = TypeVar("Out")


class PushDecoder(ABC, Generic[Out]):
    """Base class of incremental byte decoders; a subclass defines ``_feed`` and ``_feed_eof``."""

    __slots__ = ("_alive", "_ended")

    def __init__(self) -> None:
        self._alive = True
        self._ended = False

    def feed(self, chunk: BytesLike) -> Out:
        """Decode the next bytes; chunks may end anywhere."""
        self._enter()
        out = self._feed(chunk)
        self._alive = True
        return out

    def feed_eof(self) -> Out:
        """Declare the end of input; return the remaining output, or raise if input is missing."""
        self._enter()
        out = self._feed_eof()
        self._ended = True
        return out

    def _enter(self) -> None:
        if self._ended:
            raise StateError("this decoder has already reached the end of its stream")
        if not self._alive:
            raise StateError("this decoder has failed; bytes after an error cannot be decoded")
        self._alive = False  # reset if the decoding step succeeds

    @abstractmethod
    def _feed(self, chunk: BytesLike) -> Out: ...

    @abstractmethod
    def _feed_eof(self) -> Out: ...


class PieceDecoder(PushDecoder[bytes]):
    """Base class of decoders whose output can be far larger than their input."""

    __slots__ = ()

    def pieces(self, chunk: BytesLike) -> Iterator[bytes]:
        """Yield the output of ``feed`` in pieces of bounded size.

        Consume the iterator fully before the next call; otherwise every later call raises
        `StateError`.
        """
        self._enter()
        yield from self._pieces(memoryview(chunk).cast("B"))
        self._alive = True

    def pieces_eof(self) -> Iterator[bytes]:
        """Yield the output of ``feed_eof`` in pieces."""
        self._enter()
        yield from self._pieces_eof()
        self._ended = True

    def _feed(self, chunk: BytesLike) -> bytes:
        return _joined(self._pieces(memoryview(chunk).cast("B")))

    def _feed_eof(self) -> bytes:
        return _joined(self._pieces_eof())

    @abstractmethod
    def _pieces(self, chunk: memoryview) -> Iterator[bytes]: ...

    @abstractmethod
    def _pieces_eof(self) -> Iterator[bytes]: ...


def _joined(pieces: Iterator[bytes]) -> bytes:
    parts = [*pieces]
    return parts[0] if len(parts) == 1 else b"".join(parts)
