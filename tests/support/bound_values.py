"""A table with a row for each of six values of a type, and equal values to bind."""

from __future__ import annotations

import array
import datetime as dt
import enum
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

__all__ = ["CASES", "COLUMNS", "LISTS", "NS", "REFUSED", "Case", "rows", "sampled"]

NS = 1_720_000_000_123_456_789  # 2024-07-03 09:46:40.123456789
_TIMES = [-1, 0, 1, NS - 1, NS, NS + 1]
COLUMNS = (
    "id bigint, d date, m datetime, ts timestamp, n timestamp_ntz, b binary, s string, "
    "i interval_day_time, dc decimal(38,18), f double, k bigint"
)


def rows() -> pa.Table:
    """Return the rows; the values of each column increase with ``id``."""
    days = [-1, 0, 1, 19907, 19908, 19909]
    return pa.table(
        {
            "id": pa.array(range(6), pa.int64()),
            "d": pa.array(days, pa.int32()).cast(pa.date32()),
            "m": pa.array(
                [time // 10**6 for time in (-1, 0, 10**6)] + [NS // 10**6 + n for n in (-1, 0, 1)],
                pa.timestamp("ms"),
            ),
            "ts": pa.array(_TIMES, pa.timestamp("ns")),
            "n": pa.array(_TIMES, pa.timestamp("ns")),
            "b": pa.array([b"", b"\0", b"a\\", b"b'", b"\xc3\xbc", b"\xff\xfe"]),
            "s": pa.array(["", "5", "\\x41", "a'b", "b\nc", "ü"]),
            "i": pa.array(
                [-1000, 0, 1000, 86_400 * 10**9, 10**14, 10**14 + 1000], pa.duration("ns")
            ),
            "dc": pa.array(
                [
                    Decimal("-1.5"),
                    Decimal(0),
                    Decimal("0.000000000000000001"),
                    Decimal("0.1"),
                    Decimal(7),
                    Decimal("12345678901234567890.123456789012345678"),
                ],
                pa.decimal128(38, 18),
            ),
            "f": pa.array([-0.5, 0.0, 5e-324, 0.1, 7.0, 1e300]),
            "k": pa.array([-(2**63) + 1, -1, 0, 7, 2**53 + 1, 2**63 - 1]),
        }
    )


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A value to bind that equals that of a row."""

    column: str
    row: int
    value: object
    finer_than_spark: bool = False
    """Whether it has digits below a microsecond."""

    def __str__(self) -> str:
        kind = type(self.value)
        return f"{self.column}{self.row}-{kind.__module__.split('.')[0]}.{kind.__name__}"

    def where(self, sign: str) -> tuple[str, list[int]]:
        """Return a condition with this operator, and the rows that satisfy it."""
        found = range(self.row, self.row + 1) if sign == "=" else range(self.row + 1, 6)
        return f"{self.column} {sign} :x", list(found)


def sampled(cases: list[Case], kind: Callable[[Case], object]) -> list[object]:
    """Return the cases as parameters; all but the first of each kind are nightly."""
    first = {kind(case): case for case in reversed(cases)}
    return [
        pytest.param(
            case,
            marks=[] if first[kind(case)] is case else [pytest.mark.nightly],
            id=str(case),
        )
        for case in cases
    ]


class Loud(str):
    """A str subclass whose own text differs from its value."""

    def __str__(self) -> str:
        return "' or 1=1 --"

    __repr__ = __str__


class LoudInt(int):
    """An int subclass whose own text differs from its value."""

    def __str__(self) -> str:
        return "0 or 1=1"

    __repr__ = __str__


class LoudFloat(float):
    """A float subclass whose own text differs from its value."""

    def __repr__(self) -> str:
        return "0 or 1=1"


class LoudDate(dt.date):
    """A date subclass whose own text differs from its value."""

    def isoformat(self) -> str:
        return "0' or 1=1"

    __str__ = isoformat


class LoudTime(dt.datetime):
    """A time subclass whose own text differs from its value."""

    def isoformat(self, *args: object, **more: object) -> str:
        return "0' or 1=1"

    __str__ = isoformat


class LoudDecimal(Decimal):
    """A decimal subclass whose own text differs from its value."""

    def __format__(self, *args: object) -> str:
        return "0 or 1=1"

    def __str__(self) -> str:
        return "0 or 1=1"


class Colour(enum.Enum):
    RED = "a'b"


class Level(enum.IntEnum):
    HIGH = 7


class Name(enum.StrEnum):
    FIRST = "5"


def _of(column: str, row: int, *values: object, finer: bool = False) -> Iterable[Case]:
    return (Case(column, row, value, finer) for value in values)


def _times(column: str) -> Iterable[Case]:
    yield from _of(
        *(column, 4, pd.Timestamp(NS), np.datetime64(NS, "ns"), np.array(NS, "M8[ns]")),
        *(pa.scalar(NS, pa.timestamp("ns")), pd.Series([pd.Timestamp(NS)])[0]),
        finer=True,
    )
    yield from _of(column, 0, pd.Timestamp(-1), np.datetime64(-1, "ns"), finer=True)
    finest = (np.datetime64(10**3, "ps"), np.datetime64(10**6, "fs"), np.datetime64(10**9, "as"))
    yield from _of(column, 2, *finest, finer=True)
    coarse = (np.datetime64(0, unit) for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us"))
    yield from _of(
        *(column, 1, dt.datetime(1970, 1, 1), LoudTime(1970, 1, 1), dt.date(1970, 1, 1), *coarse),
        *(pa.scalar(0, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pd.Timestamp("1970-01-01").as_unit("s"),
    )


CASES: list[Case] = [
    *_times("ts"),
    *_times("n"),
    *_of(
        *("m", 4, pd.Timestamp(NS // 10**6, unit="ms"), np.datetime64(NS // 10**6, "ms")),
        *(dt.datetime(2024, 7, 3, 9, 46, 40, 123000), pa.scalar(NS // 10**6, pa.timestamp("ms"))),
    ),
    *_of(
        *("d", 3, dt.date(2024, 7, 3), LoudDate(2024, 7, 3), dt.datetime(2024, 7, 3)),
        *(pd.Timestamp("2024-07-03"), np.datetime64("2024-07-03"), pa.scalar(dt.date(2024, 7, 3))),
        *(np.datetime64("2024-07-03T00:00", "ns"), pa.scalar(19907, pa.date32())),
    ),
    *_of(
        "b", 4, b"\xc3\xbc", bytearray(b"\xc3\xbc"), memoryview(b"\xc3\xbc"), pa.scalar(b"\xc3\xbc")
    ),
    *_of("b", 5, b"\xff\xfe", np.array([b"\xff\xfe"], object)[0]),
    *_of("b", 0, b""),
    *_of("s", 1, "5", Loud("5"), Name.FIRST, np.str_("5"), pa.scalar("5"), np.array("5")),
    *_of("s", 2, "\\x41"),
    *_of("s", 3, "a'b", Colour.RED, Loud("a'b"), pd.Series(["a'b"], dtype="category")[0]),
    *_of("s", 4, "b\nc", pa.scalar("b\nc", pa.large_string())),
    *_of(
        *("i", 4, pd.Timedelta(10**14), np.timedelta64(10**14, "ns"), dt.timedelta(seconds=10**5)),
        *(
            np.timedelta64(10**5, "s"),
            pa.scalar(10**14, pa.duration("ns")),
            np.timedelta64(10**8, "ms"),
        ),
    ),
    *_of("i", 0, pd.Timedelta(-1000), dt.timedelta(microseconds=-1), np.timedelta64(-1, "us")),
    *_of("i", 3, dt.timedelta(days=1), np.timedelta64(1, "D"), np.timedelta64(24, "h")),
    *_of("dc", 5, Decimal("12345678901234567890.123456789012345678")),
    *_of("dc", 3, Decimal("0.1"), Decimal("0.100000000000000000000000"), LoudDecimal("0.1")),
    *_of("dc", 2, Decimal("1E-18"), pa.scalar(Decimal("1E-18"))),
    *_of("dc", 4, Decimal(7), 7, np.int8(7), Level.HIGH),
    *_of("f", 3, 0.1, np.float64(0.1), LoudFloat(0.1), pa.scalar(0.1), np.array(0.1)),
    *_of("f", 5, 1e300),
    *_of("f", 2, 5e-324),
    *_of("k", 3, 7, LoudInt(7), np.int64(7), np.uint8(7), Level.HIGH, pa.scalar(7, pa.int8())),
    *_of("k", 4, 2**53 + 1, np.uint64(2**53 + 1)),
    *_of("k", 5, 2**63 - 1, pa.scalar(2**63 - 1, pa.uint64())),
    *_of("k", 0, -(2**63) + 1),
]

_AT = [pd.Timestamp(-1), pd.Timestamp(NS)]
_WORDS = ["5", "ü"]

LISTS: list[tuple[str, object]] = [
    *(
        ("ts", make)
        for make in (
            *(_AT, tuple(_AT), set(_AT), frozenset(_AT), deque(_AT), dict.fromkeys(_AT).keys()),
            *(pd.Series(_AT), pd.Index(_AT), pd.DatetimeIndex(_AT), pd.Series(_AT).unique()),
            *(np.array([-1, NS], "M8[ns]"), pd.array(_AT), pd.Series(_AT).astype("category")),
            *(
                pa.array([-1, NS], pa.timestamp("ns")),
                pa.chunked_array([[-1], [NS]], pa.timestamp("ns")),
            ),
            pl.Series(np.array([-1, NS], "M8[ns]")),
            pd.Series(_AT, dtype=pd.ArrowDtype(pa.timestamp("ns"))),
            [np.datetime64(-1, "ns"), pa.scalar(NS, pa.timestamp("ns"))],
            pa.scalar([-1, NS], pa.list_(pa.timestamp("ns"))),
        )
    ),
    *(
        ("s", make)
        for make in (
            *(_WORDS, pd.Series(_WORDS), pd.Series(_WORDS, dtype=object), pd.Index(_WORDS)),
            *(pd.Categorical(_WORDS), pa.array(_WORDS).dictionary_encode(), pl.Series(_WORDS)),
            *(pl.Series(_WORDS, dtype=pl.Categorical), np.array(_WORDS), np.array(_WORDS, object)),
            pd.array(_WORDS, dtype="string"),
        )
    ),
    *(
        ("k", make)
        for make in (
            *([-1, 7], range(-1, 8, 8), array.array("q", [-1, 7]), np.array([-1, 7], "i1")),
            *(pd.array([-1, 7], dtype="Int64"), pd.RangeIndex(-1, 8, 8), pl.Series([-1, 7])),
        )
    ),
    ("b", [b"\0", b"a\\"]),
    ("d", pd.date_range("1970-01-01", periods=2)),
    ("d", np.array(["1970-01-01", "1970-01-02"], "M8[D]")),
    ("i", pd.to_timedelta([0, 1000])),
    ("dc", pa.array([Decimal(0), Decimal(7)])),
]
"""Two values of a column to bind after ``in``."""


class _Addresses:
    """A column of another library, whose Arrow form holds the addresses of Python objects."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pl.Series([b"a"], dtype=pl.Object).__arrow_c_stream__(requested_schema)


_NOT_UTF8 = pa.array([b"\xff"]).view(pa.string())
REFUSED = [
    *(object(), {"a": 1}, 1j, Fraction(1, 2), dt.time(1), pd.Period("2024-01"), [[1]], []),
    *(10**5000, -(10**5000), Decimal("1e400"), Decimal("NaN"), float("nan"), float("inf")),
    *(np.datetime64(1, "as"), np.timedelta64(1, "fs"), np.timedelta64(1, "M")),
    *(np.datetime64(10**15, "s"), np.datetime64(20000, "Y"), np.datetime64(-(10**9), "D")),
    *("\ud800", pd.DataFrame({"a": [1]}), pa.table({"a": [1]}), pl.DataFrame({"a": [1]})),
    *(np.zeros((2, 2)), pd.MultiIndex.from_tuples([(1, 2)]), range(10_001)),
    *(pa.scalar({"a": 1}), pa.scalar(dt.time(1)), pd.Interval(0, 1), np.longdouble(1) / 3),
    *(pa.scalar(10**7, pa.date32()), pa.scalar(10**18, pa.date64()), _NOT_UTF8, _NOT_UTF8[0]),
    *(pa.scalar((1, 2, 3), pa.month_day_nano_interval()), np.array([(1, 2)], "i4,i4")[0]),
    *(pd.Series(_NOT_UTF8, dtype=pd.ArrowDtype(pa.string())), _Addresses()),
    pa.array(pd.period_range("2024-01", periods=1, freq="M")),
]
"""Values that SQL has no literal for."""
