"""Plays a range of seeds and says how fast: ``python -m tests.simulation 100000 [FIRST]``."""

from __future__ import annotations

import gc
import logging
import sys
import time

from tests.simulation.scenarios import simulate
from tests.simulation.shrinking import plan_of, shrunk, story
from tests.simulation.world import greenlets_for_threads


def main(count: int, first: int = 0) -> int:
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.set_threshold(50_000)
    began, failed = time.process_time(), 0
    with greenlets_for_threads():
        for seed in range(first, first + count):
            history = simulate(plan_of(seed))
            if history.verdict:
                failed += 1
                print(f"SEED {seed}\n{story(shrunk(history))}\n", flush=True)
                if failed == 5:
                    break
    seconds = time.process_time() - began
    played = seed + 1 - first
    print(f"{played:,} histories in {seconds:.1f} s of one core: {played / seconds:,.0f} a second")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
