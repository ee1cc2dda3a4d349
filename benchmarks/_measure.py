"""The harness of all benchmarks: cases in the same run, medians, ratios.

Rounds are interleaved (ours, peer, limit, ours, peer, …), so that other load on the machine affects
all cases equally. A sample repeats the work until it takes a twentieth of a second. Work that never
waits can be timed by the processor time of this process (``clock``), which excludes other
processes. Each benchmark checks that both sides return the same data before it measures time.

In addition to the elapsed time, the processor time of this process is measured, including all
threads, because a client may be fast only by using more cores. ``--json`` saves all samples.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks._results import keep

__all__ = ["Case", "Comparison", "Goal", "compare", "figure", "header", "judged", "summary"]

QUICK = "ODPS_NB_BENCH_QUICK"
"""Environment variable: run each case once, to check that the benchmark still works."""
MIN_SAMPLE = 0.05
_WIDTH = 44
_missed: list[str] = []
_met: list[str] = []


@dataclass(frozen=True)
class Case:
    """One way to do the work; ``run`` does the work once."""

    name: str
    run: Callable[[], object]


@dataclass(frozen=True)
class Goal:
    """The first case must be ``at_least`` times as fast as the case named ``against``."""

    against: str
    at_least: float


@dataclass(frozen=True)
class Comparison:
    """The result: median seconds per case, in the order of the cases.

    ``processor``: processor seconds of this process in all its threads.
    """

    title: str
    seconds: dict[str, float] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)

    def ratio(self, against: str) -> float:
        """Return how many times as fast the first case is."""
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
        Name of the work.
    cases
        Our case first; the ratios refer to it.
    rounds
        Number of samples per case.
    size, count
        Bytes and items of the work, for figures per second.
    goals
        Goals for the first case.
    clock
        `time.process_time` for work that runs only in this process and never waits.
    """
    samples: dict[str, list[float]] = {case.name: [] for case in cases}
    processor: dict[str, list[float]] = {case.name: [] for case in cases}
    is_quick = QUICK in os.environ
    repeats = {case.name: 1 if is_quick else _repeats(case, clock) for case in cases}
    for turn in range(1 if is_quick else rounds):
        for case in cases[turn % len(cases) :] + cases[: turn % len(cases)]:
            seconds, used = _sample(case, repeats[case.name], clock)
            samples[case.name].append(seconds)
            processor[case.name].append(used)
    keep("times", title=title, seconds=samples, processor=processor)
    result = Comparison(title, _medians(samples), _medians(processor))
    _print(result, size, count)
    _judge(result, goals)
    return result


def _medians(samples: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(times) for name, times in samples.items()}


def _repeats(case: Case, clock: Callable[[], float]) -> int:
    once, _ = _sample(case, 1, clock)  # also warms up
    return max(1, round(MIN_SAMPLE / once)) if once < MIN_SAMPLE else 1


def _sample(case: Case, repeats: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Return the elapsed and the processor seconds of one repetition."""
    gc.collect()
    gc.disable()
    try:
        used, start = time.process_time(), clock()
        for _ in range(repeats):
            case.run()
        return (clock() - start) / repeats, (time.process_time() - used) / repeats
    finally:
        gc.enable()


def _print(result: Comparison, size: int | None, count: int | None) -> None:
    print(f"\n{result.title}")
    for name, seconds in result.seconds.items():
        figures = f"{seconds * 1e3:10.2f} ms {result.processor[name] * 1e3:9.1f} ms CPU"
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
        title = f"{result.title}, beside {goal.against}"
        met = judged(line, ratio >= goal.at_least, title=title)
        print(f"  {met}  {ratio:.2f} of {goal.at_least:g}")


def judged(line: str, met: bool, *, title: str | None = None) -> str:
    """Record whether a goal was met, for the `summary`; return the result in words.

    ``title`` names the goal without its figures; by default the text before the first colon.
    """
    (_met if met else _missed).append(line)
    keep("goal", title=title or line.partition(":")[0], line=line, met=bool(met))
    return "goal met   " if met else "GOAL MISSED"


def figure(
    title: str, value: float, unit: str, *, wanted: Literal["less", "more"] = "less"
) -> None:
    """Record a single measurement, such as a peak of memory, without printing it."""
    keep("figure", title=title, value=value, unit=unit, wanted=wanted)


def header(text: str) -> None:
    """Print a heading for the following comparisons."""
    print(f"\n== {text} " + "=" * max(0, 96 - len(text)))


def summary() -> int:
    """Print the goals that were met and missed; return the number of missed goals.

    A quick run judges no goals and returns 0.
    """
    if QUICK in os.environ:
        return 0
    print(f"\n{len(_met)} goals met, {len(_missed)} missed")
    for line in _missed:
        print(f"  missed: {line}")
    return len(_missed)
