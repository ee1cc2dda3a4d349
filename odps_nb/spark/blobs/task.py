"""`map_batches`: the function that runs in the tasks of `blob_map` and `with_blobs`.

Blobs are fetched concurrently and passed to the function one by one as they arrive. The function's
results are sent to Spark in batches of limited size.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.errors import (
    ArgumentError,
    CancelledError,
    ConversionError,
    LimitExceededError,
    OdpsNbError,
)
from odps_nb.spark.blobs.cells import (
    BlobRow,
    Made,
    Row,
    array_of,
    cell_of,
    error_text,
    misfits,
    ordered_row,
    size_of,
)
from odps_nb.spark.progress.counting import TaskCounter, counted
from odps_nb.spark.reading.casting import select
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.terms import BlobReference, Compression, format_bytes

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.wire.frames import BlobRecord

__all__ = ["LARGEST_VALUE", "BlobTask", "Row", "map_batches"]

REFERENCES_PER_REQUEST = 64
#: Maximum bytes of blobs waiting for the function, and of blobs kept for later rows.
FETCHED_AHEAD = 64_000_000
KEPT = 64_000_000
#: A batch is sent when it has this many rows or bytes; its last row may exceed the byte limit.
ROWS_PER_BATCH = 4096
BYTES_PER_BATCH = 16_000_000
LARGEST_BATCH = 64_000_000
#: Maximum bytes of one value in a Spark row. In tests a value of 1 GB crashed the JVM, and one of
#: 500 MB took 12 seconds.
LARGEST_VALUE = 256_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobTask:
    """The parameters of a blob task, pickled together with the function that it calls.

    ``largest`` is the maximum size of a blob in bytes, or ``None`` for no limit. If ``goes_on`` is
    true, the new columns of a failed row are null, and ``error_column``, if set, contains the
    error; it is the last column of ``whole``.
    """

    profile: TaskProfile
    column: int
    name: str
    fn: Callable[[BlobRecord], Row]
    added: pa.Schema
    whole: pa.Schema
    compression: Compression = Compression.NONE
    largest: int | None = None
    goes_on: bool = False
    error_column: str | None = None
    counter: TaskCounter | None = None


def map_batches(task: BlobTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Append the computed columns to every batch, in input order; runs in a task."""
    with (
        task_errors(f"blobs of column {task.name!r}"),
        counted(task.counter) as tracker,
        task.profile.open() as storage,
    ):
        resources, first = _Resources(task, storage, tracker, _partition()), 0
        for batch in batches:
            yield from _map_batch(resources, batch, first)
            first += batch.num_rows


def _partition() -> int | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.partitionId()


class _Resources(NamedTuple):
    """The open resources and the partition number of a running task."""

    task: BlobTask
    storage: StorageClient
    tracker: ProgressTracker | None
    partition: int | None


