"""Asks Spark what computed conditions say of the partitions of a table."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from odps_nb import sql_parser
from odps_nb.access.binding.literals import literal
from odps_nb.access.reading.conditions import AllOf, AnyOf, Condition, Negation, Row, Value
from odps_nb.schema import Column
from odps_nb.spark.launch._quiet import without_query_log
from odps_nb.spark.pushdown.parse import ParsedQuery, Reference
from odps_nb.spark.pushdown.plan import TableRead, partition_rows, with_partitions
from odps_nb.terms import PartitionSpec, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Computed", "Evaluated", "Fixed", "choose_partitions", "computed_of", "moments_of"]

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


#: Rows of a query, and values of a table that are asked for at all.
_ROWS_PER_QUERY, _MOST_ROWS = 1000, 20_000
_Answers = tuple[frozenset[tuple[Value | None, ...]], frozenset[tuple[Value | None, ...]]]


#: Places in the text of a query, and what is written there instead.
Fixed = tuple[tuple[int, int, str], ...]


def choose_partitions(
    spark: SparkSession | None,
    reads: Mapping[Reference, TableRead],
    known: Mapping[TableName, Sequence[PartitionSpec]],
) -> tuple[dict[Reference, TableRead], Fixed]:
    """Return the reads with the partitions that they need, and what of the query is fixed for it.

    Without a session, computed conditions choose nothing.

    Parameters
    ----------
    known
        The partitions of each table that has conditions on them.
    """
    computed = list(_computed(reads.values())) if spark is not None else []
    clock = {} if spark is None else _clock(spark, computed)
    made = {}
    for reference, read in reads.items():
        if not read.partition_conditions:
            made[reference] = read
            continue
        if spark is not None and computed:
            read = _evaluated(spark, read, known[read.table], clock)
        made[reference] = with_partitions(read, known[read.table])
    places = sorted(moments_of(computed).items())
    return made, tuple((start, end, clock[kind]) for (start, end), kind in places)


def _computed(reads: Iterable[TableRead]) -> Iterator[Computed]:
    for read in reads:
        for condition in read.partition_conditions:
            yield from _leaves(condition)


def _clock(spark: SparkSession, conditions: Sequence[Computed]) -> dict[str, str]:
    """Return what the clock says, as SQL; nothing if no condition asks for it."""
    if not moments_of(conditions):
        return {}
    row = spark.sql(
        "select cast(current_date() as string) day, unix_micros(current_timestamp()) micros"
    ).collect()[0]
    return {"date": f"date'{row.day}'", "time": f"timestamp_micros({row.micros})"}


def _evaluated(
    spark: SparkSession, read: TableRead, known: Sequence[PartitionSpec], clock: Mapping[str, str]
) -> TableRead:
    """Return the read with Spark's answers in the place of its computed conditions.

    A condition that Spark refuses (a value that is no number, in ANSI mode) says nothing, as does
    one over too many values: then the query itself decides.
    """
    rows = partition_rows(read, known)
    made: dict[Computed, Condition] = {}
    for one in dict.fromkeys(_computed([read])):
        values = {tuple(row[column.name] for _, column in one.names) for row in rows}
        wanted = [some for some in values if None not in some]
        if 0 < len(wanted) <= _MOST_ROWS:
            answers = _ask(spark, one, wanted, clock)
            made[one] = one if answers is None else Evaluated(one, *answers)
    conditions = (_with(one, made) for one in read.partition_conditions)
    return dataclasses.replace(read, partition_conditions=tuple(conditions))


def _ask(
    spark: SparkSession,
    condition: Computed,
    wanted: Sequence[tuple[Value | None, ...]],
    clock: Mapping[str, str],
) -> _Answers | None:
    from pyspark.errors import PySparkException

    holding: set[tuple[Value | None, ...]] = set()
    failing: set[tuple[Value | None, ...]] = set()
    try:
        for first in range(0, len(wanted), _ROWS_PER_QUERY):
            some = wanted[first : first + _ROWS_PER_QUERY]
            with without_query_log():
                rows = spark.sql(_question(condition, some, clock)).collect()
            holding.update(some[row.n] for row in rows if row.holds is True)
            failing.update(some[row.n] for row in rows if row.holds is False)
    except PySparkException:
        return None
    return frozenset(holding), frozenset(failing)


def _question(
    condition: Computed, wanted: Sequence[tuple[Value | None, ...]], clock: Mapping[str, str]
) -> str:
    """Return a query over literals; the condition sees them as columns of the partitions' types."""
    from odps_nb.spark.tasks.types import spark_type

    given = (
        f"cast(_{place} as {spark_type(column.type).simpleString()}) as `{said}`"
        for place, (said, column) in enumerate(condition.names)
    )
    rows = (f"({n}, {', '.join(map(literal, some))})" for n, some in enumerate(wanted))
    places = ", ".join(f"_{place}" for place in range(len(condition.names)))
    inner = f"select n, {', '.join(given)} from values {', '.join(rows)} as v(n, {places})"
    return f"select n, ({condition.at(clock)}) as holds from ({inner}) as `{condition.alias}`"


# -- trees of conditions --------------------------------------------------------------------------


def _leaves(condition: Condition) -> Iterator[Computed]:
    if isinstance(condition, Computed):
        yield condition
    elif isinstance(condition, (AllOf, AnyOf)):
        for part in condition.parts:
            yield from _leaves(part)
    elif isinstance(condition, Negation):
        yield from _leaves(condition.inner)


def _with(condition: Condition, made: Mapping[Computed, Condition]) -> Condition:
    again: Callable[[Condition], Condition] = lambda one: _with(one, made)  # noqa: E731
    if isinstance(condition, Computed):
        return made.get(condition, condition)
    if isinstance(condition, (AllOf, AnyOf)):
        return type(condition)(tuple(map(again, condition.parts)))
    return Negation(again(condition.inner)) if isinstance(condition, Negation) else condition
