"""Maps numbers and times to a numeric axis, for histogram bars and their conditions."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from odps_nb.notebook.explore.cells import kind_of
from odps_nb.schema import Column, DecimalType

_WIDE = Context(prec=400)
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = datetime.date(1970, 1, 1)
_HOUR, _DAY_SECONDS, _YEAR = 3600, 86400, 86400 * 365.2425
_CLOCK = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800]
_CLOCK += [_HOUR * n for n in (1, 2, 3, 6, 12)]
_CLOCK += [_DAY_SECONDS * n for n in (1, 2, 5, 7, 14, 30, 60, 90, 180, 365)]
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _floats(array: pa.Array) -> np.ndarray:
    found: np.ndarray = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A numeric axis on which each value of a column has a position (a float).

    ``at`` returns the value at a position, rounded to suit a bar width. ``place`` returns the
    position of a value. ``exact`` converts a cell to a value for a condition, and ``step`` rounds a
    bar width up.
    """

    at: Callable[[float, float], Any]
    step: Callable[[float], float]
    places: Callable[[pa.Array], np.ndarray] = _floats
    place: Callable[[Any], float] = float
    text: Callable[[Any], str] = str
    exact: Callable[[pa.Scalar], Any] = lambda cell: cell.as_py()
    whole: bool = False

    def edges(self, low: float, high: float, most: int) -> list[Any]:
        """Return the bounds of at most ``most`` bars."""
        if not math.isfinite(high - low):
            return []
        step = self.step((high - low) / most)
        first = math.floor(low / step) * step
        count = max(1, math.ceil((high - first) / step + 1e-9))
        return [self.at(first + n * step, step) for n in range(count + 1)]

    def label(self, low: Any, high: Any) -> str:
        """Return the label of the bar between two values."""
        if self.whole and self.place(high) - self.place(low) == 1:
            return self.text(low)
        return f"{self.text(low)} – {self.text(high)}"

    def edge(self, place: float, *, up: bool = False) -> Any:
        """Return the value at a position, rounded outwards."""
        step = 1.0 if self.whole else abs(place) * 1e-6 or 1e-6
        return self.at((math.ceil if up else math.floor)(place / step) * step, step)


def _round_step(step: float) -> float:
    """Return the smallest of 1, 2, 2.5 or 5 times a power of ten that is at least ``step``."""
    if step <= 0 or not math.isfinite(step):
        return 1.0
    unit = 10.0 ** math.floor(math.log10(step))
    return next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= step * (1 - 1e-9))


def _whole_step(step: float) -> float:
    """Return the smallest round whole number that is at least ``step``."""
    return max(1.0, float(math.ceil(_round_step(step))))


def _time_step(step: float) -> float:
    """Return the shortest common clock or calendar interval of at least ``step`` seconds."""
    return next((float(n) for n in _CLOCK if n >= step), _round_step(step / _YEAR) * _YEAR)


def scale_of(column: Column, arrow: pa.DataType) -> Scale | None:
    """Return a column's histogram axis; ``None`` if its type has no axis (such as a string)."""
    kind = kind_of(column)
    if kind == "INTEGER":
        return Scale(at=lambda place, _: round(place), step=_whole_step, whole=True)
    if kind in ("FLOAT", "DOUBLE"):
        return Scale(at=_rounded, step=_round_step, text=lambda value: f"{value:.6g}")
    if isinstance(column.type, DecimalType):
        unit = Decimal(1).scaleb(-(18 if column.type.scale is None else column.type.scale))
        return Scale(
            at=lambda place, step: Decimal(repr(_rounded(float(place), step))).quantize(
                unit, context=_WIDE
            ),
            step=_round_step,
            text=lambda value: f"{value.normalize():f}",
        )
    if pt.is_date(arrow):
        return Scale(
            at=lambda place, _: _DAY + timedelta(days=min(max(round(place), -719162), 2932896)),
            step=_whole_step,
            places=lambda array: array.cast(pa.date32()).cast(pa.int32()).to_numpy().astype(float),
            place=lambda day: float((day - _DAY).days),
            whole=True,
        )
    return _times(arrow) if pt.is_timestamp(arrow) else None


def _times(arrow: pa.DataType) -> Scale:
    per_second = _PER_SECOND[arrow.unit]
    shown = None if arrow.tz is None else ZoneInfo(arrow.tz)
    zone = None if arrow.tz is None else datetime.UTC

    def at(place: float, _: float) -> datetime.datetime:
        seconds = min(max(place, -62135596800.0), 253402300799.0)
        moment = _EPOCH + timedelta(seconds=round(seconds))
        return moment.replace(tzinfo=zone)

    def exact(cell: pa.Scalar) -> datetime.datetime | None:
        ticks = cell.value
        if ticks is None or ticks % max(1, per_second // 10**6):
            return None  # finer than datetime's microseconds
        moment = _EPOCH + timedelta(microseconds=ticks * 10**6 // per_second)
        return moment.replace(tzinfo=zone)

    return Scale(
        places=lambda array: array.cast(pa.int64()).to_numpy().astype(float) / per_second,
        at=at,
        place=lambda moment: (moment.replace(tzinfo=None) - _EPOCH).total_seconds(),
        text=lambda moment: _clock(moment, shown),
        exact=exact,
        step=_time_step,
        whole=True,
    )


def _clock(moment: datetime.datetime, zone: ZoneInfo | None) -> str:
    try:
        local = moment if zone is None else moment.astimezone(zone)
    except OverflowError:  # at the limit of datetime's range
        local = moment
    return local.isoformat(sep=" ")


def _rounded(place: float, step: float) -> float:
    """Round a position to the digits that matter for a step of this size."""
    if not step or not math.isfinite(place):
        return place
    return round(place, max(0, 2 - math.floor(math.log10(abs(step)))))
