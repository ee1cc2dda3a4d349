"""Computes how much memory a compressed Arrow body will need, before it is decompressed.

::

    | i64 LE: bytes when decompressed, -1: as it is | data |   … one per buffer that is not empty

A body of 100 kB may declare gigabytes, and Arrow allocates what is declared.
"""

from __future__ import annotations

from odps_nb.errors import FramingError, LimitExceededError
from odps_nb.wire._ipc_message import IpcMessage

PROMISE = 8
FREE_LENGTH = 1 << 20
"""Values of a column without bytes, such as nulls, that are accepted in any case."""
_BITS = 8


class BodyNeeds:
    """Adds up the decompressed sizes that the buffers of a body declare, while it is read.

    Raises `LimitExceededError`: of `feed` and of the constructor: the buffers need more than
    ``limit`` bytes together, or columns are longer than their bytes can account for;
    `FramingError`: of `feed`: a length is negative.
    """

    __slots__ = ("_at", "_held", "_limit", "_longest", "_next", "_promised", "_promises", "_stored")

    def __init__(self, message: IpcMessage, limit: int) -> None:
        self._promises, self._stored, self._longest = (
            message.promises,
            message.stored,  # no more than the body, which has a limit of its own
            message.longest,
        )
        self._limit = limit
        self._at = self._next = self._promised = 0
        self._held = bytearray()
        if self.known:
            self._check_lengths()

    @property
    def known(self) -> bool:
        """Whether all declared sizes have been read."""
        return self._next == len(self._promises)

    def feed(self, view: memoryview) -> None:
        """Read the next bytes of the body, cut anywhere."""
        end = self._at + len(view)
        while not self.known:
            start = self._promises[self._next] + len(self._held)
            if start >= end:
                break
            skipped = start - self._at
            self._held += view[skipped : skipped + PROMISE - len(self._held)]
            if len(self._held) < PROMISE:
                break
            self._count(int.from_bytes(self._held, "little", signed=True))
            self._held.clear()
            self._next += 1
            if self.known:
                self._check_lengths()
        self._at = end

    def _count(self, promised: int) -> None:
        if promised < -1:
            raise FramingError(f"an Arrow buffer declares a decompressed size of {promised} bytes")
        self._promised += max(0, promised)
        if self._promised > self._limit:
            raise LimitExceededError(
                f"an Arrow batch of {self._stored} bytes needs {self._promised} or more when it is "
                f"decompressed, more than {self._limit}",
                limit=self._limit,
                actual=self._promised,
                hint="read in smaller batches; or the stream is damaged",
            )

    def _check_lengths(self) -> None:
        size = self._stored + self._promised
        accounted = max(FREE_LENGTH, _BITS * size)
        if self._longest > accounted:
            raise LimitExceededError(
                f"an Arrow batch of {size} bytes claims a column of {self._longest} values",
                limit=accounted,
                actual=self._longest,
                hint="read in smaller batches; or the stream is damaged",
            )
