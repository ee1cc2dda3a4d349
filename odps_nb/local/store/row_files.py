"""Writes row files (a partition's data columns as Parquet), and reads them by row range."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odps_nb.local import errors
from odps_nb.local.store.folder import ROWS, DataFolder
from odps_nb.local.store.group_starts import GroupStarts
from odps_nb.terms import TimeUnit

log = logging.getLogger("odps_nb.local")

ROW_GROUP_ROWS = 60_000
FLUSH_BYTES = 32 * 1024 * 1024
SAMPLED_ROWS = 10_000
REPEATS = 4
# Marks at the end of a file's hexadecimal name; they describe the file's timestamps.
FAR = "u"
"""Timestamps are in microseconds, because some exceed the range of nanoseconds."""
FINE = "n"
"""Some timestamps have digits below a microsecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A finished row file: its id, row count, and size in bytes as Arrow and on disk."""

    name: str
    rows: int
    raw_bytes: int
    disk_bytes: int

    @property
    def file_name(self) -> str:
        """The name of the file in its folder."""
        return self.name + ROWS


class RowFileWriter:
    """Writes one row file in row groups. An error inside the ``with`` block deletes the file."""

    def __init__(self, folder: DataFolder, schema: pa.Schema) -> None:
        self._folder, self._schema = folder, schema
        self._path = folder.work_file(".parquet")
        self._writer: pq.ParquetWriter | None = None
        self._hot_path = folder.work_file(".arrow")
        self._hot: pa.RecordBatchFileWriter | None = pa.ipc.new_file(str(self._hot_path), schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self.rows = self.raw_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. The batch must have exactly the writer's schema."""
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        self.rows += batch.num_rows
        self.raw_bytes += batch.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= FLUSH_BYTES:
            self._flush()

    def finish(self, mark: str = "") -> RowFile:
        """Close and publish the file with ``mark`` (such as `FAR`) at the end of its name."""
        self._flush()
        if self._writer is None:
            self._writer = self._open(self._schema.empty_table())
        self._close()
        size = self._path.stat().st_size
        name = self._folder.publish_data(self._path, self._folder.row_file, mark)
        self._folder.hot.admit(name, self._hot_path)
        return RowFile(name=name, rows=self.rows, raw_bytes=self.raw_bytes, disk_bytes=size)

    def discard(self) -> None:
        """Delete the unfinished file. Idempotent."""
        try:
            self._close()
        except OSError as error:  # the disk may be full; delete the file anyway
            log.info("deleting the unfinished file %s: %s", self._path.name, error)
        self._path.unlink(missing_ok=True)
        self._hot_path.unlink(missing_ok=True)

    def __enter__(self) -> RowFileWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def _flush(self) -> None:
        if not self._pending_rows:
            self._pending.clear()
            return
        assert self._hot is not None
        table = pa.Table.from_batches(self._pending, self._schema).combine_chunks()
        self._writer = self._writer or self._open(table)
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._hot.write_table(table, max_chunksize=ROW_GROUP_ROWS)
        self._pending.clear()
        self._pending_rows = self._pending_bytes = 0

    def _open(self, sample: pa.Table) -> pq.ParquetWriter:
        """Open the Parquet file. Dictionary encoding is slow, so only repetitive columns use it."""
        repeating = [n for n in sample.column_names if _repeats(sample.column(n))]
        return pq.ParquetWriter(
            self._path, self._schema, compression="lz4", use_dictionary=repeating
        )

    def _close(self) -> None:
        with ExitStack() as stack:
            for writer in (self._writer, self._hot):
                if writer is not None:
                    stack.callback(writer.close)
            self._writer = self._hot = None


def unit_of(names: Sequence[str]) -> tuple[TimeUnit, str]:
    """Return the time unit of a file merged from the named files, and its file name mark."""
    far = any(name.endswith(FAR) for name in names)
    fine = any(name.endswith(FINE) for name in names)
    if far and fine:
        raise errors.invalid(
            "some TIMESTAMPs are outside the range of nanoseconds and others have digits below a"
            " microsecond; in the embedded service, a table cannot contain both if it has a"
            " primary key or is written by SQL"
        )
    return (TimeUnit.MICRO, FAR) if far else (TimeUnit.NANO, FINE if fine else "")


def _repeats(column: pa.ChunkedArray) -> bool:
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return False
    sample = column.slice(0, SAMPLED_ROWS)
    return bool(pc.count_distinct(sample).as_py() * REPEATS < len(sample))


def stored_names(names: Iterable[str], stored: Mapping[str, str]) -> list[str]:
    """Return the names of columns in row files."""
    return [stored.get(name, name) for name in names]


def read_rows(
    folder: DataFolder, name: str, columns: Sequence[str], start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows ``[start, stop)`` of a file in order, one batch per row group.

    Columns that the file lacks are omitted. If no columns are requested, batches have only a row
    count.
    """
    source = folder.hot.open(name)
    if source is not None:
        with source:
            file = pa.ipc.open_file(source)
            starts = folder.starts.get(f"{name}.arrow", lambda: GroupStarts(_sizes(file)))
            selected = [column for column in columns if column in set(file.schema.names)]
            for index, low, high in starts.ranges(start, stop):
                batch = file.get_batch(index).slice(low, high - low)
                yield batch.select(selected) if selected else _counted(high - low)
        return
    path = folder.row_file(name)
    starts = folder.starts.get(name, lambda: _parquet_starts(path))
    with pq.ParquetFile(path, metadata=starts.metadata, memory_map=True) as file:
        selected = [column for column in columns if column in set(file.schema_arrow.names)]
        for index, low, high in starts.ranges(start, stop):
            if not selected:
                yield _counted(high - low)
                continue
            group = file.read_row_group(index, columns=selected, use_threads=True)
            yield from group.slice(low, high - low).to_batches()


def read_file(
    folder: DataFolder, name: str, schema: pa.Schema, stored: Mapping[str, str]
) -> pa.Table:
    """Read all rows of a file with a schema's columns. Columns that the file lacks are null.

    ``stored`` maps columns to their names in the file, where these differ.
    """
    names = stored_names(schema.names, stored)

    def filled() -> Iterator[pa.RecordBatch]:
        for batch in read_rows(folder, name, names, 0, 1 << 62):
            have, rows = batch.schema.names, batch.num_rows
            arrays = [
                batch.column(n).cast(f.type) if n in have else pa.nulls(rows, f.type)
                for n, f in zip(names, schema, strict=True)
            ]
            yield pa.record_batch(arrays, schema=schema)

    return pa.Table.from_batches(filled(), schema)


def _sizes(file: pa.RecordBatchFileReader) -> list[int]:
    return [file.get_batch(i).num_rows for i in range(file.num_record_batches)]


def _parquet_starts(path: Path) -> GroupStarts:
    metadata = pq.read_metadata(
        path, memory_map=True
    )  # parsing is slow, so callers cache the result
    return GroupStarts(
        [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)], metadata
    )


def _counted(rows: int) -> pa.RecordBatch:
    """Return a batch that has a row count but no data."""
    return pa.record_batch({"": pa.nulls(rows)})
