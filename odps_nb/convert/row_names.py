"""`Names`: the columns that Python rows are matched with (without pandas)."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names that rows are matched with.

    ``order``: columns of rows without names, such as tuples. Empty: such rows are refused.
    ``known``: all columns that a row may have; ``None``: any. ``single``: whether a plain value is
    a row of one column.
    """

    order: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None
    single: bool = False
