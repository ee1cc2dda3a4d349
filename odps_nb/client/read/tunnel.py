"""Reads a table by download sessions of the tunnel (``docs/protocol.md`` section 9.4).

A download session is a snapshot of one partition, so a read of several partitions opens one session
for each, in quick succession: the later ones may include rows that were written in the meantime.
The service keeps a session for 24 hours, and allows 200 sessions per table in five minutes
(vendor's page *Overview of DTS*); if this limit is exceeded, the client waits and retries.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import (
    fetch_primary_key,
    fetch_table,
    iter_partitions,
    suggest_partitions,
    suggest_tables,
)
from odps_nb.client.parallel.fan_out import Job, fan_out
from odps_nb.client.read.columns import (
    Columns,
    choose_columns,
    hidden_columns,
    selected,
    unit_of,
)
from odps_nb.client.read.needs_query import NeedsQuery, check_readable, require_no_query
from odps_nb.client.read.plan import READY_TIMEOUT, ReadPlan, ReadSession
from odps_nb.client.read.requests import Download, Downloads, constants_of
from odps_nb.client.read.sizes import width_of
from odps_nb.client.read.stream_schema import mismatch
from odps_nb.client.transfer import SWITCH_ON
from odps_nb.errors import (
    ArgumentError,
    InvalidRequestError,
    NoStorageApiError,
    NotFoundError,
    RequestTimeoutError,
    ServiceError,
    SessionExpiredError,
)
from odps_nb.filters.row_filter import RowFilter, conditions_on, fixed_partitions
from odps_nb.schema import TableSchema, has_blob, text_as_binary
from odps_nb.terms import PartitionSpec, SessionStatus, TableName, TextMode
from odps_nb.wire.tunnel.calls import DownloadAnswer, GetDownload, OpenDownload, ResultOf, TableOf

PREFIX = "tunnel:"
"""Prefix of the session ids of reads by the tunnel."""
OPENERS = 8
"""Number of download sessions to open concurrently."""
_FIRST_POLL, _LAST_POLL = 0.1, 5.0


def open_downloads(
    storage: StorageClient,
    plan: ReadPlan,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> ReadSession:
    """Open one download session for each partition to read, and divide their rows into splits.

    Partitions that the condition excludes are not opened. With a limit and no condition, sessions
    are opened only until they have enough rows.
    """
    if tracker is not None:
        tracker.phase(Phase.CREATING)
    schema = plan.schema
    if schema is None:
        info = fetch_table(storage, plan.table)
        check_readable(plan, info, json=False)
        schema = info.schema
    plan = replace(plan, schema=schema)
    why = None
    if plan.far_times:
        why = "has times that do not fit into nanoseconds, which the tunnel sends"
    elif fetch_primary_key(storage, plan.table):  # pyodps: Table.open_reader
        why = "has a primary key, and the tunnel may send outdated rows of such a table"
    if why is not None:
        raise NeedsQuery(fetch_table(storage, plan.table), f"{plan.table} {why}")
    columns = choose_columns(plan)
    specs = _addressable(storage, plan, _partitions(storage, plan, schema, columns.filter))
    open_one = partial(open_download, storage, tracker=tracker, cancel=cancel)
    try:
        answers = _open_each(
            [TableOf(plan.table, spec) for spec in specs],
            open_one,
            rows=plan.limit if columns.filter is None else None,
            cancel=storage.operation(cancel),
        )
    except NotFoundError as error:
        suggest_tables(storage, plan.table, error)
        suggest_partitions(storage, plan.table, plan.partitions, error)
        raise
    except InvalidRequestError as error:
        require_no_query(storage, plan, error)
        raise
    return _session(plan, schema, columns, answers)


def reopen_downloads(storage: StorageClient, plan: ReadPlan, session_id: str) -> ReadSession:
    """Return a plan's session with the same download sessions; raise if one has expired."""
    schema = plan.schema or fetch_table(storage, plan.table).schema
    plan = replace(plan, schema=schema)
    columns = choose_columns(plan)
    ids = session_id.removeprefix(PREFIX).split(",") if session_id != PREFIX else []
    wanted = {mark: download_id for download_id, _, mark in (one.partition("@") for one in ids)}
    found = ((_mark(spec), spec) for spec in _partitions(storage, plan, schema, columns.filter))
    specs = dict(itertools.islice((pair for pair in found if pair[0] in wanted), len(wanted)))
    if len(specs) < len(ids):
        raise SessionExpiredError(
            f"the session does not exist for this read, which selects {len(specs)} of its "
            f"{len(ids)} partitions",
            hint="read again for a new snapshot, with the same partitions and condition",
        )
    targets = {
        download_id: TableOf(plan.table, specs[mark]) for mark, download_id in wanted.items()
    }
    answers = [
        (of, _usable(of, storage.call(GetDownload(of=of, download_id=download_id))))
        for download_id, of in targets.items()
    ]
    return _session(plan, schema, columns, answers)


