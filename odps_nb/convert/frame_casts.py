"""Dtypes asked for by column: each value fits its dtype, or an error names the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import infer_dtype, is_float_dtype, pandas_dtype

from odps_nb.convert.fitting.misfit import shorten
from odps_nb.convert.frame_columns import from_floats
from odps_nb.errors import ArgumentError, ConversionError

__all__ = ["by_column", "cast_exactly"]

_FAILURES = (TypeError, ValueError, OverflowError, NotImplementedError, pa.ArrowException)
_HINT = "pass another dtype, or read the column without one and convert it with df.astype"


def by_column(dtypes: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the dtypes by the names of columns; upper and lower case are the same.

    Raises
    ------
    ArgumentError
        There is no such column, or pandas does not know the dtype.
    """
    known = {name.casefold(): name for name in names}
    found: dict[str, Any] = {}
    for name, dtype in (dtypes or {}).items():
        column = known.get(str(name).casefold())
        if column is None:
            raise ArgumentError(
                f"dtypes names {name!r}, which is not a column of the rows",
                argument="dtypes",
                hint=f"choose from {shorten(', '.join(names))}",
            )
        try:
            found[column] = pandas_dtype(dtype)
        except (TypeError, NotImplementedError) as error:
            raise ArgumentError(
                f"dtypes[{name!r}]: {error}",
                argument="dtypes",
                hint="pass a dtype of pandas, such as 'float64', 'Int64' or 'string'",
            ) from None
    return found


def cast_exactly(series: pd.Series[Any], name: str, dtype: Any) -> pd.Series[Any]:
    """Return a column as another dtype, from which every value can be cast back unchanged.

    Raises
    ------
    ConversionError
        A value would change, or cannot be converted; its row is named where it can be told.
    """
    reason = "the value would change"
    try:
        cast: pd.Series[Any] = series.astype(dtype)
        changed = _changed(series, cast)
    except _FAILURES as error:
        reason, changed = str(error), _failing(series, dtype)
    if not len(changed):
        return cast
    row = int(changed[0])
    where = f"{name}[{row}] = {shorten(series.iloc[row])}" if row >= 0 else name
    raise ConversionError(
        f"the column does not fit its dtype: {where} ({series.dtype} → {dtype}): {reason}",
        column=name,
        source_type=str(series.dtype),
        target_type=str(dtype),
        row=row if row >= 0 else None,
        hint=_HINT,
    )


def _changed(series: pd.Series[Any], cast: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """Return the rows that differ when they are cast back."""
    nulls = series.isna().to_numpy()
    same = pd.Series(_cast_back(cast, series) == series).fillna(False).to_numpy(bool)
    return np.flatnonzero(np.where(nulls, ~cast.isna().to_numpy(), ~same))


def _cast_back(cast: pd.Series[Any], series: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as its dtype before; pandas does not convert text to bool with nulls."""
    if series.dtype in ("bool", "boolean") and infer_dtype(cast, skipna=True) == "string":
        return cast.str.lower().map({"true": True, "false": False}).astype("boolean")
    kind = getattr(series.dtype, "pyarrow_dtype", None)
    if (
        kind is not None and pa.types.is_decimal(kind) and is_float_dtype(cast.dtype)
    ):  # by the shortest text of a float
        decimals = from_floats(pa.array(cast, from_pandas=True), kind)
        return pd.Series(pd.array(decimals, dtype=series.dtype), index=cast.index)
    return cast.astype(_kind(series))


def _kind(series: pd.Series[Any]) -> Any:
    """Return the dtype to cast back to: text of pandas 2 is objects, which may be anything."""
    return "string" if infer_dtype(series, skipna=True) == "string" else series.dtype


def _failing(series: pd.Series[Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Return the first row that cannot be cast and back; -1 if even no rows can."""
    fits, fails = -1, len(series)
    while fails - fits > 1:
        rows = (fits + fails) // 2
        try:
            _cast_back(series.iloc[:rows].astype(dtype), series)
        except _FAILURES:
            fails = rows
        else:
            fits = rows
    return np.array([fails - 1])
