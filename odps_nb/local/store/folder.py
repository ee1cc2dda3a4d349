"""The folder that one service owns: layout, lock, access key, safe file writing.

::

    ROOT/                    0700
      lock                   held by the process that serves it
      access_key.json        0600: the access keys of this service
      catalog.sqlite         the catalogue: tables, partitions, visible files
      rows/<id>.parquet      row files, named by the service, never by a user's text
      hot/<id>.arrow         the same rows, ready to send (a cache)
      blobs/<id>.pack        the blobs of one upload, and what lay between them
      pending/<file name>    a mark: the catalogue decides whether that file is kept
      work/                  unfinished bodies and files

A file in ``rows`` or ``blobs`` is marked before it is renamed into place, and before the catalogue
removes it. The mark is deleted when the catalogue lists the file durably, or the file is deleted.
This distinguishes files that a crash left behind from those that an old or empty catalogue lacks:
only the former are ever deleted (``ledger``).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from odps_nb.errors import ConfigError
from odps_nb.local.store.arrow_cache import ArrowCache
from odps_nb.local.store.group_starts import StartsCache

__all__ = ["PACK", "ROWS", "Folder", "new_id"]

log = logging.getLogger("odps_nb.local")

ROWS, PACK = ".parquet", ".pack"
_FINAL_NAME = re.compile(r"[0-9a-f]{32}[nu]?\.(parquet|pack)", re.ASCII)
# Only what bears a name of ours is ever cleared away: a folder named as root may hold other things.
_WORK_NAME = re.compile(r"[0-9a-f]{32}\.[a-z]+|spill-[0-9a-f]{32}", re.ASCII)


def new_id() -> str:
    """Return a random id for a file or session: 32 hexadecimal digits."""
    return secrets.token_hex(16)


class Folder:
    """A locked service folder. `close` releases it; files stay.

    Parameters
    ----------
    root
        Made when missing. A second process on the same folder gets a `ConfigError`.
    durable
        Whether finished files are forced to disk (``fsync``) before they count.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root.absolute()
        self.durable = durable
        self._lock = -1
        try:
            self._open()
        except OSError as error:
            self._unlock()
            raise ConfigError(
                f"the folder {self.root} cannot be served: {error.strerror or error}",
                option="root",
                hint="name a folder that you can write to, or a new one",
            ) from error
        except BaseException:
            self._unlock()
            raise

    def _open(self) -> None:
        new = [path for path in (self.root, *self.root.parents) if not path.exists()]
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(0o700)
        self._flush(path.parent for path in new)
        self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._take_lock()
        for part in (self.work, self.pending):
            part.mkdir(mode=0o700, exist_ok=True)
        if not self.has_catalog:
            self.make_places()
        # Whatever was being written when the last process ended was never promised to anybody.
        for path in self.work.iterdir():
            if _WORK_NAME.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.hot = ArrowCache(self.root / "hot")
        self.starts = StartsCache()

    def make_places(self) -> None:
        """Create the missing folders of data files."""
        for part in (self.rows, self.blobs):
            part.mkdir(mode=0o700, exist_ok=True)
        self._flush([self.root])

    @property
    def rows(self) -> Path:
        """The folder of row files."""
        return self.root / "rows"

    @property
    def blobs(self) -> Path:
        """The folder of blob packs."""
        return self.root / "blobs"

    @property
    def work(self) -> Path:
        """The folder of unfinished files."""
        return self.root / "work"

    @property
    def pending(self) -> Path:
        """The folder of marks: the catalogue decides whether a marked file is kept."""
        return self.root / "pending"

    @property
    def catalog(self) -> Path:
        """The SQLite file."""
        return self.root / "catalog.sqlite"

    @property
    def has_catalog(self) -> bool:
        """Whether the SQLite file exists and is not empty."""
        return self.catalog.exists() and self.catalog.stat().st_size > 0

    def row_file(self, name: str) -> Path:
        """Path of a row file by its id."""
        return self.rows / f"{_checked(name)}.parquet"

    def blob_pack(self, name: str) -> Path:
        """Path of a blob pack by its id."""
        return self.blobs / f"{_checked(name)}.pack"

    def work_file(self, suffix: str) -> Path:
        """Return a new path for an unfinished file."""
        return self.work / f"{new_id()}{suffix}"

    def publish(self, work_file: Path, final: Path) -> None:
        """Rename a finished file into place; flushes it to disk first if durable."""
        if self.durable:
            with work_file.open("rb") as file:
                os.fsync(file.fileno())
        work_file.replace(final)
        self._flush([final.parent])

    def publish_rows(self, work_file: Path, ending: str = "") -> str:
        """Mark a finished row file and move it into place; return its new id."""
        name = new_id() + ending
        self.mark([name + ROWS])
        self.publish(work_file, self.row_file(name))
        return name

    def publish_pack(self, work_file: Path) -> str:
        """Mark a finished pack and move it into place; return its new id."""
        name = new_id()
        self.mark([name + PACK])
        self.publish(work_file, self.blob_pack(name))
        return name

    # -- marks --------------------------------------------------------------------------------

    def mark(self, file_names: Iterable[str]) -> None:
        """Mark files: after a crash, those that the catalogue does not list are deleted."""
        names = list(file_names)
        for name in names:
            (self.pending / name).touch(mode=0o600)
        if names:
            self._flush([self.pending])

    def settle(self, file_names: Iterable[str]) -> None:
        """Remove the marks of files that the catalogue lists durably, or that are deleted."""
        for name in file_names:
            try:
                (self.pending / name).unlink(missing_ok=True)
            except OSError as error:  # the mark says too much, which costs nothing
                log.warning("the mark of %s could not be removed: %s", name, error)

    def drop(self, file_names: Iterable[str]) -> None:
        """Delete marked files that the catalogue no longer lists."""
        deleted = []
        for name in file_names:
            stem, place = name.partition(".")[0], self.place_of(name)
            try:
                if place.suffix == ROWS:
                    self.hot.drop(stem)
                place.unlink(missing_ok=True)
            except OSError as error:  # marked still: the next start tries again
                log.warning("%s could not be deleted: %s", place, error)
                continue
            deleted.append(name)
        # a power cut must not bring a file back without its mark
        try:
            self._flush({self.place_of(name).parent for name in deleted})
        except OSError as error:
            log.warning("%s deleted files are marked still: %s", len(deleted), error)
            return
        self.settle(deleted)

    def place_of(self, file_name: str) -> Path:
        """Return the path of a row file or pack by its file name."""
        stem, _, kind = file_name.partition(".")
        return self.row_file(stem) if f".{kind}" == ROWS else self.blob_pack(stem)

    def data_files(self) -> set[str]:
        """Return the names of all row files and packs."""
        return _data_files(self.rows) | _data_files(self.blobs)

    def marked(self) -> set[str]:
        """Return the names of all files that are marked."""
        return _data_files(self.pending)

    def set_aside(self, file_names: Iterable[str]) -> Path:
        """Move data files into the folder ``unknown``, and return it."""
        aside = self.root / "unknown"
        aside.mkdir(mode=0o700, exist_ok=True)
        for name in file_names:
            self.place_of(name).replace(aside / name)
            self.settle([name])
        return aside

    # -- keys and the end ---------------------------------------------------------------------

    def access_keys(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return access ids and secrets; generated once, stored in a file that only we can read."""
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

    def _flush(self, folders: Iterable[Path]) -> None:
        """Force the names in folders to disk, if durable."""
        for folder in folders if self.durable else ():
            fd = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def close(self) -> None:
        """Release the folder. Idempotent."""
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
                f"the folder {self.root} is served by another process (pid {holder})",
                option="root",
                hint="stop that process, or serve another folder",
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)


def _checked(name: str) -> str:
    """Return a file name from `new_id`; raise for any other text."""
    if not name.isalnum() or len(name) > 64:
        raise ValueError(f"not a file id: {name!r}")
    return name


def _data_files(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {path.name for path in folder.iterdir() if _FINAL_NAME.fullmatch(path.name)}


def _read_keys(path: Path) -> dict[str, str]:
    try:
        found = {str(k): str(v) for k, v in json.loads(path.read_text()).items()}
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"the access keys in {path} cannot be read: {type(error).__name__}",
            option="root",
            hint=f"restore the file; or delete it, and a new key is made: rm {path}",
        ) from None
    if not found:
        raise ConfigError(
            f"there is no access key in {path}",
            option="root",
            hint=f"restore the file; or delete it, and a new key is made: rm {path}",
        )
    return found
