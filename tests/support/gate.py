"""Hooks for the whole run: distribution of tests, seconds per folder, and leftovers.

`tests/conftest.py` includes them.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest

#: In a JVM that runs for minutes, compilation takes longer than execution; these options halve the
#: time.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
FOLDER = pytest.StashKey[Path]()
#: For a JVM that ends after the process that started it.
PATIENCE = 20.0


# -- distribution of tests to workers -----------------------------------------------------------

#: The tests that share the Spark session; written by a worker, read by the scheduler.
SHARED = "pytest-of-spark"
#: Its tests share a Chromium and a Jupyter server.
BROWSER = "tests/notebook/browser/"


def shares_spark(item: pytest.Item) -> bool:
    return "spark_session" in getattr(item, "fixturenames", ())


def turn(item: pytest.Item) -> int:
    """Return the rank of a test: Spark first, then browser and kernel tests, then the others."""
    long = item.get_closest_marker("browser") or item.get_closest_marker("kernel")
    return 0 if shares_spark(item) else 1 if long else 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with the slowest tests, and record which tests one worker must run."""
    items.sort(key=turn)  # services.py repeats this after pytest has grouped them by services
    leave_cases_to_nightly(items)
    leave_services_to_nightly(items)
    if getattr(config, "workerinput", {}).get("workerid") == "gw0":
        names = [item.nodeid for item in items if shares_spark(item)]
        Path(os.environ["TMPDIR"], SHARED).write_text("\n".join(names), "utf-8")


def leave_cases_to_nightly(items: list[pytest.Item]) -> None:
    """Mark as nightly all but n cases of a function marked ``gate(n)``, evenly spread.

    In a module marked ``every_service``, these are n cases for each set of services.
    """
    cases: dict[tuple[Path, str, object], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("gate") and not item.get_closest_marker("nightly"):
            spec = getattr(item, "callspec", None)
            services = None if spec is None else spec.params.get("services")
            cases.setdefault((item.path, item.nodeid.partition("[")[0], services), []).append(item)
    for found in cases.values():
        (count,) = found[0].get_closest_marker("gate").args
        kept = {round(number * (len(found) - 1) / max(count - 1, 1)) for number in range(count)}
        for number, item in enumerate(found):
            if number not in kept:
                item.add_marker("nightly")


def leave_services_to_nightly(items: list[pytest.Item]) -> None:
    """Mark as nightly all but one set of services of each case marked ``every_service(in_turn)``.

    The next case keeps the next set, so that the cases of a module together use all sets.
    """
    cases: dict[tuple[object, ...], list[pytest.Item]] = {}
    for item in items:
        mark, spec = item.get_closest_marker("every_service"), getattr(item, "callspec", None)
        if mark and mark.kwargs.get("in_turn") and spec and not item.get_closest_marker("nightly"):
            case = [(name, id(value)) for name, value in spec.params.items() if name != "services"]
            function = item.nodeid.partition("[")[0]
            cases.setdefault((item.path, function, *sorted(case)), []).append(item)
    for number, sets in enumerate(cases.values()):
        for place, item in enumerate(sets):
            if place != number % len(sets):
                item.add_marker("nightly")


def pytest_collection_finish() -> None:
    """Exclude the collected tests, a million objects, from every later garbage collection."""
    gc.collect()
    gc.freeze()


#: The file whose tests are running.
BEGUN = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Exclude objects of earlier files from later collections, each of which took seconds.

    Cycles that fixtures of these files left are collected first. A cycle that becomes unreachable
    later is collected only at the end of the session, by pytest.
    """
    if item.session.stash.get(BEGUN, None) != item.path:
        item.session.stash[BEGUN] = item.path
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Collect cycles that tests have left, so that later tests do not fail because of them.

    Each file must not leave garbage to the next one. A test that may leave a socket unclosed
    filters the warning, but only until its end, so a later test would fail.
    """
    of_file = nextitem is None or nextitem.path != item.path
    marks = item.iter_markers("filterwarnings")
    if of_file or any("ResourceWarning" in text for mark in marks for text in mark.args):
        gc.collect()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let ``--dist loadfile`` give one worker all tests that share the Spark session or browser.

    pytest 9.2 does not keep the suffix that ``--dist loadgroup`` adds to test ids.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduler(LoadFileScheduling):
        @cached_property
        def _shared(self) -> set[str]:
            return set((config.stash[FOLDER] / SHARED).read_text("utf-8").split("\n"))

        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(BROWSER):
                return BROWSER
            return "spark" if nodeid in self._shared else super()._split_scope(nodeid)

    return Scheduler(config, log) if config.getoption("dist") == "loadfile" else None


# -- seconds per folder -------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print tests and seconds per folder; fixtures count where they are first set up."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = report.nodeid.partition("::")[0].rpartition("/")[0]
                folder = "/".join(folder.split("/")[:2])
                seconds[folder] += report.duration
                tests[folder] += report.when == "call"
    if len(seconds) > 1:
        terminalreporter.section("seconds and tests by folder")
        for folder, spent in seconds.most_common():
            terminalreporter.write_line(f"{spent:8.1f} {tests[folder]:6d}  {folder}")
        terminalreporter.write_line(f"{seconds.total():8.1f} {tests.total():6d}  in all")


# -- leftover files and processes ---------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give the run its own temporary folder, which all of its processes inherit."""
    if hasattr(config, "workerinput"):
        tempfile.tempdir = None
        return
    folder = tempfile.mkdtemp(prefix="odps-nb-tests-")
    config.stash[FOLDER] = Path(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    # Java ignores TMPDIR. Spark does not print the options in these variables, unlike
    # JAVA_TOOL_OPTIONS.
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ[name] = f"-Djava.io.tmpdir={folder} {QUICK}"
    os.environ["SPARK_LOCAL_DIRS"] = folder
    found = importlib.util.find_spec("pyspark")
    if found is not None:  # some environments in noxfile.py do not have it
        os.environ["SPARK_HOME"] = str(compiled_spark(Path(folder), Path(str(found.origin)).parent))


def compiled_spark(folder: Path, installed: Path) -> Path:
    """Create a Spark home whose Python processes import pyspark from its installed location.

    The home in the package puts `pyspark.zip` first, from which each Python process compiles the
    same modules again: half a second, six times as long as from files.
    """
    home = folder / "pytest-of-spark-home"
    home.mkdir()
    for part in ("bin", "jars", "sbin"):
        (home / part).symlink_to(installed / part)
    return home


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail a run that leaves files in its temporary folder, or running processes."""
    yield
    gc.unfreeze()
    folder = session.config.stash.get(FOLDER, None)
    if folder is None:
        return
    deadline = time.monotonic() + PATIENCE
    while (left := left_behind(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)  # there is no notification when a process that is not a child has ended
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for name in left:
        reporter.write_line(f"left behind: {name}", red=True)
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if session.exitstatus == pytest.ExitCode.TESTS_FAILED:
        reporter.write_line(f"kept for inspection: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def left_behind(folder: Path) -> list[str]:
    """Return what is in the folder except pytest's own files, and processes that use the folder."""
    # The last two are from Spark 4.0 and 4.1: files that a JVM unpacks, and leaves if it is killed.
    kept = ("pytest-of-", "hsperfdata_", "liblz4-java-", "spark_connect_model_cache")
    left = [str(path) for path in folder.iterdir() if not path.name.startswith(kept)]
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("TMPDIR") == str(folder):
                left.append(f"process {process.pid}: {' '.join(process.cmdline())[:200]}")
        except psutil.Error:  # it has ended, or belongs to another user
            continue
    return left
