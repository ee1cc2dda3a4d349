"""Run every ``bench_*`` module of this directory, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run all, or those named on the command line (``python -m benchmarks wire``)."""
    wanted = [f"bench_{name}" for name in sys.argv[1:]]
    found = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    failed = 0
    for name in wanted or found:
        failed |= subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
