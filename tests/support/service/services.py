"""A plugin that chooses which transfer services the embedded services of a run have.

``pytest --services tunnel`` runs tests against accounts without the Storage API. Modules marked
``every_service`` run for each set in `SETS` in every run. Tests marked ``storage_api`` need the
Storage API; without it, they are deselected, and the summary counts them by reason.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.gate import turn

if TYPE_CHECKING:
    from odps_nb.local.server.launch import LocalService

ALL = "storage,storage-v1,tunnel"
#: The sets of services for which modules marked ``every_service`` run.
SETS = (ALL, "tunnel", "storage-v1,tunnel")
#: Why a test needs the Storage API, and whether version 1 is enough. This list may only shrink.
REASONS = {
    "blobs": False,
    "versions": False,  # snapshots and incremental reads
    "its requests": False,  # a test of its paths, bodies, sessions or number of requests
    "resumable writes": False,  # streams that another process continues
    "far times": True,  # the tunnel transfers nanoseconds only
}
_LEFT_OUT = pytest.StashKey[Counter[str]]()
_WORKER_KEY = "without_storage_api"
#: The names that ``--services`` gave, those of the fixture, and those of services started now.
_given = _of_fixture = _in_use = ALL
#: The last lines of stderr of each service started in this process.
_said: list[deque[str]] = []


# -- services ---------------------------------------------------------------------------------


def by_storage_api() -> bool:
    """Return whether the Storage API, version 2 or 3, transfers the rows."""
    return "storage" in _in_use.split(",")


def by_tunnel() -> bool:
    """Return whether the tunnel transfers the rows, because there is no Storage API."""
    return _in_use == "tunnel"


@contextmanager
def using(names: str) -> Iterator[None]:
    """Start embedded services with these services only."""
    global _in_use
    before, _in_use = _in_use, names
    try:
        yield
    finally:
        _in_use = before


def _recorded(drain: Callable[..., Any]) -> Callable[..., Any]:
    """Return `drain`, which reads the stderr of a service, and keep the lines for failed tests."""

    @wraps(drain)
    def drained(stream: Any) -> Any:
        lines, reader = drain(stream)
        _said.append(lines)
        return lines, reader

    return drained


def _with_services(start: Callable[..., LocalService]) -> Callable[..., LocalService]:
    """Return `start` with the services in use, unless a caller names others."""

    @wraps(start)
    def started(*args: Any, options: tuple[str, ...] = (), **more: Any) -> LocalService:
        if _in_use != ALL and "--services" not in options:
            options = ("--services", _in_use, *options)
        return start(*args, options=options, **more)

    return started


class Pool:
    """The shared services of the run, for each set of transfer services, started when needed."""

    def __init__(self, stack: ExitStack) -> None:
        self._running: dict[Any, LocalService] = {}
        self._stack = stack

    def get(self, **options: Any) -> LocalService:
        """Return the service with the services in use and these arguments of ``launch.start``."""
        from odps_nb.local.server import launch

        key = (_in_use, *sorted(options.items()))
        if key not in self._running:
            self._running[key] = self._stack.enter_context(launch.start(**options))
        return self._running[key]


@pytest.fixture(scope="session")
def _pool(_private_home: None) -> Iterator[Pool]:
    with ExitStack() as stack:
        yield Pool(stack)


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> str:
    """The transfer services of the embedded services that this test uses."""
    global _of_fixture, _in_use
    _of_fixture = _in_use = getattr(request, "param", _given)
    return _in_use


@pytest.fixture(scope="session")
def service_pool(services: str, _pool: Pool) -> Pool:
    """The shared services; fixtures that depend on it change with ``services``."""
    return _pool


# -- hooks ------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--services",
        metavar="NAMES",
        help=f"transfer services of every embedded service, separated by commas (default: {ALL}); "
        "tests marked storage_api are deselected without 'storage'",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Replace the function that starts services before test modules import it."""
    global _given, _of_fixture, _in_use
    from odps_nb.local.server import launch

    if names := config.getoption("--services"):
        if unknown := set(names.split(",")) - set(ALL.split(",")):
            raise pytest.UsageError(f"--services: {unknown.pop()!r} must be one of {ALL}")
        _given = _of_fixture = _in_use = names
    launch.start = _with_services(launch.start)
    launch._drain = _recorded(launch._drain)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Use the names of ``--services`` for a test without the fixture `services`.

    The fixture keeps its value until a test needs another one.
    """
    global _in_use
    _in_use = _of_fixture if "services" in getattr(item, "fixturenames", ()) else _given
    for lines in _said:
        lines.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the embedded services wrote to stderr during a test that failed."""
    report = yield
    if report.failed:
        report.sections += [
            ("stderr of an embedded service", "\n".join(one)) for one in _said if one
        ]
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of a module marked ``every_service`` for each set of services."""
    definition = metafunc.definition
    if definition.get_closest_marker("every_service") is None or _given != ALL:
        return
    if "services" not in metafunc.fixturenames:
        metafunc.fixturenames.append("services")
    sets = SETS
    if (mark := definition.get_closest_marker("storage_api")) is not None:
        sets = tuple(one for one in SETS if _enough(mark.args[0], one))
    metafunc.parametrize("services", sets, indirect=True, scope="session", ids=_short)


def _enough(reason: str, services: str) -> bool:
    """Return whether a test with this reason runs with these services."""
    names = services.split(",")
    return "storage" in names or (REASONS[reason] and "storage-v1" in names)


def _short(names: str) -> str:
    return "all" if names == ALL else names.partition(",")[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that need the Storage API from a run without it."""
    left_out: list[pytest.Item] = []
    reasons: Counter[str] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("storage_api")) is None:
            continue
        (reason,) = mark.args
        if reason not in REASONS:
            raise pytest.UsageError(f"{item.nodeid}: unknown reason {reason!r} of storage_api")
        if not _enough(reason, _given):
            left_out.append(item)
            reasons[reason] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        without = set(left_out)
        items[:] = [item for item in items if item not in without]
    items.sort(key=turn)  # pytest has grouped tests of several files by services
    config.stash[_LEFT_OUT] = reasons
    if (output := getattr(config, "workeroutput", None)) is not None:
        output[_WORKER_KEY] = dict(reasons)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the number of deselected tests from a worker; each collects all tests."""
    if reasons := (getattr(node, "workeroutput", None) or {}).get(_WORKER_KEY):
        node.config.stash[_LEFT_OUT] = Counter(reasons)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how many tests were deselected because they need the Storage API."""
    reasons = config.stash.get(_LEFT_OUT, Counter())
    if reasons:
        terminalreporter.section(f"deselected, because there is only {_given}")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:6d}  {reason}")
        terminalreporter.write_line(f"{reasons.total():6d}  in all")
