"""The visible rows of tables, as versioned sets of row files.

A file is visible from the version that added it until the version that removed it. A commit adds
one version in one transaction, so a reader sees all of it or nothing. A read session pins its
files. A removed file is deleted when no session pins it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from odps_nb.errors import NotFoundError
from odps_nb.local import errors
from odps_nb.local.store.catalog import Catalog
from odps_nb.local.store.database import GONE, LOST, REPLACED, Database
from odps_nb.local.store.folder import ROWS, DataFolder
from odps_nb.local.store.ledger import Ledger
from odps_nb.local.store.row_files import FAR, FINE, RowFile, unit_of
from odps_nb.local.store.tables import Partition, StoredTable, spec_of_text
from odps_nb.terms import PartitionSpec, covered


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One visible row file and the partition it belongs to."""

    file_id: int
    name: str
    rows: int
    raw_bytes: int
    spec: PartitionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A finished row file to add to a partition; ``spec`` is empty for an unpartitioned table."""

    spec: PartitionSpec
    file: RowFile


def list_file(
    db: sqlite3.Connection,
    table: StoredTable,
    file: RowFile,
    *,
    partition_id: int | None = None,
    added: int,
    removed: int | None = None,
) -> int:
    """Add a file to the catalog; return its ``file_id``."""
    sizes = file.rows, file.raw_bytes, file.disk_bytes
    cursor = db.execute(
        "INSERT INTO files (name, table_id, partition_id, rows, raw_bytes, disk_bytes, added,"
        " removed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (file.name, table.table_id, partition_id, *sizes, added, removed),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


class Snapshots:
    """Looks up and changes the set of visible row files."""

    def __init__(
        self, database: Database, catalog: Catalog, folder: DataFolder, clock: Callable[[], float]
    ) -> None:
        self._db, self._catalog, self._clock = database, catalog, clock
        self._ledger = Ledger(database, folder)

    def visible(
        self, table: StoredTable, specs: Sequence[PartitionSpec] = ()
    ) -> tuple[Segment, ...]:
        """Return the visible files of the partitions that ``specs`` cover, in row order."""
        return self._segments(table, "f.removed IS NULL", (), specs)

    def as_of(self, table: StoredTable, version: int) -> tuple[Segment, ...]:
        """Return the files that were visible at a version; raise if some may have been deleted."""
        if not table.hours_of_history:
            raise errors.semantic(
                f"{table.name} keeps no history",
                advice="create it as a transactional table with acid.data.retain.hours",
            )
        if not 0 <= version <= table.version:
            raise errors.semantic(f"{table.name} has versions 0 to {table.version}, not {version}")
        condition = "f.added <= ? AND (f.removed IS NULL OR f.removed > ?)"
        segments = self._segments(table, condition, (version, version), ())
        is_lost = self._db.marked(table.table_id, version, table.version, LOST)
        if is_lost or (
            table.is_partitioned and any(not segment.spec.items for segment in segments)
        ):
            raise errors.no_such_version(table.name, version)
        return segments

    def added_since(
        self,
        table: StoredTable,
        after: int,
        upto: int,
        specs: Sequence[PartitionSpec] = (),
        *,
        appends_only: bool = False,
    ) -> tuple[Segment, ...]:
        """Return the files added by versions ``(after, upto]``.

        Raises 409 if a version replaced rows; with ``appends_only``, skips such versions instead.
        Raises 404 if rows added by a version are no longer stored.
        """
        replaced = self._db.marked(table.table_id, after, upto, REPLACED)
        if replaced and not appends_only:
            raise errors.not_appended(table.name, replaced[0])
        gone = self._db.marked(table.table_id, after, upto, GONE)
        if missing := [version for version in gone if version not in replaced]:
            raise errors.no_such_version(table.name, missing[0])
        return self._segments(
            table,
            "f.added > ? AND f.added <= ? AND f.added NOT IN (SELECT version FROM version_marks"
            " WHERE table_id = f.table_id AND mark = ?)",
            (after, upto, REPLACED),
            specs,
        )

    def version_at(self, table: StoredTable, at: float) -> int:
        """Return the last version committed up to ``at`` (epoch seconds), or 0 if there is none."""
        row = self._db.row(
            "SELECT MAX(version) AS v FROM versions WHERE table_id = ? AND at <= ?",
            table.table_id,
            at,
        )
        return int(row["v"]) if row is not None and row["v"] is not None else 0

    def publish(
        self,
        table: StoredTable,
        additions: Sequence[Addition],
        *,
        replace: Sequence[PartitionSpec] | None = None,
        since: int | None = None,
        one_unit: bool = False,
    ) -> int:
        """Add files, and remove those that they replace, in one new version. Return its number.

        ``replace`` lists specs whose current rows are removed; an empty spec means the whole table.
        Raises 409 if the table's version is later than ``since``. With ``one_unit``, raises 400 if
        some timestamps need microseconds and others nanoseconds.
        """
        now = self._clock()
        with self._db.transaction() as db:
            table = self._catalog.table_by_id(table.table_id)
            if since is not None and table.version != since:
                raise errors.table_modified(table.name)
            version = table.version + 1
            if replace and (replaced := self.visible(table, replace)):
                self._db.mark(table.table_id, version, REPLACED)
                self._hide(replaced, version)
            for addition in additions:
                self._add(table, addition, version, now)
            if one_unit and any(addition.file.name.endswith((FAR, FINE)) for addition in additions):
                unit_of([segment.name for segment in self.visible(table)])
            db.execute("INSERT INTO versions VALUES (?, ?, ?)", (table.table_id, version, now))
            db.execute(
                "UPDATE tables SET version = ?, modified = ? WHERE table_id = ?",
                (version, now, table.table_id),
            )
            return version

    def drop_table(self, table: StoredTable) -> None:
        """Drop a table. Open read sessions remain readable."""
        with self._db.transaction():
            self._hide(self._segments(table, "f.removed IS NULL", (), ()), table.version + 1)
            self.unpin(table.changes_pin)
            self._catalog.forget_table(table)

    def drop_partition(self, table: StoredTable, partition: Partition) -> None:
        """Drop a partition and its rows."""
        with self._db.transaction():
            self.publish(table, (), replace=[partition.spec])
            self._catalog.forget_partition(partition)

    def pin(self, session_id: str, segments: Iterable[Segment]) -> None:
        """Keep files until `unpin` is called for the session."""
        with self._db.transaction() as db:
            db.executemany(
                "INSERT OR IGNORE INTO pins VALUES (?, ?)",
                [(session_id, segment.file_id) for segment in segments],
            )

    def pin_own(
        self,
        session_id: str,
        table: StoredTable,
        files: Sequence[tuple[PartitionSpec, RowFile | None]],
    ) -> tuple[Segment, ...]:
        """Add and pin files that only this session reads; return their segments."""
        pinned = []
        with self._db.transaction() as db:
            for spec, file in files:
                if file is not None:
                    number = list_file(db, table, file, added=-1, removed=-1)
                    sizes = {"rows": file.rows, "raw_bytes": file.raw_bytes}
                    pinned.append(Segment(file_id=number, name=file.name, spec=spec, **sizes))
            self.pin(session_id, pinned)
        return tuple(pinned)

    def unpin(self, session_id: str) -> None:
        """Unpin the files of a session."""
        self._db.run("DELETE FROM pins WHERE session_id = ?", session_id)

    def collect(self) -> None:
        """Delete removed files that are not pinned, and not part of the history of a table."""
        with self._db.transaction() as db:
            removed = db.execute(
                "SELECT f.file_id, f.name, f.table_id, f.added, f.removed, v.at FROM files f"
                " LEFT JOIN versions v ON v.table_id = f.table_id AND v.version = f.removed"
                " WHERE removed IS NOT NULL AND file_id NOT IN (SELECT file_id FROM pins)"
            ).fetchall()
            since = {
                table_id: self._history_since(table_id)
                for table_id in {row["table_id"] for row in removed}
            }
            gone = [row for row in removed if (row["at"] or 0) <= since[row["table_id"]]]
            for row in gone:
                self._db.mark(row["table_id"], row["added"], GONE)
                if row["added"] < row["removed"]:  # not a file of the change log
                    self._db.mark(row["table_id"], row["removed"], LOST)
            db.executemany("DELETE FROM files WHERE file_id = ?", [(r["file_id"],) for r in gone])
            self._ledger.drop([row["name"] + ROWS for row in gone])

    def _history_since(self, table_id: int) -> float:
        """Return the time since which a table keeps removed rows."""
        try:
            hours = self._catalog.table_by_id(table_id).hours_of_history
        except NotFoundError:  # the table was dropped
            hours = 0
        return self._clock() - 3600 * hours

    def _segments(
        self,
        table: StoredTable,
        condition: str,
        values: tuple[object, ...],
        specs: Sequence[PartitionSpec],
    ) -> tuple[Segment, ...]:
        rows = self._db.rows(
            "SELECT f.file_id, f.name, f.rows, f.raw_bytes, p.spec FROM files f"
            " LEFT JOIN partitions p ON p.partition_id = f.partition_id"
            f" WHERE f.table_id = ? AND {condition} ORDER BY p.spec, f.added, f.file_id",
            table.table_id,
            *values,
        )
        segments = (
            Segment(
                spec=spec_of_text(table, row["spec"]),
                **{key: row[key] for key in ("file_id", "name", "rows", "raw_bytes")},
            )
            for row in rows
        )
        chosen = covered(specs)
        return tuple(s for s in segments if not specs or chosen(s.spec))

    def _hide(self, segments: Iterable[Segment], version: int) -> None:
        with self._db.transaction() as db:
            db.executemany(
                "UPDATE files SET removed = ? WHERE file_id = ?",
                [(version, segment.file_id) for segment in segments],
            )

    def _add(self, table: StoredTable, addition: Addition, version: int, now: float) -> None:
        partition_id = None
        file = addition.file
        with self._db.transaction() as db:
            if table.is_partitioned:
                partition_id, _ = self._catalog.ensure_partition(table, addition.spec)
                db.execute(
                    "UPDATE partitions SET modified = max(created, ?) WHERE partition_id = ?",
                    (now, partition_id),
                )
            if not file.rows:
                self._ledger.drop([file.file_name])
            else:
                list_file(db, table, file, partition_id=partition_id, added=version)
