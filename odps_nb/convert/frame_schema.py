"""Chooses the MaxCompute type of each DataFrame column when a table is created for the DataFrame.

``docs/types-and-times.md`` lists the types. If a column contains paths, the files are not opened.
Arrow columns follow ``odps_nb.convert.arrow_types``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.types import BARE_DECIMAL
from odps_nb.convert.arrow_schema import column_type, refuse_repeated_names
from odps_nb.convert.arrow_types import odps_type
from odps_nb.convert.fitting.kinds import is_missing, is_plain_number, items_of, parts_of
from odps_nb.convert.fitting.leaf import kind_of
from odps_nb.convert.fitting.misfit import shorten
from odps_nb.convert.fitting.objects import problem_of
from odps_nb.convert.foreign import check_field
from odps_nb.convert.pandas_frame import check_names, column_array, dense
from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    OdpsType,
    PrimitiveType,
    StructField,
    StructType,
    TableSchema,
    TypeCode,
)


def frame_schema(frame: pd.DataFrame, is_blob: Callable[[Any], bool]) -> TableSchema:
    """Return the schema of a table that can store every value in a DataFrame."""
    check_names(frame)
    columns: list[Column] = []
    for position, name in enumerate(frame.columns):
        series = dense(frame.iloc[:, position])
        holds_blobs = series.dtype == object and any(map(is_blob, series))
        odps = PrimitiveType(TypeCode.BLOB) if holds_blobs else _type_of(series, name)
        columns.append(Column(name=name, type=odps))
    refuse_repeated_names([column.name for column in columns])
    return TableSchema(columns=tuple(columns))


def _type_of(series: pd.Series[Any], name: str) -> OdpsType:
    if series.dtype == object:
        return object_type(list(series), name)
    return column_type(column_array(series.iloc[:0], name).type, name)


def object_type(values: Sequence[Any], name: str) -> OdpsType:
    """Return the type for a column of Python objects; STRING if all are null, DOUBLE if NaN."""
    present = [value for value in values if not is_missing(value)]
    if not present:  # a NaN inside a list or a dict is a value that STRING cannot store
        has_nan = any(isinstance(value, (float, np.floating)) for value in values)
        return PrimitiveType(TypeCode.DOUBLE if has_nan else TypeCode.STRING)
    kinds = {value.type if isinstance(value, pa.Scalar) else None for value in present}
    if len(kinds) == 1 and None not in kinds:
        (kind,) = kinds
        check_field(pa.field(name, kind))
        return column_type(kind, name)
    if all(hasattr(value, "_asdict") for value in present):  # named tuples
        present = [value._asdict() for value in present]
    lists = [items_of(value) for value in present]
    if all(items is not None for items in lists):
        return ArrayType(_element_type(lists, f"{name}.element"))
    if all(isinstance(value, Mapping) for value in present):
        return _struct_type(present, name)
    parts, unknown = parts_of(present)
    if unknown:
        value = present[unknown[0]]
        is_nested = items_of(value) is not None or isinstance(value, Mapping)
        raise _mixed(present, name) if is_nested else _unknown(value, name)
    return _plain_type([array for _, array in parts], present, name)


def _element_type(lists: Sequence[Any], name: str) -> OdpsType:
    if all(isinstance(items, np.ndarray) and _is_plain(items.dtype) for items in lists):
        types = {odps_type(pa.from_numpy_dtype(items.dtype)) for items in lists if items.ndim == 1}
        if len(types) == 1:
            return types.pop()
    return object_type([value for items in lists for value in items], name)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether Arrow has an equivalent of the NumPy dtype."""
    return is_plain_number(dtype) or (
        dtype.kind in "mM" and np.datetime_data(dtype) in [(u, 1) for u in ("s", "ms", "us", "ns")]
    )


def _struct_type(present: Sequence[Mapping[Any, Any]], name: str) -> StructType:
    keys = list(dict.fromkeys(key for value in present for key in value))
    if not keys:
        raise ConversionError(
            f"the dicts of {name!r} are all empty, so their STRUCT would have no members",
            column=name,
            source_type="dict",
            hint="create the table first, e.g. with odps.create_table(…, 'c map<string,string>')",
        )
    if not_text := [key for key in keys if not isinstance(key, str)]:
        raise ConversionError(
            f"the key {shorten(not_text[0])} in {name!r} is not text, which a STRUCT requires",
            column=name,
            source_type=type(not_text[0]).__name__,
            hint="create the table first, with a MAP column",
        )
    spelled: dict[str, list[str]] = {}  # member names are case-insensitive
    for key in keys:
        spelled.setdefault(key.casefold(), []).append(key)
    members = []
    for ways in spelled.values():
        values = [
            next((mapping[key] for key in ways if key in mapping), None) for mapping in present
        ]
        members.append(StructField(ways[0], object_type(values, f"{name}.{ways[0]}")))
    return StructType(tuple(members))


def _plain_type(arrays: Sequence[pa.Array], present: Sequence[Any], name: str) -> OdpsType:
    kinds = {kind_of(array.type) for array in arrays}
    if kinds == {"date", "timestamp"}:
        return PrimitiveType(TypeCode.TIMESTAMP)
    if kinds == {"integer", "float"}:
        return PrimitiveType(TypeCode.DOUBLE)
    if "decimal" in kinds and kinds <= {"decimal", "integer"}:
        return _decimal_type(arrays)
    if len(kinds) > 1:
        raise _mixed(present, name)
    types = [odps_type(array.type) for array in arrays]
    order = [TypeCode.FLOAT, TypeCode.DOUBLE, TypeCode.DATETIME, TypeCode.TIMESTAMP]
    return max(
        types, key=lambda candidate: order.index(candidate.code) if candidate.code in order else 0
    )


def _decimal_type(arrays: Sequence[pa.Array]) -> DecimalType:
    """Return DECIMAL(38, 18) if all values fit it, otherwise a precision and scale that fit."""
    whole = scale = 0
    for array in arrays:
        if pt.is_integer(array.type):
            array = array.cast(pa.decimal128(20, 0))
        elif array.type.bit_width < 128:  # Arrow has no `min_max` of these
            array = array.cast(pa.decimal128(38, array.type.scale))
        ends = pc.min_max(array).as_py()  # `abs` would round to 28 digits
        most = max(ends["min"].copy_abs(), ends["max"].copy_abs())
        whole = max(whole, most.adjusted() + 1 if most else 0)
        scale = max(scale, array.type.scale)
    precision, usual = BARE_DECIMAL
    if scale <= usual and whole <= precision - usual:
        return DecimalType(precision, usual)
    return DecimalType(max(whole + scale, 1), scale)


def _mixed(present: Sequence[Any], name: str) -> ConversionError:
    shown = ", ".join(sorted({type(value).__name__ for value in present}))
    return ConversionError(
        f"the column {name!r} has values of several types: {shown}",
        column=name,
        source_type=shown,
        hint="convert them to one type, or create the table first",
    )


def _unknown(value: Any, name: str) -> ConversionError:
    kind = type(value).__name__
    reason, hint = problem_of(value)
    return ConversionError(
        f"the column {name!r} contains {shorten(value)} ({kind}), which has no MaxCompute type"
        + (f": {reason}" if reason else ""),
        column=name,
        source_type=kind,
        hint=hint,
    )
