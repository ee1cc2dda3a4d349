"""The static view of rows is safe HTML and text of bounded size."""

import json
import pickle
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from IPython.display import display

from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import ArgumentError, NotFoundError
from odps_nb.notebook.explore import explorer as exploring
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.profiles.bars import Bar
from odps_nb.notebook.explore.profiles.profile import ColumnProfile
from odps_nb.notebook.explore.static import HTML_BYTES, _bars, thumbnails
from odps_nb.notebook.explore.view import RowView
from tests.support.messages import Browser

NASTY = "<script>alert(1)</script><img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.names, self.attributes, self.text = set(), set(), []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def hostile(odps):
    table = odps.create_table("explore_nasty", "id bigint, text string, item map<string,string>")
    rows = {
        "id": [1, 2],
        "text": [NASTY, "x" * 5000],
        "item": pa.array([[(NASTY, NASTY)], None], pa.map_(pa.string(), pa.string())),
    }
    table.write(pa.table(rows))
    yield table
    odps.drop_table("explore_nasty")


def test_a_read_shows_its_first_rows_and_profile(odps):
    shown = odps.table("orders").read()._repr_mimebundle_()
    assert sorted(shown) == ["text/html", "text/plain"]
    text = "".join(Tags(shown["text/html"]).text)
    assert "local.orders · 2,048,000 rows · 22 columns" in text
    assert "rows 1–20 of 2,048,000 · profile: sample of 8,000 of 2,048,000 rows" in text
    assert "5 distinct" in text  # a fixed sample of some thousand rows
    again = odps.table("orders").read()._repr_mimebundle_()
    assert "".join(Tags(again["text/html"]).text) == text
    assert "datetime, UTC" in text
    lines = shown["text/plain"].splitlines()
    assert lines[0] == "local.orders · 2,048,000 rows · 22 columns"
    assert lines[1].split()[:3] == ["id", "customer", "amount"]
    assert lines[-2] == "… and 16 more columns"
    assert max(map(len, lines)) < 110


def test_results_and_filtered_reads_show_rows(odps):
    shown = odps.sql("select status, count(*) as n from orders group by status")._repr_mimebundle_()
    assert "shipped" in shown["text/plain"]
    assert "6 rows" in shown["text/html"]
    shown = odps.table("orders").read(["id"], where="quantity > 9")._repr_mimebundle_()
    assert "there may be more rows; use explore()" in shown["text/plain"]
    shown = odps.table("orders").read(["id"], where="id < 0")._repr_mimebundle_()
    assert "no rows" in shown["text/plain"]


def test_bars_of_all_rows_are_grey_behind_those_of_the_filter():
    bars = (Bar("a", 10, value="a", whole=20.0), Bar("b", 20, value="b", whole=5), Bar("c", 5))
    html = str(_bars(ColumnProfile(rows=35, nulls=0, bars=bars)))
    assert re.findall(r"height:(\d+)px(;background:linear)?", html) == [
        ("26", ""),  # bars of all rows
        ("24", ";background:linear"),
        ("24", ""),
        ("6", ""),
    ]


def test_an_error_replaces_the_rows(odps):
    shown = odps.table("no_such_table").read()._repr_mimebundle_()
    assert "NotFoundError" in Tags(shown["text/html"]).text[0]
    assert "Scan(local.no_such_table)" in shown["text/plain"]
    assert NotFoundError.__name__ in shown["text/plain"]


def test_a_statement_without_rows_is_shown_as_done(odps):
    created = odps.sql("create table if not exists orders (id bigint)")
    assert created._repr_mimebundle_()["text/plain"].endswith("done; the statement returns no rows")
    with pytest.raises(ArgumentError, match="no rows to show"):
        created.explore()


def test_values_are_escaped_and_long_values_collapsed(hostile):
    shown = hostile.read()._static_page()
    tags = Tags(shown["text/html"])
    assert not tags.names & {"script", "img", "iframe", "a", "style", "link"}
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert "alert(1)" in "".join(tags.text)
    assert "details" in tags.names
    assert len(shown["text/html"]) < 10_000


@pytest.mark.storage_api("blobs")
def test_the_number_of_drawn_blobs_is_limited(odps):
    html = odps.table("media").read()._repr_mimebundle_()["text/html"]
    pictures = re.findall(r'<img src="(data:image/[a-z+]+;base64,)', html)
    assert 4 <= len(pictures) <= 6
    assert "✓ verified" in html
    assert len(html) < HTML_BYTES


@pytest.mark.storage_api("blobs")
def test_blobs_of_rows_that_are_not_shown_are_not_read(odps, new_name):
    table = odps.create_table(new_name("sparse"), "id bigint, content blob")
    table.write({"id": list(range(30)), "content": [None] * 29 + [b"late"]})
    view = RowView(rows_of(table.read()))
    assert view.page(0).count == 30
    assert thumbnails(view, view.page(0)) == {}


def test_the_size_of_a_view_with_many_long_texts_is_limited(odps, new_name):
    names = [f"c{n}" for n in range(90)]
    table = odps.create_table(new_name("wide"), ", ".join(f"{name} string" for name in names))
    table.write(pa.table({name: [f"{name} " + "word " * 500] * 30 for name in names}))
    html = table.read()._repr_mimebundle_()["text/html"]
    assert len(html.encode()) < HTML_BYTES + 1000


