"""Incremental reads of primary-key tables: rows changed in a range of versions, grouped by bucket.

Each session has its own row files: one per partition, with rows sorted by bucket. Mode ``cdc``
returns every change. Mode ``append`` returns the last state of each key that was not deleted.
The form of the response follows the C++ client's live tests (TestIncrementalReadOptions*).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.local import errors
from odps_nb.local.store.arrow_types import arrow_schema
from odps_nb.local.store.changes import DELETE, OPERATION_TYPE, UPDATE_AFTER, ChangeLog, Record
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.row_files import (
    RowFile,
    RowFileWriter,
    read_file,
    stored_names,
    unit_of,
)
from odps_nb.local.store.snapshots import Segment
from odps_nb.local.store.tables import StoredTable
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TimeUnit

UPDATED = 8
"""The operation that mode ``append`` reports for a row whose key existed before."""
DEFAULT_BUCKETS = 16
MODES = ("append", "cdc")
BATCH_ROWS = 64 * 1024

CHANGED_AT = Column(name="__meta_timestamp", type=PrimitiveType(TypeCode.DATETIME))


SYSTEM_COLUMNS = OPERATION_TYPE, CHANGED_AT
"""The system columns of change streams. Only the first name is confirmed for the real service."""


def with_system_columns(schema: TableSchema) -> TableSchema:
    """Return the schema with the system columns of change streams after the data columns."""
    own = {column.name for column in SYSTEM_COLUMNS}
    data = (column for column in schema.columns if column.name not in own)
    return replace(schema, columns=(*data, *SYSTEM_COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A range of versions ``(after, upto]`` and the mode in which to read it."""

    after: int
    upto: int
    mode: str

    @classmethod
    def of(
        cls, options: Mapping[str, object], table: StoredTable, version_at: Callable[[float], int]
    ) -> Interval:
        """Parse ``IncrementalReadOptions``; a bound that is -1 or missing sets no limit."""
        settings = {
            key: value for key, value in options.items() if value not in (None, "", -1, "-1")
        }
        mode = str(settings.get("Mode", "")).lower()

        def bound(name: str, other: str, time: str, default: int) -> int:
            value, moment = settings.get(name), settings.get(time)
            if mode == "timestamp":
                moment = settings.get(other) if moment is None else moment
            elif value is None:
                value = settings.get(other, default)
            if moment is not None:
                return version_at(seconds_of(moment))
            try:
                return default if value is None else int(str(value))
            except ValueError:
                raise errors.invalid(f"{value!r} is neither a version nor a time") from None

        return cls(
            after=bound("StartVersion", "From", "StartTimeStamp", 0),
            upto=bound("EndVersion", "To", "EndTimeStamp", table.version),
            mode=mode,
        )


