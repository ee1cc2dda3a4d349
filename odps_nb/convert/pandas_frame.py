"""Converts Arrow batches to a pandas DataFrame and back.

No value is lost, and no type changes silently; ``docs/types-and-times.md`` lists the dtypes of a
read. For a write, these dtypes and all others that Arrow can convert are accepted, and the index is
dropped; with ``index=True``, its levels were converted to columns before. `odps_nb.convert.fitting`
checks the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionDtype
from pandas.api.types import infer_dtype, pandas_dtype

from odps_nb.convert.arrow_schema import fit_chunks, fit_columns, fit_pieces
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.convert.fitting.misfit import shorten
from odps_nb.convert.fitting.objects import fit_objects
from odps_nb.convert.foreign import check_field, from_geometry
from odps_nb.convert.frame_columns import frame_column
from odps_nb.convert.frame_options import FrameOptions
from odps_nb.errors import ArgumentError, ConversionError, a_type, shown
from odps_nb.schema import Column, OdpsType, TableSchema
from odps_nb.wire.type_text import format_type

# -- to pandas --------------------------------------------------------------------------------


def to_pandas(
    data: pa.Table | Iterable[pa.RecordBatch],
    *,
    schema: pa.Schema | None = None,
    rows: int | None = None,
    options: FrameOptions | None = None,
    blobs: Mapping[str, ExtensionDtype] | None = None,
) -> pd.DataFrame:
    """Return a DataFrame with the dtypes of ``docs/types-and-times.md``.

    ``data``: a table, which is not changed, or an iterable of batches. Each batch is converted on
    arrival and then released, so memory use stays close to the DataFrame's size. The DataFrame
    shares no memory with the batches. ``schema``: required for batches, since even an empty result
    has columns. ``rows``: total number of rows, if known; avoids a second copy of the values.
    ``options``: dtypes other than the defaults. ``blobs``: the dtype of each blob reference column
    (`odps_nb.convert.blob_columns.blob_array.BlobDtype`); if ``None``, references are text.
    """
    if isinstance(data, pa.Table):
        schema, rows, batches = data.schema, data.num_rows, iter(data.to_batches())
    else:
        batches = iter(data)
        if schema is None:
            raise TypeError("pass the schema of the batches")
    options, blobs = options or FrameOptions(), blobs or {}
    dtypes = by_column(options.dtypes, schema.names)
    exact = replace(options, decimals="exact")  # casts to other dtypes need exact values
    columns = [
        frame_column(
            field.type, rows, exact if field.name in dtypes else options, blobs.get(field.name)
        )
        for field in schema
    ]
    count = 0
    for batch in batches:
        count += batch.num_rows
        for growing, part in zip(columns, batch.columns, strict=True):
            growing.add(part)
    series: dict[int, pd.Series[Any]] = {}
    columns.reverse()
    for name in schema.names:
        column = columns.pop().series()  # frees the builder
        if name in dtypes:
            column = cast_exactly(column, name, dtypes[name])
        series[len(series)] = column
    frame = pd.DataFrame(series, copy=False, index=pd.RangeIndex(count))
    frame.columns = pd.Index(schema.names)
    return frame


# -- from pandas ------------------------------------------------------------------------------


def from_pandas(
    frame: pd.DataFrame,
    schema: TableSchema | None = None,
    *,
    conversions: Conversions = AS_THEY_ARE,
    first_row: int = 0,
) -> pa.Table:
    """Convert a DataFrame to Arrow, with NaN and NA as nulls and without the index."""
    check_names(frame)
    if schema is None:
        arrays = [column_array(frame.iloc[:, n], str(c)) for n, c in enumerate(frame.columns)]
        return pa.table(arrays, names=[str(name) for name in frame.columns])

    def source(position: int, column: Column) -> list[pa.Array]:
        series = dense(frame.iloc[:, position])
        if series.dtype == object:
            return fit_pieces([list(series)], column.type, conversions, fit_objects)
        array = column_array(series, column.name, column.type)
        return fit_chunks(array, column.type, conversions)

    return fit_columns(source, list(frame.columns), len(frame), schema, first_row=first_row)


def check_names(frame: pd.DataFrame) -> None:
    """Raise unless a DataFrame's column names are strings."""
    for name in frame.columns:
        if not isinstance(name, str):
            raise ConversionError(
                f"the column name {name!r} is not text",
                column=str(name),
                hint="set df.columns to the names of the table's columns",
            )


