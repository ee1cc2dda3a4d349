"""Converts literals of a query to Python values, where their meaning is certain."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from odps_nb.access.engines.comparable import Value
from odps_nb.spark.pushdown.comparisons import Moment, moment_of

__all__ = ["value_of"]

_WHOLE = re.compile(r"[0-9]{1,40}")
_EXPONENT = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?[eE][+-]?[0-9]{1,2}")  # a DOUBLE
_POINT = re.compile(r"[0-9]{0,40}\.[0-9]{0,40}")


def value_of(tree: Any, texts: frozenset[str]) -> Value | Moment | None:
    """Return the value of a literal; ``None`` for any other expression.

    Parameters
    ----------
    texts
        What the query's literals surely say (`ParsedQuery.plain_texts`).
    """
    from sqlglot import exp

    if isinstance(tree, exp.Neg):
        value = value_of(tree.this.unnest(), texts)
        number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
        return -value if number else None  # type: ignore[operator]  # it is a number
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Literal):
        return _literal(tree, texts)
    if isinstance(tree, exp.Concat):
        return _concat(tree.expressions, texts)
    if isinstance(tree, exp.Cast):
        return _cast(tree, texts)
    return None


def _literal(tree: Any, texts: frozenset[str]) -> Value | None:
    if tree.is_string:
        return str(tree.this) if tree.this in texts else None
    text = str(tree.this)
    if _WHOLE.fullmatch(text):
        return int(text)
    if _EXPONENT.fullmatch(text):
        return float(text)
    return Decimal(text) if _POINT.fullmatch(text) and text != "." else None


def _concat(parts: Sequence[Any], texts: frozenset[str]) -> str | None:
    """Read what `odps_nb.access.binding` makes of text: ``concat('it', chr(39), 's')``.

    Two literals side by side are none of its making: ``'it''s'`` is not the same text in all
    versions of Spark.
    """
    from sqlglot import exp

    pieces: list[str] = []
    for number, part in enumerate(parts):
        if isinstance(part, exp.Chr):
            code = value_of(part.expressions[0], texts) if len(part.expressions) == 1 else None
            if type(code) is not int or not 0 < code < 128:
                return None
            pieces.append(chr(code))
            continue
        beside = number and isinstance(parts[number - 1], exp.Literal)
        text = value_of(part, texts) if isinstance(part, exp.Literal) and not beside else None
        if not isinstance(text, str):
            return None
        pieces.append(text)
    return "".join(pieces)


def _cast(tree: Any, texts: frozenset[str]) -> Value | Moment | None:
    """Read ``date '2024-01-31'``, times, casts of such texts, and exact decimals."""
    from sqlglot import exp

    text = tree.this
    if not (isinstance(text, exp.Literal) and text.is_string and text.this in texts):
        return None
    if tree.to.this is exp.DataType.Type.DATE:
        return _date(text.this)
    if tree.to.this is exp.DataType.Type.DECIMAL:
        return _decimal(text.this, tree.to.expressions)
    if tree.to.this.name in _TIMES:
        clock = moment_of(text.this)
        return None if clock is None else Moment(clock, zoned=_TIMES[tree.to.this.name])
    return None


# How sqlglot names Spark's types of times, and whether they are instants.
_TIMES = {"TIMESTAMPTZ": True, "TIMESTAMPLTZ": True, "TIMESTAMPNTZ": False}


def _date(text: str) -> datetime.date | None:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def _decimal(text: str, parameters: Sequence[Any]) -> Decimal | None:
    """Return the value of a cast that keeps every digit of the text."""
    numbers = [str(one.this.this) for one in parameters]
    digits = text.removeprefix("-")
    if len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
        return None
    if not (_WHOLE.fullmatch(digits) or re.fullmatch(r"[0-9]{1,38}\.[0-9]{1,38}", digits)):
        return None
    precision, scale = map(int, numbers)
    value = Decimal(text)
    fraction = len(digits.partition(".")[2])
    whole = len(digits.partition(".")[0].lstrip("0"))
    return value if fraction <= scale and whole <= precision - scale else None
