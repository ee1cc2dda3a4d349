"""Arrow batches to a pandas DataFrame and back (floor 2, pure; the only ``import pandas``).

What a read gives, by MaxCompute type. The rule is: never lose a value and never change its kind
silently, and use the dtype that people expect where that is possible.

====================================  =====================================================
type                                  pandas dtype
====================================  =====================================================
TINYINT … BIGINT, months, BOOLEAN     ``int8`` … ``int64``, ``bool``; where the result has
                                      nulls: ``Int8`` … ``Int64``, ``boolean`` (never float)
FLOAT, DOUBLE                         ``float32``, ``float64``; null and NaN are both NaN
STRING, CHAR, VARCHAR, JSON, BLOB     pandas' own text dtype (``str``; ``object`` in pandas 2)
BINARY                                ``object`` with ``bytes`` and ``None``
DECIMAL                               Arrow-backed ``decimal128``/``decimal256``: exact
DATE                                  ``datetime64[ms]``, which holds the years 1 to 9999
DATETIME, TIMESTAMP, TIMESTAMP_NTZ    ``datetime64`` in the unit that arrived (ms, ns)
INTERVAL_DAY_TIME                     ``timedelta64[ns]``
ARRAY, MAP, STRUCT                    Arrow-backed: nulls and integers inside stay what they are
====================================  =====================================================

A write takes the same dtypes and everything else that Arrow understands; what fits is decided in
`odps_nb.convert.fit`. The index is not written.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as pt

from odps_nb.convert.arrow_schema import fit_table, shorten
from odps_nb.convert.arrow_types import decimal_size
from odps_nb.convert.fit import ValueMisfit
from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    DecimalType,
    MapType,
    OdpsType,
    StructType,
    TableSchema,
    TypeCode,
)
from odps_nb.wire.type_text import format_type

__all__ = ["from_pandas", "to_pandas"]

_NULLABLE: dict[pa.DataType, Any] = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


# -- to pandas --------------------------------------------------------------------------------


def to_pandas(
    data: pa.Table | Iterable[pa.RecordBatch], *, schema: pa.Schema | None = None
) -> pd.DataFrame:
    """Return a DataFrame with the dtypes of the table at the top of this module.

    Parameters
    ----------
    data
        A table, or batches. Batches are freed while they are converted, so that the peak stays
        near twice the Arrow size; a table stays usable and is left as it is.
    schema
        Needed for batches: an empty result has columns too.
    """
    if isinstance(data, pa.Table):
        return _frame(data, consume=False)
    table = pa.Table.from_batches(data, schema=schema)
    columns, names = table.columns, table.column_names
    del data, table
    return _assemble(columns, names)


def _frame(table: pa.Table, *, consume: bool) -> pd.DataFrame:
    return _assemble(table.columns, table.column_names, consume=consume)


def _assemble(
    columns: list[pa.ChunkedArray], names: list[str], *, consume: bool = True
) -> pd.DataFrame:
    rows = len(columns[0]) if columns else 0
    series: dict[int, pd.Series[Any]] = {}
    for place in range(len(columns)):
        series[place] = _series(columns[place])
        if consume:
            columns[place] = None
    frame = pd.DataFrame(series, copy=False, index=pd.RangeIndex(rows))
    frame.columns = pd.Index(names)
    return frame


def _series(column: pa.ChunkedArray) -> pd.Series[Any]:
    mapper: Callable[[pa.DataType], Any] | None = None
    if column.null_count and column.type in _NULLABLE:
        mapper = _NULLABLE.get
    elif pt.is_decimal(column.type) or pt.is_nested(column.type):
        mapper = pd.ArrowDtype
    series: pd.Series[Any] = column.to_pandas(types_mapper=mapper, date_as_object=False)
    values = series.to_numpy() if isinstance(series.dtype, np.dtype) else None
    if values is not None and not values.flags.writeable:
        return series.copy()  # a view of Arrow memory would refuse ``df.loc[…] = …``
    return series


# -- from pandas ------------------------------------------------------------------------------


def from_pandas(frame: pd.DataFrame, schema: TableSchema | None = None) -> pa.Table:
    """Return the columns of a DataFrame as Arrow, NaN and NA as nulls; the index is left out.

    Parameters
    ----------
    frame
        Text as column names.
    schema
        The table to be written: the result then has exactly its columns and write types.

    Raises
    ------
    ConversionError
        Names, types or values that do not fit, with columns and rows (counted from 0).
    """
    _check_names(frame, schema)
    arrays = []
    for place, name in enumerate(frame.columns):
        column = schema.find(name) if schema is not None else None
        target = column.type if column is not None else None
        arrays.append(_array(frame.iloc[:, place], str(name), target))
    table = pa.table(arrays, names=[str(name) for name in frame.columns])
    return table if schema is None else fit_table(table, schema)


def _check_names(frame: pd.DataFrame, schema: TableSchema | None) -> None:
    for name in frame.columns:
        if not isinstance(name, str):
            raise ConversionError(
                f"the column name {name!r} is not text",
                column=str(name),
                hint="set df.columns to the names of the table's columns",
            )
    if schema is None:
        return
    present = {name.casefold() for name in frame.columns}
    for level in frame.index.names:
        if isinstance(level, str) and schema.find(level) and level.casefold() not in present:
            raise ConversionError(
                f"the column {level!r} is in the index, and the index is not written",
                column=level,
                hint="write df.reset_index()",
            )


def _array(series: pd.Series[Any], name: str, target: OdpsType | None) -> pa.Array:
    if isinstance(series.dtype, pd.SparseDtype):
        series = pd.Series(np.asarray(series))
    if series.dtype == object and target is not None:
        return _from_objects(series, name, target)
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConversionError(
            f"the column {name!r} ({series.dtype}) has no Arrow form: {error}",
            column=name,
            source_type=str(series.dtype),
            target_type=format_type(target) if target is not None else None,
            hint="cast the column, e.g. with df.astype",
        ) from None


_TEMPORAL = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
_FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError, ValueMisfit)


def _from_objects(series: pd.Series[Any], name: str, target: OdpsType) -> pa.Array:
    """Make an array of Python objects; the target decides where Arrow's own guess would lose."""
    values = list(series)
    for convert in _conversions(target, values):
        try:
            return convert(values)
        except _FAILURES:
            continue
    final = list(_conversions(target, values))[-1]
    row, reason = _first_failure(values, final)
    value = values[row]
    raise ConversionError(
        f"the data does not fit the table: {name}[{row}] = {shorten(value)} "
        f"({type(value).__name__} → {format_type(target)}): {reason}",
        column=name,
        source_type=type(value).__name__,
        target_type=format_type(target),
        row=row,
        hint="cast the column before writing; nothing was written",
    )


