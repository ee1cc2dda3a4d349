"""Cells of a `RowView` are read again for a condition, for a panel, and for the clipboard."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore import view as viewing
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.view import RowView
from tests.support.views import all_ids

pytestmark = pytest.mark.every_service(in_turn=True)

ROWS = 300
LONG = "long\ttext\n" + "x" * 5000


@pytest.fixture(scope="module")
def written(odps):
    at = datetime.datetime(2024, 1, 1)
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "part": pa.array([["red", None, "it's\n:v"][n % 3] for n in range(ROWS)]),
            "amount": pa.array([Decimal(n % 50).scaleb(-2) for n in range(ROWS)]),
            "share": pa.array([n % 7 / 8 for n in range(ROWS)]),
            "day": pa.array([datetime.date(2024, 1, 1 + n % 28) for n in range(ROWS)]),
            "seen": pa.array([at + datetime.timedelta(minutes=n % 5) for n in range(ROWS)]),
            "flag": pa.array([n % 5 == 0 for n in range(ROWS)]),
            "word": pa.array([LONG if n % 100 == 40 else f"C:\\new{n}" for n in range(ROWS)]),
            "tags": pa.array([["a", str(n)] for n in range(ROWS)]),
        }
    )
    columns = (
        "id bigint, part string, amount decimal(18,2), share double, day date, seen datetime, "
    )
    table = odps.create_table(
        "explore_cells", columns + "flag boolean, word string, tags array<string>"
    )
    table.write(rows)
    yield rows
    odps.drop_table("explore_cells")


@pytest.fixture
def view(odps, written):
    view = RowView(rows_of(odps.table("explore_cells").read()), seed=1)
    yield view
    view.close()


@pytest.mark.gate(3)
@pytest.mark.parametrize("column", ["id", "part", "amount", "share", "day", "seen", "flag", "word"])
def test_the_filter_of_a_cell_selects_equal_rows_or_all_others(view, written, column):
    n, values = written.schema.get_field_index(column), written[column].to_pylist()
    for row in (0, 40, 140):
        equal = [one for one, value in enumerate(values) if value == values[row]]
        view.choose(view.value(row, n, exclude=False))
        assert all_ids(view) == equal, view.where
        view.choose(Choice())
        view.choose(view.value(row, n, exclude=True))
        assert all_ids(view) == [one for one in range(ROWS) if one not in equal], view.where
        view.choose(Choice())


def test_a_cell_position_in_a_filtered_view_refers_to_the_shown_rows(view):
    view.choose(Choice(conditions=("flag",)))
    assert view.page(0).columns[0][44] == "220"
    view.choose(view.value(44, 0, exclude=False))
    assert (view.where, all_ids(view)) == ("flag and id = 220", [220])
    again = view.value(0, 0, exclude=False)
    assert again == view.choice  # the same condition is not added twice


@pytest.mark.storage_api("blobs")
def test_values_that_no_condition_can_express_are_rejected(view, odps):
    for exclude in (False, True):
        with pytest.raises(ArgumentError, match="tags"):
            view.value(0, 8, exclude=exclude)
    with pytest.raises(ArgumentError, match="no row"):
        view.value(ROWS, 0, exclude=False)
    media = RowView(rows_of(odps.table("media").read()))
    with pytest.raises(ArgumentError, match="content"):
        media.value(0, 3, exclude=False)
    media.close()


@pytest.mark.nightly
def test_a_filter_by_a_cell_of_any_type_selects_its_row_or_is_rejected(odps):
    view = RowView(rows_of(odps.table("types_all").read()))
    shown = view.page(0)
    selected = 0
    for n in range(len(view.columns)):
        for row in range(shown.count):
            try:
                view.choose(view.value(row, n, exclude=False))
            except ArgumentError:
                continue  # SQL has no literal for the value
            same = shown.columns[n].count(shown.columns[n][row])
            assert view.page(0).count >= same, view.where  # -0.0 equals 0.0
            view.choose(Choice())
            selected += 1
    assert selected > 100
    view.close()


@pytest.mark.parametrize("choice", [Choice(), Choice(conditions=("id >= 0",))])
def test_copied_cells_are_complete_and_not_escaped(view, written, choice):
    view.choose(choice)
    assert isinstance(view.page(0).columns[7][40], list)  # the page contains only part of the text
    cells, cut = view.texts(39, 3, [7, 1])
    assert cells == [["C:\\new39", LONG, "C:\\new41"], ["red", None, "it's\n:v"]]
    assert cut == 0
    assert view.cell(40, 7) == (LONG, False)
    assert view.texts(ROWS - 1, 10, [0]) == ([[str(ROWS - 1)]], 0)


def test_copied_cells_are_bounded_and_truncated_cells_are_counted(view, monkeypatch):
    monkeypatch.setattr(viewing, "MAX_CELL", 1000)
    cells, cut = view.texts(40, 2, [7])
    assert (cells, cut) == ([[LONG[:1000], "C:\\new41"]], 1)
    monkeypatch.setattr(viewing, "MAX_COPY", 1003)
    cells, cut = view.texts(40, 2, [7, 1])
    assert (cells, cut) == ([[LONG[:1000], "C:\\"], [None, ""]], 3)
