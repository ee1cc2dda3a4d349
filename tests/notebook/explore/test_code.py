"""The code that explorers and charts hand to the user returns the rows that they show."""

import datetime
from dataclasses import replace

import pyarrow as pa
import pytest

from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.notebook.explore.charts.choice import choose
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.exports import cell_code, named
from odps_nb.notebook.explore.messages import page_message
from odps_nb.notebook.explore.view import RowView
from tests.support.any_bytes import send, text_of
from tests.support.service.connecting import connected

BY_ID = Choice(order=(("id", True),))
NINE, FIVE = (datetime.datetime(2024, 1, 1, hour) for hour in (9, 17))


def check_code(odps, source, choice=None):
    """Check both forms of the code of a view; return the view."""
    view = RowView(rows_of(source))
    view.choose(choice or Choice())
    shown = view.to_arrow()
    assert eval(view.code, {"odps": odps}).to_arrow().equals(shown), view.code  # noqa: S307
    frame = eval(view.frame_code, {"odps": odps})  # noqa: S307  # our own text
    assert frame["id"].tolist() == shown["id"].to_pylist(), view.frame_code
    return view


@pytest.mark.parametrize("schema", ["connection", None])
def test_code_names_the_same_table_in_any_schema(service_pool, new_name, schema):
    service = service_pool.get(options=("--schemas",), samples=False)
    odps = connected(service)
    shelf, table = new_name("shelf"), new_name("rows")
    odps.sql(f"create schema {shelf}")
    full = f"{service.project}.{shelf}.{table}"
    odps.create_table(full, pa.table({"id": [1, 2, 3]}))
    odps.create_table(table, pa.table({"id": [10, 20]}))
    mine = connected(service, schema=shelf if schema else None)
    for name in (table, full, f"{service.project}.{table}", f"{service.project}.default.{table}"):
        source = mine.table(name)
        for choice in (None, BY_ID, replace(BY_ID, conditions=("id > 1",))):
            check_code(mine, source.read(), choice)
        query = mine.sql("select sum(id) as total from {t}", params={"t": source})
        ids = source.read().to_pandas()["id"]
        assert query.to_pandas()["total"].tolist() == [ids.sum()]
        chart = source.chart("id", kind="bar")
        assert eval(chart.code, {"odps": mine}).to_pandas().equals(chart.to_pandas())  # noqa: S307
        assert mine.sql(chart.sql).row_count == len(chart.to_pandas())
    mine.close()
    odps.close()


def test_code_has_each_option_that_changes_the_rows(odps, new_name):
    times = pa.array([1709168523456789123, 5], pa.timestamp("ns", "UTC"))
    table = odps.create_table(new_name("options"), pa.table({"id": [1, 2], "at": times}))
    for options in ({"timestamp_unit": "us"}, {"limit": 1}, {"columns": ["at", "id"]}):
        view = check_code(odps, table.read(**options))
        assert all(f"{name}={value!r}" in view.code for name, value in options.items())
    assert check_code(odps, table.read(max_bytes=10**6)).code.endswith("read(max_bytes=1000000)")


def test_code_replaces_invalid_text_only_if_the_read_does(odps, new_name):
    name = odps.create_table(new_name("invalid"), "id bigint, s string").name.table
    send(odps, name, {"id": pa.array([1]), "s": text_of([b"a\xff"])})
    for choice in (None, BY_ID):
        for read in (
            odps.table(name).read,
            lambda **mode: odps.sql(f"select * from {name}", **mode),
        ):
            check_code(odps, read(text="replace"), choice)
            view = RowView(rows_of(read()))
            view.choose(choice or Choice())
            with pytest.raises(ConversionError):
                eval(view.code, {"odps": odps}).to_arrow()  # noqa: S307


def test_exports_and_code_have_all_columns_of_a_wide_table(odps, new_name):
    names = ["id", *(f"w{n}" for n in reversed(range(130)))]
    rows = pa.table({name: [n, n + 1] for n, name in enumerate(names)})
    table = odps.create_table(new_name("wide"), rows)
    query = odps.sql(f"select * from {table.name.table}")
    for source in (table.read(), table.read(columns=sorted(names)), query):
        conditions = ("id > 1 -- not the first", "id < 9")
        for choice in (None, BY_ID, Choice(conditions=conditions), Choice(search="0")):
            view = RowView(rows_of(source))
            view.choose(choice or Choice())
            assert len(view.page(0).columns) == 100
            assert view.note.endswith("first 100 of 131 columns")
            assert view.to_arrow().column_names == source.arrow_schema.names
            if not view.choice.search:
                check_code(odps, source, choice)


@pytest.mark.parametrize("end", [";", "; -- a comment", ";\n/* two\nlines; */ ;", " -- a comment"])
def test_a_query_may_end_with_a_semicolon_and_comments(odps, end):
    query = f"select id, ';--' s from (select 1 id union all select 2) t{end}"
    check_code(odps, odps.sql(query), Choice(conditions=("id > 1",)))
    view = check_code(odps, odps.sql(query), BY_ID)
    assert view.page(0).columns[0] == ["2", "1"]
    assert len(odps.sql(query).chart("id", kind="bar").to_pandas()) == 2