def _conversions(target: OdpsType, values: list[Any]) -> Iterator[Callable[[list[Any]], pa.Array]]:
    """Ways to make the array, best first; the last one finds the row to blame."""
    if isinstance(target, (ArrayType, MapType, StructType)):
        yield _typed(target, "ns")
        yield _typed(target, "us")
    elif target.code not in _TEMPORAL:
        yield _guessed
        yield _typed(target, "ns")
    elif any(getattr(value, "tzinfo", None) is not None for value in values):
        yield _guessed  # only a guessed type keeps the zone
    else:
        # Arrow guesses microseconds for pandas' nanoseconds, and dates where dates come first.
        yield lambda rows: pa.array(_moments(rows), pa.timestamp("ns"), from_pandas=True)
        yield lambda rows: pa.array(_moments(rows), pa.timestamp("us"), from_pandas=True)


def _guessed(values: list[Any]) -> pa.Array:
    return pa.array(values, from_pandas=True)


def _moments(values: list[Any]) -> list[Any]:
    midnight = datetime.time()
    return [
        datetime.datetime.combine(value, midnight) if type(value) is datetime.date else value
        for value in values
    ]


def _typed(target: OdpsType, unit: str) -> Callable[[list[Any]], pa.Array]:
    wide = _wide(target, unit)

    def convert(values: list[Any]) -> pa.Array:
        for value in values:
            _check_inside(value, target)
        return pa.array(values, wide, from_pandas=True)

    return convert


def _first_failure(values: list[Any], convert: Callable[[list[Any]], pa.Array]) -> tuple[int, str]:
    for row, value in enumerate(values):
        try:
            convert([value])
        except _FAILURES as error:
            return row, str(error).splitlines()[0]
    return 0, "the values have different kinds"


_WIDE: Mapping[TypeCode, pa.DataType] = {
    TypeCode.TINYINT: pa.int64(),
    TypeCode.SMALLINT: pa.int64(),
    TypeCode.INT: pa.int64(),
    TypeCode.BIGINT: pa.int64(),
    TypeCode.INTERVAL_YEAR_MONTH: pa.int64(),
    TypeCode.INTERVAL_DAY_TIME: pa.duration("ns"),
    TypeCode.FLOAT: pa.float64(),
    TypeCode.DOUBLE: pa.float64(),
    TypeCode.BOOLEAN: pa.bool_(),
    TypeCode.DATE: pa.date32(),
    TypeCode.BINARY: pa.binary(),
    TypeCode.BLOB: pa.binary(),
}


def _wide(target: OdpsType, unit: str) -> pa.DataType:
    """Return a type that takes Python objects without losing anything; fitting comes after."""
    if isinstance(target, ArrayType):
        return pa.list_(_wide(target.element, unit))
    if isinstance(target, MapType):
        return pa.map_(_wide(target.key, unit), _wide(target.value, unit))
    if isinstance(target, StructType):
        return pa.struct([(member.name, _wide(member.type, unit)) for member in target.fields])
    if isinstance(target, DecimalType):
        return pa.decimal256(76, max(38, decimal_size(target)[1]))
    if target.code in _TEMPORAL and target.code is not TypeCode.DATE:
        return pa.timestamp(unit)
    return _WIDE.get(target.code, pa.string())


def _check_inside(value: Any, target: OdpsType) -> None:
    """Refuse what Arrow would drop in silence: unknown STRUCT members, times in a DATE."""
    if value is None:
        return
    if isinstance(target, StructType) and isinstance(value, dict):
        known = {member.name: member.type for member in target.fields}
        for key, inner in value.items():
            if key not in known:
                raise ValueMisfit(f"the STRUCT has no member {key!r}")
            _check_inside(inner, known[key])
    elif isinstance(target, ArrayType) and isinstance(value, (list, tuple, np.ndarray)):
        for inner in value:
            _check_inside(inner, target.element)
    elif isinstance(target, MapType):
        pairs = value.items() if isinstance(value, dict) else value
        for key, inner in pairs:
            _check_inside(key, target.key)
            _check_inside(inner, target.value)
    elif (
        target.code is TypeCode.DATE
        and isinstance(value, datetime.datetime)
        and value.time() != datetime.time()
    ):
        raise ValueMisfit("the time of day is not midnight")
