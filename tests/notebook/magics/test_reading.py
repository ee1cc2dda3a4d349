"""%odps read and %%odps sql in a real shell with the embedded service."""

from __future__ import annotations

import threading
from contextlib import closing

import pandas as pd
import pyarrow as pa
import pytest
from IPython.utils.capture import capture_output

from odps_nb.errors import (
    AccessDeniedError,
    ArgumentError,
    CancelledError,
    LimitExceededError,
    NotFoundError,
    OdpsNbError,
)
from odps_nb.terms import format_bytes
from tests.support.interrupting import interrupt
from tests.support.service.protected import NUMBERS, analyst_of, protected_service
from tests.support.shell import run, usage_error

pytestmark = pytest.mark.every_service(in_turn=True)

# -- reading ----------------------------------------------------------------------------------


def test_a_read_is_displayed_or_assigned_to_a_variable(ip):
    frame = run(ip, "%odps read orders -n 7 -c id,status")
    assert isinstance(frame, pd.DataFrame)
    assert frame.shape == (7, 2)
    assert run(ip, "%odps read orders -n 7 -c id,status -o seven") is None
    (note,) = ip.user_ns["shown"]
    assert note["text/plain"] == "seven ← read orders · 7 rows × 2 columns"
    pd.testing.assert_frame_equal(ip.user_ns["seven"], frame)


def test_the_option_for_partitions_may_be_repeated(ip):
    frame = run(ip, "%odps read orders -p ds=2024-01-01 -p ds=2024-01-02 -c ds")
    assert frame["ds"].nunique() == 2


def test_the_option_for_partitions_accepts_a_range_or_latest(ip):
    frame = run(ip, "%odps read orders -p ds>=2024-01-02,ds<2024-01-04 -p latest -c ds -n 1000000")
    days = [
        str(spec).removeprefix("ds=") for spec in ip.user_ns["odps"].table("orders").partitions()
    ]
    assert set(frame["ds"]) == {"2024-01-02", "2024-01-03", days[-1]}
    assert set(run(ip, "%odps head orders -p latest -c ds")["ds"]) == {days[-1]}
    with pytest.raises(NotFoundError, match=r"no partition of .* matches ds>2030-01-01"):
        run(ip, "%odps read orders -p ds>2030-01-01")


def test_values_of_config_are_the_defaults_of_a_read(ip):
    run(ip, "%config OdpsMagics.result_type = 'arrow'\n%config OdpsMagics.limit = 3")
    table = run(ip, "%odps read orders -c id")
    assert isinstance(table, pa.Table)
    assert table.num_rows == 3
    assert len(run(ip, "%odps read orders -c id -n 5 -t pandas")) == 5


def test_a_filter_is_on_the_line_or_in_the_cell(ip):
    ip.user_ns["wanted"] = ["paid", "it's"]
    line = run(ip, '%odps read orders -p ds=2024-01-01 -c status -w "status in :wanted"')
    cell = run(ip, "%%odps read orders -p ds=2024-01-01 -c status\nstatus in :wanted")
    assert set(line["status"]) == {"paid"}
    pd.testing.assert_frame_equal(line, cell)
    text = usage_error(ip, "%%odps read orders -w 'id > 1'\nid > 2")
    assert text == "write the filter in -w or in the cell, not in both"
    for blank in ('%odps read orders -n 1 -w ""', "%%odps read orders -n 1\n  "):
        with pytest.raises(ArgumentError, match="where is blank"):
            run(ip, blank)
    assert "did you mean :wanted?" in usage_error(ip, "%odps read orders -w 'status = :wantd'")


def test_variables_are_looked_up_in_the_scope_of_the_magic(ip):
    run(ip, "state = 'nothing'")
    frame = run(
        ip,
        "def ask():\n    state = 'paid'\n"
        "    frame = %odps read orders -p ds=2024-01-01 -c status -n 5 -w 'status = :state'\n"
        "    return frame\nask()",
    )
    assert set(frame["status"]) == {"paid"}


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    "value",
    ["it's", "back\\slash", 'quote" ` --', "new\nline", "日本 ☃", "' or '1'='1", ""],
)
def test_a_bound_text_is_compared_literally(ip, value):
    ip.user_ns["value"] = value
    frame = run(
        ip,
        "%%odps sql -t pandas\nselect :value as v, id from orders where ds = '2024-01-01' limit 1",
    )
    assert frame["v"].tolist() == [value]
    assert run(ip, "%odps read orders -p ds=2024-01-01 -n 5 -c id -w 'status = :value'").empty


