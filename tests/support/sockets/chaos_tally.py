"""What many runs through trouble came to: counted from test reports, also over processes."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

KEY = "chaos"


class ChaosTally:
    """Listens to test reports; shows a table at the end, and how to replay what failed."""

    def __init__(self) -> None:
        self.ends: Counter[tuple[str, str, str]] = Counter()  # kind, trouble, end
        self.struck: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one run."""
        for key, found in report.user_properties:
            if key == KEY and report.when == "call":
                self._count(found, passed=report.passed)
        if report.failed:
            self.failed.append(report.nodeid)

    def _count(self, found: Any, *, passed: bool) -> None:
        kind, trouble, error, struck = found
        end = "FAILED" if not passed else "typed error" if error else "success"
        self.ends[kind, trouble, end] += 1
        self.struck.update(struck)
        if passed and error:
            self.errors[error] += 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table."""
        terminalreporter.section("chaos")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """Return the table, the faults that struck, and one command per failure."""
        shown = [f"{'what':<12}{'trouble':<14}{'success':>9}{'typed error':>13}{'FAILED':>8}"]
        groups = sorted({(kind, trouble) for kind, trouble, _ in self.ends})
        for kind, trouble in groups:
            counts = [self.ends[kind, trouble, end] for end in ("success", "typed error", "FAILED")]
            shown.append("{:<12}{:<14}{:>9}{:>13}{:>8}".format(kind, trouble, *counts))
        totals = [
            sum(count for (_, _, end), count in self.ends.items() if end == wanted)
            for wanted in ("success", "typed error", "FAILED")
        ]
        shown.append("{:<12}{:<14}{:>9}{:>13}{:>8}".format("all", "", *totals))
        shown.append("faults: " + ", ".join(f"{n} {f}" for f, n in self.struck.most_common()))
        shown.append("errors: " + ", ".join(f"{n} {e}" for e, n in self.errors.most_common()))
        shown += [f"replay: {replay(nodeid)}" for nodeid in self.failed]
        return shown


def replay(nodeid: str) -> str:
    """Return the command that makes one run again; its seed is in the test id."""
    nodeid = nodeid.partition("@")[0]  # xdist adds its group
    runs = os.environ.get("ODPS_NB_CHAOS", "10")
    return f"ODPS_NB_CHAOS={runs} .venv/bin/python -m pytest '{nodeid}'"
