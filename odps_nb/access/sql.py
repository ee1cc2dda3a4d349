"""`Result`: a SQL instance and its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from odps_nb.access.blobs.frames import tell_polars
from odps_nb.access.checks import check_count
from odps_nb.access.progress import listener_of
from odps_nb.access.row_forms import RowForms, as_table
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker
from odps_nb.client.sql.query import SqlInstance, cancel_sql, fetch_status, stop_quietly, wait_sql
from odps_nb.client.sql.result import ResultSession, iter_result, open_result
from odps_nb.convert.arrow_schema import arrow_schema
from odps_nb.convert.references import present_batch
from odps_nb.convert.warning import warn
from odps_nb.errors import CancelledError, OdpsNbError, SessionExpiredError
from odps_nb.explained import explained
from odps_nb.lifetime import renew_after_fork
from odps_nb.terms import STRICT_TEXT, TextMode, TextOptions, TimeUnit

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.connection import Connection
    from odps_nb.access.queries import Query
    from odps_nb.schema import TableSchema


@explained
class Result(RowForms):
    """A query on the service and its rows; created by ``odps.sql(…)``.

    The Storage API transfers the rows or, if the account lacks it, the tunnel. They can be read
    repeatedly until the service deletes the result. A statement without rows (``create``,
    ``insert``) has an empty schema. In a project with data protection, an access key may read only
    the first 10,000 rows of a result, or fewer if the project lowers this limit
    (``READ_TABLE_MAX_ROW``). Reading a larger result raises an `AccessDeniedError`; `first` returns
    the permitted rows.

    Examples
    --------
    >>> result = odps.sql("select ds, count(*) as n from orders group by ds order by ds limit 1")
    >>> result.schema.names, result.row_count
    (('ds', 'n'), 1)
    """

    def __init__(
        self,
        connection: Connection,
        instance: SqlInstance,
        *,
        text: TextOptions = STRICT_TEXT,
        query: Query | None = None,
    ) -> None:
        self._connection, self._instance, self._text = connection, instance, text
        self._query = query  # this query in `Connection.queries`
        self._session: ResultSession | None = None
        self._lock = threading.Lock()
        self._token = CancelToken()
        self._whole: Result | None = None
        self._limit: int | None = None
        self._unit = TimeUnit.NANO
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Replace the lock in a forked child, because a thread of the parent may hold it."""
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_token": None, "_query": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._token = CancelToken() if self._whole is None else self._whole._token
        self._after_fork()
        renew_after_fork(self)

    def first(self, rows: int) -> Result:
        """Return the result limited to its first rows; only those are fetched.

        Examples
        --------
        >>> result = odps.sql("select id from orders where ds = '2024-01-01' order by id")
        >>> result.first(2).to_pandas()
                id
        0  1000001
        1  1000002
        """
        result = self._derived(self._text)
        limit = check_count("rows", rows, at_least=0)
        result._limit = limit if self._limit is None or limit is None else min(limit, self._limit)
        return result

    def _replacing(self) -> Result:
        if self._text.mode is not TextMode.STRICT:
            return self
        return self._derived(replace(self._text, mode=TextMode.REPLACE))

    def _derived(self, text: TextOptions) -> Result:
        result = Result(self._connection, self._instance, text=text, query=self._query)
        result._whole, result._token, result._limit = self, self._token, self._limit
        return result

    @property
    def connection(self) -> Connection:
        """The connection of the query."""
        return self._connection

    @property
    def instance_id(self) -> str:
        """The id of the SQL instance."""
        return self._instance.instance_id

    def status(self) -> str:
        """Return the query's state; sends one request.

        One of ``running``, ``waiting``, ``suspended``, ``success``, ``failed``, ``cancelled``.
        """
        return fetch_status(self._connection._storage, self._instance)

    @property
    def sql(self) -> str:
        """The text of the query, without leading `settings`."""
        return self._instance.sql

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the query, from its text and the ``settings`` argument."""
        return dict(self._instance.settings)

    def console_page(self) -> str | None:
        """Return the URL of the job's page in the web console; sends one request.

        ``None`` if the service has no console.
        """
        from odps_nb.client.sql.result import console_of, job_page

        storage = self._connection._storage
        console = console_of(storage)
        return None if console is None else job_page(storage, console, self.instance_id)

    @property
    def schema(self) -> TableSchema:
        """The columns of the result; waits for the query on first use."""
        return self._opened(None).shown(self._text)

    @property
    def row_count(self) -> int:
        """Number of rows; waits for the query on first use.

        Raises `AccessDeniedError` if `is_cut`, because the service reports no total.
        """
        return self._cut(self._open(None).row_count)

    @property
    def is_cut(self) -> bool:
        """Whether the result may have more rows than the access key may read; waits for the query.

        Also true for a result with exactly as many rows as the limit: the service does not
        distinguish the two cases.
        """
        return self._limit is None and self._opened(None).is_cut

    def wait(self, timeout: float | None = None) -> Result:
        """Wait until the query has succeeded, for at most ``timeout`` seconds.

        Raises
        ------
        QueryError, NotFoundError, ConflictError
            The query failed; the message comes from the service. A `NotFoundError` names an object
            that does not exist, a `ConflictError` one that exists already.
        RequestTimeoutError
            The query is still running after ``timeout``; it is not cancelled.
        """
        storage = self._connection._storage
        self._await(storage.operation(self._token), timeout=timeout)
        return self

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the result as Arrow types; waits for the query on first use."""
        return self._columns(self._zone)

    def to_spark(self, spark: Any, *, progress: Progress = None) -> Any:
        """Return the rows as a Spark DataFrame; this process reads them and sends them to Spark."""
        from odps_nb.spark.reading.dataframe import local_dataframe

        # Without a zone, Spark would interpret instants in the time zone of its session.
        zone = self._zone or "UTC"

        def rows() -> pa.Table:
            with self._reading(progress) as (tracker, token):
                # Spark supports only microseconds.
                batches = self._arriving(tracker, token, zone=zone, unit=TimeUnit.MICRO)
                return as_table(batches, lambda: self._columns(zone))

        return local_dataframe(spark, rows, lambda: self.schema)

    def cancel(self) -> None:
        """Cancel the query on the service; waiting calls raise `CancelledError`. Idempotent."""
        self._token.cancel()
        cancel_sql(self._connection._storage, self._instance)
        if self._query is not None:
            self._query._end("cancelled")

    @contextmanager
    def _reading(self, progress: Progress) -> Iterator[tuple[ProgressTracker, CancelToken]]:
        token, listener = self._connection._storage.operation(self._token), listener_of(progress)
        with ProgressTracker("sql", self._instance.title, listener=listener) as tracker:
            try:
                yield tracker, token
            finally:
                if self._query is not None:
                    self._query.received += tracker.snapshot().wire_bytes

    def _unit_is_open(self) -> bool:
        return self._time_unit is TimeUnit.NANO

    @property
    def _time_unit(self) -> TimeUnit:
        """The unit for TIMESTAMPs that the service sends as ``struct<sec, nano>``."""
        return self._unit if self._whole is None else self._whole._time_unit

    def _fall_back(self, *_: object) -> Callable[[OdpsNbError], str]:
        return self._read_in_micro

    def _read_in_micro(self, error: OdpsNbError) -> str:
        """Use microseconds for all later reads of the result, and return the warning."""
        if self._whole is not None:
            return self._whole._read_in_micro(error)
        self._unit = TimeUnit.MICRO
        return (
            f"TIMESTAMPs of the result of instance {self.instance_id} are read in microseconds, "
            f"because some are outside the nanosecond range ({error.message}). Digits below "
            "a microsecond are truncated"
        )

    def _arriving(
        self,
        tracker: ProgressTracker,
        token: CancelToken,
        *,
        workers: int | None = None,
        read_ahead: int | None = None,
        zone: str | None = None,
        unit: TimeUnit | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        session = self._open(tracker)
        tell_polars(session.schema)
        tracker.plan(session_id=self.instance_id, rows_total=self._cut(session.row_count))
        tracker.phase(Phase.READING)
        read = partial(
            iter_result,
            self._connection._storage,
            limit=self._limit,
            workers=workers,
            read_ahead=read_ahead,
            text=self._text,
            unit=unit or self._time_unit,
            tracker=tracker,
            cancel=token,
        )
        with closing(self._in_session(read, tracker)) as batches:
            for batch in batches:
                yield present_batch(batch, session.schema, timezone=zone or self._zone)

    @property
    def _zone(self) -> str | None:
        return self._connection.profile.timezone

    def _columns(self, zone: str | None) -> pa.Schema:
        # Check access now: a later error would have to pass through Arrow's C interface.
        columns = self._open(None).shown(self._text)
        unit = "us" if self._time_unit is TimeUnit.MICRO else "ns"
        return arrow_schema(columns, timestamp_unit=unit, timezone=zone)

    def _cut(self, rows: int) -> int:
        return rows if self._limit is None else min(rows, self._limit)

    def _open(self, tracker: ProgressTracker | None) -> ResultSession:
        session = self._opened(tracker)
        session.check(self._limit)
        return session

    def _in_session(
        self,
        read: Callable[[ResultSession], Generator[pa.RecordBatch, None, None]],
        tracker: ProgressTracker | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """Iterate over ``read(session)``; if the session has expired, call ``read`` with a new one.

        The rows of a result never change. ``read`` is called again only before the first batch.
        """
        session, has_yielded = self._open(tracker), False
        try:
            with closing(read(session)) as batches:
                for batch in batches:
                    has_yielded = True
                    yield batch
            return
        except SessionExpiredError:
            if has_yielded:
                raise
            self._forget(session)
        with closing(read(self._open(tracker))) as batches:
            yield from batches

    def _forget(self, session: ResultSession) -> None:
        """Open a new session at the next use, because this one has expired."""
        if self._whole is not None:
            self._whole._forget(session)
            return
        with self._lock:
            if self._session is session:
                self._session = None

    def _opened(self, tracker: ProgressTracker | None) -> ResultSession:
        if self._whole is not None:
            return self._whole._opened(tracker)
        storage = self._connection._storage
        with self._lock:
            if self._session is None:
                token = storage.operation(self._token)
                self._await(token, tracker=tracker)
                self._session = open_result(storage, self._instance, tracker=tracker, cancel=token)
                if self._session.warning is not None:
                    warn(self._session.warning)
                if self._query is not None and not self._session.is_cut:
                    self._query.rows = self._session.row_count
            return self._session

    def _await(
        self,
        token: CancelToken,
        *,
        timeout: float | None = None,
        tracker: ProgressTracker | None = None,
    ) -> None:
        """Wait for the query; cancel it on the service if the wait is cancelled."""
        storage, instance = self._connection._storage, self._instance
        with nullcontext() if self._query is None else self._query._watched():
            try:
                wait_sql(storage, instance, timeout=timeout, tracker=tracker, cancel=token)
            except CancelledError:
                stop_quietly(storage, instance)
                raise

    def __repr__(self) -> str:
        session = self._session if self._whole is None else self._whole._session
        rows = "" if session is None else f", {self._cut(session.row_count):,} rows"
        rows += " or more" if session is not None and session.is_cut and not self._limit else ""
        title = f"{self._instance.title!r}, " if self._instance.title else ""
        return f"Result({title}instance {self.instance_id}{rows})"
