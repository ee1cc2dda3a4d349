"""`FrameOptions`: what may be said of the dtypes of a DataFrame, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from odps_nb.errors import ArgumentError

Decimals = Literal["auto", "exact", "float"]
DtypeBackend = Literal["numpy_nullable", "pyarrow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOptions:
    """Which dtypes a DataFrame gets; ``odps_nb.convert.pandas_frame`` has the usual ones.

    ``decimals``: what a DECIMAL column becomes. ``"auto"``, the default: float64 if float64 holds
    every value of the column (up to 15 digits always, and those with more whose shortest text as a
    float is the same number), otherwise as with ``"exact"``. ``"exact"``: a dtype that keeps every
    digit (`odps_nb.convert.decimal_array`). ``"float"``: always float64, rounded to the nearest.
    Decimals inside of lists, maps and structs stay exact. ``dtype_backend``: as in pandas' own
    readers: ``"numpy_nullable"`` for ``Int64``, ``Float64``, ``boolean`` and ``string`` with or
    without nulls, ``"pyarrow"`` for Arrow's types in all columns. The dtypes of a column then
    depend on its type alone, not on its values: ``"auto"`` means ``"exact"``. ``dtypes``: dtypes of
    single columns, by name, as `pandas.DataFrame.astype` takes them. Each value must fit its dtype
    unchanged.

    Raises `ArgumentError`: another value, or a dtype that pandas does not know.
    """

    decimals: Decimals = "auto"
    dtype_backend: DtypeBackend | None = None
    dtypes: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.decimals not in get_args(Decimals):
            raise ArgumentError(
                f"decimals is {self.decimals!r}",
                argument="decimals",
                hint="pass 'auto', 'exact' or 'float'",
            )
        if self.dtype_backend not in (None, *get_args(DtypeBackend)):
            raise ArgumentError(
                f"dtype_backend is {self.dtype_backend!r}",
                argument="dtype_backend",
                hint="pass 'numpy_nullable' or 'pyarrow', or leave it out",
            )
        if self.dtypes is not None and not isinstance(self.dtypes, Mapping):
            raise ArgumentError(
                f"dtypes is {type(self.dtypes).__name__}",
                argument="dtypes",
                hint="pass a dict of column names and dtypes",
            )
