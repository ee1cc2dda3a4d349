"""`Names`: the column names for matching Python rows (without pandas)."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The column names for matching rows.

    ``order``: columns of rows without names, such as tuples; if empty, these rows raise.
    ``known``: all columns that a row may have; ``None`` means any. ``single``: whether a scalar is
    a row with one column.
    """

    order: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None
    single: bool = False
