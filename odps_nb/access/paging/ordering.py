"""Column names in SQL, and the order in which an explorer sorts rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from odps_nb.errors import ArgumentError
from odps_nb.schema import Column
from odps_nb.type_facts import TYPE_FACTS
from odps_nb.wire.type_text import format_type

MAX_SORTED = 10_000
"""Number of rows to sort at first: SQL requires a limit with ``order by``."""
MORE_SORTED = 1_000_000
"""Number of rows to sort when a page beyond the first rows is opened."""
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_WORDS = frozenset({"all", "and", "as", "asc", "between", "by", "case", "cast", "date", "desc"})
_WORDS |= {"distinct", "else", "end", "exists", "false", "from", "group", "having", "if", "in"}
_WORDS |= {"interval", "is", "join", "left", "like", "limit", "not", "null", "on", "or", "order"}
_WORDS |= {"right", "select", "table", "then", "timestamp", "true", "union", "using", "values"}
_WORDS |= {"when", "where", "with"}


def name_in_sql(name: str) -> str:
    """Return a column name for SQL and ``where=``, in backticks if necessary."""
    plain = _PLAIN_NAME.fullmatch(name) and name.casefold() not in _WORDS
    return name if plain else f"`{name.replace('`', '``')}`"


Order = tuple[tuple[str, bool], ...]
"""Columns to sort by, the most significant first, each with a flag for descending order."""


def can_be_sorted(column: Column) -> bool:
    """Whether ``order by`` accepts the column; nested, JSON and binary values have no order."""
    facts = TYPE_FACTS[column.type.code]
    return bool(facts.width) or facts.kind not in ("OTHER", "BYTES")


def check_order(columns: Sequence[Column], order: Order) -> None:
    """Raise `ArgumentError` if a column to sort by is missing, repeated or not sortable."""
    known = {column.name: column for column in columns}
    for name, _ in order:
        if name not in known:
            raise ArgumentError(f"there is no column {name!r} to sort by")
        if not can_be_sorted(known[name]):
            kind = format_type(known[name].type)
            raise ArgumentError(
                f"rows cannot be sorted by {name!r}: {kind} values have no order",
                hint="sort by a column of numbers, times, strings or booleans",
            )
    if len({name for name, _ in order}) < len(order):
        raise ArgumentError("a column to sort by is listed twice")


def order_by(columns: Sequence[Column], order: Order, most: int = MAX_SORTED) -> str:
    """Return the ORDER BY clause, with the limit that SQL requires."""
    check_order(columns, order)
    keys = [name_in_sql(name) + (" desc" if descending else "") for name, descending in order]
    return f" order by {', '.join(keys)} limit {most}"
