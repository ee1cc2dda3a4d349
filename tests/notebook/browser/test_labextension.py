"""The JupyterLab extension highlights SQL and shows tables in a sidebar (real JupyterLab)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.support.lab import close_notebook, notebook, open_notebook
from tests.support.sockets.relays import TlsFront

pytestmark = pytest.mark.browser

SQL = "%%odps sql -o daily\nselect ds, count(*) as n -- each day\nfrom orders"
# fill the cache with 10,000 names after the thread of %odps connect has fetched its names
FILL = """from odps_nb.notebook.progress.operations import loaded_magics
cache = loaded_magics().context.cache
while cache.known("tables", "") is None:
    pass
cache.remember("tables", "", [f"table_{n:05}" for n in range(10_000)])
globals()["d" + "f"] = 'a variable that no cell names'"""
CELLS = ["%load_ext odps_nb\n%odps connect", SQL, "select = 1\nfor each in ():\n    pass", FILL, ""]

COLOURED = """(index) => [...document.querySelectorAll('.jp-Cell')[index]
  .querySelectorAll('.cm-line')]
  .map(line => [...line.querySelectorAll('span')].map(span => span.textContent))"""
ROWS = """() => [...document.querySelectorAll('.odpsNb-row')].map(row => ({
  name: row.querySelector('.odpsNb-name').textContent,
  detail: row.querySelector('.odpsNb-detail')?.textContent ?? '',
  level: Number(row.ariaLevel), expanded: row.ariaExpanded, selected: row.ariaSelected,
  position: Number(row.ariaPosInSet), size: Number(row.ariaSetSize), id: row.id}))"""
STATUS = "() => document.querySelector('.odpsNb-status').textContent"
IDLE = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.status"
CURRENT = "window.jupyterapp.shell.currentWidget"


@dataclass
class Lab:
    """The page of JupyterLab, and the requests that its kernel sent."""

    page: object
    front: TlsFront

    def requests(self) -> int:
        return sum(said.count(b" HTTP/1.1\r\n") for said in self.front.said)

    def wait(self, script: str, *args: object) -> None:
        self.page.wait_for_function(script, arg=args[0] if args else None)

    def wait_status(self, text: str) -> None:
        self.wait(f"(text) => ({STATUS})().includes(text)", text)

    def show(self, widget: str) -> None:
        self.page.evaluate("(id) => window.jupyterapp.shell.activateById(id)", widget)

    def run(self, index: int) -> None:
        self.select(index)
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell'); }")
        self.wait(f"(n) => {CURRENT}.content.widgets[n].model.executionCount > 0", index)
        self.wait(f"() => ({IDLE})() === 'idle'")

    def select(self, index: int) -> None:
        self.page.evaluate(f"(n) => {{ {CURRENT}.content.activeCellIndex = n; }}", index)

    def source(self, index: int) -> str:
        return self.page.evaluate(
            f"(n) => {CURRENT}.content.widgets[n].model.sharedModel.getSource()", index
        )

    def write(self, index: int, source: str) -> None:
        self.page.evaluate(
            f"([n, text]) => {CURRENT}.content.widgets[n].model.sharedModel.setSource(text)",
            [index, source],
        )

    def rows(self) -> list[dict]:
        return self.page.evaluate(ROWS)

    def names(self) -> list[str]:
        return [row["name"] for row in self.rows()]

    def row(self, name: str):
        return self.page.locator(".odpsNb-row", has=self.page.get_by_text(name, exact=True))

    def find(self, name: str, text: str = ""):
        """Return the row of a name, after filtering the tree by a text."""
        self.page.fill(".odpsNb-filter", text or name)
        self.wait(f"() => !({STATUS})().includes('reading')")
        self.row(name).wait_for()
        return self.row(name)

    def sources(self) -> list[str]:
        return self.page.evaluate(
            f"() => {CURRENT}.content.widgets.map(cell => cell.model.sharedModel.getSource())"
        )

    def counts(self) -> list[int | None]:
        return self.page.evaluate(
            f"() => {CURRENT}.content.widgets.map(cell => cell.model.executionCount)"
        )

    def wait_inserted(self, cells: int) -> None:
        """Wait until a cell with text was added to the given number of cells."""
        self.wait(
            f"(n) => {CURRENT}.content.widgets.length > n && "
            f"{CURRENT}.content.activeCell.model.sharedModel.getSource() !== ''",
            cells,
        )

    def coloured(self, index: int) -> list[list[str]]:
        return self.page.evaluate(COLOURED, index)


@pytest.fixture(scope="module")
def lab(service, lab_page, jupyter) -> Iterator[Lab]:
    real = urlsplit(service.endpoint)
    with TlsFront((real.hostname, real.port), None, listens=True) as front:
        endpoint = f"import os; os.environ['ODPS_ENDPOINT'] = {front.url + real.path!r}"
        jupyter.write("cells.ipynb", notebook(f"{endpoint}\n{CELLS[0]}", *CELLS[1:]))
        open_notebook(lab_page, jupyter, "cells.ipynb")
        lab_page.traffic.errors.clear()
        yield Lab(lab_page, front)
        close_notebook(lab_page, kernel=True)


@pytest.fixture(scope="module")
def connected(lab: Lab) -> Lab:
    """The sidebar, shown after the kernel has connected and has 10,000 table names in its cache."""
    lab.show("odps-nb-sidebar")
    lab.wait_status("odps_nb is not loaded in this kernel")
    assert lab.requests() == 0
    lab.show("filebrowser")
    lab.run(0)
    lab.run(3)
    return lab


def test_only_sql_in_cells_of_our_magic_is_highlighted(lab: Lab) -> None:
    for index, word in ((1, "from"), (2, "for")):
        lab.wait(f"([n, word]) => ({COLOURED})(n).flat().includes(word)", [index, word])
    magic, query, rest = lab.coloured(1)
    assert magic == []
    assert {"select", "as", "-- each day"} <= set(query)
    assert "from" in rest
    assert "select" not in lab.coloured(2)[0]
    assert "for" in lab.coloured(2)[1]


def test_highlighting_is_updated_when_the_magic_is_edited(lab: Lab) -> None:
    lab.write(4, "select 1 where true")
    assert "select" not in lab.coloured(4)[0]
    for magic in ("%%odps spark", "\n%%odps  sql -q"):
        lab.write(4, f"{magic}\nselect 1 where true")
        lab.wait(f"() => ({COLOURED})(4).at(-1).includes('where')")
    for other in ("%%odps read orders", "%%odps sqlite", "# %%odps sql", "%%sql"):
        lab.write(4, f"{other}\nselect 1 where true")
        assert "where" not in lab.coloured(4)[-1]
    lab.write(4, "")


def test_only_the_visible_tables_of_ten_thousand_cached_tables_are_drawn(
    connected: Lab,
) -> None:
    before = connected.requests()
    connected.show("odps-nb-sidebar")
    connected.wait_status("10,000 tables")
    assert connected.requests() - before == 2  # for projects, and for the schemas of the project
    rows = connected.rows()
    assert [row["name"] for row in rows[:3]] == ["local", "table_00000", "table_00001"]
    assert (rows[1]["level"], rows[1]["position"], rows[1]["size"]) == (2, 1, 10_000)
    assert 20 < len(rows) < 100

    tree = connected.page.locator(".odpsNb-tree")
    tree.focus()
    connected.page.keyboard.press("End")
    connected.wait("() => document.querySelector('.odpsNb-space').textContent.includes('09999')")
    active = tree.get_attribute("aria-activedescendant")
    (last,) = [row for row in connected.rows() if row["selected"] == "true"]
    assert (last["id"], last["name"], last["position"]) == (active, "table_09999", 10_000)

    connected.page.fill(".odpsNb-filter", "TABLE_0012")
    connected.wait_status("10 of 10,000 tables")
    assert connected.names() == ["local", *(f"table_0012{n}" for n in range(10))]
    connected.page.fill(".odpsNb-filter", "")
    assert connected.requests() - before == 2


@pytest.fixture(scope="module")
def sidebar(connected: Lab) -> Lab:
    """The sidebar with the tables of the service."""
    connected.show("odps-nb-sidebar")
    connected.wait_status("10,000 tables")
    before = connected.requests()
    connected.page.click(".odpsNb-refresh")
    connected.wait(f"() => /^[1-9]\\d* tables$/.test(({STATUS})())")
    tables = int(connected.page.evaluate(STATUS).split()[0])
    described = 1 if tables <= 100 else 0
    assert connected.requests() - before == 3 + described  # projects, schemas, tables
    connected.find("orders")  # one request describes the other tables
    assert connected.requests() - before == 3 + -(-tables // 100)
    return connected


def test_expanding_a_table_sends_no_request_and_listing_its_partitions_one(
    sidebar: Lab,
) -> None:
    before = sidebar.requests()
    sidebar.row("orders").click()
    sidebar.row("amount").wait_for()
    rows = {row["name"]: row for row in sidebar.rows()}
    assert rows["amount"]["detail"] == "decimal(18,2)"
    assert rows["ds"]["detail"] == "string · partition"
    assert rows["orders"]["detail"] == "2,048,000 rows"
    assert sidebar.requests() == before
    sidebar.row("partitions").click()
    sidebar.row("ds=2024-01-01").wait_for()
    sidebar.row("partitions").click()
    assert (rows["orders"]["expanded"], rows["amount"]["level"]) == ("true", 3)
    sidebar.row("orders").click()
    sidebar.row("amount").wait_for(state="detached")
    sidebar.row("orders").click()
    sidebar.row("amount").wait_for()
    sidebar.row("orders").click()
    assert sidebar.requests() - before == 1


def test_the_tree_can_be_used_by_keyboard(sidebar: Lab) -> None:
    press = sidebar.page.keyboard.press
    sidebar.page.locator(".odpsNb-tree").focus()

    def selected() -> str:
        return next(row["name"] for row in sidebar.rows() if row["selected"] == "true")

    press("Home")
    assert selected() == "local"
    press("ArrowRight")  # the row is expanded, so the key moves to its first child
    first = selected()
    press("ArrowLeft")
    assert selected() == "local"
    press("ArrowLeft")
    assert first not in sidebar.names()
    press("ArrowRight")
    assert first in sidebar.names()


def test_a_filter_also_finds_tables_by_their_column_names(sidebar: Lab) -> None:
    before = sidebar.requests()
    row = sidebar.find("orders", "AMOUNT")
    assert row.locator(".odpsNb-detail").inner_text() == "amount · 2,048,000 rows"
    sidebar.page.fill(".odpsNb-filter", "no_such_column")
    assert sidebar.names() == []
    sidebar.find("orders")
    assert sidebar.requests() == before


@pytest.fixture
def cells(sidebar: Lab) -> Iterator[Lab]:
    """The notebook, with the keyboard focus in the tree; cells that a test adds are removed."""
    before = sidebar.sources()
    sidebar.find("orders").click()
    sidebar.row("amount").wait_for()
    sidebar.page.locator(".odpsNb-tree").focus()
    yield sidebar
    sidebar.find("orders")
    for index in reversed(range(len(sidebar.sources()))):
        if sidebar.sources()[index] not in before:
            sidebar.page.evaluate(
                f"(n) => {CURRENT}.content.model.sharedModel.deleteCell(n)", index
            )
    assert sidebar.sources() == before
    sidebar.row("orders").click()
    sidebar.row("amount").wait_for(state="detached")


def test_code_for_a_read_is_a_new_cell_with_a_new_variable(cells: Lab) -> None:
    before = cells.sources()
    cells.select(0)
    uses = cells.page.get_by_role("toolbar", name="Actions of the selected row")
    uses.get_by_role("button", name="read", exact=True).click()
    cells.wait_inserted(len(before))
    cells.page.keyboard.type("  # here")  # the cell has the focus, with the cursor at the end
    first = "%odps read orders -n 1000 -o df2  # here"  # the kernel has a variable df
    cells.page.locator(".odpsNb-tree").focus()
    cells.page.keyboard.press("r")
    cells.wait_inserted(len(before) + 1)
    second = "%odps read orders -n 1000 -o df3"
    assert cells.sources() == [before[0], first, second, *before[1:]]
    assert cells.counts()[1:3] == [None, None]


def test_a_preview_and_an_explorer_run_in_new_cells(cells: Lab) -> None:
    before = cells.sources()
    cells.select(0)
    cells.page.keyboard.press("p")
    cells.wait_inserted(len(before))
    cells.row("partitions").click()
    cells.row("ds=2024-01-01").click()
    cells.page.keyboard.press("e")
    cells.wait_inserted(len(before) + 1)
    inserted = ["%odps head orders", "%odps explore orders -p ds=2024-01-01"]
    assert cells.sources() == [before[0], *inserted, *before[1:]]
    for index in (1, 2):
        cells.wait(f"(n) => {CURRENT}.content.widgets[n].model.executionCount > 0", index)
    cells.row("partitions").click()
    cells.row("orders").click()
    cells.row("orders").click()


def test_a_column_name_is_never_inserted_into_an_executed_cell(cells: Lab) -> None:
    before = cells.sources()
    cells.select(0)
    cells.row("amount").dblclick()
    assert cells.sources() == [before[0], "amount", *before[1:]]
    cells.write(1, "%%odps sql\nselect  from orders")
    cells.select(1)
    cells.page.evaluate(
        f"() => {CURRENT}.content.activeCell.editor.setCursorPosition({{line: 1, column: 7}})"
    )
    cells.row("status").click()
    cells.page.keyboard.press("Enter")
    written = "%%odps sql\nselect status from orders"
    cells.wait(
        f"(text) => {CURRENT}.content.activeCell.model.sharedModel.getSource() === text", written
    )
    assert cells.sources() == [before[0], written, *before[1:]]


def test_the_name_of_a_table_can_be_copied(cells: Lab) -> None:
    cells.row("orders").click()
    cells.row("orders").click()
    cells.page.keyboard.press("c")
    cells.wait_status("copied orders")
    cells.page.fill(".odpsNb-filter", "")
    cells.page.press(".odpsNb-filter", "ControlOrMeta+v")
    assert cells.page.input_value(".odpsNb-filter") == "orders"


def test_an_error_is_shown_below_its_table_as_text(sidebar: Lab, odps, new_name) -> None:
    gone = new_name("gone")
    odps.create_table(gone, "id bigint", partitioned_by="ds string")
    sidebar.page.click(".odpsNb-refresh")
    sidebar.find(gone).click()
    sidebar.row("partitions").wait_for()
    # the request of the click and that for all tables may run in parallel
    sidebar.wait("() => !document.querySelector('.odpsNb-row[aria-busy]')")
    odps.drop_table(gone)
    sidebar.row("partitions").click()
    sidebar.page.locator(".odpsNb-note", has_text="NotFoundError").wait_for()
    sidebar.find("orders")


@pytest.mark.nightly
def test_the_sidebar_sends_its_requests_again_after_a_kernel_restart(sidebar: Lab) -> None:
    context = f"{CURRENT}.context.sessionContext"
    sidebar.page.evaluate(f"() => {{ {context}.restartKernel(); }}")
    sidebar.wait_status("odps_nb is not loaded in this kernel")
    assert sidebar.rows() == []
    sidebar.run(0)
    sidebar.row("orders").wait_for()  # the sidebar has sent its requests


def test_the_scripts_of_the_sidebar_insert_no_html_and_contain_no_address(repo) -> None:
    files = list((repo / "labextensions" / "odps-nb" / "static").iterdir())
    assert len(files) > 5
    for file in files:
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "://", "@import"):
            assert word not in text, f"{word} in {file.name}"


def test_the_page_had_no_errors(sidebar: Lab, service) -> None:
    assert sidebar.page.traffic.errors == []
    assert service.access_key not in sidebar.page.content()
