"""Caches row files as uncompressed Arrow files, which can be memory-mapped without decoding.

The Parquet files are authoritative. The cache is limited in size, and any file may be missing from
it. Cached files are not flushed to disk, so all of them are deleted after an unclean shutdown.
"""

from __future__ import annotations

import re
import shutil
from collections import OrderedDict
from pathlib import Path
from threading import Lock

import pyarrow as pa

LIMIT = 2 << 30
SMALLEST = 256 << 10
MAPPED = 1 << 30
"""Maximum number of bytes to keep mapped. The system reclaims this memory when necessary."""
FREE_SHARE = 0.25
_NAME = re.compile(r"[0-9a-f]{32}[nu]?\.arrow", re.ASCII)


class ArrowCache:
    """A cache in one folder, limited to ``limit`` bytes and to a quarter of the free disk space."""

    def __init__(self, folder: Path, *, limit: int = LIMIT) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._clean = folder / "clean"
        if not self._clean.exists():
            for path in folder.iterdir():
                if _NAME.fullmatch(path.name):
                    path.unlink()
        self._clean.unlink(missing_ok=True)
        self._limit = min(limit, int(shutil.disk_usage(folder).free * FREE_SHARE))
        self._lock = Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._mapped: OrderedDict[str, pa.Buffer] = OrderedDict()
        self.scan()

    def scan(self) -> None:
        """Register the cached files in the folder, oldest first."""
        files = sorted(self._folder.glob("*.arrow"), key=lambda path: path.stat().st_mtime)
        with self._lock:
            self._sizes = OrderedDict((path.stem, path.stat().st_size) for path in files)

    def admit(self, name: str, work_file: Path) -> None:
        """Move a finished Arrow file into the cache, or delete it if its size is unsuitable."""
        size = work_file.stat().st_size
        if not SMALLEST <= size <= self._limit:
            work_file.unlink()
            return
        with self._lock:
            while self._sizes and sum(self._sizes.values()) + size > self._limit:
                self._forget(next(iter(self._sizes)))
            work_file.replace(self._path(name))
            self._sizes[name] = size

    def open(self, name: str) -> pa.BufferReader | None:
        """Return the mapped Arrow file of a row file, or ``None`` if it is not cached."""
        with self._lock:
            if name not in self._sizes:
                return None
            self._sizes.move_to_end(name)
            content = self._mapped.get(name)
            if content is None:
                try:
                    content = pa.memory_map(str(self._path(name))).read_buffer()
                except FileNotFoundError:  # another thread deleted it
                    return None
                self._keep(name, content)
            self._mapped.move_to_end(name)
        return pa.BufferReader(content)

    def drop(self, name: str) -> None:
        """Remove a row file from the cache; running reads keep their mapping."""
        with self._lock:
            self._forget(name)

    def _keep(self, name: str, content: pa.Buffer) -> None:
        self._mapped[name] = content
        while len(self._mapped) > 1 and sum(b.size for b in self._mapped.values()) > MAPPED:
            self._mapped.popitem(last=False)

    def _forget(self, name: str) -> None:
        self._mapped.pop(name, None)
        if self._sizes.pop(name, None) is not None:
            self._path(name).unlink(missing_ok=True)

    def close(self) -> None:
        """Mark the cache as cleanly closed, so that the next start keeps its files."""
        self._mapped.clear()
        self._clean.touch()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.arrow"
