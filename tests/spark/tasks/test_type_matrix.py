"""Extremes, nulls and difficult instants of every type, in every way and every session zone.

The plain client's Arrow values are the reference. A few wide jobs cover everything, with a column
for each type.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.spark.versions import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

Names = Callable[[str], str]

UTC = dt.UTC


def _at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type]  # parts of a date, in order


#: name, type in the table, type in Spark, values: usual, minimum, maximum.
MATRIX: list[tuple[str, str, pa.DataType, list[Any]]] = [
    ("a", "tinyint", pa.int8(), [1, -128, 127]),
    ("b", "smallint", pa.int16(), [1, -(2**15), 2**15 - 1]),
    ("c", "int", pa.int32(), [1, -(2**31), 2**31 - 1]),
    ("d", "bigint", pa.int64(), [1, -(2**63) + 1, 2**63 - 1]),
    ("e", "float", pa.float32(), [0.5, -3.4028234663852886e38, float("inf")]),
    ("f", "double", pa.float64(), [0.1, -1.7976931348623157e308, float("-inf")]),
    ("g", "boolean", pa.bool_(), [True, False, True]),
    ("h", "string", pa.string(), ["grüße 👋", "", "\x00\n\t'\"\\"]),
    ("i", "char(3)", pa.string(), ["abc", "界界界", "zzz"]),
    ("j", "varchar(4)", pa.string(), ["ab", "", "👋👋👋👋"]),
    ("k", "binary", pa.binary(), [b"\x00\xff", b"", bytes(range(256))]),
    ("l", "date", pa.date32(), [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (
        "m",
        "datetime",
        pa.timestamp("us", "UTC"),
        [_at(2024, 2, 29, 1, 2, 3, 4000), _at(1, 1, 1), _at(9999, 12, 31, 23, 59, 59, 999000)],
    ),
    (
        "n",
        "timestamp",
        pa.timestamp("us", "UTC"),
        [
            _at(2024, 2, 29, 1, 2, 3, 456789),
            _at(1677, 9, 21, 0, 12, 43, 145225),
            _at(2262, 4, 11, 23, 47, 16, 854775),
        ],
    ),
    (
        "o",
        "timestamp_ntz",
        pa.timestamp("us"),
        [
            dt.datetime(2024, 3, 10, 2, 30, 0, 1),  # does not exist in New York
            dt.datetime(1677, 9, 21, 0, 12, 43, 145225),
            dt.datetime(2262, 4, 11, 23, 47, 16, 854775),
        ],
    ),
    (
        "p",
        "decimal(38,18)",
        pa.decimal128(38, 18),
        [
            decimal.Decimal("1.5"),
            decimal.Decimal("-" + "9" * 20 + "." + "9" * 18),
            decimal.Decimal("9" * 20 + "." + "9" * 18),
        ],
    ),
    (
        "q",
        "decimal(10,2)",
        pa.decimal128(10, 2),
        [decimal.Decimal("-0.01"), decimal.Decimal("-99999999.99"), decimal.Decimal("99999999.99")],
    ),
    ("r", "json", pa.string(), ['{"a":[1,null]}', "{}", "[]"]),
    (
        "s",
        "array<struct<x:bigint,y:datetime>>",
        pa.list_(pa.struct([("x", pa.int64()), ("y", pa.timestamp("us", "UTC"))])),
        [[{"x": 1, "y": _at(2024, 1, 1)}, None], [], [{"x": None, "y": None}]],
    ),
    (
        "t",
        "map<string,array<binary>>",
        pa.map_(pa.string(), pa.list_(pa.binary())),
        [[("k", [b"v", None])], [], [("", None), ("x", [])]],
    ),
    (
        "u",
        "struct<m:decimal(5,1),n:struct<o:timestamp_ntz>>",
        pa.struct([("m", pa.decimal128(5, 1)), ("n", pa.struct([("o", pa.timestamp("us"))]))]),
        [
            {"m": decimal.Decimal("1.5"), "n": {"o": dt.datetime(2024, 1, 1)}},
            {"m": None, "n": None},
            {"m": decimal.Decimal("9999.9"), "n": {"o": None}},
        ],
    ),
    (
        "v",
        "interval_day_time",
        pa.duration("us"),
        [
            dt.timedelta(days=1, microseconds=1),
            dt.timedelta(days=-(10**5)),
            dt.timedelta(days=10**5),
        ],
    ),
    ("w", "interval_year_month", pa.int32(), [14, -119999, 119999]),
]


#: Instants around clock changes, present or past, in the sessions' zones.
INSTANTS = [
    _at(2024, 3, 10, 6, 59, 59, 999000),  # New York: an hour is skipped at 07:00
    _at(2024, 3, 10, 7),
    _at(2024, 11, 3, 5, 30),  # New York: the first 01:30
    _at(2024, 11, 3, 6, 30),  # New York: the second 01:30
    _at(1986, 5, 3, 18),  # Shanghai had daylight-saving time
    _at(1969, 12, 31, 23, 59, 59, 999000),  # before the epoch, with a fraction
    _at(1900, 12, 31, 15, 54, 17),  # Shanghai: local mean time ends
    _at(1883, 11, 18, 16, 56, 2),  # New York: local mean time ends
    _at(1899, 12, 31, 23, 59, 59, 1000),
]
#: Local times, some of which do not exist or occur twice in New York or Shanghai.
WALLS = [
    dt.datetime(2024, 3, 10, 2, 30),
    dt.datetime(2024, 11, 3, 1, 30),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1883, 11, 18, 12, 0, 1),
    dt.datetime(1986, 5, 4, 2, 30),
]
DAYS = [at.date() for at in INSTANTS]
#: More values for the columns of these types.
MORE: dict[str, list[Any]] = {
    "datetime": INSTANTS,
    "timestamp": [*INSTANTS, _at(1969, 12, 31, 23, 59, 59, 999999)],
    "timestamp_ntz": WALLS,
    "date": DAYS,
    "float": [-0.0, float("nan"), 1.401298464324817e-45, 16777216.0],
    "double": [-0.0, float("nan"), 5e-324, 9007199254740993.0],
    "bigint": [0, -1, 2**53 + 1],
    "string": ["\ud7ff\U0010ffff", "x" * 10_000],
    "binary": [b"\xff" * 10_000],
    "decimal(38,18)": [decimal.Decimal("0.000000000000000001"), decimal.Decimal(0)],
    "interval_day_time": [dt.timedelta(microseconds=-1), dt.timedelta(0)],
    "interval_year_month": [0, -1],
}


def _at_night(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.nightly)


#: Ways to read, and session time zones. A rule that holds in a zone with an offset also holds in
#: UTC.
ROADS = [
    ("read", "America/New_York"),
    ("format", "Asia/Shanghai"),
    *(_at_night("read", zone) for zone in ("UTC", "Asia/Shanghai")),
    *(_at_night("format", zone) for zone in ("UTC", "America/New_York")),
]


def _matrix() -> pa.Table:
    columns = {name: [*values, *MORE.get(kind, [])] for name, kind, _, values in MATRIX}
    rows = 1 + max(map(len, columns.values()))  # the last row is null in every column
    return pa.table(
        {
            "row": pa.array(range(rows), pa.int64()),
            **{
                name: pa.array([*columns[name], *[None] * (rows - len(columns[name]))], kind)
                for name, _, kind, _ in MATRIX
            },
        }
    )


def _normal(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows by number, with times in whole microseconds and without zones (only labels)."""
    rows = sorted(table.to_pylist(), key=lambda row: row["row"])
    return [{name: _value(value) for name, value in row.items()} for row in rows]


