"""Runs the tests of another project, fetched from its repository, against the embedded service.

No package contains these tests. They are fetched at one commit, unpacked into a temporary folder
and run there by a separate pytest. This repository contains none of them. A list names the tests
that cannot pass, each with a reason; the list itself is checked, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.versions.results import record

BUILD = Path(__file__).resolve().parent.parent.parent / "build"


@dataclass(frozen=True, kw_only=True)
class ForeignSuite:
    """The tests of a project at a commit, and the list of those that cannot pass.

    ``variable`` is the environment variable that names another source than ``repository``, such as
    a folder. ``version`` is that of the installed client. ``root`` is the folder to which the file
    names in the list are relative. ``seconds`` is the time limit of one test.
    """

    name: str
    repository: str
    variable: str
    commit: str
    version: str
    root: str
    seconds: int

    @cached_property
    def left_out(self) -> dict[str, Any]:
        """The list: files that run, files that do not, and tests that cannot pass."""
        text = Path(__file__).with_name(f"{self.name}_left_out.toml").read_text("utf-8")
        return tomllib.loads(text)

    @cached_property
    def cannot_pass(self) -> set[str]:
        """The tests that are left out."""
        return {test for one in self.left_out["left_out"] for test in one["tests"]}

    @cached_property
    def may_pass(self) -> set[str]:
        """The flaky tests, which are left out."""
        listed = (one for one in self.left_out["left_out"] if one.get("unsteady"))
        return {test for one in listed for test in one["tests"]}

    def unpack(self, place: Path, *patterns: str) -> None:
        """Fetch the commit, unless ``build`` has it, and unpack the files of these patterns."""
        kept = BUILD / f"{self.name}-tests.git"
        git = ("git", "--git-dir", str(kept))
        if subprocess.run((*git, "cat-file", "-e", self.commit), capture_output=True).returncode:
            source = os.environ.get(self.variable, self.repository)
            subprocess.run(("git", "init", "--quiet", "--bare", str(kept)), check=True)
            fetch = ("fetch", "--quiet", "--depth", "1", source, self.commit)
            subprocess.run((*git, *fetch), check=True)
        archive = (*git, "archive", self.commit, "--", *(f":(glob){one}" for one in patterns))
        packed = subprocess.run(archive, capture_output=True, check=True).stdout
        subprocess.run(("tar", "-x", "-C", str(place)), input=packed, check=True)

    def run(self, place: Path, env: Mapping[str, str], *options: str) -> dict[str, str]:
        """Run the tests; return each result: ``passed``, or why it did not pass."""
        report = place / "report.xml"
        command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(place)]
        command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--tb=short"]
        command += ["--show-capture=no", f"--timeout={self.seconds}", f"--junitxml={report}"]
        command += [*options, *(f"{self.root}/{file}" for file in self.left_out["run"])]
        with (BUILD / f"{self.name}-tests.log").open("w") as log:
            subprocess.run(command, cwd=place, env=os.environ | env, stdout=log, stderr=log)
        found = dict(self._read(place, report))
        passed = sum(end == "passed" for end in found.values())
        wrong = [test for test, end in found.items() if end != "passed"]
        failed = sum(not is_in(self.cannot_pass, test) for test in wrong)
        files = [
            {"what": ", ".join(f"`{name}`" for name in one["files"]), **one}
            for one in self.left_out["files"]
        ]
        left_out = [*files, *self.left_out["left_out"]]
        ran = f"Its own tests at commit {self.commit[:8]}: {', '.join(self.left_out['run'])}."
        record(self.name, self.version, ran, passed, left_out, failed=failed)
        return found

    def _read(self, place: Path, report: Path) -> Iterator[tuple[str, str]]:
        root = self.root.replace("/", ".") + "."
        for case in ET.parse(report).iter("testcase"):  # our own pytest writes this file
            parts = str(case.get("classname")).removeprefix(root).split(".")
            files = ("/".join(parts[:n]) + ".py" for n in range(len(parts), 0, -1))
            file = next((one for one in files if (place / self.root / one).exists()), parts[0])
            names = (file, *parts[file.count("/") + 1 :], str(case.get("name")))
            told = [child for child in case if child.tag in ("failure", "error", "skipped")]
            end = f"{told[0].tag}: {told[0].get('message')}" if told else "passed"
            yield "::".join(names), end


def is_in(tests: set[str], test: str) -> bool:
    """Return whether the list contains a test, with or without its parameters."""
    return test in tests or test.partition("[")[0] in tests


class SuiteChecks:
    """Checks of a suite and its list. A module subclasses it, and has fixtures with these names.

    ``place`` is the folder with the unpacked tests; ``ends`` has the result of each of them.
    """

    suite: ForeignSuite

    def test_every_file_runs_or_is_excluded(self, place: Path) -> None:
        root, listed = place / self.suite.root, self.suite.left_out
        found = {str(path.relative_to(root)) for path in root.rglob("test_*.py")}
        skipped: Sequence[str] = [name for one in listed["files"] for name in one["files"]]
        assert not {p for p in found - set(listed["run"]) if not p.startswith(tuple(skipped))}
        assert set(listed["run"]) <= found
        assert all(any(file.startswith(name) for file in found) for name in skipped)

    def test_every_test_that_is_not_excluded_passes(self, ends: dict[str, str]) -> None:
        listed = self.suite.cannot_pass
        failed = {t: end for t, end in ends.items() if end != "passed" and not is_in(listed, t)}
        assert not failed, "\n".join(f"{test}: {end}" for test, end in failed.items())

    def test_no_excluded_test_passes(self, ends: dict[str, str]) -> None:
        passed = {test for test, end in ends.items() if end == "passed"}
        listed = {test for test in passed if is_in(self.suite.cannot_pass, test)}
        assert not {test for test in listed if not is_in(self.suite.may_pass, test)}

    def test_every_name_in_the_list_is_the_name_of_a_test(self, ends: dict[str, str]) -> None:
        known = {*ends, *(test.partition("[")[0] for test in ends)}
        assert not self.suite.cannot_pass - known
