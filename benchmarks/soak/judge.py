"""Detect growth: compare the median of the last third of a run with that of the second third.

Figures rise while caches fill, pools create threads and libraries are imported, so the first third
is ignored. After it, repeated work must not leave anything behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

__all__ = ["BOUNDS", "grown", "table"]

Figures = Mapping[str, float]

_MIB = 1 << 20
#: Maximum growth of a figure, by the end of its name. Figures without a bound are only shown: the
#: service's files belong to dropped tables, whose read sessions keep them for 24 hours.
BOUNDS: Mapping[str, float] = {
    "python objects": 2_000,
    "python blocks": 8_000,
    "arrow bytes": 16 * _MIB,
    "widgets": 0,
    "comms": 0,
    "operations": 0,
    "jvm heap bytes": 8 * _MIB,
    "kernel uss bytes": 64 * _MIB,
    "service uss bytes": 128 * _MIB,
    "jvm uss bytes": 64 * _MIB,
    "jvm threads": 40,  # Spark's pools, whose threads end after an idle minute
    "threads": 4,
    "file descriptors": 16,
    "sockets": 12,
    "open files": 8,
    "children": 1,
    "kernel files": 2,
    "work files": 2,
    "cache files bytes": 16 * _MIB,
}


def _bound(name: str) -> float | None:
    return next((most for end, most in BOUNDS.items() if name.endswith(end)), None)


def _thirds(name: str, taken: Sequence[Figures]) -> tuple[float, float, float]:
    third = len(taken) // 3
    ends = (taken[:third], taken[third : 2 * third], taken[2 * third :])
    first, second, last = (median(one.get(name, 0) for one in some) for some in ends)
    return first, second, last


def _names(taken: Sequence[Figures]) -> list[str]:
    return [name for name in taken[-1] if name not in ("at", "round")]


def grown(taken: Sequence[Figures]) -> list[str]:
    """Return a sentence for each figure that grew by more than its limit; needs three samples."""
    if len(taken) < 3:
        raise ValueError(f"{len(taken)} samples cannot be divided into thirds")
    found = []
    for name in _names(taken):
        (_, second, last), most = _thirds(name, taken), _bound(name)
        if most is not None and last - second > most:
            told = f"{_written(name, second)} → {_written(name, last)}"
            found.append(f"{name}: {told}, more than {_written(name, most)} of growth")
    return found


def table(taken: Sequence[Figures]) -> str:
    """Return the medians of the thirds as a Markdown table."""
    lines = ["| | first third | second | last | may grow by |", "|---|--:|--:|--:|--:|"]
    for name in _names(taken):
        thirds, most = _thirds(name, taken), _bound(name)
        cells = [_written(name, one) for one in (*thirds, *([most] if most is not None else []))]
        lines.append(f"| {name.removesuffix(' bytes')} | {' | '.join(cells)} |")
        if most is None:
            lines[-1] += " – |"
    return "\n".join(lines)


def _written(name: str, value: float) -> str:
    return f"{value / _MIB:,.1f} MiB" if name.endswith("bytes") else f"{value:,.0f}"
