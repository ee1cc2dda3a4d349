"""Builds ``where=`` conditions from a clicked bar or a search text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import suppress

from odps_nb.access.binding.text import bind
from odps_nb.access.looking.browsing import name_in_sql
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore.bars import Bar
from odps_nb.notebook.explore.cells import kind_of
from odps_nb.schema import Column

_WHOLE_BOUND = 2**63
_LARGEST = "1.7976931348623157e308"  # also of a FLOAT, which is compared as a DOUBLE


def bar_condition(column: Column, bar: Bar, timezone: str | None) -> str:
    """Return the condition that selects the rows counted in a bar."""
    name = name_in_sql(column.name)
    if bar.is_beside:
        text, values = _beside(column, bar)
    elif bar.low is None:
        if bar.value is None:
            raise ArgumentError(f"the values of {column.name!r} cannot be used in a condition")
        text, values = f"{name} = :v", {"v": bar.value}
    elif isinstance(bar.low, int) and bar.high - bar.low == 1 and not bar.last:
        text, values = f"{name} = :v", {"v": bar.low}
    else:
        high = "<=" if bar.last else "<"
        text = f"{name} >= :low and {name} {high} :high"
        values = {"low": bar.low, "high": bar.high}
    return bind(text, values, timezone=timezone or "UTC", target="where")


def _beside(column: Column, bar: Bar) -> tuple[str, dict[str, object]]:
    """Return the condition for a group beside the bars, which does not depend on NaN's order."""
    name = name_in_sql(column.name)
    finite = f"{name} >= -{_LARGEST} and {name} <= {_LARGEST}"
    if bar.low is not None:
        text, values = f"{name} > :v", {"v": bar.low}
    elif bar.high is not None:
        text, values = f"{name} < :v", {"v": bar.high}
    elif bar.others:
        if None in bar.others:
            raise ArgumentError(f"the values of {column.name!r} cannot be used in a condition")
        text, values = f"{name} not in :v", {"v": list(bar.others)}
    else:
        return f"not ({finite})", {}
    return f"{text} and {finite}" if kind_of(column) in ("FLOAT", "DOUBLE") else text, values


def null_condition(column: Column) -> str:
    """Return the condition that selects the rows where the column is null."""
    return f"{name_in_sql(column.name)} is null"


def search_condition(columns: Sequence[Column], text: str) -> str:
    """Return the condition for rows that contain the text, or a number or date equal to it."""
    pattern = "".join(f"\\{one}" if one in "%_\\" else one for one in text)
    wanted: dict[str, tuple[str, object]] = {"TEXT": ("like", f"%{pattern}%")}
    with suppress(ValueError):
        if abs(number := int(text)) < _WHOLE_BOUND:
            wanted["INTEGER"] = "=", number
    with suppress(ValueError):
        wanted["DATE"] = "=", datetime.date.fromisoformat(text)
    found = []
    for column in columns:
        if kind_of(column) in wanted:
            sign, value = wanted[kind_of(column)]
            condition = f"{name_in_sql(column.name)} {sign} :v"
            found.append(bind(condition, {"v": value}, timezone="UTC"))
    if not found:
        raise ArgumentError(f"cannot search for {text!r}: no column has a type that can contain it")
    return " or ".join(found)


def all_of(conditions: Sequence[str]) -> str | None:
    """Return the conjunction of the conditions, or ``None`` if there are none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return " and ".join(f"({one})" for one in conditions)
