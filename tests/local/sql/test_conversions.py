"""Conversions by MaxCompute's rules: times in the session's zone, numbers, DECIMAL, LIKE."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, localcontext
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.errors import QueryError
from odps_nb.local.server.launch import LocalService
from tests.support.named import NewTable
from tests.support.service.peer import Peer, make_table

ZONES = ("UTC", "Asia/Shanghai", "America/New_York")
CLOCK = "2024-07-01 22:30:00"
FINE = f"{CLOCK}.123456789"


def in_zone(name: str) -> dict[str, str]:
    return {"odps.sql.timezone": name}


def instant(clock: str, zone: str) -> datetime:
    """The instant of a local time in a zone, as stored: in UTC, without a zone."""
    moment = datetime.fromisoformat(clock).replace(tzinfo=ZoneInfo(zone))
    return moment.astimezone(UTC).replace(tzinfo=None)


@pytest.fixture(scope="module", params=ZONES)
def zone(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def writer(bare: LocalService) -> Iterator[Peer]:
    """A client for the tables that tests share."""
    peer = Peer(bare)
    yield peer
    peer.session.close()


@pytest.fixture(scope="module")
def times(writer: Peer, zone: str) -> str:
    """A table with one row, written as Arrow: 22:30 on 1 July 2024 in the zone's local time."""
    name = make_table(
        writer,
        "(id bigint, dt datetime, ts timestamp, n timestamp_ntz, s string, d date, f string)",
    )
    moment = instant(CLOCK, zone)
    nanos = int((moment - datetime(1970, 1, 1)).total_seconds()) * 10**9 + 123456789
    rows = {
        "id": pa.array([1], pa.int64()),
        "dt": pa.array([moment], pa.timestamp("ms")),
        "ts": pa.array([nanos], pa.int64()).view(pa.timestamp("ns")),
        "n": pa.array([datetime.fromisoformat(CLOCK)], pa.timestamp("ns")),
        "s": [CLOCK],
        "d": pa.array([date(2024, 7, 1)], pa.date32()),
        "f": [FINE],
    }
    writer.write(name, pa.table(rows))
    return name


TRUE = (
    f"dt = '{CLOCK}'",
    f"'{CLOCK}' = dt",
    f"dt <=> '{CLOCK}'",
    f"not dt <> '{CLOCK}'",
    f"dt >= '{CLOCK}' and dt <= '{CLOCK}'",
    "dt > '2024-07-01 22:29:59' and dt < '2024-07-01 22:30:01'",
    f"dt in ('2024-01-01 00:00:00', '{CLOCK}')",
    f"dt not in ('{CLOCK}')" + " = false",
    "dt between '2024-07-01 22:29:59' and '2024-07-01 22:30:01'",
    "dt between '2024-07-01' and '2024-07-02'",
    "ts between '2024-07-01 22:30:00' and '2024-07-01 22:30:01'",
    "ts > '2024-07-01 22:30:00.123'",
    "dt = s",
    "s = dt",
    f"n = '{CLOCK}'",
    "n = s",
    "dt > d and d < dt",
    f"case dt when '{CLOCK}' then true else false end",
    f"coalesce(null, dt) = '{CLOCK}'",
    f"if(id = 1, dt, '2000-01-01 00:00:00') = '{CLOCK}'",
    f"(case when id = 2 then '2000-01-01 00:00:00' else dt end) = '{CLOCK}'",
    f"max(dt) over () = '{CLOCK}'",
    "dateadd(dt, 1, 'hh') = '2024-07-01 23:30:00'",
    f"dt = cast('{CLOCK}' as datetime)",
    "dt = cast(s as datetime)",
    f"cast(s as timestamp) = '{CLOCK}'",
    f"cast(dt as string) = '{CLOCK}'",
    f"concat(dt, '') = '{CLOCK}'",
    "cast(dt as date) = d and to_date(dt) = d",
    "cast(d as datetime) = '2024-07-01 00:00:00'",
    "hour(dt) = 22 and day(dt) = 1 and month(dt) = 7 and year(dt) = 2024",
    "datepart(dt, 'hh') = 22 and weekday(dt) = 0",
    f"to_char(dt, 'yyyy-mm-dd hh:mi:ss') = '{CLOCK}'",
    "date_format(dt, 'yyyy-MM-dd HH:mi:ss') = '2024-07-01 22:30:00'",
    "date_format(ts, 'yyyyMMdd HHmiss.SSS') = '20240701 223000.123'",
    "months_between(dt, '2024-06-30 22:30:00') = 1.0 + (1 - 30) / 31",
    "datetrunc(dt, 'dd') = '2024-07-01 00:00:00'",
    "datediff(dt, '2024-06-30 00:00:00', 'dd') = 1",
    f"unix_timestamp(dt) = unix_timestamp('{CLOCK}')",
    f"exists (select 1 from (select max(dt) as m from T) q where q.m = '{CLOCK}')",
)


@pytest.fixture(scope="module")
def answers(writer: Peer, times: str, zone: str) -> dict[str, object]:
    """Return the result of each condition; one query has all of them as its columns."""
    shown = (f"{one.replace('T)', f'{times})')} AS v{at}" for at, one in enumerate(TRUE))
    (row,) = writer.query(f"SELECT {', '.join(shown)} FROM {times};", in_zone(zone)).to_pylist()
    return dict(zip(TRUE, row.values(), strict=True))


