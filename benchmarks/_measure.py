"""The small harness that all benchmarks share: cases side by side in one run, medians, ratios.

Rounds are interleaved (ours, peer, limit, ours, peer, …), so that what else the machine does
meets all of them; a sample is repeated until it lasts a twentieth of a second. Work that waits
for nothing can be timed by the processor time of this process (``clock``), which does not count
what other processes take. Whether both sides give the same data is checked by the benchmark,
before anything is timed.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = ["Case", "Comparison", "Goal", "compare", "header", "judged", "summary"]

MIN_SAMPLE = 0.05
_WIDTH = 44
_missed: list[str] = []
_met: list[str] = []


@dataclass(frozen=True)
class Case:
    """One way to do the work; ``run`` does all of it once."""

    name: str
    run: Callable[[], object]


@dataclass(frozen=True)
class Goal:
    """The first case must be ``at_least`` times as fast as the case named ``against``."""

    against: str
    at_least: float


@dataclass(frozen=True)
class Comparison:
    """What was measured: median seconds per case, in the order of the cases."""

    title: str
    seconds: dict[str, float] = field(default_factory=dict)

    def ratio(self, against: str) -> float:
        """How many times as fast the first case is."""
        first = next(iter(self.seconds.values()))
        return self.seconds[against] / first


def compare(
    title: str,
    *cases: Case,
    rounds: int = 5,
    size: int | None = None,
    count: int | None = None,
    goals: Sequence[Goal] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Time the cases side by side, print a table, and judge the goals.

    Parameters
    ----------
    title
        What work is done.
    cases
        Ours first; the ratios are against it.
    rounds
        How often each case is sampled.
    size, count
        Bytes and things of the work, for figures per second.
    goals
        What is expected of the first case.
    clock
        `time.process_time` for work that runs in this process alone and waits for nothing.
    """
    samples: dict[str, list[float]] = {case.name: [] for case in cases}
    repeats = {case.name: _repeats(case, clock) for case in cases}
    for turn in range(rounds):
        for case in cases[turn % len(cases) :] + cases[: turn % len(cases)]:
            samples[case.name].append(_sample(case, repeats[case.name], clock))
    result = Comparison(title, {name: statistics.median(times) for name, times in samples.items()})
    _print(result, size, count)
    _judge(result, goals)
    return result


def _repeats(case: Case, clock: Callable[[], float]) -> int:
    once = _sample(case, 1, clock)  # warms up, too
    return max(1, round(MIN_SAMPLE / once)) if once < MIN_SAMPLE else 1


def _sample(case: Case, repeats: int, clock: Callable[[], float]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = clock()
        for _ in range(repeats):
            case.run()
        return (clock() - start) / repeats
    finally:
        gc.enable()


def _print(result: Comparison, size: int | None, count: int | None) -> None:
    print(f"\n{result.title}")
    for name, seconds in result.seconds.items():
        figures = f"{seconds * 1e3:10.2f} ms"
        if size is not None:
            figures += f" {size / seconds / 1e9:8.2f} GB/s"
        if count is not None:
            figures += f" {count / seconds:12,.0f} /s"
        ratio = result.ratio(name)
        note = "" if ratio == 1 else f"   we are {ratio:.2f} × as fast"
        print(f"  {name:<{_WIDTH}}{figures}{note}")


def _judge(result: Comparison, goals: Sequence[Goal]) -> None:
    for goal in goals:
        ratio = result.ratio(goal.against)
        line = f"{result.title}: {ratio:.2f} × {goal.against} (goal {goal.at_least:g} ×)"
        met = judged(line, ratio >= goal.at_least)
        print(f"  {met}  {ratio:.2f} of {goal.at_least:g}")


def judged(line: str, met: bool) -> str:
    """Count a goal for the `summary`; the words that say whether it was met."""
    (_met if met else _missed).append(line)
    return "goal met   " if met else "GOAL MISSED"


def header(text: str) -> None:
    """Print what the following comparisons are about."""
    print(f"\n== {text} " + "=" * max(0, 96 - len(text)))


def summary() -> int:
    """Print which goals were met and missed; the number of the missed."""
    print(f"\n{len(_met)} goals met, {len(_missed)} missed")
    for line in _missed:
        print(f"  missed: {line}")
    return len(_missed)
