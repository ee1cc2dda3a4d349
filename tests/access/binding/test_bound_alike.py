"""A bound value means the same in ``where=``, SQL, magics and Spark."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.access.binding.text import bind_query
from odps_nb.access.connection import Connection
from odps_nb.access.table import Table
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ArgumentError
from tests.support.bound_values import CASES, COLUMNS, LISTS, NS, rows

TIMES = ("d", "m", "ts", "n")
ZONES = (None, "Asia/Shanghai", "America/New_York")
Ask = Callable[..., list[int]]


@pytest.fixture(scope="session")
def odps(wide: Connection) -> Connection:
    """A connection to a service that also returns times before 1970 in nanoseconds."""
    return wide


@pytest.fixture(scope="session")
def profile(wide: Connection) -> Profile:
    return wide.profile


@cache
def id_query(odps: Connection, table: Table, way: str) -> Ask:
    """Return a function that returns the ids of the rows that satisfy a condition.

    Values that are bound as the same text are queried only once.
    """
    known: dict[str | None, list[int]] = {}

    def ids(condition: str, **params: object) -> list[int]:
        if way == "where":
            scan = table.read(["id"], where=condition, params=params)
            text, rows = scan._plan.where, scan.to_arrow
        else:
            query = f"select id from {table.name} where {condition}"
            text = bind_query(query, params, None, timezone=odps.profile.timezone)
            rows = lambda: odps.sql(query, params=params).to_arrow()  # noqa: E731
        if text not in known:
            known[text] = sorted(rows()["id"].to_pylist())
        return known[text]

    return ids


@pytest.fixture(scope="module")
def table(odps: Connection) -> Iterator[Table]:
    made = odps.create_table("bound_alike", COLUMNS)
    made.write(rows())
    yield made
    odps.drop_table(made.name)


@pytest.fixture(scope="module", params=["where", "sql"])
def ids(odps: Connection, table: Table, request: pytest.FixtureRequest) -> Ask:
    return id_query(odps, table, request.param)


@pytest.mark.gate(20)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_bound_value_selects_equal_and_greater_rows(ids, case):
    for sign in ("=", ">"):
        condition, found = case.where(sign)
        assert ids(condition, x=case.value) == found


@pytest.mark.parametrize(
    ("column", "values"), LISTS, ids=lambda one: one if isinstance(one, str) else type(one).__name__
)
def test_a_bound_list_selects_its_rows_with_in_and_the_others_with_not_in(ids, column, values):
    found = ids(f"{column} in (:x)", x=values)
    assert len(found) == 2
    assert ids(f"{column} in :x", x=values) == found
    assert ids(f"{column} not in (:x)", x=values) == sorted(set(range(6)) - set(found))


PADDING = {
    "k": lambda n: n + 100,
    "s": lambda n: f"o'n {n}",
    "d": lambda n: dt.date(1600, 1, 1) + dt.timedelta(days=n),
    "ts": lambda n: pd.Timestamp(NS + 1000 + n),
    "dc": lambda n: Decimal(n + 100) / 8,
    "b": lambda n: b"\x01%d" % n,
    "f": lambda n: n + 100.25,
    "i": lambda n: dt.timedelta(days=-1, microseconds=n),
}


@pytest.mark.parametrize(
    ("column", "count"),
    [
        ("k", 100_000),
        ("s", 12_000),
        ("d", 12_000),
        *((one, 1_100) for one in ("ts", "dc", "b", "f", "i")),
    ],
)
@pytest.mark.gate(3)
def test_a_long_list_selects_the_rows_of_its_values(table, column, count):
    values = table.read([column]).to_arrow()[column].to_pylist()[:3]
    if column == "ts":
        values = [pd.Timestamp(one) for one in values]
    padded = [*values, *map(PADDING[column], range(count))]
    for sign in ("in", "not in"):
        found = [
            sorted(
                table.read(["id"], where=f"{column} {sign} (:x)", params={"x": some})
                .to_arrow()["id"]
                .to_pylist()
            )
            for some in (values, padded)
        ]
        assert found[0] == found[1]


def test_the_error_for_a_list_that_is_too_long_for_sql_shows_an_alternative(odps):
    with pytest.raises(ArgumentError, match="10,001 values cannot be bound in SQL") as caught:
        odps.sql("select 1 where 1 in (:x)", params={"x": range(10_001)})
    assert "odps.create_table(" in caught.value.hint


NULLS = [None, pd.NaT, pd.NA, np.datetime64("NaT", "s"), pa.scalar(None, pa.timestamp("ns"))]


@pytest.mark.parametrize("null", NULLS, ids=lambda value: type(value).__name__)
def test_a_bound_null_matches_no_row_and_is_refused_after_not_in(ids, null):
    at = pd.Timestamp(NS)
    lists = [[at, null], (null,), {at, null}, np.array([at, null], object)]
    lists += [pd.Series([at, null], dtype=object), pa.array([NS, None], pa.timestamp("ns"))]
    for values in [null, *lists]:
        for condition in ("ts not in (:x)", "ts not in (:first, :x)"):
            with pytest.raises(ArgumentError, match="after NOT IN"):
                ids(condition, x=values, first=at)
    assert ids("ts in (:x)", x=[at, null]) == [4]
    assert ids("ts = :x", x=null) == []
    assert ids("ts not in (:x)", x=pd.Series([at, None], dtype=object).dropna()) == [0, 1, 2, 3, 5]


def test_text_is_compared_with_binary_columns_by_its_utf8_bytes(ids):
    for row, text in enumerate(rows()["s"].to_pylist()):
        assert ids("s = :x", x=text.encode()) == [row]
    assert ids("s in (:x)", x=[b"5", "ü".encode()]) == [1, 5]
    assert ids("s > :x", x=b"\\x41") == [3, 4, 5]
    assert ids("s = :x", x=b"\xff") == []


def test_a_date_is_compared_with_times_as_midnight_of_that_day(ids):
    noon, midnight = pd.Timestamp("2024-07-03 12:00"), pd.Timestamp("2024-07-03")
    assert ids("d <= :x", x=midnight) == ids("d <= :x", x=noon) == ids("d < :x", x=noon)
    assert ids("d < :x", x=midnight) == [0, 1, 2]
    assert ids("d > :x", x=noon) == ids("d >= :x", x=noon) == [4, 5]
    assert ids("d = :x", x=noon) == []
    assert ids("d <> :x", x=noon) == [0, 1, 2, 3, 4, 5]
    assert ids("d in (:x)", x=[noon, midnight]) == [3]
    assert ids("d between :a and :b", a=pd.Timestamp(1), b=noon) == [2, 3]
    assert ids("m >= :x", x=dt.date(2024, 7, 3)) == [3, 4, 5]
    assert ids("ts < :x", x=dt.date(1970, 1, 1)) == [0]


@pytest.mark.gate(3)
@pytest.mark.parametrize("column", TIMES)
def test_a_time_outside_the_nanosecond_range_is_compared_with_every_time(ids, column):
    first, last = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)
    for low, high in ((first, last), (first.date(), last.date())):
        assert ids(f"{column} > :x", x=low) == ids(f"{column} < :x", x=high) == [0, 1, 2, 3, 4, 5]
        assert ids(f"{column} <= :x", x=low) == ids(f"{column} = :x", x=high) == []
        assert ids(f"{column} between :a and :b", a=low, b=pd.Timestamp(NS))[-1] <= 4


def test_a_variable_in_braces_is_the_name_of_a_column(ids):
    assert ids("{column} = :x", x=7, column="k") == [3]
    assert ids("{a} = :x and {b} is not null", x=7, a="K", b="ts") == [3]


def test_where_accepts_decimals_with_38_digits(odps, new_name):
    largest, least = Decimal("9" * 38), Decimal("-" + "9" * 38)
    made = odps.create_table(new_name("digits"), "id bigint, a decimal(38,0), b decimal(38,18)")
    values = [Decimal("9" * 20 + "." + "9" * 18), Decimal("-1E-18"), None]
    made.write(
        pa.table(
            {
                "id": [0, 1, 2],
                "a": pa.array([largest, least, None], pa.decimal128(38, 0)),
                "b": pa.array(values, pa.decimal128(38, 18)),
            }
        )
    )

    def ids(condition: str, **params: object) -> list[int]:
        return made.read(["id"], where=condition, params=params).to_arrow()["id"].to_pylist()

    assert ids("a = :x", x=largest) == ids(f"a = {largest}BD") == [0]
    assert ids("a = :x", x=least) == ids(f"a = {least}BD") == [1]
    assert ids("b < :x", x=largest) == [0, 1]
    assert ids("b = :x", x=values[0]) == ids("b >= :x", x=values[0]) == [0]
    assert ids("b = :x", x=values[1]) == [1]
    assert ids("b > :x", x=Decimal("9" * 20 + "." + "9" * 17 + "8")) == [0]


# -- watermarks -----------------------------------------------------------------------------------


SHANGHAI = pytest.param("Asia/Shanghai", marks=pytest.mark.nightly)  # not UTC


@pytest.fixture(scope="module", params=[None, SHANGHAI, "America/New_York"], ids=str)
def zoned(profile: Profile, request: pytest.FixtureRequest) -> Iterator[tuple[Connection, Table]]:
    with odps_nb.connect(profile, timezone=request.param) as odps:
        made = odps.create_table(f"watermarks_{ZONES.index(request.param)}", COLUMNS)
        made.write(rows())
        yield odps, made
        odps.drop_table(made.name)


@cache
def _frame(odps: Connection, table: Table, form: str) -> pd.DataFrame:
    if form == "sql":
        return odps.sql(f"select * from {table.name}").to_pandas().sort_values("id")
    return table.read().to_pandas(dtype_backend=form or None).sort_values("id")


@cache
def _rows(table: Table) -> pa.Table:
    return table.read().to_arrow().sort_by("id")


@cache
def _latest_times(odps: Connection, table: Table, count: int) -> pd.DataFrame:
    found = ", ".join(f"max({column}) as {column}" for column in TIMES)
    return odps.sql(f"select {found} from {table.name} where id < {count}").to_pandas()


FORMS: dict[str, Callable[[Connection, Table, str, int], object]] = {
    "pandas": lambda o, t, c, n: _frame(o, t, "")[c].iloc[:n].max(),
    "pyarrow dtypes": lambda o, t, c, n: _frame(o, t, "pyarrow")[c].iloc[:n].max(),
    "arrow": lambda o, t, c, n: _rows(t)[c][n - 1],
    "sql": lambda o, t, c, n: _frame(o, t, "sql")[c].iloc[:n].max(),
    "max": lambda o, t, c, n: _latest_times(o, t, n)[c][0],
}


@pytest.mark.gate(1)
@pytest.mark.parametrize("column", TIMES)
def test_the_latest_time_as_a_bound_value_selects_its_row_and_the_newer_rows(zoned, column):
    odps, table = zoned
    for form, count in itertools.product(FORMS.values(), (1, 5)):
        last = form(odps, table, column, count)
        for way in ("where", "sql"):
            ids = id_query(odps, table, way)
            assert ids(f"{column} > :last", last=last) == list(range(count, 6))
            assert ids(f"{column} = :last", last=last) == [count - 1]
            assert ids(f"{column} <= :last", last=last) == list(range(count))


@pytest.mark.parametrize("column", TIMES)
def test_a_bound_polars_series_selects_its_rows(zoned, column):
    odps, table = zoned
    last = pl.DataFrame(_rows(table))[column][3:5]
    for way in ("where", "sql"):
        assert id_query(odps, table, way)(f"{column} in (:x)", x=last) == [3, 4]


def test_the_two_instants_of_a_repeated_local_time_are_distinguished(profile, new_name):
    with odps_nb.connect(profile, timezone="America/New_York") as odps:
        table = odps.create_table(new_name("fall"), "id bigint, ts timestamp")
        hours = pd.to_datetime(["2024-11-03T05:30", "2024-11-03T06:30"], utc=True)
        table.write(pd.DataFrame({"id": [0, 1], "ts": hours}))
        times = table.read().to_pandas().sort_values("id")["ts"]
        by_where, by_sql = id_query(odps, table, "where"), id_query(odps, table, "sql")
        for row, time in enumerate(times):
            assert by_where("ts = :x", x=time) == [row]
        assert by_sql("ts = :x", x=times[0]) == [0]
        with pytest.raises(ArgumentError, match="its local time occurs twice") as caught:
            by_sql("ts = :x", x=times[1])
        assert caught.value.hint == "run the query in UTC: settings={'odps.sql.timezone': 'UTC'}"
        query, settings = f"select id from {table.name} where ts = :x", {"odps.sql.timezone": "UTC"}
        found = odps.sql(query, params={"x": times[1]}, settings=settings).to_arrow()
        assert found["id"].to_pylist() == [1]


def test_a_read_in_microseconds_refuses_a_time_in_nanoseconds(table):
    with pytest.raises(ArgumentError, match="this read returns microseconds") as caught:
        table.read(where="ts = :x", params={"x": pd.Timestamp(NS)}, timestamp_unit="us")
    assert "value.floor('us')" in caught.value.hint
    found = table.read(
        where="ts = :x", params={"x": pd.Timestamp(NS).floor("us")}, timestamp_unit="us"
    )
    assert sorted(found.to_arrow()["id"].to_pylist()) == [3, 4, 5]
    assert table.read(where="m < :x", params={"x": pd.Timestamp(NS)}, timestamp_unit="us")


@pytest.mark.parametrize("way", ["where", "sql"])
def test_bound_text_with_control_characters_selects_its_row(odps, new_name, way):
    made = odps.create_table(new_name("controls"), "id bigint, s string")
    texts = ["\x00", "a\x00b", "\x00\x00", "ab", "", "\x01", "\x7f", "\ufffe", "a\\0b"]
    made.write(pa.table({"id": list(range(len(texts))), "s": texts}))
    ids = id_query(odps, made, way)
    for row, text in enumerate(texts):
        assert ids("s = :x", x=text) == [row]
    assert ids("s in:xs", xs=texts[:3]) == [0, 1, 2]
    assert ids("s > :x", x="a\x00") == [1, 3, 6, 7, 8]


@pytest.mark.gate(2)
@pytest.mark.parametrize("way", ["where", "sql"])
@pytest.mark.parametrize("zone", ["UTC", *ZONES[1:]])
def test_the_first_and_last_times_in_nanoseconds_are_compared_exactly(profile, new_name, way, zone):
    with odps_nb.connect(profile, timezone=zone) as odps:
        made = odps.create_table(new_name("ends"), "id bigint, n timestamp_ntz, t timestamp")
        ends = ["1678-01-01", "2262-03-01 00:00:00.000000001"]
        times = [pd.Timestamp.min, *map(pd.Timestamp, ends), pd.Timestamp.max]
        made.write(
            pa.table(
                {
                    "id": range(4),
                    "n": pa.array([t.value for t in times], pa.timestamp("ns")),
                    "t": pa.array([t.value for t in times], pa.timestamp("ns", "UTC")),
                }
            )
        )
        ids = id_query(odps, made, way)
        for row, time in enumerate(times):
            assert ids("n = :x", x=time) == [row]
            assert ids("n <= :x", x=time) == list(range(row + 1))
        for row, time in enumerate(times[1:], 1):
            assert ids("t = :x", x=time.tz_localize("UTC")) == [row]
        for column in ("n", "t"):
            assert ids(f"{column} < :x", x=dt.datetime(2263, 1, 1)) == [0, 1, 2, 3]
            assert ids(f"{column} > :x", x=dt.datetime(1677, 1, 1)) == [0, 1, 2, 3]
            assert ids(f"{column} > :x", x=dt.datetime(2262, 3, 2)) == [3]
        odps.drop_table(made.name)
