"""`Scan`: a planned read of a table, with methods that return its rows."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from odps_nb.access.blobs.frames import tell_polars
from odps_nb.access.engines.for_engines import ForEngines
from odps_nb.access.engines.split_task import SplitTask, split_tasks
from odps_nb.access.learning.source import RowSource, open_source
from odps_nb.access.progress import listener_of
from odps_nb.access.row_forms import RowForms
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress, ProgressTracker

# Imported at module level: a fork during another thread's import would hang the child.
from odps_nb.client.read.resume import asks_for_micro, refused_in_micro
from odps_nb.client.read.splits import iter_batches
from odps_nb.client.reading import open_read_session, reopen_read_session
from odps_nb.convert.arrow_schema import arrow_schema
from odps_nb.convert.references import present_batch
from odps_nb.convert.warning import columns_with_types
from odps_nb.errors import ArgumentError, InvalidRequestError, OdpsNbError
from odps_nb.explained import explained
from odps_nb.lifetime import renew_after_fork
from odps_nb.schema import Column, TableSchema, is_readable
from odps_nb.terms import Split, TextMode, TimeUnit, Transfer, shorten

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.connection import Connection
    from odps_nb.client.read.plan import ReadPlan, ReadSession


@explained
class Scan(RowForms, ForEngines):
    """A planned read of a table; created by ``table.read(…)``.

    The first use of `splits`, `row_count`, `schema` or a result opens the read session (one
    request). The rows may be read several times and converted to several types, always from the
    same snapshot, until the session expires.

    TIMESTAMPs are read in nanoseconds. If a value does not fit, the read restarts in a new session
    in microseconds, with an `OdpsNbWarning`. After the first batch, `batches` and `reader` raise an
    error instead.

    Examples
    --------
    >>> scan = odps.table("orders").read(["id", "ds"], partitions="ds=2024-01-02", limit=2)
    >>> scan.row_count
    2
    >>> scan.to_arrow().column("ds").to_pylist()
    ['2024-01-02', '2024-01-02']
    """

    def __init__(
        self,
        connection: Connection,
        plan: ReadPlan,
        *,
        max_bytes: int | None = None,
        progress: Progress = None,
        session_id: str | None = None,
    ) -> None:
        self._connection, self._plan, self._progress = connection, plan, progress
        self._max_bytes, self._reopens = max_bytes, session_id
        self._session: ReadSession | None = None
        self._table_schema = plan.schema
        self._lock = threading.RLock()
        self._running: list[CancelToken] = []
        self._fell_back = False
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Replace the lock in a forked child, because a thread of the parent may hold it."""
        self._lock, self._running = threading.RLock(), []

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: all except running reads and the progress display.

        An unpickled scan reads the same snapshot if its session was open when it was pickled.
        """
        shown = False if self._progress is False else None
        return {**self.__dict__, "_progress": shown, "_lock": None, "_running": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._after_fork()
        renew_after_fork(self)

    # -- facts about the rows --------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection of the table."""
        return self._connection

    @property
    def session_id(self) -> str:
        """The id of the read session; the first use opens the session (one request).

        Use it in support requests, or to read the same snapshot in another process.

        Examples
        --------
        >>> orders = odps.table("orders")
        >>> scan = orders.read(["id"], partitions="ds=2024-01-02", limit=1)
        >>> orders.read(["id"], limit=1, session_id=scan.session_id).to_arrow().to_pylist()
        [{'id': 1231073}]
        """
        return self._opened().session_id

    @property
    def latest_version(self) -> int:
        """The version of the table in the snapshot; the first use opens the session (one request).

        Pass it as ``since`` of the next incremental read. 0 if the service does not report it.
        """
        return self._opened().latest_version

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits, read in parallel; the first use opens the session (one request)."""
        return self._opened().splits

    @property
    def row_count(self) -> int | None:
        """Number of rows in the results; the first use opens the session (one request).

        ``None`` if the number is unknown before reading, for example with ``where``.
        """
        session = self._opened()
        if session.row_count is None or session.limit is None:
            return session.row_count
        return min(session.row_count, session.limit)

    @property
    def schema(self) -> TableSchema:
        """The columns of the results; the first use opens the session (one request).

        The schema lists data columns and partition columns separately.
        """
        return self._opened().schema

    def _all_columns(self) -> TableSchema:
        """Return all columns of the table, with comments; one request unless they are cached."""
        if self._table_schema is None:
            self._table_schema = self._connection.table(self._plan.table).schema
        return self._table_schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the results as Arrow types; the first use opens the session (one request).

        A column whose type odps_nb does not know is ``null`` here; in the rows, it has the type
        that the service sends, such as ``binary``.
        """
        schema = self._shown_columns()
        unit = "us" if self._opened().timestamp_unit is TimeUnit.MICRO else "ns"
        zone = self._connection.profile.timezone
        return arrow_schema(schema, timestamp_unit=unit, timezone=zone)

    # -- results ------------------------------------------------------------------------------

    def to_spark(self, spark: Any, *, progress: Progress = None) -> Any:
        """Return a Spark DataFrame whose tasks read the splits directly from the service.

        Spark supports only microseconds. If the session is not open yet and ``timestamp_unit`` is
        not set, the session is opened in microseconds for all results of this scan.

        Parameters
        ----------
        progress
            As for `Table.read`; each Spark action that reads has its own display.

        Raises
        ------
        MissingDependencyError
            Spark is not installed.
        ArgumentError
            The read has ``max_bytes``, which cannot be enforced because Spark tasks read the rows
            directly.
        """
        from odps_nb.spark.reading.dataframe import read_scan

        self._require_unbounded("Spark, because its tasks read the rows directly", limit=False)
        with self._lock:
            untouched = self._session is None and self._reopens is None
            if untouched and self._plan.timestamp_unit is None:
                self._plan = replace(self._plan, timestamp_unit=TimeUnit.MICRO)
        return read_scan(spark, self, progress=self._progress if progress is None else progress)

    def cancel(self) -> None:
        """Cancel all reads of this scan; they raise `CancelledError`. Any thread may call this."""
        with self._lock:
            running = list(self._running)
        for token in running:
            token.cancel()

    # -- inside -------------------------------------------------------------------------------

    def _whole(self) -> Scan:
        return self

    def _shown_columns(self) -> list[Column]:
        schema = self._opened().schema
        matches = map(schema.find, self._plan.columns or schema.names)
        return [column for column in matches if column is not None]

    def _with_types(self, what: str) -> Scan:
        """Return a scan of the same session without columns whose Arrow type is unknown."""
        if self._plan.columns:
            return self
        readable = columns_with_types(self.schema, is_readable, what)
        plan = replace(self._plan, columns=tuple(column.name for column in readable))
        return self._copy(plan, self._session)

    def _split_tasks(self) -> list[SplitTask]:
        self._require_unbounded("tasks that read the rows in other processes")
        return split_tasks(self, lambda: self._connection._storage)

    def _row_source(self, *, read_ahead: int, session_id: str | None = None) -> RowSource:
        self._require_unbounded("training rows, which are shuffled in each epoch")
        return open_source(self, read_ahead=read_ahead, session_id=session_id)

    def _require_unbounded(self, what: str, *, limit: bool = True) -> None:
        """Raise if a limit is set that readers in other processes cannot enforce."""
        bounds = {"max_bytes": self._max_bytes, "limit": self._plan.limit if limit else None}
        for name, bound in bounds.items():
            if bound is not None:
                raise ArgumentError(
                    f"{name} cannot be used with {what}",
                    argument=name,
                    hint=f"omit {name}=, or read fewer partitions",
                )

    def _replanned(self, plan: ReadPlan, session_id: str | None = None) -> Scan:
        """Return a scan with another plan; ``session_id`` defaults to the one set in this scan."""
        return Scan(self._connection, plan, session_id=session_id or self._reopens)

    def _replacing(self, *, opens: bool = True) -> Scan:
        if self._plan.text.mode is not TextMode.STRICT:
            return self
        session, text = self._session, replace(self._plan.text, mode=TextMode.REPLACE)
        if opens:
            session = self._opened()
        if session is not None:
            session = replace(session, text=text)
        return self._copy(replace(self._plan, text=text), session)

    def _copy(self, plan: ReadPlan, session: ReadSession | None) -> Scan:
        """Return a scan with this plan and session that can be cancelled separately."""
        copied = copy.copy(self)
        copied._plan, copied._session, copied._progress = plan, session, self._progress
        return copied

    @contextmanager
    def _reading(self, progress: Progress) -> Iterator[tuple[ProgressTracker, CancelToken]]:
        token = self._connection._storage.operation()
        listener = listener_of(progress, self._progress)
        with (
            self._registered(token),
            ProgressTracker("read", str(self._plan.table), listener=listener) as tracker,
        ):
            yield tracker, token

    @contextmanager
    def _registered(self, token: CancelToken) -> Iterator[None]:
        """Register a token while the block runs, so that `cancel` can cancel the block."""
        with self._lock:
            self._running.append(token)
        try:
            yield
        finally:
            with self._lock:
                if token in self._running:  # a forked child has a new list
                    self._running.remove(token)

    def _unit_is_open(self) -> bool:
        return self._plan.timestamp_unit is None and self._reopens is None

    def _can_read_far_times(self) -> bool:
        """Return whether a query can read times that are out of range for the tunnel."""
        by_tunnel = self._session is not None and self._session.transfer is Transfer.TUNNEL
        return by_tunnel and not self._plan.far_times and self._reopens is None

    def _fall_back(
        self, tracker: ProgressTracker | None, token: CancelToken | None
    ) -> Callable[[OdpsNbError], str | None]:
        fresh = self._session is None
        return lambda error: self._read_in_micro(error, tracker, token, fresh=fresh)

    def _read_in_micro(
        self,
        error: OdpsNbError,
        tracker: ProgressTracker | None,
        token: CancelToken | None,
        *,
        fresh: bool,
    ) -> str | None:
        """Open a session in microseconds and return the warning, or raise ``error``.

        A session has a single unit, so this opens a new session, whose snapshot may be newer. If
        ``fresh`` is false, the caller may have used the old session, so the new session must report
        the same version and counts.
        """
        with self._lock:
            if self._fell_back:  # another thread has already switched to microseconds
                return None
            was_open = self._unit_is_open()
            if not (was_open or self._can_read_far_times()):
                raise error
            if tracker is not None:
                tracker.restarted(f"read again in microseconds: {error.message}")
            plan = replace(self._plan, timestamp_unit=TimeUnit.MICRO, far_times=True)
            try:
                session = open_read_session(
                    self._connection._storage, plan, tracker=tracker, cancel=token
                )
            except InvalidRequestError as again:
                if asks_for_micro(again):
                    raise refused_in_micro(again, str(plan.table)) from again
                raise
            fingerprint = attrgetter("latest_version", "row_count", "stored_rows", "splits")
            if (
                not fresh
                and self._session is not None
                and fingerprint(session) != fingerprint(self._session)
            ):
                error.add_note(f"{plan.table} has changed since this read was opened")
                raise error
            self._plan, self._session, self._fell_back = plan, session, True
        if not was_open:
            return None
        return (
            f"TIMESTAMPs of {plan.table} are read in microseconds, because some are outside "
            f"the nanosecond range ({error.message}). Digits below a microsecond are truncated, "
            "even in conditions. Pass timestamp_unit='us' to avoid this warning"
        )

    def _arriving(
        self,
        tracker: ProgressTracker,
        token: CancelToken,
        *,
        workers: int | None = None,
        read_ahead: int | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        session, storage = self._opened(tracker, token), self._connection._storage
        tell_polars(session.schema)
        if workers is not None and storage.is_here:
            # The service uses the same processors, so more connections only add memory and threads.
            workers = min(workers, os.cpu_count() or 1)
        batches = iter_batches(
            storage,
            session,
            workers=workers,
            read_ahead=read_ahead,
            max_bytes=self._max_bytes,
            join=self._plan.splits is None and self._plan.split_bytes is None,
            tracker=tracker,
            cancel=token,
        )
        with closing(batches):  # type: ignore[type-var]  # it is a generator
            for batch in batches:
                yield self._shown(batch, session)

    def _shown(self, batch: pa.RecordBatch, session: ReadSession) -> pa.RecordBatch:
        """Return a batch of the session with the columns in the order of the results."""
        shown = present_batch(batch, session.schema, timezone=self._connection.profile.timezone)
        # A session returns partition columns last, regardless of the order of ``columns``.
        return shown.select(list(self._plan.columns)) if self._plan.columns else shown

    def _opened(
        self, tracker: ProgressTracker | None = None, token: CancelToken | None = None
    ) -> ReadSession:
        """Return the read session, opening it on first use."""
        with self._lock:
            if self._session is None:
                storage = self._connection._storage
                if self._reopens is not None:
                    self._session = reopen_read_session(storage, self._plan, self._reopens)
                    return self._session
                self._session = open_read_session(
                    storage, self._plan, tracker=tracker, cancel=token
                )
            elif tracker is not None:
                tracker.plan(session_id=self._session.session_id, rows_total=self.row_count)
                for split in self._session.splits:
                    tracker.plan_split(str(split), rows=getattr(split, "count", None))
            return self._session

    def __repr__(self) -> str:
        plan = self._plan
        parts = [str(plan.table)]
        parts += [f"columns={_short(plan.columns)}"] if plan.columns else []
        parts += [f"partitions={_short([str(p) for p in plan.partitions])}"] * bool(plan.partitions)
        parts += [f"where={_short(plan.where)}"] if plan.where else []
        parts += [f"limit={plan.limit}"] if plan.limit is not None else []
        mode = plan.text.mode
        parts += [f"text={mode.value!r}"] if mode is not TextMode.STRICT else []
        parts += ["char_padding=True"] if plan.text.char_padding else []
        parts += [f"max_bytes={self._max_bytes}"] if self._max_bytes is not None else []
        if self._session is not None:
            rows = "?" if self.row_count is None else f"{self.row_count:,}"
            parts.append(f"{rows} rows in {len(self._session.splits)} splits")
        return f"Scan({', '.join(parts)})"


def _short(value: object) -> str:
    return shorten(repr(list(value) if isinstance(value, tuple) else value), 80)