@pytest.mark.gate(40)
@pytest.mark.parametrize("condition", TRUE)
def test_text_and_dates_are_compared_with_instants_in_the_session_zone(
    answers: dict[str, object], condition: str
) -> None:
    assert answers[condition] is True


def test_text_is_inserted_as_an_instant_of_the_session(
    peer: Peer, times: str, zone: str, new_table: NewTable
) -> None:
    name = new_table("(k string, dt datetime, ts timestamp, n timestamp_ntz, d date)")
    for row in (
        f"VALUES ('values', '{CLOCK}', '{FINE}', '{CLOCK}', '2024-07-01')",
        f"SELECT 'select', s, f, s, d FROM {times}",
        f"SELECT 'constants', '{CLOCK}', '{FINE}', '{CLOCK}', '2024-07-01'",
        f"SELECT 'union', s, f, s, d FROM (SELECT * FROM {times} UNION ALL SELECT * FROM {times}"
        " WHERE false) u",
    ):
        peer.sql(f"INSERT INTO {name} {row};", in_zone(zone))
    found = peer.query(f"SELECT * FROM {name};")
    stored = peer.query(f"SELECT dt, ts, n, d FROM {times};")
    assert found.num_rows == 4
    for column in stored.column_names:
        same = [stored.column(column)[0]] * 4
        assert found.column(column).to_pylist() == [one.as_py() for one in same], column
    nanos = found.column("ts").cast(pa.int64()).to_pylist()
    assert nanos == stored.column("ts").cast(pa.int64()).to_pylist() * 4


NANOS = "2024-07-01 22:30:00.123456789"


@pytest.mark.gate(1)
def test_instants_become_text_dates_and_local_times_in_the_session_zone(
    peer: Peer, zone: str, new_table: NewTable
) -> None:
    shown = (
        f"datetime '{CLOCK}'",
        f"cast('{NANOS}' as timestamp)",
        f"dateadd(datetime '{CLOCK}', 0, 'dd')",
        f"timestamp_ntz '{NANOS}'",
    )
    for one in shown:
        name = new_table("(s string, d date, n timestamp_ntz, t timestamp, dt datetime)")
        for rows in (f"VALUES ({', '.join([one] * 5)})", f"SELECT {', '.join([one] * 5)}"):
            peer.sql(f"INSERT INTO {name} {rows};", in_zone(zone))
        first, second = peer.query(f"SELECT * FROM {name};").to_pylist()
        assert first == second
        assert first["s"] == (NANOS if NANOS in one else CLOCK)
        assert first["d"] == date(2024, 7, 1)
        assert str(first["n"])[:19] == CLOCK


CAST = {
    "cast(n as timestamp)": True,
    "cast(t as timestamp)": True,
    "coalesce(cast(null as timestamp), n)": True,
    "cast(t as timestamp_ntz)": False,
    "cast(cast(n as timestamp) as timestamp_ntz)": False,
}
"""By expression: whether it gives an instant, not a clock time."""


def test_timestamps_and_local_times_are_cast_with_nanoseconds(
    peer: Peer, zone: str, new_table: NewTable
) -> None:
    name = new_table("(n timestamp_ntz, t timestamp)")
    peer.sql(f"INSERT INTO {name} VALUES ('{NANOS}', '{NANOS}');", in_zone(zone))
    read = peer.query(
        f"SELECT cast(n as timestamp) = t and t = n AS same, {', '.join(CAST)} FROM {name};",
        in_zone(zone),
    )
    assert read.column("same").to_pylist() == [True]
    for (expression, is_instant), column in zip(CAST.items(), read.columns[1:], strict=True):
        clock = instant(CLOCK, zone) if is_instant else datetime.fromisoformat(CLOCK)
        nanos = int((clock - datetime(1970, 1, 1)).total_seconds()) * 10**9 + 123456789
        assert column.cast(pa.int64()).to_pylist() == [nanos], expression
    peer.sql(f"INSERT INTO {name} SELECT t, n FROM {name};", in_zone(zone))
    for column in peer.query(f"SELECT n, t FROM {name};").columns:
        assert len(set(column.cast(pa.int64()).to_pylist())) == 1


@pytest.mark.parametrize(
    ("zone", "clock"),
    [("Asia/Shanghai", "0001-01-01 00:00:00"), ("America/New_York", "9999-12-31 23:59:59")],
)
def test_a_constant_whose_year_in_utc_is_out_of_range_raises_an_error(
    peer: Peer, new_table: NewTable, zone: str, clock: str
) -> None:
    name = new_table("(dt datetime)")
    for text in (
        f"SELECT datetime '{clock}' AS v;",
        f"SELECT cast('{clock}' AS timestamp) AS v;",
        f"SELECT dt FROM {name} WHERE dt = '{clock}';",
        f"INSERT INTO {name} VALUES ('{clock}');",
    ):
        with pytest.raises(QueryError, match="before the year 1 or after the year 9999 in UTC"):
            peer.sql(text, in_zone(zone))
    peer.sql(f"INSERT INTO {name} VALUES (datetime '{clock}');", in_zone("UTC"))
    assert peer.query(f"SELECT cast(dt AS string) AS s FROM {name};").to_pylist() == [{"s": clock}]


