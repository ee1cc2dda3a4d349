"""The magics in a real shell against the embedded service; kernels are in test_kernel*.py."""

from __future__ import annotations

import signal
import threading
from contextlib import closing

import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.display import display
from IPython.utils.capture import capture_output

import odps_nb
from odps_nb import load_ipython_extension
from odps_nb.errors import (
    ArgumentError,
    CancelledError,
    ConfigError,
    ConversionError,
    LimitExceededError,
    NotFoundError,
    OdpsNbError,
)


@pytest.fixture
def ip(shell, odps):
    """A shell with the magics, connected to the service of this run."""
    load_ipython_extension(shell)
    shell.user_ns["odps"] = odps
    magics = shell.magics_manager.registry["OdpsMagics"]
    magics.context.use(odps, owned=False)
    return shell


def run(shell, text: str):
    """Run a cell and return its value; its error is raised."""
    with capture_output() as shown:
        result = shell.run_cell(text)
    shell.user_ns["shown"] = [output.data for output in shown.outputs]
    result.raise_error()
    return result.result


def usage_error(shell, text: str) -> str:
    with capture_output() as shown:
        shell.run_cell(text)
    assert shown.stderr.startswith("UsageError: ")
    assert shown.stderr.count("\n") == 1
    return shown.stderr.removeprefix("UsageError: ").strip()


# -- connect ----------------------------------------------------------------------------------


def test_connect_takes_a_variable_and_never_closes_it(ip, odps):
    run(ip, "%odps connect odps")
    run(ip, "%unload_ext odps_nb\n%load_ext odps_nb")
    assert "orders" in odps.tables()


def test_connect_to_an_unknown_profile_is_a_config_error(ip):
    with pytest.raises(ConfigError) as caught:
        run(ip, "%odps connect nobody")
    assert caught.value.hint


def test_without_any_setting_the_first_use_says_what_is_missing(shell):
    load_ipython_extension(shell)
    with pytest.raises(ConfigError) as caught:
        run(shell, "%odps tables")
    assert str(caught.value) == "no connection yet"
    assert caught.value.hint == "try %odps connect local, or set ODPS_ENDPOINT and ODPS_PROJECT"


def test_connect_to_a_url_takes_the_keys_from_the_environment(ip, service, monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_ID", service.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", service.access_key)
    run(ip, f"%odps connect {service.endpoint} --project {service.project} -o mine")
    (note,) = ip.user_ns["shown"]
    where = f"project {service.project} at {service.endpoint}"
    assert note["text/plain"] == f"{where} · the service answers"
    assert "orders" in ip.user_ns["mine"].tables()
    ip.user_ns["mine"].close()


