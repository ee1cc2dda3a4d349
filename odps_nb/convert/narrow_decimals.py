"""Narrows DECIMAL columns for libraries limited to 38 digits (without pandas)."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.arrow.leaves import with_leaf_types
from odps_nb.errors import ConversionError

_MOST = 38
_FOR_TIMES = "pass timestamp_unit='us' to read(), for times before 1677 or after 2262"
_FOR_DIGITS = (
    "polars and DuckDB support at most 38 digits; use read().to_pandas() or to_arrow(), "
    "or select cast(column as string) in SQL"
)
_FOR_OTHERS = "use read().to_arrow(), which returns the column as sent"
_T = TypeVar("_T", pa.RecordBatch, pa.Table)


def narrow_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with every decimal, even nested, limited to 38 digits.

    polars panics on 256-bit decimals, and DuckDB rejects a table that contains them.
    """
    return pa.schema([field.with_type(_narrow(field.type)) for field in schema], schema.metadata)


def _narrow(kind: pa.DataType) -> pa.DataType:
    return with_leaf_types(kind, None, _narrow_leaf)


def _narrow_leaf(kind: pa.DataType, _: object) -> pa.DataType:
    return pa.decimal128(_MOST, min(kind.scale, _MOST)) if pt.is_decimal256(kind) else kind


def cast_columns(rows: _T, schema: pa.Schema) -> _T:
    """Cast rows to a schema's types; raise if a value would change."""
    target = pa.schema([schema.field(name) for name in rows.schema.names])
    if rows.schema.equals(target):
        return rows
    try:
        return rows.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _misfit(rows, target, str(error)) from error


def _misfit(rows: pa.RecordBatch | pa.Table, target: pa.Schema, reason: str) -> ConversionError:
    for column, field in zip(rows.columns, target, strict=True):
        try:
            column.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            narrowed = not column.type.equals(_narrow(column.type))
            is_time = "timestamp" in str(field.type)  # including nested ones
            return ConversionError(
                f"the column {field.name!r} does not fit {field.type}: {error}",
                column=field.name,
                source_type=str(column.type),
                target_type=str(field.type),
                hint=_FOR_DIGITS if narrowed else _FOR_TIMES if is_time else _FOR_OTHERS,
            )
    return ConversionError(f"the rows do not fit their columns: {reason}")
