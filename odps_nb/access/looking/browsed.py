"""`Rows`: what an explorer needs of rows of the service, wherever they are."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from odps_nb.access.looking.paging import START, Place, Placed
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress
from odps_nb.schema import Column

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

__all__ = ["MAX_SORTED", "READ_AHEAD", "Rows"]

MAX_SORTED = 10_000
"""Rows of an order: SQL asks for a limit there."""
READ_AHEAD = 512 * 1024
"""Bytes of rows that may be here before somebody turns the page."""


class Rows(Protocol):
    """Rows of the service that can be looked at in pages."""

    @property
    def title(self) -> str:
        """What they are, for a person."""

    @property
    def connection(self) -> Connection:
        """The connection over which they come."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in the order of the rows."""

    @property
    def row_count(self) -> int | None:
        """How many there are; ``None`` where rows have no numbers and come by `found` only."""

    @property
    def is_cut(self) -> bool:
        """Whether there may be more, which the key may not read."""

    def page(self, start: int, rows: int, cancel: CancelToken) -> Iterator[pa.RecordBatch]:
        """Fetch rows by number: one request."""

    def every(
        self, *, ahead: int = READ_AHEAD, progress: Progress = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """Read all rows; `stop` ends it.

        ``ahead`` bounds the bytes that are here before they are asked for.
        """

    def found(self, where: str | None, begin: Place = START) -> Generator[Placed, None, None]:
        """Read the rows that satisfy a condition, which is applied here; `stop` ends it.

        Each batch comes with a place, at which another call may ``begin``, until `renewed`.
        Batches that follow each other may have the same place: that of the first of them.
        """

    def check(self, where: str) -> None:
        """Raise `ArgumentError` for a condition that `found` would refuse."""

    def ordered(self, column: str, *, descending: bool, where: str | None) -> Rows:
        """Run a SQL job and return the first `MAX_SORTED` rows of the order."""

    def code(self, where: str | None) -> str:
        """Return Python that reads the same rows."""

    def narrowed(self, columns: int) -> Rows:
        """Return the rows with their first columns only."""

    def twin(self) -> Rows:
        """Return the same rows, to be read and stopped apart."""

    def renewed(self) -> Rows:
        """Return the rows as they are now, after a session has expired."""

    def stop(self) -> None:
        """Cancel what is being read, from any thread."""
