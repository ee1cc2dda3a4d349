"""`DecimalDtype` and `DecimalArray`: exact DECIMAL columns that support calculations.

pandas' own Arrow decimals fail in most calculations, because Arrow's result types exceed the digit
limit. `DecimalArray` is a subclass that stores the same values. Selecting, sorting, joining,
comparing and writing use all digits; ``+``, ``-`` and ``*`` with integers and decimals use up to 76
digits. All other calculations use float64, and NumPy, plots and ``describe`` receive float64.
"""

from __future__ import annotations

import operator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pandas.api.extensions import no_default
from pandas.api.types import infer_dtype, is_list_like, pandas_dtype
from pandas.arrays import ArrowExtensionArray, FloatingArray, IntegerArray

from odps_nb.convert.decimal_floats import as_floats, from_floats, rounded, whole_digits
from odps_nb.convert.fitting.misfit import shorten
from odps_nb.convert.warning import warn
from odps_nb.errors import ArgumentError

_EXACT = {"add": pc.add, "sub": pc.subtract, "mul": pc.multiply}
_COMPARE = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
_ZERO = Decimal(0)
_PLAIN = 6  # maximum scale at which Python prints a zero without an exponent
_MOST = 76  # maximum digits of Arrow's decimals


class DecimalDtype(pd.ArrowDtype):
    """The dtype of an exact DECIMAL column, named like pandas' own Arrow dtype."""

    kind = "O"  # otherwise pandas treats indexes and keys as floats

    def __eq__(self, other: object) -> bool:
        return type(other) is DecimalDtype and self.pyarrow_dtype == other.pyarrow_dtype

    __hash__ = pd.ArrowDtype.__hash__

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """float64, so ``select_dtypes("number")``, ``describe`` and plots include the column."""
        return np.dtype("float64")

    @classmethod
    def construct_array_type(cls) -> Any:
        """Return the array class."""
        return DecimalArray

    def _get_common_dtype(self, dtypes: list[Any]) -> Any:
        """Return the common dtype of concatenated columns, wide enough for all digits."""
        whole, scale = 0, 0
        for dtype in dtypes:
            kind = getattr(dtype, "pyarrow_dtype", None)
            if kind is not None and pt.is_decimal(kind):
                whole, scale = max(whole, kind.precision - kind.scale), max(scale, kind.scale)
            elif dtype.kind in "iu":
                whole = max(whole, 20)
            elif dtype.kind != "f":
                return None
        digits = max(whole + scale, 1)
        if digits > _MOST:
            return None
        return DecimalDtype((pa.decimal128 if digits <= 38 else pa.decimal256)(digits, scale))


