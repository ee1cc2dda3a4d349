"""Run coverage-guided fuzzing (atheris) of all parsers of untrusted bytes for a given time.

``.venv/bin/python fuzz/run.py --seconds 60`` divides the time among all targets, or among those
named. The archives of ``fuzz/corpus`` are unpacked into ``build/fuzz``; ``--keep`` packs the
smallest set of inputs with the same coverage. An input that violates an invariant is saved as
``build/fuzz/<target>-crash-…`` and makes the run fail: fix the fault and move the input to
``build/fuzz/<target>`` before you run with ``--keep``. Needs the ``fuzz`` extra.

Native code cannot be guided, and crashes its process instead of raising an error. The
``mutate_*.py`` files in this folder damage its input in separate processes; they run last.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from fuzz import kept  # noqa: E402 - after the path

WORK = ROOT / "build" / "fuzz"
LARGEST = 6000
INSTRUMENTED = (
    "odps_nb.wire",
    "odps_nb.http.body",
    "odps_nb.filters",
    "odps_nb.client.sql",
    "odps_nb.local.routes",
    "odps_nb.local.sql",
    "odps_nb.local.reading.predicates",
    "odps_nb.formats.kinds",
)
"""Packages whose branches guide the fuzzer."""


def child(name: str, flags: list[str]) -> None:
    """Fuzz one target in this process; never returns."""
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from fuzz import targets
    # For a merge, libFuzzer runs its first argument again in a shell.
    command = f"{sys.executable} {Path(__file__)} --child {name}"
    atheris.Setup([command, *flags], targets.TARGETS[name])
    atheris.Fuzz()


def start(name: str, flags: list[str]) -> tuple[int, str]:
    """Run a child process with libFuzzer's flags; return its exit status and output."""
    command = [sys.executable, str(Path(__file__)), "--child", name, *flags]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode("utf-8", "replace")
    (WORK / f"{name}.log").write_text(said, encoding="utf-8")
    return done.returncode, said


def fuzz(name: str, seconds: float) -> int:
    """Fuzz a target for some seconds, starting from the stored corpus and earlier findings."""
    found = WORK / name
    found.mkdir(parents=True, exist_ok=True)
    flags = [f"-max_total_time={max(1, round(seconds))}", f"-max_len={LARGEST}", "-timeout=20"]
    flags += [f"-artifact_prefix={WORK / name}-", "-print_final_stats=1", "-verbosity=0"]
    status, said = start(name, [*flags, str(found), str(kept.unpack(name, WORK / "kept" / name))])
    runs, new = _statistic(said, "number_of_executed_units"), _statistic(said, "new_units_added")
    print(f"{name:14} {runs:>9} runs, {new:>5} inputs that reach new code", flush=True)
    if status:
        print("\n".join(said.splitlines()[-40:]), flush=True)
    return status


def _statistic(said: str, name: str) -> str:
    found = re.search(rf"stat::{name}:\s*(\d+)", said)
    return found[1] if found else "?"


def keep(name: str) -> int:
    """Pack the smallest set of inputs that reaches all of the code reached so far."""
    before, merged = kept.unpack(name, WORK / "kept" / name), WORK / "merged" / name
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    status, _ = start(
        name, ["-merge=1", "-verbosity=0", str(merged), str(before), str(WORK / name)]
    )
    if status == 0:
        kept.pack(name, merged)
    return status


def mutators() -> dict[str, Path]:
    """Return the programs that damage the input of native code, by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("mutate_*.py"))}


def mutate(program: Path, seconds: float) -> int:
    """Run one of these programs for some seconds with a random seed."""
    seed = random.randrange(1 << 31)
    command = [sys.executable, str(program), "--seconds", str(seconds), "--seed", str(seed)]
    print(f"{program.stem}, seed {seed}", flush=True)
    return subprocess.run(command, cwd=ROOT).returncode


def main() -> int:
    """Run from the command line."""
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="total time for all targets")
    parser.add_argument("--keep", action="store_true", help="pack the inputs that reach new code")
    parser.add_argument("targets", nargs="*", help="targets to run (default: all)")
    options = parser.parse_args()
    programs = mutators()
    names = options.targets or [*kept.targets(), *programs]
    failed = []
    for name in names:
        if name in programs:
            if mutate(programs[name], options.seconds / len(names)):
                failed.append(name)
        elif fuzz(name, options.seconds / len(names)):
            failed.append(name)
        elif options.keep:
            keep(name)
    print(f"{len(names) - len(failed)} targets passed" + (f", failed: {failed}" if failed else ""))
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