def test_connect_says_what_the_service_answers(ip, service, monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_ID", "nobody")
    monkeypatch.setenv("ODPS_ACCESS_KEY", "wrong")
    for target, answer in (
        (service.endpoint, "not usable yet: AccessDeniedError: access id 'nobody' is unknown"),
        ("http://127.0.0.1:1/api", "not usable yet: ConnectError: 127.0.0.1:1 refuses"),
    ):
        run(ip, f"%odps connect {target} --project {service.project}")
        (note,) = ip.user_ns["shown"]
        assert answer in note["text/plain"]


def test_connect_gives_the_connection_where_it_is_assigned(ip, odps):
    assert run(ip, "mine = %odps connect odps") is None
    assert ip.user_ns["mine"] is odps
    assert run(ip, "%odps connect odps") is None  # shown in words, not a second time as a repr


def test_local_starts_a_service_and_the_same_cell_finds_it_again(ip, tmp_path):
    run(ip, f"%odps connect local --root {tmp_path} -o first")
    try:
        assert "tables go with this kernel" not in ip.user_ns["shown"][0]["text/plain"]
        ip.user_ns["first"].create_table("kept", "id bigint")
        run(ip, f"%odps connect local --root {tmp_path} -o second")
        assert ip.user_ns["second"] is ip.user_ns["first"]
        assert [row[0] for row in run(ip, "%odps tables kept*")] == ["kept"]
    finally:
        ip.user_ns["first"].close()


def test_a_zone_of_the_connection_is_that_of_every_magic(ip, service, new_name, monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_ID", service.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", service.access_key)
    zone, name = "Asia/Shanghai", new_name("zoned")
    target = f"{service.endpoint} --project {service.project}"
    run(ip, f"%odps connect {target} --timezone {zone} -o zoned")
    (note,) = ip.user_ns["shown"]
    assert f" · times of {zone} · " in note["text/plain"]
    clock = pd.Timestamp("2024-01-31 10:00:00")
    with ip.user_ns["zoned"] as zoned:
        zoned.create_table(name, "t timestamp")
        ip.user_ns.update(frame=pd.DataFrame({"t": [clock]}), at=clock.tz_localize(zone))
        run(ip, f"%odps write frame {name}")
        for cell in (
            f"%odps read {name} -w \"t = '2024-01-31 10:00:00'\"",
            f'%odps read {name} -w "t = :at"',
            f"%odps head {name}",
            f"%%odps sql\nselect * from {name} where t = :at",
        ):
            found = run(ip, cell)
            assert str(found["t"].dtype) == f"datetime64[ns, {zone}]"
            assert found["t"].tolist() == [clock.tz_localize(zone)]


def test_without_a_zone_sql_takes_no_time_that_has_one(ip):
    ip.user_ns["at"] = pd.Timestamp("2024-01-31 10:00:00+08:00")
    assert "time zone" in usage_error(ip, "%%odps sql\nselect 1 as a where :at is null")
    read = run(ip, '%odps read orders -n 3 -w "created > :at"')
    assert len(read) <= 3


# -- looking ----------------------------------------------------------------------------------


def test_tables_say_more_than_names_and_partitions_are_listed(ip):
    orders = next(row for row in run(ip, "%odps tables ord*") if row[0] == "orders")
    assert orders[1:4] == ("2,048,000", orders[2], "ds")
    assert orders[2].endswith(" MB")
    found = run(ip, "%odps partitions orders")
    assert len(found) == 8
    assert found[0][:2] == ("ds=2024-01-01", "231,072")
    assert [row[0] for row in run(ip, f"%odps partitions orders -p {found[1][0]}")] == [found[1][0]]
    with pytest.raises(ArgumentError, match="'dt' is not a partition column"):
        run(ip, "%odps partitions orders -p dt=1")
    with pytest.raises(ArgumentError, match="no partitions"):
        run(ip, "%odps partitions media")


def test_a_large_table_is_read_only_when_asked(ip):
    told = usage_error(ip, "%odps read orders -o whole")
    assert told.startswith("orders is about 404.4 MB: say -n N")
    assert "whole" not in ip.user_ns
    run(ip, "%config OdpsMagics.ask_above = 1000")
    few = "%odps read orders -p ds=2024-01-01 -c id"
    assert "is about 1.8 MB" in usage_error(ip, few)
    for allowed in ("--all", "-n 3", '-w "id < 1000003"', "--max-bytes 1GB"):
        assert len(run(ip, f"{few} {allowed}")) in (2, 3, 231_072)
    run(ip, "%config OdpsMagics.ask_above = None")
    assert len(run(ip, few)) == 231_072


def test_a_plan_estimates_the_chosen_columns(ip):
    def size(columns: str) -> str:
        plan = run(ip, f"%odps read orders -p ds=2024-01-01 -c {columns} --dry-run")
        return dict(plan.rows)["size"]

    assert size("id") == "about 1.8 MB"  # 231,072 rows of 8 bytes
    assert size("id,note") == "roughly 9.2 MB"


@pytest.mark.parametrize(
    "cell",
    [
        "%odps read orders -n 5 -c id,amount",
        "%odps head orders -n 5 -c id,amount",
        "%%odps sql {}\nselect id, amount from orders limit 5",
    ],
)
def test_decimals_and_dtypes_are_switches_of_every_frame(ip, cell):
    def dtypes(switch: str) -> list[str]:
        line, _, query = cell.partition("\n")
        line = line.replace("{}", "") + f" {switch}"
        return [str(one) for one in run(ip, f"{line}\n{query}" if query else line).dtypes]

    assert dtypes("") == ["int64", "decimal128(18, 2)[pyarrow]"]
    assert dtypes("--decimals float") == ["int64", "float64"]
    assert dtypes("--decimals float --dtype-backend numpy_nullable") == ["Int64", "Float64"]
    assert dtypes("--dtype-backend pyarrow")[0] == "int64[pyarrow]"


def test_dtypes_of_pandas_are_refused_for_other_results(ip):
    read = "%odps read orders -n 5 -c id"
    told = usage_error(ip, f"{read} -t arrow --decimals float")
    assert "--decimals cannot be used here: they shape a DataFrame of pandas, not -t arrow" in told
    assert "--dtype-backend cannot" in usage_error(ip, f"{read} -t batches --dtype-backend pyarrow")
    handle = run(ip, "%odps read orders -n 5 -c amount --decimals float --bg")
    assert str(handle.result().dtypes["amount"]) == "float64"


def test_tables_are_rows_in_code_too(ip):
    assert "orders" in [row[0] for row in run(ip, "%odps tables")]
    assert run(ip, "%odps tables zzz*").text() == "no table is named like zzz*"


def test_schema_gives_the_table(ip):
    table = run(ip, "%odps schema orders")
    assert table.schema.find("amount") is not None
    with pytest.raises(NotFoundError) as caught:
        run(ip, "%odps schema orderz")
    assert "orders" in caught.value.hint


def test_head_shows_preview_rows_of_the_partitions(ip):
    run(ip, "%config OdpsMagics.preview_rows = 4")
    assert run(ip, "%odps head orders -p ds=2024-01-03 -c id,ds").shape == (4, 2)
    assert run(ip, "%odps head orders -n 2 -o two") is None
    assert len(ip.user_ns["two"]) == 2
    several = run(ip, "%odps head orders -n 7 -p ds=2024-01-03 -p ds=2024-01-05 -c ds")
    assert set(several["ds"]) <= {"2024-01-03", "2024-01-05"}
    assert len(several) == 7


def test_explore_gives_a_view_of_the_table_or_of_some_rows(ip):
    with closing(run(ip, "%odps explore orders")) as view:
        assert view.code == "odps.table('orders').read()"
    with closing(run(ip, "%odps explore orders -p ds=2024-01-03 -w 'quantity > 9'")) as view:
        assert "where='quantity > 9', partitions=['ds=2024-01-03']" in view.code
    with pytest.raises(NotFoundError):
        run(ip, "%odps explore orderz")


# -- reading ----------------------------------------------------------------------------------


def test_a_read_is_displayed_or_put_into_a_variable(ip):
    frame = run(ip, "%odps read orders -n 7 -c id,status")
    assert isinstance(frame, pd.DataFrame)
    assert frame.shape == (7, 2)
    assert run(ip, "%odps read orders -n 7 -c id,status -o seven") is None
    (note,) = ip.user_ns["shown"]
    assert note["text/plain"] == "seven ← read orders · 7 rows × 2 columns"
    pd.testing.assert_frame_equal(ip.user_ns["seven"], frame)


def test_partitions_may_be_repeated(ip):
    frame = run(ip, "%odps read orders -p ds=2024-01-01 -p ds=2024-01-02 -c ds")
    assert frame["ds"].nunique() == 2


def test_the_settings_are_the_defaults(ip):
    run(ip, "%config OdpsMagics.result_type = 'arrow'\n%config OdpsMagics.limit = 3")
    table = run(ip, "%odps read orders -c id")
    assert isinstance(table, pa.Table)
    assert table.num_rows == 3
    assert len(run(ip, "%odps read orders -c id -n 5 -t pandas")) == 5


def test_a_filter_stands_on_the_line_or_in_the_cell(ip):
    ip.user_ns["wanted"] = ["paid", "it's"]
    line = run(ip, '%odps read orders -p ds=2024-01-01 -c status -w "status in :wanted"')
    cell = run(ip, "%%odps read orders -p ds=2024-01-01 -c status\nstatus in :wanted")
    assert set(line["status"]) == {"paid"}
    pd.testing.assert_frame_equal(line, cell)
    text = usage_error(ip, "%%odps read orders -w 'id > 1'\nid > 2")
    assert text == "write the filter in -w or in the cell, not in both"
    assert "did you mean :wanted?" in usage_error(ip, "%odps read orders -w 'status = :wantd'")


def test_names_are_looked_up_where_the_magic_stands(ip):
    run(ip, "state = 'nothing'")
    frame = run(
        ip,
        "def ask():\n    state = 'paid'\n"
        "    frame = %odps read orders -p ds=2024-01-01 -c status -n 5 -w 'status = :state'\n"
        "    return frame\nask()",
    )
    assert set(frame["status"]) == {"paid"}


@pytest.mark.parametrize(
    "value",
    ["it's", "back\\slash", 'quote" ` --', "new\nline", "日本 ☃", "' or '1'='1", ""],
)
def test_a_bound_text_means_itself_to_the_service(ip, value):
    ip.user_ns["value"] = value
    frame = run(
        ip, "%%odps sql\nselect :value as v, id from orders where ds = '2024-01-01' limit 1"
    )
    assert frame["v"].tolist() == [value]
    assert run(ip, "%odps read orders -p ds=2024-01-01 -n 5 -c id -w 'status = :value'").empty


def test_a_budget_stops_a_read(ip):
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


def test_batches_are_read_when_they_are_wanted(ip):
    run(ip, "%odps read orders -c id -p ds=2024-01-01 -t batches -o batches")
    first = next(ip.user_ns["batches"])
    assert isinstance(first, pa.RecordBatch)
    ip.user_ns["batches"].close()
    run(ip, "%odps read orders -c id -t batches --max-bytes 1kB -o few")
    with pytest.raises(LimitExceededError):
        next(ip.user_ns["few"])


@pytest.mark.parametrize("kind", ["spark", "batches"])
def test_what_cannot_be_read_in_the_background_says_why(ip, kind):
    assert "--bg cannot be used here" in usage_error(ip, f"%odps read orders -t {kind} --bg")


def test_a_dry_run_reads_no_row(ip):
    plan = dict(
        run(ip, "%odps read orders -p ds=2024-01-01 --splits 3 -c id,amount --dry-run").rows
    )
    assert plan["rows"] == "231,072"
    assert plan["splits"] == "3"
    assert plan["columns"] == "id, amount"
    filtered = dict(run(ip, "%odps read orders -w 'id < 0' --dry-run"))
    assert filtered["rows"] == "known only by reading (filter)"


def test_a_background_read_gives_its_result_later(ip):
    run(ip, "%odps read orders -p ds=2024-01-01 -c id --bg -o handle")
    handle = ip.user_ns["handle"]
    assert len(handle.result(60)) == 231072
    assert handle.done()


def test_an_interrupt_becomes_our_error_and_no_variable_appears(ip, moody_odps, stalled):
    ip.magics_manager.registry["OdpsMagics"].context.use(moody_odps, owned=False)
    main = threading.main_thread().ident
    assert main is not None
    before = set(threading.enumerate())

    def interrupt_soon() -> None:
        operations = ip.magics_manager.registry["OdpsMagics"].operations
        while not any(one.tracker.snapshot().rows for one in operations.all()):
            threading.Event().wait(0.005)
        signal.pthread_kill(main, signal.SIGINT)

    watcher = threading.Thread(target=interrupt_soon)
    watcher.start()
    with pytest.raises(CancelledError, match="stopped by an interrupt"):
        run(ip, "%odps read orders --all -o never")
    watcher.join()
    assert "never" not in ip.user_ns
    (one,) = ip.magics_manager.registry["OdpsMagics"].operations.all()
    assert one.tracker.snapshot().phase.value == "cancelled"
    assert set(threading.enumerate()) <= before


# -- SQL --------------------------------------------------------------------------------------


def test_sql_binds_values_and_reads_its_rows(ip):
    ip.user_ns["day"] = "2024-01-02"
    frame = run(ip, "%%odps sql\nselect count(*) as n from orders where ds = :day")
    assert frame["n"].tolist() == [243008]
    assert run(ip, "%%odps sql -t arrow -o one\nselect 1 as a") is None
    assert ip.user_ns["one"].num_rows == 1
    run(ip, "%%odps sql --bg -o later\nselect 2 as a")
    assert ip.user_ns["later"].result(60)["a"].tolist() == [2]
    assert "needs a query" in usage_error(ip, "%%odps sql\n  ")


ORDERS = "select id, status from orders where ds = '2024-01-01'"


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(("pandas", "-n"), ("arrow", "-n"), ("batches", "-n"), ("pandas", "setting")),
        *(("batches", "setting"), ("arrow", "both"), ("pandas", "bg"), ("arrow", "bg")),
    ],
)
def test_sql_brings_only_as_many_rows_as_asked(ip, odps, kind, way, monkeypatch):
    asked = []
    call = odps.storage.open

    def noting(request, *args, **more):
        asked.append(getattr(request, "count", None))
        return call(request, *args, **more)

    monkeypatch.setattr(odps.storage, "open", noting)
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
    assert asked == [5]


