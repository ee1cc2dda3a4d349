"""Conditions of a query over one table, as trees of `odps_nb.filters.tree`.

Includes conditions that Spark and the service evaluate alike, and `Computed` conditions over
partitions, which only Spark can evaluate (``ds = date_sub(now(), 1)``). The clock is read once,
during planning, and its value replaces the clock functions in the text that Spark runs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odps_nb import sql_parser
from odps_nb.filters.tree import (
    AllOf,
    AnyOf,
    ColumnValue,
    IsNull,
    Node,
    Not,
    ValueKind,
    nodes_of,
    text_of,
)
from odps_nb.schema import Column, TypeCode
from odps_nb.spark.pushdown.parse import ParsedQuery
from odps_nb.spark.pushdown.scopes import parts_of
from odps_nb.spark.pushdown.understood import is_text

#: Functions that read the clock, and the kind of value (date or time) that each returns.
_CLOCKS = {"current_date": "date", "curdate": "date", "current_timestamp": "time", "now": "time"}
#: Words that Spark replaces with a time, and functions whose value varies between calls.
_TIME_WORDS = frozenset(("now", "today", "tomorrow", "yesterday", "epoch"))
_CHANGING = frozenset(("rand", "randn", "random", "uuid", "localtimestamp"))
_ENDS = frozenset(
    """
    and group order having limit offset union except minus intersect qualify window sort cluster
    distribute lateral join inner left right full cross semi anti natural where on
    """.split()  # noqa: SIM905  # more readable than a list of strings
)
_BEGINS = frozenset(("and", "where", "on"))
# Maximum end positions to try per side: a bracket may belong to a call, an `and` to a `between`.
_TRIES = 10
_NAME = re.compile(r"\w+")
_MAX_WHERE = 16_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed(ColumnValue):
    """A condition over partition columns, as text that Spark evaluates.

    ``names`` maps column names in the text to partition columns. ``clocks`` are the positions of
    clock functions in the query, and ``start`` is the position of the text. If ``is_strict`` is
    true, the condition consists only of comparisons, so it is null if all its columns are null.
    """

    text: str
    alias: str
    names: tuple[tuple[str, Column], ...]
    start: int
    is_strict: bool
    clocks: tuple[tuple[int, int, str], ...] = ()

    def at(self, clock: Mapping[str, str]) -> str:
        """Return the text with the clock functions replaced by the values in ``clock``."""
        pieces, done = [], 0
        for start, end, kind in self.clocks:
            pieces += [self.text[done : start - self.start], clock[kind]]
            done = end - self.start
        return "".join([*pieces, self.text[done:]])


def computed_in(condition: Node) -> Iterator[Computed]:
    """Yield the conditions that Spark has to evaluate."""
    return (node for node in nodes_of(condition) if isinstance(node, Computed))


def columns_in(condition: Node) -> frozenset[str]:
    """Return the names of the columns that a condition uses."""
    names: set[str] = set()
    for node in nodes_of(condition):
        if isinstance(node, Computed):
            names.update(column.name for _, column in node.names)
        elif isinstance(node, ColumnValue):
            names.add(node.name)
    return frozenset(names)


def rejects_nulls(condition: Node) -> bool:
    """Whether a condition is constant, or never true if all of its columns are null."""
    if isinstance(condition, AllOf):
        return any(map(rejects_nulls, condition.parts))
    if isinstance(condition, AnyOf):
        return all(map(rejects_nulls, condition.parts))
    if isinstance(condition, Not) and isinstance(condition.value, IsNull):
        return True
    if isinstance(condition, Computed):
        return condition.is_strict
    return not any(isinstance(node, (IsNull, Computed)) for node in nodes_of(condition))


def within_length(conditions: Iterable[Node]) -> tuple[Node, ...]:
    """Keep as many conditions as fit into one request; Spark applies the others."""
    chosen, size = list[Node](), 0
    for condition in conditions:
        length = len(text_of(condition))
        if size + length <= _MAX_WHERE:
            chosen.append(condition)
            size += length
    return tuple(chosen)


def computed_of(
    query: ParsedQuery, tree: Any, alias: str, columns: Mapping[int, Column]
) -> Computed | None:
    """Return a conjunct as a computed condition; ``None`` if its result may vary between calls.

    ``columns`` maps the node id of each column in the conjunct to its partition column.
    """
    from sqlglot import exp

    nodes = list(tree.find_all(exp.Column))
    known = [(node, columns.get(id(node))) for node in nodes]
    names = {node.name: column for node, column in known if column is not None}
    if not nodes or any(column is None or len(node.parts) > 2 for node, column in known):
        return None
    if not all(map(_NAME.fullmatch, (alias, *names))):
        return None
    if tree.find(exp.Query, exp.Star, exp.Window, exp.AggFunc) is not None:
        return None
    span = _span(query, tree, nodes[0])
    if span is None:
        return None
    tokens = query.tokens[span[0] : span[1]]
    clocks = _clocks(tokens)
    if clocks is None:
        return None
    strict: set[type] = {exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between}
    strict |= {exp.Not, exp.Column, exp.Identifier, exp.Literal, exp.Neg, exp.Paren}
    start, end = tokens[0].start, tokens[-1].end + 1
    text = query.text[start:end]
    return Computed(
        name=" ".join(text.split()),
        kind=ValueKind.BOOLEAN,
        code=TypeCode.BOOLEAN,
        type_text="BOOLEAN",
        text=text,
        alias=alias,
        names=tuple(names.items()),
        start=start,
        is_strict={type(node) for node in tree.walk()} <= strict,
        clocks=clocks,
    )


def _clocks(tokens: Sequence[Any]) -> tuple[tuple[int, int, str], ...] | None:
    """Return the positions of clock functions; ``None`` if other values may vary between calls."""
    clocks = []
    words = ["" if is_text(token) else token.text.lower() for token in tokens]
    for index, (token, word) in enumerate(zip(tokens, words, strict=True)):
        called = words[index + 1 : index + 3] == ["(", ")"]
        if word in _CLOCKS and (called or word.startswith("current_")):
            end = tokens[index + 2 if called else index].end + 1
            clocks.append((token.start, end, _CLOCKS[word]))
            continue
        is_time_word = is_text(token) and token.text.strip().lower() in _TIME_WORDS
        if called or is_time_word or word in _CHANGING or word.startswith("current_"):
            return None
    return tuple(clocks)


def _span(query: ParsedQuery, tree: Any, column: Any) -> tuple[int, int] | None:
    """Return the range of tokens around a conjunct's column that parses to the conjunct's tree."""
    start = column.this.meta.get("start")
    at = next((n for n, token in enumerate(query.tokens) if token.start == start), None)
    if at is None:
        return None
    firsts = itertools.islice(_bounds(query.tokens, at, -1), _TRIES)
    lasts = list(itertools.islice(_bounds(query.tokens, at, 1), _TRIES))
    for first, last in itertools.product(firsts, lasts):
        text = query.text[query.tokens[first].start : query.tokens[last].end + 1]
        if _parses_to(text, tree):
            return first, last + 1
    return None


def _bounds(tokens: Sequence[Any], at: int, step: int) -> Iterator[int]:
    """Yield the token positions, forwards or backwards, at which a conjunct may end."""
    opens, closes = ("(", ")") if step > 0 else (")", "(")
    words, depth = _ENDS if step > 0 else _BEGINS, 0
    while 0 <= (after := at + step) < len(tokens):
        text = "" if is_text(tokens[after]) else tokens[after].text.lower()
        word = text.partition(" ")[0]  # "group by" is one token
        if depth == 0 and (word == closes or word == ";" or word in words):
            yield at
            if word not in (closes, "and"):
                return
        depth = max(0, depth + (word == opens) - (word == closes))
        at = after
    yield at


def _parses_to(text: str, tree: Any) -> bool:
    import sqlglot

    try:
        parsed = sql_parser.parse(f"select 1 where {text}", "spark")[0]
    except (sqlglot.errors.SqlglotError, RecursionError):
        return False
    return parts_of(parsed) == {"expressions", "where"} and bool(
        parsed.args["where"].this.unnest() == tree
    )
