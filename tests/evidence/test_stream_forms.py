"""Users see the same result for every Arrow form in which the service sends a column."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.paging.browsing import rows_of as browsed
from odps_nb.access.table import Table
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.local.server import launch
from odps_nb.local.server.launch import LocalService
from tests.support.service.connecting import connected
from tests.support.service.raw import Raw, rows_of
from tests.support.spark.watched import injected, misbehave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    "id bigint, d datetime, t timestamp, n timestamp_ntz, s string, v varchar(9), b binary, "
    "a array<timestamp>, m map<string,timestamp_ntz>, r struct<d:datetime,s:string,t:timestamp>, "
    "p decimal(9,2)"
)
BEFORE, LATER = dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 7, 1, 10)
ROWS = [
    (BEFORE, "a", [BEFORE, None], [("k", BEFORE)], (BEFORE, "x", LATER)),
    (None, None, None, None, None),
    (LATER, "", [], [], (None, None, None)),
    (LATER, "a", [LATER], [("k", None), ("l", LATER)], (LATER, "x", None)),
]
MILLI, NANO = pa.timestamp("ms"), pa.timestamp("ns")
EXPECTED = pa.table(
    {
        "id": pa.array(range(len(ROWS)), pa.int64()),
        "d": pa.array([row[0] for row in ROWS], MILLI),
        "t": pa.array([row[0] for row in ROWS], NANO),
        "n": pa.array([row[0] for row in ROWS], NANO),
        "s": pa.array([row[1] for row in ROWS], pa.string()),
        "v": pa.array([row[1] for row in ROWS], pa.string()),
        "b": pa.array([row[1] and row[1].encode() for row in ROWS], pa.binary()),
        "a": pa.array([row[2] for row in ROWS], pa.list_(pa.field("element", NANO))),
        "m": pa.array([row[3] for row in ROWS], pa.map_(pa.string(), NANO)),
        "r": pa.array(
            [row[4] and dict(zip("dst", row[4], strict=True)) for row in ROWS],
            pa.struct([("d", MILLI), ("s", pa.string()), ("t", NANO)]),
        ),
        "p": pa.array([Decimal(n) for n in range(len(ROWS))], pa.decimal128(9, 2)),
    }
)
TIMES = ("d", "t", "n")
FORMS = {
    "zones and dictionaries": ("time_zone=Asia/Shanghai", "strings=dictionary"),
    "structs": ("time_zone=none", "timestamps=struct"),
}
Running = dict[str, tuple[LocalService, Connection]]


@pytest.fixture(scope="module")
def forms() -> Iterator[Running]:
    """A service for each set of forms, and a table with the same rows in each service."""
    with contextlib.ExitStack() as stack:
        running = {}
        for name, chosen in FORMS.items():
            options = tuple(part for form in chosen for part in ("--form", form))
            options = (*options, "--form", "nanosecond_status=none", "--misbehave")
            service = stack.enter_context(launch.start(samples=False, options=options))
            odps = stack.enter_context(connected(service))
            odps.create_table("forms", COLUMNS).write(EXPECTED)
            running[name] = service, odps
        yield running


@pytest.fixture(params=FORMS)
def odps(request: pytest.FixtureRequest, forms: Running) -> Connection:
    """A connection to each service."""
    return forms[request.param][1]


@pytest.fixture
def table(odps: Connection) -> Table:
    """The rows of each service."""
    return odps.table("forms")


# -- streams of the service -------------------------------------------------------------------


def streams(raw: Raw, name: str) -> dict[str, pa.Table]:
    """Return the rows of a table, read with each action that sends rows."""
    instance = raw.sql(f"select * from {name};")
    target = raw.instance(instance)
    opened = raw.ask("InstanceCreateReadSession", target, body={"EnableLimit": False}).json()
    place: dict[str, object] = {"SessionId": opened["DownloadID"], "Count": 9}
    session = raw.session(name, SplitOptions={"SplitMode": "RowOffset"})
    return {
        "TableRead": raw.whole(name, session),
        "TablePreview": rows_of(raw.ask("TablePreview", raw.table(name), body={"Limit": 9})),
        "InstanceRead": rows_of(raw.ask("InstanceRead", target, place, {})),
    }


@pytest.fixture(scope="module")
def default(raw: Raw) -> str:
    name = raw.make(f"({COLUMNS})")
    raw.write(name, EXPECTED[1:])  # the first row has times that are not sent in nanoseconds
    return name


def test_instants_have_a_zone_and_timestamp_ntz_has_none(raw: Raw, default: str) -> None:
    """Evidence 151: in each stream, also nested; the numbers are UTC (Doris connector, maxframe)"""
    for action, rows in streams(raw, default).items():
        types = {field.name: str(field.type) for field in rows.schema}
        assert (types["d"], types["t"], types["n"]) == (
            "timestamp[ms, tz=UTC]", "timestamp[ns, tz=UTC]", "timestamp[ns]",
        ), action  # fmt: skip
        assert types["a"] == "list<element: timestamp[ns, tz=UTC]>"
        assert types["m"] == "map<string, timestamp[ns]>"
        assert types["r"].count("tz=UTC") == 2
        assert rows["t"].cast(pa.int64()).equals(EXPECTED["t"][1:].cast(pa.int64()))


@pytest.mark.nightly
def test_the_service_sends_the_arrow_forms_that_it_was_started_with(forms: Running) -> None:
    """Evidence 151, 173: each stream has the form, if it is switched on"""
    with Raw(forms["zones and dictionaries"][0]) as raw:
        for rows in streams(raw, "forms").values():
            types = {field.name: str(field.type) for field in rows.schema}
            assert types["d"] == "timestamp[ms, tz=Asia/Shanghai]"
            assert types["n"] == "timestamp[ns]"
            assert rows["d"].cast(pa.int64()).equals(EXPECTED["d"].cast(pa.int64()))
            word = "dictionary<values=string, indices=int32, ordered=0>"
            assert (types["s"], types["v"]) == (word, word)
            assert types["b"] == word.replace("string", "binary")
            assert word in types["r"]
            assert types["m"] == f"map<{word}, timestamp[ns]>"
    with Raw(forms["structs"][0]) as raw:
        for rows in streams(raw, "forms").values():
            types = {field.name: str(field.type) for field in rows.schema}
            pair = "struct<sec: int64, nano: int32>"
            assert (types["d"], types["t"], types["n"]) == ("timestamp[ms]", pair, pair)
            assert rows["t"].to_pylist() == [
                {"sec": -1, "nano": 999_000_000}, None,
                *[{"sec": 1719828000, "nano": 0}] * 2,
            ]  # fmt: skip


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "+08:00", "PRC"])
def test_times_with_a_zone_are_stored_as_the_same_instant(raw: Raw, zone: str) -> None:
    """Evidence 151: a client that writes the rows it read sends the zone; also in nested values"""
    name = raw.make("(t timestamp, n timestamp_ntz, a array<datetime>)")
    moment = pa.array([1, None], NANO)
    nested = pa.array([[1], None], pa.list_(pa.timestamp("ms", zone)))
    zoned = moment.view(pa.timestamp("ns", zone))
    raw.write(name, pa.table({"t": zoned, "n": zoned, "a": nested}))
    rows = raw.whole(name, raw.session(name, SplitOptions={"SplitMode": "RowOffset"}))
    assert rows["t"].combine_chunks().view(NANO).equals(moment)
    assert rows["n"].combine_chunks().equals(moment)
    assert rows["a"].combine_chunks().flatten().cast(pa.int64()).to_pylist() == [1]


# -- what users see ---------------------------------------------------------------------------


def by_id(rows: pa.Table) -> pa.Table:
    return rows.sort_by("id").combine_chunks()


ROADS: dict[str, Callable[[Table], pa.Table]] = {
    "to_arrow": lambda table: table.read().to_arrow(),
    "batches": lambda table: pa.Table.from_batches(table.read().batches()),
    "reader": lambda table: table.read().reader().read_all(),
    "splits": lambda table: table.read(splits=4).to_arrow(),
    "condition": lambda table: table.read(where="id >= 0 and (t is null or s >= '')").to_arrow(),
    "dataset": lambda table: table.dataset().to_table(),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.gate(4)
def test_arrow_tables_of_a_read_have_plain_types(table: Table, road: str) -> None:
    """Evidence 151, 173: types and values are the same as in any other form of stream"""
    rows = by_id(ROADS[road](table))
    assert rows.schema.equals(EXPECTED.schema)
    assert rows.equals(EXPECTED)


def test_results_of_sql_have_plain_types(odps: Connection) -> None:
    """Evidence 151, 173: all rows of a result, and its first rows"""
    result = odps.sql("select * from forms")
    for rows in (result.to_arrow(), result.first(9).to_arrow()):
        assert by_id(rows).schema.equals(EXPECTED.schema)
        assert by_id(rows).equals(EXPECTED)


def test_an_empty_read_has_the_same_types(table: Table) -> None:
    """Evidence 151, 173: if there is no batch, the session's columns define the types"""
    assert table.read(where="id > 99").to_arrow().schema.equals(EXPECTED.schema)


