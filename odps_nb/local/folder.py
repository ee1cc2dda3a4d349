"""The folder that one service owns: layout, lock, access key, safe file writing (world local).

::

    ROOT/                    0700
      lock                   held by the process that serves it
      access_key.json        0600: the access keys of this service
      catalog.sqlite         what exists and what is visible
      rows/<id>.parquet      row files, named by the service, never by a user's text
      hot/<id>.arrow         the same rows, ready to send (a cache)
      blobs/<id>.pack        blobs of one upload, one after the other
      work/                  bodies and files that are not finished yet

Knows nothing of tables or HTTP.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from odps_nb.errors import ConfigError
from odps_nb.local.hot_files import HotFiles

__all__ = ["Folder", "new_id"]


def new_id() -> str:
    """Return a name for a file or session: 32 hexadecimal digits, never derived from input."""
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
        for part in (self.root, self.rows, self.blobs, self.work):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(0o700)
        self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._take_lock()
        # Whatever was being written when the last process ended was never promised to anybody.
        shutil.rmtree(self.work)
        self.work.mkdir(mode=0o700)
        self.hot = HotFiles(self.root / "hot")

    @property
    def rows(self) -> Path:
        """Where row files live."""
        return self.root / "rows"

    @property
    def blobs(self) -> Path:
        """Where blob packs live."""
        return self.root / "blobs"

    @property
    def work(self) -> Path:
        """Where unfinished files live."""
        return self.root / "work"

    @property
    def catalog(self) -> Path:
        """The SQLite file."""
        return self.root / "catalog.sqlite"

    def row_file(self, name: str) -> Path:
        """Path of a row file by its id."""
        return self.rows / f"{_checked(name)}.parquet"

    def drop_row_file(self, name: str) -> None:
        """Delete a row file, if it is there."""
        self.hot.drop(name)
        self.row_file(name).unlink(missing_ok=True)

    def blob_pack(self, name: str) -> Path:
        """Path of a blob pack by its id."""
        return self.blobs / f"{_checked(name)}.pack"

    def work_file(self, suffix: str) -> Path:
        """Return a fresh path for something unfinished."""
        return self.work / f"{new_id()}{suffix}"

    def publish(self, work_file: Path, final: Path) -> None:
        """Give a finished file its name: on disk first when durable, then renamed."""
        if self.durable:
            with work_file.open("rb") as file:
                os.fsync(file.fileno())
        work_file.replace(final)
        if self.durable:
            fd = os.open(final.parent, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def access_keys(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return access ids and secrets; made at random once, kept in a file only we can read."""
        path = self.root / "access_key.json"
        if given:
            keys = dict(given)
        elif path.exists():
            return {str(k): str(v) for k, v in json.loads(path.read_text()).items()}
        else:
            keys = {f"local{secrets.token_hex(6)}": secrets.token_urlsafe(24)}
        work = self.work_file(".json")
        fd = os.open(work, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(keys, file)
        self.publish(work, path)
        return keys

    def close(self) -> None:
        """Release the folder; a second call does nothing."""
        if self._lock >= 0:
            self.hot.close()
            os.close(self._lock)
            self._lock = -1

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._lock)
            self._lock = -1
            raise ConfigError(
                f"the folder {self.root} is served by another process (pid {holder})",
                option="root",
                hint="stop that process, or serve another folder",
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)


def _checked(name: str) -> str:
    """File names come from `new_id` alone; anything else is a defect, not a path."""
    if not name.isalnum() or len(name) > 64:
        raise ValueError(f"not a file id: {name!r}")
    return name
