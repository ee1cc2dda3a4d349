"""`write`: writes a DataFrame into a table in one commit, all rows or none.

The tasks write in ``mapInArrow``, and the driver commits. Spark returns exactly one result per
partition, whichever attempt produced it, and exactly the streams in these results are committed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from odps_nb.access.checks import (
    Overwrite,
    PartitionLike,
    check_count,
    check_overwrite,
    check_partition,
)
from odps_nb.access.partitions import target_partition
from odps_nb.access.progress import listener_of
from odps_nb.access.receipt import Receipt
from odps_nb.access.writing.columns import ColumnsLike
from odps_nb.access.writing.creating import WAY, NewTable, name_the_way, require_create
from odps_nb.access.writing.replacing import Remainder
from odps_nb.access.writing.sources import Target
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker, silent
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.write.operations import Stamp
from odps_nb.convert.fitting.conversions import (
    AS_THEY_ARE,
    Conversions,
    DecimalConversion,
    TextConversion,
    TimeConversion,
)
from odps_nb.errors import NotFoundError, OdpsNbError, visible
from odps_nb.explained import explained
from odps_nb.spark.launch._quiet import without_pandas_notice
from odps_nb.spark.launch.connect import check_dataframe
from odps_nb.spark.progress.actions import token_of, watched
from odps_nb.spark.progress.counting import Activity
from odps_nb.spark.tasks.credentials import TaskProfile, profile_of
from odps_nb.spark.tasks.errors import job_errors
from odps_nb.spark.tasks.shipping import shipped
from odps_nb.spark.versions import grouped
from odps_nb.spark.writing.checks import check_frame, create_if_missing, months_as_numbers
from odps_nb.spark.writing.task import (
    MAX_PARTITIONS,
    MAX_STREAMS,
    MAX_TUNNEL_STREAMS,
    WriteTask,
    Written,
    check_written,
    partitions_of,
    write_partition,
)
from odps_nb.terms import Compression, TableName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from odps_nb.access.connection import Connection
    from odps_nb.access.writing.upserting import Change
    from odps_nb.client.auth.profile import Profile
    from odps_nb.client.write.base import WriteSession

_RESULT = "written binary"


@explained
def write(
    df: DataFrame,
    odps: Connection | Profile | str | None,
    table: str | TableName,
    *,
    partition: PartitionLike | None = None,
    overwrite: Overwrite = False,
    max_partitions: int = MAX_PARTITIONS,
    compression: str | Compression | None = None,
    decimals: DecimalConversion = "exact",
    text: TextConversion = "exact",
    times: TimeConversion = "exact",
    create: bool = False,
    partitioned_by: str | Sequence[str] | None = None,
    types: ColumnsLike | None = None,
    progress: Progress = None,
) -> Receipt:
    """Write a DataFrame in one commit: all rows or, after an error, none.

    If an error has ``in_doubt`` set, its commit may have succeeded: check the table before you
    write the rows again.

    Columns are matched by name; missing ones become null. All columns are checked before a task
    starts. A BLOB column accepts content (binary), a struct of ``data``, ``mime_type`` and
    ``file_name``, or a reference (string) whose blob is copied.

    Parameters
    ----------
    df
        The rows. Each DataFrame partition becomes one stream; more than 20,000 partitions (with
        the tunnel: 400) are coalesced.
    odps
        As in `odps_nb.spark.read`.
    partition
        The partition to write into, created if missing. Missing partition keys are taken from the
        rows, which are first grouped by partition.
    overwrite
        As for `Table.write`: ``True`` replaces the table, or only `partition` if it names all
        keys; ``"partitions"`` replaces the partitions that receive rows; ``"all"`` also drops the
        other partitions, after the commit.
    max_partitions
        Maximum number of table partitions that the rows may belong to.
    compression
        Codec inside the Arrow streams: ``"zstd"`` or ``"lz4"``.
    decimals, text, times
        Allowed conversions for values that do not fit unchanged, as for `Table.write`.
    create, partitioned_by, types
        Create the table if it is missing, as for `Table.write`.
    progress
        Progress display. By default a card in a notebook and a line in a terminal; ``False``
        disables it. An interrupt cancels the job and aborts the write.

    Raises
    ------
    ConversionError
        Columns, types or values do not fit. Nothing was written.
    ArgumentError
        `overwrite` does not determine which partitions to replace, or the rows belong to more than
        `max_partitions` partitions. Nothing was written.
    NotFoundError
        The table does not exist, and ``create`` is not set.

    Examples
    --------
    >>> import odps_nb.spark
    >>> table = odps.create_table("doc_spark_write", "id bigint")
    >>> odps_nb.spark.write(spark.range(1000), odps, "doc_spark_write").rows
    1000
    >>> odps.drop_table("doc_spark_write")
    """
    check_dataframe(df)
    check_count("max_partitions", max_partitions)
    require_create(create, partitioned_by=partitioned_by, types=types)
    made: NewTable | None = None
    spec = target_partition(partition)
    with contextlib.ExitStack() as stack:
        if create:
            storage = stack.enter_context(StorageClient(profile_of(odps)))
            name = storage.profile.table(table)
            if create_if_missing(storage, name, df.schema, spec, partitioned_by, types):
                made = stack.enter_context(NewTable(storage, name))
        return write_rows(
            df,
            odps,
            table,
            partition=spec,
            overwrite=overwrite,
            max_partitions=max_partitions,
            compression=Compression.of(compression),
            conversions=Conversions(decimals=decimals, text=text, times=times),
            progress=progress,
            before_commit=None if made is None else made.keep,
        )


def write_rows(
    df: DataFrame,
    odps: Connection | Profile | str | None,
    table: str | TableName,
    *,
    partition: PartitionLike | None,
    compression: Compression,
    progress: Progress,
    overwrite: Overwrite = False,
    max_partitions: int = MAX_PARTITIONS,
    conversions: Conversions = AS_THEY_ARE,
    change: Change | None = None,
    before_commit: Callable[[], None] | None = None,
) -> Receipt:
    """Write a DataFrame into an existing table; ``before_commit`` is called before the commit."""
    from odps_nb.client.write.session import open_write_session

    began, token = time.monotonic(), token_of(odps)
    profile = profile_of(odps)
    name, df = profile.table(table), months_as_numbers(df)
    listener = listener_of(progress, on_cancel=token.cancel)
    with (
        StorageClient(profile) as storage,
        ProgressTracker("write", str(name), listener=listener) as tracker,
    ):
        target, replaces = write_target(
            storage, name, partition, overwrite, conversions=conversions, change=change
        )
        if change is not None:
            df = change.narrowed(df, target)
        check_frame(df.schema, target)
        remainder = Remainder.of(storage, target, overwrite)
        session = open_write_session(
            storage,
            name,
            partition=target.fixed,
            overwrite=replaces,
            shared=True,
            keyed=change is not None,
            only=None if change is None else change.only,
            tracker=tracker,
        )
        task = WriteTask(
            profile=TaskProfile.of(storage),
            session=session.ref,
            target=target,
            compression=compression,
            max_partitions=max_partitions,
            stamp=Stamp() if change is None else change.stamp,
        )
        tracker.phase(Phase.WRITING)
        with contextlib.ExitStack() as undo:
            undo.push(session)  # abort on any error, including an interrupt
            seen = listener is not silent
            activity = Activity(operation="write", title="", phase=Phase.WRITING)
            with watched(
                df.sparkSession, tracker, cancel=token, activity=activity, seen=seen
            ) as counter:
                most = MAX_TUNNEL_STREAMS if session.ref.kind.is_staged else MAX_STREAMS
                rows = _arranged(df, target, change, most)
                verb = change.verb if change is not None else "replaced" if replaces else "added"
                done = _run(rows, dataclasses.replace(task, counter=counter), verb)
            check_written(name, done, max_partitions)
            undo.pop_all()
        # Unlike the tasks' progress reports, this number of rows is always exact.
        tracker.correct_rows(sum(one.stream.rows for one in done))
        if before_commit is not None:
            before_commit()
        _commit(session, done)
        remainder.drop(storage, partitions_of(done))
    receipt = _receipt(session, done, seconds=time.monotonic() - began)
    return dataclasses.replace(receipt, overwrite=replaces, verb=change.verb if change else None)


def _receipt(session: WriteSession, done: Sequence[Written], *, seconds: float) -> Receipt:
    return Receipt(
        table=session.ref.table,
        partition=session.ref.partition,
        rows=sum(one.stream.rows for one in done),
        bytes=sum(one.stream.size for one in done),
        blobs=sum(one.blobs for one in done),
        blob_bytes=sum(one.blob_size for one in done),
        session_id=session.session_id,
        transfer=session.ref.transfer,
        streams=len(done),
        seconds=seconds,
    )


def write_target(
    storage: StorageClient,
    table: TableName,
    partition: PartitionLike | None,
    overwrite: Overwrite,
    *,
    conversions: Conversions = AS_THEY_ARE,
    change: Change | None = None,
    way: str = WAY,
) -> tuple[Target, bool]:
    """Check a write against the table; return the target, and whether rows are replaced.

    ``way`` is the hint for a missing table.
    """
    from odps_nb.client.catalog import fetch_table

    try:
        schema = fetch_table(storage, table).schema
    except NotFoundError as error:
        name_the_way(error, way)
        raise
    fixed = check_partition(target_partition(partition), schema, table)
    make = Target.of if change is None else change.target
    zoned = dataclasses.replace(conversions, timezone=storage.profile.timezone)
    target = make(schema, table, fixed, conversions=zoned)
    return target, check_overwrite(overwrite, fixed, schema, table)


def _arranged(df: DataFrame, target: Target, change: Change | None, most: int) -> DataFrame:
    """Group rows by table partition, and the rows of a `Change` also by its key columns.

    Spark splits large groups again (rebalance). At most ``most`` tasks write, because a session
    may have only this many streams.
    """
    from pyspark.sql import functions as F

    spelled = {name.casefold(): name for name in df.columns}  # Spark may distinguish case

    def columns(names: Iterable[str]) -> list[str]:
        folded = map(str.casefold, names)
        return [spelled[name] for name in folded if name in spelled]  # tasks generate others

    named = columns(column.name for column in target.columns.partition_columns)
    keys = [F.col(f"`{name}`") for name in named]
    if change is not None:
        rows = df.repartition(*keys, *(F.col(f"`{name}`") for name in columns(change.keys)))
        return (rows.sortWithinPartitions(*keys) if keys else rows).coalesce(most)
    if not keys:
        return df.coalesce(most)
    rows = grouped(df, named).sortWithinPartitions(*keys)
    return rows if most == MAX_STREAMS else rows.coalesce(most)


def _run(df: DataFrame, task: WriteTask, verb: str) -> list[Written]:
    """Run the job; return what the successful attempts wrote, in partition order.

    Plans show ``verb`` with the table, the partition and the session.
    """
    session = task.session
    parts = [verb, *filter(None, [str(session.partition)]), f"session {session.session_id}"]
    name = visible(f"odps write {session.table} [{'; '.join(parts)}]")

    def write_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_partition(task, batches)
        if written is not None:
            yield _as_batch(written)

    with job_errors(), without_pandas_notice():
        rows = df.mapInArrow(shipped(write_rows, name=name), _RESULT).collect()
    return [_of_text(row.written) for row in rows]


def _as_batch(written: Written) -> pa.RecordBatch:
    """Return a one-row batch of JSON; avoids ``pa.array``, which would import pandas in workers."""
    import pyarrow as pa

    text = json.dumps(dataclasses.asdict(written)).encode()
    ends = struct.pack("=2i", 0, len(text))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
    return pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.binary(), 1, buffers)], ["written"])


def _of_text(text: bytes) -> Written:
    from odps_nb.client.write.operations import StreamReceipt

    found = json.loads(text)
    stream = StreamReceipt(**found.pop("stream"))
    return Written(stream=stream, partitions=tuple(found.pop("partitions")), **found)


def _commit(session: WriteSession, done: Sequence[Written]) -> None:
    """Commit exactly these streams; add a note to an error if the session may be committed."""
    try:
        session.commit([one.stream for one in done])
    except OdpsNbError as error:
        if not session.is_over:  # otherwise, the error already has a note about the outcome
            error.add_note(f"the write session {session.session_id} was not aborted")
        raise
