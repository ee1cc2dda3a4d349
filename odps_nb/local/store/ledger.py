"""Keeps data files consistent with the catalog by deleting, moving or reporting files.

At startup, the folder may contain files that the catalog does not list. If the catalog lists the
run of the service that created such a file, the file is left over from a crash and is moved aside.
Otherwise, the catalog is older than the data or belongs to another folder, and the service does not
start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from odps_nb.errors import ConfigError
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import PACK, ROWS, DataFolder
from odps_nb.terms import count_of

_ROW_FILES = (
    "SELECT name FROM files UNION SELECT name FROM parts"
    " UNION SELECT file AS name FROM instances WHERE file IS NOT NULL"
)
_PACKS = "SELECT pack FROM blobs UNION SELECT pack FROM resources WHERE pack IS NOT NULL"
_SHOWN = 3


class Ledger:
    """Deletes data files that the catalog no longer lists, and checks the folder at startup."""

    def __init__(self, database: Database, folder: DataFolder) -> None:
        self._db, self._folder = database, folder

    def drop(self, file_names: Sequence[str]) -> None:
        """Delete files after the commit of the running transaction, which unregisters them."""
        self._db.after_commit(lambda: self._folder.drop(file_names))

    def give_up(self, file_names: Iterable[str]) -> None:
        """Delete the files of a failed operation, except those that the catalog lists."""
        known = self.known()
        self._folder.drop([name for name in file_names if name not in known])

    def check(self) -> None:
        """Move aside the files that earlier runs of the service left behind.

        Raises `ConfigError` if a run that the catalog does not list created files, or if listed
        files are missing.
        """
        known, there = self.known(), self._folder.data_files()
        if lost := known - there:
            raise _refused(
                self._folder,
                lost,
                "missing, although catalog.sqlite lists them",
                "restore rows, blobs and catalog.sqlite from the same backup",
            )
        runs = tuple(row["run"] for row in self._db.rows("SELECT run FROM runs"))
        if unknown := {name for name in there - known if not name.startswith(runs)}:
            raise _refused(
                self._folder,
                unknown,
                "unknown to catalog.sqlite (which is older than the data, or lacks its -wal file)",
                "restore the catalog that belongs to them, or move them out of the folder",
            )
        self._folder.set_aside(there - known)
        self._folder.make_places()
        self._db.run("INSERT INTO runs VALUES (?)", self._folder.run)

    def known(self) -> set[str]:
        """Return the names of all data files that the catalog lists."""
        packs = {f"{row['pack']}{PACK}" for row in self._db.rows(_PACKS)}
        return packs | {f"{row['name']}{ROWS}" for row in self._db.rows(_ROW_FILES)}


def check_without_catalog(folder: DataFolder) -> None:
    """Raise `ConfigError` if a folder has data files but no catalog."""
    if not folder.has_catalog and (files := folder.data_files()):
        raise _refused(
            folder,
            files,
            "present without a catalog.sqlite that describes them",
            "restore catalog.sqlite, or serve an empty folder",
        )


def _refused(folder: DataFolder, names: Collection[str], why: str, hint: str) -> ConfigError:
    listed = [f"{'blobs' if name.endswith(PACK) else 'rows'}/{name}" for name in sorted(names)]
    shown = ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "")
    return ConfigError(
        f"{folder.root}: {count_of(len(names), 'data file')} {why}: {shown}",
        option="root",
        hint=hint,
    )
