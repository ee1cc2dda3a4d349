"""Statistics of a column: mean, deviation and quantiles of numbers, lengths of text values.

`Measures` processes arrays in bounded memory. Quantiles are exact for up to `EXACT` values and
estimated for more. All other statistics are exact.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.notebook.explore.profiles.sketches import QuantileSketch
from odps_nb.notebook.explore.values.scale import Scale, steps_of

EXACT = 64_000
"""Maximum number of values for which quantiles are computed exactly."""

QUARTILES = {"25 %": 0.25, "median": 0.5, "75 %": 0.75}
_USUAL = Context(prec=28)  # Decimal's default precision, which pandas uses
_WIDE = Context(prec=400)


class Measures:
    """The statistics of numbers and times if there is a ``scale``, otherwise of text."""

    def __init__(self, scale: Scale | None) -> None:
        self._scale = scale
        self._parts: _Numbers | _Texts | None = None
        self._quantiles = _Quantiles(scale) if scale is not None else None

    def add(self, array: pa.Array) -> None:
        """Add one or more values, none of which is null or NaN."""
        if self._quantiles is not None:
            self._quantiles.add(array)
        if self._parts is None:
            if pt.is_string(array.type) or pt.is_large_string(array.type):
                self._parts = _Texts()
            elif not pt.is_temporal(array.type) and self._scale is not None:
                self._parts = _Numbers()
        if self._parts is not None:
            self._parts.add(array)

    @property
    def is_estimated(self) -> bool:
        """Whether the quantiles are estimates."""
        return self._quantiles is not None and self._quantiles.is_estimated

    def values(self) -> dict[str, Any]:
        """Return the statistics by name."""
        statistics = {} if self._parts is None else self._parts.values()
        if self._quantiles is not None:
            quartiles = self._quantiles.values()
            statistics |= quartiles if self._parts is not None else {"median": quartiles["median"]}
        return statistics


class _Numbers:
    """Count, sum, squared deviations and number of zeros."""

    def __init__(self) -> None:
        self._count = self._zeros = 0
        self._mean = self._squares = 0.0
        self._total: int | Decimal | None = None
        self._is_decimal = False

    def add(self, array: pa.Array) -> None:
        steps = steps_of(array)
        if steps is None:
            numbers = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        else:
            numbers = steps / 10.0**array.type.scale
        self._zeros += int(np.count_nonzero(numbers == 0))
        with np.errstate(over="ignore", invalid="ignore"):  # values near 1e308 overflow
            mean = float(numbers.mean())
            squares = float(np.square(numbers - mean).sum())
            both, step = self._count + len(numbers), mean - self._mean
            self._mean += step * (len(numbers) / both)
            self._squares += squares + step * step * (self._count * len(numbers) / both)
        self._count = both
        self._is_decimal = pt.is_decimal(array.type)
        if not pt.is_floating(array.type):
            self._total = _WIDE.add(Decimal(self._total or 0), _total(array, steps))

    def values(self) -> dict[str, Any]:
        mean: float | Decimal = self._mean
        if self._total is not None:
            exact = _USUAL.divide(self._total, Decimal(self._count))
            mean = exact if self._is_decimal else float(exact)
        deviation = math.sqrt(self._squares / (self._count - 1)) if self._count > 1 else None
        return {"mean": mean, "std": deviation, "zeros": self._zeros}


def _total(array: pa.Array, steps: np.ndarray | None) -> Decimal:
    """Return the exact sum of integers, or of decimals with these `steps_of`."""
    if steps is not None or pt.is_integer(array.type):
        whole = array.cast(pa.int64()).to_numpy() if steps is None else steps
        added = int((whole >> 32).sum()) * 2**32 + int((whole & 0xFFFFFFFF).sum())
        return _WIDE.scaleb(Decimal(added), 0 if steps is None else -array.type.scale)
    if array.type.precision <= 60:
        return Decimal(pc.sum(array.cast(pa.decimal256(76, array.type.scale))).as_py())
    total = Decimal(0)
    for value in array.to_pylist():
        total = _WIDE.add(total, value)
    return total


class _Texts:
    """Number of blank strings, and string lengths in characters."""

    def __init__(self) -> None:
        self._count = self._blank = self._sum = 0
        self._ends: tuple[int, int] | None = None

    def add(self, array: pa.Array) -> None:
        self._blank += pc.sum(pc.equal(pc.utf8_trim_whitespace(array), "")).as_py() or 0
        lengths = pc.utf8_length(array)
        ends = pc.min_max(lengths).as_py()
        low, high = self._ends or (ends["min"], ends["max"])
        self._ends = min(low, ends["min"]), max(high, ends["max"])
        self._sum += pc.sum(lengths).as_py()
        self._count += len(array)

    def values(self) -> dict[str, Any]:
        assert self._ends is not None  # `add` is always called first
        low, high = self._ends
        mean = self._sum / self._count
        return {"blank": self._blank, "min length": low, "mean length": mean, "max length": high}


class _Quantiles:
    """Keeps up to `EXACT` values; beyond that, a sketch estimates the quantiles."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._kept: list[pa.Array] = []
        self._sketch: QuantileSketch | None = None

    @property
    def is_estimated(self) -> bool:
        return self._sketch is not None

    def add(self, array: pa.Array) -> None:
        keys = self._scale.keys(array)
        self._kept.append(_ordered(keys) if self._sketch is None else keys)
        if self._sketch is None and sum(map(len, self._kept)) > EXACT:
            self._sketch = QuantileSketch()
        if self._sketch is not None:
            for keys in self._kept:
                self._sketch.add(keys.cast(pa.float64(), safe=False).to_numpy())
            self._kept = []

    def values(self) -> dict[str, Any]:
        shares = list(QUARTILES.values())
        if self._sketch is not None:
            quantiles: list[Any] = self._sketch.quantiles(shares)
        else:
            keys = _ordered(pa.concat_arrays(self._kept))
            quantiles = [_at(keys, share) for share in shares]
        return dict(zip(QUARTILES, map(self._scale.back, quantiles), strict=True))


def _ordered(keys: pa.Array) -> pa.Array:
    """Return a sorted copy, so that the original batch can be freed."""
    return keys.take(pc.sort_indices(keys))


def _at(ordered: pa.Array, share: float) -> Any:
    """Return a quantile of sorted numbers, interpolated as in pandas."""
    position = (len(ordered) - 1) * share
    low = ordered[math.floor(position)].as_py()
    high = ordered[math.ceil(position)].as_py()
    if isinstance(low, float):
        return low + (high - low) * (position - math.floor(position))
    step = _WIDE.multiply(_WIDE.subtract(Decimal(high), Decimal(low)), Decimal(position % 1))
    return _WIDE.add(Decimal(low), step)
