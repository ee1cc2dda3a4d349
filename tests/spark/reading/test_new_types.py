"""GEOGRAPHY, VECTOR and wide DECIMAL columns in Spark."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import odps_nb.spark
from odps_nb.errors import ConversionError, OdpsNbWarning
from odps_nb.wire.type_text import format_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection


@pytest.mark.spark
def test_vectors_and_geography_are_written_and_read(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    """Evidence 154, 155: ArrayType(FloatType) and binary, read and written, with nulls."""
    table = odps.create_table(new_name("v"), "id bigint, g geography, v vector(float,2)")
    rows = {"id": [1, 2], "g": [b"\x01", None], "v": [[0.5, 1.0], None]}
    table.write(rows)
    frame = odps_nb.spark.read(spark, odps, str(table.name))
    assert frame.schema.simpleString() == "struct<id:bigint,g:binary,v:array<float>>"
    assert [tuple(row) for row in frame.orderBy("id").collect()] == [
        (1, bytearray(b"\x01"), [0.5, 1.0]),
        (2, None, None),
    ]
    copy = new_name("v2")
    odps_nb.spark.write(frame, odps, copy, create=True)
    assert [format_type(one.type) for one in odps.table(copy).schema] == [
        "bigint",
        "geography",
        "vector(float,2)",
    ]
    assert odps.table(copy).read().to_arrow().sort_by("id").to_pydict() == rows
    short = spark.createDataFrame([(3, [1.0])], "id bigint, v array<float>")
    with pytest.raises(ConversionError, match="it does not have 2 elements"):
        odps_nb.spark.write(short, odps, copy)


@pytest.mark.nightly
@pytest.mark.spark
def test_a_decimal_of_more_than_38_digits_is_omitted(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    """Evidence 174: with one warning; if a query names one, the error lists the columns to use."""
    table = odps.create_table(new_name("d"), "id bigint, d decimal(60,2), bare decimal(38,18)")
    table.write({"id": [1], "d": [Decimal("1.5")], "bare": [Decimal("0.25")]})
    with pytest.raises(
        ConversionError, match=r"'d': Spark, .* 38 decimal digits, has no type"
    ) as caught:
        odps_nb.spark.read(spark, odps, str(table.name), columns=["id", "d"])
    assert "columns=['id']" in str(caught.value.hint)
    everything = f"select * from {table.name}"
    for read in (
        lambda: odps_nb.spark.read(spark, odps, str(table.name)),
        lambda: table.read().to_spark(spark),
        lambda: odps.sql(everything).to_spark(spark),
        lambda: odps_nb.spark.sql(spark, odps, everything),
    ):
        with pytest.warns(OdpsNbWarning, match=r"d \(decimal\(60,2\)\)") as told:
            frame = read()
        assert len(told) == 1
        assert [tuple(row) for row in frame.collect()] == [(1, Decimal("0.25"))]
    odps_nb.spark.register(spark, odps)
    with pytest.warns(OdpsNbWarning, match=r"d \(decimal\(60,2\)\)"):
        (entry,) = odps_nb.spark.attach(spark, odps, str(table.name), database=new_name("types"))
    source = spark.read.format("odps").option("table", str(table.name)).load()
    for rows in (source, spark.table(entry), spark.sql(f"select * from {entry}")):
        assert [tuple(row) for row in rows.collect()] == [(1, Decimal("0.25"))]
        assert [row.id for row in rows.select("id").collect()] == [1]
    query = f"select id, bare from {table.name}"
    assert [tuple(row) for row in odps_nb.spark.sql(spark, odps, query).collect()] == [
        (1, Decimal("0.25"))
    ]
