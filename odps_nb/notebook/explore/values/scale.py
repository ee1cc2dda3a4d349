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

from odps_nb.notebook.explore.values.axis import number_text
from odps_nb.notebook.explore.values.cells import kind_of
from odps_nb.schema import Column, DecimalType

_WIDE = Context(prec=400)
_LEAST, _MOST = -(2**63), 2**63 - 1
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = datetime.date(1970, 1, 1)
_FIRST, _LAST = -62135596800 * 10**6, 253402300800 * 10**6 - 1
"""The range of `datetime.datetime`, in microseconds since 1970."""
_HOUR, _DAY_SECONDS, _YEAR = 3600, 86400, 86400 * 365.2425
_CLOCK = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800]
_CLOCK += [_HOUR * n for n in (1, 2, 3, 6, 12)]
_CLOCK += [_DAY_SECONDS * n for n in (1, 2, 5, 7, 14, 30, 60, 90, 180, 365)]
_MONTHS = (1, 3, 6, *(12 * n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)))
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
LARGEST_SINGLE = float(np.finfo(np.float32).max)
"""Largest value of a FLOAT column."""
MOST_STEPS = 18
"""Maximum precision of decimals that `steps_of` returns."""


def _floats(array: pa.Array) -> np.ndarray:
    floats: np.ndarray = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


def _integers(array: pa.Array) -> pa.Array:
    return array.cast(pa.int64())