def test_the_list_of_queries_contains_failed_sql(ip):
    run(ip, "%%odps sql\nselect 41 + 1 as answer")
    with pytest.raises(OdpsNbError):
        run(ip, "%%odps sql\nselect nothing from nowhere")
    queries = run(ip, "%odps queries")
    assert [one.state for one in queries[:2]] == ["failed", "success"]
    assert "select nothing from nowhere" in repr(queries)
    assert queries[1].run().to_arrow().to_pylist() == [{"answer": 42}]


def test_a_limit_of_bytes_stops_a_read(ip):
    with pytest.raises(LimitExceededError) as caught:
        run(ip, "%odps read orders --max-bytes 1MB")
    assert "max_bytes" in caught.value.hint
    (state,) = [row[2] for row in run(ip, "%odps status")]
    assert state.startswith("failed")
    for kind, length in (("pandas", len), ("arrow", len)):
        read = f"%odps read orders -p ds=2024-01-01 -c id --max-bytes 1GiB -t {kind}"
        assert length(run(ip, read)) == 231072
    nothing = "%odps read orders -p ds=2024-01-01 -c id -w 'id < 0' --max-bytes 1kB"
    assert list(run(ip, nothing)) == ["id"]


def test_batches_are_read_during_iteration(ip):
    run(ip, "%odps read orders -c id -p ds=2024-01-01 -t batches -o batches")
    first = next(ip.user_ns["batches"])
    assert isinstance(first, pa.RecordBatch)
    ip.user_ns["batches"].close()
    run(ip, "%odps read orders -c id -t batches --max-bytes 1kB -o few")
    with pytest.raises(LimitExceededError):
        next(ip.user_ns["few"])


@pytest.mark.parametrize("kind", ["spark", "batches"])
def test_options_that_prevent_background_reads_are_explained(ip, kind):
    assert "--bg cannot be used here" in usage_error(ip, f"%odps read orders -t {kind} --bg")


def test_a_dry_run_reads_no_row(ip):
    plan = dict(
        run(ip, "%odps read orders -p ds=2024-01-01 --splits 3 -c id,amount --dry-run").rows
    )
    assert plan["rows"] == "231,072"
    assert plan["splits"] == "3"
    assert plan["columns"] == "id, amount"
    filtered = dict(run(ip, "%odps read orders -w 'id < 0' --dry-run"))
    assert filtered["rows"] == "unknown until read (filtered)"


def test_a_background_read_returns_its_result_later(ip):
    run(ip, "%odps read orders -p ds=2024-01-01 -c id --bg -o handle")
    handle = ip.user_ns["handle"]
    assert len(handle.result(60)) == 231072
    assert handle.done()


@pytest.mark.usefixtures("repeated_interrupts")
def test_an_interrupt_raises_our_error_and_assigns_no_variable(ip, faulty_odps, stalled):
    ip.magics_manager.registry["OdpsMagics"].context.use(faulty_odps, owned=False)
    before = set(threading.enumerate())

    def interrupt_soon() -> None:
        operations = ip.magics_manager.registry["OdpsMagics"].operations
        while not any(one.tracker.snapshot().rows for one in operations.all()):
            threading.Event().wait(0.005)
        interrupt()

    watcher = threading.Thread(target=interrupt_soon)
    watcher.start()
    with pytest.raises(CancelledError, match="was interrupted"):
        run(ip, "%odps read orders --all -c id,amount,status -o never")
    watcher.join()
    assert "never" not in ip.user_ns
    (one,) = ip.magics_manager.registry["OdpsMagics"].operations.all()
    assert one.tracker.snapshot().phase.value == "cancelled"
    assert set(threading.enumerate()) <= before


# -- SQL --------------------------------------------------------------------------------------


