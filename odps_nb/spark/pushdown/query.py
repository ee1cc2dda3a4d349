"""`sql` and `explain_sql`: run or plan a Spark query over ODPS tables.

Spark's pushdown into Python sources is unreliable, so this package opens each table's read session
with only the columns, partitions and rows that the query can use (`plan`). Spark then runs the
query over views of these sessions.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from odps_nb.access.binding.text import bind
from odps_nb.access.checks import check_count, check_text
from odps_nb.access.progress import listener_of
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker, silent
from odps_nb.errors import StateError
from odps_nb.explained import explained
from odps_nb.filters.tree import AllOf
from odps_nb.spark.launch._quiet import without_pandas_notice, without_query_log
from odps_nb.spark.launch.connect import check_session
from odps_nb.spark.progress.actions import token_of, watched
from odps_nb.spark.pushdown.errors import query_errors
from odps_nb.spark.pushdown.evaluation import Fixed, choose_partitions
from odps_nb.spark.pushdown.parse import ParsedQuery, Reference, fill, parse_query, refuse_versions
from odps_nb.spark.pushdown.plan import TableRead, plan_reads
from odps_nb.spark.reading.casting import in_zone
from odps_nb.spark.reading.dataframe import limited
from odps_nb.spark.tasks.credentials import profile_of
from odps_nb.spark.versions import pyspark_version, to_arrow
from odps_nb.terms import TableName, TimeUnit, query_title

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.plan import ReadPlan

TITLE = 60
_SIDE_BY_SIDE = 8
# Settings that change how Spark parses a query. If one is set, nothing is pushed down.
_OTHER_MEANING = (
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.parser.quotedRegexColumnNames",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled",
)
_ZONE = "spark.sql.session.timeZone"
_SUBSTITUTE = "spark.sql.variable.substitute"
_VARIABLE = re.compile(r"\$\{(?:(?:spark|sparkconf|hivevar|hiveconf):)?(?P<name>[^\s:}]+)\}")
_A = TypeVar("_A")
_B = TypeVar("_B")


@explained
def sql(
    spark: SparkSession,
    odps: Connection | Profile | str | None,
    query: str,
    *,
    params: Mapping[str, object] | None = None,
    limit: int | None = None,
) -> DataFrame:
    """Run a Spark query whose tables are ODPS tables; return a DataFrame.

    A name in the query denotes the first of these that exists: a ``with`` entry of the query, a
    view or table that Spark knows, or a table of the service (``table``, ``project.table``,
    ``project.schema.table``). Only columns, partitions and rows that the query can use are read;
    `explain_sql` shows which. A condition reduces what is read only if it is in the SELECT that
    names the table, not outside its subquery or ``with`` entry. Spark's catalog does not change.

    Parameters
    ----------
    odps
        A connection, a `Profile`, a profile's name, or ``None`` for the environment's profile.
    query
        One query in Spark's SQL: ``select``, ``with``, ``values``, and unions of these. Spark's
        variables, such as ``${name}``, are replaced first.
    params
        As for `Connection.sql`: values for ``:name``, which are quoted safely; a ``{name}``
        placeholder takes a table or column name. Times with sub-microsecond precision are rejected.
    limit
        Maximum number of rows in the result.

    Returns
    -------
    pyspark.sql.DataFrame
        This call takes a snapshot of each table, as `read` does. It also evaluates conditions on
        partitions that depend on the time (``ds = date_format(current_date(), 'yyyyMMdd')``).

    Raises
    ------
    ArgumentError
        The text cannot be parsed, or is not a query.
    NotFoundError
        A table or column does not exist; the hint lists similar names.
    QueryError
        Spark rejects the query.

    Examples
    --------
    >>> import odps_nb.spark
    >>> paid = odps_nb.spark.sql(
    ...     spark,
    ...     odps,
    ...     "select count(*) as n from orders where ds = :day and status = 'paid'",
    ...     params={"day": "2024-01-01"},
    ... )
    >>> paid.collect()
    [Row(n=39229)]
    """
    return explain_sql(spark, odps, query, params=params, limit=limit).to_spark()


@explained
def explain_sql(
    spark: SparkSession | None,
    odps: Connection | Profile | str | None,
    query: str,
    *,
    params: Mapping[str, object] | None = None,
    limit: int | None = None,
) -> SparkQuery:
    """Plan a query without opening read sessions; return what it will read from each table.

    Sends a request for each table, and another one to list the table's partitions if a condition
    selects partitions. Parameters and errors are those of `sql`; ``spark`` may be ``None`` for the
    active session. Without a session, every table is looked up on the service.

    Examples
    --------
    >>> import odps_nb.spark
    >>> odps_nb.spark.explain_sql(
    ...     spark, odps, "select id from orders where ds < '2024-01-03' and quantity > 9"
    ... )
    <SparkQuery>
    orders: 3 of 22 columns, 2 of 8 partitions (ds < '2024-01-03'), quantity > 9
    """
    from odps_nb.client.calls.storage import StorageClient

    if spark is not None:
        check_session(spark)
    check_text("query", query)
    check_count("limit", limit, at_least=0)
    spark = spark or _active()
    query = _substituted(spark, query)
    parsed = parse_query(
        query if params is None else bind(query, params, source="params has no", target="spark")
    )
    if spark is not None:
        settings = (str(spark.conf.get(name, "false")).lower() for name in _OTHER_MEANING)
        regular = parsed.is_regular and "true" not in settings
        parsed = dataclasses.replace(parsed, is_regular=regular, zone=spark.conf.get(_ZONE))
    profile = profile_of(odps)
    references = [ref for ref in parsed.references if not _is_known(spark, ref)]
    refuse_versions(references)
    names = {ref: profile.table(".".join(ref.parts)) for ref in references}
    reads: dict[Reference, TableRead] = {}
    fixed: Fixed = ()
    if names:
        with StorageClient(profile) as storage:
            reads, fixed = _plan(spark, storage, parsed, names, limit)
    return SparkQuery(
        text=parsed.text,
        reads=tuple(reads.values()),
        limit=limit,
        _query=dataclasses.replace(parsed, fixed=fixed),
        _references=tuple(reads),
        _profile=profile,
        _spark=spark,
        _token=partial(token_of, odps),
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SparkQuery:
    """A planned query, returned by `explain_sql`; ``reads`` describes the read of each table.

    Every `to_…` call reads the tables again, but only the partitions that were selected when the
    query was planned, and with the current time of the plan. For partitions that were added since
    then, call `explain_sql` again.
    """

    text: str
    reads: tuple[TableRead, ...]
    limit: int | None = None
    _query: ParsedQuery = field(compare=False)
    _references: tuple[Reference, ...] = field(compare=False)
    _profile: Profile = field(compare=False)
    _spark: SparkSession | None = field(compare=False)
    _token: Callable[[], CancelToken] = field(compare=False)
    _running: WeakSet[CancelToken] = field(default_factory=WeakSet, compare=False)

    def to_spark(self, *, progress: Progress = None) -> DataFrame:
        """Open a read session for each table and return the DataFrame."""
        return self._frame(self._session(), progress)

    def _session(self) -> SparkSession:
        from odps_nb.spark.launch.session_factory import session

        return self._spark if self._spark is not None else session()

    def _frame(self, spark: SparkSession, progress: Progress) -> DataFrame:
        filtered = any(read.conditions or read.partition_conditions for read in self.reads)
        if filtered and self._query.zone not in (None, spark.conf.get(_ZONE)):
            raise StateError(
                f"the query was planned in the time zone {self._query.zone}, but Spark's session "
                f"now uses {spark.conf.get(_ZONE)}",
                hint="call explain_sql again",
            )
        frames = self._frames(spark, progress)
        placeholders: dict[str, Any] = dict(frames.values())
        text = self.text
        if frames:
            text = fill(self._query, {ref: key for ref, (key, _) in frames.items()})
        with query_errors(self.reads), without_pandas_notice(), without_query_log():
            result = spark.sql(text, **placeholders)
        return result if self.limit is None else limited(result, self.limit)

    def to_arrow(self, *, progress: Progress = None) -> pa.Table:
        """Run the query and return its rows; raises `CancelledError` after `cancel`."""
        token = self._token()
        self._running.add(token)
        listener = listener_of(progress, on_cancel=self.cancel)
        title = query_title(self.text, TITLE)
        with ProgressTracker("spark", title, listener=listener) as tracker:
            spark = self._session()
            with (
                # With Spark Connect, even creating the DataFrame runs an operation on the server.
                watched(spark, tracker, cancel=token, seen=listener is not silent),
                query_errors(self.reads),
                without_pandas_notice(),
                without_query_log(),
            ):
                frame = self._frame(spark, listener)
                token.check()
                tracker.phase(Phase.READING)
                return to_arrow(frame)

    def to_pandas(self, *, progress: Progress = None) -> pd.DataFrame:
        """Run the query and return its rows, with the same dtypes as a table read.

        Instants are in the connection's time zone; if it has none, they are naive UTC.
        """
        from odps_nb.convert.pandas_frame import to_pandas

        return to_pandas(in_zone(self.to_arrow(progress=progress), self._profile.timezone))

    def cancel(self) -> None:
        """Cancel running calls to `to_arrow` and `to_pandas`; may be called from any thread."""
        for token in list(self._running):
            token.cancel()

    def summary(self) -> tuple[tuple[str, str], ...]:
        """Return the name of each table with a description of its read."""
        return tuple((read.name, " · ".join(read.summary())) for read in self.reads)

    def _frames(
        self, spark: SparkSession, progress: Progress
    ) -> dict[Reference, tuple[str, DataFrame]]:
        """Return each reference's placeholder name and DataFrame; equal reads share a DataFrame."""
        from odps_nb.client.calls.storage import StorageClient

        distinct = list(dict.fromkeys(self.reads))
        if not distinct:
            return {}
        with StorageClient(self._profile) as storage:
            opened = _open(spark, storage, distinct, progress)
        by_read = dict(zip(distinct, opened, strict=True))
        keys = {read: f"odps_{number}" for number, read in enumerate(distinct)}
        pairs = zip(self._references, self.reads, strict=True)
        return {ref: (keys[read], by_read[read]) for ref, read in pairs}

    def __repr__(self) -> str:
        lines = [str(read) for read in self.reads] or ["reads no table of the service"]
        return "\n".join(["<SparkQuery>", *lines])


