"""Tells how much of the code that is fuzzed the kept corpus reaches, lines and branches.

``.venv/bin/python fuzz/reached.py`` feeds the corpus to all targets under coverage.py, and prints a
line for each file; name another folder of corpora to compare. Code that no input reaches needs a
seed (``fuzz/seeds.py``) or another target.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import coverage
from run import CORPUS, INSTRUMENTED, ROOT


def feed(corpus: Path) -> int:
    """Feed all inputs to their targets; return how many there were."""
    import targets

    count = 0
    for path in sorted(path for path in corpus.rglob("*") if path.is_file()):
        targets.TARGETS[path.parent.name](path.read_bytes())
        count += 1
    return count


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=CORPUS)
    corpus = parser.parse_args().corpus
    if not corpus.is_dir():
        parser.error(f"there is no folder {corpus}")
    logging.disable(logging.WARNING)
    watched = coverage.Coverage(data_file=None, branch=True, source=list(INSTRUMENTED))
    sys.path.insert(0, str(ROOT))
    with watched.collect():
        count = feed(corpus)
    watched.report(skip_empty=True)
    print(f"{count:,} inputs of {corpus}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
