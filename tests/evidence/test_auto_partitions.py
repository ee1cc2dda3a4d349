"""Evidence 171: tables AUTO PARTITIONED BY an expression of a column.

The values are those of ``TruncTime`` of the Java and the Go SDK (f14327d) and of the manual, page
*Auto partition table based on data writing time*: truncated in UTC.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.table import Table
from odps_nb.access.writing.sources import Target, open_input
from odps_nb.errors import ArgumentError, ConversionError, OdpsNbError, QueryError
from odps_nb.local.server.launch import LocalService
from odps_nb.schema import Column, Generated, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.control import GetTable
from odps_nb.wire.control.generated import decode_generated, parse_generated
from tests.support.named import NewName
from tests.support.service.connecting import connected
from tests.support.service.raw import Raw, good

UTC = datetime.UTC
TIMES = [datetime.datetime(2024, 2, 29, 3, 59, 59), datetime.datetime(1960, 1, 1), None]
TIMES += [datetime.datetime(1959, 12, 31, 23, 59, 59), datetime.datetime(1969, 12, 31, 23, 59, 59)]
VALUES = {
    "year": ["2024", "1960", "__NULL__", "1959", "1969"],
    "month": ["2024-02", "1960-01", "__NULL__", "1959-12", "1969-12"],
    "day": ["2024-02-29", "1960-01-01", "__NULL__", "1959-12-31", "1969-12-31"],
    "hour": [
        *("2024-02-29 03:00:00", "1960-01-01 00:00:00", "__NULL__"),
        *("1959-12-31 23:00:00", "1969-12-31 23:00:00"),
    ],
}
MIDNIGHTS = ["2024-02-29 00:00:00", *VALUES["hour"][1:3], "1959-12-31 23:00:00"]
Make = Callable[..., Table]


@pytest.fixture
def make(odps: Connection, new_name: NewName) -> Make:
    def new_table(kind: str = "datetime", unit: str = "day", columns: str = "a bigint") -> Table:
        name = new_name("auto")
        return odps.create_table(
            name, f"d {kind}, {columns}", partitioned_by=f"trunc_time(d, '{unit}') as pt"
        )

    return new_table


def _rows(table: Table) -> dict[int, str]:
    found = table.read(["a", "pt"]).to_arrow().to_pylist()
    return {row["a"]: row["pt"] for row in found}


@pytest.mark.gate(5)
@pytest.mark.parametrize("unit", VALUES)
@pytest.mark.parametrize("kind", ["date", "datetime", "timestamp", "timestamp_ntz"])
def test_the_client_and_sql_compute_the_same_partition(
    odps: Connection, make: Make, kind: str, unit: str
) -> None:
    times: list[Any] = list(TIMES)
    wanted = VALUES[unit]
    if kind == "date":
        times = [None if one is None else one.date() for one in times]
        wanted = wanted if unit != "hour" else [*MIDNIGHTS, "1969-12-31 00:00:00"]
    table = make(kind, unit.upper())
    table.write(pa.table({"d": times, "a": [0, 1, 2, 3, 4]}))
    assert _rows(table) == dict(enumerate(wanted))
    other = make(kind, unit)
    query = f"insert into {other.name.table} (d, a) select d, a from {table.name.table}"
    odps.sql(query, settings={"odps.sql.timezone": "Asia/Shanghai"})
    assert _rows(other) == _rows(table)


def test_the_first_and_last_times_in_nanoseconds_have_a_partition(make: Make) -> None:
    for unit, last in (("year", "2262"), ("day", "2262-04-11")):
        table = make("timestamp", unit)
        ends = pa.array([-(2**63) + 1, 2**63 - 1], pa.timestamp("ns"))
        table.write(pa.table({"d": ends, "a": [1, 2]}))
        assert sorted(str(one) for one in table.partitions()) == [
            f"pt={VALUES[unit][3]}",
            f"pt={last}",
        ]


FRAME = pd.DataFrame({"d": pd.to_datetime(["2024-01-31 23:30", "2024-02-01 00:30"]), "a": [1, 2]})
DATA: dict[str, Callable[[], Any]] = {
    "pandas": lambda: FRAME,
    "polars": lambda: pl.DataFrame(FRAME.to_dict("list")),
    "arrow": lambda: pa.Table.from_pandas(FRAME),
    "reader": lambda: pa.Table.from_pandas(FRAME).to_reader(),
    "dicts": lambda: FRAME.to_dict("records"),
    "tuples": lambda: [tuple(row) for row in FRAME.itertuples(index=False)],
    "frames": lambda: iter([FRAME.head(1), FRAME.tail(1)]),
    "repeated": lambda: FRAME.assign(PT=["2024-01-31", None]),
    "zoned": lambda: FRAME.assign(
        d=FRAME["d"].dt.tz_localize("UTC").dt.tz_convert("Asia/Shanghai")
    ),
}


@pytest.mark.gate(3)
@pytest.mark.parametrize("data", DATA)
def test_rows_in_any_form_are_written_to_the_partition_of_their_time(make: Make, data: str) -> None:
    table = make()
    assert table.write(DATA[data]()).rows == 2
    assert _rows(table) == {1: "2024-01-31", 2: "2024-02-01"}
    assert [str(one) for one in table.partitions()] == ["pt=2024-01-31", "pt=2024-02-01"]
    for chosen, rows in (("latest", 1), ("pt=2024-01-31", 1), ("pt>=2024-01-01", 2)):
        assert table.read(partitions=chosen).to_arrow().num_rows == rows


def test_the_time_zone_of_the_connection_does_not_change_the_partition(
    service: LocalService, make: Make
) -> None:
    table = make()
    with connected(service, timezone="Asia/Shanghai") as there:  # 23:30 there is 15:30 in UTC
        there.table(table.name.table).write(FRAME)
    assert _rows(table) == {1: "2024-01-31", 2: "2024-01-31"}


def test_write_sessions_upserts_and_deletes_compute_the_partition(
    odps: Connection, make: Make, new_name: NewName
) -> None:
    table = make()
    with table.open_write() as session:
        with session.open_stream() as stream:
            stream.write(FRAME)
        session.commit()
    table.write(FRAME.assign(a=3), overwrite="partitions")
    assert _rows(table) == {3: "2024-02-01"}
    name = new_name("auto")
    odps.sql(
        f"create table {name} (a bigint not null, d timestamp, v string, primary key (a)) "
        "auto partitioned by (trunc_time(d, 'month') as pt) "
        "tblproperties ('transactional'='true')"
    )
    keyed = odps.table(name)
    keyed.upsert(FRAME.assign(v="x"))
    keyed.delete([(1, FRAME["d"][0])])
    odps.sql(f"update {name} set v = 'y' where a = 2")
    odps.sql(
        f"merge into {name} t using (select 3 a, timestamp '2024-03-01 00:00:00' d) s on t.a = s.a"
        " when not matched then insert values (s.a, s.d, 'z')"
    )
    found = keyed.read(["a", "v", "pt"]).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        (2, "y", "2024-02"),
        (3, "z", "2024-03"),
    ]


def test_contradicting_or_missing_partition_values_are_refused(make: Make) -> None:
    table = make()
    wrong = FRAME.assign(pt="2024-01-31")
    with pytest.raises(ConversionError, match=r"'2024-01-31' in row 1.* is '2024-02-01'"):
        table.write(wrong)
    with pytest.raises(ConversionError, match="in row 1,"):
        table.write(iter([wrong.head(1), wrong.tail(1)]))
    with pytest.raises(ArgumentError, match="'d' is not in the data") as caught:
        table.write(FRAME[["a"]])
    assert "partition='pt=…'" in (caught.value.hint or "")
    assert table.read().to_arrow().num_rows == 0


def test_a_named_partition_is_used(odps: Connection, make: Make) -> None:
    """Same as pyodps' test_write_table_with_generate_cols_and_parts."""
    table = make()
    table.write(FRAME, partition="pt=2000-01-01")
    name = table.name.table
    odps.sql(f"insert into {name} partition (pt='2000-01-02') values (getdate(), 3)")
    odps.sql(f"insert into {name} partition (pt) values (getdate(), 4, '2000-01-03')")
    assert _rows(table) == {1: "2000-01-01", 2: "2000-01-01", 3: "2000-01-02", 4: "2000-01-03"}


