"""Ticks of a numeric axis, and human-readable numbers."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from decimal import Context, Decimal

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
    size = max((abs(one) for one in values), default=0.0)
    scale, unit = next(((s, u) for s, u in _UNITS if size >= 2 * s), (1.0, ""))
    step = abs(values[1] - values[0]) / scale if len(values) > 1 else 1.0
    if step and (size >= 1e15 or size < 1e-4):
        digits = min(17, max(3, math.ceil(math.log10(size / scale / step)) + 1))
        return [f"{one:.{digits}g}" for one in values]
    digits = max(
        0, min(9, 1 - math.floor(math.log10(step) + 1e-9) if step < 1 else int(step % 1 > 0))
    )
    found = [f"{one / scale + 0.0:,.{digits}f}" for one in values]
    if digits and all(one.endswith("0") for one in found):
        found = [one[:-1].rstrip(".") for one in found]
    return [f"{one} {unit}".strip() if float(one.replace(",", "")) else "0" for one in found]


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
    """Cut a label to ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