NESTED = (
    "m['k']",
    "map_values(m)[0]",
    "st.a",
    "T.st.a",
    "named_struct('a', dt).a",
    "a[0]",
    "array_max(a)",
    "sort_array(a)[0]",
    "filter(a, x -> cast(x as string) like '2024%')[0]",
    "max_by(dt, k) over ()",
    "min_by(dt, k) over ()",
    "q.v FROM (SELECT m['k'] AS v FROM T) q",
    "q.v.a FROM (SELECT st AS v FROM T) q",
    "v FROM T LATERAL VIEW explode(m) t AS kk, v",
    "v FROM T LATERAL VIEW explode(a) t AS v",
    "v FROM T LATERAL VIEW posexplode(a) t AS p, v",
    "v FROM T LATERAL VIEW posexplode(array(dt)) t AS p, v",
    "collect_set(dt)[0] FROM T",
    "arg_max(k, dt) FROM T",
)


@pytest.mark.gate(1)
def test_instants_in_nested_values_are_converted_to_the_session_zone(
    peer: Peer, zone: str, new_table: NewTable
) -> None:
    name = new_table(
        "(k string, dt datetime, m map<string,datetime>, st struct<a:datetime,b:string>,"
        " a array<datetime>)"
    )
    dt = f"datetime '{CLOCK}'"
    nested = f"map('k', {dt}), named_struct('a', {dt}, 'b', 'x'), array({dt})"
    peer.sql(f"INSERT INTO {name} SELECT 'k', {dt}, {nested};", in_zone(zone))
    alone = [one for one in NESTED if " FROM " not in one]
    for values, source in [
        (alone, "T"),
        *(
            ([value], source)
            for value, found, source in (one.partition(" FROM ") for one in NESTED)
            if found
        ),
    ]:
        shown = ", ".join(f"cast({value} AS string), hour({value})" for value in values)
        read = peer.query(re.sub(r"\bT\b", name, f"SELECT {shown} FROM {source};"), in_zone(zone))
        assert [column.to_pylist() for column in read.columns] == [[CLOCK], [22]] * len(values)


def test_lambda_variables_over_instants_use_the_session_zone(
    peer: Peer, zone: str, new_table: NewTable
) -> None:
    name = new_table("(a array<datetime>)")
    peer.sql(f"INSERT INTO {name} SELECT array(datetime '{CLOCK}');", in_zone(zone))
    read = peer.query(
        f"SELECT transform(a, x -> cast(x as string)) AS v FROM {name};", in_zone(zone)
    )
    assert read.to_pylist() == [{"v": [CLOCK]}]


def test_a_date_becomes_the_midnight_of_the_session(
    peer: Peer, zone: str, new_table: NewTable
) -> None:
    name = new_table("(dt datetime, ts timestamp)")
    peer.sql(f"INSERT INTO {name} SELECT date '2024-07-01', date '2024-07-01';", in_zone(zone))
    read = peer.query(f"SELECT dt, ts FROM {name};")
    for column in read.columns:
        assert column.cast(pa.timestamp("us")).to_pylist() == [instant("2024-07-01 00:00:00", zone)]


@pytest.mark.parametrize("value", ["named_struct('a', getdate())", "map('a', getdate())"])
def test_nested_times_become_json_only_in_utc(peer: Peer, value: str) -> None:
    assert peer.query(f"SELECT to_json({value});").num_rows == 1
    with pytest.raises(QueryError, match="TO_JSON of nested times outside UTC"):
        peer.query(f"SELECT to_json({value});", in_zone("Asia/Shanghai"))


def test_the_error_names_an_unknown_zone(peer: Peer) -> None:
    with pytest.raises(QueryError, match="no time zone 'Asia/Shangai'") as caught:
        peer.sql("SELECT 1;", in_zone("Asia/Shangai"))
    assert caught.value.hint


# -- numbers --------------------------------------------------------------------------------------


def values_of(
    peer: Peer, expressions: Iterable[str], source: str
) -> list[tuple[object, pa.DataType]]:
    """Return the results of expressions for a row, and their types, all from one query."""
    shown = ", ".join(f"{one} AS v{place}" for place, one in enumerate(expressions))
    read = peer.query(f"SELECT {shown} FROM {source};")
    return [(column.to_pylist()[0], column.type) for column in read.columns]


