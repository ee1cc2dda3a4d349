"""%odps connect, tables, head and similar magics work in a real shell."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import pandas as pd
import pytest
from odps import ODPS

from odps_nb import load_ipython_extension
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ArgumentError, ConfigError, ConversionError, NotFoundError
from tests.support.any_bytes import send, text_of
from tests.support.shell import run, usage_error

# -- connect ----------------------------------------------------------------------------------


def test_connect_uses_the_connection_in_a_variable_and_never_closes_it(ip, odps):
    run(ip, "%odps connect odps")
    run(ip, "%unload_ext odps_nb\n%load_ext odps_nb")
    assert "orders" in odps.tables()


def test_the_error_without_settings_names_the_missing_settings(shell):
    load_ipython_extension(shell)
    with pytest.raises(ConfigError) as caught:
        run(shell, "%odps tables")
    assert str(caught.value) == "no connection yet: endpoint and project are missing"
    assert caught.value.hint.startswith("run %odps connect local to try the magics without an acc")
    assert "ODPS_ENDPOINT" in caught.value.hint
    shell.user_ns["o"] = ODPS("me", "key", "p", "http://127.0.0.1:1/api", overwrite_global=False)
    with pytest.raises(ConfigError) as caught:
        run(shell, "%odps tables")
    assert caught.value.hint.startswith("run %odps connect o, which holds a pyodps object; ")


def test_the_connection_of_the_only_variable_is_used_and_not_closed(shell, odps):
    load_ipython_extension(shell)
    shell.user_ns |= {"odps": odps, "same": odps, "_3": object()}
    assert "orders" in str(run(shell, "%odps tables"))
    run(shell, "%unload_ext odps_nb")
    assert "orders" in odps.tables()


def test_threads_that_connect_at_the_same_time_share_one_connection(shell, service, monkeypatch):
    for name in ("access_id", "access_key", "endpoint", "project"):
        monkeypatch.setenv(f"ODPS_{name.upper()}", getattr(service, name))
    load_ipython_extension(shell)
    context = shell.magics_manager.registry["OdpsMagics"].context
    begin = Barrier(4, timeout=30)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: (begin.wait(), context.connection), range(4)))
    assert len({id(connection) for _, connection in found}) == 1


def test_connect_to_a_url_takes_the_keys_from_the_environment(ip, service, monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_ID", service.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", service.access_key)
    run(ip, f"%odps connect {service.endpoint} --project {service.project} -o mine")
    (note,) = ip.user_ns["shown"]
    where = f"project {service.project} at {service.endpoint}"
    zone = "time zone: UTC, in the project and in this connection"
    assert note["text/plain"] == f"{where} · the service responds · {zone}"
    assert "orders" in ip.user_ns["mine"].tables()
    ip.user_ns["mine"].close()


def test_connect_shows_the_response_of_the_service(ip, service, monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_ID", "nobody")
    monkeypatch.setenv("ODPS_ACCESS_KEY", "wrong")
    for target, answer in (
        (service.endpoint, "not usable yet: AccessDeniedError: access id 'nobo…' is unknown"),
        (
            "http://127.0.0.1:1/api",
            "not usable yet: ConnectError: the service at 127.0.0.1:1 refuses",
        ),
    ):
        run(ip, f"%odps connect {target} --project {service.project}")
        (note,) = ip.user_ns["shown"]
        assert answer in note["text/plain"]


def test_an_assigned_connect_returns_the_connection(ip, odps):
    assert run(ip, "mine = %odps connect odps") is None
    assert ip.user_ns["mine"] is odps
    assert run(ip, "%odps connect odps") is None  # the connection is displayed once


def test_an_assignment_after_load_ext_in_one_cell_returns_the_connection(ip, odps):
    ip.run_line_magic("unload_ext", "odps_nb")
    run(ip, "%load_ext odps_nb\nmine = %odps connect odps;")
    assert ip.user_ns["mine"] is odps


@pytest.mark.parametrize("kind", ["profile", "pyodps"])
def test_connect_accepts_profiles_and_pyodps_objects_from_a_variable(ip, service, kind):
    facts = {"endpoint": service.endpoint, "project": service.project}
    ip.user_ns["o"] = (
        Profile(access_id=service.access_id, access_key=service.access_key, **facts)
        if kind == "profile"
        else ODPS(service.access_id, service.access_key, **facts)
    )
    found = run(ip, "c = %odps connect o --timezone Asia/Shanghai\nc")
    (note,) = ip.user_ns["shown"]
    assert f"project {service.project} at {service.endpoint} · times of Asia/" in note["text/plain"]
    assert " · the service responds · time zone: UTC in the project, " in note["text/plain"]
    assert "orders" in found.tables()
    context = ip.magics_manager.registry["OdpsMagics"].context
    assert "odps_nb.connect(o, timezone='Asia/Shanghai')" in context.opening(found, "odps")
    found.close()


def test_a_profile_takes_precedence_over_a_variable_of_the_same_name(ip):
    ip.user_ns["work"] = 5
    with pytest.raises(ConfigError, match="no profile 'work'"):
        run(ip, "%odps connect work")


@pytest.mark.parametrize("cell", ["%odps connect", "%odps tables"])
def test_without_a_default_the_error_lists_the_profiles(shell, cell, tmp_path, monkeypatch):
    path = tmp_path / "profiles.toml"
    table = '[{}]\nendpoint = "http://127.0.0.1:1/api"\nproject = "p"\n'
    path.write_text(table.format("work") + table.format("test"))
    path.chmod(0o600)
    monkeypatch.setenv("ODPS_NB_PROFILES", str(path))
    load_ipython_extension(shell)
    with pytest.raises(ConfigError) as caught:
        run(shell, cell)
    assert "connect with the name of a profile (work, test), or set " in caught.value.hint


def test_local_starts_a_service_and_the_same_cell_finds_it_again(ip, tmp_path):
    run(ip, f"%odps connect local --root {tmp_path} -o first")
    try:
        assert "tables are deleted" not in ip.user_ns["shown"][0]["text/plain"]
        ip.user_ns["first"].create_table("kept", "id bigint")
        run(ip, f"%odps connect local --root {tmp_path} -o second")
        assert ip.user_ns["second"] is ip.user_ns["first"]
        assert [row[0] for row in run(ip, "%odps tables kept*")] == ["kept"]
    finally:
        ip.user_ns["first"].close()


def test_a_local_service_keeps_its_tables_until_the_kernel_ends(ip, odps, new_name):
    context = ip.magics_manager.registry["OdpsMagics"].context
    kept = new_name("kept")
    run(ip, "%odps connect local")
    first = context.connection
    first.create_table(kept, "id bigint")
    seen = {}
    for options in ["--timezone Asia/Shanghai", "", "--schema default", "--timezone Asia/Shanghai"]:
        run(ip, f"%odps connect local {options}")
        found = context.connection
        assert seen.setdefault(options, found) is found  # open explorers still work
        assert (found is first) == (not options)
        asked = dict([options.removeprefix("--").split()]) if options else {}
        assert found.profile.timezone == asked.get("timezone")
        assert found.profile.schema == asked.get("schema")
        assert [row[0] for row in run(ip, f"%odps tables {kept}*")] == [kept]
        run(ip, "%odps connect odps")
        assert len(run(ip, f"%odps tables {kept}*")) == 0
    with pytest.raises(ConfigError, match="region does not apply"):
        run(ip, "%odps connect local --region cn-hangzhou")
    run(ip, "%odps connect local --project second")
    assert len(run(ip, f"%odps tables {kept}*")) == 0
    second = context.connection
    context.close()
    assert not first._service.is_running
    assert not second._service.is_running
    assert all(one.closed for one in seen.values())


def test_every_magic_uses_the_time_zone_of_the_connection(ip, service, new_name, monkeypatch):
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
            f"%%odps sql -t pandas\nselect * from {name} where t = :at",
        ):
            found = run(ip, cell)
            assert str(found["t"].dtype) == f"datetime64[ns, {zone}]"
            assert found["t"].tolist() == [clock.tz_localize(zone)]


def test_without_a_time_zone_sql_refuses_times_with_a_zone(ip):
    ip.user_ns["at"] = pd.Timestamp("2024-01-31 10:00:00+08:00")
    assert "time zone" in usage_error(ip, "%%odps sql\nselect 1 as a where :at is null")
    read = run(ip, '%odps read orders -n 3 -w "created > :at"')
    assert len(read) <= 3


# -- lists ----------------------------------------------------------------------------------


def test_times_of_a_list_are_those_of_the_connections_time_zone(ip, odps):
    seen = []
    for zone in ("Etc/GMT-14", "Etc/GMT+12"):  # at any time, their days differ
        ip.user_ns["other"] = odps._changed(schema=None, timezone=zone)
        run(ip, "%odps connect other")
        found = run(ip, "%odps tables ord*")
        seen.append(pd.Timestamp(found[0][found.headers.index("changed")]))
    assert seen[0] - seen[1] == pd.Timedelta(hours=26)


def test_tables_are_listed_with_details_and_partitions(ip):
    orders = next(row for row in run(ip, "%odps tables ord*") if row[0] == "orders")
    assert (orders[1], orders[4]) == ("2,048,000", "ds")
    assert orders[2].endswith(" MB")
    assert run(ip, "%odps tables -s rows")[0][0] == "orders"
    assert {row[0] for row in run(ip, "%odps tables -c dig*")} == {"orders"}
    assert not run(ip, "%odps tables med* -c quantity")
    found = run(ip, "%odps partitions orders")
    assert len(found) == 8
    assert found[0][:2] == ("ds=2024-01-01", "231,072")
    assert [row[0] for row in run(ip, f"%odps partitions orders -p {found[1][0]}")] == [found[1][0]]
    with pytest.raises(ArgumentError, match="'dt' is not a partition column"):
        run(ip, "%odps partitions orders -p dt=1")
    with pytest.raises(ArgumentError, match="is not partitioned"):
        run(ip, "%odps partitions media")


def test_a_large_table_is_read_only_with_an_option(ip):
    error = usage_error(ip, "%odps read orders -o whole")
    size = (
        r"(about 40[34]\.\d|roughly 442\.4)"  # an estimate by the service, or by the types (tunnel)
    )
    assert re.match(rf"orders is {size} MB; the limit is 268\.4 MB: pass -n N", error)
    assert "whole" not in ip.user_ns
    run(ip, "%config OdpsMagics.confirm_above = 1000")
    few = "%odps read orders -p ds=2024-01-01 -c id"
    assert "is about 1.8 MB" in usage_error(ip, few)
    for allowed in ("--all", "-n 3", '-w "id < 1000003"', "--max-bytes 1GB"):
        assert len(run(ip, f"{few} {allowed}")) in (2, 3, 231_072)
    run(ip, "%config OdpsMagics.confirm_above = None")
    assert len(run(ip, few)) == 231_072


def test_a_dry_run_estimates_the_bytes_of_the_selected_columns(ip):
    def size(columns: str) -> str:
        plan = run(ip, f"%odps read orders -p ds=2024-01-01 -c {columns} --dry-run")
        return dict(plan.rows)["size"]

    assert size("id") == "about 1.8 MB"  # 231,072 rows of 8 bytes
    assert size("id,note") == "roughly 9.2 MB"


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    "cell",
    [
        "%odps read orders -n 5 -c id,amount",
        "%odps head orders -n 5 -c id,amount",
        "%%odps sql -t pandas {}\nselect id, amount from orders limit 5",
    ],
)
def test_decimals_and_dtypes_are_options_of_every_data_frame(ip, cell):
    def dtypes(switch: str) -> list[str]:
        line, _, query = cell.partition("\n")
        line = line.replace("{}", "") + f" {switch}"
        return [str(one) for one in run(ip, f"{line}\n{query}" if query else line).dtypes]

    assert dtypes("") == ["int64", "float64"]
    assert dtypes("--decimals auto") == ["int64", "float64"]
    assert dtypes("--decimals exact") == ["int64", "object"]
    assert dtypes("--decimals float") == ["int64", "float64"]
    assert dtypes("--decimals float --dtype-backend numpy_nullable") == ["Int64", "Float64"]
    assert dtypes("--dtype-backend pyarrow")[0] == "int64[pyarrow]"


def test_a_note_reports_the_dtypes_of_decimals(ip):
    def output(line: str) -> str:
        run(ip, line)
        return "".join(one["text/plain"] for one in ip.user_ns["shown"])

    read = "%odps read orders -n 5 -c id,amount -o df"
    assert "DECIMAL as float64: amount" in output(read)
    assert "DECIMAL" not in output(f"{read} --decimals exact")
    assert "DECIMAL" not in output("%odps read orders -n 5 -c id -o df")
    query = "cast('12345678901234567.89' as decimal(38,2)) as total, amount from orders limit 1"
    said = output(f"%%odps sql -o df\nselect {query}")
    assert "DECIMAL as float64: amount · DECIMAL kept exact; float64 would round: total" in said


def test_dtypes_of_pandas_are_refused_for_other_results(ip):
    read = "%odps read orders -n 5 -c id"
    error = usage_error(ip, f"{read} -t arrow --decimals float")
    assert "--decimals cannot be used here: it only applies to pandas results, not" in error
    assert "--dtype-backend cannot" in usage_error(ip, f"{read} -t batches --dtype-backend pyarrow")
    handle = run(ip, "%odps read orders -n 5 -c amount --decimals float --bg")
    assert str(handle.result().dtypes["amount"]) == "float64"


def test_a_pattern_without_matches_is_reported(ip):
    assert run(ip, "%odps tables zzz*").text() == "no table name matches zzz*"
    assert "no table name matches" in run(ip, '%odps tables ""').text()
    assert "no table has a column" in run(ip, '%odps tables -c ""').text()


def test_the_subcommand_schema_returns_the_table(ip):
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


def test_the_subcommand_explore_returns_a_view_of_the_table_or_of_some_rows(ip):
    with closing(run(ip, "%odps explore orders")) as view:
        assert view.code == "odps.table('orders').read()"
    with closing(run(ip, "%odps explore orders -p ds=2024-01-03 -w 'quantity > 9'")) as view:
        assert "where='quantity > 9', partitions=['ds=2024-01-03']" in view.code
    with pytest.raises(NotFoundError):
        run(ip, "%odps explore orderz")


@pytest.mark.parametrize(
    "cell", ["%odps read {} -c s", "%odps head {} -c s", "%%odps sql -t pandas\nselect s from {}"]
)
def test_text_that_is_not_utf8_is_handled_as_requested(ip, odps, new_name, cell):
    name = new_name("bytes")
    odps.create_table(name, "s string")
    send(odps, name, {"s": text_of([b"caf\xe9"])})
    first, _, query = cell.format(name).partition("\n")
    for switch, shown in (("replace", "caf\ufffd"), ("binary", b"caf\xe9")):
        line = f"{first} --text {switch}"
        frame = run(ip, f"{line}\n{query}" if query else line)
        assert frame["s"].tolist() == [shown]
    with pytest.raises(ConversionError, match="not UTF-8"):
        run(ip, cell.format(name))


def test_an_earlier_magic_of_the_same_name_still_returns_its_object(shell, service):
    """In DataWorks, ``o = %odps`` returns a pyodps object."""
    entry = ODPS(
        service.access_id,
        service.access_key,
        service.project,
        service.endpoint,
        overwrite_global=False,
    )
    shell.register_magic_function(lambda line: entry, "line", "odps")
    load_ipython_extension(shell)
    run(shell, "o = %odps")
    assert shell.user_ns["o"] is entry
    run(shell, "%odps connect o")
    assert "orders" in str(run(shell, "%odps tables"))
