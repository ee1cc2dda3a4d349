"""Rows of a read or of a result by their numbers, or of a condition by their places.

An explorer turns pages with it: one request for a page. The session of the read is opened once;
it is refreshed before it expires, as in every read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.reading.arriving import in_reach
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress
from odps_nb.client.read.splits import START, Placed, RowPlace, iter_placed, iter_split
from odps_nb.client.sql.result import iter_result_rows as iter_rows
from odps_nb.convert.references import present_batch
from odps_nb.schema import Column
from odps_nb.terms import RowRangeSplit
from odps_nb.wire.calls import MIN_BATCH_BYTES

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.scan import Scan
    from odps_nb.access.sql import Result

__all__ = [
    "MAX_SORTED",
    "READ_AHEAD",
    "START",
    "Placed",
    "RowPlace",
    "Rows",
    "iter_found_rows",
    "iter_result_rows",
    "iter_scan_rows",
]

Batches = Generator[pa.RecordBatch, None, None]


def iter_scan_rows(
    scan: Scan,
    start: int,
    rows: int,
    *,
    cancel: CancelToken | None = None,
) -> Batches:
    """Iterate over rows of a read by number; ``scan.row_count`` must be known.

    Parameters
    ----------
    start, rows
        Beyond the end there are none.

    Raises
    ------
    SessionExpiredError
        The snapshot is gone; a new read has another one.
    """
    token = scan.connection.storage.operation(cancel)
    return scan._in_reach(lambda: _numbered(scan, start, rows, token), None, token)


def _numbered(scan: Scan, start: int, rows: int, token: CancelToken) -> Batches:
    session, total = scan.session, scan.row_count or 0
    wanted = list(scan.plan.columns)
    part = RowRangeSplit(start, max(0, min(rows, total - start)))
    if not part.count:
        return
    batches = iter_split(
        scan.connection.storage, session, part, max_batch_bytes=MIN_BATCH_BYTES, cancel=token
    )
    with closing(batches):
        for batch in batches:
            shown = present_batch(batch, session.schema, timezone=scan.profile.timezone)
            yield shown.select(wanted) if wanted else shown


def iter_found_rows(
    scan: Scan, begin: RowPlace = START, *, workers: int, read_ahead: int
) -> Generator[Placed, None, None]:
    """Iterate over the rows of a read from a place on, each batch with its place.

    A read with a limit gives all its rows as one place: it begins at its first row only.

    Raises
    ------
    SessionExpiredError
        The snapshot is gone, and its places with it.
    CancelledError
        ``scan.cancel()`` was called.
    """
    if scan.plan.limit is not None:
        with closing(scan.batches(workers=workers, read_ahead=read_ahead, progress=False)) as some:
            for batch in some:
                yield START, batch
        return
    storage, wanted = scan.connection.storage, list(scan.plan.columns)
    token = storage.operation()

    def placed() -> Generator[Placed, None, None]:
        session, zone = scan._opened(token=token), scan.profile.timezone
        found = iter_placed(
            storage, session, begin, workers=workers, read_ahead=read_ahead, cancel=token
        )
        with closing(found):
            for place, batch in found:
                shown = present_batch(batch, session.schema, timezone=zone)
                yield place, shown.select(wanted) if wanted else shown

    scan._works_under(token)
    try:
        yield from scan._in_reach(placed, None, token)
    finally:
        scan._works_under(token, ended=True)


def iter_result_rows(
    result: Result, start: int, rows: int, *, cancel: CancelToken | None = None
) -> Batches:
    """Iterate over rows of a result by number; waits for the query.

    Raises
    ------
    SessionExpiredError
        The service has dropped the result.
    """
    session = result.session
    part = RowRangeSplit(start, max(0, min(rows, result.row_count - start)))
    if not part.count:
        return
    zone, storage = result.connection.profile.timezone, result.connection.storage

    def begin() -> Batches:
        return iter_rows(
            storage, session, part, text=result._text, unit=result._time_unit, cancel=cancel
        )

    with closing(in_reach(begin, result._fall_back)) as batches:
        for batch in batches:
            yield present_batch(batch, session.schema, timezone=zone)


MAX_SORTED = 10_000
"""Rows of an order: SQL asks for a limit there."""
READ_AHEAD = 512 * 1024
"""Maximum bytes to buffer ahead of the page that is shown."""


class Rows(ABC):
    """Rows of the service that can be looked at in pages."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Title of the rows, as shown above the grid."""

    @property
    @abstractmethod
    def connection(self) -> Connection:
        """The connection over which they come."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns, in the order of the rows."""

    @property
    @abstractmethod
    def row_count(self) -> int | None:
        """How many there are; ``None`` where rows have no numbers and come by `found` only."""

    @property
    @abstractmethod
    def is_cut(self) -> bool:
        """Whether there may be more, which the key may not read."""

    @abstractmethod
    def page(self, start: int, rows: int, cancel: CancelToken) -> Iterator[pa.RecordBatch]:
        """Fetch rows by number: one request."""

    @abstractmethod
    def every(
        self, *, ahead: int = READ_AHEAD, progress: Progress = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """Read all rows; `stop` ends it.

        ``ahead`` bounds the bytes that are here before they are asked for.
        """

    @abstractmethod
    def found(self, where: str | None, begin: RowPlace = START) -> Generator[Placed, None, None]:
        """Read the rows that satisfy a condition, which is applied here; `stop` ends it.

        Each batch comes with a place, at which another call may ``begin``, until `renewed`.
        Batches that follow each other may have the same place: that of the first of them.
        """

    @abstractmethod
    def check(self, where: str) -> None:
        """Raise `ArgumentError` for a condition that `found` would refuse."""

    @abstractmethod
    def ordered(self, column: str, *, descending: bool, where: str | None) -> Rows:
        """Run a SQL job and return the first `MAX_SORTED` rows of the order."""

    @abstractmethod
    def code(self, where: str | None) -> str:
        """Return Python that reads the same rows."""

    @abstractmethod
    def narrowed(self, columns: int) -> Rows:
        """Return the rows with their first columns only."""

    @abstractmethod
    def twin(self) -> Rows:
        """Return the same rows, to be read and stopped apart."""

    @abstractmethod
    def renewed(self) -> Rows:
        """Return the rows as they are now, after a session has expired."""

    @abstractmethod
    def stop(self) -> None:
        """Cancel what is being read, from any thread."""