def test_sql_binds_values_and_reads_its_rows(ip):
    ip.user_ns["day"] = "2024-01-02"
    frame = run(ip, "%%odps sql -t pandas\nselect count(*) as n from orders where ds = :day")
    assert frame["n"].tolist() == [243008]
    assert run(ip, "%%odps sql -t arrow -o one\nselect 1 as a") is None
    assert ip.user_ns["one"].num_rows == 1
    run(ip, "%%odps sql --bg -o later\nselect 2 as a")
    assert ip.user_ns["later"].result(60)["a"].tolist() == [2]
    assert "needs a query" in usage_error(ip, "%%odps sql\n  ")


@pytest.fixture
def row_limits(odps, monkeypatch):
    """The limits on rows in the requests that the connection sends."""
    row_limits = []
    call = odps._storage.open

    def record_and_open(request, *args, **more):
        row_limits.append(getattr(request, "count", None))
        return call(request, *args, **more)

    monkeypatch.setattr(odps._storage, "open", record_and_open)
    return row_limits


ORDERS = "select id, status from orders where ds = '2024-01-01'"


@pytest.mark.gate(3)
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(("pandas", "-n"), ("arrow", "-n"), ("batches", "-n"), ("pandas", "setting")),
        *(("batches", "setting"), ("arrow", "both"), ("pandas", "bg"), ("arrow", "bg")),
    ],
)
def test_sql_transfers_only_the_requested_rows(ip, row_limits, kind, way):
    options = {"-n": "-n 5", "setting": "", "both": "-n 5", "bg": "-n 5 --bg"}[way]
    if way in ("setting", "both"):
        run(ip, f"%config OdpsMagics.limit = {5 if way == 'setting' else 7}")
    try:
        value = run(ip, f"%%odps sql -t {kind} {options}\n{ORDERS} limit 1000")
        value = value.result(60) if hasattr(value, "result") else value
        if kind == "batches":
            assert sum(batch.num_rows for batch in value) == 5
        else:
            assert value.shape == (5, 2)
    finally:
        run(ip, "%config OdpsMagics.limit = None")
    assert row_limits == [5]


def test_a_statement_without_rows_reports_its_effect(ip, new_name):
    name = new_name("made")
    for statement, told in (
        (f"create table if not exists {name} (id bigint);", "done: table created"),
        (f"insert into {name} values (1)", "done: rows inserted"),
        (f"set a=b; insert overwrite table {name} select 2", "done: rows inserted"),
        (f"drop table {name};", "done: table dropped"),
    ):
        assert run(ip, f"%%odps sql\n{statement}") is None
        assert [one["text/plain"] for one in ip.user_ns["shown"]] == [told]
    empty = run(ip, "%%odps sql -t pandas\nselect id from orders where id < 0")
    assert list(empty.columns) == ["id"]  # the option requests rows of a statement that has none


def test_a_dry_run_of_sql_shows_the_estimate_of_the_service(ip, odps):
    before = dict(odps.table("orders").reload().info.properties)
    days = "select id from orders where ds in ('2024-01-02', '2024-01-03')"
    cost = dict(run(ip, f"%%odps sql --dry-run\n{days}").rows)
    sizes = {str(row[0]): row[2] for row in run(ip, "%odps partitions orders")}
    assert sizes["ds=2024-01-02"] in ("47.8 MB", "47.9 MB")  # older versions of Arrow write less
    assert cost.pop("reads") in ("96.7 MB", "96.9 MB")
    total = format_bytes(odps.table("orders").info.size or 0)
    assert cost == {
        "complexity": "1",
        "user-defined functions": "0",
        "table orders": f"{total} in all, partitioned by ds",
    }
    run(ip, "%%odps sql --dry-run\ndrop table orders")
    assert odps.table("orders").reload().info.properties == before
    with pytest.raises(NotFoundError):
        run(ip, "%%odps sql --dry-run\nselect * from no_such_table")


def test_a_query_above_the_limit_of_bytes_is_not_run(ip):
    query = "select count(*) as n from orders"
    run(ip, "%config OdpsMagics.sql_max_bytes = 1_000_000")
    with pytest.raises(LimitExceededError, match="was not run"):
        run(ip, f"%%odps sql\n{query}")
    assert run(ip, f"%%odps sql --max-bytes 1GB\n{query}").view.all_rows == 1
    run(ip, "%config OdpsMagics.sql_max_bytes = None")