NUMBERS: tuple[tuple[str, object, pa.DataType | None], ...] = (
    ("cast(1.9 as bigint)", 1, pa.int64()),
    ("cast(-1.9 as int)", -1, pa.int32()),
    ("cast(1.9BD as bigint)", 1, pa.int64()),
    ("cast(x as bigint)", 2, pa.int64()),
    ("cast(y as tinyint)", 2, pa.int8()),
    ("cast('1.9' as bigint)", 1, pa.int64()),
    ("cast('-1.9e0' as bigint)", -1, pa.int64()),
    ("cast('9007199254740993' as bigint)", 9007199254740993, pa.int64()),
    ("cast('x' as bigint)", None, pa.int64()),
    ("cast('1_000' as bigint)", None, pa.int64()),
    ("cast('0x10' as int)", None, pa.int32()),
    ("cast('0b11' as bigint)", None, pa.int64()),
    ("cast('1_0.5' as double)", None, pa.float64()),
    ("cast('1_0' as decimal(10,2))", None, pa.decimal128(10, 2)),
    ("cast('-Inf' as double)", float("-inf"), pa.float64()),
    ("cast(90L as timestamp)", datetime(1970, 1, 1, 0, 1, 30), None),
    ("cast('epoch' as datetime)", None, pa.timestamp("ms")),
    ("cast('epoch' as date)", None, pa.date32()),
    ("greatest('10', 9)", 10.0, pa.float64()),
    ("least('9.5', k) + 1", 8.0, pa.float64()),
    ("greatest('10', y)", Decimal(10), pa.decimal128(38, 18)),
    ("coalesce('1.5', 2)", "1.5", pa.string()),
    ("if(k > 0, '1.5', 2)", "1.5", pa.string()),
    ("nvl(k, '2.5')", "7", pa.string()),
    ("case when k > 0 then 2.5 else 'x' end", "2.5", pa.string()),
    ("decode(k, 7, '1.5', 2)", "1.5", pa.string()),
    ("coalesce('1.5', 2) + 1", 2.5, pa.float64()),
    ("array('1.9', 2)[0]", "1.9", pa.string()),
    ("map('a', 1, 'b', '2.9')['b']", "2.9", pa.string()),
    ("(select max(x) from values ('1.9'), (1) v (x))", "1.9", pa.string()),
    ("1.5", 1.5, pa.float64()),
    ("-1.5", -1.5, pa.float64()),
    ("1e-7", 1e-7, pa.float64()),
    ("0.1 + 0.2", 0.1 + 0.2, pa.float64()),
    ("ceil(x)", 3, pa.int64()),
    ("floor(-x)", -3, pa.int64()),
    ("ceil(y) + 1", 4, pa.int64()),
    ("floor('2.5')", 2, pa.int64()),
    ("ceil(k) / 2", 3.5, pa.float64()),
    ("months_between('1997-02-28 10:30:00', '1996-10-30')", 3.9495967741935485, None),
    ("months_between('1996-10-30', '1997-02-28 10:30:00')", -3.9495967741935485, None),
    ("months_between('2024-02-29', '2024-01-31')", 1.0, pa.float64()),
    ("months_between('2024-03-15 12:00:00', '2024-01-15')", 2.0, pa.float64()),
    ("1.5BD", Decimal("1.5"), pa.decimal128(2, 1)),
    ("cast('1.2345678901' as decimal)", Decimal("1.2345678901"), pa.decimal128(38, 18)),
    ("'3' * 2", 6.0, pa.float64()),
    ("'1.5' + x", 4.49, pa.float64()),
    ("x * 2", 5.98, pa.float64()),
    ("y * 1.5", Decimal("4.485"), pa.decimal128(12, 3)),
    ("y = 2.99", True, pa.bool_()),
    ("y in (2.99) and y between 2.98 and 2.995", True, pa.bool_()),
    ("big = 12345678901234567.89", True, pa.bool_()),
    ("3 / 2", 1.5, pa.float64()),
    ("3 / 0", None, pa.float64()),
)


def test_numbers_have_the_types_and_values_of_maxcompute(peer: Peer) -> None:
    table = (
        "(SELECT 2.99 AS x, cast('2.99' AS decimal(10,2)) AS y, 7 AS k,"
        " cast('12345678901234567.89' AS decimal(38,2)) AS big) t"
    )
    found = values_of(peer, (one for one, _, _ in NUMBERS), table)
    for (expression, expected, kind), (value, made) in zip(NUMBERS, found, strict=True):
        near = pytest.approx(expected) if isinstance(expected, float) else expected
        assert value == near, expression
        assert kind is None or made == kind, expression
    medians = values_of(peer, ("percentile(k, 0.5)", "percentile_approx(k, 0.5)"), table)
    assert [value for value, _ in medians] == [7, 7]


