"""Converts between TableSchema and Spark StructType; see ``docs/types-and-times.md``.

INTERVAL_YEAR_MONTH becomes a number of months: Spark cannot send year-month intervals to Python.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import types as spark

from odps_nb.convert.warning import columns_with_types
from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    MapType,
    OdpsType,
    PrimitiveType,
    StructField,
    StructType,
    TypeCode,
    VectorType,
)
from odps_nb.spark.versions import arrow_schema
from odps_nb.type_facts import TYPE_FACTS
from odps_nb.wire.type_text import format_type

#: Metadata key for the MaxCompute type of a column, if Spark's type is less precise.
TYPE_KEY = "odps.type"

_BARE_DECIMAL = (38, 18)
_BINARY = "UTF8_BINARY"  # Spark's default collation, the only one that tables have

_TABLE: dict[type[spark.DataType], TypeCode] = {
    # if several types map to one Spark type, use the first
    **{getattr(spark, one.spark): c for c, one in reversed(TYPE_FACTS.items()) if one.spark},
    spark.TimestampType: TypeCode.TIMESTAMP,
    spark.YearMonthIntervalType: TypeCode.INTERVAL_YEAR_MONTH,
    # NullType is the type of a pandas column without values
    **dict.fromkeys((spark.CharType, spark.VarcharType, spark.NullType), TypeCode.STRING),
}
# MaxCompute types that a column's Spark type alone does not identify.
_TOLD_BY_METADATA = {TypeCode.VECTOR} | {
    code
    for code, one in TYPE_FACTS.items()
    if one.spark and _TABLE[getattr(spark, one.spark)] is not code
}


def spark_type(kind: OdpsType, *, column: str = "") -> spark.DataType:
    """Return the Spark type of a MaxCompute type."""
    if isinstance(kind, DecimalType):
        precision, scale = _BARE_DECIMAL if kind.precision is None else (kind.precision, kind.scale)
        if precision > 38:
            raise _no_spark_type(kind, column, "which supports at most 38 decimal digits")
        return spark.DecimalType(precision, scale or 0)
    if isinstance(kind, (ArrayType, VectorType)):
        return spark.ArrayType(spark_type(kind.element, column=column))
    if isinstance(kind, MapType):
        return spark.MapType(
            spark_type(kind.key, column=column), spark_type(kind.value, column=column)
        )
    if isinstance(kind, StructType):
        return spark.StructType(
            [spark.StructField(f.name, spark_type(f.type, column=column)) for f in kind.fields]
        )
    if found := TYPE_FACTS[kind.code].spark:
        made: spark.DataType = getattr(spark, found)()
        return made
    raise _no_spark_type(kind, column)


def columns_for_spark(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns that Spark has a type for; issue one warning that names the others."""

    def has_type(kind: OdpsType) -> bool:
        try:
            spark_type(kind)
        except ConversionError:
            return False
        return True

    return columns_with_types(columns, has_type, "Spark")


def spark_schema(columns: Iterable[Column]) -> spark.StructType:
    """Return the Spark schema of columns; metadata includes comments and types that Spark lacks."""
    fields: list[spark.StructField] = []
    problem: ConversionError | None = None
    for column in columns:
        metadata = {"comment": column.comment} if column.comment else {}
        if column.type.code in _TOLD_BY_METADATA:
            metadata[TYPE_KEY] = format_type(column.type)
        try:
            kind = spark_type(column.type, column=column.name)
            fields.append(spark.StructField(column.name, kind, column.nullable, metadata))
        except ConversionError as error:
            problem = problem or error
    if problem is not None:
        if fields:
            names = [field.name for field in fields]
            problem.hint = f"select the other columns with columns={names}, or {problem.hint}"
        raise problem
    return spark.StructType(fields)


def require_sent(field: spark.StructField, hint: str) -> None:
    """Raise an error with this hint if Spark cannot send a column to Python workers."""
    try:
        arrow_schema(spark.StructType([field]))
    except (TypeError, ValueError):  # INTERVAL, or a list of the null type, such as `array()`
        kind = field.dataType.simpleString()
        raise ConversionError(
            f"column {field.name!r}: Spark cannot send {kind} to Python workers",
            column=field.name,
            source_type=kind,
            hint=hint,
        ) from None


def table_type(kind: spark.DataType, *, column: str = "") -> OdpsType:
    """Return the MaxCompute type that stores values of a Spark type without loss."""
    if isinstance(kind, spark.DecimalType):
        return DecimalType(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        return ArrayType(table_type(kind.elementType, column=column))
    if isinstance(kind, spark.MapType):
        return MapType(
            table_type(kind.keyType, column=column), table_type(kind.valueType, column=column)
        )
    if isinstance(kind, spark.StructType):
        return StructType(
            tuple(StructField(f.name, table_type(f.dataType, column=column)) for f in kind.fields)
        )
    code = _TABLE.get(type(kind))
    collated = getattr(kind, "collation", _BINARY) != _BINARY
    if code is None or collated:
        raise ConversionError(
            f"column {column!r}: MaxCompute has no type for Spark's {kind.simpleString()}",
            column=column or None,
            source_type=kind.simpleString(),
            hint="cast the column to string; tables have no collations"
            if collated
            else "cast the column, or drop it",
        )
    return PrimitiveType(code)


def _no_spark_type(kind: OdpsType, column: str, reason: str = "") -> ConversionError:
    text = format_type(kind)
    where = f"column {column!r}: " if column else ""
    return ConversionError(
        f"{where}Spark{f', {reason},' if reason else ''} has no type for {text}",
        column=column or None,
        source_type=text,
        hint="cast it to text with SQL",
    )
