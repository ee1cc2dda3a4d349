"""Row files: Parquet written once, read by row range (world local).

A row file holds the data columns of one partition (partition values live in the catalogue).
Files are written under ``work/`` and renamed when whole. Reading is lazy and bounded: one row
group at a time. Knows Arrow and the folder; no sessions, no SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from odps_nb.local.folder import Folder, new_id

__all__ = ["RowFile", "RowFileWriter", "read_rows"]

ROW_GROUP_ROWS = 64 * 1024
FLUSH_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A finished row file: its id, rows, bytes as Arrow and bytes on disk."""

    name: str
    rows: int
    raw_bytes: int
    disk_bytes: int


class RowFileWriter:
    """Writes one row file; leaving the block by an error leaves nothing behind.

    Batches are gathered into row groups, so that many small batches make no small groups.
    """

    def __init__(self, folder: Folder, schema: pa.Schema) -> None:
        self._folder, self._schema = folder, schema
        self._path = folder.work_file(".parquet")
        self._writer: pq.ParquetWriter | None = pq.ParquetWriter(
            self._path, schema, compression="lz4", use_dictionary=True, write_statistics=True
        )
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self.rows = self.raw_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; the batch has exactly the writer's schema."""
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        self.rows += batch.num_rows
        self.raw_bytes += batch.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= FLUSH_BYTES:
            self._flush()

    def finish(self) -> RowFile:
        """Close and publish the file; return what the catalogue must know."""
        self._flush()
        assert self._writer is not None
        self._writer.close()
        self._writer = None
        name = new_id()
        size = self._path.stat().st_size
        self._folder.publish(self._path, self._folder.row_file(name))
        return RowFile(name=name, rows=self.rows, raw_bytes=self.raw_bytes, disk_bytes=size)

    def discard(self) -> None:
        """Drop what was written; a second call does nothing."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> RowFileWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def _flush(self) -> None:
        if not self._pending_rows:
            self._pending.clear()
            return
        assert self._writer is not None
        table = pa.Table.from_batches(self._pending, self._schema)
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._pending.clear()
        self._pending_rows = self._pending_bytes = 0


def read_rows(
    folder: Folder, name: str, columns: Sequence[str], start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows ``[start, stop)`` of a file in order, a row group at a time.

    Columns that the file was written without are left out; the caller fills them. With no
    columns left, batches carry the row count alone.
    """
    with pq.ParquetFile(folder.row_file(name), memory_map=True) as file:
        have = set(file.schema_arrow.names)
        wanted = [column for column in columns if column in have]
        seen = 0
        for index in range(file.num_row_groups):
            rows = file.metadata.row_group(index).num_rows
            low, high = max(start - seen, 0), min(stop - seen, rows)
            seen += rows
            if low >= high:
                if seen >= stop:
                    return
                continue
            yield from _slices(_group(file, index, wanted, rows), low, high)


def _group(file: pq.ParquetFile, index: int, columns: list[str], rows: int) -> pa.Table:
    if not columns:
        # a table without columns cannot say how many rows it has; a batch can
        return pa.table({"": pa.nulls(rows)})
    return file.read_row_group(index, columns=columns, use_threads=True)


def _slices(table: pa.Table, low: int, high: int) -> Iterator[pa.RecordBatch]:
    yield from table.slice(low, high - low).to_batches()
