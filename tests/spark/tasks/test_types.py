"""TableSchema <-> Spark StructType."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    LengthType,
    MapType,
    OdpsType,
    PrimitiveType,
    StructField,
    StructType,
    TableSchema,
    TypeCode,
    UnknownType,
    VectorType,
)
from odps_nb.spark.tasks.types import TYPE_KEY, spark_schema, spark_type, table_type
from odps_nb.spark.versions import arrow_schema, pyspark_version
from odps_nb.wire.type_text import format_type

SPARK_TEXT = {
    TypeCode.TINYINT: "tinyint",
    TypeCode.SMALLINT: "smallint",
    TypeCode.INT: "int",
    TypeCode.BIGINT: "bigint",
    TypeCode.FLOAT: "float",
    TypeCode.DOUBLE: "double",
    TypeCode.BOOLEAN: "boolean",
    TypeCode.STRING: "string",
    TypeCode.JSON: "string",
    TypeCode.BLOB: "string",
    TypeCode.BINARY: "binary",
    TypeCode.GEOGRAPHY: "binary",
    TypeCode.DATE: "date",
    TypeCode.DATETIME: "timestamp",
    TypeCode.TIMESTAMP: "timestamp",
    TypeCode.TIMESTAMP_NTZ: "timestamp_ntz",
    TypeCode.INTERVAL_DAY_TIME: "interval day to second",
    TypeCode.INTERVAL_YEAR_MONTH: "int",
}


@pytest.mark.parametrize("code", SPARK_TEXT)
def test_every_plain_type_has_its_spark_type(code: TypeCode) -> None:
    assert spark_type(PrimitiveType(code)).simpleString() == SPARK_TEXT[code]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DecimalType(), "decimal(38,18)"),
        (DecimalType(10, 2), "decimal(10,2)"),
        (DecimalType(38, 38), "decimal(38,38)"),
        (VectorType(PrimitiveType(TypeCode.FLOAT), 3), "array<float>"),
        (LengthType(TypeCode.CHAR, 3), "string"),
        (LengthType(TypeCode.VARCHAR, 3), "string"),
        (
            ArrayType(StructType((StructField("F", PrimitiveType(TypeCode.BLOB)),))),
            "array<struct<F:string>>",
        ),
        (
            MapType(PrimitiveType(TypeCode.STRING), PrimitiveType(TypeCode.DATETIME)),
            "map<string,timestamp>",
        ),
    ],
)
def test_types_with_parameters_have_their_spark_type(kind: OdpsType, text: str) -> None:
    assert spark_type(kind).simpleString() == text


@pytest.mark.parametrize(
    "kind", [DecimalType(39, 0), PrimitiveType(TypeCode.VARIANT), UnknownType("foo(3)")]
)
def test_values_that_spark_does_not_support_are_refused_by_column(kind: OdpsType) -> None:
    """Evidence 154, 155, 174: the error names column, type and the columns to use instead."""
    columns = (
        Column(name="c", type=ArrayType(kind)),
        Column(name="id", type=PrimitiveType(TypeCode.BIGINT)),
        Column(name="d", type=kind),
    )
    text = format_type(kind)
    with pytest.raises(ConversionError, match=f"column 'c': Spark.* {re.escape(text)}") as caught:
        spark_schema(TableSchema(columns=columns))
    assert (caught.value.column, caught.value.source_type) == ("c", text)
    assert str(caught.value.hint).startswith("select the other columns with columns=['id'], or ")


def test_comments_nullability_and_maxcompute_types_are_kept_in_metadata() -> None:
    schema = TableSchema(
        columns=(
            Column(name="a", type=PrimitiveType(TypeCode.BIGINT), nullable=False, comment="key"),
            Column(name="b", type=LengthType(TypeCode.CHAR, 3)),
        ),
        partition_columns=(Column(name="ds", type=PrimitiveType(TypeCode.STRING)),),
    )
    out = spark_schema(schema)
    assert out.names == ["a", "b", "ds"]
    assert (out["a"].nullable, out["a"].metadata) == (False, {"comment": "key"})
    assert (out["b"].nullable, out["b"].metadata) == (True, {TYPE_KEY: "char(3)"})


def test_arrow_for_spark_has_microseconds_in_utc_and_timestamp_ntz_without_a_zone() -> None:
    schema = spark.StructType(
        [
            spark.StructField("t", spark.TimestampType()),
            spark.StructField("n", spark.TimestampNTZType()),
        ]
    )
    assert arrow_schema(schema).types == [pa.timestamp("us", tz="UTC"), pa.timestamp("us")]


def test_a_spark_schema_is_unchanged_by_a_round_trip_through_a_table() -> None:
    element = spark.StructType(
        [
            spark.StructField("x", spark.IntegerType()),
            spark.StructField("y", spark.MapType(spark.StringType(), spark.DecimalType(38, 18))),
        ]
    )
    kinds = [
        spark.ByteType(),
        spark.ShortType(),
        spark.IntegerType(),
        spark.LongType(),
        spark.FloatType(),
        spark.DoubleType(),
        spark.BooleanType(),
        spark.StringType(),
        spark.BinaryType(),
        spark.DateType(),
        spark.TimestampType(),
        spark.TimestampNTZType(),
        spark.DecimalType(10, 2),
        spark.DayTimeIntervalType(),
        spark.ArrayType(element),
    ]
    columns = [Column(name=f"c{n}", type=table_type(kind)) for n, kind in enumerate(kinds)]
    schema = spark.StructType([spark.StructField(f"c{n}", kind) for n, kind in enumerate(kinds)])
    assert spark_schema(columns).simpleString() == schema.simpleString()


NOT_STORED = ("VariantType", "CalendarIntervalType")  # PySpark 3.5 has no VariantType


@pytest.mark.parametrize(
    "kind", [getattr(spark, name)() for name in NOT_STORED if hasattr(spark, name)]
)
def test_a_spark_type_without_a_column_type_is_refused(kind: spark.DataType) -> None:
    with pytest.raises(ConversionError, match="column 'v'") as caught:
        table_type(kind, column="v")
    assert caught.value.source_type == kind.simpleString()


def test_a_collation_is_refused_at_any_depth() -> None:
    if pyspark_version() < (4, 0):
        return  # strings of 3.5 have no collation
    kind = spark.ArrayType(spark.StringType("UNICODE_CI"))
    with pytest.raises(ConversionError, match="no type for Spark's string collate UNICODE_CI"):
        table_type(kind, column="v")
    assert table_type(spark.StringType()) == PrimitiveType(TypeCode.STRING)
