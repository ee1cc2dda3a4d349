"""A rejected write gives advice, and the write succeeds if the advice is followed."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import ConversionError
from tests.support.named import NewName

Fix = Callable[[pd.Series], pd.Series]


def objects(*values: Any) -> pd.Series:
    return pd.Series(list(values), dtype=object)


ADVICE: list[tuple[str, pd.Series, str, Fix, list[Any]]] = [
    # the type, the rejected values, words of the advice, the code in the advice, the stored values
    ("bigint", pd.Series([1.5, 2.0]), "round it to a whole number", pd.Series.round, [2, 2]),
    ("tinyint", pd.Series([True]), 'astype("int64")', lambda s: s.astype("int64"), [1]),
    ("bigint", pd.Series(["7"]), "pd.to_numeric", pd.to_numeric, [7]),
    ("date", pd.Series(["2024-01-31"]), "pd.to_datetime", pd.to_datetime, [dt.date(2024, 1, 31)]),
    (
        "timestamp",
        pd.Series([86_400]),
        "pd.to_datetime, specifying its unit",
        lambda s: pd.to_datetime(s, unit="s"),
        [pd.Timestamp("1970-01-02")],
    ),
    (
        "interval_day_time",
        pd.Series([60]),
        "pd.to_timedelta, specifying its unit",
        lambda s: pd.to_timedelta(s, unit="s"),
        [pd.Timedelta(minutes=1)],
    ),
    (
        "decimal(10,2)",
        pd.Series([19.999]),
        "round it to 2 decimal places",
        lambda s: s.round(2),
        [Decimal("20.00")],
    ),
    ("double", objects(Decimal("0.5")), 'astype("float64")', lambda s: s.astype("float64"), [0.5]),
    (
        "double",
        pd.Series([2**53 + 1]),
        'astype("float64")',
        lambda s: s.astype("float64"),
        [float(2**53)],
    ),
    ("string", pd.Series([1, 2]), 'astype("str")', lambda s: s.astype("str"), ["1", "2"]),
    (
        "string",
        pd.Series(pd.to_datetime(["2024-01-31"])),
        '.dt.strftime("%Y%m%d")',
        lambda s: s.dt.strftime("%Y%m%d"),
        ["20240131"],
    ),
    ("string", objects({"a": 1}), "json.dumps", lambda s: s.map(json.dumps), ['{"a": 1}']),
    ("string", objects([1, 2]), "json.dumps", lambda s: s.map(json.dumps), ["[1, 2]"]),
    (
        "boolean",
        pd.Series([1, 0]),
        "column != 0",
        lambda s: s != 0,
        [True, False],
    ),
    (
        "date",
        pd.Series([pd.Timestamp("2024-01-31 10:00")]),
        ".dt.normalize()",
        lambda s: s.dt.normalize(),
        [dt.date(2024, 1, 31)],
    ),
    (
        "datetime",
        pd.Series([pd.Timestamp("2024-01-31 10:00:00.0001")]),
        '.dt.floor("ms")',
        lambda s: s.dt.floor("ms"),
        [dt.datetime(2024, 1, 31, 10)],
    ),
    (
        "timestamp_ntz",
        pd.Series([pd.Timestamp("2024-01-31 10:00", tz="Asia/Shanghai")]),
        ".dt.tz_localize(None)",
        lambda s: s.dt.tz_localize(None),
        [pd.Timestamp("2024-01-31 10:00")],
    ),
    (
        "interval_year_month",
        pd.Series(pd.to_timedelta(["61 days"])),
        "to a number of months",
        lambda s: s.dt.days // 30,
        [2],
    ),
    (
        "interval_day_time",
        objects(np.timedelta64(2500, "ps")),
        'astype("timedelta64[ns]")',
        lambda s: s.map(lambda value: value.astype("timedelta64[ns]")),
        [pd.Timedelta(2, "ns")],
    ),
    (
        "interval_day_time",
        duckdb.sql("select interval '1 day' as c").to_arrow_table()["c"],
        "in DuckDB with epoch_us(column), and then with pd.to_timedelta",
        lambda s: pd.to_timedelta(
            duckdb.sql("select epoch_us(interval '1 day')").df().iloc[:, 0], "us"
        ),
        [pd.Timedelta(1, "D")],
    ),
    (
        "bigint",
        pd.Series([pd.Timedelta(minutes=1)]),
        ".dt.total_seconds()",
        lambda s: s.dt.total_seconds(),
        [60],
    ),
]


@pytest.mark.parametrize(("kind", "refused", "advice", "fix", "stored"), ADVICE)
def test_a_refused_write_succeeds_as_its_hint_says(
    odps: Connection,
    new_name: NewName,
    kind: str,
    refused: pd.Series,
    advice: str,
    fix: Fix,
    stored: list[Any],
) -> None:
    table = odps.create_table(new_name("advice"), f"c {kind}")
    with pytest.raises(ConversionError) as caught:
        table.write({"c": refused})
    assert advice in caught.value.hint
    assert table.read().row_count == 0
    table.write(pd.DataFrame({"c": fix(refused)}))
    assert table.read().to_arrow()["c"].to_pylist() == stored


HALVES = pd.DatetimeIndex(
    ["2024-01-31 10:00:00.0005", "2024-01-31 10:00:00.0015", "2024-01-31 10:00:00.000501"]
)
ON_REQUEST: list[tuple[str, pd.Series, dict[str, Any], list[Any]]] = [
    (
        "decimal(10,2)",
        pd.Series([19.995, -2.675, 1e-9]),
        {"decimals": "round"},
        [Decimal("20.00"), Decimal("-2.68"), Decimal("0.00")],
    ),
    (
        "decimal(10,2)",
        objects(Decimal("19.995"), Decimal("-0.005"), None, 7),
        {"decimals": "round"},
        [Decimal("20.00"), Decimal("-0.01"), None, Decimal("7.00")],
    ),
    (
        "array<decimal(4,1)>",
        objects([0.25, None], np.array([0.05], "f4")),
        {"decimals": "round"},
        [[Decimal("0.3"), None], [Decimal("0.1")]],
    ),
    ("bigint", pd.Series(["7", " -8 ", None, "1e3"]), {"text": "parse"}, [7, -8, None, 1000]),
    ("double", pd.Series(["0.1", "1e-320", "-inf"]), {"text": "parse"}, [0.1, 1e-320, -np.inf]),
    (
        "decimal(10,2)",
        pd.Series(["1.005", "2"]),
        {"text": "parse", "decimals": "round"},
        [Decimal("1.01"), Decimal("2.00")],
    ),
    ("boolean", pd.Series(["true", "FALSE"]), {"text": "parse"}, [True, False]),
    ("date", pd.Series(["2024-01-31"]), {"text": "parse"}, [dt.date(2024, 1, 31)]),
    (
        "timestamp",
        pd.Series(["2024-01-31T10:00:00.123456789Z", "2024-01-31 18:00:00+08:00"]),
        {"text": "parse"},
        [pd.Timestamp("2024-01-31 10:00:00.123456789"), pd.Timestamp("2024-01-31 10:00")],
    ),
    ("struct<n:bigint>", objects({"n": "7"}), {"text": "parse"}, [{"n": 7}]),
    *(
        ("datetime", pd.Series(moments), {"times": "round"}, moments.round("ms").to_pydatetime())
        for moments in (HALVES, HALVES.as_unit("us"), HALVES - pd.Timedelta("50000D"))
    ),
    (
        "datetime",
        pd.Series(["2024-01-31 10:00:00.0006"]),
        {"text": "parse", "times": "round"},
        [dt.datetime(2024, 1, 31, 10, 0, 0, 1000)],
    ),
    (
        "array<datetime>",
        objects([pd.Timestamp("2024-01-31 10:00:00.0006"), None]),
        {"times": "round"},
        [[dt.datetime(2024, 1, 31, 10, 0, 0, 1000), None]],
    ),
]


@pytest.mark.parametrize(("kind", "values", "asked", "stored"), ON_REQUEST)
def test_values_are_converted_only_on_request(
    odps: Connection,
    new_name: NewName,
    kind: str,
    values: pd.Series,
    asked: dict[str, Any],
    stored: list[Any],
) -> None:
    table = odps.create_table(new_name("asked"), f"c {kind}")
    frame = pd.DataFrame({"c": values})
    with pytest.raises(ConversionError):
        table.write(frame)
    table.write(frame, **asked)
    assert table.read().to_arrow()["c"].to_pylist() == list(stored)
    with table.open_write(overwrite=True, **asked) as session:
        session.write(frame)
        session.commit()
    assert table.read().to_arrow()["c"].to_pylist() == list(stored)


NO_SUCH = [
    ("bigint", "1.5"),
    ("bigint", ""),
    ("bigint", "٣"),
    ("tinyint", "300"),
    ("double", "1e400"),
    ("decimal(4,2)", "0x1"),
    ("boolean", "yes"),
    ("date", "2024-02-30"),
    ("date", "2024-01-31 10:00:00"),
    ("timestamp", "31.01.2024"),
    ("timestamp", "2024-01-31 10:00:00.1234567891"),
]


@pytest.mark.parametrize(("kind", "text"), NO_SUCH)
def test_invalid_text_is_refused_by_parse(
    odps: Connection, new_name: NewName, kind: str, text: str
) -> None:
    table = odps.create_table(new_name("text"), f"c {kind}")
    with pytest.raises(ConversionError) as caught:
        table.write(pd.DataFrame({"c": [None, text]}), text="parse")
    assert caught.value.row == 1
    assert repr(text) in str(caught.value)
    assert table.read().row_count == 0
