"""Read sessions: a snapshot of a table, cut into splits (floor 3; ``protocol.md`` 3.1, 3.2, 4).

Must not know: how rows arrive.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from odps_nb.client.cancel import CancelToken
from odps_nb.client.cursor import rows_of
from odps_nb.client.increments import Increment
from odps_nb.client.progress import Phase, ProgressTracker
from odps_nb.client.storage import StorageClient
from odps_nb.errors import (
    FramingError,
    InvalidRequestError,
    RequestTimeoutError,
    ServiceError,
    SessionExpiredError,
)
from odps_nb.filters.row_filter import RowFilter
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import (
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SessionStatus,
    Split,
    SplitMode,
    TableName,
    TimeUnit,
)
from odps_nb.wire.calls import (
    MAX_BATCH_ROWS,
    NANOSECONDS_TOO_NARROW,
    CreateReadSession,
    GetReadSession,
    ReadSessionAnswer,
)

__all__ = [
    "ReadPlan",
    "ReadSession",
    "open_read_session",
    "plan_ranges",
    "reopen_read_session",
    "require_ready",
]

DEFAULT_SPLIT_BYTES = 64 * 2**20
#: The service refuses smaller splits (live tests of its clients); ranges of rows have no bound.
MIN_SPLIT_BYTES = 10 * 2**20
DEFAULT_SPLIT_ROWS = 1_000_000
DEFAULT_BATCH_ROWS = 20_000
#: Splits of a session where nobody says how many or how large: of more than these they grow.
DEFAULT_SPLITS = 100_000
#: Splits that are taken when somebody does: each is a value here, and a task of Spark's driver.
MAX_SPLITS = 1_000_000
READY_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What to read of a table.

    Parameters
    ----------
    columns
        Names, partition columns among them; empty for all. Data columns arrive in this order,
        then partition columns.
    partition_columns
        Which of ``columns`` are partition columns. ``None``: found out by one more request.
    partitions
        Specs, partial ones too; empty for the whole table.
    where
        A SQL condition (`odps_nb.filters.parse`). The service leaves out blocks of rows by it, and
        each row is looked at again where it arrives.
    timezone
        Where times in quotes are read that ``where`` compares with a DATETIME or TIMESTAMP.
    schema
        All columns of the table, where they are known; ``where`` needs them. ``None``: found out
        by one more request.
    split_bytes, splits
        Size of a split by the service's estimate, or their number. Where neither is said a split
        has 64 MiB, or more where there would be over 100,000 of them.
    limit
        Rows wanted at most.
    versions
        ``(after, upto)``: only the rows that the versions after the one, up to the other, added
        (`ReadSession.latest_version` of an earlier read is where to start).
    appends_only
        Leave out versions that replaced rows, too; without it, such a version is an error.
    compression
        What the bodies are asked to be coded with.
    timestamp_unit
        Unit in which TIMESTAMPs arrive. ``None``: nanoseconds, or microseconds where the service
        says that nanoseconds (1677…2262) do not reach.
    increment
        Only what some versions brought; not with ``versions``.
    """

    table: TableName
    columns: tuple[str, ...] = ()
    partition_columns: tuple[str, ...] | None = None
    partitions: tuple[PartitionSpec, ...] = ()
    where: str | None = None
    timezone: str = "UTC"
    schema: TableSchema | None = None
    split_bytes: int | None = None
    splits: int | None = None
    limit: int | None = None
    versions: tuple[int, int] | None = None
    appends_only: bool = False
    compression: Compression = Compression.NONE
    timestamp_unit: TimeUnit | None = None
    max_batch_rows: int = DEFAULT_BATCH_ROWS
    increment: Increment | None = None

    def __post_init__(self) -> None:
        for name in ("split_bytes", "splits", "max_batch_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidRequestError(f"{name} is {value}; it must be at least 1")
        if self.max_batch_rows > MAX_BATCH_ROWS:
            raise InvalidRequestError(
                f"max_batch_rows is {self.max_batch_rows}; the service gives {MAX_BATCH_ROWS} rows"
                " in a batch at most"
            )
        if self.limit is not None and self.limit < 0:
            raise InvalidRequestError(f"limit is {self.limit}; it must not be negative")
        if self.versions is not None and not 0 <= self.versions[0] <= self.versions[1]:
            raise InvalidRequestError(f"versions are {self.versions}; they must not go backwards")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSession:
    """A snapshot and its splits; a plain value that may be pickled.

    ``schema`` is what the batches have, in their order. ``row_count`` counts the rows of all
    splits where they are known (no filter), ``expires_at`` is in seconds of the epoch,
    ``estimated_size`` in bytes. ``filter`` is applied to the rows of every split, and needs
    ``hidden`` columns that come with them and are not given on. ``stored_rows`` are those that a
    filtered session with ranges of rows has before its filter, by the service's count. With a
    ``limit`` the splits may hold more rows than that. ``selects`` says that columns were
    chosen, ``columns`` which of a stream that has more than was wanted.
    ``latest_version`` is that of the table, 0 where there is none or the service tells none.
    ``timestamp_unit`` is that in which TIMESTAMPs were asked for. ``tells_changes`` says that the
    last data column tells in a word what became of each row.
    """

    table: TableName
    session_id: str
    schema: TableSchema
    splits: tuple[Split, ...]
    row_count: int | None = None
    expires_at: float | None = None
    route_token: str | None = None
    estimated_size: int | None = None
    latest_version: int = 0
    filter: RowFilter | None = None
    hidden: tuple[Column, ...] = ()
    stored_rows: int | None = None
    selects: bool = False
    limit: int | None = None
    columns: tuple[str, ...] = ()
    compression: Compression = Compression.NONE
    timestamp_unit: TimeUnit = TimeUnit.NANO
    max_batch_rows: int = DEFAULT_BATCH_ROWS
    tells_changes: bool = False

    def __repr__(self) -> str:
        return (
            f"ReadSession({self.table}, {self.session_id!r}, {len(self.splits)} splits, "
            f"rows={self.row_count}, columns={len(self.schema)})"
        )


# -- sessions ---------------------------------------------------------------------------------


def open_read_session(
    storage: StorageClient,
    plan: ReadPlan,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> ReadSession:
    """Take a snapshot and cut it into splits.

    Without a filter rows are counted exactly and cut into ranges here (`SplitMode.ROW_OFFSET`);
    with one the service cuts (`SplitMode.SIZE`), unless smaller splits are wanted than it makes
    or the table takes only ranges (as those with BLOBs do, by the vendor's manual).

    Raises
    ------
    NotFoundError
        No such project, table or partition.
    InvalidRequestError
        A column does not exist, the service does not take the filter, or what was said of the
        splits makes over a million of them.
    """
    try:
        return _opened(storage, plan, tracker, cancel)
    except InvalidRequestError as error:
        if error.code != NANOSECONDS_TOO_NARROW or plan.timestamp_unit is not None:
            raise
    return _opened(storage, replace(plan, timestamp_unit=TimeUnit.MICRO), tracker, cancel)


def _opened(
    storage: StorageClient,
    plan: ReadPlan,
    tracker: ProgressTracker | None,
    cancel: CancelToken | None,
) -> ReadSession:
    ask = partial(_ask, storage, tracker=tracker, cancel=cancel)
    columns = _columns(plan, ask)
    request = _request(plan, columns)
    answer = _answered(plan, request, ask)
    session = _session(plan, answer, columns)
    if tracker is not None:
        tracker.plan(session_id=session.session_id, rows_total=_rows_total(session))
        for split in session.splits:
            tracker.plan_split(str(split), rows=rows_of(split))
    return session


def _request(plan: ReadPlan, columns: _Columns) -> CreateReadSession:
    increment = _increment(plan)
    return CreateReadSession(
        table=plan.table,
        timestamp_unit=_unit(plan),
        data_columns=columns.data,
        partition_columns=columns.parts,
        partitions=plan.partitions,
        # what a predicate does to an incremental read is not known
        filter_predicate=columns.filter.predicate if columns.filter and not increment else "",
        filter_fallback=columns.filter is not None,  # rows are filtered here in any case
        **_split_options(plan),
        **increment,
    )


def _answered(
    plan: ReadPlan,
    request: CreateReadSession,
    ask: Callable[[CreateReadSession], ReadSessionAnswer],
) -> ReadSessionAnswer:
    """Ask for a session in the first mode that the table takes."""
    if request.split_mode is SplitMode.SIZE:
        try:
            answer = ask(request)
        except InvalidRequestError as error:
            if error.code == NANOSECONDS_TOO_NARROW:
                raise
            try:  # the table may take ranges of rows only: see SplitMode.ROW_OFFSET
                return ask(replace(request, split_mode=SplitMode.ROW_OFFSET, split_number=0))
            except InvalidRequestError:
                raise error from None
    else:
        answer = ask(request)
        if request.split_mode is SplitMode.ROW_OFFSET and answer.record_count is None:
            size = max(_split_bytes(plan), MIN_SPLIT_BYTES)
            request = replace(request, split_mode=SplitMode.SIZE, split_number=size)
            answer = ask(request)
    by_size = request.split_mode is SplitMode.SIZE
    if by_size and answer.splits_count > DEFAULT_SPLITS and _is_free(plan):
        larger = _split_bytes(plan) * math.ceil(answer.splits_count / DEFAULT_SPLITS)
        answer = ask(replace(request, split_number=larger))
    return answer


def reopen_read_session(storage: StorageClient, plan: ReadPlan, session_id: str) -> ReadSession:
    """Return a session that was opened with this plan, refreshed, with the same rows and splits.

    Raises
    ------
    SessionExpiredError
        It is over, and its snapshot with it.
    """
    columns = _columns(plan, partial(_ask, storage, tracker=None, cancel=None))
    answer = storage.call(GetReadSession(table=plan.table, session_id=session_id, refresh=True))
    return _session(plan, require_ready(answer, plan.table), columns)


def _unit(plan: ReadPlan) -> TimeUnit:
    return plan.timestamp_unit or TimeUnit.NANO


def _rows_total(session: ReadSession) -> int | None:
    if session.limit is None or session.row_count is None:
        return session.row_count
    return min(session.limit, session.row_count)


def _split_bytes(plan: ReadPlan) -> int:
    return plan.split_bytes or DEFAULT_SPLIT_BYTES


def _split_options(plan: ReadPlan) -> dict[str, Any]:
    if plan.increment is not None and plan.increment.split_mode is not None:
        return {"split_mode": plan.increment.split_mode}
    fine = plan.splits is not None or _split_bytes(plan) < MIN_SPLIT_BYTES
    if fine or not plan.where or _increment(plan):
        return {"split_mode": SplitMode.ROW_OFFSET, "split_number": DEFAULT_SPLIT_ROWS}
    return {"split_mode": SplitMode.SIZE, "split_number": _split_bytes(plan)}


def _increment(plan: ReadPlan) -> dict[str, Any]:
    if plan.increment is not None:
        return plan.increment.request()
    if plan.versions is None:
        return {}
    after, upto = plan.versions
    # The clients disagree about names and modes (protocol.md section 3.1); unknown keys are
    # ignored, so both spellings of the bounds are sent.
    options = {
        "Mode": "append" if plan.appends_only else "version",
        "StartVersion": after,
        "EndVersion": upto,
        "From": after,
        "To": upto,
    }
    return {"incremental_read": True, "incremental_options": options}


def _ask(
    storage: StorageClient,
    request: CreateReadSession,
    *,
    tracker: ProgressTracker | None,
    cancel: CancelToken | None,
) -> ReadSessionAnswer:
    """Create a session and wait until it can be read."""
    if tracker is not None:
        tracker.phase(Phase.CREATING)
    answer = storage.call(request, tracker=tracker, cancel=cancel)
    waiting = storage.attempts(f"read session of {request.table}", tracker=tracker, cancel=cancel)
    waited, delay = 0.0, 0.1
    while answer.status is SessionStatus.INIT:
        if waited >= READY_TIMEOUT:
            raise RequestTimeoutError(
                f"the read session of {request.table} is not ready after {waited:.0f} s",
                hint="try again, or read fewer partitions",
            )
        waiting.pause(delay)
        waited, delay = waited + delay, min(5.0, delay * 1.5)
        token = answer.route_token
        answer = storage.call(
            GetReadSession(table=request.table, session_id=answer.session_id),
            tracker=tracker,
            cancel=cancel,
        )
        answer = replace(answer, route_token=answer.route_token or token)
    return require_ready(answer, request.table)


def require_ready(answer: ReadSessionAnswer, table: TableName) -> ReadSessionAnswer:
    """Return the answer of a session that can be read; raise what became of another."""
    if answer.status is SessionStatus.NORMAL:
        return answer
    kind = SessionExpiredError if answer.status is SessionStatus.EXPIRED else ServiceError
    reason = answer.message or "no reason given"
    raise kind(
        f"the read session of {table} is {answer.status.value}: {reason}",
        code=answer.status.value,
        hint="read again; quote the session if it persists",
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns as requests need them: of data, of partitions, in the order wanted, and to filter."""

    data: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    filter: RowFilter | None = None


def _columns(plan: ReadPlan, ask: Callable[[CreateReadSession], ReadSessionAnswer]) -> _Columns:
    schema = plan.schema
    if plan.where and schema is None:
        schema = _probed(plan, ask)
    found = None
    if plan.where and schema is not None:
        found = RowFilter.parse(plan.where, schema, timezone=plan.timezone)
    if not plan.columns:
        return _Columns(filter=found)
    if plan.increment is not None and plan.increment.keyed:
        # what comes beside the table's columns is chosen here
        return _Columns(wanted=plan.columns, filter=found)
    needed = plan.columns
    if found is not None:
        has = {name.casefold() for name in needed}
        needed = (*needed, *(name for name in found.columns if name.casefold() not in has))
    keys = plan.partition_columns
    if keys is None and schema is not None:
        keys = tuple(column.name for column in schema.partition_columns)
    if keys is not None:
        folded = {name.casefold() for name in keys}
        parts = tuple(name for name in needed if name.casefold() in folded)
        data = tuple(name for name in needed if name.casefold() not in folded)
        if data:
            return _Columns(data, parts, plan.columns, found)
    schema = schema or _probed(plan, ask)
    columns = [_find(schema, name, plan.table) for name in needed]
    data = tuple(column.name for column in columns if column in schema.columns)
    parts = tuple(column.name for column in columns if column in schema.partition_columns)
    wanted = tuple(column.name for column in columns[: len(plan.columns)])
    # No data column would mean all of them: one comes along and is dropped here.
    return _Columns(data or tuple(c.name for c in schema.columns[:1]), parts, wanted, found)


def _probed(plan: ReadPlan, ask: Callable[[CreateReadSession], ReadSessionAnswer]) -> TableSchema:
    """Learn the columns from a session that is opened for them alone."""
    options = _increment(plan) or {"split_mode": SplitMode.ROW_OFFSET, "split_number": 0}
    return ask(
        CreateReadSession(
            table=plan.table, partitions=plan.partitions, timestamp_unit=_unit(plan), **options
        )
    ).schema


def _find(schema: TableSchema, name: str, table: TableName) -> Column:
    column = schema.find(name)
    if column is None:
        shown = ", ".join(schema.names[:20]) + (", …" if len(schema) > 20 else "")
        raise InvalidRequestError(
            f"{table} has no column {name!r}", hint=f"its columns are {shown}"
        )
    return column


def _session(plan: ReadPlan, answer: ReadSessionAnswer, columns: _Columns) -> ReadSession:
    rows, found = answer.record_count, columns.filter
    by_rows = answer.split_mode is SplitMode.ROW_OFFSET and rows is not None
    if by_rows:
        splits: tuple[Split, ...] = _ranges(plan, rows or 0, answer.estimated_size)
    else:
        count = answer.splits_count
        if plan.increment is not None and answer.split_mode is SplitMode.BUCKET:
            count = len(answer.bucket_ids)
        splits = tuple(IndexSplit(n) for n in range(_bearable(count)))
    schema = _selected(answer.schema, columns.wanted)
    if plan.increment is not None:
        schema = plan.increment.shown(schema)
    return ReadSession(
        table=plan.table,
        session_id=answer.session_id,
        schema=schema,
        splits=splits,
        row_count=sum(rows_of(split) or 0 for split in splits) if by_rows and not found else None,
        expires_at=answer.expires_at,
        route_token=answer.route_token,
        estimated_size=answer.estimated_size,
        latest_version=answer.latest_version,
        filter=found,
        hidden=_hidden(answer.schema, schema, found),
        stored_rows=rows if by_rows and found else None,
        selects=bool(plan.columns),
        limit=plan.limit,
        columns=schema.names if plan.increment or len(schema) < len(answer.schema) else (),
        compression=plan.compression,
        timestamp_unit=_unit(plan),
        max_batch_rows=plan.max_batch_rows,
        tells_changes=plan.increment is not None and plan.increment.changes,
    )


def _hidden(
    answered: TableSchema, shown: TableSchema, found: RowFilter | None
) -> tuple[Column, ...]:
    """Return the columns that only the filter needs."""
    if found is None:
        return ()
    columns = {column.name.casefold(): column for column in answered}
    names = [name for name in found.columns if shown.find(name) is None]
    try:
        return tuple(columns[name.casefold()] for name in names)
    except KeyError as error:
        raise FramingError(
            f"the session has no column {error.args[0]!r}, which where= needs"
        ) from None


def _selected(schema: TableSchema, wanted: tuple[str, ...]) -> TableSchema:
    """Return the schema as batches will have it."""
    if not wanted:
        return schema
    order = {name.casefold(): place for place, name in enumerate(wanted)}

    def pick(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        chosen = [column for column in columns if column.name.casefold() in order]
        return tuple(sorted(chosen, key=lambda column: order[column.name.casefold()]))

    return TableSchema(
        columns=pick(schema.columns), partition_columns=pick(schema.partition_columns)
    )


def _ranges(plan: ReadPlan, rows: int, size: int | None) -> tuple[RowRangeSplit, ...]:
    if plan.limit is not None and not plan.where:
        size = None if size is None or not rows else size * min(rows, plan.limit) // rows
        rows = min(rows, plan.limit)
    if plan.splits is not None:
        return plan_ranges(rows, _bearable(min(rows, plan.splits)))
    by_rows = math.ceil(rows / DEFAULT_SPLIT_ROWS)
    wanted = math.ceil(size / _split_bytes(plan)) if size else by_rows
    if _is_free(plan):
        wanted = min(wanted, DEFAULT_SPLITS)
    return plan_ranges(rows, _bearable(min(rows, wanted)))


def _is_free(plan: ReadPlan) -> bool:
    """Whether the number of splits is left to us."""
    return plan.splits is None and plan.split_bytes is None


def _bearable(splits: int) -> int:
    if splits > MAX_SPLITS:
        raise InvalidRequestError(
            f"that would be {splits:,} splits; at most {MAX_SPLITS:,} are planned",
            code="TooManySplits",
            hint="make them larger (split_bytes=), or read fewer partitions at a time",
        )
    return splits


def plan_ranges(rows: int, splits: int) -> tuple[RowRangeSplit, ...]:
    """Cut ``[0, rows)`` into at most ``splits`` ranges whose lengths differ by one row at most."""
    count = max(1, min(rows, splits)) if rows else 0
    bounds = [rows * n // count for n in range(count + 1)] if count else [0]
    return tuple(RowRangeSplit(low, high - low) for low, high in itertools.pairwise(bounds))
