"""Rows of a read session: one split, or all of them side by side (floor 3).

A split that breaks goes on at the exact row; a session that is over is an error, since another
one would be another snapshot. See ``protocol.md`` sections 3.3 and 4.
Must not know: pandas, what the batches become, who watches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from odps_nb.client.cancel import CancelToken
from odps_nb.client.cursor import RowCursor, rows_of
from odps_nb.client.pace import Pace
from odps_nb.client.parallel import DEFAULT_MAX_BYTES, DEFAULT_WORKERS, fan_out
from odps_nb.client.progress import Phase, ProgressTracker
from odps_nb.client.read_session import (
    ReadPlan,
    ReadSession,
    open_read_session,
    plan_ranges,
    reopen_read_session,
)
from odps_nb.client.session_keeper import SessionKeeper
from odps_nb.client.storage import StorageClient
from odps_nb.errors import LimitExceededError, TruncatedError
from odps_nb.terms import Compression, RowRangeSplit, Split, format_bytes
from odps_nb.wire.calls import ReadRows

__all__ = [
    "ReadPlan",
    "ReadSession",
    "count_rows",
    "iter_batches",
    "iter_split",
    "open_read_session",
    "plan_ranges",
    "reopen_read_session",
]

DEFAULT_BATCH_BYTES = 16 * 2**20
MIN_BATCH_BYTES = 64 * 2**10


def iter_split(
    storage: StorageClient,
    session: ReadSession,
    split: Split,
    *,
    columns: tuple[str, ...] = (),
    compression: Compression | None = None,
    skip_rows: int = 0,
    max_batch_rows: int | None = None,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
    keeper: SessionKeeper | None = None,
    pace: Pace | None = None,
) -> Iterator[pa.RecordBatch]:
    """Iterate over the batches of one split; closing the iterator closes its connection.

    What breaks on the way is read on from the exact row. The end of the iteration means that
    the stream was whole: end marker, end of the HTTP body, and the number of rows if known.

    Parameters
    ----------
    columns
        A selection of the session's columns, in the order wanted; empty for all of them.
    compression, max_batch_rows
        ``None``: what the plan said.
    skip_rows
        Rows at the start of the split to leave out.
    max_batch_bytes
        Upper bound of a batch that the service is asked for.
    keeper
        Keeps the session alive for several splits; without one, the split has its own.
    pace
        Shared with those who read other splits, so that they make way for each other.

    Raises
    ------
    SessionExpiredError
        The snapshot is gone; rows of another one are never mixed in.
    TruncatedError
        Rows are missing at the end, however often it was tried.
    """
    request = ReadRows(
        table=session.table,
        session_id=session.session_id,
        split=split,
        max_batch_rows=max_batch_rows or session.max_batch_rows,
        max_batch_raw_size=max_batch_bytes,
        data_columns=columns,
        compression=session.compression if compression is None else compression,
    )
    keeper = keeper or SessionKeeper(storage, session, tracker=tracker)
    cursor = RowCursor(
        storage,
        partial(_read_from, request, keeper, cancel),
        what=f"{split} of {session.table}",
        start=skip_rows,
        expected=rows_of(split),
        select=columns or session.columns,
        label=str(split),
        pace=pace,
        tracker=tracker,
        cancel=cancel,
    )
    return _kept(cursor.batches(), keeper, cancel)


def _read_from(
    request: ReadRows, keeper: SessionKeeper, cancel: CancelToken | None, row: int
) -> ReadRows:
    keeper.keep(cancel)
    request, split = replace(request, route_token=keeper.route_token), request.split
    if isinstance(split, RowRangeSplit):
        return replace(request, split=RowRangeSplit(split.offset + row, split.count - row))
    return replace(request, skip_rows=row)


def _kept(
    batches: Generator[pa.RecordBatch, None, None],
    keeper: SessionKeeper,
    cancel: CancelToken | None,
) -> Iterator[pa.RecordBatch]:
    """Look after the session at every batch: a long split outlives what was left of it."""
    try:
        for batch in batches:
            yield batch
            keeper.keep(cancel)
    finally:
        batches.close()


def iter_batches(
    storage: StorageClient,
    session: ReadSession,
    *,
    limit: int | None = None,
    ordered: bool = True,
    workers: int | None = None,
    read_ahead: int | None = None,
    max_bytes: int | None = None,
    columns: tuple[str, ...] = (),
    compression: Compression | None = None,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> Iterator[pa.RecordBatch]:
    """Iterate over the batches of all splits, read side by side.

    Parameters
    ----------
    limit
        Rows wanted at most; the session's own limit if ``None``. Reaching it closes all
        connections.
    ordered
        Whether batches come in the order of the splits, or as they arrive.
    workers
        Splits read at a time.
    read_ahead
        Bytes of batches that may be here before the consumer takes them; 256 MiB by default.
    max_bytes
        Bytes of batches wanted at most, all together; no more of them is read ahead.

    Raises
    ------
    LimitExceededError
        The next batch would make it more than ``max_bytes``; the read is over by then.
    CancelledError
        ``cancel`` was cancelled; connections are closed and threads are joined by then.
    """
    limit = session.limit if limit is None else limit
    if tracker is not None:
        tracker.phase(Phase.READING)
    ahead = DEFAULT_MAX_BYTES if read_ahead is None else read_ahead
    ahead = ahead if max_bytes is None else min(ahead, max_bytes)
    lanes = min(len(session.splits), workers or DEFAULT_WORKERS)
    keeper, pace = SessionKeeper(storage, session, tracker=tracker), Pace(lanes)

    def job(split: Split) -> Callable[[CancelToken], Iterator[pa.RecordBatch]]:
        return lambda token: iter_split(
            storage,
            session,
            split,
            columns=columns,
            compression=compression,
            max_batch_bytes=_batch_bytes(ahead, lanes),
            tracker=tracker,
            cancel=token,
            keeper=keeper,
            pace=pace,
        )

    batches = fan_out(
        [job(split) for split in session.splits],
        size=lambda batch: int(batch.nbytes),
        workers=workers,
        max_bytes=ahead // 2,
        total_bytes=max_bytes,
        ordered=ordered,
        pace=pace,
        cancel=cancel,
    )
    rows = _complete(batches, session) if limit is None else _limited(batches, limit)
    return rows if max_bytes is None else _within(rows, max_bytes)


def _batch_bytes(ahead: int, lanes: int) -> int:
    """Half of what is here may be finished batches, half one batch in the hands of each worker."""
    return min(DEFAULT_BATCH_BYTES, max(MIN_BATCH_BYTES, ahead // (2 * max(1, lanes))))


def _complete(
    batches: Generator[pa.RecordBatch, None, None], session: ReadSession
) -> Generator[pa.RecordBatch, None, None]:
    rows = 0
    try:
        for batch in batches:
            rows += batch.num_rows
            yield batch
    finally:
        batches.close()
    if session.row_count is not None and rows != session.row_count:
        raise TruncatedError(
            f"{rows} rows of {session.table} arrived, but its snapshot has {session.row_count}",
            expected=session.row_count,
            actual=rows,
        )


def _limited(
    batches: Generator[pa.RecordBatch, None, None], limit: int
) -> Generator[pa.RecordBatch, None, None]:
    left = limit
    try:
        while left > 0 and (batch := next(batches, None)) is not None:
            yield batch if batch.num_rows <= left else batch.slice(0, left)
            left -= batch.num_rows
    finally:
        batches.close()


def _within(
    batches: Generator[pa.RecordBatch, None, None], max_bytes: int
) -> Iterator[pa.RecordBatch]:
    total = 0
    try:
        for batch in batches:
            total += batch.nbytes
            if total > max_bytes:
                raise LimitExceededError(
                    f"the rows need more than {format_bytes(max_bytes)}",
                    limit=max_bytes,
                    actual=total,
                    hint="take fewer columns, partitions or rows, or allow more with max_bytes",
                )
            yield batch
    finally:
        batches.close()


def count_rows(
    storage: StorageClient,
    plan: ReadPlan,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> int:
    """Count the rows that a plan reads: from the session if it says, else by reading them.

    Without a filter this costs one request and no rows.
    """
    session = open_read_session(storage, plan, tracker=tracker, cancel=cancel)
    if session.row_count is not None:
        return session.row_count
    with_rows = iter_batches(storage, session, ordered=False, tracker=tracker, cancel=cancel)
    return sum(batch.num_rows for batch in with_rows)
