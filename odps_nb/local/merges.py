"""Primary-key tables: upserts and deletes merged into the rows there are (world local).

A part of such a table carries ``__operation`` per row: 85 (``U``) puts a row in place of the one
with its key, 68 (``D``) removes it; null is an upsert. A commit rewrites each partition that it
touches, within the transaction that makes the result visible. ``protocol.md`` section 5.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.local import faults
from odps_nb.local.arrow_types import arrow_schema
from odps_nb.local.database import Database
from odps_nb.local.folder import Folder
from odps_nb.local.ledger import Ledger
from odps_nb.local.row_files import FAR, FINE, RowFileWriter, read_rows
from odps_nb.local.snapshots import Addition, Snapshots
from odps_nb.local.tables import OPERATION, Table
from odps_nb.terms import PartitionSpec, TimeUnit

__all__ = ["Publisher"]

DELETE = ord("D")
BATCH_ROWS = 64 * 1024
_ORDINAL = "__ordinal"


class Publisher:
    """Makes additions visible: as they are, or merged by key."""

    def __init__(self, database: Database, snapshots: Snapshots, folder: Folder) -> None:
        self._db, self._snapshots, self._folder = database, snapshots, folder
        self._ledger = Ledger(database, folder)

    def publish(
        self,
        table: Table,
        additions: Sequence[Addition],
        *,
        replace: Sequence[PartitionSpec] | None = None,
    ) -> int:
        """Publish as `Snapshots.publish` does; return the version.

        The files of a primary-key table are used up: what is visible are new files.
        """
        if not table.key_columns:
            return self._snapshots.publish(table, additions, replace=replace)
        with self._db.transaction():
            merged, touched = [], list(replace or ())
            for spec in dict.fromkeys(addition.spec for addition in additions):
                kept = replace is None or not any(one.covers(spec) for one in replace)
                parts = [a.file.name for a in additions if a.spec == spec]
                merged.append(self._merge(table, spec, parts, with_present=kept))
                touched.append(spec)
            self._ledger.drop([addition.file.file_name for addition in additions])
            return self._snapshots.publish(table, merged, replace=touched)

    def _merge(
        self, table: Table, spec: PartitionSpec, parts: Sequence[str], *, with_present: bool
    ) -> Addition:
        present = [s.name for s in self._snapshots.visible(table, [spec])] if with_present else []
        unit, mark = _unit_of([*present, *parts])
        rows = pa.concat_tables([self._rows(table, name, unit) for name in (*present, *parts)])
        stored = arrow_schema(table.schema.columns, timestamp_unit=unit)
        with RowFileWriter(self._folder, stored) as writer:
            for batch in _newest(rows, table.key_columns).to_batches(BATCH_ROWS):
                writer.write(pa.record_batch(batch.columns[: len(stored)], schema=stored))
            file = writer.finish(mark)
        self._db.run(
            "INSERT OR IGNORE INTO blob_uses SELECT ?, blob_id FROM blob_uses WHERE file IN"
            f" ({','.join('?' * (len(present) + len(parts)))})",
            file.name,
            *present,
            *parts,
        )
        return Addition(spec=spec, file=file)

    def _rows(self, table: Table, name: str, unit: TimeUnit) -> pa.Table:
        """Read a whole file with all columns of the table and the operation; absent is null."""
        columns = arrow_schema([*table.schema.columns, OPERATION], timestamp_unit=unit)

        def filled() -> Iterator[pa.RecordBatch]:
            for batch in read_rows(self._folder, name, columns.names, 0, 1 << 62):
                have = batch.schema.names
                yield pa.record_batch(
                    [
                        batch.column(f.name).cast(f.type)
                        if f.name in have
                        else pa.nulls(batch.num_rows, f.type)
                        for f in columns
                    ],
                    schema=columns,
                )

        return pa.Table.from_batches(filled(), columns)


def _unit_of(names: Sequence[str]) -> tuple[TimeUnit, str]:
    """Return the unit that the timestamps of all files need, and the mark of a file with them."""
    far = any(name.endswith(FAR) for name in names)
    fine = any(name.endswith(FINE) for name in names)
    if far and fine:
        raise faults.invalid(
            "some TIMESTAMPs are out of the range of nanoseconds, others have digits below a"
            " microsecond: a file with a primary key holds one unit"
        )
    return (TimeUnit.MICRO, FAR) if far else (TimeUnit.NANO, FINE if fine else "")


def _newest(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the last row of each key, in the order of their coming; deleted keys fall out."""
    numbered = rows.append_column(_ORDINAL, pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.select([*keys, _ORDINAL]).group_by(list(keys)).aggregate([(_ORDINAL, "max")])
    chosen = rows.take(last.column(f"{_ORDINAL}_max").combine_chunks().sort())
    deleted = pc.fill_null(pc.equal(chosen[OPERATION.name], DELETE), fill_value=False)
    return chosen.filter(pc.invert(deleted))
