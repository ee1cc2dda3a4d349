"""Equivalents of each MaxCompute type in Arrow, Spark, DuckDB and filter conditions.

`TYPE_FACTS` has one entry per `TypeCode`. A field of an entry is empty if its value depends on the
type's element types, precision or unit; the package that needs the value then determines it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odps_nb.schema import TypeCode


class TypeFacts(NamedTuple):
    """Equivalents of one type; ``""`` or 0 if no equivalent fits all its values.

    Attributes
    ----------
    arrow
        Name of the Arrow type in reads and writes, for `pyarrow.type_for_alias`.
    width
        Bytes per value in Arrow; 0 if the length varies.
    kind
        Name of the `odps_nb.filters.tree.ValueKind` used in comparisons.
    spark
        Name of the class in `pyspark.sql.types`.
    duck
        Name of the type in DuckDB's SQL.
    partitions
        Whether partition columns may have this type.
    """

    arrow: str = ""
    width: int = 0
    kind: str = "OTHER"
    spark: str = ""
    duck: str = ""
    partitions: bool = False


_T = TypeCode
TYPE_FACTS: Final = {
    _T.TINYINT: TypeFacts("int8", 1, "INTEGER", "ByteType", "TINYINT", partitions=True),
    _T.SMALLINT: TypeFacts("int16", 2, "INTEGER", "ShortType", "SMALLINT", partitions=True),
    _T.INT: TypeFacts("int32", 4, "INTEGER", "IntegerType", "INTEGER", partitions=True),
    _T.BIGINT: TypeFacts("int64", 8, "INTEGER", "LongType", "BIGINT", partitions=True),
    _T.FLOAT: TypeFacts("float", 4, "FLOAT", "FloatType", "FLOAT"),
    _T.DOUBLE: TypeFacts("double", 8, "DOUBLE", "DoubleType", "DOUBLE"),
    _T.DECIMAL: TypeFacts("", 16, "DECIMAL"),
    _T.BOOLEAN: TypeFacts("bool", 1, "BOOLEAN", "BooleanType", "BOOLEAN"),
    _T.STRING: TypeFacts("string", 0, "TEXT", "StringType", "VARCHAR", partitions=True),
    _T.VARCHAR: TypeFacts("string", 0, "TEXT", "StringType", "VARCHAR", partitions=True),
    _T.CHAR: TypeFacts("string", 0, "CHAR", "StringType", "VARCHAR", partitions=True),
    _T.JSON: TypeFacts("string", 0, "OTHER", "StringType", "VARCHAR"),
    _T.BINARY: TypeFacts("binary", 0, "BYTES", "BinaryType", "BLOB"),
    _T.GEOGRAPHY: TypeFacts("binary", 0, "OTHER", "BinaryType", "BLOB"),
    _T.BLOB: TypeFacts("", 0, "OTHER", "StringType", "BLOB"),
    _T.DATE: TypeFacts("date32", 4, "DATE", "DateType", "DATE"),
    _T.DATETIME: TypeFacts("", 8, "INSTANT", "TimestampType", "TIMESTAMP_MS"),
    _T.TIMESTAMP: TypeFacts("", 8, "INSTANT", "TimestampType", "TIMESTAMP_NS"),
    _T.TIMESTAMP_NTZ: TypeFacts("", 8, "CLOCK", "TimestampNTZType", "TIMESTAMP_NS"),
    _T.INTERVAL_DAY_TIME: TypeFacts("", 8, "DURATION", "DayTimeIntervalType", "INTERVAL"),
    _T.INTERVAL_YEAR_MONTH: TypeFacts("int64", 8, "OTHER", "IntegerType", "BIGINT"),
    **dict.fromkeys((_T.ARRAY, _T.MAP, _T.STRUCT, _T.VECTOR), TypeFacts()),
    **dict.fromkeys((_T.VARIANT, _T.UNKNOWN), TypeFacts()),
}