def test_a_statement_without_rows_says_what_was_done(ip, new_name):
    name = new_name("made")
    for statement, told in (
        (f"create table if not exists {name} (id bigint);", "done: table created"),
        (f"insert into {name} values (1)", "done: rows inserted"),
        (f"set a=b; insert overwrite table {name} select 2", "done: rows inserted"),
        (f"drop table {name};", "done: table dropped"),
    ):
        assert run(ip, f"%%odps sql\n{statement}") is None
        assert [one["text/plain"] for one in ip.user_ns["shown"]] == [told]
    empty = run(ip, "%%odps sql\nselect id from orders where id < 0")
    assert list(empty.columns) == ["id"]  # rows were asked for: the answer is that there are none


def test_a_dry_run_of_sql_gives_the_estimate_of_the_service(ip, odps):
    before = dict(odps.table("orders").reload().info.properties)
    days = "select id from orders where ds in ('2024-01-02', '2024-01-03')"
    cost = dict(run(ip, f"%%odps sql --dry-run\n{days}").rows)
    sizes = {str(row[0]): row[2] for row in run(ip, "%odps partitions orders")}
    assert sizes["ds=2024-01-02"] == "47.9 MB"
    assert cost == {"reads": "96.9 MB", "complexity": "1", "functions of users": "0"}
    run(ip, "%%odps sql --dry-run\ndrop table orders")
    assert odps.table("orders").reload().info.properties == before
    with pytest.raises(NotFoundError):
        run(ip, "%%odps sql --dry-run\nselect * from no_such_table")


