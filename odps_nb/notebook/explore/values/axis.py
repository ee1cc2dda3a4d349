"""Ticks of a numeric or time axis, and human-readable numbers."""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from itertools import pairwise

_WIDE = Context(prec=400)
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most ``most`` round values that cover the range."""
    high = max(high, low + max(1.0, abs(low) * 1e-6)) if high <= low else high
    width = max(high / (most - 2) - low / (most - 2), sys.float_info.min)
    unit = 10.0 ** math.floor(math.log10(width))
    step = next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= width * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    count = math.ceil(high / step - 1e-9) - first
    return [(first + n) * step for n in range(count + 1)]


def tick_labels(values: Sequence[float]) -> list[str]:
    """Return short labels for ticks, such as ``2.5 M``, all in one unit."""
    size = max((abs(value) for value in values), default=0.0)
    scale, unit = next(((s, u) for s, u in _UNITS if size >= 2 * s), (1.0, ""))
    # neighbouring floats are at equal ticks
    step = (abs(values[1] - values[0]) / scale if len(values) > 1 else 0.0) or 1.0
    if size and (size >= 1e15 or size < 1e-4):
        digits = min(17, max(3, math.ceil(math.log10(size / scale / step)) + 1))
        return [f"{value:.{digits}g}" for value in values]
    digits = max(
        0, min(9, 1 - math.floor(math.log10(step) + 1e-9) if step < 1 else int(step % 1 > 0))
    )
    texts = [f"{value / scale + 0.0:,.{digits}f}" for value in values]
    if digits and all(text.endswith("0") for text in texts):
        texts = [text[:-1].rstrip(".") for text in texts]
    return [f"{text} {unit}".strip() if float(text.replace(",", "")) else "0" for text in texts]


_HOUR, _DAY, _MONTH, _YEAR = 16, 10, 7, 4  # lengths of ISO times truncated to minutes, days, …
_PERIODS: list[tuple[int, int, Callable[[str], str]]] = [  # label length, tick length, period start
    *((_HOUR, _HOUR, lambda at, n=n: f"{at[:11]}{int(at[11:13]) // n * n:02}") for n in (3, 6, 12)),
    (_HOUR, _DAY, lambda at: at[:_DAY]),
    *((_HOUR, _DAY, lambda at, n=n: _days_together(at[:_DAY], n)) for n in (2, 4)),
    (_DAY, _DAY, lambda at: _days_together(at[:_DAY], 7)),
    (_MONTH, _MONTH, lambda at: at[:_MONTH]),
    *((_MONTH, _MONTH, lambda at, n=n: f"{at[:5]}{_part_of_year(at, n):02}") for n in (3, 6)),
    *((_YEAR, _YEAR, lambda at, n=n: f"{int(at[:4]) // n * n:04}") for n in (1, 2, 5, 10, 20)),
    *((_YEAR, _YEAR, lambda at, n=n: f"{int(at[:4]) // n * n:04}") for n in (50, 100, 500, 1000)),
]
_IS_BEGIN = re.compile(r"(-01){0,2}( 00)?(:00)?")


def _days_together(day: str, count: int) -> str:
    """Return the first day of the ``count``-day period containing a day; weeks begin on Monday."""
    number = datetime.date.fromisoformat(day).toordinal() - 1
    return str(datetime.date.fromordinal(number // count * count + 1))


def _part_of_year(at: str, months: int) -> int:
    return (int(at[5:7]) - 1) // months * months + 1


def calendar_ticks(labels: Sequence[str], spacing: Callable[[int], float]) -> list[tuple[int, str]]:
    """Return the indexes and texts of the labels that begin a week, month, quarter, year, …

    ``labels`` are ISO times of equal length, in order. ``spacing`` returns the minimum distance
    between two ticks for a text length. Returns the ticks of the shortest period that fits, or an
    empty list.
    """
    for length, width, begin in _PERIODS:
        if len(labels[0]) < length:
            continue
        keys = [begin(label) for label in labels]
        starts = [n for n, (key, after) in enumerate(pairwise(keys), 1) if key != after]
        rest = labels[0].removeprefix(keys[0])
        if labels[0].startswith(keys[0]) and _IS_BEGIN.fullmatch(rest):
            starts.insert(0, 0)
        shown = starts[-1:]
        for n in reversed(starts[:-1]):
            if shown[0] - n >= spacing(width):
                shown.insert(0, n)
        if len(shown) > 1 and len(starts) - len(shown) <= len(starts) // 4:  # most starts fit
            return [(n, labels[n][:width]) for n in shown]
    return []


def number_text(value: float | Decimal) -> str:
    """Return a number as readable text: integers and decimals exactly, others to six digits."""
    if isinstance(value, Decimal):
        return f"{_WIDE.normalize(value) or Decimal(0):,f}"
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if not math.isfinite(value) or not 1e-4 <= abs(value) < 1e15:
        return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:.6g}")
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.2f}".removesuffix(".00")


def shortened(text: str, limit: int) -> str:
    """Truncate a label to ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
