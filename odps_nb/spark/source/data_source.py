"""``format("odps")``: the data source for SQL, views and ``df.write``.

Filters are not pushed down: with pushdown, pyspark 4.1 and 4.3 return an earlier filter's rows for
later queries of the same DataFrame. Spark passes these objects to other Python processes by
pickling them, so attributes set after ``__init__`` are lost, and each method imports what it needs.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from odps_nb.client.auth.fields import CREDENTIAL_FIELDS
from odps_nb.client.calls.progress import Phase
from odps_nb.errors import ConfigError
from odps_nb.secret import Hidden
from odps_nb.spark.progress.counting import Activity, TaskCounter
from odps_nb.spark.source.options import (
    ReadSettings,
    StreamReadSettings,
    StreamWriteSettings,
    WriteSettings,
)
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.spark.tasks.shipping import Shipped

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.client.auth.profile import Profile
    from odps_nb.spark.writing.task import Written


def connected(
    profile: Profile | None, counts: TaskCounter | None, parallel: int
) -> type[OdpsDataSource]:
    """Return a data source class bound to a profile; both are pickled together."""
    known = None if profile is None else TaskProfile(tuple(profile.as_options().items()))

    class Connected(OdpsDataSource):
        registered = known
        counter = counts
        cores = parallel

    return Connected


class OdpsDataSource(DataSource):
    """The data source behind ``format("odps")``; Spark calls its methods."""

    #: Default profile for readers and writers whose options do not name one.
    registered: ClassVar[TaskProfile | None] = None
    #: Counter of batch reads and writes; streams are not counted, because no cell waits for them.
    counter: ClassVar[TaskCounter | None] = None
    #: Tasks that Spark ran at a time when the source was registered.
    cores: ClassVar[int] = 1

    @classmethod
    def name(cls) -> str:
        """Return the name to pass to ``format``."""
        return "odps"

    def _given(self) -> Mapping[str, str]:
        """Return the options, with the registered profile if they do not name one.

        Credentials in the options replace all registered ones: those of two accounts are not mixed.
        """
        given = {key.casefold() for key in self.options}
        if self.registered is None or {"endpoint", "profile"} & given:
            return self.options
        known = dict(self.registered.settings)
        if given & set(CREDENTIAL_FIELDS):
            known = {key: value for key, value in known.items() if key not in CREDENTIAL_FIELDS}
        return Hidden({**known, **self.options})

    def schema(self) -> StructType:
        """Return the columns selected by option ``columns``; default: all with a Spark type."""
        from odps_nb.client.calls.storage import StorageClient
        from odps_nb.client.catalog import fetch_table
        from odps_nb.spark.tasks.types import columns_for_spark, spark_schema

        with task_errors('format("odps")'):
            settings = ReadSettings.of(self._given(), any_kind=True)
            with StorageClient(settings.profile) as storage:
                schema = fetch_table(storage, settings.table).schema
            found = settings.chosen(schema)
            named = settings.options.columns is not None
            return spark_schema(found if named else columns_for_spark(found))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Open a read session for the columns of `schema`.

        Spark keeps the reader with the DataFrame; before PySpark 4.1, Spark calls this method for
        each action.
        """
        with task_errors('format("odps")'):
            settings = ReadSettings.of(self._given())
            return OdpsReader(settings, schema, self.counter, cores=self.cores)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Check the columns of `schema` against the table, then open a write session."""
        with task_errors('format("odps")'):
            settings = WriteSettings.of(self._given())
            return OdpsWriter(settings, schema, self.counter, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the stream reader for the columns of `schema`; sends no request."""
        from odps_nb.spark.source.stream_reader import OdpsStreamReader

        with task_errors('readStream.format("odps")'):
            return OdpsStreamReader(StreamReadSettings.of(self._given()), schema)

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamWriter:
        """Return the writer of a streaming query; sends no request."""
        from odps_nb.spark.source.stream_writer import OdpsStreamWriter

        with task_errors('writeStream.format("odps")'):
            settings = StreamWriteSettings.of(self._given())
            return OdpsStreamWriter(settings, schema, overwrite=overwrite)


class _Split(InputPartition):
    """A split, identified by its number."""

    def __init__(self, number: int) -> None:
        self.number = number


