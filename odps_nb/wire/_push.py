"""The shape of every push decoder of this floor (no I/O, no clock, no threads).

``feed`` and ``feed_eof`` give what the bytes so far say; nothing else happens. After an error,
or after ``feed_eof``, a decoder stays dead: the bytes behind a defect mean nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from odps_nb.errors import StateError

__all__ = ["BytesLike", "PieceDecoder", "PushDecoder"]

BytesLike = bytes | bytearray | memoryview

Out = TypeVar("Out")


class PushDecoder(ABC, Generic[Out]):
    """Bytes in, values out; a subclass fills in ``_feed`` and ``_feed_eof``."""

    __slots__ = ("_alive", "_ended")

    def __init__(self) -> None:
        self._alive = True
        self._ended = False

    def feed(self, chunk: BytesLike) -> Out:
        """Take any bytes, cut anywhere.

        Raises
        ------
        ProtocolError
            When the bytes break the format; the decoder is dead from then on.
        StateError
            When the decoder has failed or ended before.
        """
        self._enter()
        out = self._feed(chunk)
        self._alive = True
        return out

    def feed_eof(self) -> Out:
        """Say that no byte follows; what was withheld is given, or its end is missing.

        Raises
        ------
        TruncatedError
            When the bytes stop before the format does.
        StateError
            When the decoder has failed or ended before.
        """
        self._enter()
        out = self._feed_eof()
        self._ended = True
        return out

    def _enter(self) -> None:
        if self._ended:
            raise StateError("this decoder has already seen the end of its stream")
        if not self._alive:
            raise StateError("this decoder failed before; what follows a defect means nothing")
        self._alive = False  # until the step that follows has succeeded

    @abstractmethod
    def _feed(self, chunk: BytesLike) -> Out: ...

    @abstractmethod
    def _feed_eof(self) -> Out: ...


class PieceDecoder(PushDecoder[bytes]):
    """A decoder whose output can be far larger than its input, and so comes in pieces."""

    __slots__ = ()

    def pieces(self, chunk: BytesLike) -> Iterator[bytes]:
        """Give what ``feed`` would give, piece by piece; none of them fills the memory.

        To be used up before the next call: a decoder left half-way is dead.
        """
        self._enter()
        yield from self._pieces(memoryview(chunk).cast("B"))
        self._alive = True

    def pieces_eof(self) -> Iterator[bytes]:
        """Give what ``feed_eof`` would give, piece by piece."""
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
