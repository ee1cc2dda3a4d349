"""Converts the values of a filter between user input, Python values and short display text."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore.values.cells import kind_of
from odps_nb.schema import Column
from odps_nb.terms import shorten

MAX_TYPED = 1000
"""Maximum characters of a value."""
_SHOWN = 40
_WIDE = Context(prec=400)
_SEPARATED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")
_TOO_FINE = re.compile(r"\.\d{7}")


def typed_value(column: Column, text: str) -> Any:
    """Convert text that a user entered to the column's type; raise `ArgumentError` if invalid.

    A time without an offset is a local time in the time zone of the condition.
    """
    if len(text) > MAX_TYPED:
        raise ArgumentError(f"a value has {len(text):,} characters; the maximum is {MAX_TYPED:,}")
    kind = kind_of(column)
    if kind in ("TEXT", "CHAR"):
        return text
    convert, what, example = _KINDS[kind]
    text = text.strip()
    try:
        return convert(text.replace(",", "") if _SEPARATED.fullmatch(text) else text)
    except (ValueError, InvalidOperation):
        raise ArgumentError(
            f"{shorten(repr(text), _SHOWN)} is not {what}; {column.name!r} needs a value "
            f"such as {example}",
        ) from None


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _double(text: str) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _decimal(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return Decimal(text)


def _time(text: str) -> datetime.datetime:
    if _TOO_FINE.search(text):  # `fromisoformat` would drop digits after the sixth
        raise ValueError(text)
    return datetime.datetime.fromisoformat(text)


def _clock(text: str) -> datetime.datetime:
    moment = _time(text)
    if moment.tzinfo is not None:
        raise ValueError(text)
    return moment


_KINDS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "INTEGER": (_whole, "a whole number", "1234"),
    "FLOAT": (_double, "a number", "1234.5"),
    "DOUBLE": (_double, "a number", "1234.5"),
    "DECIMAL": (_decimal, "a number", "1234.5"),
    "DATE": (datetime.date.fromisoformat, "a date", "2024-01-31"),
    "INSTANT": (_time, "a time", "2024-01-31 10:00:00"),
    "CLOCK": (_clock, "a time", "2024-01-31 10:00:00"),
}


def text_of(value: Any, timezone: str | None) -> str:
    """Return the text that `typed_value` converts back to this value."""
    if isinstance(value, datetime.datetime):
        return _local(value, timezone).isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def shown_value(value: Any, timezone: str | None) -> str:
    """Return a short readable text, with thousands separators."""
    if isinstance(value, datetime.datetime):
        return _local(value, timezone).isoformat(sep=" ")
    if isinstance(value, Decimal):
        return f"{value.normalize(_WIDE):,f}"
    if isinstance(value, float):
        return f"{value:,.15g}"
    if isinstance(value, int):
        return f"{value:,}"
    return shorten(str(value), _SHOWN) or "(empty)"


def _local(moment: datetime.datetime, timezone: str | None) -> datetime.datetime:
    """Return an instant as local time, with the offset if the local time is ambiguous."""
    if moment.tzinfo is None:
        return moment
    zone = ZoneInfo(timezone or "UTC")
    try:
        there = moment.astimezone(zone)
        naive = there.replace(tzinfo=None, fold=0)
        is_same = naive.replace(tzinfo=zone).astimezone(datetime.UTC) == moment
    except OverflowError:  # at the limit of datetime's range
        return moment
    return naive if is_same else there
