"""Results of benchmarks as JSON, and the changes between two such files.

Each ``bench_*`` appends lines to the file that `LINES` names while it runs; `gathered` joins them
into one document. It contains all samples and not only medians, because a change must exceed the
variation between rounds.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["LINES", "changes", "gathered", "keep"]

LINES = "ODPS_NB_BENCH_LINES"
"""The environment variable that names the file."""
LEAST = 0.05
"""Minimum relative change to report, even if the rounds hardly differ."""
SINGLE = 0.20
"""Minimum relative change of a single measurement to report."""


def keep(kind: str, **facts: Any) -> None:
    """Record a result of the running benchmark, if `LINES` is set."""
    if path := os.environ.get(LINES):
        bench = Path(sys.argv[0]).stem.removeprefix("bench_")
        with Path(path).open("a") as file:
            file.write(json.dumps({"bench": bench, "kind": kind, **facts}) + "\n")


def gathered(lines: Path) -> dict[str, Any]:
    """Return the document of a run: date, machine and all records."""
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    return {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "odps_nb": metadata.version("odps-nb"),
        "pyodps": metadata.version("pyodps"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": [round(load, 1) for load in os.getloadavg()],
        "found": found,
    }


def changes(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (``slower``, ``faster``, ``worse``, ``better``, ``missed`` or ``met``; line to print).

    Times are compared as ratios to the peer of the same round, if there is one, because a different
    machine or load affects both. The quartiles of the two runs must not overlap.
    """
    before = {(one["bench"], one["kind"], one["title"]): one for one in old["found"]}
    for one in new["found"]:
        was = before.get((one["bench"], one["kind"], one["title"]))
        if was is None:
            continue
        name = f"{one['bench']}: {one['title']}"
        if one["kind"] == "times":
            yield from _times(name, was["seconds"], one["seconds"])
            yield from _times(f"{name} (processor)", was["processor"], one["processor"])
        elif one["kind"] == "figure":
            yield from _figure(name, was, one)
        elif one["kind"] == "goal" and was["met"] != one["met"]:
            yield "met" if one["met"] else "missed", f"{name}: {was['line']} → {one['line']}"


def _times(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    ours, *peers = new
    if ours not in old:
        return
    peer = next((one for one in peers if one in old), None)
    before, after = _speeds(old, ours, peer), _speeds(new, ours, peer)
    if (word := _moved(before, after)) is None:
        return
    middle = [statistics.median(speeds) for speeds in (before, after)]
    unit = "a second" if peer is None else f"× {peer}"
    yield word, f"{name}: {middle[0]:.3g} → {middle[1]:.3g} {unit}"


def _speeds(case: dict[str, Any], ours: str, peer: str | None) -> list[float]:
    """Return the speed of the rounds: relative to the peer, or as rounds per second."""
    theirs = [1.0] * len(case[ours]) if peer is None else case[peer]
    return [other / mine for mine, other in zip(case[ours], theirs, strict=False) if mine > 0]


def _moved(before: Sequence[float], after: Sequence[float]) -> str | None:
    if len(before) < 3 or len(after) < 3:
        return None  # its noise is unknown
    low, middle, high = statistics.quantiles(before, n=4)
    new_low, new_middle, new_high = statistics.quantiles(after, n=4)
    if new_high < low and new_middle < middle * (1 - LEAST):
        return "slower"
    if new_low > high and new_middle > middle * (1 + LEAST):
        return "faster"
    return None


def _figure(name: str, was: dict[str, Any], one: dict[str, Any]) -> Iterator[tuple[str, str]]:
    old, new = was["value"], one["value"]
    if abs(new - old) > SINGLE * abs(old):
        is_better = (new > old) == (one["wanted"] == "more")
        yield "better" if is_better else "worse", f"{name}: {old:.4g} → {new:.4g} {one['unit']}"