def _value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        whole = value.replace(nanosecond=0) if hasattr(value, "nanosecond") else value
        naive = whole.astimezone(UTC).replace(tzinfo=None) if whole.tzinfo else whole
        return naive.isoformat(timespec="microseconds")
    if isinstance(value, dt.timedelta):
        return (value.days, value.seconds, value.microseconds)
    if isinstance(value, float):
        return repr(value)  # NaN does not equal NaN, and -0.0 equals 0.0
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, tuple):
        return tuple(_value(one) for one in value)
    if isinstance(value, dict):
        return {name: _value(one) for name, one in value.items()}
    return value


COLUMNS = ", ".join(f"{column} {kind}" for column, kind, _, _ in MATRIX)


@pytest.fixture(scope="module")
def whole(odps: Connection) -> str:
    """A table of every type, written by the plain client."""
    name = "matrix_of_types"
    odps.create_table(name, f"`row` bigint, {COLUMNS}")
    odps.table(name).write(_matrix())
    # The client reads the intended values, which the other tests use as the reference.
    assert _normal(odps.table(name).read(timestamp_unit="us").to_arrow()) == _normal(_matrix())
    return name


def _frame(road: str, spark: SparkSession, odps: Connection, name: str) -> DataFrame:
    if road == "read":
        return odps_nb.spark.read(spark, odps, name, splits=2)
    odps_nb.spark.register(spark, odps)
    return spark.read.format("odps").load(name)