class OdpsReader(Shipped, DataSourceReader):
    """Reader of one read session; Spark keeps the reader as long as the DataFrame."""

    def __init__(
        self,
        settings: ReadSettings,
        schema: StructType,
        counter: TaskCounter | None = None,
        *,
        cores: int = 1,
    ) -> None:
        from odps_nb.client.calls.storage import StorageClient
        from odps_nb.spark.reading.plan import open_session, read_activity
        from odps_nb.spark.reading.task import ReadTask, require_types
        from odps_nb.spark.tasks.types import spark_schema
        from odps_nb.spark.versions import arrow_schema

        with StorageClient(settings.profile) as storage:
            session = open_session(storage, settings.plan(storage, schema.names), cores)
            if session.limit is not None and session.row_count is None:
                # A data source cannot stop all tasks after n rows in total.
                raise ConfigError(
                    "limit has no effect on this read, whose rows are not counted before they are "
                    "read (because of where, since, or the kind of the table)",
                    option="limit",
                    hint="omit this option, and call .limit(n) after load()",
                )
            require_types(schema, spark_schema(session.schema))
            counts = None if counter is None else counter.of(read_activity(session))
            self._task = ReadTask.of(TaskProfile.of(storage), session, counter=counts)
        self._schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each split."""
        return [_Split(number) for number in range(len(self._task.splits))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split; Spark passes a plain `InputPartition` if there are no splits."""
        from odps_nb.spark.reading.task import read_split

        if isinstance(partition, _Split):
            yield from read_split(self._task, partition.number, self._schema)


@dataclass(frozen=True)
class _Message(WriterCommitMessage):
    """The stream written by a successful attempt; ``None`` for a partition without rows."""

    written: Written | None


class OdpsWriter(Shipped, DataSourceArrowWriter):
    """Writer of one session; Spark calls `commit` or `abort` on a copy in another process."""

    def __init__(
        self,
        settings: WriteSettings,
        schema: StructType,
        counter: TaskCounter | None = None,
        *,
        overwrite: bool,
    ) -> None:
        from odps_nb.access.writing.creating import NewTable
        from odps_nb.client.calls.storage import StorageClient
        from odps_nb.spark.writing.checks import create_if_missing

        with contextlib.ExitStack() as stack:
            storage = stack.enter_context(StorageClient(settings.profile))
            self._made = settings.create and create_if_missing(
                storage, settings.table, schema, settings.partition, settings.partitioned_by
            )
            if self._made:
                stack.enter_context(NewTable(storage, settings.table))
            task, self._remainder = settings.open(storage, schema, overwrite=overwrite)
        activity = Activity(
            operation="write",
            title=str(task.session.table),
            phase=Phase.WRITING,
            session_id=task.session.session_id,
            commits=True,
        )
        counts = None if counter is None else counter.of(activity)
        self._task = dataclasses.replace(task, counter=counts)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one attempt into a new stream."""
        from odps_nb.spark.writing.task import write_partition

        return _Message(write_partition(self._task, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit exactly the streams of the attempts that Spark reports as successful."""
        from odps_nb.access.writing.creating import NewTable
        from odps_nb.client.write.session import commit_write
        from odps_nb.spark.writing.task import check_or_abort, partitions_of

        session = self._task.session
        done = [m.written for m in messages if isinstance(m, _Message) and m.written]
        with (
            task_errors(f"commit of {session.table}"),
            self._task.profile.open() as storage,
            NewTable(storage, session.table, kept=not self._made) as made,
        ):
            check_or_abort(storage, session, done, self._task.max_partitions)
            made.keep()
            commit_write(storage, session, [one.stream for one in done])
            self._remainder.drop(storage, partitions_of(done))
        if self._task.counter is not None:
            self._task.counter.ended(Phase.DONE, rows=sum(one.stream.rows for one in done))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the session, unless it may already be committed.

        Spark also calls this after a commit that raised, with a message for every partition.
        """
        from odps_nb.access.writing.creating import NewTable
        from odps_nb.client.write.session import abort_write

        if self._task.counter is not None:
            self._task.counter.ended(Phase.FAILED)
        if all(message is not None for message in messages):
            return
        with task_errors("abort of the write"), self._task.profile.open() as storage:
            abort_write(storage, self._task.session)
            if self._made:
                NewTable(storage, self._task.session.table).drop()
