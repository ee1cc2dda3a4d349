"""Keeps bytes that arrive front to back: some in memory, more in an unnamed file."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator

from odps_nb.client.blob_cache import read_file
from odps_nb.errors import ConfigError

MEMORY = 8 << 20
"""Bytes of a blob that stay in memory; with one more, all of it is in a file."""
_PIECE = 1 << 20


class Spool:
    """Takes bytes at its end, and gives those at any place."""

    def __init__(self, *, memory: int = MEMORY) -> None:
        self._memory = memory
        self.size: int = 0
        """Bytes that were appended."""
        self._file: io.BytesIO | io.FileIO = io.BytesIO()

    @property
    def on_disk(self) -> bool:
        """Whether they are in a file."""
        return not isinstance(self._file, io.BytesIO)

    def append(self, piece: bytes) -> None:
        """Add bytes; after an error or an interrupt none of them is there."""
        try:
            if not self.on_disk and self.size + len(piece) > self._memory:
                self._move()
            self._file.seek(self.size)
            _write(self._file, piece)
        except OSError as error:
            raise ConfigError(
                f"a blob cannot be kept in a temporary file: {error.strerror}",
                option="TMPDIR",
                hint="free some space, or set TMPDIR to a folder with space for the whole blob",
            ) from error
        self.size += len(piece)

    def read_at(self, place: int, view: memoryview) -> int:
        """Fill ``view`` with the bytes from ``place`` on; return how many there were."""
        return read_file(self._file, place, view[: max(0, self.size - place)])

    def pieces(self) -> Iterator[bytes]:
        """Iterate over all bytes."""
        for place in range(0, self.size, _PIECE):
            piece = bytearray(min(_PIECE, self.size - place))
            self.read_at(place, memoryview(piece))
            yield bytes(piece)

    def close(self) -> None:
        """Free memory and file. Idempotent."""
        self._file.close()

    def _move(self) -> None:
        # unbuffered: a forked child would write the rest of a buffer again
        file = tempfile.TemporaryFile(prefix="odps-nb-", buffering=0)  # noqa: SIM115  closed by close()
        try:
            assert isinstance(self._file, io.BytesIO)  # it is moved once
            with self._file.getbuffer() as held:
                _write(file, held[: self.size])
        except BaseException:
            file.close()
            raise
        self._file.close()
        self._file = file


def _write(file: io.BytesIO | io.FileIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
