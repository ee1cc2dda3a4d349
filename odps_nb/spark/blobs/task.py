"""`map_batches`: the task side of `blob_map` and `with_blobs`.

References in, rows out: blobs are fetched many at a time, handed to a function one by one as they
arrive, and what it returns is sent on before it fills the memory. Runs on executors: sees no
session of Spark's.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.access.blob import NewBlob
from odps_nb.errors import ConversionError, LimitExceededError
from odps_nb.spark.progress.messages import ReportTo
from odps_nb.spark.progress.task_client import Watch, reported
from odps_nb.spark.reading.casting import select
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.terms import BlobReference, Compression, format_bytes

if TYPE_CHECKING:
    from odps_nb.client.blob.many import BlobRecord
    from odps_nb.client.calls.storage import StorageClient

__all__ = ["LARGEST_VALUE", "BlobTask", "Row", "map_batches"]

REFERENCES_PER_REQUEST = 64
#: Bytes of blobs that may wait here for the function, and of those kept for a later row.
FETCHED_AHEAD = 64_000_000
KEPT = 64_000_000
#: Rows, and bytes of results, that are sent on together; and what no batch exceeds unless a
#: single row does.
ROWS_PER_BATCH = 4096
BYTES_PER_BATCH = 16_000_000
LARGEST_BATCH = 64_000_000
#: Bytes of one value in a row of Spark. A value of 1 GB was seen to end the JVM, and half of it
#: to take a dozen seconds.
LARGEST_VALUE = 256_000_000

Row = dict[str, Any] | tuple[Any, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobTask:
    """What a task needs; pickled with the function that it calls.

    ``largest`` is the largest blob in bytes that is fetched, ``None`` for any.
    """

    profile: TaskProfile
    column: int
    name: str
    fn: Callable[[BlobRecord], Row]
    added: pa.Schema
    whole: pa.Schema
    compression: Compression = Compression.NONE
    largest: int | None = None
    report_to: ReportTo | None = None


def map_batches(task: BlobTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Append the computed columns to every batch, in order; runs in a task."""
    what = f"of {task.name}"
    with (
        task_errors(f"blobs of column {task.name!r}"),
        reported(task.report_to, operation="blobs", title=what) as watch,
        task.profile.open() as storage,
    ):
        if watch.tracker is not None:
            watch.tracker.plan_split(what)
        resources = _Resources(task, storage, watch)
        for batch in batches:
            yield from _map_batch(resources, batch)
        if watch.tracker is not None:
            watch.tracker.split_done(what)


class _Resources(NamedTuple):
    """Resources of a running task."""

    task: BlobTask
    storage: StorageClient
    watch: Watch