def _active() -> SparkSession | None:
    pyspark_version()
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _substituted(spark: SparkSession | None, text: str) -> str:
    """Replace ``${name}`` by the value of that setting, as Spark does in any text of a query."""
    if spark is None or str(spark.conf.get(_SUBSTITUTE)).lower() != "true":
        return text
    return _VARIABLE.sub(lambda match: str(spark.conf.get(match["name"], "")), text)


# -- names ------------------------------------------------------------------------------------


def _is_known(spark: SparkSession | None, reference: Reference) -> bool:
    """Whether Spark has a view or table with that name."""
    if spark is None:
        return False
    from pyspark.errors import PySparkException

    try:
        return spark.catalog.tableExists(".".join(f"`{part}`" for part in reference.parts))
    except PySparkException:  # the name has too many parts, or an unknown catalog
        return False


# -- requests ---------------------------------------------------------------------------------


def _plan(
    spark: SparkSession | None,
    storage: StorageClient,
    query: ParsedQuery,
    names: Mapping[Reference, TableName],
    limit: int | None,
) -> tuple[dict[Reference, TableRead], Fixed]:
    """Return the read of each reference, and the clock values to insert into the text."""
    from odps_nb.client.catalog import fetch_table, iter_partitions

    tables = list(dict.fromkeys(names.values()))
    infos = _side_by_side(lambda table: fetch_table(storage, table), tables)
    schemas = {table: info.schema for table, info in zip(tables, infos, strict=True)}
    reads = plan_reads(
        query, {ref: (name, schemas[name]) for ref, name in names.items()}, limit=limit
    )
    chosen = list(
        dict.fromkeys((r.table, r.listed) for r in reads.values() if r.partition_conditions)
    )
    lists = _side_by_side(
        lambda choice: [info.spec for info in iter_partitions(storage, choice[0], *choice[1])],
        chosen,
    )
    known = dict(zip(chosen, lists, strict=True))
    return choose_partitions(spark, reads, known)