@pytest.mark.gate(1)
@pytest.mark.spark
@pytest.mark.parametrize(("road", "zone"), ROADS)
def test_every_value_is_read_and_written_unchanged(
    spark: SparkSession, odps: Connection, new_name: Names, whole: str, road: str, zone: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    frame, copy = _frame(road, spark, odps, whole), new_name("matrix")
    assert _normal(to_arrow(frame)) == _normal(_matrix())
    odps.create_table(copy, f"`row` bigint, {COLUMNS}")
    if road == "read":
        assert odps_nb.spark.write(frame.repartition(2), odps, copy).rows == len(_matrix())
    else:
        frame.repartition(2).write.format("odps").mode("append").save(copy)
    truth = odps.table(whole).read(timestamp_unit="us").to_arrow()
    assert _normal(odps.table(copy).read(timestamp_unit="us").to_arrow()) == _normal(truth)


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", _at_night("Asia/Shanghai"), _at_night("UTC")])
def test_spark_prints_the_correct_instants_and_local_times(
    spark: SparkSession, odps: Connection, whole: str, zone: str
) -> None:
    """The values as Spark prints them, because two errors on a round trip could cancel out."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    frame = _frame("read", spark, odps, whole)
    told = frame.selectExpr(
        "`row`", "unix_micros(m) instant", "cast(o as string) wall", "cast(l as string) day"
    )
    expected = [
        (
            row["row"],
            row["m"] and (row["m"] - _at(1970, 1, 1)) // dt.timedelta(microseconds=1),
            row["o"] and row["o"].isoformat(" ").rstrip("0" if row["o"].microsecond else ""),
            row["l"] and row["l"].isoformat(),
        )
        for row in _matrix().to_pylist()
    ]
    assert sorted(tuple(row) for row in told.collect()) == expected


@pytest.mark.spark
@pytest.mark.parametrize("road", ["read", _at_night("format")])
def test_collected_rows_equal_the_arrow_rows(
    spark: SparkSession, odps: Connection, whole: str, road: str
) -> None:
    """collect() builds Python objects, which is a different path from Arrow's."""
    frame = _frame(road, spark, odps, whole).select("row", "l", "q", "s", "t").orderBy("row")
    expected = _matrix().select(["row", "l", "q"]).to_pylist()
    got = [row.asDict(recursive=True) for row in frame.collect()]
    assert [{k: row[k] for k in ("row", "l", "q")} for row in got] == expected
    assert got[0]["t"] == {"k": [b"v", None]}
