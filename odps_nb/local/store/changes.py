"""The change log of primary-key tables: the row changes of each version.

A commit stores one row file of changes for each changed partition. The catalog lists these files
as removed in the version that added them, so that table reads skip them. The files are pinned until
the table is dropped, or until a commit after the table's retention period for changes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.local import errors
from odps_nb.local.store.database import EXPIRED, RECORDED, REPLACED, Database
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.ledger import Ledger
from odps_nb.local.store.snapshots import Addition, list_file
from odps_nb.local.store.tables import StoredTable, spec_of_text, spec_text
from odps_nb.schema import Column, PrimitiveType, TypeCode
from odps_nb.terms import PartitionSpec, covered

OPERATION_TYPE = Column(name="__meta_op_type", type=PrimitiveType(TypeCode.TINYINT))
"""How a change affected a row (live tests of the C++ client: TestIncrementalReadOptionsCDCMode)."""
INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER = 2, 4, 16, 32

_ORDINAL = "__ordinal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Result of a merge: indexes of rows to keep, and the index and operation of each change."""

    kept: np.ndarray
    changed: np.ndarray
    operations: np.ndarray


def merge(
    rows: pa.Table, keys: Sequence[str], deleted: pa.Array, *, old: int, stay: bool
) -> Merged:
    """Find the last row of each key, and whether it is an insert, update or delete.

    The first ``old`` rows are already stored; the others are new. ``deleted`` marks rows that
    delete their key. If ``stay`` is false, stored rows whose key has no new row are deleted.
    """
    numbered = rows.select(list(keys)).append_column(_ORDINAL, pa.array(range(rows.num_rows)))
    ends = numbered.group_by(list(keys)).aggregate([(_ORDINAL, "min"), (_ORDINAL, "max")])
    first = ends.column(f"{_ORDINAL}_min").to_numpy()
    last = ends.column(f"{_ORDINAL}_max").to_numpy()
    gone = pc.fill_null(deleted, fill_value=False).to_numpy(zero_copy_only=False)
    existed, received = first < old, last >= old
    alive = ~gone[last] & (received | stay)
    touched = received | (existed & ~alive)
    indexes, operations, order = [], [], []
    for mask, ends_at, operation in (
        (touched & existed & alive, first, UPDATE_BEFORE),
        (touched & existed & alive, last, UPDATE_AFTER),
        (touched & existed & ~alive, first, DELETE),
        (touched & ~existed & alive, last, INSERT),
    ):
        indexes.append(ends_at[mask])
        operations.append(np.full(int(mask.sum()), operation, np.int8))
        order.append(last[mask])
    by_coming = np.argsort(np.concatenate(order), kind="stable")
    return Merged(
        kept=np.sort(last[alive]),
        changed=np.concatenate(indexes)[by_coming],
        operations=np.concatenate(operations)[by_coming],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A file with one version's changes in one partition. ``at`` is the version's epoch time."""

    name: str
    version: int
    at: float
    spec: PartitionSpec


class ChangeLog:
    """Stores the changes of each version."""

    def __init__(self, database: Database, folder: DataFolder) -> None:
        self._db, self._ledger = database, Ledger(database, folder)

    def keep(self, table: StoredTable, version: int, changes: Sequence[Addition]) -> None:
        """Store the files with a version's changes; files without rows are deleted instead."""
        with self._db.transaction() as db:
            self._db.mark(table.table_id, version, RECORDED)
            for change in changes:
                file = change.file
                if not file.rows:
                    self._ledger.drop([file.file_name])
                    continue
                row = db.execute(
                    "SELECT partition_id FROM partitions WHERE table_id = ? AND spec = ?",
                    (table.table_id, spec_text(change.spec)),
                ).fetchone()
                at = None if row is None else int(row[0])
                number = list_file(db, table, file, partition_id=at, added=version, removed=version)
                db.execute("INSERT INTO pins VALUES (?, ?)", (table.changes_pin, number))
            if table.records_changes:
                self._drop_old(db, table, version)

    def _drop_old(self, db: sqlite3.Connection, table: StoredTable, version: int) -> None:
        """Forget changes that are older than ``version`` by the retention period or more."""
        now = "(SELECT at FROM versions WHERE table_id = :table AND version = :version)"
        old = f"SELECT version FROM versions WHERE table_id = :table AND at < {now} - 3600 * :hours"
        parameters = {"table": table.table_id, "version": version, "hours": table.hours_of_changes}
        db.execute(
            "DELETE FROM pins WHERE session_id = :pin AND file_id IN"
            f" (SELECT file_id FROM files WHERE table_id = :table AND added IN ({old}))",
            parameters | {"pin": table.changes_pin},
        )
        db.execute(
            "UPDATE version_marks SET mark = :expired WHERE table_id = :table AND mark = :recorded"
            f" AND version IN ({old})",
            parameters | {"recorded": RECORDED, "expired": EXPIRED},
        )

    def records(
        self, table: StoredTable, after: int, upto: int, specs: Sequence[PartitionSpec] = ()
    ) -> Iterator[Record]:
        """Yield the changes of versions ``(after, upto]``, partition by partition, oldest first.

        Raises 409 if a version replaced rows without logging the changes, and 404 if the log or
        the partition is missing.
        """
        upto = min(upto, table.version)
        recorded = set(self._db.marked(table.table_id, after, upto, RECORDED))
        replaced = set(self._db.marked(table.table_id, after, upto, REPLACED))
        replaced -= set(self._db.marked(table.table_id, after, upto, EXPIRED))
        for version in range(max(after, 0) + 1, upto + 1):
            if version not in recorded and version in replaced:
                raise errors.not_appended(table.name, version)
            if version not in recorded:
                raise errors.no_such_version(table.name, version)
        rows = self._db.rows(
            "SELECT f.name, f.added, v.at, p.spec FROM files f"
            " JOIN pins ON pins.file_id = f.file_id AND pins.session_id = ?"
            " JOIN versions v ON v.table_id = f.table_id AND v.version = f.added"
            " LEFT JOIN partitions p ON p.partition_id = f.partition_id"
            " WHERE f.added > ? AND f.added <= ? ORDER BY p.spec, f.added",
            table.changes_pin,
            after,
            upto,
        )
        chosen = covered(specs)
        for row in rows:
            if table.is_partitioned and row["spec"] is None:
                raise errors.no_such_version(table.name, row["added"])
            spec = spec_of_text(table, row["spec"])
            if not specs or chosen(spec):
                yield Record(name=row["name"], version=row["added"], at=row["at"], spec=spec)