def test_pandas_frames_have_plain_types(table: Table) -> None:
    """Evidence 151, 173: of a read, its first rows, and a result"""
    frame = table.read().to_pandas()
    assert [str(frame[name].dtype) for name in TIMES] == [
        "datetime64[ms]", "datetime64[ns]", "datetime64[ns]",
    ]  # fmt: skip
    assert str(frame["s"].dtype) == "str"
    assert frame["r"][0] == {"d": BEFORE, "s": "x", "t": pd.Timestamp(LATER)}
    head = table.head(9)
    pd.testing.assert_series_equal(head.dtypes, frame.dtypes)
    assert head.to_dict("list").keys() == frame.to_dict("list").keys()
    pd.testing.assert_frame_equal(head.iloc[:, :7], frame.iloc[:, :7])


def test_polars_and_duckdb_results_have_plain_types(table: Table) -> None:
    """Evidence 151, 173"""
    import duckdb
    import polars as pl

    frame = table.read().to_polars()
    assert [frame.schema[name] for name in TIMES] == [
        pl.Datetime("ms"), pl.Datetime("ns"), pl.Datetime("ns"),
    ]  # fmt: skip
    assert frame.schema["s"] == pl.String
    lazy = table.scan_polars().filter(pl.col("t") > LATER - dt.timedelta(days=1))
    assert lazy.collect()["id"].to_list() == [2, 3]
    rows = table.read(["id", "t", "s"]).dataset()  # noqa: F841 - DuckDB finds it by its name
    asked = duckdb.sql("select id, t, s from rows where t < '1970-01-01' or s = ''").fetchall()
    assert sorted(asked) == [(0, BEFORE, "a"), (2, LATER, "")]