def test_a_link_to_the_page_of_a_job_is_shown_if_the_service_has_pages(ip, odps):
    context = ip.magics_manager.registry["OdpsMagics"].context
    run(ip, "%%odps sql -t pandas\nselect 1 as one")
    assert ip.user_ns["shown"] == []  # the embedded service has no pages of jobs
    context._console = odps._storage, "https://console.example.com/cn-hangzhou"
    run(ip, "%%odps sql -t pandas\nselect 1 as one")
    (page,) = ip.user_ns["shown"]
    start = "job: https://console.example.com/cn-hangzhou/job-insights?h=http://127.0.0.1:"
    assert page["text/plain"].startswith(start)
    assert odps.profile.access_id not in page["text/plain"]


def test_an_error_in_sql_shows_its_position(ip, odps, capsys):
    with pytest.raises(OdpsNbError) as caught:
        run(ip, "%%odps sql\nselect id\nfrom orders\nwhre id = 1")
    assert caught.value.excerpt == "  whre id = 1\n       ^"  # `whre` is parsed as an alias
    ip.run_cell("%%odps sql\nselect id frm orders")
    assert "\n  select id frm orders\n                ^\nwhere: " in capsys.readouterr().out
    with pytest.raises(OdpsNbError) as caught:
        odps.sql("select no_such_column from orders")
    assert caught.value.excerpt == "  select no_such_column from orders\n         ^"
    with pytest.raises(OdpsNbError) as caught:
        odps.sql("select id from orders group by 2")
    assert caught.value.excerpt is None  # the service reports no position


def test_the_error_for_an_unbound_name_suggests_only_variables(ip):
    assert "did you mean" not in usage_error(ip, '%odps read orders -n 1 -w "status = :oper"')
    ip.user_ns["states"] = ["new"]
    error = usage_error(ip, '%odps read orders -n 1 -w "status in (:state)"')
    assert error.endswith("did you mean :states?")


def test_a_limited_read_shows_the_total_number_of_rows(ip):
    total = run(ip, f"%%odps sql -t pandas\nselect count(*) n from ({ORDERS}) t")["n"][0]
    run(ip, f"%%odps sql -n 5\n{ORDERS}")
    assert f"first 5 of {total:,} rows" in str(ip.user_ns["shown"])
    with capture_output() as shown:
        ip.run_cell(f"%%odps sql -n 5 -o some\n{ORDERS}")
        ip.run_cell("%odps read orders -p ds=2024-01-01 -c id,status -n 5 -o rows")
        ip.run_cell("%odps read orders -c id -w 'quantity > 0' -n 5 -o rows")
    said = shown.stdout + str([output.data for output in shown.outputs])
    assert said.count(f"first 5 of {total:,} rows × 2 columns") == 2
    assert "first 5 rows × 1 column" in said
    with capture_output() as shown:
        ip.run_cell(f"%%odps sql -q -n 5 -o some\n{ORDERS}")
        ip.run_cell(f"%%odps sql -n {total} -o some\n{ORDERS}")
    assert "first" not in shown.stdout + str([output.data for output in shown.outputs])


def test_a_limit_works_if_the_account_may_not_read_all_rows(ip, tmp_path):
    query = NUMBERS.format(11) + " order by n"
    with protected_service(tmp_path) as service, analyst_of(service) as analyst:
        ip.magics_manager.registry["OdpsMagics"].context.use(analyst, owned=False)
        with capture_output() as shown:
            ip.run_cell(f"%%odps sql -n 5 -o some\n{query}")
        assert ip.user_ns["some"]["n"].tolist() == [0, 1, 2, 3, 4]
        said = shown.stdout + str([output.data for output in shown.outputs])
        assert "first 5 rows × 1 column" in said
        with pytest.raises(AccessDeniedError, match="first 10,000 rows"):
            run(ip, f"%%odps sql -t pandas\n{query}")


