"""The bars of a column's profile (ranges of an axis or single values), and rows without a bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.notebook.explore.values.scale import Scale

MOST_BARS = 20
NOT_FINITE = "NaN or infinite"
"""The label of the group of numbers that are not finite."""
FAR = 2
"""An axis ends at the 1st or 99th percentile if the extreme value is farther away than this many
times the distance between the two percentiles."""
LOG = 1_000
"""An axis is logarithmic if the 99th percentile is at least this multiple of the 1st."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, or a group of rows without a bar: its label, its row count, and the values it covers.

    ``value`` is a single value; NaN means all numbers that are not finite. ``others`` lists the
    values that have bars; the group covers all other values. ``low`` and ``high`` are a range,
    which includes ``high`` only if ``last`` is true. A range with only one end covers the values
    below ``high`` or above ``low``. ``whole`` is the row count without the filter.
    """

    label: str
    count: int
    value: Any = None
    low: Any = None
    high: Any = None
    last: bool = False
    others: tuple[Any, ...] = ()
    whole: float | None = None

    @property
    def is_undrawn(self) -> bool:
        """Whether this is a group of rows for which no bar is drawn."""
        is_not_finite = isinstance(self.value, float) and math.isnan(self.value)
        is_open = (self.low is None) != (self.high is None)
        return bool(self.others) or is_not_finite or is_open


class Histogram:
    """Counts the rows in each range of an axis, and those below and above it.

    Values are compared exactly, so a bar counts precisely the rows that its condition selects.
    """

    def __init__(self, scale: Scale, edges: Sequence[Any], *, is_log: bool = False) -> None:
        self.scale, self.edges, self.is_log = scale, list(edges), is_log
        self._counts = np.zeros(len(edges) + 1, dtype=np.int64)  # rows below, in each range, above
        low, high = self.edges[:2]
        # each range is one integer or day, so the last range ends at the next value
        self._is_single = scale.unit is not None and high - low == scale.unit

    @classmethod
    def of(cls, scale: Scale, array: pa.Array) -> Histogram | None:
        """Return an empty histogram with an axis for these values, or ``None`` if no axis fits."""
        places = scale.places(array)
        edges, is_log = _axis(scale, places)
        return cls(scale, edges, is_log=is_log) if len(edges) > 1 else None

    @classmethod
    def like(cls, scale: Scale, bars: Sequence[Bar], *, is_log: bool) -> Histogram:
        """Return an empty histogram with the ranges of these bars."""
        ranges = [bar for bar in bars if not bar.is_undrawn]
        return cls(scale, [*(bar.low for bar in ranges), ranges[-1].high], is_log=is_log)

    def add(self, array: pa.Array) -> None:
        """Count finite values."""
        below = _ranks(self.scale, array, self.edges, up=not self._is_single)
        self._counts += np.diff([0, *below, len(array)])

    def bars(self) -> tuple[Bar, ...]:
        """Return the bars, followed by groups for any rows below or above them."""
        edges, text = self.edges, self.scale.text
        below, *counts, above = map(int, self._counts)
        last = 0 if self._is_single else len(counts)
        bars = [
            Bar(self.scale.label(low, high), count, low=low, high=high, last=n == last)
            for n, (count, (low, high)) in enumerate(zip(counts, pairwise(edges), strict=True), 1)
        ]
        if below:
            bars.append(Bar(f"below {text(edges[0])}", below, high=edges[0]))
        if above:
            end = edges[-1] - self.scale.unit if self._is_single else edges[-1]
            bars.append(Bar(f"above {text(end)}", above, low=end))
        return tuple(bars)


def _axis(scale: Scale, places: np.ndarray) -> tuple[list[Any], bool]:
    """Return the bounds of the bars, and whether their widths are logarithmic."""
    low, high = float(places.min()), float(places.max())
    least, most = (
        float(quantile) for quantile in np.quantile(places, (0.01, 0.99), method="nearest")
    )
    if scale.is_log and least > 0 and most / least >= LOG:
        spread = math.log10(most / least)
        if low <= 0 or math.log10(least / low) > FAR * spread:
            low = least
        high = most if math.log10(high / most) > FAR * spread else high
        return scale.log_edges(low, high, MOST_BARS), True
    if (spread := most - least) > 0:
        low = least if least - low > FAR * spread else low
        high = most if high - most > FAR * spread else high
    return scale.edges(low, high, MOST_BARS), False


def _ranks(scale: Scale, array: pa.Array, edges: Sequence[Any], *, up: bool) -> list[int]:
    """Return the number of values below each edge; with ``up``, the last edge is inclusive."""
    keys = scale.keys(array)
    if pt.is_decimal(keys.type):
        compared = [pc.less] * (len(edges) - 1) + [pc.less_equal if up else pc.less]
        ranks = [
            pc.sum(compare(keys, pa.scalar(edge, keys.type))).as_py() or 0
            for compare, edge in zip(compared, edges, strict=True)
        ]
        return list(map(int, ranks))
    ordered = np.sort(keys.to_numpy(zero_copy_only=False))
    edge_keys = np.array([scale.key(edge) for edge in edges], dtype=ordered.dtype)
    ranks = list(np.searchsorted(ordered, edge_keys))
    if up:
        ranks[-1] = np.searchsorted(ordered, edge_keys[-1], side="right")
    return list(map(int, ranks))
