"""`write_partition`: writes the rows of one task into one stream of a write session.

Every attempt of a task writes a separate stream, named by Spark's task attempt id, which is never
reused. Runs on executors. A commit names only the streams of the attempts that Spark reports as
successful, so the rows of failed, killed or late attempts are never committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.blob import NewBlob
from odps_nb.access.blobs.paths import map_blobs
from odps_nb.access.writing.replacing import named_partitions
from odps_nb.access.writing.sources import Chunk, Target, check_fixed, with_partitions
from odps_nb.access.writing.uploading import CellUploader
from odps_nb.client.write.operations import Stamp, StreamReceipt, WriteSessionRef
from odps_nb.client.write.session import abort_write, stream_of
from odps_nb.convert.arrow_schema import fit_batch, match_names
from odps_nb.errors import ArgumentError
from odps_nb.schema import Column
from odps_nb.spark.progress.counting import TaskCounter, counted
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.terms import BlobReference, Compression, PartitionSpec, TableName

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

#: Maximum number of streams of one session, and of table partitions that one session creates from
#: rows. The service's own connectors use the same limits.
MAX_STREAMS = 20_000
MAX_PARTITIONS = 512
#: Maximum number of streams with the tunnel. Each stream is an upload session, of which the service
#: allows 500 for a table in five minutes (vendor's page *Overview of DTS*).
MAX_TUNNEL_STREAMS = 400
BLOB_ROWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """The parameters of a write task; pickled once with the function that writes."""

    profile: TaskProfile
    session: WriteSessionRef
    target: Target
    compression: Compression = Compression.NONE
    max_partitions: int = MAX_PARTITIONS
    counter: TaskCounter | None = None
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A closed stream, with the number and the total size (bytes) of its blobs.

    ``partitions`` are the table partitions of its rows, as text.
    """

    stream: StreamReceipt
    blobs: int = 0
    blob_size: int = 0
    partitions: tuple[str, ...] = ()


def partitions_of(done: Iterable[Written]) -> set[PartitionSpec]:
    """Return the table partitions that the rows of these streams belong to."""
    return {PartitionSpec.of(text) for one in done for text in one.partitions}


def check_written(
    table: TableName, done: Sequence[Written], max_partitions: int = MAX_PARTITIONS
) -> None:
    """Raise if a commit has more streams or partitions than a session allows."""
    if len(done) > MAX_STREAMS:
        raise ArgumentError(
            f"{len(done)} tasks wrote to {table}; a session is limited to {MAX_STREAMS} streams",
            code="TooManyStreams",
            hint=f"write df.coalesce({MAX_STREAMS}), or lower spark.sql.shuffle.partitions",
        )
    named = {spec for one in done for spec in one.partitions}
    if len(named) > max_partitions:
        raise too_many_partitions(table, named, max_partitions)


def check_or_abort(
    storage: StorageClient, session: WriteSessionRef, done: Sequence[Written], max_partitions: int
) -> None:
    """Abort the session if `check_written` raises; Spark's own `abort` call would leave it open."""
    try:
        check_written(session.table, done, max_partitions)
    except ArgumentError:
        abort_write(storage, session)
        raise


def too_many_partitions(table: TableName, named: set[str], limit: int) -> ArgumentError:
    """Return the error for rows that belong to more partitions than allowed."""
    some = ", ".join(sorted(named)[:3])
    return ArgumentError(
        f"the rows belong to more than {limit} partitions of {table}: {some}, …",
        code="TooManyPartitions",
        hint="write fewer partitions at a time (filter by partition, or name one with "
        "partition=), or increase max_partitions if the service accepts more",
    )


def attempt_name() -> str:
    """Return a stream id unique to this task attempt, even if Spark reruns a stage."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return "0-0"
    return f"{context.partitionId():06d}-{context.taskAttemptId()}"


def write_partition(
    task: WriteTask, batches: Iterable[pa.RecordBatch], name: str | None = None
) -> Written | None:
    """Write batches into a new stream and close it; without rows, open none and return ``None``."""
    name = attempt_name() if name is None else name
    with task_errors(f"stream {name} of {task.session.table}"):
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return None
        with counted(task.counter) as tracker, task.profile.open() as storage:
            stream = stream_of(storage, task.session, name, tracker=tracker).start()
            with stream:
                uploader = CellUploader(stream, task.target, storage)
                named: set[str] = set()
                fitted = _named(_fitted(first, rows, task.target, uploader), task, named)
                stamped = (task.stamp.put(batch, stream.schema) for batch in fitted)
                stream.write(stamped, task.compression)
            return Written(
                stream=stream.close(),
                blobs=uploader.count,
                blob_size=uploader.size,
                partitions=tuple(sorted(named)),
            )


def _named(
    batches: Iterator[pa.RecordBatch], task: WriteTask, specs: set[str]
) -> Iterator[pa.RecordBatch]:
    """Pass batches through and add their partitions to ``specs``; raise if there are too many."""
    for batch in batches:
        specs.update(map(str, named_partitions(batch, task.target)))
        if len(specs) > task.max_partitions:
            raise too_many_partitions(task.target.table, specs, task.max_partitions)
        yield batch


def _fitted(
    first: pa.RecordBatch,
    rest: Iterator[pa.RecordBatch],
    target: Target,
    uploader: CellUploader,
) -> Iterator[pa.RecordBatch]:
    """Convert Spark's batches to the schema of the write session, and upload the blobs."""
    blobs = {column.name.casefold(): column for column in target.blobs}
    aside = {*blobs, *(key.casefold() for key, _ in target.fixed)}
    kept = [name for name in first.schema.names if name.casefold() not in aside]
    places = match_names(kept, target.plain)
    row = 0
    for batch in itertools.chain([first], rest):
        check_fixed(batch, target)
        plain = fit_batch(
            batch.select(kept),
            target.plain,
            places=places,
            first_row=row,
            conversions=target.conversions,
        )
        plain = with_partitions(plain, target, row)
        if not blobs:
            yield plain
        else:
            for start in range(0, batch.num_rows, BLOB_ROWS):
                some = batch.slice(start, BLOB_ROWS)
                cells = {c.name: _cells(some, c) for c in target.blobs}
                yield uploader.finish(
                    Chunk(
                        rows=some.num_rows,
                        plain=plain.slice(start, BLOB_ROWS),
                        cells=cells,
                        first_row=row + start,
                    )
                )
        row += batch.num_rows


def _cells(batch: pa.RecordBatch, column: Column) -> list[Any]:
    """Return the cells of a column, with every BLOB leaf converted to the content to upload."""
    places = {name.casefold(): index for index, name in enumerate(batch.schema.names)}
    place = places.get(column.name.casefold())
    if place is None:
        return [None] * batch.num_rows
    cells = batch.column(place).to_pylist()
    return [map_blobs(cell, column.type, lambda leaf, _path: _content(leaf)) for cell in cells]


def _content(leaf: Any) -> Any:
    if isinstance(leaf, str):
        return BlobReference.from_text(leaf)
    if isinstance(leaf, dict):
        data = leaf.get("data")
        return None if data is None else NewBlob(data, leaf.get("mime_type"), leaf.get("file_name"))
    return leaf
