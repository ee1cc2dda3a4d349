"""One order of arguments, equal options of all reads, and errors for misplaced arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import odps_nb.spark
from odps_nb.access.reading.planning import ReadOptions
from odps_nb.access.table import Table
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.spark.source.options import ReadSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark

Call = Callable[[Any, Any], object]
WRONG: dict[str, tuple[str, Call]] = {
    "a connection for a session": ("spark", lambda s, c: odps_nb.spark.read(c, s, "orders")),
    "a connection for a session of sql": (
        "spark",
        lambda s, c: odps_nb.spark.sql(c, s, "select 1"),
    ),
    "a session for a connection": ("odps", lambda s, _: odps_nb.spark.options(s)),
    "a session for a connection of read": (
        "odps",
        lambda s, _: odps_nb.spark.read(s, s, "orders"),
    ),
    "a connection for a query": ("query", lambda s, c: odps_nb.spark.sql(s, "select 1", c)),
    "a connection for a DataFrame": ("df", lambda s, c: odps_nb.spark.write(c, s.range(1), "t")),
    "a column for a DataFrame": (
        "df",
        lambda s, c: odps_nb.spark.write(s.range(1).id, c, "t"),  # type: ignore[arg-type]
    ),
    "a connection for a DataFrame with blobs": (
        "df",
        lambda s, c: odps_nb.spark.with_blobs(c, s.range(1), "content"),
    ),
    "a session for a DataFrame": ("df", lambda s, c: odps_nb.spark.write(s, c, "t")),
    "a connection for a master": ("master", lambda _, c: odps_nb.spark.session(c)),
}


def test_the_connection_is_the_second_argument_everywhere() -> None:
    for name in odps_nb.spark.__all__:
        function = getattr(odps_nb.spark, name)
        names = list(signature(function).parameters) if callable(function) else []
        if "odps" in names and len(names) > 1:
            assert names[0] in ("spark", "df"), name
            assert names[1] == "odps", name


def test_every_way_to_read_accepts_the_options_of_a_read() -> None:
    options = {one.name for one in dataclasses.fields(ReadOptions)}
    assert options <= set(signature(Table.read).parameters)
    of_spark = set(signature(odps_nb.spark.read).parameters)
    assert of_spark - {"spark", "odps", "table", "progress"} == options - {"timestamp_unit"}
    given = {"endpoint": "http://127.0.0.1", "access_id": "a", "access_key": "b"}
    given |= {"project": "p", "table": "t"}
    texts = {"changes": "true", "char_padding": "true", "limit": "3", "partitions": "ds=1"}
    for name in sorted(of_spark & options - {"params", "compression", "text"}):
        read = ReadSettings.of({**given, name: texts.get(name, "7")}).options
        assert getattr(read, name) != getattr(ReadOptions(), name), name


@pytest.mark.parametrize(("argument", "call"), WRONG.values(), ids=WRONG)
def test_an_error_names_an_argument_of_a_wrong_type(
    spark: SparkSession, odps: Connection, argument: str, call: Call
) -> None:
    with pytest.raises(ArgumentError, match=f"^{argument} is of type ") as caught:
        call(spark, odps)
    assert caught.value.argument == argument


DAY = "ds=2024-01-01"
REFUSED: dict[str, tuple[str, Call]] = {
    "a condition for a partition": (
        "a value of type Column is not a partition",
        lambda s, c: odps_nb.spark.read(s, c, "orders", partitions=F.col("ds") == "2024-01-01"),
    ),
    "a column for references": (
        "references is of type Column",
        lambda s, c: c.blobs(s.range(1).id),
    ),
    "a column for rows": (
        "a Column cannot be written",
        lambda s, c: c.table("orders").write(s.range(1).id, partition=DAY),
    ),
    "a table for a name": (
        "Table local.orders… is not a table name",
        lambda s, c: (table := c.table("orders")).schema and odps_nb.spark.read(s, c, table),
    ),
    "a table to attach": (
        "Table local.orders…? is not a table name",
        lambda s, c: odps_nb.spark.attach(s, c, c.table("orders")),
    ),
    "a number to attach": (
        "5 is not a table name",
        lambda s, c: odps_nb.spark.attach(s, c, 5),  # type: ignore[arg-type]
    ),
    "a negative limit of a query without tables": (
        "limit is -1; it must be at least 0",
        lambda s, c: odps_nb.spark.sql(s, c, "select 1", limit=-1),
    ),
    "a long limit of a query": (
        "limit is 2147483648; Spark accepts at most 2147483647",
        lambda s, c: odps_nb.spark.sql(s, c, "select 1", limit=2**31),
    ),
    "a long limit of a read with a condition": (
        "limit is 2147483648; Spark accepts at most 2147483647",
        lambda s, c: odps_nb.spark.read(s, c, "orders", where="quantity > 9", limit=2**31),
    ),
    "no partitions to write": (
        "max_partitions is 0; it must be at least 1",
        lambda s, c: odps_nb.spark.write(s.range(1), c, "orders", max_partitions=0),
    ),
}


@pytest.mark.parametrize(("told", "call"), REFUSED.values(), ids=REFUSED)
def test_an_unsuitable_argument_raises_an_error_of_one_line(
    spark: SparkSession, odps: Connection, told: str, call: Call
) -> None:
    with pytest.raises((ArgumentError, ConversionError), match=told) as caught:
        call(spark, odps)
    assert "\n" not in caught.value.message
    assert caught.value.hint
