"""Writes rows to a table in parallel streams, with a single commit at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from odps_nb.access.checks import Overwrite, check_count
from odps_nb.access.progress import listener_of
from odps_nb.access.receipt import Receipt
from odps_nb.access.writing.pictures import PNG, ImageFormat
from odps_nb.access.writing.replacing import Remainder, named_partitions
from odps_nb.access.writing.sources import Chunk, Target, WriteInput, open_input
from odps_nb.access.writing.tabular import is_spark, refuse_index
from odps_nb.access.writing.uploading import CellUploader
from odps_nb.access.writing.upserting import Change
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress, ProgressTracker
from odps_nb.client.parallel.fan_out import fan_out
from odps_nb.client.write.operations import DEFAULT_PART_BYTES, Stamp
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.errors import ArgumentError
from odps_nb.terms import Compression, PartitionSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.table import Table
    from odps_nb.client.write.base import WriteSession
    from odps_nb.client.write.operations import StreamReceipt

PARTS_BYTES = 256 * 2**20
"""Maximum Arrow bytes that all streams of a write together buffer in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The checked arguments of `Table.write`, and a function to call before the commit."""

    partition: PartitionSpec = field(default_factory=PartitionSpec)
    overwrite: Overwrite = False
    workers: int | None = None
    compression: Compression = Compression.NONE
    image_format: ImageFormat = PNG
    index: bool | None = None
    conversions: Conversions = AS_THEY_ARE
    progress: Progress = None
    change: Change | None = None
    before_commit: Callable[[], None] = lambda: None
    cancel: CancelToken | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_count("workers", self.workers)
        if self.index not in (None, True, False):
            raise ArgumentError(
                f"index is {self.index!r}", argument="index", hint="pass True, False or None"
            )


def write_data(table: Table, data: Any, options: WriteOptions) -> Receipt:
    """Write data of any kind in one commit; an error before the commit aborts the session."""
    if is_spark(data):
        return _write_spark(table, data, options)
    zoned = replace(options.conversions, timezone=table.connection.profile.timezone)
    change, index = options.change, options.index
    make = Target.of if change is None else change.target
    target = make(table.schema, table.name, options.partition, conversions=zoned)
    target = replace(target, image_format=options.image_format)
    if change is not None:
        data = change.narrowed(data, target, index=index)
        index = None if change.only_keys else index  # `narrowed` has removed the index
    write_input = open_input(data, target, workers=options.workers, index=index)
    return write_chunks(table, target, write_input, options)


def write_chunks(table: Table, target: Target, given: WriteInput, options: WriteOptions) -> Receipt:
    """Write converted rows in one commit."""
    listener = listener_of(options.progress)
    with ProgressTracker("write", str(table.name), listener=listener) as tracker:
        return _Write(table=table, target=target, options=options, tracker=tracker).run(given)


def _write_spark(table: Table, data: Any, options: WriteOptions) -> Receipt:
    from odps_nb.spark.writing.dataframe import write_rows

    refuse_index(data, index=options.index)
    if options.workers is not None and options.change is None:
        raise ArgumentError(
            "workers does not apply to a Spark DataFrame",
            hint="use df.repartition(n): each of its partitions is one stream",
        )
    return write_rows(
        data,
        table.connection,
        table.name,
        partition=options.partition,
        overwrite=options.overwrite,
        compression=options.compression,
        conversions=options.conversions,
        change=options.change,
        progress=options.progress,
        before_commit=options.before_commit,
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """The result of one write stream."""

    stream: StreamReceipt
    blobs: int = 0
    blob_size: int = 0
    partitions: frozenset[PartitionSpec] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """A running write."""

    table: Table
    target: Target
    options: WriteOptions
    tracker: ProgressTracker

    def run(self, write_input: WriteInput) -> Receipt:
        from odps_nb.client.write.session import open_write_session

        began, storage = time.monotonic(), self.table.connection._storage
        self.tracker.plan(rows_total=write_input.rows, bytes_total=write_input.blob_bytes or None)
        token = storage.operation(self.options.cancel)
        remainder = Remainder.of(storage, self.target, self.options.overwrite)
        with open_write_session(
            storage,
            self.table.name,
            partition=self.options.partition,
            overwrite=bool(self.options.overwrite),
            keyed=self.options.change is not None,
            only=None if self.options.change is None else self.options.change.only,
            part_bytes=min(DEFAULT_PART_BYTES, PARTS_BYTES // len(write_input.streams)),
            tracker=self.tracker,
            cancel=token,
        ) as session:
            done = list(self._send_all(session, write_input, token))
            self.options.before_commit()
            session.commit([written.stream for written in done])
        remainder.drop(storage, (spec for written in done for spec in written.partitions))
        return Receipt(
            table=self.table.name,
            partition=self.options.partition,
            overwrite=bool(self.options.overwrite),
            rows=sum(written.stream.rows for written in done),
            bytes=sum(written.stream.size for written in done),
            blobs=sum(written.blobs for written in done),
            blob_bytes=sum(written.blob_size for written in done),
            session_id=session.session_id,
            transfer=session.ref.transfer,
            streams=len(done),
            seconds=time.monotonic() - began,
            verb=None if self.options.change is None else self.options.change.verb,
        )

    def _send_all(
        self, session: WriteSession, write_input: WriteInput, token: CancelToken
    ) -> Iterator[_Written]:
        """Write all streams in parallel; the first failure stops the others."""
        streams = write_input.streams
        if len(streams) > 1 and (self.options.change or self.table.primary_key):
            # rows with the same key must stay in order, but streams are not ordered (the metadata
            # may lack the key of a table that accepts upserts)
            streams = (chain.from_iterable(streams),)
        jobs = [
            partial(self._send_stream, session, str(number), chunks)
            for number, chunks in enumerate(streams)
        ]
        return fan_out(jobs, size=lambda _: 0, workers=len(jobs), ordered=False, cancel=token)

    def _send_stream(
        self, session: WriteSession, name: str, chunks: Iterable[Chunk], token: CancelToken
    ) -> Iterator[_Written]:
        connection = self.table.connection
        with session.stream(name, cancel=token).start() as stream:
            uploader = CellUploader(stream, self.target, connection)
            stamp = Stamp() if self.options.change is None else self.options.change.stamp
            named: set[PartitionSpec] = set()
            if self.options.overwrite == "all":
                chunks = _noted(chunks, self.target, named)
            batches = fitted_batches(chunks, uploader, token, stamp)
            stream.write(batches, self.options.compression)
            yield _Written(stream.close(), uploader.count, uploader.size, frozenset(named))


def _noted(chunks: Iterable[Chunk], target: Target, into: set[PartitionSpec]) -> Iterator[Chunk]:
    for chunk in chunks:
        into |= named_partitions(chunk.plain, target)
        yield chunk


def fitted_batches(
    chunks: Iterable[Chunk],
    uploader: CellUploader,
    token: CancelToken,
    stamp: Stamp = Stamp(),  # noqa: B008  a frozen value
) -> Iterator[pa.RecordBatch]:
    """Upload the blobs of a stream and yield its rows as batches with the table's types."""
    for chunk in chunks:
        token.check()
        batch = uploader.finish(chunk) if chunk.cells else chunk.plain
        yield stamp.put(batch, uploader.stream.schema)