def _mark(spec: PartitionSpec) -> str:
    """Return a short name of a partition for session ids; ``""`` without partition columns."""
    values = "\0".join(value for _, value in spec.items)
    return hashlib.sha256(values.encode()).hexdigest()[:12] if spec.items else ""


def _addressable(
    storage: StorageClient, plan: ReadPlan, specs: Iterable[PartitionSpec]
) -> Iterator[PartitionSpec]:
    """Yield the specs unchanged; raise `NeedsQuery` for a spec that a request cannot express."""
    for spec in specs:
        try:
            yield spec.checked()
        except ArgumentError as error:
            raise NeedsQuery(
                fetch_table(storage, plan.table),
                f"{plan.table} has a partition that the tunnel cannot address ({error.message})",
            ) from error


# -- partitions -----------------------------------------------------------------------------------


def _partitions(
    storage: StorageClient, plan: ReadPlan, schema: TableSchema, row_filter: RowFilter | None
) -> Iterator[PartitionSpec]:
    """Yield the partitions to read; one empty spec for a table without partitions."""
    keys = schema.partition_columns
    if not keys:
        yield PartitionSpec()
        return
    test = None if row_filter is None else _test(row_filter, schema)
    seen: set[PartitionSpec] = set()
    named = bool(plan.partitions)
    conditions = () if row_filter is None else (row_filter.condition,)
    for partial_spec in plan.partitions or fixed_partitions(conditions, keys):
        empty = named
        whole = named and len(partial_spec) == len(keys)
        listed = iter_partitions(storage, plan.table, partial_spec)
        for spec in [partial_spec] if whole else (info.spec for info in listed):
            empty = False
            if spec not in seen and (test is None or test(spec)):
                seen.add(spec)
                yield spec
        if empty:
            raise NotFoundError(
                f"no partition of {plan.table} matches {partial_spec}",
                code="NoSuchPartition",
                hint="check the partition; table.partitions() lists those that exist",
            )


def _test(row_filter: RowFilter, schema: TableSchema) -> Callable[[PartitionSpec], bool] | None:
    """Return whether rows of a partition can satisfy the condition; ``None``: always."""
    part = conditions_on(row_filter, schema.partition_columns)
    if part is None:
        return None

    def test(spec: PartitionSpec) -> bool:
        values = constants_of(spec, schema.partition_columns)
        row = pa.record_batch(
            {field.name: pa.array([value], value.type) for field, value in values}
        )
        return bool(part.apply(row).num_rows)

    return test


# -- sessions -------------------------------------------------------------------------------------

Opened = tuple[TableOf, DownloadAnswer]


def _open_each(
    targets: Sequence[TableOf],
    open_one: Callable[[TableOf], DownloadAnswer],
    *,
    rows: int | None,
    cancel: CancelToken,
) -> list[Opened]:
    """Open sessions concurrently, in order, until they have ``rows`` rows (``None``: open all)."""

    def job(of: TableOf) -> Job[Opened]:
        return lambda _token: iter([(of, open_one(of))])

    done: list[Opened] = []
    step = len(targets) if rows is None else OPENERS
    for start in range(0, len(targets), max(1, step)):
        jobs = map(job, targets[start : start + step])
        done += fan_out(jobs, size=lambda _: 0, workers=OPENERS, ordered=True, cancel=cancel)
        if rows is not None and sum(answer.record_count for _, answer in done) >= rows:
            break
    return done


