"""Counts the tests of a module, for `tests.versions.results.record`."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

_OUTCOMES: dict[str, Counter[str]] = defaultdict(Counter)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a test when it ends, and a fixture that fails as a failed test."""
    if report.when == "call" or report.failed:
        _OUTCOMES[report.nodeid.partition("::")[0]][report.outcome] += 1


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Counter[str]:
    """The number of ``passed`` and ``failed`` tests of this module until now."""
    return _OUTCOMES[request.node.nodeid]
