"""`Condition`: one filter of an explorer, and the ways to build it."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from odps_nb.access.binding.text import bind, without_comments
from odps_nb.access.binding.values import plain
from odps_nb.access.paging.ordering import name_in_sql
from odps_nb.errors import ArgumentError, shown
from odps_nb.notebook.explore.profiles.bars import NOT_FINITE, Bar
from odps_nb.notebook.explore.profiles.profile import LABEL
from odps_nb.notebook.explore.values.cells import cell_texts, is_number, kind_of
from odps_nb.notebook.explore.values.scale import LARGEST_SINGLE, scale_of, single
from odps_nb.notebook.explore.values.typed import shown_value, text_of, typed_value
from odps_nb.schema import Column, TypeCode
from odps_nb.wire.type_text import format_type

_LARGEST = "1.7976931348623157e308"  # also used for FLOAT, which is compared as DOUBLE
_LISTED = 3
_LONG = 2**63 - 1  # larger integers are DECIMAL literals
MAX_LISTED = 100
"""Maximum number of values in a condition of the filter builder."""

# The pattern, the label of the condition and of its negation; a prefix "i" means ignore case.
_LIKE = {
    "icontains": ("%{}%", "contains", "does not contain"),
    "istarts": ("{}%", "starts with", "does not start with"),
    "iends": ("%{}", "ends with", "does not end with"),
    "contains": ("%{}%", "contains exactly", "does not contain exactly"),
    "starts": ("{}%", "starts exactly with", "does not start exactly with"),
}
_OF_KIND = {
    "TEXT": ("values", *_LIKE),
    "CHAR": ("values",),
    "BOOLEAN": ("true", "false"),
    **dict.fromkeys(("INTEGER", "FLOAT", "DOUBLE", "DECIMAL"), ("range", "values")),
    **dict.fromkeys(("DATE", "INSTANT", "CLOCK"), ("range", "values")),
}

# The arguments of `RowView.filter` for these conditions.
_ARGUMENTS = {
    "range": "low and high",
    "values": "values",
    "true": "values=[True]",
    "false": "values=[False]",
    "contains": "contains",
    "starts": "starts",
    "null": "null",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A filter: the ``text`` to display, and the exact condition ``where``.

    The filter builder edits ``op`` and its ``values``; a condition that has neither can only be
    removed. ``exclude`` selects all other rows, including those with a null. ``below`` excludes the
    upper end of a range.
    """

    where: str
    text: str
    column: str = ""
    op: str = ""
    values: tuple[Any, ...] = ()
    exclude: bool = False
    below: bool = False


def written(where: str) -> Condition:
    """Return the condition for a filter that the user wrote."""
    return Condition(where=without_comments(where), text=where)


def operations(column: Column) -> tuple[str, ...]:
    """Return the kinds of conditions that the type of a column allows."""
    return (*_OF_KIND.get(kind_of(column), ()), "null")


def make_condition(
    column: Column,
    op: str,
    values: Sequence[Any] = (),
    *,
    exclude: bool = False,
    below: bool = False,
    timezone: str | None = None,
) -> Condition:
    """Return a condition of the kind ``op`` (see `operations`) with these Python values.

    ``range`` has two values, either of which may be ``None``.
    """
    if op not in operations(column):
        offered = ", ".join(_ARGUMENTS[op] for op in operations(column) if op in _ARGUMENTS)
        raise ArgumentError(
            f"{column.name!r} has type {format_type(column.type)}, which does not support the "
            f"condition {op!r}",
            hint=f"pass one of: {offered}",
        )
    _check(op, values, timezone)
    if is_number(column):
        _check_numbers(column, values)
    if op == "range" and values[0] is not None and values[0] == values[1] and not below:
        op, values = "values", values[:1]
    exact = values
    if op in ("values", "range") and kind_of(column) == "FLOAT":
        exact = [None if value is None else _single(column, op, value) for value in values]
        values = [None if value is None else _shown_single(value) for value in exact]
    name = name_in_sql(column.name)
    text = _template(name, op, values, below=below, exclude=exclude)
    if op == "values":
        listed = _integers(exact)
        bound: dict[str, object] = {"v": listed if len(listed) > 1 else listed[0]}
    elif op == "range":
        bound = dict(zip(("low", "high"), (_integers([value])[0] for value in exact), strict=True))
    elif op in _LIKE:
        needle = _folded(values[0]) if op[0] == "i" else values[0]
        bound = {"v": _LIKE[op][0].format(_literally(needle))}
    else:
        bound = {}
    return Condition(
        where=bind(text, bound, timezone=timezone or "UTC", target="where"),
        text=f"{column.name} {_words(op, values, timezone, exclude=exclude, below=below)}",
        column=column.name,
        op=op,
        values=tuple(values),
        exclude=exclude,
        below=below,
    )


