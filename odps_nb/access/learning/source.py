"""`RowSource`: reads rows of a session in epoch order, window by window, in any process."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.engines.split_task import SessionTask, settings_of
from odps_nb.client.read.splits import iter_batches
from odps_nb.convert.arrow_schema import require_arrow_types
from odps_nb.errors import ArgumentError, NotFoundError, SessionExpiredError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.terms import RowRangeSplit

if TYPE_CHECKING:
    from odps_nb.access.learning.order import EpochOrder
    from odps_nb.access.scan import Scan
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.plan import ReadPlan

WORKERS = 4
"""Number of chunks that each process reads concurrently."""
GROUP = 1024
"""Number of chunks read with the same connections and threads."""


@dataclass(frozen=True, kw_only=True)
class RowSource(SessionTask):
    """Reads rows of a session by number, in any process; a pickle contains no access keys.

    ``filter`` is applied by the client, so row numbers do not depend on it. ``read_ahead`` is the
    maximum number of bytes to buffer. Without ``partitions``, the session covers the whole table.
    """

    read_ahead: int
    partitions: tuple[str, ...] = ()
    filter: RowFilter | None = None
    scan: Scan | None = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> int:
        """Number of rows in the session, before the filter is applied."""
        return self.session.row_count or 0

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "scan": None}

    def windows(
        self, storage: StorageClient, order: EpochOrder, *, epoch: int, low: int, high: int, at: int
    ) -> Generator[tuple[int, pa.Table], None, None]:
        """Yield the position and rows of each window in ``[low, high)``, starting at row ``at``."""
        begin = low + (at - low) // order.window_rows * order.window_rows
        chunks = order.chunks(epoch=epoch, low=begin, high=high)
        with closing(self._arriving(storage, chunks)) as batches:
            for start, pieces in _cut(batches, begin, high, order.window_rows):
                table = self._shuffled(pieces, order, epoch=epoch, at=start)
                pieces.clear()  # free the unshuffled rows
                yield start, table

    def _shuffled(
        self, pieces: list[pa.RecordBatch], order: EpochOrder, *, epoch: int, at: int
    ) -> pa.Table:
        if self.filter is not None:
            pieces = [self.filter.apply(piece) for piece in pieces]
        shown = [self.shown(piece) for piece in pieces if piece.num_rows]
        table = pa.Table.from_batches(shown, self.schema)
        if not (order.shuffle and table.num_rows):
            return table
        positions = order.permutation(epoch=epoch, at=at, count=table.num_rows)
        return table.combine_chunks().take(pa.array(positions))

    def _arriving(
        self, storage: StorageClient, chunks: Iterator[RowRangeSplit]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Iterate over the chunks' rows in order, reading several chunks at a time."""
        while group := tuple(islice(chunks, GROUP)):
            count = sum(chunk.count for chunk in group)
            part = replace(self.session, splits=group, row_count=count, estimated_size=None)
            batches: Any = iter_batches(storage, part, workers=WORKERS, read_ahead=self.read_ahead)
            with closing(batches):
                yield from batches


def _cut(
    batches: Iterator[pa.RecordBatch], begin: int, high: int, size: int
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Combine batches into windows of ``size`` rows; the last may have fewer."""
    pieces: list[pa.RecordBatch] = []
    left = min(size, high - begin)
    for batch in batches:
        while batch.num_rows:
            piece = batch.slice(0, left)
            batch = batch.slice(piece.num_rows)
            pieces.append(piece)
            left -= piece.num_rows
            if not left:
                yield begin, pieces
                begin = min(begin + size, high)
                pieces, left = [], min(size, high - begin)


def open_source(scan: Scan, *, read_ahead: int, session_id: str | None = None) -> RowSource:
    """Open a session for reading by row number; reuse ``session_id`` unless it has expired."""
    plan, row_filter = _without_condition(scan)
    numbered = _numbered(scan, plan, session_id)
    session, storage = numbered._opened(), scan.connection._storage
    if session.row_count is None:
        raise ArgumentError(
            f"the service provides no row numbers for {session.table}",
            hint="write the rows to another table, e.g. with odps.sql, and read that",
        )
    require_arrow_types(numbered.schema, "a read for learning")
    names = scan._plan.columns or numbered.arrow_schema.names
    return RowSource(
        settings=settings_of(scan, storage),
        session=replace(session, splits=()),
        schema=pa.schema([numbered.arrow_schema.field(name) for name in names]),
        connected=lambda: scan.connection._storage,
        read_ahead=read_ahead,
        partitions=tuple(map(str, plan.partitions)),
        filter=row_filter,
        scan=scan,
    )


def _without_condition(scan: Scan) -> tuple[ReadPlan, RowFilter | None]:
    plan = scan._plan
    if plan.increment is not None:
        raise ArgumentError(
            "changes cannot be shuffled, because they have no row numbers",
            argument="changes",
            hint="omit since=, until= and changes=",
        )
    if not plan.where:
        return plan, None
    row_filter = RowFilter.parse(plan.where, scan._all_columns(), timezone=plan.timezone)
    columns = plan.columns
    if columns:
        has = {name.casefold() for name in columns}
        columns = (*columns, *(name for name in row_filter.columns if name.casefold() not in has))
    return replace(plan, where=None, columns=columns), row_filter


def _numbered(scan: Scan, plan: ReadPlan, session_id: str | None) -> Scan:
    """Return a scan without a condition; it uses session ``session_id`` unless that has expired."""
    if session_id is None and plan is scan._plan:
        return scan
    numbered = scan._replanned(plan, session_id)
    with contextlib.suppress(SessionExpiredError, NotFoundError):
        numbered._opened()
        return numbered
    return scan._replanned(plan)