def test_exact_numbers_are_inserted_exactly(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint, d decimal(38,18), s string)")
    peer.sql(f"INSERT INTO {name} VALUES (1, 12345678901234567.123456789, 1.50BD);")
    peer.sql(f"INSERT INTO {name} SELECT a + 1, cast(0 as decimal(38,18)), d FROM {name};")
    assert peer.query(f"SELECT * FROM {name} ORDER BY a;").to_pylist() == [
        {"a": 1, "d": Decimal("12345678901234567.123456789"), "s": "1.5"},
        {"a": 2, "d": 0, "s": "12345678901234567.123456789"},
    ]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *[("bigint", one) for one in ("1.9", "-1.9BD", "cast('2.9' as float)", "7 / 2", "true")],
        *[("int", "2.0"), ("array<bigint>", "array(1.5)"), ("map<string,int>", "map('a', 2.5)")],
        *[("struct<a:bigint>", "named_struct('a', 1.5)"), ("string", "1 = 1"), ("double", "true")],
        *[("boolean", one) for one in ("1", "0.0", "'true'", "1BD", "cast(0 as tinyint)")],
        *[("string", one) for one in ("array(1)", "map('a', 1)", "named_struct('a', 1)")],
        *[("array<int>", "'[1]'"), ("map<string,int>", "'{a=1}'"), ("json", "array(1)")],
        *[("struct<a:int>", "'{a: 1}'"), ("array<string>", "array(array('a'))")],
        ("struct<a:int,b:int>", "named_struct('a', 1)"),
        ("struct<a:int,b:int>", "named_struct('a', 1, 'c', 2)"),
        ("array<struct<a:int>>", "array(named_struct('a', 1, 'b', 2))"),
    ],
)
def test_an_insert_refuses_values_that_would_lose_their_meaning(
    peer: Peer, new_table: NewTable, column: str, value: str
) -> None:
    name = new_table(f"(k bigint, v {column})")
    for rows in (
        f"SELECT 1, {value}",
        f"VALUES (1, {value})",
        f"SELECT * FROM (SELECT 1 AS k, {value} AS v) q",
    ):
        with pytest.raises(QueryError, match="'v' are not converted to"):
            peer.sql(f"INSERT INTO {name} {rows};")
    peer.sql(f"INSERT INTO {name} SELECT 1, null;")
    peer.sql(f"INSERT INTO {name} VALUES (2, null);")
    assert peer.query(f"SELECT v FROM {name};").to_pylist() == [{"v": None}] * 2


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("string", "(1), ('1.9'), (2.5)", ["1", "1.9", "2.5"]),
        ("bigint", "('1.9'), (1), (2.7), (' 7 '), (null)", [1, 1, 2, 7, None]),
        ("double", "(0.1), ('1.5')", [0.1, 1.5]),
        ("decimal(10,2)", "(1.005), ('2.5')", [Decimal("1.01"), Decimal("2.5")]),
        ("binary", "('é'), ('\\\\x41')", ["é".encode(), b"\\x41"]),
        ("string", "(unhex('c3a9'))", ["é"]),
    ],
)
@pytest.mark.parametrize("form", ["VALUES {}", "SELECT v FROM VALUES {} t (v)"])
def test_text_and_bytes_are_inserted_as_they_are_cast(
    peer: Peer, new_table: NewTable, column: str, values: str, expected: list[object], form: str
) -> None:
    name = new_table(f"(v {column})")
    peer.sql(f"INSERT INTO {name} {form.format(values)};")
    assert peer.query(f"SELECT v FROM {name};").column(0).to_pylist() == expected


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("bigint", value) for value in ("1_000", "0x10", "x", "")),
        *(("double", "1_0"), ("decimal(10,2)", "1_0.5")),
        *((column, "epoch") for column in ("date", "datetime", "timestamp", "timestamp_ntz")),
        *((column, "infinity") for column in ("date", "datetime", "timestamp", "timestamp_ntz")),
    ],
)
def test_text_that_only_duckdb_can_parse_is_not_inserted(
    peer: Peer, new_table: NewTable, column: str, value: str
) -> None:
    name = new_table(f"(v {column})")
    with pytest.raises(QueryError, match=f"the value '{value}' cannot be converted to"):
        peer.sql(f"INSERT INTO {name} VALUES ('{value}');")


@pytest.mark.parametrize(
    "far",
    [
        "date_add('9999-12-31', 1)",
        "date '10000-01-01'",
        "from_unixtime(253402300800)",
        "date_add('0000-01-01', -1)",
        "array(date_add('0001-01-01', -1))",
        "map('a', named_struct('b', date_add('9999-12-31', 1)))",
    ],
)
def test_a_time_outside_the_years_0_to_9999_is_refused(peer: Peer, far: str) -> None:
    wanted = "before the year [01] or after the year 9999"
    with pytest.raises(QueryError, match=wanted):
        peer.query(f"SELECT {far} AS v;")
    with pytest.raises(QueryError, match=wanted):
        peer.sql(f"CREATE TABLE years_0_to_9999 AS SELECT {far} AS v;")


@pytest.mark.parametrize(
    ("value", "target", "message"),
    [
        ("1", "date", "INT cannot be cast to DATE"),
        ("2L", "datetime", "BIGINT cannot be cast to DATETIME"),
        ("date '2024-01-01'", "bigint", "DATE cannot be cast to BIGINT"),
        ("getdate()", "double", "DATETIME cannot be cast to DOUBLE"),
        ("current_timestamp_ntz()", "decimal", "TIMESTAMP_NTZ cannot be cast to DECIMAL"),
        ("true", "timestamp", "BOOLEAN cannot be cast to TIMESTAMP"),
        ("1", "binary", "INT cannot be cast to BINARY"),
        ("unhex('31')", "int", "BINARY cannot be cast to INT"),
        ("array(1)", "string", "ARRAY cannot be cast to STRING"),
        ("'[1]'", "array<int>", "STRING cannot be cast to ARRAY"),
        ("named_struct('a', 1)", "map<string,int>", "STRUCT cannot be cast to MAP"),
    ],
)
def test_a_cast_between_unrelated_types_is_refused(
    peer: Peer, value: str, target: str, message: str
) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        peer.query(f"SELECT cast({value} AS {target}) AS v;")
    assert caught.value.hint


