from __future__ import annotations

import re
from contextlib import ExitStack

import pytest

from odps_nb import load_ipython_extension
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.html import escape
from odps_nb.notebook.progress.cards import CardListener, card_html
from odps_nb.notebook.progress.operations import MAX_OPERATIONS, Operations
from tests.support.service.connecting import connected
from tests.support.service.services import ALL
from tests.support.shell import run


def test_operations_are_numbered_and_the_oldest_is_dropped():
    operations = Operations()
    for i in range(MAX_OPERATIONS + 3):
        operations.add(ProgressTracker("read", f"t{i}"))
    kept = operations.all()
    assert [one.number for one in kept] == list(range(4, MAX_OPERATIONS + 4))
    assert operations.find(3) is None
    assert operations.find(4).tracker.snapshot().title == "t3"


def test_the_status_shows_state_rows_and_ids_of_operations():
    operations = Operations()
    with ProgressTracker("read", "orders") as tracker:
        operations.add(tracker)
        tracker.plan(session_id="s1", rows_total=10)
        tracker.add(rows=10)
        tracker.request("r1")
    (row,) = operations.listing()
    assert row[:2] == (1, "read orders")
    assert row[2].startswith("done in")
    assert row[3:] == ("10 rows", "session s1 · request r1")


def test_the_status_lists_operations_of_python_calls(shell):
    load_ipython_extension(shell)
    with ProgressTracker("read", "orders", listener=CardListener()):
        pass
    operations = shell.magics_manager.registry["OdpsMagics"].operations
    assert [one.tracker.snapshot().title for one in operations.all()] == ["orders"]


def test_a_progress_card_works_without_the_extension(shell):
    with ProgressTracker("read", "orders", listener=CardListener()) as tracker:
        tracker.add(rows=1)
    assert tracker.snapshot().rows == 1


# -- the service that transfers rows ----------------------------------------------------------

READ = "%odps read orders -c id -p ds=2024-01-01 -n 3"


@pytest.fixture
def account_shell(shell, service_pool):
    """Return a function that connects the shell to an account with these transfer services."""
    load_ipython_extension(shell)
    with ExitStack() as stack:

        def connect(names: str, **more: str):
            service = service_pool.get(options=("--services", names, "--form", "refusal=quota"))
            odps = stack.enter_context(connected(service, **more))
            shell.magics_manager.registry["OdpsMagics"].context.use(odps, owned=False)
            return shell

        yield connect


def test_status_names_the_service_that_transfers_rows_and_the_reason_once(account_shell):
    shell = account_shell("tunnel")
    run(shell, READ)
    run(shell, READ)
    listing = run(shell, "%odps status")
    line, headers, *rows = listing.text().splitlines()
    why = r"InvalidArgument: the quota '\w+' does not support open storage, request id \w+"
    assert re.fullmatch(
        rf"service for rows: tunnel \(Storage API: {why}; Storage API v1: {why}\)", line
    )
    assert headers.startswith("id  operation")
    assert len(rows) == 2
    assert listing.text().count("does not support") == 2  # one reason for each service
    html = listing.html()
    assert html.count("does not support") == 2
    assert "<script" not in html
    profile = shell.magics_manager.registry["OdpsMagics"].context.connection.profile
    assert profile.access_key not in listing.text() + html


def test_status_names_the_storage_api_without_a_reason(account_shell):
    shell = account_shell(ALL)
    assert run(shell, "%odps status").text() == "service for rows: Storage API\nno operations yet"
    run(shell, READ)
    assert run(shell, "%odps status").text().splitlines()[0] == "service for rows: Storage API"


def test_status_says_that_the_tunnel_was_chosen(account_shell):
    line = run(account_shell(ALL, transfer="tunnel"), "%odps status").caption
    assert line == "service for rows: tunnel (transfer='tunnel' was chosen)"


def test_status_without_a_connection_does_not_connect(shell):
    load_ipython_extension(shell)
    assert run(shell, "%odps status").text() == "no operations yet"


QUERY = "%%odps sql\nselect id from orders where ds = '2024-01-01' limit 3"


@pytest.mark.parametrize(("cell", "refusals"), [(READ, 2), (QUERY, 1)], ids=["read", "sql"])
def test_the_card_of_the_first_operation_says_why_another_service_is_used(
    account_shell, cell, refusals
):
    shell = account_shell("tunnel")
    run(shell, cell)
    run(shell, cell)
    operations = shell.magics_manager.registry["OdpsMagics"].operations.all()
    snapshots = [one.tracker.snapshot() for one in operations]
    noted = [line for one in snapshots for line in one.events if "transferred by" in line]
    assert len(noted) == 1
    first = next(one for one in snapshots if noted[0] in one.events)
    folded = card_html(first).partition("<details")[2]
    assert escape(noted[0]) in folded
    assert len(re.findall(r"support open storage, request id \w+", folded)) == refusals
    assert folded.count("transferred by the tunnel, because the Storage API refused:") == 1


def test_doctor_checks_each_service(account_shell):
    listing = run(account_shell("tunnel"), "%odps doctor")
    found = {name: (state, what) for name, state, what, _ in listing}
    assert found["Storage API"][0] == found["Storage API v1"][0] == "–"
    assert found["Tunnel"] == ("ok", "a download session of local.types_all, 8 rows")
    assert found["Rows"] == ("ok", "a new connection transfers rows by the tunnel")
