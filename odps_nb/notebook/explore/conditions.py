"""Builds ``where=`` conditions from a clicked bar, a cell or a search text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa

from odps_nb.access.binding.text import bind
from odps_nb.access.looking.browsing import name_in_sql
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore.cells import kind_of
from odps_nb.notebook.explore.profile import Bar
from odps_nb.schema import Column, TypeCode

_WHOLE_BOUND = 2**63


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


def value_condition(
    column: Column, value: pa.Scalar, timezone: str | None, *, negated: bool
) -> str:
    """Return the condition for rows with this value, or for all others, which include nulls."""
    name = name_in_sql(column.name)
    if not value.is_valid:
        return f"{name} is not null" if negated else null_condition(column)
    if pa.types.is_nested(value.type) or column.type.code is TypeCode.BLOB:
        raise ArgumentError(f"the values of {column.name!r} cannot be used in a condition")
    text = f"{name} <> :v or {name} is null" if negated else f"{name} = :v"
    return bind(text, {"v": value}, timezone=timezone or "UTC", target="where")


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
