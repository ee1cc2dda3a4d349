"""Each benchmark still runs: ``python -m benchmarks --quick``."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = sorted(path.stem.removeprefix("bench_") for path in (ROOT / "benchmarks").glob("bench_*"))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_ends_without_an_error(name: str) -> None:
    command = [sys.executable, "-m", "benchmarks", name, "--quick"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
