"""Reads a session's rows: one split, or all splits (``docs/protocol.md`` sections 3.3, 4).

A broken split resumes at the next unread row. An expired session raises an error, because a new
session would have another snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice, starmap

import pyarrow as pa

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.parallel.fan_out import DEFAULT_MAX_BYTES, AdaptiveConcurrency, Job, fan_out
from odps_nb.client.read.increments import in_words, names_on_the_wire, on_the_wire
from odps_nb.client.read.keepalive import SessionKeeper
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.requests import openings
from odps_nb.client.read.resume import Batches, ResumableRowStream, TextForm, delivered, rows_of
from odps_nb.client.read.sizes import (
    DEFAULT_BATCH_BYTES,
    PieceRanges,
    batch_bound,
    batch_bytes,
    batch_rows,
    joined,
    piece_bytes,
    row_bytes,
    workers_for,
)
from odps_nb.schema import Column
from odps_nb.terms import RowRangeSplit, Split
from odps_nb.wire.calls import MAX_BATCH_ROWS, ReadRows


def iter_split(
    storage: StorageClient,
    session: ReadSession,
    split: Split,
    *,
    columns: tuple[str, ...] = (),
    skip_rows: int = 0,
    max_batch_rows: int | None = None,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
    keeper: SessionKeeper | None = None,
    concurrency: AdaptiveConcurrency | None = None,
    part_of: Split | None = None,
    tested: Callable[[int], None] | None = None,
) -> SplitRows:
    """Iterate over one split's batches; closing the iterator closes its connection.

    The iteration ends without an error only if the stream was complete. A complete stream has an
    end marker, a complete HTTP body and the expected number of rows, if that is known.

    Parameters
    ----------
    columns
        Session columns to return, in this order; empty for all of them.
    skip_rows
        Number of rows to skip at the start of the split.
    max_batch_bytes
        Maximum bytes of a batch, 0 for no limit; adjusted to the service's range of 1 to 256 MiB.
    keeper
        Object that refreshes the session of several splits in a separate thread; closed by the
        caller. Without a keeper, the split refreshes the session itself between two batches.
    part_of
        The session's split of which ``split`` is a part, for progress displays.
    tested
        Called with the number of rows of each received batch, before they are filtered.
    """
    shown = columns or session.columns or session.schema.names
    hidden = _hidden(session, shown)
    request = ReadRows(
        table=session.table,
        session_id=session.server_id,
        split=split,
        max_batch_rows=min(MAX_BATCH_ROWS, max_batch_rows or session.max_batch_rows),
        max_batch_raw_size=batch_bound(max_batch_bytes),
        data_columns=(*columns, *hidden) if columns else (),
        compression=session.compression,
    )
    promised = _promised(session, (*columns, *hidden) if columns else ())
    selected = (*shown, *hidden) if hidden else columns or session.columns
    shared = keeper is not None
    keeper = keeper or SessionKeeper(storage, session, tracker=tracker)
    rows = ResumableRowStream(
        storage,
        openings(session, split, request, partial(_kept_alive, keeper, cancel)),
        what=f"{split} of {session.table}",
        start=skip_rows,
        expected=None if session.prunes else rows_of(split),
        columns=on_the_wire(promised) if session.tells_changes else promised,
        select=names_on_the_wire(selected) if session.tells_changes else selected,
        label=str(part_of or split),
        part=part_of is not None and part_of != split,
        concurrency=concurrency,
        text=TextForm(
            session.text.mode,
            tuple(session.schema),
            partial(_place, session, split),
            stripped=() if session.text.char_padding else tuple(session.columns_sent),
        ),
        unit=session.timestamp_unit,
        tracker=tracker,
        cancel=cancel,
    )
    look_after = keeper.keep_aside if shared else partial(keeper.keep, cancel)
    return SplitRows(rows, look_after, session, len(shown), tested)


def _kept_alive(keeper: SessionKeeper, cancel: CancelToken | None) -> str | None:
    keeper.keep(cancel)
    return keeper.route_token


def _place(session: ReadSession, split: Split, row: int) -> tuple[str, int]:
    """Return a row's position as text and number: in the session if known, else in the split."""
    if isinstance(split, RowRangeSplit) and not session.prunes:
        return f"row {split.offset + row} of {session.table}", split.offset + row
    return f"row {row} of {split} of {session.table}", row


