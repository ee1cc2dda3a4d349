"""Report the line and branch coverage of the fuzzed code by the stored corpus.

``.venv/bin/python fuzz/reached.py`` feeds the corpus to all targets under coverage.py and prints
one line per file. Code that no input reaches needs a seed (``fuzz/seeds.py``) or another target.
"""

from __future__ import annotations

import logging
import sys

import coverage
from run import INSTRUMENTED


def feed() -> int:
    """Feed all inputs to their targets; return the number of inputs."""
    from fuzz import kept, targets

    count = 0
    for target in kept.targets():
        for data in kept.inputs(target).values():
            targets.TARGETS[target](data)
            count += 1
    return count


def main() -> int:
    """Run from the command line."""
    logging.disable(logging.WARNING)
    watched = coverage.Coverage(data_file=None, branch=True, source=list(INSTRUMENTED))
    with watched.collect():
        count = feed()
    watched.report(skip_empty=True)
    print(f"{count:,} inputs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
