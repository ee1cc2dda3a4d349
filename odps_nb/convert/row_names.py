"""`Names`: the column names that Python rows are matched against; does not import pandas."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The column names that rows are matched against.

    ``order``: columns for rows without names, such as tuples; if empty, such rows raise an error.
    ``known``: all columns that a row may have; ``None`` means any. ``single``: whether a scalar is
    treated as a row with one column. ``same``: whether all rows must have the same names.
    """

    order: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None
    single: bool = False
    same: bool = False