def test_the_page_of_a_job_is_shown_where_the_service_has_one(ip, odps):
    context = ip.magics_manager.registry["OdpsMagics"].context
    run(ip, "%%odps sql\nselect 1 as one")
    assert ip.user_ns["shown"] == []  # the embedded service has no such pages
    context._console = odps.storage, "https://console.example.com/cn-hangzhou"
    run(ip, "%%odps sql\nselect 1 as one")
    (page,) = ip.user_ns["shown"]
    start = "job: https://console.example.com/cn-hangzhou/job-insights?h=http://127.0.0.1:"
    assert page["text/plain"].startswith(start)
    assert odps.profile.access_id not in page["text/plain"]


def test_an_error_in_sql_shows_its_place(ip, odps, capsys):
    with pytest.raises(OdpsNbError) as caught:
        run(ip, "%%odps sql\nselect id\nfrom orders\nwhre id = 1")
    assert caught.value.excerpt == "  whre id = 1\n       ^"
    ip.run_cell("%%odps sql\nselect id frm orders")
    assert "\n  select id frm orders\n                ^\nwhere: " in capsys.readouterr().out
    with pytest.raises(OdpsNbError) as caught:
        odps.sql("select no_such_column from orders")
    assert caught.value.excerpt is None  # the service names no place


