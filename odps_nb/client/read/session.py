"""Opens read sessions of the Storage API; each is a snapshot of a table, divided into splits.

See ``docs/protocol.md`` sections 3.1, 3.2 and 4.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial
from typing import Any

from odps_nb.client.calls.attempts import Attempts
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.calls.version_1 import OverVersion1
from odps_nb.client.catalog import suggest_partitions, suggest_tables
from odps_nb.client.read.columns import (
    Ask,
    Columns,
    choose_columns,
    hidden_columns,
    increment_of,
    require_columns,
    selected,
    unit_of,
)
from odps_nb.client.read.needs_query import require_no_query
from odps_nb.client.read.plan import READY_TIMEOUT, ReadPlan, ReadSession
from odps_nb.client.read.requests import OLD_PREFIX, StorageRows
from odps_nb.client.read.resume import rows_of
from odps_nb.errors import (
    ArgumentError,
    InvalidRequestError,
    NotFoundError,
    RequestTimeoutError,
    ServerFaultError,
    ServiceError,
    SessionExpiredError,
)
from odps_nb.schema import text_as_binary
from odps_nb.terms import (
    IndexSplit,
    RowRangeSplit,
    SessionStatus,
    Split,
    SplitMode,
    TableName,
    TextMode,
)
from odps_nb.wire.calls import (
    CreateReadSession,
    GetReadSession,
    ReadSessionAnswer,
)
from odps_nb.wire.calls.errors import code_of_text, is_storage_timeout

DEFAULT_SPLIT_BYTES = 64 * 2**20
#: Minimum split size in bytes (from live tests of the vendor's clients); row ranges may be smaller.
MIN_SPLIT_BYTES = 10 * 2**20
DEFAULT_SPLIT_ROWS = 1_000_000
#: Default maximum number of splits; larger reads get larger splits.
DEFAULT_SPLITS = 100_000
#: Maximum value of ``splits=``. Each split uses memory, and is a task that Spark's driver tracks.
MAX_SPLITS = 1_000_000


# -- sessions ---------------------------------------------------------------------------------


def open_storage_session(
    storage: StorageClient,
    plan: ReadPlan,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
    old: bool = False,
) -> ReadSession:
    """Open a session of the Storage API or, with ``old``, of its version 1.

    Without a filter, rows are counted exactly and divided into ranges (`SplitMode.ROW_OFFSET`).
    With a filter, the service divides the rows by size (`SplitMode.SIZE`), unless the requested
    splits are too small for this mode. If the service refuses one mode for the table, the other
    mode is used.
    """
    ask = partial(_ask, storage, tracker=tracker, cancel=cancel, old=old)
    try:
        columns = choose_columns(plan, ask)
        request = _request(plan, columns)
        answer = _answered(plan, request, ask) if not old else _answered_by_1(plan, request, ask)
    except NotFoundError as error:
        suggest_tables(storage, plan.table, error)
        suggest_partitions(storage, plan.table, plan.partitions, error)
        raise
    except InvalidRequestError as error:
        require_no_query(storage, plan, error)
        raise
    session = _session(plan, answer, columns, old=old)
    if old:
        from odps_nb.client.read.tunnel import refuse_blobs

        refuse_blobs(plan.table, session.schema)
    return session


def _request(plan: ReadPlan, columns: Columns) -> CreateReadSession:
    increment = increment_of(plan)
    return CreateReadSession(
        table=plan.table,
        timestamp_unit=unit_of(plan),
        data_columns=columns.data,
        partition_columns=columns.parts,
        partitions=plan.partitions,
        # no predicate for incremental reads, because its effect on them is unknown
        filter_predicate=columns.filter.predicate if columns.filter and not increment else "",
        filter_fallback=columns.filter is not None,  # safe: the client filters as well
        **_split_options(plan, prunes=bool(columns.filter and columns.filter.predicate)),
        **increment,
    )


_NO_CHANGES = (
    "create the table with properties={'acid.cdc.mode.enable': True}; it then keeps each change "
    "for 24 hours, or for the hours in the property 'cdc.data.retain.hours' (1 to 168)"
)


def _answered(plan: ReadPlan, request: CreateReadSession, ask: Ask) -> ReadSessionAnswer:
    """Create a session in the first split mode that the table supports."""
    try:
        answer = ask(request)
    except InvalidRequestError as error:
        if plan.increment is not None:
            if plan.increment.changes and "cdc" in error.message.lower():
                error.hint = _NO_CHANGES
            raise
        request = _in_other_mode(plan, request)
        try:
            answer = ask(request)
        except InvalidRequestError:
            raise error from None
    if request.split_mode is SplitMode.ROW_OFFSET and answer.record_count is None:
        request = _in_other_mode(plan, request)
        answer = ask(request)
    by_size = request.split_mode is SplitMode.SIZE
    if by_size and answer.splits_count > DEFAULT_SPLITS and _is_free(plan):
        larger = _split_bytes(plan) * math.ceil(answer.splits_count / DEFAULT_SPLITS)
        answer = ask(replace(request, split_number=larger))
    return answer


def _answered_by_1(plan: ReadPlan, request: CreateReadSession, ask: Ask) -> ReadSessionAnswer:
    """Create a session of version 1; if it refuses the predicate, create one without it."""
    request = replace(request, filter_fallback=False)  # version 1 has no such option
    try:
        return _answered(plan, request, ask)
    except InvalidRequestError:
        if not request.filter_predicate:
            raise
        return _answered(plan, replace(request, filter_predicate=""), ask)


def _in_other_mode(plan: ReadPlan, request: CreateReadSession) -> CreateReadSession:
    """Return the request with the other split mode: row ranges instead of sizes, or vice versa.

    BLOB tables support only ranges (vendor's manual). Tables with a primary key may support only
    sizes; the Java SDK uses sizes for such tables.
    """
    if request.split_mode is SplitMode.SIZE:
        return replace(request, split_mode=SplitMode.ROW_OFFSET, split_number=DEFAULT_SPLIT_ROWS)
    size = max(_split_bytes(plan), MIN_SPLIT_BYTES)
    return replace(request, split_mode=SplitMode.SIZE, split_number=size)


def reopen_storage_session(storage: StorageClient, plan: ReadPlan, session_id: str) -> ReadSession:
    """Refresh a plan's session, with the same rows and splits; raise if the session has expired."""
    old = session_id.startswith(OLD_PREFIX)
    request = GetReadSession(
        table=plan.table, session_id=session_id.removeprefix(OLD_PREFIX), refresh=True
    )
    columns = choose_columns(plan, partial(_ask, storage, tracker=None, cancel=None, old=old))
    answer = storage.call(OverVersion1(request) if old else request)
    answer = ready_session(storage, answer, plan.table)
    if plan.increment is None:
        require_columns(columns.wanted, columns.filter, answer.schema)
    return _session(plan, answer, columns, old=old)


def _split_bytes(plan: ReadPlan) -> int:
    return plan.split_bytes or DEFAULT_SPLIT_BYTES


def _split_options(plan: ReadPlan, *, prunes: bool) -> dict[str, Any]:
    if plan.increment is not None and plan.increment.split_mode is not None:
        return {"split_mode": plan.increment.split_mode}
    fine = plan.row_ranges or plan.splits is not None or _split_bytes(plan) < MIN_SPLIT_BYTES
    if fine or not prunes or increment_of(plan):
        return {"split_mode": SplitMode.ROW_OFFSET, "split_number": DEFAULT_SPLIT_ROWS}
    return {"split_mode": SplitMode.SIZE, "split_number": _split_bytes(plan)}


def _ask(
    storage: StorageClient,
    request: CreateReadSession,
    *,
    tracker: ProgressTracker | None,
    cancel: CancelToken | None,
    old: bool = False,
) -> ReadSessionAnswer:
    """Create a session and wait until it is ready to read."""
    if tracker is not None:
        tracker.phase(Phase.CREATING)
    attempts = storage.attempts(f"read session of {request.table}", tracker=tracker, cancel=cancel)
    while True:
        answer = _awaited(storage, request, attempts, old=old)
        try:
            return ready_session(storage, answer, request.table)
        except ServerFaultError as error:
            attempts.again(error, idempotent=True)


def _awaited(
    storage: StorageClient, request: CreateReadSession, attempts: Attempts, *, old: bool
) -> ReadSessionAnswer:
    tracker, cancel = attempts.tracker, attempts.cancel
    answer: ReadSessionAnswer = storage.call(
        OverVersion1(request) if old else request, tracker=tracker, cancel=cancel
    )
    waited, delay = 0.0, 0.1
    while answer.status is SessionStatus.INIT:
        if waited >= READY_TIMEOUT:
            raise RequestTimeoutError(
                f"the read session of {request.table} is not ready after {waited:.0f} s",
                hint="try again, or read fewer partitions",
            )
        attempts.pause(delay)
        waited, delay = waited + delay, min(5.0, delay * 1.5)
        token = answer.route_token
        again = GetReadSession(table=request.table, session_id=answer.session_id)
        answer = storage.call(OverVersion1(again) if old else again, tracker=tracker, cancel=cancel)
        answer = replace(answer, route_token=answer.route_token or token)
    return answer


def ready_session(
    storage: StorageClient, answer: ReadSessionAnswer, table: TableName
) -> ReadSessionAnswer:
    """Return the response if the session is ready to read; otherwise raise, with keys hidden."""
    try:
        return require_ready(answer, table)
    except ServiceError as error:
        storage.redact(error)
        raise


def require_ready(answer: ReadSessionAnswer, table: TableName) -> ReadSessionAnswer:
    """Return the response if the session is ready to read; otherwise raise."""
    if answer.status is SessionStatus.NORMAL:
        return answer
    reason = answer.message or "no reason given"
    kind: type[ServiceError] = ServiceError
    if answer.status is SessionStatus.EXPIRED:
        kind = SessionExpiredError
    elif is_storage_timeout(code_of_text(reason), reason):
        kind = ServerFaultError
    raise kind(
        f"the read session of {table} is {answer.status.value}: {reason}",
        code=answer.status.value,
        hint="read again; if this recurs, report the session id",
    )


def _session(
    plan: ReadPlan, answer: ReadSessionAnswer, columns: Columns, *, old: bool = False
) -> ReadSession:
    if plan.increment is not None:
        plan.increment.check_start(answer.latest_version)
    rows, size, row_filter = answer.record_count, answer.estimated_size, columns.filter
    by_rows = answer.split_mode is SplitMode.ROW_OFFSET and rows is not None
    if by_rows and rows and plan.limit is not None and not row_filter:
        size = None if size is None else size * min(rows, plan.limit) // rows
        rows = min(rows, plan.limit)
    if by_rows:
        splits: tuple[Split, ...] = split_ranges(plan, rows or 0, size)
    else:
        count = answer.splits_count
        if plan.increment is not None and answer.split_mode is SplitMode.BUCKET:
            count = len(answer.bucket_ids)
        splits = tuple(IndexSplit(n) for n in range(_within_limit(count)))
    schema = selected(answer.schema, columns.wanted)
    if plan.increment is not None:
        schema = plan.increment.shown(schema)
    as_bytes = plan.text.mode is TextMode.BINARY
    return ReadSession(
        table=plan.table,
        session_id=f"{OLD_PREFIX}{answer.session_id}" if old else answer.session_id,
        source=StorageRows(old=old),
        schema=text_as_binary(schema) if as_bytes else schema,
        splits=splits,
        row_count=sum(rows_of(split) or 0 for split in splits)
        if by_rows and not row_filter
        else None,
        expires_at=answer.expires_at,
        route_token=answer.route_token,
        estimated_size=size,
        latest_version=answer.latest_version,
        filter=row_filter,
        hidden=hidden_columns(answer.schema, schema, row_filter),
        stored_rows=rows if by_rows and row_filter else None,
        selects=bool(plan.columns),
        limit=plan.limit,
        columns=schema.names if plan.increment or len(schema) < len(answer.schema) else (),
        compression=plan.compression,
        timestamp_unit=unit_of(plan),
        max_batch_rows=plan.max_batch_rows,
        tells_changes=plan.increment is not None and plan.increment.changes,
        text=plan.text,
        sent=schema if as_bytes else None,
    )


def split_ranges(plan: ReadPlan, rows: int, size: int | None) -> tuple[RowRangeSplit, ...]:
    """Divide ``rows`` rows of ``size`` bytes (``None``: unknown) as the plan requires."""
    if plan.splits is not None:
        return plan_ranges(rows, _within_limit(min(rows, plan.splits)))
    by_rows = math.ceil(rows / DEFAULT_SPLIT_ROWS)
    split_count = math.ceil(size / _split_bytes(plan)) if size else by_rows
    if _is_free(plan):
        split_count = min(split_count, DEFAULT_SPLITS)
    return plan_ranges(rows, _within_limit(min(rows, split_count)))


def _is_free(plan: ReadPlan) -> bool:
    """Return whether the client may choose the number of splits."""
    return plan.splits is None and plan.split_bytes is None


def _within_limit(splits: int) -> int:
    if splits > MAX_SPLITS:
        raise ArgumentError(
            f"the read would have {splits:,} splits; the maximum is {MAX_SPLITS:,}",
            code="TooManySplits",
            hint="make the splits larger (split_bytes=), or read fewer partitions at a time",
        )
    return splits


def divided(session: ReadSession, splits: int) -> ReadSession:
    """Return the session with at least ``splits`` row ranges, if all its splits are row ranges."""
    ranges = [split for split in session.splits if isinstance(split, RowRangeSplit)]
    split_count = min(DEFAULT_SPLITS, splits)
    if split_count <= len(ranges) or len(ranges) < len(session.splits):
        return session
    return replace(session, splits=plan_ranges(sum(split.count for split in ranges), split_count))


def plan_ranges(rows: int, splits: int) -> tuple[RowRangeSplit, ...]:
    """Divide ``[0, rows)`` into at most ``splits`` ranges whose lengths differ by at most 1."""
    count = max(1, min(rows, splits)) if rows else 0
    bounds = [rows * n // count for n in range(count + 1)] if count else [0]
    return tuple(RowRangeSplit(low, high - low) for low, high in itertools.pairwise(bounds))