def dense(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return sparse values as an array, and numbers in the byte order of this machine.

    Categories of Python objects become an object column, because Arrow truncates times in them.
    """
    if isinstance(series.dtype, pd.SparseDtype):
        return pd.Series(np.asarray(series))
    if series.dtype == "category" and series.cat.categories.dtype == object:
        is_text = infer_dtype(series.cat.categories) == "string"  # the usual case in pandas 2
        return series if is_text else series.astype(object)
    if isinstance(series.dtype, np.dtype) and not series.dtype.isnative:
        return series.astype(series.dtype.newbyteorder("="))
    return series


def column_array(
    series: pd.Series[Any], name: str, target: OdpsType | None = None
) -> pa.Array | pa.ChunkedArray:
    """Convert a column to the Arrow type of its dtype."""
    kind = series.cat.categories.dtype if series.dtype == "category" else series.dtype
    if isinstance(kind, (pd.PeriodDtype, pd.IntervalDtype)):
        raise ConversionError(
            f"the column {name!r} has dtype {series.dtype}, which has no MaxCompute type",
            column=name,
            source_type=str(series.dtype),
            hint="convert it, e.g. with .dt.to_timestamp() or .astype(str)",
        )
    if series.dtype.name == "geometry":
        return pa.array(from_geometry(series, name, target), pa.binary())
    try:
        array = pa.array(dense(series), from_pandas=True)
        check_field(pa.field(name, array.type), target)
        return array
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConversionError(
            f"the column {name!r} ({series.dtype}) cannot be converted to Arrow: {error}",
            column=name,
            source_type=str(series.dtype),
            target_type=format_type(target) if target is not None else None,
            hint="cast the column, e.g. with df.astype",
        ) from None


_FAILURES = (TypeError, ValueError, ArithmeticError, NotImplementedError, pa.ArrowException)
_HINT = "pass another dtype, or read the column without one and convert it with df.astype"


def by_column(dtypes: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the dtypes by column name, ignoring case."""
    known = {name.casefold(): name for name in names}
    chosen: dict[str, Any] = {}
    for name, dtype in (dtypes or {}).items():
        column = known.get(name.casefold()) if isinstance(name, str) else None
        if column is None:
            raise ArgumentError(
                f"dtypes contains {shown(name)}, which is not a column of the result",
                argument="dtypes",
                hint=f"choose from {shorten(', '.join(names))}",
            )
        try:
            if not isinstance(dtype, (str, type, np.dtype, ExtensionDtype)):
                raise TypeError(f"{a_type(type(dtype))} is not a dtype")
            chosen[column] = pandas_dtype(dtype)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ArgumentError(
                f"dtypes[{name!r}]: {error}",
                argument="dtypes",
                hint="pass a pandas dtype, such as 'float64', 'Int64' or 'string'",
            ) from None
    return chosen


def cast_exactly(series: pd.Series[Any], name: str, dtype: Any) -> pd.Series[Any]:
    """Cast a column to a dtype; raise unless every value can be cast back unchanged."""
    reason = "the value would change"
    try:
        cast: pd.Series[Any] = series.astype(dtype)
        changed = _changed(series, cast)
    except _FAILURES as error:
        row, reason = _failing(series, dtype, str(error))
        changed = np.array([row])
    if not len(changed):
        return cast
    row = int(changed[0])
    where = f"{name}[{row}] = {shorten(series.iloc[row])}" if row >= 0 else name
    raise ConversionError(
        f"the column does not fit the dtype: {where} ({series.dtype} → {dtype}): {reason}",
        column=name,
        source_type=str(series.dtype),
        target_type=str(dtype),
        row=row if row >= 0 else None,
        hint=_HINT,
    )


def _changed(series: pd.Series[Any], cast: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """Return the positions of the values that casting back does not restore."""
    nulls = series.isna().to_numpy()
    same = pd.Series(_cast_back(cast, series) == series).fillna(False).to_numpy(bool)
    return np.flatnonzero(np.where(nulls, ~cast.isna().to_numpy(), ~same))


def _cast_back(cast: pd.Series[Any], series: pd.Series[Any]) -> pd.Series[Any]:
    """Cast a column back to its original values; pandas cannot cast text with nulls to bool."""
    if series.dtype in ("bool", "boolean") and infer_dtype(cast, skipna=True) == "string":
        return cast.str.lower().map({"true": True, "false": False}).astype("boolean")
    kind = infer_dtype(series, skipna=True)
    if kind == "decimal":
        return cast.astype("string").map(Decimal, na_action="ignore").astype(object)
    # text in pandas 2 has dtype object, which is ambiguous
    return cast.astype("string" if kind == "string" else series.dtype)


def _failing(series: pd.Series[Any], dtype: Any, reason: str) -> tuple[int, str]:
    """Return the first row that cannot be cast or cast back, and why; -1 if an empty column fails.

    ``reason`` is the error of the whole column, which may concern another row.
    """
    fits, fails = -1, len(series)
    while fails - fits > 1:
        rows = (fits + fails) // 2
        try:
            _cast_back(series.iloc[:rows].astype(dtype), series)
        except _FAILURES as error:
            fails, reason = rows, str(error)
        else:
            fits = rows
    return fails - 1, reason