def test_a_name_without_a_value_suggests_variables_only(ip):
    assert "did you mean" not in usage_error(ip, '%odps read orders -n 1 -w "status = :oper"')
    ip.user_ns["states"] = ["new"]
    told = usage_error(ip, '%odps read orders -n 1 -w "status in (:state)"')
    assert told.endswith("did you mean :states?")


def test_a_limit_says_how_many_rows_there_are(ip):
    total = run(ip, f"%%odps sql\nselect count(*) n from ({ORDERS}) t")["n"][0]
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


@pytest.mark.parametrize("form", ["in :L", "in (:L)"])
def test_a_list_chooses_its_rows_in_sql_and_in_filters(ip, form):
    ip.user_ns["L"] = ["paid", "shipped"]
    counted = run(ip, f"%%odps sql\nselect count(*) n from ({ORDERS}) t where status {form}")
    expected = run(ip, f"%%odps sql\nselect status, count(*) n from ({ORDERS}) t group by status")
    wanted = expected[expected["status"].isin(["paid", "shipped"])]["n"].sum()
    assert counted["n"].tolist() == [wanted]
    assert wanted > 0
    read = run(ip, f"%odps read orders -p ds=2024-01-01 -c status -w 'status {form}'")
    assert len(read) == wanted


# -- writing ----------------------------------------------------------------------------------


