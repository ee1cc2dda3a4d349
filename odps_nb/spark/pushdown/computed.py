"""Conditions over partitions that only Spark can evaluate: ``ds = date_sub(current_date(), 1)``.

Spark evaluates the text as it was typed, over the values of the partitions that there are: a
local query, without a job. What the clock says is asked once, when the query is planned, and is
written into the text that Spark runs afterwards, so that both speak of the same day.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from odps_nb import sql_parser
from odps_nb.access.engines.comparable import Value
from odps_nb.schema import Column
from odps_nb.spark.pushdown.conditions import Condition, Row
from odps_nb.spark.pushdown.parse import ParsedQuery

#: Words for what the clock says, with the one of Spark that is asked for it.
_CLOCKS = {"current_date": "date", "curdate": "date", "current_timestamp": "time", "now": "time"}
#: Texts that Spark reads by the clock, and words that have another value each time or place.
_SPOKEN = frozenset(("now", "today", "tomorrow", "yesterday", "epoch"))
_CHANGING = frozenset(("rand", "randn", "random", "uuid", "localtimestamp"))
_ENDS = frozenset(
    """
    and group order having limit offset union except minus intersect qualify window sort cluster
    distribute lateral join inner left right full cross semi anti natural where on
    """.split()  # noqa: SIM905  # as a text it can be read
)
_BEGINS = frozenset(("and", "where", "on"))
_TRIES = 10  # ends and beginnings: a bracket may be of a call, and `and` of `between`
_NAME = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed(Condition):
    """A condition as it is typed; what it says of a partition is not known before it is evaluated.

    ``names`` are the columns in the text, each with the partition column that it means. ``clocks``
    are the places in the query where the clock is asked, ``start`` that of the text.
    """

    is_sent: ClassVar[bool] = False

    text: str
    alias: str
    names: tuple[tuple[str, Column], ...]
    start: int
    clocks: tuple[tuple[int, int, str], ...] = ()

    def columns(self) -> frozenset[str]:
        """Return the names of the partition columns."""
        return frozenset(column.name for _, column in self.names)

    def holds(self, row: Row) -> bool | None:
        """Return nothing: Spark has to be asked."""
        return None

    def rejects_nulls(self) -> bool:
        """Return false: it is not known."""
        return False

    def renamed(self, names: Mapping[str, str]) -> Computed:
        """Name other columns, with the same names in the text."""
        renamed = (
            (said, dataclasses.replace(column, name=names[column.name]))
            for said, column in self.names
        )
        return dataclasses.replace(self, names=tuple(renamed))

    def at(self, clock: Mapping[str, str]) -> str:
        """Return the text with what the clock says in the place of its words."""
        pieces, done = [], 0
        for start, end, kind in self.clocks:
            pieces += [self.text[done : start - self.start], clock[kind]]
            done = end - self.start
        return "".join([*pieces, self.text[done:]])

    def __str__(self) -> str:
        return " ".join(self.text.split())


@dataclass(frozen=True, slots=True)
class Evaluated(Condition):
    """A computed condition whose answers for some values are known."""

    is_sent: ClassVar[bool] = False

    of: Computed
    holding: frozenset[tuple[Value | None, ...]]
    failing: frozenset[tuple[Value | None, ...]]

    def columns(self) -> frozenset[str]:
        """Return the names of the partition columns."""
        return self.of.columns()

    def holds(self, row: Row) -> bool | None:
        """Return what Spark answered; unknown for other values."""
        values = tuple(row[column.name] for _, column in self.of.names)
        return True if values in self.holding else False if values in self.failing else None

    def rejects_nulls(self) -> bool:
        """Return false: nulls were not asked for."""
        return False

    def renamed(self, names: Mapping[str, str]) -> Evaluated:
        """Name other columns."""
        return dataclasses.replace(self, of=self.of.renamed(names))

    def __str__(self) -> str:
        return str(self.of)


def moments_of(conditions: Sequence[Computed]) -> dict[tuple[int, int], str]:
    """Return the places in the query where conditions ask the clock, and what each asks for."""
    return {(start, end): kind for one in conditions for start, end, kind in one.clocks}


def computed_of(
    query: ParsedQuery, tree: Any, alias: str, columns: Mapping[int, Column]
) -> Computed | None:
    """Return a conjunct as a computed condition; ``None`` where Spark's answer may change.

    Parameters
    ----------
    columns
        The partition column that each column of the conjunct means, by the id of its node; none
        other may be in it.
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
    start, end = tokens[0].start, tokens[-1].end + 1
    return Computed(
        text=query.text[start:end],
        alias=alias,
        names=tuple(names.items()),
        start=start,
        clocks=clocks,
    )


def _clocks(tokens: Sequence[Any]) -> tuple[tuple[int, int, str], ...] | None:
    """Return where the clock is asked; ``None`` if something else may change."""
    found = []
    said = ["" if _is_text(one) else one.text.lower() for one in tokens]
    for place, (token, word) in enumerate(zip(tokens, said, strict=True)):
        called = said[place + 1 : place + 3] == ["(", ")"]
        if word in _CLOCKS and (called or word.startswith("current_")):
            end = tokens[place + 2 if called else place].end + 1
            found.append((token.start, end, _CLOCKS[word]))
            continue
        spoken = _is_text(token) and token.text.strip().lower() in _SPOKEN
        if called or spoken or word in _CHANGING or word.startswith("current_"):
            return None
    return tuple(found)


def _is_text(token: Any) -> bool:
    return bool(token.token_type.name == "STRING")


# -- where a conjunct stands in the text ----------------------------------------------------------


def _span(query: ParsedQuery, tree: Any, column: Any) -> tuple[int, int] | None:
    """Return the tokens of a conjunct: of those around its column, what parses to the same."""
    place = column.this.meta.get("start")
    at = next((n for n, one in enumerate(query.tokens) if one.start == place), None)
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
    """Yield the tokens from one on, forwards or backwards, at which its conjunct may end.

    Those are the last ones before a bracket that is around it, an ``and``, or another clause.
    """
    opens, closes = ("(", ")") if step > 0 else (")", "(")
    words, depth = _ENDS if step > 0 else _BEGINS, 0
    while 0 <= (after := at + step) < len(tokens):
        said = "" if _is_text(tokens[after]) else tokens[after].text.lower()
        word = said.partition(" ")[0]  # "group by" is one token
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
    parts = {key for key, value in parsed.args.items() if value}
    return parts == {"expressions", "where"} and bool(parsed.args["where"].this.unnest() == tree)
