"""The Arrow types of the MaxCompute types that have one, whatever the read."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from odps_nb.schema import TEXT, TypeCode

__all__ = ["ARROW_TYPES", "SECONDS_AND_NANOS"]

#: Those of times and DECIMAL depend on the unit and the digits, that of BLOB on the direction.
ARROW_TYPES: Final = {
    TypeCode.TINYINT: pa.int8(),
    TypeCode.SMALLINT: pa.int16(),
    TypeCode.INT: pa.int32(),
    TypeCode.BIGINT: pa.int64(),
    TypeCode.FLOAT: pa.float32(),
    TypeCode.DOUBLE: pa.float64(),
    TypeCode.BOOLEAN: pa.bool_(),
    **dict.fromkeys(TEXT, pa.string()),
    TypeCode.BINARY: pa.binary(),
    TypeCode.GEOGRAPHY: pa.binary(),
    TypeCode.DATE: pa.date32(),
    TypeCode.INTERVAL_YEAR_MONTH: pa.int64(),
}
#: The extended form of times and intervals.
SECONDS_AND_NANOS: Final = pa.struct([("sec", pa.int64()), ("nano", pa.int32())])