def _integers(values: Sequence[Any]) -> list[Any]:
    """Return decimals as integers if all of them are, because their literals are shorter."""
    if all(isinstance(value, Decimal) and value == value.to_integral_value() for value in values):
        integers = list(map(int, values))
        return integers if all(abs(integer) <= _LONG for integer in integers) else list(values)
    return list(values)


def _single(column: Column, op: str, value: Any) -> float:
    """Return the nearest value that a FLOAT column can hold; an end of a range may be larger."""
    try:
        number = float(value)
    except (TypeError, OverflowError):
        number = math.nan
    if math.isnan(number) or (op == "values" and abs(number) > LARGEST_SINGLE):
        raise ArgumentError(f"{value!r} does not fit into the FLOAT column {column.name!r}")
    return single(number)


def _shown_single(value: float) -> float:
    """Return the shortest number with this single-precision value: 0.1, as the cells show it."""
    return float(str(np.float32(value))) if abs(value) <= LARGEST_SINGLE else value


def given_condition(
    column: Column,
    given: Mapping[str, Any],
    *,
    null: bool,
    exclude: bool,
    timezone: str | None,
) -> Condition:
    """Return the one condition that the arguments describe; raise if there are none or several."""
    conditions: list[tuple[str, Sequence[Any]]] = [("null", ())] if null else []
    for op, value in given.items():
        values = value if op in ("range", "values") else (value,)
        if any(item is not None for item in values):
            conditions.append((op, values))
    if len(conditions) != 1:
        raise ArgumentError(
            f"{len(conditions)} conditions were passed for {column.name!r}; exactly one is needed",
            hint="pass one of: low and high, values, contains, starts, null",
        )
    op, values = conditions[0]
    given_values = [value for value in values if op != "range" or value is not None]
    if any(plain(value) is None for value in given_values):
        raise ArgumentError(
            f"a missing value was passed for {column.name!r}, which no row would equal",
            hint="drop missing values (.dropna()), and find nulls by null=True",
        )
    if kind_of(column) == "BOOLEAN" and len(values) == 1 and isinstance(plain(values[0]), bool):
        op, values = str(values[0]).lower(), ()
    return make_condition(column, op, values, exclude=exclude, timezone=timezone)


def typed_condition(
    column: Column,
    op: str,
    texts: Sequence[str],
    *,
    exclude: bool = False,
    below: bool = False,
    timezone: str | None = None,
) -> Condition:
    """Return a condition with values that the user typed; an empty end of a range is open."""
    if op == "range":
        values = [typed_value(column, text) if text.strip() else None for text in texts]
    else:
        values = [typed_value(column, text) for text in texts]
    return make_condition(column, op, values, exclude=exclude, below=below, timezone=timezone)


def typed_texts(condition: Condition, timezone: str | None) -> list[str]:
    """Return the strings from which `typed_condition` builds the same condition."""
    return ["" if value is None else text_of(value, timezone) for value in condition.values]