def _open(
    spark: SparkSession,
    storage: StorageClient,
    reads: Sequence[TableRead],
    progress: Progress,
) -> list[DataFrame]:
    """Open the read sessions concurrently, then create the DataFrames."""
    from odps_nb.spark.reading.dataframe import session_dataframe
    from odps_nb.spark.reading.plan import cores_of, open_session
    from odps_nb.spark.tasks.types import spark_schema

    reads = [_with_types(read) for read in reads]
    plans = {read: _read_plan(read) for read in reads if not read.is_empty}
    cores = cores_of(spark)
    opened = _side_by_side(lambda plan: open_session(storage, plan, cores), plans.values())
    sessions = dict(zip(plans, opened, strict=True))
    frames = []
    for read in reads:
        if read.is_empty:  # an empty list of partitions would read all of them
            columns = [column for column in read.schema if column.name in read.columns]
            with without_pandas_notice():
                frames.append(spark.createDataFrame([], spark_schema(columns)))
        else:
            frame = session_dataframe(spark, storage, sessions[read], plans[read], progress)
            frames.append(frame)
    return frames


def _with_types(read: TableRead) -> TableRead:
    """If all columns are read (as with ``*``), drop those that Spark has no type for."""
    from odps_nb.spark.tasks.types import columns_for_spark

    if set(read.columns) != set(read.schema.names):
        return read
    names = {column.name for column in columns_for_spark(read.schema)}
    return dataclasses.replace(read, columns=tuple(name for name in read.columns if name in names))


def _read_plan(read: TableRead) -> ReadPlan:
    from odps_nb.client.read.plan import ReadPlan

    return ReadPlan(
        table=read.table,
        columns=read.columns,
        partition_columns=tuple(column.name for column in read.schema.partition_columns),
        partitions=read.partitions or (),  # spelled as the service lists them
        condition=AllOf(read.conditions) if read.conditions else None,
        schema=read.schema,
        limit=read.limit,
        timestamp_unit=TimeUnit.MICRO,  # Spark's only unit
    )


def _side_by_side(work: Callable[[_A], _B], items: Iterable[_A]) -> list[_B]:
    with ThreadPoolExecutor(_SIDE_BY_SIDE, "odps-nb-sql") as pool:
        return list(pool.map(work, items))
