"""Pages of a condition are read again from their recorded start, not from the first row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

import odps_nb
from odps_nb import Connection
from odps_nb.access.paging.browsing import rows_of
from odps_nb.client.read.splits import RowPlace
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.pages import MOST_MARKS, Mark, PageMarks
from odps_nb.notebook.explore.view import RowView
from tests.support.compat.recorder import Recorder, recording
from tests.support.views import ids

ROWS, SIZE = 120_000, 1000
PAGES = ROWS // 2 // SIZE
WHERE = "quantity >= 0 and length(note) = 1"


@pytest.fixture(scope="module")
def recorder(service) -> Iterator[Recorder]:
    with recording(service.tunnel_endpoint) as found:
        yield found


@pytest.fixture(scope="module")
def watched(profile, recorder) -> Iterator[Connection]:
    made = replace(profile, endpoint=recorder.endpoint, tunnel_endpoint=recorder.base)
    with odps_nb.connect(made) as connection:
        table = connection.create_table("going_back", "id bigint, quantity bigint, note string")
        numbers = range(ROWS)
        notes = ["x" * (1 + n % 2) for n in numbers]
        table.write(pa.table({"id": numbers, "quantity": numbers, "note": notes}))
        yield connection
        connection.drop_table("going_back")


@pytest.fixture(params=[{}, {"splits": 4}], ids=["one split", "four splits"])
def view(watched, request) -> Iterator[RowView]:
    view = RowView(rows_of(watched.table("going_back").read(**request.param)), page_rows=SIZE)
    view.choose(Choice(conditions=(WHERE,)))
    yield view
    view.close()


def check_page(view: RowView, number: int) -> None:
    """Open a page that is no longer cached."""
    view._shown.pager._pages.clear()
    expected = range(number * SIZE * 2, (number + 1) * SIZE * 2, 2)
    assert ids(view.page(number * SIZE)) == list(expected)


@pytest.mark.storage_api("its requests")
@pytest.mark.gate(1)
def test_going_back_reads_no_row_before_the_requested_page(view, recorder):
    recorder.take()
    check_page(view, PAGES - 1)
    everything = sum(len(one.answer) for one in recorder.take() if one.action == "TableRead")
    for number in (PAGES - 2, PAGES * 9 // 10, PAGES - 3):
        check_page(view, number)
        check_page(view, PAGES - 1)  # the position of this page is also recorded
        requests = recorder.take()
        assert {one.action for one in requests} == {"TableRead"}  # none for a session or schema
        assert sum(len(one.answer) for one in requests) < everything * 0.3


@pytest.mark.storage_api("its requests")
def test_a_new_snapshot_drops_the_recorded_positions(view, recorder):
    check_page(view, PAGES // 2)
    scan = view._shown.pager._rows._chosen[1]
    scan._session = replace(scan._opened(), session_id="0" * 32)  # the service has no such session
    check_page(view, 3)
    check_page(view, PAGES - 1)
    assert "newer snapshot" in view.note


@pytest.mark.storage_api("its requests")
def test_renewing_a_session_keeps_the_filter_of_the_read(watched):
    rows = rows_of(watched.table("going_back").read(where=WHERE))
    view = RowView(rows, page_rows=SIZE)
    check_page(view, 4)
    scan = rows._chosen[1]
    scan._session = replace(scan._opened(), session_id="0" * 32)
    check_page(view, 1)
    assert "newer snapshot" in view.note
    view.close()


def test_going_back_in_a_read_with_a_limit_reads_from_its_first_row(watched):
    view = RowView(
        rows_of(watched.table("going_back").read(where=WHERE, limit=2 * SIZE + 5)), page_rows=SIZE
    )
    for number in (0, 1, 0, 1):
        check_page(view, number)
    assert view.page(2 * SIZE).count == 5
    check_page(view, 1)
    view.close()


def test_pages_of_a_filtered_result_can_be_read_in_any_order(watched):
    result = watched.sql("select id, note from going_back where id < 20000 order by id limit 20000")
    view = RowView(rows_of(result), page_rows=SIZE)
    view.choose(Choice(conditions=("length(note) = 1",)))
    for number in (9, 4, 8, 0):
        check_page(view, number)
    view.close()


def test_the_number_of_recorded_positions_is_bounded():
    marks = PageMarks(100)
    assert marks.before(12_300) == Mark()
    for page in range(10 * MOST_MARKS):
        marks.put(Mark(page * 100, RowPlace(page), page))
    assert len(marks._marks) <= MOST_MARKS
    found = marks.before(333_300)
    assert 333_300 - 16 * 100 < found.start <= 333_300
    assert found == Mark(found.start, RowPlace(found.start // 100), found.start // 100)
    marks.clear()
    assert marks.before(10**9) == Mark()
