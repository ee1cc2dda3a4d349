"""Builds ``where=`` conditions from a clicked bar."""

from __future__ import annotations

from collections.abc import Sequence

from odps_nb.access.binding.text import bind
from odps_nb.access.looking.browsing import name_in_sql
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore.profile import Bar
from odps_nb.schema import Column


def bar_condition(column: Column, bar: Bar, timezone: str | None) -> str:
    """Return the condition that selects the rows counted in a bar."""
    name = name_in_sql(column.name)
    if bar.low is None:
        if bar.value is None:
            raise ArgumentError(f"the values of {column.name!r} cannot be used in a condition")
        text, values = f"{name} = :v", {"v": bar.value}
    elif isinstance(bar.low, int) and isinstance(bar.high, int) and bar.high - bar.low == 1:
        text, values = f"{name} = :v", {"v": bar.low}
    else:
        high = "<=" if bar.last else "<"
        text = f"{name} >= :low and {name} {high} :high"
        values = {"low": bar.low, "high": bar.high}
    return bind(text, values, timezone=timezone or "UTC", target="where")


def null_condition(column: Column) -> str:
    """Return the condition that selects the rows where the column is null."""
    return f"{name_in_sql(column.name)} is null"


def all_of(conditions: Sequence[str]) -> str | None:
    """Return the conjunction of the conditions, or ``None`` if there are none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return " and ".join(f"({one})" for one in conditions)
