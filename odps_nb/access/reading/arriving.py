"""Turns batches that are still arriving into a DataFrame or a reader; sends no request."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.read.checks import asks_for_micro
from odps_nb.convert.warning import warn
from odps_nb.errors import OdpsNbError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from odps_nb.convert.frame_options import FrameOptions

B = TypeVar("B")


def in_reach(
    begin: Callable[[], Generator[B, None, None]], fall_back: Callable[[OdpsNbError], str | None]
) -> Generator[B, None, None]:
    """Yield what ``begin`` yields; begin again if the first of it needs microseconds.

    Parameters
    ----------
    fall_back
        Changes to microseconds, or raises the error; returns a warning, which is given when the
        first of the second attempt has come: what fails has not been read in microseconds.
    """
    given = False
    try:
        with closing(begin()) as found:
            for one in found:
                given = True
                yield one
        return
    except OdpsNbError as error:
        if given or not asks_for_micro(error):
            raise
        told = fall_back(error)
    with closing(begin()) as found:
        for one in found:
            if told is not None:
                warn(told)
                told = None
            yield one


def read_frame(
    batches: Generator[pa.RecordBatch, None, None],
    columns: Callable[[], pa.Schema],
    tracker: ProgressTracker,
    *,
    options: FrameOptions | None = None,
    row_count: Callable[[], int | None] = lambda: None,
    blobs: Callable[[], Mapping[str, Any]] = dict,
) -> pd.DataFrame:
    """Read all batches into a DataFrame, keeping none of them in memory longer than needed.

    Parameters
    ----------
    columns
        Called for the columns if there is no batch.
    options
        Which dtypes.
    row_count
        Called after the first batch; returns the expected number of rows.
    blobs
        Called after the first batch; returns the dtypes of columns of blobs, by name.
    """
    from odps_nb.convert.decimal_array import decimal_note
    from odps_nb.convert.pandas_frame import to_pandas

    with closing(batches), _freed_on_error():
        first = deque(islice(batches, 1))
        schema = first[0].schema if first else columns()
        count = row_count() if first else 0

        def rows() -> Iterator[pa.RecordBatch]:
            while first:
                yield first.popleft()
            yield from batches
            tracker.phase(Phase.CONVERTING)

        frame = to_pandas(rows(), schema=schema, rows=count, options=options, blobs=blobs())
        if options is None or options.decimals == "auto":
            tracker.remark(decimal_note(schema, frame))
        return frame


@contextmanager
def _freed_on_error() -> Iterator[None]:
    """Drop what the frames of an error hold: IPython keeps the last one, with the rows so far."""
    try:
        yield
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise


def streaming_reader(
    batches: Generator[pa.RecordBatch, None, None], columns: Callable[[], pa.Schema]
) -> pa.RecordBatchReader:
    """Return a reader that fetches batches on demand; the first one is fetched at once.

    Parameters
    ----------
    columns
        Called for the columns if there is no batch.
    """
    import pyarrow as pa

    first = deque(islice(batches, 1))
    if not first:
        return pa.RecordBatchReader.from_batches(columns(), [])

    def rows() -> Iterator[pa.RecordBatch]:
        with closing(batches):
            while first:
                yield first.popleft()
            yield from batches

    return pa.RecordBatchReader.from_batches(first[0].schema, rows())


def fitting(
    batches: Generator[pa.RecordBatch, None, None], schema: pa.Schema
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches with exactly the types that were promised for their columns."""
    from odps_nb.convert.narrow_decimals import cast_columns

    with closing(batches):
        for batch in batches:
            yield cast_columns(batch, schema)
