"""Base class of binary files whose bytes arrive in pieces, front to back."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from odps_nb.errors import StateError


class PieceFile(io.RawIOBase):
    """A binary file with `read`, `readinto`, `pieces` and `close`, not seekable; holds one piece.

    Unlike other raw files, `read` gives fewer bytes than asked for only at the end.
    """

    when_closed: ClassVar[str] = "open it again"
    """Hint of the error when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._piece = memoryview(b"")
        self._at = 0  # bytes that were read

    @abstractmethod
    def _next_piece(self) -> bytes | memoryview | None:
        """Return the next piece, which may be empty; ``None`` at the end."""

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``, unless the blob ends first; return the number of bytes."""
        view = memoryview(buffer).cast("B")
        at = 0
        while at < len(view) and self._load():
            part = self._piece[: len(view) - at]
            view[at : at + len(part)] = part
            self._piece = self._piece[len(part) :]
            at += len(part)
            self._at += len(part)
        return at

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes, fewer only at the end; the rest when negative or ``None``."""
        if size is None or size < 0:
            return self.readall()
        buffer = bytearray(size)
        count = self.readinto(buffer)
        del buffer[count:]
        return bytes(buffer)

    def readall(self) -> bytes:
        """Return all that is left."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Iterate over what is left, in pieces as they arrive."""
        while self._load():
            piece, self._piece = self._piece, memoryview(b"")
            self._at += len(piece)
            yield bytes(piece)

    def close(self) -> None:
        """Drop what was not read. Idempotent."""
        self._piece = memoryview(b"")
        super().close()

    def _load(self) -> bool:
        """Load the next piece if none is left; return ``False`` at the end."""
        if self.closed:
            raise StateError("the blob is closed", hint=self.when_closed)
        while not self._piece:
            piece = self._next_piece()
            if piece is None:
                return False
            self._piece = memoryview(piece)
        return True
