"""`SelectedRows`: rows that this process filters, available as data frames and Arrow data."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING

from odps_nb.access.row_forms import RowForms
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress, ProgressTracker
from odps_nb.errors import OdpsNbError
from odps_nb.schema import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Iterator[pa.RecordBatch]
    Change = Callable[[Batches], Batches]


class SelectedRows(RowForms):
    """The rows of ``source``, transformed by ``change`` as the batches are read.

    ``token`` cancels only this read, not the source's query or other reads.
    """

    def __init__(self, source: RowForms, change: Change | None, token: CancelToken) -> None:
        self._source, self._change, self._token = source, change, token
        self._connection = source._connection

    @property
    def schema(self) -> TableSchema:
        """The columns of the source."""
        return self._source.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the source as Arrow types."""
        return self._source.arrow_schema

    @property
    def row_count(self) -> int | None:
        """Number of rows; ``None`` if a ``change``, such as a filter, makes the number unknown."""
        return self._source.row_count if self._change is None else None

    def _reading(
        self, progress: Progress
    ) -> AbstractContextManager[tuple[ProgressTracker, CancelToken]]:
        self._token.check()  # before the progress begins
        return self._source._reading(progress)

    def _arriving(
        self,
        tracker: ProgressTracker,
        token: CancelToken,
        *,
        workers: int | None = None,
        read_ahead: int | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        self._token.watch(token)
        batches = self._source._arriving(tracker, token, workers=workers, read_ahead=read_ahead)
        with closing(batches):
            yield from batches if self._change is None else self._change(batches)

    def _fall_back(
        self, tracker: ProgressTracker | None, token: CancelToken | None
    ) -> Callable[[OdpsNbError], str | None]:
        return self._source._fall_back(tracker, token)

    def _replacing(self) -> RowForms:
        return self

    def _unit_is_open(self) -> bool:
        return self._source._unit_is_open()
