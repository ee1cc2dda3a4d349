"""Batches of one split, filtered, while its read session is kept alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from odps_nb.client.read.checks import BatchFilter
from odps_nb.client.read.resume import ResumableRowStream

__all__ = ["SplitRows"]


class SplitRows:
    """Batches of one split; keeps the session alive at each, and while the consumer waits."""

    def __init__(
        self,
        rows: ResumableRowStream,
        look_after: Callable[[], None],
        row_filter: BatchFilter | None,
        shape: Callable[[pa.RecordBatch], pa.RecordBatch] | None,
    ) -> None:
        self._rows, self._look_after = rows, look_after
        self._filter, self._shape = row_filter, shape
        self._batches = rows.batches(fits=False)
        self._begun = False
        self.row: int = 0
        """The row of the split at which the last batch began, before the filter."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            while True:
                if self._begun:  # what opens a stream looks after the session itself
                    self._look_after()
                self._begun = True
                batch = next(self._batches)
                self.row = self._rows.row - batch.num_rows
                batch = self._fitted(batch)
                if batch.num_rows:
                    return batch if self._shape is None else self._shape(batch)
        except BaseException:
            self.close()
            raise

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the filter keeps; text of the others may be any bytes."""
        if self._filter is None:
            return self._rows.fit(batch)
        return self._rows.fit(self._filter.apply(batch), partial(self._filter.row_of, batch))

    def rest(self) -> None:
        """Keep the session alive; close the connection if the service refuses others."""
        self._look_after()
        self._rows.rest()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._batches.close()