@pytest.mark.parametrize("form", ["in :L", "in (:L)"])
def test_a_bound_list_selects_its_rows_in_sql_and_in_filters(ip, form):
    ip.user_ns["L"] = ["paid", "shipped"]
    counted = run(
        ip, f"%%odps sql -t pandas\nselect count(*) n from ({ORDERS}) t where status {form}"
    )
    expected = run(
        ip, f"%%odps sql -t pandas\nselect status, count(*) n from ({ORDERS}) t group by status"
    )
    wanted = expected[expected["status"].isin(["paid", "shipped"])]["n"].sum()
    assert counted["n"].tolist() == [wanted]
    assert wanted > 0
    read = run(ip, f"%odps read orders -p ds=2024-01-01 -c status -w 'status {form}'")
    assert len(read) == wanted


def test_an_option_keeps_the_blanks_of_char(ip):
    """Evidence 153: CHAR(n) may arrive padded to n characters."""
    odps = ip.user_ns["odps"]
    odps.create_table("magic_chars", "c char(4)")
    odps.table("magic_chars").write(pa.table({"c": ["ab"]}))
    lines = (
        "%odps head {} magic_chars",
        "%odps read {} magic_chars",
        "%%odps sql -t pandas {}\nselect c from magic_chars",
    )
    for line in lines:
        assert run(ip, line.format(""))["c"].tolist() == ["ab"], line
        assert run(ip, line.format("--char-padding"))["c"].tolist() == ["ab  "], line
    odps.drop_table("magic_chars")


def test_sql_shows_an_explorer_and_reads_only_the_displayed_rows(ip, row_limits):
    with closing(run(ip, f"%%odps sql\n{ORDERS}")) as explorer:
        assert "rows 1–20 of 231,072" in explorer._repr_html_()
        assert row_limits == [100]
        assert explorer.code == f"odps.sql({ORDERS!r})"
    assert "instance " in run(ip, "%odps status")[-1][-1]
    with closing(run(ip, f"%odps sql -n 5 {ORDERS}")) as explorer:
        assert explorer.view.total == 5
        assert explorer.code.endswith(".first(5)")
    run(ip, f"frame = %odps sql {ORDERS} limit 7")
    assert len(ip.user_ns["frame"]) == 7
    run(ip, "text = %odps sql select '%odps sql' as x")
    assert ip.user_ns["text"]["x"].tolist() == ["%odps sql"]


@pytest.mark.parametrize("options", ["", "-t arrow", "-n 3"])
def test_sql_into_a_variable_also_shows_the_explorer(ip, options):
    assert run(ip, f"%%odps sql -o some {options}\n{ORDERS} limit 30") is None
    note, shown = ip.user_ns["shown"]
    rows = 3 if options == "-n 3" else 30
    assert note["text/plain"].startswith("some ← sql select id, status")
    assert ip.user_ns["some"].shape == (rows, 2)
    assert f"{rows} rows · 2 columns" in shown["text/plain"]
    run(ip, f"%%odps sql -q -o some {options}\n{ORDERS} limit 30")
    assert ip.user_ns["shown"] == []


@pytest.mark.parametrize("options", ["--bg", "-t batches"])
def test_sql_without_a_read_of_its_result_shows_no_explorer(ip, options):
    run(ip, f"%%odps sql -o later {options}\n{ORDERS} limit 30")
    (note,) = ip.user_ns["shown"]
    assert note["text/plain"].startswith("later ← sql select id, status")
    later = ip.user_ns["later"]
    assert options == "-t batches" or len(later.result(60)) == 30


def test_a_query_can_be_shown_as_a_chart_and_assigned(ip):
    query = "select status, amount from orders where ds = '2024-01-01'"
    chart = run(ip, f"%%odps sql --chart bar:status,amount -q\n{query}")
    assert chart.to_pandas().columns.tolist() == ["status", "sum of amount"]
    run(ip, f"%%odps sql --chart histogram:amount -o rows -q\n{query}")
    assert ip.user_ns["rows"].columns.tolist() == ["status", "amount"]
    for chart in ("bar:", '""'):
        assert "write KIND:X" in usage_error(ip, f"%%odps sql --chart {chart}\n{query}")
    for ignored in ("-n 5", "-t arrow", "--bg", "--decimals exact"):
        text = f"%%odps sql --chart bar:status {ignored}\n{query}"
        assert "--chart draws all rows" in usage_error(ip, text)
    with pytest.raises(ArgumentError, match="is not one of bar"):
        run(ip, f"%%odps sql --chart pie:status -q\n{query}")