def test_the_explorer_shows_plain_types(table: Table) -> None:
    """Evidence 151, 173"""
    page = pa.Table.from_batches(browsed(table.read()).page(1, 2, CancelToken()))
    assert page.schema.equals(EXPECTED.schema)
    assert page.to_pylist() == EXPECTED.slice(1, 2).to_pylist()


def test_only_the_time_zone_of_the_connection_is_shown(forms: Running) -> None:
    """Evidence 151: the connection determines the zone, whatever the stream says"""
    zone = "America/Los_Angeles"
    for service, _ in forms.values():
        with connected(service, timezone=zone) as odps:
            table = odps.table("forms")
            for rows in (table.read().to_arrow(), odps.sql("select * from forms").to_arrow()):
                assert rows.schema.field("d").type == pa.timestamp("ms", zone)
                assert rows.schema.field("t").type == pa.timestamp("ns", zone)
                assert rows.schema.field("n").type == NANO
                assert rows["t"].cast(pa.int64()).equals(EXPECTED["t"].cast(pa.int64()))
            assert str(table.head()["t"].dtype) == f"datetime64[ns, {zone}]"


def test_changes_of_a_table_have_plain_types(odps: Connection) -> None:
    """Evidence 151, 173: also in an incremental read"""
    columns = "id bigint not null, t timestamp, s string"
    keyed = odps.create_table(
        "keyed", columns, primary_key="id", properties={"acid.cdc.mode.enable": True}
    )
    rows = EXPECTED.select(["id", "t", "s"])
    keyed.upsert(rows)
    found = keyed.read(since=0, changes=True).to_arrow()
    assert by_id(found).select(["id", "t", "s"]).to_pylist() == rows.to_pylist()
    assert not [kind for kind in map(str, found.schema.types) if "tz=" in kind or "<" in kind]


