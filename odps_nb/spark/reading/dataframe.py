"""`read`: returns a table as a Spark DataFrame, one task per split.

The driver opens the session, so all tasks read one snapshot. Rows do not pass through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from odps_nb.access.checks import PartitionLike
from odps_nb.client.calls.progress import Progress
from odps_nb.errors import ArgumentError
from odps_nb.explained import explained
from odps_nb.spark.launch._quiet import without_pandas_notice
from odps_nb.spark.launch.connect import SESSION_HINT, check_session
from odps_nb.spark.progress.actions import counter_of
from odps_nb.spark.reading.plan import (
    cores_of,
    cut_session,
    open_session,
    plan_of,
    read_activity,
    read_name,
)
from odps_nb.spark.reading.statistics import planned_size, split_rows, with_known_count
from odps_nb.spark.reading.task import ReadTask, read_split
from odps_nb.spark.tasks.credentials import TaskProfile, profile_of
from odps_nb.spark.tasks.shipping import map_in_arrow
from odps_nb.terms import Compression, TableName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.access.scan import Scan
    from odps_nb.client.auth.profile import Profile
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.increments import Bound
    from odps_nb.client.read.plan import ReadPlan, ReadSession
    from odps_nb.schema import TableSchema


@explained
def read(
    spark: SparkSession,
    odps: Connection | Profile | str | None,
    table: str | TableName,
    *,
    columns: Sequence[str] | None = None,
    partitions: PartitionLike | Iterable[PartitionLike] | None = None,
    where: str | None = None,
    params: Mapping[str, object] | None = None,
    limit: int | None = None,
    splits: int | None = None,
    split_bytes: int | None = None,
    compression: str | Compression | None = None,
    text: str = "strict",
    char_padding: bool = False,
    since: Bound | None = None,
    until: Bound | None = None,
    changes: bool = False,
    progress: Progress = None,
) -> DataFrame:
    """Return a table as a DataFrame; the rows are read when an action needs them.

    This call opens the read session, so every action reads the same rows. Once the session has
    expired, actions raise `SessionExpiredError`. If the service reports a row count, ``count()`` of
    this DataFrame returns it without a job. ``explain()`` shows the columns and partitions that are
    read, and the filter.

    Parameters
    ----------
    spark
        The Spark session, e.g. from `odps_nb.spark.session`.
    odps
        A connection, a `Profile`, a profile's name, or ``None`` for the environment's profile.
        Keys are pickled with the tasks and do not appear in plans, settings or event logs. With
        ``ODPS_NB_SPARK_KEYS=executor`` in the environment, each executor looks up its own keys.
    columns, partitions, where, params
        The data to read, as in `Table.read`. Spark's own ``select`` and ``filter`` apply only after
        all data have been read; `odps_nb.spark.sql` derives these arguments from a query.
    limit
        Maximum number of rows.
    splits, split_bytes
        Approximate number of tasks, or of bytes per task. By default, a task reads at most 64 MiB,
        or 256 rows with a BLOB column; more if there would be over 100,000 tasks. If this gives
        fewer tasks than Spark has cores, the tasks are smaller, but have at least 100,000 rows.
    text
        Handling of text that is not UTF-8, as in `Table.read`: ``"replace"`` replaces invalid bytes
        with U+FFFD, ``"binary"`` returns all text of data columns as ``binary``.
    char_padding
        Keep trailing blanks in CHAR(n). Default: strip them, so that ``c = 'ab'`` finds rows.
    since, until, changes
        Read the rows that table versions added or changed, as in `Table.read`.
    progress
        Progress display for every action. By default a card in the action's notebook cell or a line
        in a terminal; ``False`` disables it.

    Raises
    ------
    NotFoundError
        A table or column does not exist; the hint lists similar names.
    ArgumentError
        An argument is invalid.
    ConflictError
        A version after ``since`` replaced rows.
    ConversionError
        Spark has no type for a column named in ``columns``. Without ``columns``, such columns are
        omitted with a warning.

    Examples
    --------
    >>> import odps_nb.spark
    >>> day = odps_nb.spark.read(
    ...     spark, odps, "orders", columns=["id", "status"], partitions="ds=2024-01-01"
    ... )
    >>> day.filter("id <= 1000010").count()
    10
    """
    from odps_nb.access.reading.planning import ReadOptions
    from odps_nb.client.calls.storage import StorageClient

    check_session(spark)
    profile = profile_of(odps)
    with StorageClient(profile) as storage:
        options = ReadOptions(
            columns=columns,
            partitions=partitions,
            where=where,
            params=params,
            limit=limit,
            splits=splits,
            split_bytes=split_bytes,
            compression=compression,
            text=text,
            char_padding=char_padding,
            since=since,
            until=until,
            changes=changes,
        )
        plan = plan_of(storage, profile.table(table), options)
        session = open_session(storage, plan, cores_of(spark))
        frame = session_dataframe(spark, storage, session, plan, progress)
        return with_known_count(frame, session)


_MAX_LIMIT = 2**31 - 1


def read_scan(spark: SparkSession, scan: Scan, *, progress: Progress = None) -> DataFrame:
    """Return a DataFrame over the snapshot of a `Scan`."""
    from odps_nb.client.calls.storage import StorageClient

    check_session(spark, SESSION_HINT)
    session = cut_session(scan._opened(), scan._plan, cores_of(spark))
    with StorageClient(scan.connection.profile) as storage:
        frame = session_dataframe(spark, storage, session, scan._plan, progress)
        return with_known_count(frame, session)


def local_dataframe(
    spark: SparkSession, read: Callable[[], pa.Table], schema_of: Callable[[], TableSchema]
) -> DataFrame:
    """Return a DataFrame of local rows, with the same Spark types as a table read.

    The rows are read after `spark` was checked.
    """
    check_session(spark, SESSION_HINT)
    from odps_nb.spark.tasks.types import columns_for_spark, spark_schema
    from odps_nb.spark.versions import from_arrow

    rows, schema = read(), schema_of()
    columns = columns_for_spark(schema)
    rows = rows.select([index for index, column in enumerate(schema) if column in columns])
    struct = spark_schema(columns)
    with without_pandas_notice():
        if not rows.num_rows:  # Spark rejects an Arrow table without batches
            return spark.createDataFrame([], struct)
        return from_arrow(spark, rows.rename_columns([column.name for column in columns]), struct)


def session_dataframe(
    spark: SparkSession,
    storage: StorageClient,
    session: ReadSession,
    plan: ReadPlan,
    progress: Progress = None,
) -> DataFrame:
    """Return the DataFrame that reads the splits of a session, with columns in the plan's order."""
    from odps_nb.spark.tasks.types import columns_for_spark, spark_schema
    from odps_nb.spark.versions import arrow_schema

    counter = counter_of(spark, read_activity(session), progress)
    task = ReadTask.of(TaskProfile.of(storage), session, counter=counter)
    if plan.columns:
        matches = map(session.schema.find, plan.columns)
        schema = spark_schema(column for column in matches if column is not None)
    else:
        schema = spark_schema(columns_for_spark(session.schema))
    target_schema = arrow_schema(schema)

    def read_splits(
        numbers: Iterable[pa.RecordBatch],
    ) -> Generator[pa.RecordBatch, None, None]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_split(task, number, target_schema)

    count = len(task.splits)
    with without_pandas_notice():
        numbers = split_rows(spark, count, planned_size(session))
        frame = map_in_arrow(numbers, read_splits, schema, name=read_name(session, plan))
    if session.limit is not None and session.row_count is None:
        frame = limited(frame, session.limit)  # the splits may contain more rows than the limit
    return frame


def limited(df: DataFrame, limit: int) -> DataFrame:
    """Return the first rows of a DataFrame; raise for a limit that Spark cannot express."""
    if limit > _MAX_LIMIT:
        raise ArgumentError(
            f"limit is {limit}; Spark accepts at most {_MAX_LIMIT}",
            argument="limit",
            hint="omit it to read all rows",
        )
    return df.limit(limit)
