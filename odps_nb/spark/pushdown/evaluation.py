"""Asks Spark what computed conditions say of the partitions of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from odps_nb.access.binding.literals import literal
from odps_nb.access.engines.comparable import Value
from odps_nb.spark.launch._quiet import without_query_log
from odps_nb.spark.pushdown.computed import Computed, Evaluated, moments_of
from odps_nb.spark.pushdown.conditions import AllOf, AnyOf, Condition, Negation
from odps_nb.spark.pushdown.parse import Reference
from odps_nb.spark.pushdown.plan import TableRead, partition_rows, with_partitions
from odps_nb.terms import PartitionSpec, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