def open_download(
    storage: StorageClient,
    of: TableOf | ResultOf,
    *,
    limited: bool = False,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> DownloadAnswer:
    """Open a download session and wait until it is ready."""
    request = OpenDownload(of=of, limited=limited)
    answer = storage.call(request, tracker=tracker, cancel=cancel, patient=True)
    cancel, waited, delay = cancel or CancelToken(), 0.0, _FIRST_POLL
    while answer.status is SessionStatus.INIT:
        if waited >= READY_TIMEOUT:
            raise RequestTimeoutError(
                f"the download session of {of} is not ready after {waited:.0f} s",
                hint="try again, or read fewer partitions",
            )
        if cancel.wait(delay):
            cancel.check()
        waited, delay = waited + delay, min(_LAST_POLL, delay * 1.5)
        again = GetDownload(of=of, download_id=answer.download_id)
        answer = storage.call(again, tracker=tracker, cancel=cancel)
    return _usable(of, answer)


def _usable(of: TableOf | ResultOf, answer: DownloadAnswer) -> DownloadAnswer:
    """Return the response if its session is ready; otherwise raise."""
    status = answer.status
    if status is SessionStatus.NORMAL:
        return answer
    expired = status is SessionStatus.EXPIRED
    state = status.value if isinstance(status, SessionStatus) else status
    raise (SessionExpiredError if expired else ServiceError)(
        f"the download session of {of} is {state}",
        code=state,
        hint="read again; if this recurs, report the session id " + answer.download_id,
    )


def _session(
    plan: ReadPlan, schema: TableSchema, columns: Columns, answers: Sequence[Opened]
) -> ReadSession:
    from odps_nb.client.read.session import split_ranges

    row_filter = columns.filter
    if not plan.columns and answers:  # columns may have been added after the schema was fetched
        schema = replace(schema, columns=answers[0][1].schema.columns)
    shown = selected(schema, columns.wanted)
    hidden = hidden_columns(schema, shown, row_filter)
    refuse_blobs(plan.table, shown)
    needed = {column.name.casefold() for column in (*shown, *hidden)}
    parts, first = [], 0
    for of, answer in answers:
        if answer.record_count:  # a request for no rows is refused
            parts.append(
                Download(
                    of=of, download_id=answer.download_id, first=first, rows=answer.record_count
                )
            )
        first += answer.record_count
    reported = answers[0][1].schema.columns if answers else schema.columns
    for of, answer in answers:
        if [(c.name, c.type) for c in answer.schema.columns] != [
            (c.name, c.type) for c in reported
        ]:
            raise mismatch(
                f"the columns of {of} differ from those of {answers[0][0]}",
                hint="read again; the table was altered in the meantime",
            )
    sent = [column for column in reported if column.name.casefold() in needed] or list(reported[:1])
    rows = first
    if plan.limit is not None and row_filter is None:
        rows = min(rows, plan.limit)
    ids = [(answer.download_id, _mark(of.partition)) for of, answer in answers]
    as_bytes = plan.text.mode is TextMode.BINARY
    return ReadSession(
        table=plan.table,
        session_id=PREFIX + ",".join("@".join(filter(None, one)) for one in ids),
        schema=text_as_binary(shown) if as_bytes else shown,
        splits=split_ranges(plan, rows, rows * width_of(sent)),
        row_count=rows if row_filter is None else None,
        estimated_size=rows * width_of(sent),
        stored_rows=None if row_filter is None else rows,
        filter=row_filter,
        hidden=hidden,
        selects=bool(plan.columns),
        limit=plan.limit,
        columns=shown.names if len(shown) < len(schema) else (),
        compression=plan.compression,
        timestamp_unit=unit_of(plan),
        max_batch_rows=plan.max_batch_rows,
        text=plan.text,
        sent=shown if as_bytes else None,
        source=Downloads(
            parts=tuple(parts),
            columns=tuple(sent),
            all_columns=len(sent) == len(reported),
            keys=tuple(c for c in schema.partition_columns if c.name.casefold() in needed),
            compression=plan.compression,
        ),
    )


def refuse_blobs(table: TableName, schema: TableSchema) -> None:
    """Raise if a read selects BLOB columns, whose references only the Storage API returns."""
    blobs = [column.name for column in schema if has_blob(column.type)]
    if blobs:
        raise NoStorageApiError(
            f"reading the BLOB column {blobs[0]!r} of {table} needs the Storage API, which this "
            "account or connection does not use",
            code="NoStorageApi",
            hint=f"select other columns with columns=[…], or {SWITCH_ON}",
        )