def test_a_variable_is_written_and_read_back(ip, odps, new_name):
    name = new_name("written")
    odps.create_table(name, "id bigint, note string", partitioned_by="ds string")
    ip.user_ns["rows"] = pd.DataFrame({"id": [1, 2], "note": ["a", None]})
    receipt = run(ip, f"%odps write rows {name} -p ds=2024-01-01")
    assert receipt.rows == 2
    run(ip, f"%odps write rows {name} -p ds=2024-01-01 --overwrite -q")
    assert len(run(ip, f"%odps read {name}")) == 2
    ip.user_ns["wrong"] = pd.DataFrame({"id": ["x"], "note": ["a"]})
    with pytest.raises(ConversionError):
        run(ip, f"%odps write wrong {name} -p ds=2024-01-01")
    assert len(run(ip, f"%odps read {name}")) == 2
    assert "write key=value" in usage_error(ip, f"%odps write rows {name} -p 2024-01-01")


def test_a_variable_makes_its_table(ip, new_name):
    name = new_name("magic_made")
    ip.user_ns["rows"] = pd.DataFrame({"id": [1, 2], "ds": ["a", "b"]})
    with pytest.raises(NotFoundError) as missing:
        run(ip, f"%odps write rows {name}")
    assert "--create" in missing.value.hint
    run(ip, f"%odps write rows {name} --create --partitioned-by ds -q")
    assert [str(one) for one in run(ip, f"%odps schema {name}").partitions()] == ["ds=a", "ds=b"]
    assert "--pattern is for a folder" in usage_error(ip, f"%odps write rows {name} --pattern *.a")


def test_a_folder_is_written_as_files(ip, new_name, tmp_path):
    folder, name = tmp_path / "my files", new_name("magic_files")
    folder.mkdir()
    for file in ("a.txt", "b.csv"):
        (folder / file).write_text("x,y\n1,2\n3,4\n")
    assert run(ip, f"%odps write '{folder}' {name}").blobs == 2
    ip.user_ns["folder"] = folder
    receipt = run(ip, f"%odps write folder {name} --pattern *.csv --overwrite -q")
    assert (receipt.rows, receipt.overwrite) == (1, True)
    wrong = usage_error(ip, f"%odps write foldr {name}")
    assert wrong == "there is no variable 'foldr'; did you mean folder?"
    assert usage_error(ip, f"%odps write ./foldr {name}") == "there is no folder './foldr'"
    assert "-p KEY=VALUE" in usage_error(ip, f"%odps write folder {name} --partitioned-by a")


# -- blobs ------------------------------------------------------------------------------------


def test_blobs_are_shown_listed_and_saved(ip, tmp_path):
    bundle = gallery(ip, "%odps blobs media -c content -n 3 --view list")
    assert set(bundle) == {"text/html", "text/plain"}
    listing = run(ip, f"%odps blobs media -c content -n 3 --save {tmp_path / 'files'}")
    assert sorted(row[0] for row in listing) == sorted(
        str(path) for path in (tmp_path / "files").iterdir()
    )
    assert len(listing) == 3
    with pytest.raises(NotFoundError, match="contnt") as caught:
        run(ip, "%odps blobs media -c contnt")
    assert "did you mean 'content'?" in caught.value.hint


def gallery(ip, text: str):
    """Run a cell whose value is a gallery, and return what that displays."""
    value = run(ip, text)
    with capture_output() as shown:
        display(value)
    (output,) = shown.outputs
    return output.data


def heading(ip, text: str) -> str:
    return gallery(ip, text)["text/plain"].splitlines()[0]


