"""Run seeds, and print the rate: ``python -m tests.simulation 0-20000``, or a single seed."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter

from tests.simulation.plan import Plan, shrunk
from tests.simulation.scenarios import run_plan, story, verdict


def main(wanted: str, scenario: str = "") -> int:
    """Run a range of seeds, or print the events of one; return the number of wrong histories."""
    logging.disable(logging.WARNING)
    first, _, last = wanted.partition("-")
    if not last:
        world = run_plan(Plan.of(int(first), scenario))
        print(story(world))
        return bool(verdict(world))
    ends: Counter[str] = Counter()
    wrong = []
    began = time.process_time()
    for seed in range(int(first), int(last)):
        world = run_plan(Plan.of(seed))
        error = world.actors[0].error
        ends[type(error).__name__ if error else "well"] += 1
        if verdict(world):
            wrong.append(seed)
    seconds = time.process_time() - began
    count = sum(ends.values())
    print(f"{count:,} histories in {seconds:.1f} s of one core: {count / seconds:,.0f} a second")
    print("ended:", ", ".join(f"{name} {number:,}" for name, number in ends.most_common()))
    print(f"wrong: {len(wrong):,}")
    for seed in wrong[:3]:
        print(story(run_plan(shrunk(Plan.of(seed), lambda plan: bool(verdict(run_plan(plan)))))))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:3])))
