"""`make nightly`: the checks before a release that take too long for every change.

Each step runs to its end, even if others fail; `docs/results/nightly.md` contains the results.
The page keeps the latest result of each step, with the commit that the step ran on.

    python tools/nightly.py [STEP …]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results" / "nightly.md"
KEPT = ROOT / "build" / "nightly.json"  # the steps on the page
VERSIONS = ROOT / "build" / "versions.json"  # the result of each row of noxfile.py
NOT_RUN = "not run: a program that it needs is not installed"
PYTEST = (sys.executable, "-m", "pytest", "-n", "2", "-rN", "--tb=short")
#: Suites that also run on accounts that lack the Storage API, or have version 1 only. The tests of
#: browsers are omitted, because the front end gets the same messages with every service.
SUITES = (
    "tests/access",
    "tests/client",
    "tests/filters",
    "tests/notebook",
    "tests/properties",
    "tests/spark",
    "tests/test_far_times.py",
    "tests/test_round_trip.py",
    "tests/test_types_and_times.py",
    "tests/test_wide_schemas.py",
    *("--ignore", "tests/notebook/browser"),
)
APART = ("hosts", "spark", "sweep")
"""Folders of `tests` that have a step of their own."""
LOADFILE = ("--dist", "loadfile", "--no-loadscope-reorder", "--timeout", "1200")

#: A command, and environment variables for it.
STEPS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    # the tests of `make test`, and those marked `nightly`; each of these steps takes up to an hour
    "tests": ((*PYTEST, *LOADFILE, *(f"--ignore=tests/{name}" for name in APART)), {}),
    "spark": ((*PYTEST, *LOADFILE, "tests/spark"), {}),
    # its cases mostly wait
    "sweep": ((*PYTEST, "-n", "8", "--dist", "load", "--timeout", "1200", "tests/sweep"), {}),
    "tunnel": ((*PYTEST, *LOADFILE, "--services", "tunnel", *SUITES), {}),
    "storage-v1": ((*PYTEST, *LOADFILE, "--services", "storage-v1,tunnel", *SUITES), {}),
    "typed": ((sys.executable, "tools/public_types.py"), {}),
    "hosts": ((sys.executable, "-m", "nox", "-s", "hosts"), {}),
    "versions": ((sys.executable, "-m", "nox", "-t", "versions", "--report", str(VERSIONS)), {}),
}


@dataclass
class Folder:
    """The results of the tests of one folder."""

    tests: int = 0
    seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


@dataclass
class Step:
    """The result of a step; ``folders`` if the step ran pytest."""

    name: str
    passed: bool
    seconds: float
    tested: str  # the date and commit
    folders: dict[str, Folder] = field(default_factory=dict)


def run(name: str, tested: str, place: Path) -> Step:
    command, variables = STEPS[name]
    report = place / f"{name}.xml"
    if "pytest" in command:
        command = (*command, f"--junitxml={report}")
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables})
    seconds = time.monotonic() - began
    folders = counted(report) if report.exists() else {}
    return Step(name, done.returncode == 0, seconds, tested, folders)


def counted(report: Path) -> dict[str, Folder]:
    """Sum a report of pytest by folder of `tests`."""
    folders: dict[str, Folder] = defaultdict(Folder)
    for case in ET.parse(report).iter("testcase"):  # written by pytest
        parts = (case.get("classname") or "tests").split(".")
        inside = len(parts) > 1 and not parts[1].startswith("test_")
        folder = folders["/".join(parts[:2]) if inside else parts[0]]
        folder.tests += 1
        folder.seconds += float(case.get("time") or 0)
        ends = {child.tag for child in case} & {"failure", "error", "skipped"}
        if ends & {"failure", "error"}:
            folder.failed.append(f"{case.get('classname')}::{case.get('name')}")
        end = min(ends, default="passed")
        folder.outcomes[end] = folder.outcomes.get(end, 0) + 1
    return dict(sorted(folders.items()))


def keep(steps: dict[str, Step]) -> None:
    """Write the page, and the results that a later run adds to."""
    ordered = [steps[name] for name in STEPS if name in steps]
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps([asdict(one) for one in ordered]), "utf-8")
    PAGE.write_text(page(ordered), "utf-8")


def earlier_steps() -> dict[str, Step]:
    """Return the results of earlier runs in this checkout."""
    steps = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else []
    for one in steps:
        one["folders"] = {name: Folder(**of) for name, of in one["folders"].items()}
    return {one["name"]: Step(**one) for one in steps}


def page(steps: list[Step]) -> str:
    """Return the page with the results of these steps."""
    where = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    lines = ["# The last nightly run", "", "Written by `make nightly`; see CONTRIBUTING.md.", ""]
    lines += [f"{where}.", "", "| step | outcome | seconds | run |", "|---|---|---|---|"]
    words = {True: "passed", False: "**failed**"}
    lines += [
        f"| {one.name} | {words[one.passed]} | {one.seconds:.0f} | {one.tested} |" for one in steps
    ]
    lines += [f"| {name} | not run | | |" for name in STEPS if name not in {s.name for s in steps}]
    for one in steps:
        if one.folders:
            lines += ["", f"## {one.name}", "", "| folder | tests | seconds | outcome |"]
            lines += ["|---|---|---|---|"]
            lines += [row(name, folder) for name, folder in one.folders.items()]
            failed = [name for folder in one.folders.values() for name in folder.failed]
            lines += ["", "Failed:", "", *(f"- `{name}`" for name in failed)] if failed else []
            if not (one.passed or failed):
                lines += ["", "No test failed. The output has the reason, e.g. files left behind."]
    if VERSIONS.exists() and any(one.name == "versions" for one in steps):
        lines += ["", "## versions", "", "| row | outcome |", "|---|---|"]
        for one in json.loads(VERSIONS.read_text("utf-8"))["sessions"]:
            told = NOT_RUN if one["result"] == "skipped" else one["result"]
            lines.append(f"| {one['signature']} | {told} |")
    return "\n".join(lines) + "\n"


def state() -> str:
    """Return the commit, and whether any file except the written pages has changed since."""
    words = (
        ("rev-parse", "--short", "HEAD"),
        ("status", "--short", "--", ".", f":!{PAGE.parent.relative_to(ROOT)}"),
    )
    commit, changes = (
        subprocess.run(("git", *one), cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for one in words
    )
    return commit.strip() + (" and changes" if changes else "")


def row(name: str, folder: Folder) -> str:
    told = ", ".join(f"{count} {end}" for end, count in sorted(folder.outcomes.items()))
    return f"| {name} | {folder.tests} | {folder.seconds:.0f} | {told} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; all")
    wanted = parser.parse_args().steps or list(STEPS)
    if unknown := set(wanted) - set(STEPS):
        parser.error(f"unknown step {' or '.join(sorted(unknown))}; the steps are: {[*STEPS]}")
    tested = f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}, commit {state()}"
    steps = earlier_steps()
    with tempfile.TemporaryDirectory() as place:
        for name in STEPS:
            if name in wanted:
                steps[name] = run(name, tested, Path(place))
                keep(steps)  # after each step, so that an interrupt keeps the results
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0 if all(steps[name].passed for name in wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