def test_the_result_of_show_create_table_can_be_run_again(odps: Connection, make: Make) -> None:
    table = make("timestamp", "hour", "a bigint, `'q'` string")
    new_table = Generated(text="trunc_time(`d`, 'hour')", source="d", unit="hour")
    assert table.schema.partition_columns[0].generated == new_table
    assert table.info.schema == table.schema
    assert "string  (partition: trunc_time(`d`, 'hour'))" in repr(table)
    name = table.name.table
    (shown,) = odps.sql(f"show create table {name}").to_pandas()["statement"]
    assert "AUTO PARTITIONED BY (trunc_time(`d`, 'hour') AS `pt`)" in shown
    described = odps.sql(f"desc extended {name}").to_pandas()
    assert "trunc_time(`d`, 'hour') as pt" in described["type"].tolist()
    odps.drop_table(name)
    odps.sql(shown)
    assert odps.table(name).schema.partition_columns[0].generated == new_table
    odps.sql(f"alter table {name} add columns (c string)")
    odps.sql(f"create table {name}_like like {name}")
    assert odps.table(f"{name}_like").schema.partition_columns[0].generated == new_table
    odps.drop_table(f"{name}_like")


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ("d date", "_pt_col_0_"),
        ("_pt_col_0_ date", "_pt_col_1_"),
        ("_PT_COL_0_ string, d date, _pt_col_1_ int", "_pt_col_2_"),
        ("_pt_col_1_ date", "_pt_col_0_"),
    ],
)
@pytest.mark.parametrize("how", ["sql", "create_table"])
def test_a_partition_column_without_a_name_gets_the_first_free_number(
    odps: Connection, new_name: NewName, how: str, columns: str, name: str
) -> None:
    """evidence 229: page *Auto partition table based on time computing function*."""
    table, source = new_name("auto"), "d" if "d date" in columns else columns.split()[0]
    expression = f"trunc_time({source}, 'day')"
    if how == "sql":
        odps.sql(f"create table {table} ({columns}) auto partitioned by ({expression})")
    else:
        odps.create_table(table, columns, partitioned_by=expression)
    schema = odps.table(table).schema
    assert [column.name for column in schema.partition_columns] == [name]
    with pytest.raises(OdpsNbError, match="defined twice"):
        odps.create_table(f"{table}_2", f"{columns}, x int", partitioned_by=f"{expression} as x")