def steps_of(array: pa.Array) -> np.ndarray | None:
    """Return decimals of up to `MOST_STEPS` digits as integers (1.25 as 125); else ``None``.

    A null becomes an arbitrary number.
    """
    kind = array.type
    if not pt.is_decimal128(kind) or kind.precision > MOST_STEPS:
        return None
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A numeric axis on which each value of a column has a position (a float).

    ``at`` returns the value at a position, rounded to suit a bar width. ``place`` returns the
    position of a value. ``exact`` converts a cell to a value for a condition, and ``step`` rounds a
    bar width up. ``keys`` converts an array of cells to numbers that compare exactly, and ``key``
    converts one value; ``back`` is the inverse of ``key``. ``unit`` is the distance between
    neighbouring integers or days. ``is_log`` allows logarithmic axes. ``zone`` is the time zone in
    which instants are shown.
    """

    at: Callable[[float, float], Any]
    step: Callable[[float], float]
    places: Callable[[pa.Array], np.ndarray] = _floats
    place: Callable[[Any], float] = float
    text: Callable[[Any], str] = str
    exact: Callable[[pa.Scalar], Any] = lambda cell: cell.as_py()
    keys: Callable[[pa.Array], pa.Array] = _integers
    key: Callable[[Any], Any] = lambda value: value
    back: Callable[[Any], Any] = lambda key: key
    whole: bool = False
    unit: Any = None
    is_log: bool = True
    zone: datetime.tzinfo | None = None

    def edges(self, low: float, high: float, most: int) -> list[Any]:
        """Return the bounds of at most ``most`` bars."""
        if not math.isfinite(high - low):
            return []
        step = self.step((high - low) / most)
        first = math.floor(low / step) * step
        count = max(1, math.ceil((high - first) / step + 1e-9))
        bounds = [self.at(first + n * step, step) for n in range(count + 1)]
        return list(dict.fromkeys(bounds))  # near the limit of the type, some bounds are equal

    def log_edges(self, low: float, high: float, most: int) -> list[Any]:
        """Return the bounds of bars on a logarithmic axis; all bounds are positive."""
        bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-9)
        digits = (1, 2, 5) if 3 * (top - bottom) <= most + 4 else (1,)
        powers = range(bottom, top + 1, max(1, -(-(top - bottom) // most)))
        places = [float(f"{digit}e{power}") for power in powers for digit in digits]
        if places[-1] <= high:
            places.append(float(f"1e{powers[-1] + powers.step}"))
        first = max(n for n, place in enumerate(places) if place <= low)
        last = min((n for n, place in enumerate(places) if place > high), default=len(places))
        return list(dict.fromkeys(self.at(place, 0.0) for place in places[first : last + 1]))

    def month_ticks(self, low: float, high: float, most: int) -> list[tuple[float, str]]:
        """Return positions and labels of months, quarters or years on an axis of times.

        Returns an empty list if the axis is shorter than two months.
        """
        first, last = (self.at(place, 0.0) for place in (low, high))
        if self.zone is not None:
            try:
                first, last = first.astimezone(self.zone), last.astimezone(self.zone)
            except OverflowError:  # local times after the year 9999
                return []
        begin, end = (12 * moment.year + moment.month - 1 for moment in (first, last))
        step = next(n for n in _MONTHS if (end - begin) // n < most)
        if end - begin < 2:
            return []
        ticks = []
        for months in range(-(-begin // step) * step, end + 1, step):
            day = first.replace(year=months // 12, month=months % 12 + 1, day=1)
            if isinstance(day, datetime.datetime):
                day = day.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
                day = day if day.tzinfo is None else day.astimezone(datetime.UTC)
            text = f"{months // 12:04}-{months % 12 + 1:02}"
            ticks.append((self.place(day), text if step < 12 else text[:4]))
        return ticks

    def label(self, low: Any, high: Any) -> str:
        """Return the label of the bar between two values."""
        if self.whole and self.place(high) - self.place(low) == 1:
            return self.text(low)
        return f"{self.text(low)} – {self.text(high)}"


def _round_step(step: float) -> float:
    """Return the smallest of 1, 2, 2.5 or 5 times a power of ten that is at least ``step``."""
    if step <= 0 or not math.isfinite(step):
        return 1.0
    unit = 10.0 ** math.floor(math.log10(step))
    return next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= step * (1 - 1e-9))


def _unit_step(step: float, unit: float = 1.0) -> float:
    """Return a round multiple of ``unit`` (a power of ten) that is at least ``step``."""
    step = _round_step(step)
    return step if step >= 10 * unit else max(1, math.ceil(step / unit - 1e-9)) * unit


def _time_step(step: float) -> float:
    """Return the shortest common clock or calendar interval of at least ``step`` seconds."""
    return next((float(n) for n in _CLOCK if n >= step), _round_step(step / _YEAR) * _YEAR)


def scale_of(column: Column, arrow: pa.DataType) -> Scale | None:
    """Return a column's histogram axis; ``None`` if its type has no axis (such as a string)."""
    kind = kind_of(column)
    if kind == "INTEGER":
        return Scale(
            at=lambda place, _: min(max(round(place), _LEAST), _MOST),
            step=_unit_step,
            text=number_text,
            back=lambda key: int(key) if key == int(key) else key,
            whole=True,
            unit=1,
        )
    if kind in ("FLOAT", "DOUBLE"):
        is_single = kind == "FLOAT"
        return Scale(
            at=(lambda place, step: single(_rounded(place, step))) if is_single else _rounded,
            step=_round_step,
            text=number_text,
            keys=lambda array: array.cast(pa.float64()),
        )
    if isinstance(column.type, DecimalType):
        return _decimals(column.type, arrow)
    if pt.is_date(arrow):
        return Scale(
            at=lambda place, _: _DAY + timedelta(days=min(max(round(place), -719162), 2932896)),
            step=_unit_step,
            places=lambda array: array.cast(pa.date32()).cast(pa.int32()).to_numpy().astype(float),
            place=lambda day: float((day - _DAY).days),
            keys=lambda array: array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()),
            key=lambda day: (day - _DAY).days,
            back=lambda days: _DAY + timedelta(days=math.floor(days)),
            whole=True,
            unit=timedelta(days=1),
            is_log=False,
        )
    return _times(arrow) if pt.is_timestamp(arrow) else None


