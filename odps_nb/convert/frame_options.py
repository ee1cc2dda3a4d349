"""`FrameOptions`: what may be said of the dtypes of a DataFrame, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from odps_nb.errors import ArgumentError

__all__ = ["Decimals", "DtypeBackend", "FrameOptions"]

Decimals = Literal["exact", "float"]
DtypeBackend = Literal["numpy_nullable", "pyarrow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOptions:
    """Which dtypes a DataFrame gets; ``odps_nb.convert.pandas_frame`` has the usual ones.

    Parameters
    ----------
    decimals
        ``"exact"``: as Arrow decimals. ``"float"``: as floats of 64 bits, which ``describe``,
        ``mean`` and plots take, and which are the nearest ones of about 16 digits. Decimals inside
        of lists, maps and structs stay exact.
    dtype_backend
        As in pandas' own readers: ``"numpy_nullable"`` for ``Int64``, ``Float64``, ``boolean`` and
        ``string`` with or without nulls, ``"pyarrow"`` for Arrow's types in all columns. The dtypes
        of a column then depend on its type alone, not on its values.

    Raises
    ------
    ArgumentError
        Another value.
    """

    decimals: Decimals = "exact"
    dtype_backend: DtypeBackend | None = None

    def __post_init__(self) -> None:
        if self.decimals not in ("exact", "float"):
            raise ArgumentError(
                f"decimals is {self.decimals!r}",
                argument="decimals",
                hint="it is 'exact' or 'float'",
            )
        if self.dtype_backend not in (None, "numpy_nullable", "pyarrow"):
            raise ArgumentError(
                f"dtype_backend is {self.dtype_backend!r}",
                argument="dtype_backend",
                hint="it is 'numpy_nullable' or 'pyarrow', or left out",
            )
