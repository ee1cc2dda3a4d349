from __future__ import annotations

from odps_nb import load_ipython_extension
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.notebook.progress.cards import CardListener
from odps_nb.notebook.progress.operations import MAX_OPERATIONS, Operations


def test_operations_are_numbered_and_the_oldest_is_forgotten():
    operations = Operations()
    for i in range(MAX_OPERATIONS + 3):
        operations.add(ProgressTracker("read", f"t{i}"))
    kept = operations.all()
    assert [one.number for one in kept] == list(range(4, MAX_OPERATIONS + 4))
    assert operations.find(3) is None
    assert operations.find(4).tracker.snapshot().title == "t3"


def test_the_listing_tells_state_amount_and_ids():
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


def test_a_card_of_a_plain_python_call_is_listed_too(shell):
    load_ipython_extension(shell)
    with ProgressTracker("read", "orders", listener=CardListener()):
        pass
    operations = shell.magics_manager.registry["OdpsMagics"].operations
    assert [one.tracker.snapshot().title for one in operations.all()] == ["orders"]


def test_without_the_extension_a_card_works_alone(shell):
    with ProgressTracker("read", "orders", listener=CardListener()) as tracker:
        tracker.add(rows=1)
    assert tracker.snapshot().rows == 1
