"""Files that a browser sends in pieces, kept in a private folder until they are written.

What a browser says of a file is untrusted text: it never names a file of this machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odps_nb.access.writing.folder_files import FolderFile
from odps_nb.errors import ArgumentError, ConfigError, FramingError
from odps_nb.terms import format_bytes

PIECE = 1 << 20
"""Bytes of one message: Jupyter's server closes the connection over messages of 10 MiB."""
MAX_FILES = 10_000
MAX_NAME = 1000
_SPARE = 1 << 30  # bytes of the disk that are left to others


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A file as the browser announces it; ``modified`` in nanoseconds of UTC."""

    name: str
    size: int
    modified: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Announced:
        """Check what was told."""
        name = str(told["name"]).replace("/", "_").encode("utf-8", "replace").decode()
        size, modified = int(told["size"]), int(float(told["modified"]) * 1_000_000)
        if not name or len(name) > MAX_NAME or size < 0:
            raise ArgumentError(f"the browser announces {name[:80]!r} of {size} bytes")
        return cls(name=name, size=size, modified=min(max(modified, 0), 2**63 - 1))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A piece that the browser should send: of which file, and which bytes."""

    file: int
    start: int
    size: int


class PickedFiles:
    """The files of one upload. They come piece by piece, each once and in order.

    Iterating gives them as those of a folder; `close` removes them.
    """

    def __init__(self, announced: Sequence[Announced]) -> None:
        if not 0 < len(announced) <= MAX_FILES:
            raise ArgumentError(
                f"{len(announced):,} files were chosen",
                argument="files",
                hint=f"choose 1 to {MAX_FILES:,}; a folder of more is for odps.write_files(folder)",
            )
        self.announced: tuple[Announced, ...] = tuple(announced)
        self._folder = tempfile.TemporaryDirectory(prefix="odps-nb-upload-")
        self._came = [0] * len(announced)
        self._pieces = self.wanted()
        self._next = next(self._pieces, None)
        total, free = sum(one.size for one in announced), shutil.disk_usage(self._folder.name).free
        if total + _SPARE > free:
            self.close()
            raise ConfigError(
                f"the files have {format_bytes(total)}, and {self._folder.name} has room for "
                f"{format_bytes(max(0, free - _SPARE))}",
                option="TMPDIR",
                hint="choose fewer files, or set TMPDIR to a larger disk",
            )
        for number in range(len(announced)):
            self._path(number).touch(mode=0o600)

    @property
    def is_whole(self) -> bool:
        """Whether all bytes of all files are here."""
        return all(one.size == came for one, came in zip(self.announced, self._came, strict=True))

    def wanted(self) -> Iterator[Wanted]:
        """Iterate over the pieces that the browser has to send, in order."""
        for number, one in enumerate(self.announced):
            for start in range(0, one.size, PIECE):
                yield Wanted(number, start, min(PIECE, one.size - start))

    def put(self, piece: Wanted, data: bytes | memoryview) -> None:
        """Keep a piece."""
        if piece != self._next or len(data) != piece.size:
            raise FramingError(
                f"{self.announced[piece.file].name} changed while it was sent",
                hint="choose it again when nothing else writes to it",
            )
        with self._path(piece.file).open("ab", buffering=0) as file:
            file.write(data)
        self._came[piece.file] += piece.size
        self._next = next(self._pieces, None)

    def check(self) -> tuple[int, int]:
        """Return the number of files and their bytes."""
        return len(self.announced), sum(one.size for one in self.announced)

    def __iter__(self) -> Iterator[FolderFile]:
        for number, one in enumerate(self.announced):
            file = self._path(number)
            os.utime(file, ns=(one.modified, one.modified))
            modified = file.stat().st_mtime_ns  # as finely as this disk keeps it
            yield FolderFile(file=file, path=one.name, size=one.size, modified=modified)

    def close(self) -> None:
        """Remove the files. Idempotent."""
        self._folder.cleanup()

    def _path(self, number: int) -> Path:
        return Path(os.path.realpath(self._folder.name), str(number))