def test_a_broken_read_with_dictionaries_resumes_at_the_exact_row(odps: Connection) -> None:
    """Evidence 173: the next stream has its own dictionaries and structs"""
    count = 60_000
    numbers = pa.array(range(count), pa.int64())
    words = pa.array([f"word {n % 97}" for n in range(count)])
    rows = pa.table({"id": numbers, "t": numbers.view(NANO), "s": words})
    table = odps.create_table("long", "id bigint, t timestamp, s string")
    table.write(rows)
    misbehave(odps, {"action": "TableRead", "times": 3, "fault": "cut", "at": 500_000})
    assert by_id(table.read(splits=1).to_arrow()).equals(rows)
    assert injected(odps) == [3]


@pytest.mark.gate(1)
def test_spark_data_frames_have_spark_types(odps: Connection, spark_session: SparkSession) -> None:
    """Evidence 151, 173"""
    import odps_nb.spark

    frame = odps_nb.spark.read(spark_session, odps, "forms")
    assert dict(frame.dtypes) == {
        "id": "bigint", "d": "timestamp", "t": "timestamp", "n": "timestamp_ntz",
        "s": "string", "v": "string", "b": "binary", "a": "array<timestamp>",
        "m": "map<string,timestamp_ntz>", "r": "struct<d:timestamp,s:string,t:timestamp>",
        "p": "decimal(9,2)",
    }  # fmt: skip
    texts = [
        "s",
        "unix_micros(t)",
        "cast(n as string)",
        "unix_micros(get(a, 0))",
        "unix_micros(r.d)",
    ]
    first, _, _, last = frame.orderBy("id").selectExpr(*texts).collect()
    micros = int(LATER.replace(tzinfo=dt.UTC).timestamp()) * 10**6
    assert tuple(first) == ("a", -1000, str(BEFORE)[:23], -1000, -1000)
    assert tuple(last) == ("a", micros, str(LATER), micros, micros)


# -- maps whose keys repeat -------------------------------------------------------------------

PAIRS = [[("k", 1), ("k", None), ("l", 3)], [("k", None), ("k", 2)], []]


@pytest.fixture
def repeated(odps: Connection) -> Table:
    """Maps with repeated keys, in a table with the default forms or others."""
    table = odps.create_table("repeated", "id bigint, m map<string,bigint>", if_not_exists=True)
    maps = pa.array(PAIRS, pa.map_(pa.string(), pa.int64()))
    table.write(pa.table({"id": range(3), "m": maps}), overwrite=True)
    return table


def test_a_map_keeps_repeated_keys(repeated: Table) -> None:
    """Evidence 108, 172: pairs are returned as stored, also with nulls (vendor's connector)"""
    assert by_id(repeated.read().to_arrow())["m"].to_pylist() == PAIRS
    cells = [PAIRS[0], PAIRS[1], {}]
    assert repeated.read().to_pandas().sort_values("id")["m"].tolist() == cells
    assert repeated.head().sort_values("id")["m"].tolist() == cells
    dicts = repeated.read().to_polars().sort("id")["m"].to_list()
    assert dicts == [dict(pairs) for pairs in PAIRS]  # the last value of each key


def test_duckdb_refuses_a_map_with_a_repeated_key(repeated: Table) -> None:
    """Evidence 172: DuckDB does not support maps with repeated keys and raises an error"""
    import duckdb

    rows = repeated.dataset()  # noqa: F841 - DuckDB finds it by its name
    with pytest.raises(duckdb.InvalidInputException, match="duplicate key"):
        duckdb.sql("select m from rows").fetchall()
    assert duckdb.sql("select count(id) from rows").fetchall() == [(3,)]


@pytest.mark.gate(1)
def test_spark_keeps_all_pairs_of_a_map_and_a_dict_has_the_last(
    odps: Connection, repeated: Table, spark_session: SparkSession
) -> None:
    """Evidence 172: `size` counts all, a lookup finds the first, a dict contains the last"""
    import odps_nb.spark

    frame = odps_nb.spark.read(spark_session, odps, repeated.name).orderBy("id")
    rows = frame.selectExpr("m", "size(m) as n", "m['k'] as k").collect()
    assert [row.n for row in rows] == [3, 2, 0]
    assert [row.m for row in rows] == [dict(pairs) for pairs in PAIRS]
    assert [row.k for row in rows] == [1, None, None]
