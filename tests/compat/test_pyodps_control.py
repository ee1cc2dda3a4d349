"""The stock client's control plane and tunnel drive the embedded service."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial

import pandas as pd
import pyarrow as pa
import pytest
from odps import ODPS, errors, options
from odps.tunnel import TableTunnel

from odps_nb.local.server.launch import LocalService
from tests.support.compat.stock import STOCK

pytestmark = STOCK


def test_a_table_is_created_listed_described_and_dropped(entry: ODPS, name: str) -> None:
    entry.create_table(name, ("id bigint, note string", "ds string"), comment="a comment")
    assert entry.exist_table(name)
    assert name in [table.name for table in entry.list_tables()]
    assert [table.name for table in entry.list_tables(prefix=name)] == [name]
    schema = entry.get_table(name).table_schema
    assert [(c.name, str(c.type).lower()) for c in schema.simple_columns] == [
        ("id", "bigint"),
        ("note", "string"),
    ]
    assert [c.name for c in schema.partitions] == ["ds"]
    entry.delete_table(name)
    assert not entry.exist_table(name)


def test_creating_a_table_twice_needs_if_not_exists(entry: ODPS, name: str) -> None:
    entry.create_table(name, "id bigint")
    with pytest.raises(errors.ODPSError, match="exist"):
        entry.create_table(name, "id bigint")
    entry.create_table(name, "id bigint", if_not_exists=True)


def test_partitions_are_created_and_dropped(entry: ODPS, name: str) -> None:
    table = entry.create_table(name, ("id bigint", "ds string, h bigint"))
    table.create_partition("ds=a,h=1")
    assert table.exist_partition("ds=a,h=1")
    assert not table.exist_partition("ds=a,h=2")
    assert [str(p) for p in table.partitions] == ["ds='a',h='1'"]
    table.delete_partition("ds=a,h=1")
    assert list(table.partitions) == []


def test_the_rows_of_a_query_are_read_with_and_without_the_tunnel(entry: ODPS) -> None:
    instance = entry.execute_sql("select 1 as a, 'x, \"y\"' as b union all select 2, null")
    with instance.open_reader(tunnel=True) as reader:
        assert sorted((r["a"], r["b"]) for r in reader) == [(1, 'x, "y"'), (2, None)]
    with instance.open_reader(tunnel=False) as reader:
        assert sorted(r["a"] for r in reader) in ([1, 2], ["1", "2"])
    with instance.open_reader(tunnel=True) as reader:
        assert sorted(reader.to_pandas()["a"]) == [1, 2]


def test_two_jobs_with_the_same_unique_identifier_are_one_instance(entry: ODPS, name: str) -> None:
    """Evidence 163: the document of the job returns the ``unique_identifier_id``."""
    entry.execute_sql(f"create table {name} (n bigint)")
    text, guid = f"insert into {name} values (1)", str(uuid.uuid4())
    first, second = (entry.execute_sql(text, unique_identifier_id=guid) for _ in range(2))
    assert first.id == second.id
    assert second.get_unique_identifier_id() == guid
    with entry.get_table(name).open_reader() as reader:
        assert reader.count == 1


def test_results_of_show_are_text(entry: ODPS, name: str) -> None:
    """The stock client first requests rows. Without rows, it falls back to the text."""
    entry.execute_sql(
        f"create table {name} (n bigint comment 'a number') partitioned by (p string)"
    )
    entry.execute_sql(f"alter table {name} add partition (p='a') partition (p='b')")
    with entry.execute_sql(f"show partitions {name}").open_reader() as reader:
        assert reader.raw.split() == ["p=a", "p=b"]
    with entry.execute_sql("show tables").open_reader() as reader:
        assert name in reader.raw.split()
    with entry.execute_sql(f"desc {name}").open_reader() as reader:
        assert '"n","bigint","a number"' in reader.raw
    instance = entry.execute_sql("show tables")
    with pytest.raises(errors.InstanceTypeNotSupported):
        instance.open_reader(tunnel=True)


def test_the_greatest_partition_with_rows_is_found(entry: ODPS, name: str) -> None:
    table = entry.create_table(name, ("n bigint", "p string"))
    assert table.get_max_partition() is None
    for value in ("a", "b"):
        entry.write_table(name, [[1]], partition=f"p={value}", create_partition=True)
    table.create_partition("p=c")
    assert str(table.get_max_partition()) == "p='b'"
    assert str(table.get_max_partition(skip_empty=False)) == "p='c'"
    assert table.get_partition("p=b").physical_size > 0


def test_a_project_has_properties_and_empty_lists_of_unsupported_objects(entry: ODPS) -> None:
    project = entry.get_project()
    assert project.properties["odps.sql.type.system.odps2"] == "true"
    assert project.get_property("odps.schema.model.enabled") == "false"
    assert project.get_property("odps.no.such", "default") == "default"
    assert project.extended_properties["odps.sql.decimal.odps2"] == "true"
    assert list(entry.list_volumes()) == []


def test_the_dataframe_of_pyodps_runs_sql(entry: ODPS, name: str) -> None:
    from odps.df import DataFrame

    entry.execute_sql(f"create table {name} as select * from values (1, 'a'), (2, 'a') t(n, s)")
    frame = DataFrame(entry.get_table(name))
    found = frame.groupby("s").agg(total=frame.n.sum()).execute()
    assert [tuple(row.values) for row in found] == [("a", 3)]


def test_a_query_with_a_syntax_error_raises_a_parse_error(entry: ODPS) -> None:
    with pytest.raises(errors.ParseError):
        entry.execute_sql("selec 1")


def test_a_query_is_estimated_and_not_run(entry: ODPS, name: str) -> None:
    entry.execute_sql_cost(f"create table {name} (id bigint)")
    assert not entry.exist_table(name)
    entry.execute_sql(f"create table {name} as select 1 as id, 'x' as note")
    cost = entry.execute_sql_cost(f"select id from {name} order by id")
    assert (cost.complexity, cost.udf_num) == (1.0, 0)
    assert cost.input_size > 0


def test_a_partition_has_the_lifecycle_of_its_table(entry: ODPS, name: str) -> None:
    table = entry.create_table(name, ("a bigint", "ds string"))
    table.create_partition("ds=1")
    for days in (-1, 10):
        assert entry.get_table(name).get_partition("ds=1").lifecycle == days
        entry.execute_sql(f"alter table {name} set lifecycle 10")


def test_a_missing_table_raises_a_not_found_error(entry: ODPS) -> None:
    """The code is from ``OdpsExceptionTest`` of the Java SDK."""
    with pytest.raises(errors.NoSuchObject, match=r"ODPS-0130131.*missing_table") as caught:
        entry.get_table("missing_table").reload()
    assert caught.value.code == "NoSuchObject"


def test_the_error_for_a_query_of_a_missing_table_names_the_table(entry: ODPS) -> None:
    with pytest.raises(errors.NoSuchTable, match="missing_table"):
        entry.execute_sql("select * from missing_table")


def test_pyodps_waits_for_a_slow_query(entry: ODPS) -> None:
    instance = entry.run_sql(
        "select count(*) as n from (select explode(sequence(1, 30000)) as a) x "
        "cross join (select explode(sequence(1, 3000)) as b) y"
    )
    instance.wait_for_success(interval=0.05)
    with instance.open_reader() as reader:
        assert next(reader)["n"] == 90_000_000


def test_pyodps_stops_a_query(entry: ODPS) -> None:
    instance = entry.run_sql(
        "select count(*) as n from (select explode(sequence(1, 1000000)) as a) x "
        "cross join (select explode(sequence(1, 1000000)) as b) y"
    )
    instance.stop()
    with pytest.raises(errors.ODPSError, match=r"(?i)cancel"):
        instance.wait_for_success(interval=0.05)


def test_records_of_each_type_pass_through_the_tunnel_unchanged(entry: ODPS, name: str) -> None:
    table = entry.create_table(
        name,
        "a tinyint, b smallint, c int, d bigint, e float, f double, g boolean, h string, i binary,"
        " j decimal(20,4), k date, l datetime, m timestamp, n char(3), o varchar(5),"
        " p array<bigint>, q map<string,double>, r struct<x:string,y:array<int>>",
    )
    moment = datetime(2024, 2, 29, 12, 30, 1, 5000)
    stamp = pd.Timestamp("2024-02-29 12:30:01.000005006")
    rows = [
        [-128, 32767, -5, 2**62, 1.5, -2.25, True, "günther 漢", b"\x00\xff", Decimal("12.3400"),
         date(1999, 12, 31), moment, stamp, "abc", "hello", [1, None, -3], {"k": 1.5}, ("s", [1])],
        [None] * 18,
    ]  # fmt: skip
    with table.open_writer() as writer:
        writer.write(rows)
    with table.open_reader() as reader:
        assert reader.count == 2
        first, second = list(reader)
    assert list(first.values)[:12] == rows[0][:12]
    assert first["m"] == stamp
    assert list(first.values)[13:17] == rows[0][13:17]
    assert tuple(first["r"]) == ("s", [1])
    assert list(second.values) == [None] * 18


def test_arrow_passes_through_the_tunnel_unchanged(entry: ODPS, name: str) -> None:
    table = entry.create_table(name, "id bigint, note string, at datetime")
    start_time = datetime(2024, 1, 1)
    data = pa.table(
        {
            "id": pa.array(range(50_000)),
            "note": pa.array([f"note {i}" for i in range(50_000)]),
            "at": pa.array(
                [start_time + timedelta(seconds=i) for i in range(50_000)], pa.timestamp("ms")
            ),
        }
    )
    with table.open_writer(arrow=True) as writer:
        for batch in data.to_batches(max_chunksize=20_000):
            writer.write(batch)
    with table.open_reader(arrow=True) as reader:
        assert reader.read_all().num_rows == 50_000
    frame = table.to_pandas()
    assert frame["id"].tolist() == list(range(50_000))
    assert frame["note"].iloc[-1] == "note 49999"


def test_a_partition_is_written_overwritten_and_read(entry: ODPS, name: str) -> None:
    table = entry.create_table(name, ("id bigint", "ds string"))
    for rows, overwrite in (([[1], [2]], False), ([[3]], False), ([[4]], True)):
        with table.open_writer("ds=x", create_partition=True, overwrite=overwrite) as writer:
            writer.write(rows)
    with table.open_reader("ds=x") as reader:
        assert [record["id"] for record in reader] == [4]


def test_blocks_of_an_upload_are_committed_together(entry: ODPS, name: str) -> None:
    entry.create_table(name, "id bigint")
    tunnel = TableTunnel(entry)
    session = tunnel.create_upload_session(name)
    for block in (0, 1):
        with session.open_record_writer(block) as writer:
            for i in range(10):
                record = session.new_record()
                record["id"] = block * 10 + i
                writer.write(record)
    assert tunnel.create_download_session(name).count == 0
    session.commit([0, 1])
    download = tunnel.create_download_session(name)
    with download.open_record_reader(5, 10) as reader:
        assert [record["id"] for record in reader] == list(range(5, 15))


@pytest.mark.parametrize("algorithm", ["zlib", "zstd", "lz4"])
def test_compressed_uploads_are_decoded(entry: ODPS, name: str, algorithm: str) -> None:
    entry.create_table(name, "id bigint")
    session = TableTunnel(entry).create_upload_session(name, compress_algo=algorithm)
    with session.open_record_writer(0, compress=True) as writer:
        writer.write(session.new_record([7]))
    session.commit([0])
    download = TableTunnel(entry).create_download_session(name, compress_algo=algorithm)
    with download.open_record_reader(0, 1, compress=True) as reader:
        assert [record["id"] for record in reader] == [7]


def test_head_shows_the_first_rows(entry: ODPS, name: str) -> None:
    table = entry.create_table(name, "id bigint, note string")
    with table.open_writer() as writer:
        writer.write([[1, "a"], [2, None], [3, "c"]])
    assert [list(record.values) for record in table.head(2)] == [[1, "a"], [2, None]]


def test_only_timestamps_in_csv_have_fractions_of_a_second(entry: ODPS, name: str) -> None:
    table = entry.create_table(name, "d datetime, l array<datetime>, t timestamp, n timestamp_ntz")
    entry.execute_sql(
        f"INSERT INTO {name} SELECT d, array(d), t, t FROM (SELECT"
        " CAST('2024-01-31 23:59:59.789' AS DATETIME) d, TIMESTAMP_NTZ '1969-12-31 23:59:59.5' t)"
    )
    second, half = datetime(2024, 1, 31, 23, 59, 59), pd.Timestamp("1969-12-31 23:59:59.5")
    wanted = [second, [second], half, half]
    assert [list(record.values) for record in table.head(1)] == [wanted]
    instance = entry.execute_sql(f"SELECT * FROM {name}")
    with instance.open_reader(tunnel=False, use_tunnel=False) as reader:
        assert str(next(iter(reader))[0]) == str(second)


def test_truncate_empties_a_table(entry: ODPS, name: str) -> None:
    table = entry.create_table(name, "id bigint")
    with table.open_writer() as writer:
        writer.write([[1]])
    table.truncate()
    with table.open_reader() as reader:
        assert reader.count == 0


def test_projects_are_found_and_listing_schemas_needs_the_schema_feature(
    entry: ODPS, empty_service: LocalService
) -> None:
    assert entry.exist_project(empty_service.project)
    assert not entry.exist_project("no_such_project")
    assert entry.get_project().owner == empty_service.access_id
    with pytest.raises(errors.ODPSError, match=r"(?s)ODPS-0110061.*on two-tier model"):
        list(entry.list_schemas())


def test_the_user_name_and_the_catalog_host_are_returned(entry: ODPS) -> None:
    user = entry.get_project().current_user
    assert (user.id, user.display_name) == (entry.account.access_id, entry.account.access_id)
    assert entry.get_catalog_host() == entry.endpoint.removesuffix("/api")
    with pytest.raises(errors.ODPSError, match="does not support 'list roles'"):
        entry.run_security_query("list roles")


def test_a_wrong_key_and_an_unknown_access_id_raise_different_errors(entry: ODPS) -> None:
    wrong = ODPS(entry.account.access_id, "wrong", project=entry.project, endpoint=entry.endpoint)
    with pytest.raises(errors.SignatureNotMatch):
        wrong.get_table("x").reload()
    nobody = ODPS("nobody", "wrong", project=entry.project, endpoint=entry.endpoint)
    with pytest.raises(errors.Unauthorized):
        nobody.get_table("x").reload()


def test_insert_statements_store_the_rows_that_select_returns(
    entry: ODPS, name: str, request: pytest.FixtureRequest
) -> None:
    make: Callable[[str], object] = entry.execute_sql
    make(f"create table {name} (id bigint, amount decimal(10,2)) partitioned by (ds string)")
    make(f"insert into table {name} partition (ds='a') values (1, 1.5), (2, 2.5)")
    make(f"insert overwrite table {name} partition (ds) select id + 10, amount, 'b' from {name}")
    with entry.execute_sql(f"select ds, sum(amount) s from {name} group by ds").open_reader() as r:
        assert sorted((x["ds"], x["s"]) for x in r) == [
            ("a", Decimal("4.00")),
            ("b", Decimal("4.00")),
        ]


def test_text_that_is_not_utf8_passes_through_the_tunnel_unchanged(entry: ODPS, name: str) -> None:
    texts = [b"caf\xe9", b"\x00\x01\x02", None]
    entry.create_table(name, "id bigint, s string")
    options.tunnel.string_as_binary = True
    try:
        with entry.get_table(name).open_writer() as writer:
            writer.write([[n, text] for n, text in enumerate(texts)])
        with entry.get_table(name).open_reader() as reader:
            assert [row[1] for row in reader] == texts
        with entry.execute_sql(f"select s from {name} order by id").open_reader(
            tunnel=True
        ) as rows:
            assert [row[0] for row in rows] == texts
    finally:
        options.tunnel.string_as_binary = False
    with entry.execute_sql(f"select s from {name} where id = 1").open_reader(tunnel=False) as rows:
        assert rows.raw == '"s"\n"\x00\x01\x02"\n'


def test_char_passes_through_the_tunnel_padded(entry: ODPS, name: str) -> None:
    """Evidence 153 (pyodps: test_length_limit_types): records, Arrow, a result, and its text."""
    table = entry.create_table(name, "id bigint, c char(30), v varchar(20)")
    rows = [[1, "char", "varchar"], [2, "é" * 30, ""], [3, None, None]]
    padded = ["char" + " " * 26, "é" * 30, None]
    with table.open_writer() as writer:
        writer.write(rows)
    with table.open_reader() as reader:
        found = sorted(reader, key=lambda record: record["id"])
    assert [(one["c"], one["v"]) for one in found] == [
        (text, row[2]) for text, row in zip(padded, rows, strict=True)
    ]
    with table.open_reader(arrow=True) as reader:
        assert reader.read_all().sort_by("id")["c"].to_pylist() == padded
    instance = entry.execute_sql(f"select id, c from {name} order by id")
    for tunnel in (True, False):
        with instance.open_reader(tunnel=tunnel) as reader:
            assert [one["c"] for one in reader] == padded
    with pytest.raises(ValueError, match="more than 30"), table.open_writer() as writer:
        writer.write([[4, "x" * 30 + " ", ""]])


@pytest.mark.parametrize("more", [{}, {"quota_name": "q"}, {"fallback": True}])
def test_an_interactive_query_runs(entry: ODPS, name: str, more: dict[str, str]) -> None:
    entry.execute_sql(f"create table {name} as select 1 as a, 'x' as b")
    run = partial(entry.execute_sql_interactive, use_mcqa_v2=True, **more)
    found = run(f"select * from {name}")
    for tunnel in (False, True):
        with found.open_reader(tunnel=tunnel) as rows:
            assert [list(map(str, record.values)) for record in rows] == [["1", "x"]]
    again = entry.get_instance(found.id, quota_name="q")
    assert again.get_sql_query().startswith(f"select * from {name}")
    assert again.is_successful()
    changed = run(f"insert into {name} values (2, 'y'), (3, 'z')")
    assert changed.get_task_summary()["Outputs"][f"{entry.project}.{name}"][0] == 2
    with pytest.raises(errors.ODPSError, match="nope cannot be resolved"):
        run(f"select nope from {name}")


def test_queries_of_mcqa_1_fall_back_to_sql_jobs(entry: ODPS) -> None:
    with entry.execute_sql_interactive("select 'x' as a").open_reader() as reader:
        assert [record["a"] for record in reader] == ["x"]
    with pytest.raises(errors.ODPSError, match=r"ODPS-1820002.*closed to new users"):
        entry.execute_sql_interactive("select 'x' as a", fallback=False)


def test_instances_have_no_details_and_do_not_queue(entry: ODPS) -> None:
    instance = entry.execute_sql("select 1")
    assert instance.get_task_detail() == {}
    assert instance.get_queueing_info().status is None