def _map_batch(resources: _Resources, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    results, sent = _Results(resources.task), 0
    tokens = batch.column(resources.task.column).to_pylist()
    with contextlib.closing(_rows(resources, tokens)) as rows:
        for row in rows:
            results.add(row)
            if results.is_full:
                count = results.rows
                yield from _cut(results.take(batch.slice(sent, count)))
                sent += count
    if results.rows:
        yield from _cut(results.take(batch.slice(sent)))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until it is small enough; its input columns may be large, too."""
    if batch.num_rows < 2 or batch.nbytes <= LARGEST_BATCH:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))


# -- blobs in -----------------------------------------------------------------------------------


def _rows(resources: _Resources, tokens: list[str | None]) -> Generator[Row, None, None]:
    """Call the function for every reference, in order; ``None`` where there is none."""
    wanted = [token for token in tokens if token is not None]
    with contextlib.closing(_records(resources, wanted)) as records:
        for token in tokens:
            yield None if token is None else resources.task.fn(next(records))


def _records(resources: _Resources, tokens: list[str]) -> Generator[BlobRecord, None, None]:
    """Iterate over one blob per reference, in order; one that is named again is fetched once.

    Unless what is kept for later rows grows too large: then it is fetched again.
    """
    left = Counter(tokens)
    kept: dict[str, BlobRecord] = {}
    seen: set[str] = set()
    room = KEPT
    with contextlib.closing(_fetch(resources, list(left))) as fetched:
        for token in tokens:
            record = kept.pop(token, None)
            if record is not None:
                room += len(record.data)
            elif token in seen:
                (record,) = _fetch(resources, [token])
            else:
                record = next(fetched)
                seen.add(token)
            left[token] -= 1
            if left[token] and len(record.data) <= room:
                kept[token] = record
                room -= len(record.data)
            yield record


def _fetch(resources: _Resources, tokens: list[str]) -> Generator[BlobRecord, None, None]:
    from odps_nb.client.blob.many import MAX_BLOB, iter_blobs

    task, watch = resources.task, resources.watch
    largest = MAX_BLOB if task.largest is None else task.largest
    try:
        yield from iter_blobs(
            resources.storage,
            [BlobReference.from_text(token) for token in tokens],
            compression=task.compression,
            batch_count=REFERENCES_PER_REQUEST,
            max_bytes=FETCHED_AHEAD,
            max_blob=largest,
            metadata=True,
            tracker=watch.tracker,
            cancel=watch.cancel,
        )
    except LimitExceededError as error:
        if task.largest is None or error.limit != task.largest:
            raise
        raise _too_large(task, error) from None


def _too_large(task: BlobTask, error: LimitExceededError) -> LimitExceededError:
    size = "is" if error.actual is None else f"has {format_bytes(error.actual)}, which is"
    return LimitExceededError(
        f"a blob of column {task.name!r} {size} more than max_blob_bytes="
        f"{format_bytes(task.largest or 0)}",
        limit=error.limit,
        actual=error.actual,
        hint="work on large blobs where they are fetched, with odps_nb.spark.blob_map, or raise "
        f"max_blob_bytes (to {format_bytes(LARGEST_VALUE)} at most)",
        request_id=error.request_id,
    )


# -- results out --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Results:
    """Buffers rows that the function returned until they are sent."""

    task: BlobTask
    columns: list[list[Any]] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        self.columns = [[] for _ in self.task.added]

    @property
    def is_full(self) -> bool:
        return self.rows >= ROWS_PER_BATCH or self.size >= BYTES_PER_BATCH

    def add(self, row: Row) -> None:
        ordered = _ordered(row, self.task.added)
        for values, value, kind in zip(self.columns, ordered, self.task.added, strict=True):
            cell = _cell(value, kind.type)
            size = _size(cell)
            if size > LARGEST_VALUE:
                raise _too_much(kind.name, size)
            values.append(cell)
            self.size += size
        self.rows += 1

    def take(self, kept: pa.RecordBatch) -> pa.RecordBatch:
        """Return the input rows with their new columns, and empty the buffer."""
        made = [
            _as_array(values, field)
            for values, field in zip(self.columns, self.task.added, strict=True)
        ]
        self.columns, self.rows, self.size = [[] for _ in self.task.added], 0, 0
        names = self.task.whole.names
        return select(pa.RecordBatch.from_arrays([*kept.columns, *made], names), self.task.whole)


def _ordered(row: Row, schema: pa.Schema) -> Iterable[Any]:
    if row is None:
        return [None] * len(schema)
    if isinstance(row, dict):
        if strange := row.keys() - set(schema.names):
            raise ConversionError(
                f"the function returned {sorted(map(str, strange))[0]!r}, which is not a column",
                hint=f"the columns are: {', '.join(schema.names)}",
            )
        return [row.get(name) for name in schema.names]
    if isinstance(row, tuple) and len(row) == len(schema):
        return row
    raise ConversionError(
        f"the function returned {type(row).__name__}"
        + (f" of {len(row)}" if isinstance(row, tuple) else ""),
        target_type=f"dict, or tuple of {len(schema)}",
        hint="return a dict by column name, or a tuple with one value per column",
    )


def _cell(value: Any, kind: pa.DataType) -> Any:
    """Return a value as Arrow takes it: new blobs as structs, also inside of lists and structs."""
    if isinstance(value, NewBlob):
        return _described(value)
    if pt.is_struct(kind):
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"data": value}
        if isinstance(value, dict):
            types = {one.name: one.type for one in kind}
            return {k: _cell(v, types[k]) if k in types else v for k, v in value.items()}
    if pt.is_list(kind) and isinstance(value, (list, tuple)):
        return [_cell(one, kind.value_type) for one in value]
    return value


def _described(blob: NewBlob) -> dict[str, Any]:
    from odps_nb.access.writing.blob_cells import content_of

    content = content_of(blob, _never)
    data = content.data
    if isinstance(data, Path):
        data = data.read_bytes()
    elif not isinstance(data, bytes):
        data = data.read()
    return {"data": data, "mime_type": content.mime_type, "file_name": content.file_name}


def _never(reference: BlobReference) -> Any:
    raise AssertionError(f"a new blob is no copy: {reference!r}")


def _size(value: Any) -> int:
    """Return the approximate size of a value in Arrow, in bytes."""
    if isinstance(value, (bytes, bytearray, memoryview, str)):
        return len(value)
    if isinstance(value, dict):
        return sum(_size(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_size(one) for one in value)
    return 8


def _too_much(name: str, size: int) -> LimitExceededError:
    return LimitExceededError(
        f"the function returned {format_bytes(size)} for {name!r}; a value of Spark is "
        f"{format_bytes(LARGEST_VALUE)} at most here",
        limit=LARGEST_VALUE,
        actual=size,
        hint="return less, or write large blobs without Spark: odps.table(…).write(…)",
    )


def _as_array(values: list[Any], field: pa.Field) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ConversionError(
            f"the function's values for {field.name!r} do not fit: {error}",
            column=field.name,
            target_type=str(field.type),
            hint="return what the schema says; a NewBlob is of type odps_nb.spark.NEW_BLOB",
        ) from None
