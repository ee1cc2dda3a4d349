"""`FrameOptions`: options for a DataFrame's dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from odps_nb.errors import ArgumentError
from odps_nb.terms import check_choice

Decimals = Literal["auto", "exact", "float"]
DtypeBackend = Literal["numpy_nullable", "pyarrow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOptions:
    """The dtypes of a DataFrame's columns; ``docs/types-and-times.md`` lists the defaults.

    ``decimals``: dtype of DECIMAL columns; decimals inside lists, maps and structs stay exact.
    ``"auto"`` (default) means float64 if every value of the column has at most 15 digits or is the
    shortest text of a float. Otherwise it means ``"exact"``: `decimal.Decimal` objects.
    ``"float"`` is always float64, rounded to the nearest value.

    ``dtype_backend``: as in pandas' own readers. ``"numpy_nullable"`` uses ``Int64``, ``Float64``,
    ``boolean`` and ``string``, whether or not there are nulls; ``"pyarrow"`` uses Arrow types in
    all columns. Each dtype then depends only on the column's type: ``decimals="auto"`` is exact.
    ``dtypes``: dtypes of single columns by name, as in `pandas.DataFrame.astype`. A value that the
    dtype would change raises an error.

    Raises `ArgumentError` for an unknown option value, or a dtype that pandas does not know.
    """

    decimals: Decimals = "auto"
    dtype_backend: DtypeBackend | None = None
    dtypes: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_choice("decimals", self.decimals, get_args(Decimals))
        check_choice("dtype_backend", self.dtype_backend, (None, *get_args(DtypeBackend)))
        if self.dtypes is not None and not isinstance(self.dtypes, Mapping):
            raise ArgumentError(
                f"dtypes is of type {type(self.dtypes).__name__}",
                argument="dtypes",
                hint="pass a dict of column names and dtypes",
            )
