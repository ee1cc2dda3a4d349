"""Marks versions that an incremental read cannot return.

An incremental read returns the rows that a range of versions added. That is correct only if none of
them removed rows and all of their files still exist; both are marked here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from odps_nb.local.store.database import Database

__all__ = ["GONE", "RECORDED", "REPLACED", "VersionMarks"]

#: The version removed rows: an overwrite, a dropped partition, a merge by key.
REPLACED = "replaced"
#: Rows that the version added were removed later, and their files are deleted.
GONE = "gone"
#: What the version of a primary-key table changed is kept row by row.
RECORDED = "recorded"


class VersionMarks:
    """Marks of versions, kept as long as their table."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, table_id: int, version: int, mark: str) -> None:
        """Mark a version. Idempotent; does nothing if the table was dropped."""
        self._db.run(
            "INSERT OR IGNORE INTO version_marks SELECT table_id, ?, ? FROM tables"
            " WHERE table_id = ?",
            version,
            mark,
            table_id,
        )

    def add_gone(self, files: Iterable[sqlite3.Row]) -> None:
        """Mark the versions whose files are about to be deleted."""
        with self._db.transaction():
            for table_id, added in {(file["table_id"], file["added"]) for file in files}:
                self.add(table_id, added, GONE)

    def between(self, table_id: int, after: int, upto: int, mark: str) -> list[int]:
        """Return the versions in ``(after, upto]`` that have a mark, oldest first."""
        rows = self._db.rows(
            "SELECT version FROM version_marks WHERE table_id = ? AND version > ?"
            " AND version <= ? AND mark = ? ORDER BY version",
            table_id,
            after,
            upto,
            mark,
        )
        return [row["version"] for row in rows]
