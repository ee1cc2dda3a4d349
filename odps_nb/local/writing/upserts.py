"""Merges upserts and deletes into the rows of primary-key tables.

See ``docs/protocol.md`` section 5.7.

The parts of a primary-key table have a column ``__operation``: 85 (``U``) inserts or replaces the
row with that key, and 68 (``D``) deletes it. Null means 85. A commit rewrites each partition that
it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.local.store.arrow_types import arrow_schema
from odps_nb.local.store.changes import OPERATION_TYPE, ChangeLog, merge
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.ledger import Ledger
from odps_nb.local.store.row_files import (
    FAR,
    FINE,
    RowFile,
    RowFileWriter,
    read_file,
    stored_names,
    unit_of,
)
from odps_nb.local.store.snapshots import Addition, Snapshots
from odps_nb.local.store.tables import OPERATION, StoredTable
from odps_nb.local.writing.partial import UPDATED, completed, is_partial
from odps_nb.terms import PartitionSpec, TimeUnit, covered

UPSERT, DELETE = ord("U"), ord("D")
BATCH_ROWS = 64 * 1024


class Publisher:
    """Makes added files visible, and merges their rows by key if the table has a primary key."""

    def __init__(self, database: Database, snapshots: Snapshots, folder: DataFolder) -> None:
        self._db, self._snapshots, self._folder = database, snapshots, folder
        self._ledger, self._changes = Ledger(database, folder), ChangeLog(database, folder)

    def publish(
        self,
        table: StoredTable,
        additions: Sequence[Addition],
        *,
        replace: Sequence[PartitionSpec] | None = None,
        since: int | None = None,
        one_unit: bool = False,
    ) -> int:
        """Do what `Snapshots.publish` does; with a primary key, also merge rows and log changes."""
        if not table.key_columns:
            return self._snapshots.publish(
                table, additions, replace=replace, since=since, one_unit=one_unit
            )
        with self._db.transaction():
            old = self._snapshots.visible(table, replace) if replace else ()
            replaced, emptied = [segment.spec for segment in old], covered(replace or ())
            merged, changes = [], []
            for spec in dict.fromkeys([*(addition.spec for addition in additions), *replaced]):
                parts = [a.file.name for a in additions if a.spec == spec]
                visible, changed = self._merge(table, spec, parts, stay=not emptied(spec))
                merged.append(visible)
                changes.append(changed)
            self._ledger.drop([addition.file.file_name for addition in additions])
            touched = [*(replace or ()), *(addition.spec for addition in merged)]
            version = self._snapshots.publish(
                table, merged, replace=touched, since=since, one_unit=one_unit
            )
            self._changes.keep(table, version, changes)
            return version

    def together(self) -> AbstractContextManager[object]:
        """Open a transaction, in which several changes become one commit."""
        return self._db.transaction()

    def copy(self, source: StoredTable, table: StoredTable, specs: Sequence[PartitionSpec]) -> None:
        """Add the rows of another table with the same columns; its files are linked, not copied."""
        additions: list[Addition] = []
        for segment in self._snapshots.visible(source, specs):
            path, work = self._folder.row_file(segment.name), self._folder.work_file(".parquet")
            work.hardlink_to(path)
            mark = segment.name[-1] if segment.name.endswith((FAR, FINE)) else ""
            name = self._folder.publish_data(work, self._folder.row_file, mark)
            sizes = {"rows": segment.rows, "raw_bytes": segment.raw_bytes}
            file = RowFile(name=name, disk_bytes=path.stat().st_size, **sizes)
            self._same_blobs(name, [segment.name])
            additions.append(Addition(spec=segment.spec, file=file))
        self._snapshots.publish(table, additions)

    def _merge(
        self, table: StoredTable, spec: PartitionSpec, parts: Sequence[str], *, stay: bool
    ) -> tuple[Addition, Addition]:
        """Write the merged rows of a partition, and the changes for the change log."""
        present = [s.name for s in self._snapshots.visible(table, [spec])]
        names = [*present, *parts]
        unit, mark = unit_of(names)
        there = pa.concat_tables([self._rows(table, n, unit) for n in present]) if present else None
        received = [self._rows(table, name, unit) for name in parts]
        rows = pa.concat_tables([*([] if there is None else [there]), *received])
        deleted = pc.equal(rows.column(OPERATION.name), DELETE).combine_chunks()
        if pc.any(is_partial(rows.column(UPDATED.name)), min_count=0).as_py():
            gone = pc.fill_null(deleted, fill_value=False).to_numpy(zero_copy_only=False)
            rows = completed(rows, table.key_columns, gone)
        old = 0 if there is None else there.num_rows
        merged = merge(rows, table.key_columns, deleted, old=old, stay=stay)
        data = rows.drop_columns([OPERATION.name, UPDATED.name])
        changed = data.take(pa.array(merged.changed)).append_column(
            pa.field(OPERATION_TYPE.name, pa.int8()), pa.array(merged.operations, pa.int8())
        )
        files = [
            self._file(
                file_rows.rename_columns(stored_names(file_rows.column_names, table.stored)),
                mark,
                names,
            )
            for file_rows in (data.take(pa.array(merged.kept)), changed)
        ]
        return Addition(spec=spec, file=files[0]), Addition(spec=spec, file=files[1])

    def _file(self, rows: pa.Table, mark: str, made_of: Sequence[str]) -> RowFile:
        """Write merged rows to a file that references the same blobs as the original files."""
        with RowFileWriter(self._folder, rows.schema) as writer:
            for batch in rows.to_batches(BATCH_ROWS):
                writer.write(batch)
            file = writer.finish(mark)
        self._same_blobs(file.name, made_of)
        return file

    def _same_blobs(self, name: str, made_of: Sequence[str]) -> None:
        """Record that a file references the blobs of other files."""
        self._db.run(
            "INSERT OR IGNORE INTO blob_uses SELECT ?, blob_id FROM blob_uses WHERE file IN"
            f" ({','.join('?' * len(made_of))})",
            name,
            *made_of,
        )

    def _rows(self, table: StoredTable, name: str, unit: TimeUnit) -> pa.Table:
        """Read a file's table columns, `OPERATION` and `UPDATED`; absent columns are null."""
        columns = arrow_schema([*table.schema.columns, OPERATION, UPDATED], timestamp_unit=unit)
        return read_file(self._folder, name, columns, table.stored)