def _decimals(kind: DecimalType, arrow: pa.DataType) -> Scale:
    scale = 18 if kind.scale is None else kind.scale
    unit = Decimal(1).scaleb(-scale)
    most = _WIDE.subtract(Decimal(1).scaleb((kind.precision or 38) - scale), unit)

    def at(place: float, step: float) -> Decimal:
        value = Decimal(repr(_rounded(float(place), step))).quantize(unit, context=_WIDE)
        return min(max(value, most.copy_negate()), most)

    def keys(array: pa.Array) -> pa.Array:
        return array if (steps := steps_of(array)) is None else pa.array(steps)

    def back(key: Decimal | float) -> Decimal:
        if not is_short:
            return key if isinstance(key, Decimal) else at(key, abs(key) * 1e-6)
        if isinstance(key, Decimal):
            return _WIDE.scaleb(key, -scale)
        return at(key / 10**scale, abs(key) / 10**scale * 1e-6)

    is_short = steps_of(pa.nulls(0, arrow)) is not None
    return Scale(
        at=at,
        step=lambda step: _unit_step(step, float(unit)),
        text=number_text,
        keys=keys,
        key=(lambda value: int(_WIDE.scaleb(value, scale))) if is_short else (lambda value: value),
        back=back,
    )


def _times(arrow: pa.DataType) -> Scale:
    per_second = _PER_SECOND[arrow.unit]
    shown = None if arrow.tz is None else ZoneInfo(arrow.tz)
    zone = None if arrow.tz is None else datetime.UTC

    def at(place: float, step: float) -> datetime.datetime:
        seconds = min(max(place, -62135596800.0), 253402300799.0)
        moment = _EPOCH + timedelta(seconds=round(seconds) if step else seconds)
        return moment.replace(tzinfo=zone)

    def back(ticks: Decimal | float) -> datetime.datetime:
        micros = math.floor(Decimal(ticks) * 10**6 / per_second)
        moment = _EPOCH + timedelta(microseconds=min(max(micros, _FIRST), _LAST))
        return moment.replace(tzinfo=zone)

    def exact(cell: pa.Scalar) -> datetime.datetime | None:
        ticks = cell.value
        if ticks is None or ticks % max(1, per_second // 10**6):
            return None  # finer than datetime's microseconds
        return back(ticks)

    def ticks(moment: datetime.datetime) -> int:
        passed = moment.replace(tzinfo=None) - _EPOCH
        count = passed // timedelta(microseconds=1) * per_second // 10**6
        return min(max(count, _LEAST), _MOST)  # the nanosecond range ends in 2262

    return Scale(
        places=lambda array: array.cast(pa.int64()).to_numpy().astype(float) / per_second,
        at=at,
        place=lambda moment: (moment.replace(tzinfo=None) - _EPOCH).total_seconds(),
        text=lambda moment: _clock(moment, shown),
        exact=exact,
        key=ticks,
        back=back,
        step=_time_step,
        whole=True,
        is_log=False,
        zone=shown,
    )


def _clock(moment: datetime.datetime, zone: ZoneInfo | None) -> str:
    try:
        local = moment if zone is None else moment.astimezone(zone)
    except OverflowError:  # at the limit of datetime's range
        local = moment
    digits = "auto" if local.microsecond % 1000 or not local.microsecond else "milliseconds"
    return local.isoformat(sep=" ", timespec=digits).replace("+00:00", "Z")  # as cells show it


def single(value: float) -> float:
    """Return the nearest value that a FLOAT column can hold; ``value`` if it is out of range."""
    return float(np.float32(value)) if abs(value) <= LARGEST_SINGLE else value


def _rounded(place: float, step: float) -> float:
    """Round a position to the digits that matter for a step of this size."""
    if not step or not math.isfinite(place):
        return place
    return round(place, 2 - math.floor(math.log10(abs(step))))
