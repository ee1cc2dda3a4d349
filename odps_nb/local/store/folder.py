"""The folder of one service: layout, lock, access keys, crash-safe file writing.

    ROOT/                    0700
      lock                   locked by the process that serves the folder
      access_key.json        0600: the access keys of this service
      catalog.sqlite         the catalog: tables, partitions, visible files
      rows/<id>.parquet      row files
      hot/<id>.arrow         cached copies of row files in Arrow format
      blobs/<id>.pack        the body of one blob upload, including frames
      work/                  unfinished bodies and files
      unknown/               files left behind by a crash

Files in ``rows`` and ``blobs`` are written in ``work``, synced to disk and renamed. Each name
begins with `DataFolder.run`, the id of the run of the service that created the file. The catalog
records these runs (see ``ledger``).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from odps_nb.errors import ConfigError
from odps_nb.local.store.arrow_cache import ArrowCache
from odps_nb.local.store.group_starts import StartsCache
from odps_nb.secret import make_private

log = logging.getLogger("odps_nb.local")

ROWS, PACK = ".parquet", ".pack"
_FINAL_NAME = re.compile(r"[0-9a-f]{32}[nu]?\.(parquet|pack)", re.ASCII)
# Startup deletes only files with these names, because the folder may contain the user's files.
_WORK_NAME = re.compile(r"[0-9a-f]{32}\.[a-z]+|spill-[0-9a-f]{32}", re.ASCII)


def new_id() -> str:
    """Return a random id for a file or session: 32 hexadecimal digits."""
    return secrets.token_hex(16)


class DataFolder:
    """A locked service folder, created if missing. `close` unlocks it and keeps the files.

    Raises `ConfigError` if another process serves the folder. If ``durable``, finished files are
    synced to disk (``fsync``) before they are published.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root.absolute()
        self.rows, self.blobs = self.root / "rows", self.root / "blobs"
        self.work, self.catalog = self.root / "work", self.root / "catalog.sqlite"
        self.durable = durable
        self.run = secrets.token_hex(4)
        """The prefix of the names of all files that this object publishes."""
        self._lock = -1
        try:
            self._open()
        except OSError as error:
            self._unlock()
            raise ConfigError(
                f"the folder {self.root} cannot be served: {error.strerror or error}",
                option="root",
                hint="pass a writable or a new folder",
            ) from error
        except BaseException:
            self._unlock()
            raise

    def _open(self) -> None:
        make_private(self.root)
        self.root.chmod(0o700)
        self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._take_lock()
        self.work.mkdir(mode=0o700, exist_ok=True)
        if not self.has_catalog:
            self.make_places()
        # Delete the unfinished files of requests that the previous process did not complete.
        for path in self.work.iterdir():
            if _WORK_NAME.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.hot = ArrowCache(self.root / "hot")
        self.starts = StartsCache()

    def make_places(self) -> None:
        """Create the folders for data files if they are missing."""
        for part in (self.rows, self.blobs):
            part.mkdir(mode=0o700, exist_ok=True)

    @property
    def has_catalog(self) -> bool:
        """Whether the SQLite file exists and is not empty."""
        return self.catalog.exists() and self.catalog.stat().st_size > 0

    def row_file(self, name: str) -> Path:
        """Return the path of a row file by its id."""
        return self.rows / f"{_checked(name)}.parquet"

    def blob_pack(self, name: str) -> Path:
        """Return the path of a blob pack by its id."""
        return self.blobs / f"{_checked(name)}.pack"

    def work_file(self, suffix: str) -> Path:
        """Return a new path for an unfinished file."""
        return self.work / f"{new_id()}{suffix}"

    def publish(self, work_file: Path, final: Path) -> None:
        """Rename a finished file to its final path, syncing it and its folder if durable."""
        self._sync(work_file)
        work_file.replace(final)
        self._sync(final.parent)

    def publish_data(self, work_file: Path, place: Callable[[str], Path], ending: str = "") -> str:
        """Move a finished row file or pack to the path that ``place`` returns for its new id."""
        name = self.run + secrets.token_hex(12) + ending
        self.publish(work_file, place(name))
        return name

    def drop(self, file_names: Iterable[str]) -> None:
        """Delete data files. The catalog must no longer list them."""
        for name in file_names:
            path = self.place_of(name)
            try:
                if path.suffix == ROWS:
                    self.hot.drop(path.stem)
                path.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s could not be deleted: %s", path, error)

    def set_aside(self, file_names: Collection[str]) -> None:
        """Move data files into the folder ``unknown``."""
        if file_names:
            aside = self.root / "unknown"
            log.warning("moving %s unfinished data files to %s", len(file_names), aside)
            aside.mkdir(mode=0o700, exist_ok=True)
            for name in file_names:
                self.place_of(name).replace(aside / name)

    def place_of(self, file_name: str) -> Path:
        """Return the path of a row file or pack by its file name."""
        stem, _, kind = file_name.partition(".")
        return self.row_file(stem) if f".{kind}" == ROWS else self.blob_pack(stem)

    def data_files(self) -> set[str]:
        """Return the names of all row files and packs."""
        return {
            path.name
            for folder in (self.rows, self.blobs)
            if folder.is_dir()
            for path in folder.iterdir()
            if _FINAL_NAME.fullmatch(path.name)
        }

    # -- access keys and closing --------------------------------------------------------------

    def access_keys(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return secrets by access ID; store given or new ones in a file private to the owner."""
        path = self.root / "access_key.json"
        if given:
            keys = dict(given)
        elif path.exists():
            return _read_keys(path)
        else:
            keys = {f"local{secrets.token_hex(6)}": secrets.token_urlsafe(24)}
        work = self.work_file(".json")
        fd = os.open(work, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(keys, file)
        self.publish(work, path)
        return keys

    def _sync(self, path: Path) -> None:
        """Sync a file, or the entries of a folder, to disk if durable."""
        if self.durable:
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def close(self) -> None:
        """Unlock the folder. Idempotent."""
        if self._lock >= 0:
            self.hot.close()
            self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise ConfigError(
                f"the folder {self.root} is already served by another process (pid {holder})",
                option="root",
                hint="stop that process, or serve another folder",
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)


def _checked(name: str) -> str:
    """Return ``name`` if it can be a file id; otherwise, raise `ValueError`."""
    if not name.isalnum() or len(name) > 64:
        raise ValueError(f"not a file id: {name!r}")
    return name


def _read_keys(path: Path) -> dict[str, str]:
    try:
        keys = {str(k): str(v) for k, v in json.loads(path.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        keys = {}
    if not keys:
        raise ConfigError(
            f"cannot read an access key from {path}",
            option="root",
            hint=f"restore the file, or delete it to generate a new key: rm {path}",
        )
    return keys