@pytest.mark.parametrize("form", ["table", "query", "query with a time zone"])
def test_times_in_conditions_select_the_same_rows_in_sql_of_any_time_zone(
    service_pool, new_name, form
):
    service = service_pool.get(options=("--form", "project_zone=Asia/Shanghai"), samples=False)
    odps = connected(service)
    hours = [datetime.datetime(2024, 1, 1, hour) for hour in (1, 9, 17, 23)]
    rows = {"id": [1, 2, 3, 4], "at": pa.array(hours, pa.timestamp("us", "UTC")), "wall": hours}
    name = new_name("hours")
    odps.create_table(name, pa.table(rows), types={"wall": "timestamp_ntz"})
    setting = {"odps.sql.timezone": "Asia/Tokyo"} if form.endswith("zone") else None
    source = (
        odps.table(name).read()
        if form == "table"
        else odps.sql(f"select * from {name}", settings=setting)
    )
    view = RowView(rows_of(source))
    view.filter("at", low=NINE, high=FIVE)
    for order in ((), BY_ID.order):
        found = check_code(odps, source, replace(view.choice, order=order))
        assert sorted(found.page(0).columns[0]) == ["2", "3"]
        for by_query in {True, form == "table"}:
            chart = found.chart(choose(found.columns, "id", kind="bar"), by_query=by_query)
            assert chart.to_pandas()["id"].tolist() == ["2", "3"]
    days = source.chart("at", step="day")
    assert days.to_pandas().values.tolist() == [["2024-01-01", 4.0]]
    if form == "table":
        assert odps.sql(days.sql).row_count == 1
    else:
        with pytest.raises(ArgumentError, match="the query runs in the time zone Asia/"):
            view.chart(choose(view.columns, "at", step="day"))
    view.filter("wall", low=NINE)  # now the condition has times with and without a time zone
    view.filter("wall", values=[FIVE], exclude=True)
    assert view.page(0).columns[0] == ["2"]
    for order in ((), BY_ID.order):
        check_code(odps, source, replace(view.choice, order=order))
    written = Choice(conditions=("at <= '2024-01-01 09:00:00'",))
    if form == "table":
        check_code(odps, source, replace(written, order=BY_ID.order))
    else:
        with pytest.raises(ArgumentError, match="but the times of the condition are in UTC"):
            view.choose(replace(written, order=BY_ID.order))
    odps.close()


def test_a_result_by_its_id_has_the_settings_of_its_query(odps, new_name):
    rows = {"id": [1], "at": pa.array([FIVE], pa.timestamp("us", "UTC"))}
    name = odps.create_table(new_name("moment"), pa.table(rows)).name.table
    settings = {"odps.sql.timezone": "Asia/Tokyo", "other.tool": "x"}
    result = odps.sql(f"select id, cast(at as string) s from {name}", settings=settings)
    found = odps.result(result.instance_id)
    assert found.settings["odps.sql.timezone"] == "Asia/Tokyo"
    assert "other.tool" not in found.settings
    for choice in (None, BY_ID, Choice(conditions=("id = 1",))):
        view = check_code(odps, found, choice)
        assert view.page(0).columns[1] == ["2024-01-02 02:00:00"]


def test_code_names_the_variable_of_the_connection(shell, odps, new_name):
    table = odps.create_table(new_name("variable"), pa.table({"id": [1]}))
    view = RowView(rows_of(table.read()))
    assert view.code.startswith("odps.table(")
    shell.user_ns.update(_hidden=odps, odps="another object", warehouse=odps)
    chart = table.chart("id")
    for code in (view.code, view.frame_code, chart.code, cell_code(view, set())):
        assert "warehouse.table(" in code
        shell.run_cell(code).raise_error()
    shell.user_ns["odps"] = odps
    assert named("odps.sql('odps')", odps) == "odps.sql('odps')"


def test_copied_code_connects_first_and_replaces_no_variable(shell, service, new_name, monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_ID", service.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", service.access_key)
    shell.run_cell("%load_ext odps_nb")
    magics = shell.magics_manager.registry["OdpsMagics"]
    mine = connected(service)
    table = mine.create_table(new_name("copied"), pa.table({"id": [1]}))
    view = RowView(rows_of(table.read()))
    chart = table.chart("id")
    page = page_message(view, view.page(0))
    assert page["opening"] == ""  # it is not known how the connection was created
    magics.context.use(mine, owned=True, origin=(service.endpoint, service.project))
    shell.user_ns["odps"] = "another object"
    opening = f"import odps_nb\nodps2 = odps_nb.connect(endpoint={service.endpoint!r}, "
    page = page_message(view, view.page(0))
    copied = page["opening"] + page["code"]
    for code in (copied, chart.message({})["code"], cell_code(view, set())):
        assert code.startswith(opening)
        shell.run_cell(code).raise_error()
        assert shell.user_ns.pop("odps2").profile.project == service.project
    shell.user_ns["mine"] = mine
    page = page_message(view, view.page(0))
    assert (page["opening"], page["code"]) == ("", view.code)
    view.close()
    chart.close()