def test_in_a_terminal_a_view_shows_its_first_rows_as_text(shell, shown, odps):
    view = odps.table("orders").explore()
    display(view)
    assert len(shown) == 1
    assert shown[0]["data"]["text/plain"].startswith("local.orders · 2,048,000 rows")
    view.close()


@pytest.mark.parametrize("table", ["orders", "hostile"])
def test_the_first_rows_have_one_line_each_and_the_types_of_their_columns(odps, hostile, table):
    frame = (hostile if table == "hostile" else odps.table(table)).head(2)
    frame["added"] = [1.5, None]
    found = frame._repr_html_()
    tags = Tags(found)
    assert found.count("<tr>") == 3
    assert not tags.names & {"script", "img"}
    assert {"string", "float64", "added", "null"} <= {*tags.text}
    for other in (frame.copy(), frame[["id"]], pickle.loads(pickle.dumps(frame))):
        assert type(other) is pd.DataFrame


@pytest.mark.storage_api("blobs")
def test_the_first_rows_of_a_table_show_its_size_and_its_first_pictures_verified(odps):
    found = odps.table("media").head(2)._repr_html_()
    assert "first 2 of 48 rows" in found
    assert found.count("<img") == 2
    assert found.count("✓ verified") == 2 * 2  # below each picture, and for screen readers
    assert "mountains.jpg · image/jpeg" in found
    day = odps.table("orders").head(1, partitions="ds=2024-01-02", columns=["digest", "attrs"])
    tags = Tags(day._repr_html_())
    assert {"0x6c0dd5e7850f (6 B)", '{"colour": "blue"}'} <= {*tags.text}
    assert " of " not in next(one for one in tags.text if "1 row" in one)


# -- the protocol, without a browser --------------------------------------------------------------


@pytest.fixture
def live(odps):
    made = exploring.explore(odps.table("orders").read(), seed=1)
    made._widget = browser = Browser()
    yield made, browser
    made.close()


def test_a_page_is_one_message_of_bounded_size(live):
    explorer, browser = live
    explorer.receive({"do": "ready"})
    content, buffers = browser.wait("page", start=0)
    browser.wait("idle", task="page")  # the message "idle" follows the message "reading"
    assert (content["total"], content["count"], len(buffers)) == (2_048_000, 100, 1)
    assert len(buffers[0]) < 100_000
    assert len(json.loads(buffers[0])) == 22
    assert browser.wait("table")[0]["title"] == "local.orders"
    explorer.receive({"do": "page", "start": 1_000_000})
    browser.wait("page", start=1_000_000)


def test_a_filter_by_cell_sends_only_the_position(live):
    explorer, browser = live
    explorer.receive({"do": "value", "row": 7, "column": 0, "not": True})
    content, buffers = browser.wait("page", start=0)
    assert [one["text"] for one in content["conditions"]] == ["id is not 1,000,008"]
    assert json.loads(buffers[0])[0][5:8] == ["1000006", "1000007", "1000009"]


def test_all_filters_are_cleared_by_one_request(live):
    explorer, browser = live
    explorer.view.choose(Choice(conditions=("quantity > 3", "priority < 5"), search="a"))
    explorer.receive({"do": "clear"})
    content, _ = browser.wait("page", start=0)
    assert (content["conditions"], content["search"], content["total"]) == ([], "", 2_048_000)
    assert sum(one["kind"] == "page" for one, _ in browser.messages) == 1


def test_copied_cells_are_sent_as_text(live):
    explorer, browser = live
    explorer.receive({"do": "copy", "start": 3, "count": 2, "columns": [0, 3]})
    content, _ = browser.wait("copied")
    assert (content["cells"][0], content["cut"]) == (["1000004", "1000005"], 0)
    assert len(content["cells"][1]) == 2


def test_the_script_of_an_explorer_is_small(odps):
    """Each explorer sends its script before its rows, and stores it in a saved notebook."""
    explorer = odps.table("orders").explore()
    assert len(explorer.widget()._esm.encode()) <= 64 * 1024
    explorer.close()


def test_removing_indentation_does_not_change_texts_in_scripts():
    for path in Path(exploring.__file__).parents[1].rglob("*.js"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not line.count("`") % 2, f"{path}: a template literal of several lines"


def test_the_page_requested_last_is_shown(live):
    explorer, browser = live
    for start in range(0, 2000, 100):
        explorer.receive({"do": "page", "start": start})
    browser.wait("page", start=1900)
    browser.wait("idle", task="page")
    assert [one["start"] for one, _ in browser.messages if one["kind"] == "page"][-1] == 1900


def test_a_closed_explorer_ignores_messages(live):
    explorer, browser = live
    explorer.close()
    explorer.close()
    explorer.receive({"do": "page", "start": 0})
    assert browser.messages == []
    assert repr(explorer) == "<Explorer of local.orders>"


def test_a_filtered_read_that_has_found_all_rows_shows_their_number(odps):
    orders = odps.table("orders")
    some = orders.read(["id"], partitions="ds=2024-01-01", where="id <= 1000004")
    text = some._repr_mimebundle_()["text/plain"]
    assert text.splitlines()[0] == "local.orders · 4 rows · 1 column"
    assert "first" not in text
