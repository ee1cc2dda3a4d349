"""Finds outliers that would compress all other points of a chart's axis into one line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FAR = 10
"""An axis longer than this many times the range of the middle 98 % of rows is limited to them."""


def near_points(*axes: Sequence[float]) -> np.ndarray:
    """Return a mask of the points that are not outliers on any axis."""
    near = np.ones(len(axes[0]), dtype=bool)
    for places in axes:
        near &= _is_near(np.array(places), np.ones(len(places)))
    return near


def near_times(found: pa.Table) -> tuple[pa.Table, int]:
    """Return the groups without outlying times, and the number of outliers."""
    times = found.column("g").combine_chunks()
    numbers = times.cast(pa.int32() if pa.types.is_date32(times.type) else pa.int64())
    places = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    is_time = times.is_valid().to_numpy(zero_copy_only=False)
    near = _is_near(places, found.column("n").to_numpy() * is_time) | ~is_time
    return found.filter(pa.array(near)), pc.count_distinct(times.filter(pa.array(~near))).as_py()


def _is_near(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return a mask of the places near the middle 98 % of the rows; all true if none is far away.

    ``rows`` is the number of rows at each place; places without rows have no effect.
    """
    has_rows = rows > 0
    order = np.argsort(places[has_rows], kind="stable")
    known = places[has_rows][order].astype(float)
    if not len(known):
        return np.ones(len(places), dtype=bool)
    passed = np.cumsum(rows[has_rows][order])
    low, high = known[np.searchsorted(passed, np.array([0.01, 0.99]) * passed[-1])]
    length = high - low
    if not known[-1] - known[0] > FAR * length > 0:
        return np.ones(len(places), dtype=bool)
    mask: np.ndarray = (low - length <= places) & (places <= high + length)
    return mask