def _promised(session: ReadSession, columns: tuple[str, ...]) -> list[Column]:
    all_of_them = [*session.columns_sent, *session.hidden]
    if not columns:
        return all_of_them
    folded = [name.casefold() for name in columns]
    return [column for column in all_of_them if column.name.casefold() in folded]


def _hidden(session: ReadSession, shown: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are needed only by the filter, not by the result."""
    if session.filter is None:
        return ()
    folded = {name.casefold() for name in shown}
    return tuple(name for name in session.filter.columns if name.casefold() not in folded)


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
    join: bool = False,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> Iterator[pa.RecordBatch]:
    """Iterate over the batches of all splits, which are read concurrently.

    Parameters
    ----------
    limit
        Maximum number of rows. Default: the session's limit.
    ordered
        Whether to return batches in split order instead of as they arrive.
    workers
        Number of splits to read concurrently. Default: 16, or 8 if ``read_ahead`` is below 64 MiB.
    read_ahead
        Maximum bytes of batches to buffer ahead of the consumer. Default: 256 MiB.
    max_bytes
        Maximum total bytes of all batches; exceeding it raises an error.
    join
        Whether adjacent row ranges may be read with one request, if the service is on this machine.
    """
    limit = session.limit if limit is None else limit
    if tracker is not None:
        tracker.phase(Phase.READING)
    ahead = DEFAULT_MAX_BYTES if read_ahead is None else read_ahead
    ahead = ahead if max_bytes is None else min(ahead, max_bytes)
    cancel = storage.operation(cancel)
    keeper = SessionKeeper(storage, session, tracker=tracker, cancel=cancel)
    splits = session.splits
    if workers is None and storage.is_here:
        # One connection to a service on this machine keeps a processor busy; more connections would
        # only add requests and threads.
        workers = 1
        if join:
            splits = joined(splits)
            if tracker is not None:
                tracker.plan_splits({str(split): rows_of(split) for split in splits})
    readers = workers_for(workers, ahead)
    pieces = PieceRanges(splits, size=piece_bytes(ahead, readers), row_bytes=row_bytes(session))
    concurrency = AdaptiveConcurrency(
        len(list(islice(pieces, readers))),
        tell=lambda line: tracker.noted(f"splits: {line}") if tracker is not None else None,
    )

    def job(split: Split, piece: Split) -> Job[pa.RecordBatch]:
        return lambda token: iter_split(
            storage,
            session,
            piece,
            columns=columns,
            max_batch_bytes=batch_bytes(ahead, concurrency.most),
            max_batch_rows=batch_rows(session, ahead, concurrency.most),
            tracker=tracker,
            cancel=token,
            keeper=keeper,
            concurrency=concurrency,
            part_of=split,
        )

    batches = fan_out(
        starmap(job, pieces),
        size=pieces.record,
        workers=workers,
        max_bytes=ahead // 2,
        total_bytes=max_bytes,
        ordered=ordered,
        concurrency=concurrency,
        cancel=cancel,
    )
    rows = delivered(
        batches,
        tracker,
        what=str(session.table),
        rows=session.row_count,
        limit=limit,
        max_bytes=max_bytes,
    )
    return _kept(rows, keeper)


def _kept(batches: Batches, keeper: SessionKeeper) -> Batches:
    with closing(keeper), closing(batches):
        yield from batches


class SplitRows:
    """Iterator over a split's batches that refreshes the session at each batch and during waits."""

    def __init__(
        self,
        rows: ResumableRowStream,
        look_after: Callable[[], None],
        session: ReadSession,
        columns: int,
        tested: Callable[[int], None] | None,
    ) -> None:
        self._rows, self._look_after, self._tested = rows, look_after, tested
        self._filter, self._columns = session.filter, columns
        self._shape = in_words if session.tells_changes else None
        self._batches = rows.batches(fits=False)
        self._begun = False
        self.row: int = 0
        """Row of the split, before filtering, at which the last batch began."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            while True:
                if self._begun:  # the first batch opens a stream, which refreshes the session
                    self._look_after()
                self._begun = True
                batch = next(self._batches)
                self.row = self._rows.row - batch.num_rows
                if self._tested is not None:
                    self._tested(batch.num_rows)
                batch = self._fitted(batch)
                if batch.num_rows:
                    return batch if self._shape is None else self._shape(batch)
        except BaseException:
            self.close()
            raise

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass the filter; invalid text in dropped rows raises no error.

        The service skips only whole blocks of rows, so every row is tested here.
        """
        row_filter = self._filter
        if row_filter is None:
            return self._rows.fit(batch)
        matches = row_filter.apply(batch, self._columns)
        self._rows.uncount(batch.num_rows - matches.num_rows)
        return self._rows.fit(matches, lambda row: row_filter.rows(batch)[row])

    def rest(self) -> None:
        """Keep the session alive; close the connection if the service is throttling others."""
        self._look_after()
        self._rows.rest()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._batches.close()


# -- rows from a start position ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Position of a batch: the index of its split, and the number of its first row in the split.

    Rows are numbered before filtering, as the service counts them when a broken stream resumes
    (``docs/protocol.md`` section 3.3).
    """

    split: int = 0
    row: int = 0


START = RowPlace()
Placed = tuple[RowPlace, pa.RecordBatch]


def iter_placed(
    storage: StorageClient,
    session: ReadSession,
    begin: RowPlace = START,
    *,
    workers: int,
    read_ahead: int,
    cancel: CancelToken | None = None,
    tested: Callable[[int], None] | None = None,
) -> Generator[Placed, None, None]:
    """Iterate over all rows, starting at a position, as batches with their positions.

    Rows before this position are not read, and the session's limit is ignored. ``tested`` is as for
    `iter_split`; several threads call it.
    """
    cancel = storage.operation(cancel)
    keeper = SessionKeeper(storage, session, tracker=None, cancel=cancel)
    concurrency = AdaptiveConcurrency(min(workers, len(session.splits) - begin.split))

    def job(number: int) -> Job[Placed]:
        def rows(token: CancelToken) -> Iterator[Placed]:
            split = iter_split(
                storage,
                session,
                session.splits[number],
                skip_rows=begin.row if number == begin.split else 0,
                max_batch_bytes=batch_bytes(read_ahead, concurrency.most),
                max_batch_rows=batch_rows(session, read_ahead, concurrency.most),
                cancel=token,
                keeper=keeper,
                concurrency=concurrency,
                tested=tested,
            )
            return _PlacedRows(split, number)

        return rows

    batches = fan_out(
        (job(number) for number in range(begin.split, len(session.splits))),
        size=lambda placed: int(placed[1].nbytes),
        max_bytes=read_ahead // 2,
        concurrency=concurrency,
        cancel=cancel,
    )
    with closing(keeper), closing(batches):
        yield from batches


class _PlacedRows:
    """A split's batches with their positions; `rest` and `close` are forwarded to the split."""

    def __init__(self, rows: SplitRows, split: int) -> None:
        self._rows, self._split = rows, split

    def __iter__(self) -> Iterator[Placed]:
        return self

    def __next__(self) -> Placed:
        batch = next(self._rows)
        return RowPlace(self._split, self._rows.row), batch

    def rest(self) -> None:
        """Do the split's periodic work while a batch waits to be consumed."""
        self._rows.rest()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._rows.close()
