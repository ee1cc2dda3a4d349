"""Run every ``bench_*`` module of this directory, each in a separate process.

``python -m benchmarks [NAME …] [--json FILE]`` runs all benchmarks or those named (``wire``,
``tables``); ``--json`` writes all samples to a file. ``--quick`` runs each case once, as `make
nightly` does. Without running benchmarks, ``python -m benchmarks --compare OLD NEW`` reports which
cases became slower between two such files by more than their noise, and ``--summary FILE`` prints
the speed table of docs/performance.md from such a file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._measure import QUICK
from benchmarks._results import LINES, changes, gathered
from benchmarks._summary import table

WORSE = ("slower", "worse", "missed")


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit status is 1 if a benchmark failed or a result became worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to this file")
    parser.add_argument("--quick", action="store_true", help="run each case once, without goals")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"))
    parser.add_argument(
        "--summary", type=Path, metavar="FILE", help="print the table of docs/performance.md"
    )
    options = parser.parse_args(argv)
    if options.summary:
        print(table(json.loads(options.summary.read_text())))
        return 0
    if options.compare:
        return compare(*options.compare)
    if options.quick:
        os.environ[QUICK] = "1"
    if options.json is None:
        return run(options.names)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines")
        lines.touch()
        os.environ[LINES] = str(lines)
        failed = run(options.names)
        document = gathered(lines)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")
    return failed


def run(names: list[str]) -> int:
    """Run the benchmarks; return 1 if one of them failed."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    failed = 0
    for name in [f"bench_{name}" for name in names] or found:
        failed |= subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode
    return failed


def compare(old: Path, new: Path) -> int:
    """Print the changes; return 1 if a result became worse."""
    documents = [json.loads(path.read_text()) for path in (old, new)]
    for path, document in zip((old, new), documents, strict=True):
        where = f"odps_nb {document['odps_nb']}, {document['system']}, load {document['load'][0]}"
        print(f"{path.name}: {document['made']}, {where}")
    found = sorted(changes(*documents), key=lambda one: (one[0] not in WORSE, one))
    for word, line in found:
        print(f"  {word:<8} {line}")
    worse = sum(word in WORSE for word, _ in found)
    print(f"{worse} became worse, {len(found) - worse} better, by more than noise")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