def seconds_of(value: object) -> float:
    """Parse a time given as epoch seconds or milliseconds, or as ISO 8601 text (UTC by default).

    One to three digits after the last dot are a number of milliseconds: ``.5`` means 5 ms (as in
    the C++ client's live test).
    """
    text = str(value)
    if text.isdecimal():
        number = float(text)
        return number / 1000 if number >= 1e11 else number
    whole, dot, digits = text.rpartition(".")
    milliseconds = 0
    if dot and digits.isdecimal() and len(digits) <= 3:
        text, milliseconds = whole, int(digits)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise errors.invalid(f"{value!r} is not a valid time") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.timestamp() + milliseconds / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The changes in one partition: its buckets with their row counts, and the file of rows."""

    spec: PartitionSpec
    buckets: tuple[tuple[int, int], ...]
    file: RowFile | None


def bucket_ranges(
    changed: Sequence[Changed], segments: Sequence[Segment]
) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
    """Return the row range and bucket of each split. Skips files that are not in ``segments``."""
    names = {segment.name for segment in segments}
    parts = [change for change in changed if change.file is None or change.file.name in names]
    buckets = [bucket for part in parts for bucket in part.buckets]
    ends = accumulate((rows for _, rows in buckets), initial=0)
    return list(pairwise(ends)), tuple(bucket for bucket, _ in buckets)


def changed_rows(
    folder: DataFolder,
    log: ChangeLog,
    table: StoredTable,
    interval: Interval,
    specs: Sequence[PartitionSpec],
) -> Iterator[Changed]:
    """Write each partition's changed rows to a file; yield the row counts and the file."""
    records_by_spec: dict[PartitionSpec, list[Record]] = {}
    for record in log.records(table, interval.after, interval.upto, specs):
        records_by_spec.setdefault(record.spec, []).append(record)
    for spec, records in records_by_spec.items():
        unit, mark = unit_of([record.name for record in records])
        rows = pa.concat_tables([_rows(folder, table, record, unit) for record in records])
        buckets = _buckets(rows, table)
        touched = np.unique(buckets)
        if interval.mode == "append":
            rows, buckets = _last_state(rows, buckets, table.key_columns)
        file = None
        if rows.num_rows:
            rows = rows.rename_columns(stored_names(rows.column_names, table.stored))
            with RowFileWriter(folder, rows.schema) as writer:
                order = np.argsort(buckets, kind="stable")
                for batch in rows.take(pa.array(order)).to_batches(BATCH_ROWS):
                    writer.write(batch)
                file = writer.finish(mark)
        counted = tuple((int(number), int((buckets == number).sum())) for number in touched)
        yield Changed(spec=spec, file=file, buckets=counted)


def _rows(folder: DataFolder, table: StoredTable, record: Record, unit: TimeUnit) -> pa.Table:
    """Read the changes of one version, with all current columns of the table."""
    columns = arrow_schema([*table.schema.columns, *SYSTEM_COLUMNS], timestamp_unit=unit)
    nullable = pa.schema([field.with_nullable(True) for field in columns])
    rows = read_file(folder, record.name, nullable, table.stored)
    index = nullable.get_field_index(CHANGED_AT.name)
    at = pa.scalar(int(record.at * 1000), nullable.field(index).type)
    return rows.set_column(index, nullable.field(index), pa.repeat(at, rows.num_rows))


def _last_state(
    rows: pa.Table, buckets: np.ndarray, keys: Sequence[str]
) -> tuple[pa.Table, np.ndarray]:
    """Return the last row of each key, except keys whose last row is a delete."""
    numbered = rows.select(list(keys)).append_column("__at", pa.array(range(rows.num_rows)))
    last = numbered.group_by(list(keys)).aggregate([("__at", "max")]).column("__at_max")
    row_numbers = np.sort(last.to_numpy())
    operations = rows.column(OPERATION_TYPE.name).to_numpy()[row_numbers]
    row_numbers, operations = row_numbers[operations != DELETE], operations[operations != DELETE]
    last_rows = rows.take(pa.array(row_numbers))
    shown = np.where(operations == UPDATE_AFTER, UPDATED, operations)
    index = last_rows.schema.get_field_index(OPERATION_TYPE.name)
    last_rows = last_rows.set_column(
        index, last_rows.schema.field(index), pa.array(shown, pa.int8())
    )
    return last_rows, buckets[row_numbers]


def _buckets(rows: pa.Table, table: StoredTable) -> np.ndarray:
    """Return the bucket of each row; a key has the same bucket in all versions."""
    text = table.properties.get("write.bucket.num", "")
    count = max(1, int(text)) if text.isascii() and text.isdigit() else DEFAULT_BUCKETS
    keys = rows.select(list(table.key_columns))
    if keys.num_columns == 1 and pa.types.is_integer(keys.schema.field(0).type):
        numbers = pc.fill_null(keys.column(0).cast(pa.int64()), 0).to_numpy()
        return np.asarray(np.mod(numbers, count), np.int64)
    columns = [_python_values(column) for column in keys.columns]
    hashes = (zlib.crc32(repr(key).encode()) % count for key in zip(*columns, strict=True))
    return np.fromiter(hashes, np.int64, rows.num_rows)


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return values for hashing; a time has the same value in microseconds and nanoseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    elif pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()  # type: ignore[no-any-return]  # pyarrow