def _check(op: str, values: Sequence[Any], timezone: str | None) -> None:
    least, most = {"range": (2, 2), "values": (1, MAX_LISTED)}.get(
        op, (1, 1) if op in _LIKE else (0, 0)
    )
    if not least <= len(values) <= most:
        raise ArgumentError(f"the condition has {len(values)} values; enter {least} to {most}")
    if op == "range":
        low, high = values
        if low is None and high is None:
            raise ArgumentError("the range has no bounds; enter a lower end, an upper end or both")
        if None not in values and _is_less(high, low):
            ends = [shown_value(value, timezone) for value in values]
            raise ArgumentError(f"{ends[0]} is greater than {ends[1]}; swap the two values")
    elif op in _LIKE and not (values[0] and isinstance(values[0], str)):
        raise ArgumentError("enter the text to look for")


def _check_numbers(column: Column, values: Sequence[Any]) -> None:
    """Refuse text, which SQL would convert, and booleans, which Python counts as numbers."""
    for value in values:
        if isinstance(plain(value), (str, bytes, bool)):
            raise ArgumentError(
                f"{shown(value)} does not fit into the {column.type.code.name} column "
                f"{column.name!r}",
                hint="pass a number such as 5 or 1.5",
            )


def _is_less(value: Any, other: Any) -> bool:
    try:
        return bool(value < other)
    except TypeError:  # only one of the two times has an offset
        return False


def _template(name: str, op: str, values: Sequence[Any], *, below: bool, exclude: bool) -> str:
    if op == "null":
        return f"{name} is {'not ' if exclude else ''}null"
    if op == "values":
        single, several = ("<>", "not in") if exclude else ("=", "in")
        text = f"{name} {several} (:v)" if len(values) > 1 else f"{name} {single} :v"
        return f"{text} or {name} is null" if exclude else text
    if op == "range":
        low = [f"{name} >= :low"] if values[0] is not None else []
        high = [f"{name} {'<' if below else '<='} :high"] if values[1] is not None else []
        text = " and ".join(low + high)
    else:
        subject = f"lower({name})" if op[0] == "i" else name
        text = f"{subject} like :v" if op in _LIKE else f"{name} = {op.upper()}"
    return f"not ({text}) or {name} is null" if exclude else text


def _folded(text: str) -> str:
    if any(character.lower() != character.upper() for character in text if not character.isascii()):
        raise ArgumentError(
            f"only the letters A to Z can be compared ignoring case, not those of {text!r:.100}",
            hint="search in the whole table, or choose the case-sensitive condition",
        )
    return text.lower()


def _literally(text: str) -> str:
    """Escape the wildcards of LIKE."""
    return "".join(f"\\{character}" if character in "%_\\" else character for character in text)


def _words(
    op: str, values: Sequence[Any], timezone: str | None, *, exclude: bool, below: bool
) -> str:
    shown = ["" if value is None else shown_value(value, timezone) for value in values]
    negated = "not " if exclude else ""
    if op in _LIKE:
        return f"{_LIKE[op][1 + exclude]} “{shown[0]}”"
    if op == "values":
        more = len(shown) - _LISTED
        listed = [*shown[:_LISTED], f"{more} more"] if more > 1 else shown
        head = f"{', '.join(listed[:-1])} or " if len(listed) > 1 else ""
        return f"is {negated}{head}{listed[-1]}"
    if op != "range":
        return f"is {negated}{op}"
    low, high = shown
    if not high:
        return f"{negated}≥ {low}"
    if not low:
        return f"{negated}{'<' if below else '≤'} {high}"
    is_plain = low[0].isdigit() and not isinstance(values[0], datetime.date)
    if below:
        return f"not (≥ {low} and < {high})" if exclude else f"≥ {low} and < {high}"
    return f"{negated}{low}{'–' if is_plain else ' to '}{high}"