def _map_batch(
    resources: _Resources, batch: pa.RecordBatch, first: int
) -> Iterator[pa.RecordBatch]:
    results, sent = _Results(resources.task, resources.tracker), 0
    tokens = batch.column(resources.task.column).to_pylist()
    with contextlib.closing(_rows(resources, tokens, first)) as rows:
        for row in rows:
            results.add(row)
            if results.is_full:
                count = results.rows
                finished = results.with_new_columns(batch.slice(sent, count))
                results, sent = _Results(resources.task, resources.tracker), sent + count
                yield from _cut(finished)
    if results.rows:
        yield from _cut(results.with_new_columns(batch.slice(sent)))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until each part is small enough; even the input columns may be too large."""
    if batch.num_rows < 2 or batch.nbytes <= LARGEST_BATCH:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))


def _rows(
    resources: _Resources, tokens: list[str | None], first: int
) -> Generator[Made, None, None]:
    """Call the function for every reference, in order; ``first`` is the number of the first row."""
    refused = {token: error for token in {*tokens} - {None} if (error := _refused(token))}
    references = [token for token in tokens if token is not None and token not in refused]
    with contextlib.closing(_records(resources, references)) as records:
        for number, token in enumerate(tokens, first):
            if token is None:
                yield Made()
                continue
            blob_row = BlobRow(row=number, task=resources.partition, reference=token)
            if token in refused:
                yield Made(place=blob_row, error=refused[token])
                continue
            try:
                record = next(records)
            except OdpsNbError as error:  # the error of a single blob is yielded, not raised
                error.add_note(f"waiting for {blob_row}")
                raise
            yield _made(resources.task.fn, record, blob_row)


def _refused(token: Any) -> ArgumentError | None:
    """Return the error if a value cannot be a blob reference; then only its rows fail."""
    try:
        BlobReference.from_text(token)
    except ArgumentError as error:
        return error
    return None


def _made(
    fn: Callable[[BlobRecord], Row], record: BlobRecord | OdpsNbError, blob_row: BlobRow
) -> Made:
    if isinstance(record, OdpsNbError):
        return Made(place=blob_row, error=record)
    blob_row = replace(blob_row, file_name=record.file_name, request_id=record.request_id)
    try:
        return Made(fn(record), blob_row)
    except CancelledError:
        raise
    except Exception as error:  # noqa: BLE001  the user's function may raise anything
        return Made(place=blob_row, error=error)


def _records(
    resources: _Resources, tokens: list[str]
) -> Generator[BlobRecord | OdpsNbError, None, None]:
    """Yield one blob per reference; blobs of repeated references are kept in memory if they fit."""
    left = Counter(tokens)
    repeated: dict[str, BlobRecord | OdpsNbError] = {}
    seen: set[str] = set()
    room = KEPT
    with contextlib.closing(_fetch(resources, list(left))) as fetched:
        for token in tokens:
            record = repeated.pop(token, None)
            if record is not None:
                room += _held(record)
            elif token in seen:
                (record,) = _fetch(resources, [token])
            else:
                record = next(fetched)
                seen.add(token)
            left[token] -= 1
            if left[token] and _held(record) <= room:
                repeated[token] = record
                room -= _held(record)
            yield record


def _held(record: BlobRecord | OdpsNbError) -> int:
    return 0 if isinstance(record, OdpsNbError) else len(record.data)


def _fetch(
    resources: _Resources, tokens: list[str]
) -> Generator[BlobRecord | OdpsNbError, None, None]:
    """Yield, in order, the blob of each distinct reference, or the error from fetching it."""
    from odps_nb.client.blob.many import iter_blobs_or_errors
    from odps_nb.client.blob.response import MAX_BLOB

    task, tracker = resources.task, resources.tracker
    fetched = iter_blobs_or_errors(
        resources.storage,
        [BlobReference.from_text(token) for token in tokens],
        compression=task.compression,
        batch_count=REFERENCES_PER_REQUEST,
        max_bytes=FETCHED_AHEAD,
        max_blob=MAX_BLOB if task.largest is None else task.largest,
        tracker=tracker,
        cancel=None,
    )
    with contextlib.closing(fetched):
        for outcome in fetched:
            if tracker is not None and isinstance(outcome, OdpsNbError):
                tracker.add(items=1)  # a failed fetch also counts as finished
            if isinstance(outcome, LimitExceededError) and outcome.limit == task.largest:
                yield _too_large(task, outcome)
            else:
                yield outcome


def _too_large(task: BlobTask, error: LimitExceededError) -> LimitExceededError:
    size = "is larger" if error.actual is None else f"has {format_bytes(error.actual)}, more"
    return LimitExceededError(
        f"a blob of column {task.name!r} {size} than max_blob_bytes="
        f"{format_bytes(task.largest or 0)}",
        limit=error.limit,
        actual=error.actual,
        hint="process large blobs inside the tasks with odps_nb.spark.blob_map, or increase "
        f"max_blob_bytes (up to {format_bytes(LARGEST_VALUE)})",
        request_id=error.request_id,
    )


class _Results:
    """Buffers the rows that the function returns, until a batch is sent."""

    def __init__(self, task: BlobTask, tracker: ProgressTracker | None) -> None:
        self.task, self.tracker = task, tracker
        self.columns: list[list[Any]] = [[] for _ in self.task.added]
        self.places: list[BlobRow | None] = []
        self.errors: list[str | None] = []
        self.size = 0

    @property
    def rows(self) -> int:
        return len(self.places)

    @property
    def is_full(self) -> bool:
        return self.rows >= ROWS_PER_BATCH or self.size >= BYTES_PER_BATCH

    def add(self, result: Made) -> None:
        """Buffer a row."""
        error, cells = result.error, list[Any]()
        if error is None:
            try:
                cells = self._cells(result.row)
            except Exception as caught:  # noqa: BLE001  e.g. a file named by a NewBlob is missing
                error = caught
        if error is not None:
            cells = [None] * len(self.columns)
        self.errors.append(None if error is None else self._failed(error, result.place))
        self.places.append(result.place)
        for values, cell in zip(self.columns, cells, strict=True):
            values.append(cell)
            self.size += size_of(cell)

    def _cells(self, row: Row) -> list[Any]:
        cells = []
        for value, kind in zip(ordered_row(row, self.task.added), self.task.added, strict=True):
            cell = cell_of(value, kind.type)
            size = size_of(cell)
            if size > LARGEST_VALUE:
                raise LimitExceededError(
                    f"the function returned {format_bytes(size)} for {kind.name!r}; the maximum "
                    f"for a value in a Spark row is {format_bytes(LARGEST_VALUE)}",
                    limit=LARGEST_VALUE,
                    actual=size,
                    hint="return smaller values, or write large blobs without Spark: "
                    "odps.table(…).write(…)",
                )
            cells.append(cell)
        return cells

    def _failed(self, error: Exception, blob_row: BlobRow | None) -> str:
        """Return the text for the error column; raise the error if ``on_error`` is ``"raise"``."""
        if not self.task.goes_on:
            if blob_row is not None:
                error.add_note(str(blob_row))
            raise error
        text = error_text(error, blob_row)
        if self.tracker is not None:
            self.tracker.noted(f"row {'' if blob_row is None else blob_row.row}: {text}")
        return text

    def with_new_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the input rows with their new columns."""
        try:
            arrays = self._arrays()
        except ConversionError:
            self._leave_out_misfits()
            arrays = self._arrays()
        if self.task.error_column is not None:
            arrays.append(pa.array(self.errors, pa.string()))
        names = self.task.whole.names
        return select(pa.RecordBatch.from_arrays([*batch.columns, *arrays], names), self.task.whole)

    def _arrays(self) -> list[pa.Array]:
        pairs = zip(self.columns, self.task.added, strict=True)
        return [array_of(values, kind) for values, kind in pairs]

    def _leave_out_misfits(self) -> None:
        for values, kind in zip(self.columns, self.task.added, strict=True):
            for row, error in misfits(values, kind).items():
                self.errors[row] = self._failed(error, self.places[row])
                for column in self.columns:
                    column[row] = None