def test_the_document_has_the_expression_in_post_order(raw: Raw) -> None:
    name = raw.make('(D timestamp) auto partitioned by (TRUNC_TIME(`D`, "DAY")) lifecycle 3')
    wire = GetTable(table=TableName(project=raw.service.project, table=name)).encode()
    root = ElementTree.fromstring(good(raw.send(wire)).content)
    (key,) = json.loads(root.findtext("Schema") or "")["partitionKeys"]
    assert (key["name"], key["type"], key["hasGenerateExpression"]) == (
        "_pt_col_0_",
        "string",
        True,
    )
    assert json.loads(key["generateExpression"]) == [
        {"leafExprDesc": {"reference": {"name": "D"}, "type": "timestamp"}},
        {"leafExprDesc": {"constant": "day", "type": "string"}},
        {"functionCall": {"name": "trunc_time", "parameterCount": 2, "type": "string"}},
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            '[{"functionCall":{"name":"current_timestamp_ntz","type":"timestamp"}},'
            '{"leafExprDesc":{"constant":"hour","type":"string"}},'
            '{"functionCall":{"name":"trunc_time","type":"string"}},'
            '{"leafExprDesc":{"constant":"day","type":"string"}},'
            '{"functionCall":{"name":"TRUNC_time","type":"string"}}]',
            "trunc_time(trunc_time(current_timestamp_ntz(), 'hour'), 'day')",
        ),
        (
            '[{"leafExprDesc":{"reference":{"name":"d`x"},"type":"date"}},'
            '{"leafExprDesc":{"constant":"week","type":"string"}},'
            '{"functionCall":{"name":"trunc_time","type":"string"}}]',
            "trunc_time(`d``x`, 'week')",
        ),
        (
            '[{"leafExprDesc":{"reference":{"name":"s"}}},{"leafExprDesc":{"constant":"1"}},'
            '{"functionCall":{"name":"substr","parameterCount":2}}]',
            "substr(`s`, '1')",
        ),
        ("substr(s, 1)", "substr(s, 1)"),
        ("[1]", "[1]"),
        ("{}", "{}"),
    ],
)
def test_an_unknown_expression_is_kept_as_text(
    odps: Connection, make: Make, text: str, shown: str
) -> None:
    new_table = decode_generated(text)
    assert new_table == Generated(text=shown)
    date, string = PrimitiveType(TypeCode.DATE), PrimitiveType(TypeCode.STRING)
    schema = TableSchema(
        columns=(Column(name="d", type=date),),
        partition_columns=(Column(name="pt", type=string, generated=new_table),),
    )
    target = Target.of(schema, make().name, PartitionSpec())
    rows = {"d": [datetime.date(2024, 1, 1)]}
    with pytest.raises(ArgumentError, match="only compute trunc_time of a column") as caught:
        open_input(pa.table(rows), target)
    assert "SQL" in (caught.value.hint or "")
    given = open_input(pa.table({**rows, "pt": ["x"]}), target)
    (chunk,) = given.streams[0]
    assert chunk.plain.column("pt").to_pylist() == ["x"]
    with pytest.raises(ConversionError, match="pt"):
        open_input(pa.table({**rows, "pt": pa.array([None], pa.string())}), target)


