"""Keeps data files and catalogue consistent: which files to delete, to move aside, or to report.

At the start, a file that the catalogue does not list was left behind by a crash if the catalogue
knows the run that made it: it is moved aside. Otherwise the catalogue is older than
the data, or another one: then nothing is served.
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
_SHOWN = 3


class Ledger:
    """Deletes data files together with transactions of the catalogue."""

    def __init__(self, database: Database, folder: DataFolder) -> None:
        self._db, self._folder = database, folder

    def drop(self, file_names: Sequence[str]) -> None:
        """Delete files once the running transaction, which removes them, has committed."""
        self._db.after_commit(lambda: self._folder.drop(file_names))

    def give_up(self, file_names: Iterable[str]) -> None:
        """Delete files of a failed operation, except those that the catalogue lists."""
        known = self.known()
        self._folder.drop([name for name in file_names if name not in known])

    def check(self) -> None:
        """Move aside the files that earlier runs left behind.

        `ConfigError` if there are files of unknown runs, or files of the catalogue are missing.
        """
        known, there = self.known(), self._folder.data_files()
        if lost := known - there:
            raise _refused(
                self._folder,
                lost,
                "missing, which catalog.sqlite lists",
                "restore rows, blobs and catalog.sqlite from the same backup",
            )
        runs = tuple(row["run"] for row in self._db.rows("SELECT run FROM runs"))
        if strangers := {name for name in there - known if not name.startswith(runs)}:
            raise _refused(
                self._folder,
                strangers,
                "unknown to catalog.sqlite: it is older than the data, or its -wal file is missing",
                "restore the catalogue that belongs to them, or move them out of the folder",
            )
        self._folder.set_aside(there - known)
        self._folder.make_places()
        self._db.run("INSERT INTO runs VALUES (?)", self._folder.run)

    def known(self) -> set[str]:
        """Return the names of all data files that the catalogue lists."""
        packs = {f"{row['pack']}{PACK}" for row in self._db.rows("SELECT DISTINCT pack FROM blobs")}
        return packs | {f"{row['name']}{ROWS}" for row in self._db.rows(_ROW_FILES)}


def check_without_catalogue(folder: DataFolder) -> None:
    """Refuse a folder that has data but no catalogue."""
    if not folder.has_catalog and (found := folder.data_files()):
        raise _refused(
            folder,
            found,
            "there without a catalog.sqlite that describes them",
            "restore catalog.sqlite, or name an empty folder as root",
        )


def _refused(folder: DataFolder, names: Collection[str], why: str, hint: str) -> ConfigError:
    listed = [f"{'blobs' if name.endswith(PACK) else 'rows'}/{name}" for name in sorted(names)]
    shown = ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "")
    return ConfigError(
        f"{folder.root}: {count_of(len(names), 'data file')} {why}: {shown}",
        option="root",
        hint=hint,
    )
