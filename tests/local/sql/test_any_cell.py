"""Extreme values of each type, and bytes that are not UTF-8, do not make a table unreadable."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest

from odps_nb.client.sql.result import open_result
from odps_nb.errors import ConversionError, InvalidRequestError, QueryError
from odps_nb.terms import SplitMode
from odps_nb.wire.calls import CreateReadSession
from odps_nb.wire.control import GetInstanceResult
from tests.support.any_bytes import send, text_of
from tests.support.named import NewName

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

US = pa.timestamp("us")
ROWS = 3000  # more than one batch of a result
ORDINARY, FAR = datetime.datetime(2024, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
FIRST = datetime.datetime(1, 1, 1)
WIDEST = Decimal("9" * 20 + "." + "9" * 18)
SPAN = pa.duration("ns")
EXTREMES = {
    "timestamp": pa.array([ORDINARY] * (ROWS - 1) + [FAR], US),
    "timestamp first": pa.array([FAR] + [ORDINARY] * (ROWS - 1), US),
    "timestamp_ntz": pa.array([ORDINARY] * (ROWS - 1) + [FIRST], US),
    "array<timestamp>": pa.array([[ORDINARY]] * (ROWS - 1) + [[FAR, None]], pa.list_(US)),
    "struct<x:timestamp>": pa.array(
        [{"x": ORDINARY}] * (ROWS - 1) + [{"x": FAR}], pa.struct([("x", US)])
    ),
    "datetime": pa.array([FIRST, FAR.replace(microsecond=999000), None], pa.timestamp("ms")),
    "date": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    "decimal(38,18)": pa.array([WIDEST, WIDEST.copy_negate(), None], pa.decimal128(38, 18)),
    "decimal(38,0)": pa.array([Decimal("9" * 38), Decimal("-" + "9" * 38)], pa.decimal128(38, 0)),
    "double": pa.array([float("inf"), float("-inf"), 5e-324, -0.0, None]),
    "float": pa.array([float("inf"), float("-inf"), 1e-45, None], pa.float32()),
    "bigint": pa.array([-(2**63), 2**63 - 1, None]),
    "interval_day_time": pa.array([2**53 * 1000, -(2**53) * 1000, 0, None], SPAN),
    "array<interval_day_time>": pa.array([[10**9, None], [], None], pa.list_(SPAN)),
    "map<string,struct<x:interval_day_time>>": pa.array(
        [[("k", {"x": -1000})], [], None], pa.map_(pa.string(), pa.struct([("x", SPAN)]))
    ),
    "interval_year_month": pa.array([2**40, -5, None], pa.int64()),
    "map<string,bigint>": pa.array([[], [("", 1)], None], pa.map_(pa.string(), pa.int64())),
    "string": pa.array(["a\x00b", "\x00", "\x01\x1b\uffff", "", "x" * (8 << 20), None]),
    "binary": pa.array([b"", b"\x00\xff", None]),
    "array<string>": pa.array([[], [None], None], pa.list_(pa.field("element", pa.string()))),
    "json": pa.array(['{"a":1e999}', "null", '"\\u0000"', None]),
}


FIRST_ROW = "timestamp first"
#: The columns of each table. A far time in the first batch determines the unit of all batches, so a
#: separate table tests a first far time in a later batch.
TABLES = {
    "late": [one for one, cells in EXTREMES.items() if len(cells) == ROWS and one != FIRST_ROW],
    "first": [FIRST_ROW],
    "few": [one for one, cells in EXTREMES.items() if len(cells) != ROWS],
}


@pytest.mark.nightly
@pytest.mark.parametrize("which", TABLES)
def test_extreme_values_are_returned_by_every_way_to_read(
    odps: Connection, new_name: NewName, which: str
) -> None:
    chosen, count = TABLES[which], 6 if which == "few" else ROWS
    columns = {f"c{place}": what for place, what in enumerate(chosen)}
    cells = {
        name: pa.concat_arrays([EXTREMES[what], pa.nulls(count, EXTREMES[what].type)])[:count]
        for name, what in columns.items()
    }
    name, rows = new_name("cell"), pa.table({"id": range(count), **cells})
    kinds = ", ".join(f"{one} {what.removesuffix(' first')}" for one, what in columns.items())
    odps.create_table(name, f"id bigint, {kinds}")
    send(odps, name, {"id": pa.array(range(count)), **cells})
    table, wanted = odps.table(name), rows.to_pydict()

    def is_whole(found: pa.Table) -> bool:
        given = found.sort_by("id").to_pydict()
        assert [one for one in wanted if given[one] != wanted[one]] == []
        return True

    scan = table.read(timestamp_unit="us")
    assert is_whole(scan.to_arrow())
    assert len(scan.to_pandas()) == count
    assert len(table.head(6)) == 6
    assert pl.DataFrame(scan).height == count
    assert scan.dataset().count_rows() == count
    assert is_whole(scan.dataset().to_table())
    shown = ", ".join(reversed(wanted))
    for query in (f"select * from {name}", f"select {shown} from {name} order by id limit 9999"):
        assert is_whole(odps.sql(query).to_arrow())
    odps.sql(f"insert overwrite table {name} select * from {name}")
    assert is_whole(table.read(timestamp_unit="us").to_arrow())
    assert "text/plain" in table.read(timestamp_unit="us")._repr_mimebundle_()


def test_nan_is_returned_by_every_way_to_read(odps: Connection, new_name: NewName) -> None:
    name = new_name("cell")
    odps.create_table(name, "c double, f float")
    send(odps, name, {"c": pa.array([float("nan")]), "f": pa.array([float("nan")], pa.float32())})
    for rows in (odps.table(name).read(), odps.sql(f"select * from {name}")):
        assert rows.to_pandas().isna().all(axis=None)
        assert str(rows.to_arrow().to_pylist()) == "[{'c': nan, 'f': nan}]"


def test_a_result_with_both_far_times_and_nanoseconds_raises_an_error(
    odps: Connection, new_name: NewName
) -> None:
    near, far = new_name("cell"), new_name("cell")
    odps.create_table(near, "t timestamp")
    odps.create_table(far, "t timestamp")
    send(odps, near, {"t": pa.array([1], pa.timestamp("ns"))})
    send(odps, far, {"t": pa.array([FAR], US)})
    with pytest.raises(QueryError, match="no unit fits both"):
        odps.sql(f"select a.t as a, b.t as b from {near} a cross join {far} b")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("interval_day_time", pa.array([1000, None, 1500], SPAN)),
        ("array<interval_day_time>", pa.array([[1000], None, [0, 1]], pa.list_(SPAN))),
        (
            "map<string,struct<x:interval_day_time>>",
            pa.array(
                [[("k", {"x": 1000})], [], [("k", {"x": -1})]],
                pa.map_(pa.string(), pa.struct([("x", SPAN)])),
            ),
        ),
    ],
)
def test_an_interval_with_nanoseconds_fails_only_queries_that_use_it(
    odps: Connection, new_name: NewName, kind: str, values: pa.Array
) -> None:
    name = new_name("cell")
    odps.create_table(name, f"id bigint, d {kind}")
    send(odps, name, {"id": pa.array([1, 2]), "d": values[:2]})
    odps.sql(f"insert into {name} select id + 2, d from {name}")
    assert odps.table(name).read().to_arrow().column("d").to_pylist() == values[:2].to_pylist() * 2
    send(odps, name, {"id": pa.array([5]), "d": values[2:]})
    assert odps.sql(f"select max(id) as most from {name}").to_arrow().to_pylist() == [{"most": 5}]
    odps.sql(f"alter table {name} rename column d to e")
    for query in (f"select e from {name}", f"insert into {name} select * from {name}"):
        with pytest.raises(QueryError, match="digits below a microsecond; read the table"):
            odps.sql(query)
    assert odps.table(name).read().to_arrow().column("e").to_pylist()[-1:] == values[2:].to_pylist()


def test_a_wide_decimal_fails_only_queries_that_use_it(odps: Connection, new_name: NewName) -> None:
    name = new_name("cell")
    odps.create_table(name, "id bigint, d decimal(60,20), a array<decimal(60,20)>")
    wide = pa.decimal256(60, 20)
    values = [Decimal("1" + "0" * 39 + ".5"), Decimal(2), None]
    cells = {"d": pa.array(values, wide), "a": pa.array([values, [], None], pa.list_(wide))}
    send(odps, name, {"id": pa.array([1, 2, 3]), **cells})
    table = odps.table(name)
    assert table.read(where="d = 2").to_arrow().column("id").to_pylist() == [2]
    assert table.head(3)["id"].tolist() == [1, 2, 3]
    assert table.read().to_arrow().column("d").to_pylist() == values
    dataset = table.dataset()  # for DuckDB and polars, which support at most 38 digits
    assert dataset.to_table(columns=["id"]).num_rows == 3
    with pytest.raises(ConversionError, match="the column 'd' does not fit"):
        dataset.to_table(columns=["d"])
    assert odps.sql(f"select id from {name} where id > 1").to_arrow().num_rows == 2
    assert odps.sql(f"select count(*) as n from {name}").to_pandas()["n"][0] == 3
    for query in (f"select * from {name}", f"select id from {name} where d > 1"):
        with pytest.raises(QueryError, match="DECIMAL of more than 38 digits"):
            odps.sql(query)


@pytest.mark.parametrize(
    ("kind", "cells", "why"),
    [
        ("json", pa.array(["{}", "nul"]), "is not JSON"),
        ("json", pa.array([""]), "is not JSON"),
        ("json", pa.array(["NaN"]), "is not JSON"),
        ("json", pa.array(['"\\ud800"']), "is not JSON"),
        ("json", pa.array(["[" * 100_000]), "is not JSON"),
        ("array<json>", pa.array([["1"], ["{"]]), "is not JSON"),
        ("json", text_of([b'"\xff"']), "c"),
        ("varchar(9)", text_of([b"\xff"]), "c"),
    ],
    ids=str,
)
def test_rows_that_would_make_a_table_unreadable_are_refused(
    odps: Connection, new_name: NewName, kind: str, cells: pa.Array, why: str
) -> None:
    name = new_name("cell")
    odps.create_table(name, f"c {kind}")
    with pytest.raises(InvalidRequestError, match=why):
        send(odps, name, {"c": cells})
    assert odps.table(name).read().row_count == 0


def test_a_map_with_a_repeated_key_fails_only_queries_that_use_it(
    odps: Connection, new_name: NewName
) -> None:
    name, cells = new_name("cell"), [[("a", 1), ("a", 2)], None, [], [("a", 3)]]
    odps.create_table(name, "id bigint, c map<string,bigint>")
    kind = pa.map_(pa.string(), pa.int64())
    send(odps, name, {"id": pa.array(range(4)), "c": pa.array(cells, kind)})
    table = odps.table(name)
    assert table.read().to_arrow().column("c").to_pylist() == cells
    assert table.read(where="id = 0").to_arrow().column("c").to_pylist() == cells[:1]
    assert len(table.head(4)) == 4
    assert odps.sql(f"select id from {name} where id > 1").to_arrow().num_rows == 2
    with pytest.raises(QueryError, match="with duplicate keys"):
        odps.sql(f"select c from {name}")


# -- bytes that are not UTF-8 -------------------------------------------------------------------

TEXTS = [b"a", b"caf\xe9", b"\x00\x01\x02", b"\xff\xfe", b"", None]


@pytest.fixture
def stored(odps: Connection, new_name: NewName) -> str:
    name = new_name("bytes")
    odps.create_table(name, "id bigint, s string")
    send(odps, name, {"id": pa.array(range(6)), "s": text_of(TEXTS)})
    return name


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), "dictionary"], ids=str
)
def test_string_columns_accept_any_bytes_in_every_arrow_layout(
    odps: Connection, new_name: NewName, kind: pa.DataType | str
) -> None:
    if kind == "dictionary":
        cells = text_of(TEXTS, pa.dictionary(pa.int32(), pa.string()))
    elif kind in (pa.binary(), pa.large_binary()):
        cells = pa.array(TEXTS, kind)
    else:
        cells = text_of(TEXTS, kind)
    name = new_name("bytes")
    odps.create_table(name, "s string")
    send(odps, name, {"s": cells})
    assert odps.table(name).read(text="binary").to_arrow().column("s").to_pylist() == TEXTS


def test_sql_accepts_text_that_is_not_utf8_in_each_operation(odps: Connection, stored: str) -> None:
    def column(query: str) -> list[bytes]:
        return odps.sql(query, text="binary").to_arrow().column(0).to_pylist()

    assert column(f"select s from {stored} order by id") == TEXTS
    found = column(f"select distinct s from {stored} where s > 'b'")
    assert sorted(found) == [b"caf\xe9", b"\xff\xfe"]
    assert column(f"select s from {stored} where id < 3 order by s") == [TEXTS[2], *TEXTS[:2]]
    assert column(f"select max(s) from {stored}") == [b"\xff\xfe"]
    assert column(f"select concat(s, '!') from {stored} where id = 1") == [b"caf\xe9!"]
    odps.sql(f"insert into {stored} select id + 10, s from {stored}")
    assert column(f"select s from {stored} where id >= 10 order by id") == TEXTS
    joined = f"select b.id from {stored} a join {stored} b on a.s = b.s where a.id = 1"
    assert sorted(odps.sql(joined).to_arrow().column(0).to_pylist()) == [1, 11]


def test_a_function_that_fails_on_invalid_text_fails_only_its_query(
    odps: Connection, stored: str
) -> None:
    for _ in range(2):
        with pytest.raises(QueryError, match="not UTF-8"):
            odps.sql(f"select upper(s) from {stored}")
        assert odps.sql(f"select upper(s) from {stored} where id = 0").to_arrow().num_rows == 1


def test_a_predicate_that_fails_on_invalid_text_fails_only_its_read(
    odps: Connection, stored: str
) -> None:
    table = odps.table(stored)

    def preds(predicate: str) -> int:
        from dataclasses import replace

        from odps_nb.client.read.splits import iter_split
        from odps_nb.terms import RowRangeSplit

        request = CreateReadSession(
            table=table.name,
            filter_predicate=predicate,
            split_mode=SplitMode.ROW_OFFSET,
            split_number=100,
        )
        session_id = odps._storage.call(request).session_id
        session = replace(table.read(text="binary")._opened(), session_id=session_id)
        return sum(b.num_rows for b in iter_split(odps._storage, session, RowRangeSplit(0, 6)))

    with pytest.raises(InvalidRequestError, match="filter predicate cannot be applied"):
        preds("upper(s) = 'A'")
    assert preds("id >= 0") == 6


def test_a_result_as_text_has_unchanged_bytes(odps: Connection, stored: str) -> None:
    result = odps.sql(f"select s from {stored} where id = 2")
    wanted = GetInstanceResult(project=odps.profile.project, instance_id=result.instance_id)
    assert odps._storage.call(wanted).tasks[0].text == '"s"\n"\x00\x01\x02"\n'
    result = odps.sql(f"select s from {stored} where id = 1")
    wanted = GetInstanceResult(project=odps.profile.project, instance_id=result.instance_id)
    assert odps._storage.call(wanted).tasks[0].text == '"s"\n"caf\ufffd"\n'
    assert open_result(odps._storage, result._instance).row_count == 1


def test_a_result_as_text_has_times_with_all_their_digits_at_every_level(odps: Connection) -> None:
    """The service runs without pandas, without which pyarrow refuses to convert nanoseconds."""
    fine = "cast('2026-05-11 12:34:53.123421123' as timestamp)"
    first = "cast('0001-01-01 00:00:00.1' as timestamp_ntz)"
    span = "cast('2020-01-01' as timestamp) - cast('2020-01-02 00:00:00.5' as timestamp)"
    second = "cast('2026-05-11 12:34:53' as datetime)"
    for query, wanted in {
        f"{fine} as c": "2026-05-11 12:34:53.123421123",
        f"array({fine}) as c": '[""2026-05-11 12:34:53.123421123""]',
        f"map({fine}, 1) as c": '{""2026-05-11 12:34:53.123421123"":1}',
        f"named_struct('x', array({first})) as c": '{""x"":[""0001-01-01 00:00:00.100000""]}',
        f"map({second}, date'2026-01-02') as c": '{""2026-05-11 12:34:53"":""2026-01-02""}',
        f"{span} as c": "-1 00:00:00.500000000",
        f"array({span}) as c": '[""-1 00:00:00.500000000""]',
    }.items():
        result = odps.sql(f"select {query}")
        request = GetInstanceResult(project=odps.profile.project, instance_id=result.instance_id)
        assert odps._storage.call(request).tasks[0].text == f'"c"\n"{wanted}"\n'