COMPARED = (
    ("'1.5' = 2", False),
    ("s = 2", False),
    ("1.5 = s and s <=> '1.5'", True),
    ("s in (1, 2)", False),
    ("s between 1 and 2", True),
    ("s < 2 and 1 < s", True),
    ("k in ('7.0', '8')", True),
    ("k = '7.4'", False),
    ("s in (select 2)", False),
    ("7 in (select s)", False),
    ("case s when 2 then true else false end", False),
    ("exists (select 1 from (select 2 as n) q where q.n = s)", False),
    ("'1e3' = 1000 and long = 1000000000001", True),
    ("d = '2.995'", False),
    ("d > '2.999' and d = '3'", True),
    ("wide = '123456789012345678901234567890.12'", True),
)


def test_text_is_compared_with_numbers_as_double_or_decimal(peer: Peer) -> None:
    table = (
        "(SELECT '1.5' AS s, 7 AS k, '1000000000001' AS long, cast(3 AS decimal(10,2)) AS d,"
        " cast('123456789012345678901234567890.12' AS decimal(38,2)) AS wide) t"
    )
    found = values_of(peer, (one for one, _ in COMPARED), table)
    for (condition, expected), (value, _) in zip(COMPARED, found, strict=True):
        assert value == expected, condition


TEXTS_IN_FUNCTIONS = {
    "abs(s)": 2.5,
    "abs(s) + 1": 3.5,
    "sqrt('4') * 2": 4.0,
    "sign(s)": -1.0,
    "log('2', '8')": 3.0,
    "sum(s)": -2.5,
    "sum(distinct s) over () + 1": -1.5,
    "avg(s) || ''": "-2.5",
    "stddev(s)": 0.0,
    "stddev_samp(s) over ()": 0.0,
}


def test_functions_of_numbers_convert_text_to_double(peer: Peer) -> None:
    for expression, expected in TEXTS_IN_FUNCTIONS.items():
        ((value, kind),) = values_of(peer, (expression,), "(SELECT '-2.5' AS s) t")
        assert value == expected, expression
        assert kind == (pa.string() if isinstance(expected, str) else pa.float64()), expression


@pytest.mark.parametrize("value", ["x", "1_0"])
@pytest.mark.parametrize(
    "form", ["{} = 1", "s = 1", "{} + 1", "ceil(s)", "greatest(s, 1)", "sum(s)"]
)
def test_text_that_is_not_a_number_raises_an_error_in_place_of_a_number(
    peer: Peer, form: str, value: str
) -> None:
    shown = form.format(f"'{value}'")
    with pytest.raises(QueryError, match=f"the value '{value}' cannot be converted to DOUBLE"):
        peer.query(f"SELECT {shown} AS v FROM (SELECT '{value}' AS s) t;")


