"""Keeps data files and catalogue consistent: which files to keep, to delete, or to report.

A file is deleted when the catalogue has removed it, or when it was being written as the service was
killed (it is marked, see `Folder`). An unmarked file that the catalogue does not list means that
the catalogue is older than the data, or another one: then nothing is served and nothing deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from odps_nb.errors import ConfigError
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import PACK, ROWS, Folder

__all__ = ["Ledger", "check_without_catalogue"]

_ROW_FILES = (
    "SELECT name FROM files UNION SELECT name FROM parts"
    " UNION SELECT file AS name FROM instances WHERE file IS NOT NULL"
)
_SHOWN = 3
_SET_ASIDE = "start once with --set-aside, which moves the unknown files into another folder"


class Ledger:
    """Keeps and deletes data files together with transactions of the catalogue."""

    def __init__(self, database: Database, folder: Folder) -> None:
        self._db, self._folder = database, folder

    def keep(self, file_names: Sequence[str]) -> None:
        """Keep files once the running transaction, which lists them, has committed."""
        self._db.must_last()
        self._db.after_commit(lambda: self._folder.settle(file_names))

    def drop(self, file_names: Sequence[str]) -> None:
        """Delete files once the running transaction, which removes them, has committed."""
        self._folder.mark(file_names)
        self._db.after_commit(lambda: self._folder.drop(file_names))

    def give_up(self, file_names: Iterable[str]) -> None:
        """Delete files of a failed operation, except those that the catalogue lists."""
        known = self.known()
        self._folder.drop([name for name in file_names if name not in known])

    def check(self, *, set_aside: bool = False) -> None:
        """Compare folder and catalogue; delete the files that a crash left behind.

        Parameters
        ----------
        set_aside
            Move unknown files out of the way instead of refusing to start.

        Raises
        ------
        ConfigError
            There are files that the catalogue does not list, or it lists some that are missing.
            Nothing was deleted.
        """
        known, there = self.known(), self._folder.data_files()
        if lost := self._needed(known - there):
            raise ConfigError(
                f"{_counted(lost, 'data file')} of tables in {self._folder.root}"
                f" {'is' if len(lost) == 1 else 'are'} gone: {_listed(lost)}",
                option="root",
                hint="restore rows, blobs and catalog.sqlite from the same backup",
            )
        _clear(self._folder, there - known, set_aside=set_aside, reason=_OLDER)
        self._folder.make_places()
        self._folder.settle(self._folder.marked())

    def known(self) -> set[str]:
        """Return the names of all data files that the catalogue lists."""
        packs = {f"{row['pack']}{PACK}" for row in self._db.rows("SELECT DISTINCT pack FROM blobs")}
        return packs | {f"{row['name']}{ROWS}" for row in self._db.rows(_ROW_FILES)}

    def _needed(self, missing: Collection[str]) -> list[str]:
        """Return those of the missing files without which a table lacks rows or blobs.

        A power cut may undo that a file was forgotten, not that it was deleted: others do no harm.
        """
        if not missing:
            return []
        needed = {
            f"{row['name']}{ROWS}"
            for row in self._db.rows("SELECT name FROM files WHERE removed IS NULL")
        }
        packs = [name.removesuffix(PACK) for name in missing if name.endswith(PACK)]
        for pack in packs:
            used = self._db.row(
                "SELECT 1 FROM blobs b JOIN blob_uses u ON u.blob_id = b.blob_id"
                " JOIN files f ON f.name = u.file WHERE b.pack = ? AND f.removed IS NULL LIMIT 1",
                pack,
            )
            if used is not None:
                needed.add(pack + PACK)
        return sorted(needed & set(missing))


_OLDER = (
    "are unknown to catalog.sqlite: it is older than the data, or its -wal file is missing",
    f"restore the catalogue that belongs to them; or {_SET_ASIDE}",
)
_WITHOUT = (
    "are there without a catalog.sqlite that describes them",
    f"restore catalog.sqlite, or name an empty folder as root; or {_SET_ASIDE}",
)


def check_without_catalogue(folder: Folder, *, set_aside: bool = False) -> None:
    """Refuse data without a catalogue; delete what a crash during set-up left behind."""
    if folder.has_catalog:
        return
    _clear(folder, folder.data_files(), set_aside=set_aside, reason=_WITHOUT)


def _clear(folder: Folder, unknown: set[str], *, set_aside: bool, reason: tuple[str, str]) -> None:
    strangers = unknown - folder.marked()
    if strangers and set_aside:
        folder.set_aside(unknown)
        return
    if strangers:
        raise ConfigError(
            f"{_counted(strangers, 'data file')} in {folder.root}"
            f" ({_listed(strangers)}) {reason[0]}",
            option="root",
            hint=reason[1],
        )
    folder.drop(unknown)


def _counted(names: Collection[str], what: str) -> str:
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'}"


def _listed(names: Iterable[str]) -> str:
    shown = [f"{'blobs' if name.endswith(PACK) else 'rows'}/{name}" for name in sorted(names)]
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