def test_blobs_may_be_rendered_on_the_static_page(ip):
    where = "-w \"name = 'report.html'\""
    assert "<iframe" not in gallery(ip, f"%odps blobs media {where}")["text/html"]
    assert run(ip, f"%odps blobs media --render {where}") is None
    (bundle,) = ip.user_ns["shown"]
    assert 'sandbox=""' in bundle["text/html"]


def test_a_gallery_says_of_how_many_it_shows_the_first(ip, odps):
    every = len(odps.table("media").blobs())
    column = "local.media.content"
    assert heading(ip, "%odps blobs media -n 2") == f"{column} · first 2 of {every} blobs"
    assert heading(ip, "%odps blobs media -n 50") == f"{column} · {every} blobs"
    filtered = "%odps blobs media -n 2 -w \"declared = 'image/png'\""
    assert heading(ip, filtered) == f"{column} · first 2 blobs"


def test_blobs_of_a_type_are_found_wherever_they_stand(ip, tmp_path):
    first = ip.user_ns["odps"].table("media").blobs(limit=1)
    assert first[0].mime_type != "application/pdf"
    told = heading(ip, "%odps blobs media -n 1 --mime application/pdf")
    assert told == "local.media.content · first 1 blob"
    files = run(ip, f"%odps blobs media -n 1 --mime application/pdf --save {tmp_path}")
    assert [row[0].endswith(".pdf") for row in files] == [True]


def test_a_nested_blob_is_named_by_its_path_and_an_only_one_not_at_all(ip):
    told = heading(ip, "%odps blobs documents -c pages.element.image -n 1")
    assert told.startswith("local.documents.pages.element.image · first 1 of ")
    assert heading(ip, "%odps blobs documents -n 1") == told
    with pytest.raises(NotFoundError, match="no BLOB column"):
        run(ip, "%odps blobs orders")


def test_of_several_blob_columns_one_must_be_named(ip, odps, new_name):
    name = new_name("blobs")
    odps.create_table(name, "a blob, b blob")
    with pytest.raises(ArgumentError, match="2 BLOB columns") as caught:
        run(ip, f"%odps blobs {name}")
    assert caught.value.hint == "name one of: a, b"
    odps.drop_table(name)


def test_an_output_of_blobs_keeps_to_its_budget(ip):
    run(ip, "%config OdpsMagics.max_output_bytes = 100_000")
    bundle = gallery(ip, "%odps blobs media -c content -n 40")
    assert len(bundle["text/html"]) <= 110_000


# -- Tab --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%odps read ord", "%odps read orders"),
        ("%odps read orders -c id,amo", "%odps read orders -c id,amount"),
        ("%odps read orders -p ds=2024-01-08", "%odps read orders -p ds=2024-01-08"),
        ("%odps read orders -p ds=2", "%odps read orders -p ds=2024-01-01"),
        ('%odps read orders -w "quan', '%odps read orders -w "quantity'),
        ("%%odps read orders\nquan", "%%odps read orders\nquantity"),
        ("%%odps sql\nselect * from med", "%%odps sql\nselect * from media"),
        ('odps.table("med', 'odps.table("media'),
        ('other.table("med', 'other.table("media'),
    ],
)
def test_the_first_tab_knows_tables_columns_and_partitions(ip, odps, profile, text, wanted):
    ip.user_ns["other"] = odps_nb.connect(profile)
    with provisionalcompleter(), ip.user_ns["other"]:
        found = list(ip.Completer.completions(text, len(text)))
    assert wanted in [text[: one.start] + one.text for one in found]
    assert all((text[: one.start] + one.text).startswith(text[:-3]) for one in found)


def test_tab_before_from_knows_the_columns(ip):
    text, cursor = "%%odps sql\nselect quan from orders", len("%%odps sql\nselect quan")
    with provisionalcompleter():
        found = [one.text for one in ip.Completer.completions(text, cursor)]
    assert found == ["quantity"]


def test_every_failure_of_the_service_is_ours(ip):
    for cell in (
        "%odps read no_such_table",
        "%odps read orders -p ds=1999-01-01",
        "%odps read orders -w 'nonsense ='",
        "%odps read 'orders; drop table orders'",
        "%%odps sql\nselect from from",
    ):
        with pytest.raises(OdpsNbError) as caught:
            run(ip, cell)
        assert caught.value.hint