def test_a_partition_of_text_is_compared_with_a_number_of_any_length(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table("(a bigint) PARTITIONED BY (pt string)")
    for number, value in enumerate(("20240101", "202401011200", "20240101.5")):
        peer.sql(f"INSERT INTO {name} PARTITION (pt='{value}') VALUES ({number});")
    assert peer.query(f"SELECT a FROM {name} WHERE pt = 20240101;").to_pylist() == [{"a": 0}]
    assert peer.query(f"SELECT a FROM {name} WHERE pt > 20240102;").to_pylist() == [{"a": 1}]


D = "decimal(10,2)"
QUOTIENTS: tuple[tuple[str, Decimal | None, tuple[int, int]], ...] = (
    ("avg(a)", Decimal("1.333333"), (14, 6)),
    ("avg(distinct a)", Decimal("1.5"), (14, 6)),
    ("max(w)", Decimal("1.333333"), (14, 6)),
    ("sum(a)", Decimal(4), (38, 2)),
    ("sum(a) / count(*)", Decimal("1.333333333333333333"), (38, 18)),
    ("max(a) / 3", Decimal("0.6666666666667"), (21, 13)),
    ("max(a) / max(b)", Decimal("-0.2857142857143"), (23, 13)),
    ("1 / max(b)", Decimal("-0.14285714286"), (23, 11)),
    ("max(a) / 0", None, (21, 13)),
    ("avg(if(a > 5, a, null))", None, (14, 6)),
    ("avg(a * b)", Decimal("-9.33333333"), (24, 8)),
)


def test_averages_and_quotients_of_decimal_are_exact_decimals(peer: Peer) -> None:
    rows = " UNION ALL ".join(
        f"SELECT cast({a} AS {D}) AS a, cast(-7 AS {D}) AS b" for a in (1, 1, 2)
    )
    table = f"(SELECT *, avg(a) OVER () AS w FROM ({rows}) q) t"
    found = values_of(peer, (one for one, _, _ in QUOTIENTS), table)
    for (expression, expected, kind), given in zip(QUOTIENTS, found, strict=True):
        assert given == (expected, pa.decimal128(*kind)), expression


DIVIDED = (
    ("99999999999999999999.999999999999999999", "1"),
    ("0.000000000000000001", "3"),
    ("-12345678901234567890.123456789012345678", "7"),
    ("1", "99999999999999999"),
    ("1", "-0.000000000000000003"),
)


def test_a_quotient_has_eighteen_exact_digits(peer: Peer) -> None:
    quotient = "cast('{}' AS decimal) / cast('{}' AS decimal)"
    found = values_of(peer, (quotient.format(*one) for one in DIVIDED), "(SELECT 1) t")
    with localcontext(prec=80, rounding=ROUND_DOWN):
        for (left, right), (value, _) in zip(DIVIDED, found, strict=True):
            assert value == (Decimal(left) / Decimal(right)).quantize(Decimal(10) ** -18)


MULTIPLIED = (
    ("100.5", "200"),
    ("-9999999999", "9999999999.123456789123456789"),
    ("99999999999999999999.999999999999999999", "1"),
    ("0.000000000000000001", "-0.5"),
    ("0.000000000000000001", "0.49"),
    ("-12345678901234567.890123456789012345", "7.000000000000000007"),
)


def test_a_product_of_decimal_is_rounded_to_eighteen_digits(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table("(id bigint, a decimal(38,18), b decimal(38,18))")
    rows = ", ".join(
        f"({number}, cast('{left}' AS decimal), cast('{right}' AS decimal))"
        for number, (left, right) in enumerate(MULTIPLIED)
    )
    peer.sql(f"INSERT INTO {name} VALUES {rows};")
    with localcontext(prec=80, rounding=ROUND_HALF_UP):
        exact = [
            (Decimal(left) * Decimal(right)).quantize(Decimal(10) ** -18)
            for left, right in MULTIPLIED
        ]
    read = peer.query(
        f"SELECT a * b AS p, sum(a * b) AS s FROM {name} GROUP BY id, a, b ORDER BY id LIMIT 99;"
    )
    assert read.to_pylist() == [{"p": one, "s": one} for one in exact]
    assert {field.type for field in read.schema} == {pa.decimal128(38, 18)}
    peer.sql(f"CREATE TABLE {name}_c AS SELECT a * b AS p FROM {name};")
    copied = peer.query(f"SELECT p FROM {name}_c;").column("p").to_pylist()
    assert sorted(copied) == sorted(exact)


PRODUCTS = (
    ("x * 1.5", Decimal("150.375")),
    ("3 * x", Decimal("300.75")),
    ("x * x * -x", Decimal("-1007518.765625")),
    ("wide * tiny", Decimal("24691357802469135.78024691357802469")),
    ("sum(x * x) over () / 2", Decimal("5025.03125")),
)


def test_products_of_other_scales_are_exact(peer: Peer) -> None:
    table = (
        "(SELECT cast('100.25' AS decimal) AS x,"
        " cast('0.000000000000000002' AS decimal) AS tiny,"
        " cast('12345678901234567890123456789012345.12' AS decimal(38,2)) AS wide) t"
    )
    found = values_of(peer, (one for one, _ in PRODUCTS), table)
    assert [value for value, _ in found] == [expected for _, expected in PRODUCTS]


@pytest.mark.parametrize("computed", ["x * x", "x * 10", "x + x", "sum(x)", "x * wide"])
def test_a_decimal_with_too_many_digits_raises_a_query_error(peer: Peer, computed: str) -> None:
    rows = (
        "SELECT cast('99999999999999999999' AS decimal) AS x,"
        " cast('12345678901234567890' AS decimal(38,2)) AS wide"
    )
    with pytest.raises(QueryError, match="not support DECIMAL of more than 38 digits in SQL"):
        peer.query(f"SELECT {computed} AS v FROM ({rows} UNION ALL {rows}) t;")


LIKE = (
    (r"'a%b' like 'a\\%b'", True),
    (r"'axb' like 'a\\%b'", False),
    (r"'a_b' like 'a\\_b'", True),
    (r"'axb' like 'a\\_b'", False),
    (r"'axb' not like 'a\\_b'", True),
    (r"'axb' like 'a_b'", True),
    (r"'a\\b' like 'a\\\\b'", True),
    (r"'a%b' like p", True),
    (r"'axxb' like p", False),
    ("'a!%b' like 'a!!%b' escape '!'", True),
)


def test_a_backslash_escapes_in_like(peer: Peer) -> None:
    found = values_of(peer, (one for one, _ in LIKE), r"(SELECT 'a\\%b' AS p) t")
    assert [value for value, _ in found] == [expected for _, expected in LIKE]


@pytest.mark.parametrize(
    "text", ["cast('2024-07-01 12:00:00' as datetime)", "datetime '2024-07-01'"]
)
def test_a_cast_to_datetime_has_milliseconds(peer: Peer, text: str) -> None:
    assert peer.query(f"SELECT {text} AS v;").schema.field("v").type == pa.timestamp("ms")


@pytest.mark.parametrize("written", ["'{}'", '"{}"', "p.'{}'"])
def test_a_string_is_not_accepted_as_a_table(peer: Peer, new_table: NewTable, written: str) -> None:
    name = new_table("(a bigint)")
    with pytest.raises(QueryError) as caught:
        peer.sql(f"SELECT a FROM {written.format(name)};")
    assert caught.value.hint
    assert peer.query(f"SELECT a FROM `{name}`;").num_rows == 0


def test_a_wide_decimal_is_computed_if_its_values_have_at_most_38_digits(peer: Peer) -> None:
    name = f"wide{time.time_ns()}"
    settings = {
        "odps.sql.decimal256.enable": "true",
        "odps.sql.decimal2.extended.scale.enable": "true",
    }
    peer.sql(
        f"CREATE TABLE {name} (id bigint, d decimal(60,20), a array<decimal(50,2)>);", settings
    )
    kind, items = pa.decimal256(60, 20), pa.list_(pa.decimal256(50, 2))
    values = [Decimal("12345678901234567.12345678901234567891"), None]
    more = Decimal("12345678901234568.12345678901234567891")
    rows = {
        "id": [1, 2],
        "d": pa.array(values, kind),
        "a": pa.array([[Decimal("1.5")], None], items),
    }
    peer.write(name, pa.table(rows))
    read = peer.query(f"SELECT d, d + 1 AS e, a[0] AS f FROM {name} WHERE d > 1.5;")
    assert read.schema.field("d").type == kind  # as stored
    assert read.to_pylist() == [{"d": values[0], "e": more, "f": Decimal("1.50")}]
    peer.write(name, pa.table(rows | {"d": pa.array([Decimal("9" * 40), None], kind)}))
    with pytest.raises(QueryError, match="not support DECIMAL of more than 38 digits in SQL"):
        peer.query(f"SELECT d FROM {name};")
    assert peer.query(f"SELECT count(*) AS n FROM {name};").to_pylist() == [{"n": 4}]


def test_a_bound_float_stays_a_float(odps: Connection) -> None:
    values = [1.5, -2.25, 1e-7, 1e300, 0.1, np.float64(2.5), np.float32(0.5)]
    params = {f"x{place}": value for place, value in enumerate(values)}
    shown = ", ".join(f":{name} as {name}" for name in params)
    read = odps.sql(f"select {shown}", params=params).to_arrow()
    assert set(read.schema.types) == {pa.float64()}
    assert [column.to_pylist() for column in read.columns] == [[float(value)] for value in values]


@pytest.mark.parametrize("zone", [zone for zone in ZONES if zone != "UTC"])
def test_text_is_parsed_in_the_zone_of_the_connection(odps: Connection, zone: str) -> None:
    with odps_nb.connect(odps.profile, timezone=zone) as odps:
        odps.create_table(name := f"zoned{time.time_ns()}", "id bigint, a datetime")
        odps.sql(f"insert into {name} values (1, '{CLOCK}')")
        assert odps.sql(f"select id from {name} where a = '{CLOCK}'").row_count == 1
        (shown,) = odps.table(name).read().to_pandas()["a"]
        assert str(shown).startswith(CLOCK)
        odps.drop_table(name)


def test_to_date_with_a_format_gives_a_datetime_in_the_session_zone(peer: Peer, zone: str) -> None:
    """The vendor's manual, *TO_DATE*: with a format, it returns a DATETIME."""
    months = [f"{month:02}" for month in range(1, 13)]
    texts = ", ".join(
        f"('2024{month}15 07', '2024/{month}/15 23:59:58.125', date '2024-{month}-15')"
        for month in months
    )
    found = peer.query(
        "SELECT to_date(a, 'yyyymmdd hh') AS a, to_date(b, 'yyyy/mm/dd hh:mi:ss.ff3') AS b,"
        " to_date(null, 'yyyy') AS c, to_char(to_date(a, 'yyyymmdd hh'), 'mmdd hh.ff3') AS s,"
        f" to_date(a, 'yyyymmdd hh') > d AS later FROM VALUES {texts} q (a, b, d);",
        in_zone(zone),
    )
    assert found.schema.field("a").type == pa.timestamp("ms")
    assert found.to_pylist() == [
        {
            "a": instant(f"2024-{month}-15 07:00:00", zone),
            "b": instant(f"2024-{month}-15 23:59:58.125", zone),
            "c": None,
            "s": f"{month}15 07.000",
            "later": True,
        }
        for month in months
    ]


JSON = (
    ("bad", "$.a", None),
    ("", "$.a", None),
    ('{"a":1', "$.a", None),
    ('{"a":1}', "$.b", None),
    ('{"a":"x"}', "$.a", "x"),
    ('{"a":{"b":1}}', "$.a", '{"b":1}'),
    ('[{"a":1},{"a":2}]', "$[*].a", "[1,2]"),
    ('{"a":[{"b":"x"},{"b":"y"},{}]}', "$.a[*].b", '["x","y"]'),
    ('{"a":[]}', "$.a[*].b", None),
    ("bad", "$[*].a", None),
)


def test_get_json_object_returns_one_text_or_null(peer: Peer) -> None:
    call = "get_json_object({}, '{}')"
    constants = (call.format(f"'{text}'", path) for text, path, _ in JSON)
    columns = (call.format(f"s{place}", path) for place, (_, path, _) in enumerate(JSON))
    texts = ", ".join(f"'{text}' AS s{place}" for place, (text, _, _) in enumerate(JSON))
    found = values_of(peer, (*constants, *columns), f"(SELECT {texts}) t")
    assert found == [(expected, pa.string()) for _, _, expected in JSON] * 2


def test_text_and_bytes_are_cast_as_utf8(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(s string, b binary)")
    peer.sql(f"INSERT INTO {name} SELECT '中 \\\\x41', cast('中 \\\\x41' as binary);")
    (row,) = peer.query(
        "SELECT cast(b as string) AS b, cast(s as binary) AS s,"
        f" cast(unhex('e4b8ad') as string) AS u, cast('中' as binary) AS c FROM {name};"
    ).to_pylist()
    text = "中 \\x41"
    assert row == {"b": text, "s": text.encode(), "u": "中", "c": "中".encode()}