@pytest.mark.parametrize(
    ("columns", "expression", "problem"),
    [
        ("d string", "trunc_time(d, 'day')", "needs a date or time column 'd'"),
        ("d date", "trunc_time(e, 'day')", "needs a date or time column 'e'"),
        ("d date", "trunc_time(d, 'week') as pt", "one of the units year, month, day, hour"),
    ],
)
def test_an_invalid_auto_partitioned_table_is_refused(
    odps: Connection, new_name: NewName, columns: str, expression: str, problem: str
) -> None:
    with pytest.raises(ArgumentError, match=problem):
        odps.create_table(new_name("bad"), columns, partitioned_by=expression)
    with pytest.raises(QueryError, match=problem):
        odps.sql(f"create table {new_name('bad')} ({columns}) auto partitioned by ({expression})")


@pytest.mark.parametrize("inside", ["substr(d, 1, 4) as pt", "pt string", ""])
def test_sql_accepts_trunc_time_and_no_other_expression(
    odps: Connection, new_name: NewName, inside: str
) -> None:
    assert parse_generated(inside) is None
    with pytest.raises(OdpsNbError, match="requires one TRUNC_TIME of a column and a unit"):
        odps.sql(f"create table {new_name('bad')} (d date) auto partitioned by ({inside})")


def test_the_time_of_an_insert_can_be_the_partition(odps: Connection, new_name: NewName) -> None:
    name = new_name("auto")
    odps.sql(
        f"create table {name} (_partitiontime timestamp_ntz, a bigint) auto partitioned by "
        "(trunc_time(_partitiontime, 'year') as pt) "
        "tblproperties ('ingestion_time_partition'='true')"
    )
    odps.sql(f"insert into {name} (a) select 1")
    odps.sql(f"insert into {name} values (timestamp_ntz '2001-02-03 04:05:06', 2)")
    found = _rows(odps.table(name))
    assert found.pop(2) == "2001"
    assert int(found[1]) in (datetime.datetime.now(UTC).year, datetime.datetime.now(UTC).year - 1)
    stored = odps.table(name).read(["a", "_partitiontime"]).to_arrow().to_pylist()
    (time,) = [row["_partitiontime"] for row in stored if row["a"] == 1]
    assert time == datetime.datetime(int(found[1]), 1, 1)
    with pytest.raises(ArgumentError, match="'_partitiontime' is not in the data"):
        odps.table(name).write({"a": [3]})


def test_queries_can_call_trunc_time(odps: Connection) -> None:
    text = "select " + ", ".join(
        f"trunc_time(timestamp '2024-02-29 03:04:05', '{u}')" for u in VALUES
    )
    assert odps.sql(text).to_pandas().values.tolist() == [[one[0] for one in VALUES.values()]]
