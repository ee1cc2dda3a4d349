"""Builds a DataFrame's columns while the rows arrive.

Each builder receives a column's chunks as Arrow arrays and keeps no reference to them. It writes
fixed-width values and bytes into one NumPy array, and copies other values, because all columns of a
batch share one buffer. So a batch is freed soon after its arrival, and values are converted while a
read waits for the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as pt
from pandas.api.extensions import ExtensionDtype

from odps_nb.convert.decimal_floats import as_floats, from_floats, surviving_floats
from odps_nb.convert.frame_options import FrameOptions
from odps_nb.convert.nested_values import is_vector, python_values, vector_values

_FIRST_ROWS = 1 << 16  # initial size if the number of rows is unknown
_MAX_FIRST_ROWS = 1 << 24  # maximum initial size; larger arrays grow as rows arrive
_SETTLE_BYTES = 4 * 2**20

_USUAL = FrameOptions()


class FrameColumn(Protocol):
    """Builder of one column."""

    def add(self, part: pa.Array) -> None:
        """Add the next values; release ``part`` immediately or within the next few calls."""

    def series(self) -> pd.Series[Any]:
        """Return all values, without sharing memory with batches; called once, at the end."""


def frame_column(
    kind: pa.DataType,
    rows: int | None,
    options: FrameOptions = _USUAL,
    blob: ExtensionDtype | None = None,
) -> FrameColumn:
    """Return a column builder for an Arrow type."""
    if blob is not None:
        return _ArrowColumn(kind, lambda _: blob)
    if pt.is_decimal(kind):
        return _decimal_column(kind, rows, options)
    if options.dtype_backend == "pyarrow":
        return _ArrowColumn(kind, pd.ArrowDtype)
    if pt.is_nested(kind):
        return _ObjectColumn(vector_values if is_vector(kind) else python_values)
    dtype = _numpy_dtype(kind)
    if options.dtype_backend == "numpy_nullable":
        if pt.is_string(kind) or pt.is_large_string(kind):
            return _ArrowColumn(kind, lambda _: pd.StringDtype())
        if dtype is not None and dtype.kind in "iubf":
            return _NumpyColumn(dtype, rows, masked=True)
    if dtype is not None:
        return _NumpyColumn(dtype, rows, timezone=getattr(kind, "tz", None))
    return _ArrowColumn(kind, None)


def _numpy_dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    """Return the NumPy dtype for fixed-width values and bytes; ``None`` for other types."""
    if pt.is_timestamp(kind):
        return np.dtype(f"datetime64[{kind.unit}]")
    is_number = pt.is_integer(kind) or pt.is_float32(kind) or pt.is_float64(kind)
    is_other = pt.is_boolean(kind) or pt.is_date32(kind) or pt.is_duration(kind)
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return np.dtype(object)
    return np.dtype(kind.to_pandas_dtype()) if is_number or is_other else None


def _decimal_column(kind: pa.DataType, rows: int | None, options: FrameOptions) -> FrameColumn:
    if options.decimals == "float":
        return _FloatColumn(frame_column(pa.float64(), rows, options))
    if options.dtype_backend == "pyarrow":
        return _ArrowColumn(kind, pd.ArrowDtype)
    if options.decimals == "exact" or options.dtype_backend is not None:
        return _ArrowColumn(kind, None)
    return _DecimalColumn(kind, rows)


class _NumpyColumn:
    """A NumPy array of values; the first null of an integer or boolean column creates a null mask.

    Instants with a zone are collected in UTC, and converted to their zone at the end.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        rows: int | None,
        *,
        timezone: str | None = None,
        masked: bool = False,
    ) -> None:
        self._timezone = timezone
        self._masks = "iubf" if masked else "iub"
        room = _FIRST_ROWS if rows is None else min(max(rows, 0), _MAX_FIRST_ROWS)
        self._values = _room(room, dtype)
        self._mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None
        if masked:
            self._mask = np.zeros(room, bool)
        self._count = 0

    def add(self, part: pa.Array) -> None:
        start, end = self._count, self._count + len(part)
        if end > len(self._values):
            self._grow(end)
        if part.null_count and self._values.dtype.kind in self._masks:
            if self._mask is None:
                self._mask = np.zeros(len(self._values), bool)
            self._mask[start:end] = part.is_null().to_numpy(zero_copy_only=False)
            part = part.fill_null(False if pt.is_boolean(part.type) else 0)
        self._values[start:end] = part.to_numpy(zero_copy_only=False)
        self._count = end

    def series(self) -> pd.Series[Any]:
        values = self._values[: self._count]
        if self._timezone is not None:
            unit: Any = np.datetime_data(values.dtype)[0]
            zoned = pd.DatetimeTZDtype(unit, self._timezone)
            # Pass integers in UTC, because pandas reads datetime64 values as local times.
            return pd.Series(pd.array(values.view(np.int64), dtype=zoned, copy=False), copy=False)
        if self._mask is None:
            return pd.Series(values, copy=False)
        mask = self._mask[: self._count]
        masked = _MASKED_ARRAYS[values.dtype.kind]
        return pd.Series(masked(values, mask), copy=False)

    def _grow(self, needed: int) -> None:
        room = max(needed, 2 * len(self._values))
        values = _room(room, self._values.dtype)
        values[: self._count] = self._values[: self._count]
        self._values = values
        if self._mask is not None:
            mask = np.zeros(room, bool)
            mask[: self._count] = self._mask[: self._count]
            self._mask = mask


