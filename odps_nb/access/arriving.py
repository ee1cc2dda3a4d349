"""Rows that are still arriving, as a DataFrame (requests nothing itself)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from odps_nb.client.calls.progress import Phase, ProgressTracker

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["frame_of"]


def frame_of(
    batches: Generator[pa.RecordBatch, None, None],
    columns: Callable[[], pa.Schema],
    tracker: ProgressTracker,
    *,
    row_count: Callable[[], int | None] = lambda: None,
) -> pd.DataFrame:
    """Read to the end and convert; nobody here keeps a batch that was handed over.

    Parameters
    ----------
    columns
        Asked for the columns if there is no batch.
    row_count
        Asked, once the first batch is here, how many rows there will be.
    """
    from odps_nb.convert.pandas_frame import to_pandas

    with closing(batches):
        first = deque(islice(batches, 1))
        schema = first[0].schema if first else columns()
        count = row_count() if first else 0

        def rows() -> Iterator[pa.RecordBatch]:
            while first:
                yield first.popleft()
            yield from batches
            tracker.phase(Phase.CONVERTING)

        return to_pandas(rows(), schema=schema, rows=count)
