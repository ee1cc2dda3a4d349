"""Replaces ``:name`` in a filter or query by the Python value of that name, quoted safely.

Text inside quotes, back-quotes and comments is left alone, and so are ``::`` and the colons of
``struct<a:int>``. A value never becomes syntax: it is written as a literal, or refused.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.access.checks import check_text
from odps_nb.errors import ArgumentError

__all__ = ["MAX_VALUES", "bind", "bind_query", "literal"]

# For a longer IN list, write a table and join with it.
MAX_VALUES = 10_000

_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
  | (?P<keep>
        '(?:[^'\\]|\\.|'')*'        # text
      | "(?:[^"\\]|\\.|"")*"
      | `(?:[^`]|``)*`              # quoted name
      | ::                          # cast
      | \w+:(?!:)                   # struct<a:int>
    )
  | :(?P<name>[^\W\d]\w*)
  | (?P<word>\w+)
  | (?P<sign>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_AN_ITEM = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*+[,)]", re.DOTALL)


def bind(
    text: str,
    namespace: Mapping[str, object],
    *,
    source: str = "there is no variable",
    timezone: str | None = None,
) -> str:
    """Return ``text`` with each ``:name`` replaced by the literal of ``namespace[name]``.

    A list stands for the values after ``in``, with parentheses around its name or without:
    ``in :names``, ``in (:names)``, ``not in (:names, 'other')``.

    Parameters
    ----------
    source
        How the error for an unknown name begins.
    timezone
        Where the text will be read: datetimes with a zone are written as the clock there shows
        them. ``None``: nobody knows, and they are refused.

    Raises
    ------
    ArgumentError
        No such name (with the nearest ones), a value that has no literal form, or a list where
        it has no meaning.
    """
    place = _Place()
    zone = None if timezone is None else ZoneInfo(timezone)

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            place.move(match)
            return match[0]
        if name not in namespace:
            raise ArgumentError(
                f":{name} has no value: {source} {name!r}",
                argument=name,
                hint=_nearest(name, namespace, source),
            )
        try:
            value = _on_clock(_plain(namespace[name]), zone)
            if isinstance(value, _LISTS):
                written = place.write_list(list(value), text[match.end() :])
            else:
                written = literal(value)
        except ArgumentError as error:
            error.add_note(f":{name}")
            raise
        place.last = "value"
        return written

    return _TOKEN.sub(replace, text)


def bind_query(
    query: str,
    params: Mapping[str, object] | None,
    settings: Mapping[str, str] | None,
    *,
    timezone: str | None,
) -> str:
    """Return a query with ``params`` bound, in the zone of its settings or of the connection.

    Raises
    ------
    ArgumentError
        As `bind`, or the query is empty.
    """
    from odps_nb.client.sql.leading_settings import split_settings
    from odps_nb.client.sql.query import SQL_ZONE

    check_text("query", query)
    if not query.strip():
        raise ArgumentError("the query is empty")
    if params is None:
        return query
    given = {**split_settings(query)[0], **(settings or {})}
    zone = given.get(SQL_ZONE) or timezone
    return bind(query, params, source="params has no", timezone=zone)


@dataclass(slots=True)
class _Place:
    """The context of the next name: the token before it, and before each open parenthesis."""

    last: str = ""
    opened: list[str] = field(default_factory=list)

    def move(self, match: re.Match[str]) -> None:
        """Move past a token that is not a name."""
        if match["comment"]:
            return
        token = match[0].casefold()
        if token == "(":
            self.opened.append(self.last)
        elif token == ")" and self.opened:
            self.opened.pop()
        self.last = "not in" if token == "in" and self.last == "not" else token

    def write_list(self, values: list[object], rest: str) -> str:
        """Format the values of a list after ``in``; a list elsewhere is refused."""
        inside = self.opened[-1] if self.opened and self.last in ("(", ",") else ""
        if inside in _IN and not _ENDS_AN_ITEM.match(rest):
            inside = ""
        before = self.last if self.last in _IN else inside
        if before not in _IN:
            raise ArgumentError(
                "a list can be bound only after in",
                hint="write: column in :name, or column in (:name)",
            )
        if before == "not in" and any(value is None for value in map(_plain, values)):
            raise ArgumentError(
                "a list with None cannot be bound after not in: no row would match",
                hint="remove None, and test with is not null",
            )
        written = _sequence(values)
        return written[1:-1] if inside else written


_IN = ("in", "not in")
_LISTS = (list, tuple, set, frozenset)


def literal(value: object) -> str:
    """Format a Python value as a SQL literal.

    ``None``, bool, int, float, Decimal, str, date, datetime, and a list, tuple, set or array of
    these (for ``IN``); numpy and pandas scalars count as the Python value they hold.
    """
    value = _plain(value)
    if isinstance(value, _LISTS):
        return _sequence(list(value))
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise ArgumentError(
        f"a {type(value).__name__} cannot be bound",
        hint="bind None, bool, int, float, Decimal, str, date, datetime, or a list of these",
    )


def _plain(value: object) -> object:
    """Unwrap numpy, pandas and Arrow values by their own methods, importing none of them."""
    for method in ("to_pydatetime", "tolist", "to_list", "to_pylist", "as_py"):
        unwrap = getattr(value, method, None)
        if callable(unwrap):
            return unwrap()
    return value


def _on_clock(value: object, zone: ZoneInfo | None) -> object:
    """Return a time with a zone as local time in another one."""
    if isinstance(value, _LISTS):
        return [_on_clock(_plain(one), zone) for one in value]
    if zone is None or not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return value
    return value.astimezone(zone).replace(tzinfo=None)


def _sequence(values: list[object]) -> str:
    if not values:
        raise ArgumentError(
            "an empty list cannot be bound",
            # No value can replace it: "in (null)" matches no row, but "not in (null)" neither.
            hint="check for it first: in () is not SQL",
        )
    if len(values) > MAX_VALUES:
        raise ArgumentError(
            f"{len(values):,} values are too many to bind (at most {MAX_VALUES:,})",
            hint="write them to a table and join",
        )
    if any(isinstance(_plain(value), _LISTS) for value in values):
        raise ArgumentError("a list in a list cannot be bound", hint="bind a flat list")
    return "(" + ", ".join(literal(value) for value in values) + ")"


def _text(value: str) -> str:
    r"""Quote text so that all SQL dialects used here read the same characters.

    MaxCompute reads backslashes as escapes, standard SQL does not. So a text with a quote, a
    backslash or a control character is built from pieces that mean the same in both.
    """
    pieces = [
        f"CHR({ord(piece)})" if _UNSAFE.fullmatch(piece) else f"'{piece}'"
        for piece in re.split(f"({_UNSAFE.pattern})", value)
        if piece
    ]
    if not pieces:
        return "''"
    return pieces[0] if len(pieces) == 1 else f"CONCAT({', '.join(pieces)})"


_UNSAFE = re.compile(r"['\\\x00-\x1f\x7f\ufffe\uffff]")


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ArgumentError(
            f"{value} has no SQL literal", hint="test with IS NULL, or bind a finite number"
        )
    return _signed(repr(value))


def _signed(digits: str) -> str:
    """Put a negative number in parentheses: after a minus sign it would begin a comment."""
    return f"({digits})" if digits.startswith("-") else digits


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ArgumentError(f"{value} has no SQL literal", hint="bind a finite number")
    digits = f"{value:f}"
    scale = max(0, -int(value.as_tuple().exponent))
    precision = max(len(value.as_tuple().digits), scale + 1)
    precision = max(precision, len(digits.lstrip("-").replace(".", "")))
    if precision > 38 or scale > 18:
        raise ArgumentError(f"{value} does not fit DECIMAL(38,18)", hint="round it first")
    return f"CAST('{digits}' AS DECIMAL({precision},{scale}))"


def _datetime(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        raise ArgumentError(
            "a datetime with a time zone cannot be bound",
            hint="make it naive in the zone of the table: .astimezone(zone).replace(tzinfo=None)",
        )
    return f"CAST('{value.isoformat(sep=' ')}' AS TIMESTAMP)"


# bool before int and datetime before date: each is a subclass of the other.
_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (type(None), lambda value: "NULL"),
    (bool, lambda value: "TRUE" if value else "FALSE"),
    (int, lambda value: _signed(str(value))),
    (float, _float),
    (Decimal, _decimal),
    (str, _text),
    (datetime.datetime, _datetime),
    (datetime.date, lambda value: f"CAST('{value}' AS DATE)"),
)


def _nearest(name: str, namespace: Mapping[str, object], source: str) -> str:
    from difflib import get_close_matches

    shown = [key for key in namespace if not key.startswith("_")]
    near = get_close_matches(name, shown, n=1)
    if near:
        return f"did you mean :{near[0]}?"
    if "params" in source:
        return f"pass its value: params={{{name!r}: …}}"
    return f"assign it first: {name} = …"