_MASKED_ARRAYS: dict[str, Any] = {
    "b": pd.arrays.BooleanArray,
    "f": pd.arrays.FloatingArray,
    "i": pd.arrays.IntegerArray,
    "u": pd.arrays.IntegerArray,
}


class _FloatColumn:
    """Decimals converted to the nearest floats."""

    def __init__(self, floats: FrameColumn) -> None:
        self._floats = floats

    def add(self, part: pa.Array) -> None:
        self._floats.add(as_floats(part))

    def series(self) -> pd.Series[Any]:
        return self._floats.series()


class _DecimalColumn:
    """Decimals as float64 until float64 would change a value; from then on, `Decimal` objects.

    The floats collected so far are then converted back to decimals, so no second copy is needed.
    """

    def __init__(self, kind: pa.DataType, rows: int | None) -> None:
        self._kind = kind
        self._floats: _NumpyColumn | None = _NumpyColumn(np.dtype("float64"), rows)
        self._exact = _ArrowColumn(kind, None)

    def add(self, part: pa.Array) -> None:
        if self._floats is not None:
            if (floats := surviving_floats(part)) is not None:
                self._floats.add(floats)
                return
            so_far, self._floats = self._floats.series().to_numpy(), None
            for start in range(0, len(so_far), _FIRST_ROWS):
                chunk = pa.array(so_far[start : start + _FIRST_ROWS], from_pandas=True)
                self._exact.add(from_floats(chunk, self._kind))
        self._exact.add(part)

    def series(self) -> pd.Series[Any]:
        return self._exact.series() if self._floats is None else self._floats.series()


class _ObjectColumn:
    """Lists, maps and structs, as Python objects."""

    def __init__(self, objects: Callable[[pa.Array], list[Any]]) -> None:
        self._objects = objects
        self._values: list[Any] = []

    def add(self, part: pa.Array) -> None:
        self._values += self._objects(part)

    def series(self) -> pd.Series[Any]:
        return pd.Series(self._values, dtype=object)


def _room(rows: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an uninitialised array from Arrow's pool, which reuses the memory of freed batches."""
    if dtype.hasobject:
        return np.empty(rows, dtype)
    return np.frombuffer(pa.allocate_buffer(rows * dtype.itemsize), dtype)


class _ArrowColumn:
    """Text, exact numbers and Arrow-backed columns, converted at the end."""

    def __init__(self, kind: pa.DataType, mapper: Callable[[pa.DataType], Any] | None) -> None:
        self._kind, self._mapper = kind, mapper
        self._chunks: list[pa.Array] = []
        self._pending: list[pa.Array] = []
        self._pending_bytes = 0

    def add(self, part: pa.Array) -> None:
        self._pending.append(part)
        self._pending_bytes += part.nbytes
        if self._pending_bytes >= _SETTLE_BYTES:
            self._merge_pending()

    def _merge_pending(self) -> None:
        if self._pending:
            self._chunks.append(pa.concat_arrays(self._pending))
        self._pending, self._pending_bytes = [], 0

    def series(self) -> pd.Series[Any]:
        self._merge_pending()
        column = pa.chunked_array(self._chunks, self._kind)
        self._chunks.clear()
        series: pd.Series[Any] = column.to_pandas(types_mapper=self._mapper, date_as_object=False)
        if isinstance(series.dtype, np.dtype) and not series.to_numpy().flags.writeable:
            return series.copy()  # a view of Arrow memory would be read-only
        return series
