"""Leaves columns out of forms that need a type for each of them before rows arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odps_nb.convert.warning import warn
from odps_nb.schema import Column, OdpsType
from odps_nb.wire.type_text import format_type

__all__ = ["columns_with_types"]


def columns_with_types(
    columns: Iterable[Column], has_type: Callable[[OdpsType], bool], what: str
) -> tuple[Column, ...]:
    """Return the columns that ``what`` has a type for; one warning names the others.

    Without any such column all are returned: the error of the first says more.
    """
    columns = tuple(columns)
    kept = tuple(column for column in columns if has_type(column.type))
    if not kept or len(kept) == len(columns):
        return columns
    others = [f"{one.name} ({format_type(one.type)})" for one in columns if one not in kept]
    warn(
        f"{what} has no type for {', '.join(others)}: left out. "
        "Pass columns=[…] to avoid this warning; to_arrow() of a read gives all columns"
    )
    return kept
