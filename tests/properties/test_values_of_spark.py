"""Values of Spark DataFrames are stored unchanged, including intervals of years and months."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import odps_nb.spark
from odps_nb import Connection
from odps_nb.errors import ConversionError
from tests.support.named import NewName
from tests.support.values.columns import Drawn, check_stored
from tests.support.values.drawn import cells
from tests.support.values.rules import (
    DAY,
    FIRST,
    LAST,
    Day,
    Kind,
    Moment,
    Span,
    array,
    mapping,
    members,
)

_EPOCH = dt.datetime(1970, 1, 1)

#: Types of MaxCompute, and the Spark types with the same values.
SPARK: dict[Kind, str] = {
    Kind("tinyint"): "tinyint",
    Kind("bigint"): "decimal(19,0)",
    Kind("float"): "double",
    Kind("double"): "double",
    Kind("decimal"): "decimal(38,18)",
    Kind("decimal", (5, 2)): "decimal(38,30)",
    Kind("boolean"): "boolean",
    Kind("varchar", (3,)): "string",
    Kind("binary"): "binary",
    Kind("date"): "date",
    Kind("interval_day_time"): "interval day to second",
    array(Kind("decimal", (38, 0))): "array<decimal(38,0)>",
    mapping(Kind("string"), Kind("timestamp_ntz")): "map<string,timestamp_ntz>",
    members(("alpha", Kind("int")), ("beta_2", Kind("timestamp_ntz"))): (
        "struct<ALPHA:bigint,beta_2:timestamp_ntz>"
    ),
}


def holds(kind: Kind, value: Any) -> bool:
    """Return whether Spark can hold a value: in microseconds, in the range of Python's classes."""
    if isinstance(value, (list, tuple)):
        return all(holds(kind, one) for one in value)
    if isinstance(value, dict):
        return holds(kind, list(value.values()))
    if isinstance(value, (Moment, Day)):
        nanos = value.shown if isinstance(value, Moment) else value.days * DAY
        return nanos % 1000 == 0 and FIRST + DAY < nanos < LAST - DAY
    return not isinstance(value, Span) or value.nanos % 1000 == 0


def spark_cell(value: Any) -> Any:
    """Return the form of a value that PySpark accepts."""
    if isinstance(value, list):
        pairs = any(isinstance(one, tuple) for one in value)
        cells_ = [spark_cell(one) for one in value]
        return dict(cells_) if pairs or type(value).__name__ == "Pairs" else cells_
    if isinstance(value, tuple):
        return tuple(spark_cell(one) for one in value)
    if isinstance(value, dict):
        return {{"alpha": "ALPHA"}.get(k, k): spark_cell(one) for k, one in value.items()}
    if isinstance(value, Day):
        return _EPOCH.date() + dt.timedelta(days=value.days)
    if isinstance(value, Moment):
        return _EPOCH + dt.timedelta(microseconds=value.shown // 1000)
    return dt.timedelta(microseconds=value.nanos // 1000) if isinstance(value, Span) else value


@st.composite
def spark_columns(draw: st.DrawFn) -> dict[str, Drawn]:
    found = {}
    for number, kind in enumerate(SPARK):
        values = [draw(cells(kind).filter(lambda v, k=kind: holds(k, v))) for _ in range(4)]
        given_ = [spark_cell(one) for one in values]
        if kind.name == "bigint":
            given_ = [None if one is None else Decimal(one) for one in given_]
        found[f"c{number}"] = Drawn(kind, given_, False, values)
    return found


@pytest.mark.nightly
@pytest.mark.spark
def test_values_written_by_spark_are_read(
    spark_session: SparkSession, odps: Connection, new_name: NewName
) -> None:
    @settings(max_examples=2)
    @given(drawn=spark_columns())
    def written_and_read(drawn: dict[str, Drawn]) -> None:
        name = new_name("spark")
        texts = ", ".join(f"{one} {column.kind.text}" for one, column in drawn.items())
        odps.create_table(name, f"id bigint, {texts}")
        types = zip(drawn, SPARK.values(), strict=True)
        schema = ", ".join(["id bigint", *(f"{one} {kind}" for one, kind in types)])
        rows = zip(range(4), *(column.data for column in drawn.values()), strict=True)
        try:
            odps_nb.spark.write(spark_session.createDataFrame(list(rows), schema), odps, name)
            check_stored(odps.table(name), drawn)
        finally:
            odps.drop_table(name)

    written_and_read()


@pytest.mark.gate(2)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(
            "decimal(38,18)",
            "cast('123456789012345678901234567890.5' as decimal(38,1))",
            marks=pytest.mark.nightly,  # the next case tests this rule in an array
        ),
        ("array<decimal(38,18)>", "array(cast('1e37' as decimal(38,0)))"),
        pytest.param("array<bigint>", "array(1.5D)", marks=pytest.mark.nightly),  # as in a STRUCT
        ("struct<a:bigint>", "named_struct('a', 0.99D)"),
        ("timestamp", "1659099540588L"),
        ("bigint", "true"),
        ("date", "timestamp_ntz'2024-03-01 00:00:01'"),
    ],
)
def test_values_of_spark_that_do_not_fit_are_refused(
    spark_session: SparkSession, odps: Connection, new_name: NewName, kind: str, value: str
) -> None:
    table = odps.create_table(new_name("refused"), f"v {kind}")
    with pytest.raises(ConversionError):
        odps_nb.spark.write(spark_session.sql(f"select {value} as v"), odps, table.name)
    assert table.read().to_arrow().num_rows == 0


@pytest.mark.spark
def test_every_interval_of_months_is_written(
    spark_session: SparkSession, odps: Connection, new_name: NewName
) -> None:
    months = {
        "interval '3' month": 3,
        "interval '-2' year": -24,
        "interval '1-2' year to month": 14,
    }
    names = [f"c{number}" for number in range(len(months))]
    columns = ", ".join(f"{name} interval_year_month" for name in names)
    values = ", ".join(f"{text} as {name}" for text, name in zip(months, names, strict=True))
    table = odps.create_table(new_name("months"), columns)
    odps_nb.spark.write(spark_session.sql(f"select {values}"), odps, table.name)
    assert table.read().to_arrow().to_pylist() == [dict(zip(names, months.values(), strict=True))]