class DecimalArray(ArrowExtensionArray):
    """An array of decimals, stored in Arrow; see `DecimalDtype`."""

    _pa_array: Any

    def __new__(cls, values: Any = None) -> Any:
        """Return pandas' own array for values that are not decimals, such as ranks."""
        if values is None or pt.is_decimal(values.type):
            return super().__new__(cls)
        return ArrowExtensionArray(values)

    def __init__(self, values: Any) -> None:
        super().__init__(values)
        self._dtype = DecimalDtype(self._pa_array.type)

    def _from_pyarrow_array(self, pa_array: Any) -> Any:
        return DecimalArray(pa_array)

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> Any:
        kind = getattr(dtype, "pyarrow_dtype", dtype)
        if not isinstance(kind, pa.DataType):
            if getattr(scalars, "dtype", "object") == "object":
                scalars = [_number(one) for one in scalars]
            return cls(pa.array(scalars, from_pandas=True))
        if not pt.is_decimal(kind):
            return pd.array(scalars, dtype=pd.ArrowDtype(kind))
        try:
            return cls(_fitted(scalars, kind))
        except (pa.ArrowException, TypeError) as error:
            one = isinstance(scalars, list) and len(scalars) == 1
            whole = kind.precision - kind.scale
            raise ArgumentError(
                f"{shorten(scalars[0]) if one else 'a value'} does not fit {kind}, which "
                f"stores {whole} digits before and {kind.scale} after the decimal point",
                hint="convert the column with astype('float64') or astype(object) first",
            ) from error

    @classmethod
    def _from_scalars(cls, scalars: Any, *, dtype: Any) -> Any:
        """Convert a user function's decimals; raise for other results, so pandas 2 keeps them."""
        if infer_dtype(scalars, skipna=True) != "decimal":
            raise ValueError("results that are not decimals keep their own dtype")
        return cls._from_sequence(scalars, dtype=dtype)

    def _cast_pointwise_result(self, values: Any) -> Any:
        found = pd.Series(list(values)).array
        return self._from_sequence(found) if infer_dtype(found) == "decimal" else found

    # -- NumPy --------------------------------------------------------------------------------

    def to_numpy(
        self,
        dtype: Any = no_default,
        copy: bool = False,  # noqa: FBT001, FBT002  pandas' own
        na_value: Any = no_default,
    ) -> Any:
        """Return float64 values for a float dtype or ``None``, `Decimal` objects for other dtypes.

        Series and NumPy pass a dtype or ``None``. When pandas joins sorted indexes, it passes no
        dtype and needs exact keys.
        """
        dtype = object if dtype is no_default else dtype
        found: np.ndarray[Any, Any]
        if dtype is None or np.dtype(dtype).kind == "f":
            found = np.asarray(as_floats(self._pa_array).to_numpy()).astype("float64")
            na_value = no_default if na_value is None or na_value is pd.NA else na_value
        else:
            found = np.array([*self._decimals(), None], "object")[:-1]
            na_value = pd.NA if na_value is no_default else na_value
        if na_value is not no_default:
            found[self.isna()] = na_value
        return found if dtype is None else found.astype(dtype, copy=False)

    def _values_for_json(self) -> Any:
        return np.array([*self._texts(), None], "object")[:-1]  # a JSON number would lose digits

    def _texts(self) -> list[str | None]:
        return [None if one is None else f"{one:f}" for one in self._pa_array.to_pylist()]

    def _decimals(self) -> list[Decimal | None]:
        """Return the values; zeros that Python would print as ``0E-18`` become plain zeros."""
        values: list[Decimal | None] = self._pa_array.to_pylist()
        if self._pa_array.type.scale <= _PLAIN:
            return values
        return [_ZERO if one == 0 else one for one in values]

    def _to_masked(self) -> Any:
        return FloatingArray(self.to_numpy(float), self.isna())

    def _floats(self) -> pd.Series[Any]:
        return pd.Series(self.to_numpy(float))

    # -- calculations -------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(one, (pd.Series, pd.Index, pd.DataFrame)) for one in inputs):
            return NotImplemented
        if ufunc is np.absolute:
            return DecimalArray(pc.abs(self._pa_array))
        return getattr(ufunc, method)(*map(_plain, inputs), **kwargs)

    def _arith_method(self, other: Any, op: Any) -> Any:
        name, operand = op.__name__, _exact(other)
        kernel = _EXACT.get(name.removeprefix("r"))
        if kernel is not None and operand is not None:
            pair = (_wide(self._pa_array), _wide(operand))
            try:
                return DecimalArray(kernel(*(reversed(pair) if name.startswith("r") else pair)))
            except pa.ArrowInvalid:
                pass  # more than 76 digits are needed, so use floats
        return op(self.to_numpy(float), _plain(other))

    def _cmp_method(self, other: Any, op: Any) -> Any:
        operand = _exact(other)
        if operand is None:
            return op(self.to_numpy(float), _plain(other))
        pair = (_wide(self._pa_array), _wide(operand))
        whole = max(one.type.precision - one.type.scale for one in pair)
        scale = max(one.type.scale for one in pair)
        if whole + scale > _MOST:
            return op(self.to_numpy(float), _plain(other))
        kind = pa.decimal256(_MOST, scale)
        found = _COMPARE[op.__name__](*(one.cast(kind) for one in pair))
        return np.asarray(found.fill_null(op is operator.ne).to_numpy(), bool)

    def isin(self, values: Any) -> Any:
        """Return the mask of elements that are in ``values``."""
        floats: list[Any] = []
        exact = set()
        for one in values:
            if _is_float(one) and one == one:
                floats.append(one)
            else:
                exact.add(_number(one))
        found = np.isin(self.to_numpy(float), floats)
        if exact:
            found |= np.fromiter((one in exact for one in self._decimals()), bool, len(self))
        return found

    def _reduce(self, name: str, *, skipna: bool = True, keepdims: bool = False, **kw: Any) -> Any:
        found = getattr(self._floats(), name)(skipna=skipna, **kw)
        return np.asarray([found]) if keepdims else found

    def _accumulate(self, name: str, *, skipna: bool = True, **kwargs: Any) -> Any:
        return getattr(self._floats(), name)(skipna=skipna, **kwargs).to_numpy()

    def _quantile(self, qs: Any, interpolation: Any) -> Any:
        return self._floats().quantile(qs, interpolation=interpolation).to_numpy()

    def _rank(self, **kwargs: Any) -> Any:
        codes = pd.Series(pd.factorize(pd.Series(self), sort=True)[0])
        return codes.mask(codes.eq(-1)).rank(**kwargs).array

    def _groupby_op(self, *, how: str, **kwargs: Any) -> Any:
        if how not in ("first", "last", "min", "max"):
            found = self._to_masked()._groupby_op(how=how, **kwargs)
            return found.to_numpy(float, na_value=np.nan) if found.dtype.kind == "f" else found
        order = self.argsort() if how in ("min", "max") else np.arange(len(self))
        places = np.empty(len(self), np.int64)
        places[order] = np.arange(len(self))
        ranked: Any = IntegerArray(places, self.isna())
        found = ranked._groupby_op(how=how, **kwargs)
        chosen = order[found.to_numpy(np.int64, na_value=0)]
        return self.take(np.where(found.isna(), -1, chosen), allow_fill=True)

    # -- conversions --------------------------------------------------------------------------

    def astype(self, dtype: Any, copy: bool = True) -> Any:  # noqa: FBT001, FBT002  pandas' own
        """Convert to another dtype; conversions to integers and text are exact."""
        wanted: Any = pandas_dtype(dtype)
        if isinstance(wanted, (np.dtype, DecimalDtype)):
            return super().astype(wanted, copy=copy)
        if wanted.kind == "f":
            return self._floats().astype(wanted).array
        if wanted.type is str:
            return pd.array(self._texts(), dtype=wanted)
        if hasattr(wanted, "pyarrow_dtype"):
            return wanted.__from_arrow__(self._pa_array)
        if wanted.kind in "iu":
            kind = pa.from_numpy_dtype(wanted.numpy_dtype)
            return wanted.__from_arrow__(self._pa_array.cast(kind))
        return pd.array(self.to_numpy(object), dtype=wanted)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, self._fitting(value))

    def fillna(self, value: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return a copy with each null replaced by ``value``."""
        return super().fillna(self._fitting(value), *args, **kwargs)

    def _fitting(self, value: Any) -> Any:
        if is_list_like(value):
            return self._from_sequence(value, dtype=self._dtype)
        number = _number(value)
        if isinstance(number, Decimal):
            return self._from_sequence([value], dtype=self._dtype)[0]
        return number


def decimal_note(schema: pa.Schema, frame: pd.DataFrame) -> str:
    """Return a note on the dtypes of DECIMAL columns; empty if there are no such columns."""
    floats, exact = [], []
    for field, dtype in zip(schema, frame.dtypes, strict=True):
        if pt.is_decimal(field.type) and dtype.kind == "f":
            floats.append(field.name)
        elif pt.is_decimal(field.type) and isinstance(dtype, DecimalDtype):
            exact.append(field.name)
    told = [f"DECIMAL as float64: {_some(floats)}"] if floats else []
    told += [f"DECIMAL kept exact; float64 would round: {_some(exact)}"] if exact else []
    return " · ".join(told)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names[:3] if more else names) + more


def _wide(values: Any) -> Any:
    """Return decimals with minimal precision, in the 256-bit type."""
    if pt.is_integer(values.type):
        values = values.cast(pa.decimal256(20, 0))
    scale = values.type.scale
    return values.cast(pa.decimal256(min(whole_digits(values) + scale + 1, _MOST), scale))


def _recast(values: Any, kind: pa.DataType) -> Any:
    """Convert decimals or integers to a decimal type via 256 bits; a direct cast can overflow."""
    if pt.is_decimal(kind) and not pt.is_null(values.type):
        values = values.cast(pa.decimal256(_MOST, kind.scale))
    return values.cast(kind)


def _exact(other: Any) -> Any:
    """Convert integers and decimals to Arrow; return ``None`` for anything else."""
    try:
        if is_list_like(other):
            found = pa.array(other, from_pandas=True)
        else:
            found = pa.scalar(_number(other) if isinstance(other, (int, np.integer)) else other)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return found if pt.is_decimal(found.type) or pt.is_integer(found.type) else None


def _fitted(values: Any, kind: pa.DataType) -> Any:
    """Convert values to a decimal type; round floats to the type's scale, with a warning."""
    if getattr(values, "dtype", "object") != "object":
        found = pa.array(values, from_pandas=True)
        if not pt.is_floating(found.type):
            return _recast(found, kind)
        try:
            return from_floats(found, kind)
        except pa.ArrowInvalid:
            values = found.cast(pa.string()).cast(pa.float64()).to_pylist()
    numbers, example = [], ""
    for value in values:
        number = _number(value)
        if _is_float(value) and number is not None:
            given, number = number, rounded(number, kind)
            if given != number:
                example = f"{value} became {number}"
        numbers.append(number)
    if example:
        warn(
            f"floats were rounded to {kind.scale} decimal places because the column is {kind}: "
            f"{example}. To keep floats, convert the column with astype('float64') first",
            through=("pandas",),
        )
    return _recast(pa.array(numbers, from_pandas=True), kind)


def _plain(other: Any) -> Any:
    """Return an operand in a form that NumPy can calculate with."""
    if isinstance(other, DecimalArray):
        return other.to_numpy(float)
    if isinstance(other, Decimal):
        return float(other)
    return np.nan if other is None or other is pd.NA else other


def _is_float(value: Any) -> bool:
    return isinstance(value, (float, np.floating))


def _number(value: Any) -> Any:
    """Convert a number to a `Decimal` (floats via their shortest text), and null to ``None``."""
    if value is None or value is pd.NA or value != value:
        return None
    if isinstance(value, (int, np.integer)):
        return Decimal(int(value))
    return Decimal(str(value)) if _is_float(value) else value