def bar_condition(
    column: Column, bar: Bar, timezone: str | None, *, exclude: bool = False
) -> Condition:
    """Return the condition for the rows counted in a bar; with ``exclude``, for all other rows."""
    if bar.is_undrawn:
        return _of_undrawn(column, bar, timezone, exclude=exclude)
    op, values, below = "values", [bar.value], False
    if bar.low is not None:
        op, values, below = "range", [bar.low, bar.high], not bar.last
        if below and isinstance(bar.low, int) and isinstance(bar.high, int):
            values, below = [bar.low, bar.high - 1], False
        elif below and kind_of(column) == "DATE":
            values, below = [bar.low, _day_before(bar.high)], False
    elif bar.value is None:
        raise ArgumentError(f"the values of {column.name!r} cannot be used in a condition")
    elif isinstance(bar.value, bool):
        op, values = str(bar.value).lower(), []
    if op in operations(column):
        return make_condition(column, op, values, exclude=exclude, below=below, timezone=timezone)
    return _of_value(column, bar, timezone, exclude=exclude)


def _day_before(day: Any) -> Any:
    return day - datetime.timedelta(days=1)


def _of_value(column: Column, bar: Bar, timezone: str | None, *, exclude: bool) -> Condition:
    """Return the condition for a value whose type the filter builder cannot edit."""
    name = name_in_sql(column.name)
    text = f"not ({name} = :v) or {name} is null" if exclude else f"{name} = :v"
    where = bind(text, {"v": bar.value}, timezone=timezone or "UTC", target="where")
    shown = f"{column.name} is {'not ' if exclude else ''}{bar.label}"
    return Condition(where=where, text=shown, column=column.name)


def _of_undrawn(column: Column, bar: Bar, timezone: str | None, *, exclude: bool) -> Condition:
    """Return the condition for rows that no bar shows; it does not depend on how NaN is sorted."""
    name = name_in_sql(column.name)
    finite = f"{name} >= -{_LARGEST} and {name} <= {_LARGEST}"
    values: dict[str, object] = {"v": list(bar.others)}
    if bar.low is not None:
        text, values = f"{name} > :v", {"v": bar.low}
    elif bar.high is not None:
        text, values = f"{name} < :v", {"v": bar.high}
    elif None in bar.others:
        raise ArgumentError(f"the values of {column.name!r} cannot be used in a condition")
    else:
        text = f"{name} not in :v"
    if kind_of(column) in ("FLOAT", "DOUBLE"):
        is_not_finite = not bar.others and bar.low is None and bar.high is None
        text = f"not ({finite})" if is_not_finite else f"{text} and {finite}"
    if exclude:
        text = f"not ({text}) or {name} is null"
    return Condition(
        where=bind(text, values, timezone=timezone or "UTC", target="where"),
        text=f"{column.name}{' not' if exclude else ''} {bar.label}",
        column=column.name,
    )


def value_condition(
    column: Column, value: pa.Scalar, timezone: str | None, *, exclude: bool
) -> Condition:
    """Return the condition for rows with a cell's value; with ``exclude``, for all other rows."""
    if not value.is_valid:
        return make_condition(column, "null", exclude=exclude)
    if pa.types.is_nested(value.type) or column.type.code is TypeCode.BLOB:
        raise ArgumentError(f"the values of {column.name!r} cannot be used in a condition")
    label = str(cell_texts(pa.repeat(value, 1), column, LABEL)[0])
    exact = None
    if kind_of(column) in _OF_KIND:
        scale = scale_of(column, value.type)
        exact = value.as_py() if scale is None else scale.exact(value)
    if isinstance(exact, float) and not math.isfinite(exact):  # SQL has no literal for this value
        label, exact = NOT_FINITE, math.nan
    if exact is None:  # a type that the builder cannot edit, or a time with nanoseconds
        return _of_value(column, Bar(label, 0, value=value), timezone, exclude=exclude)
    return bar_condition(column, Bar(label, 0, value=exact), timezone, exclude=exclude)


def all_of(conditions: Sequence[str]) -> str | None:
    """Return the conjunction of the conditions, or ``None`` if there are none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return " and ".join(
        f"({condition})" if _OR.search(condition) else condition for condition in conditions
    )


_OR = re.compile(r"\bor\b", re.IGNORECASE)
