"""Evaluates `Computed` conditions in Spark for each partition of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from odps_nb.access.binding.literals import literal
from odps_nb.access.engines.comparable import Value
from odps_nb.spark.launch._quiet import without_query_log
from odps_nb.spark.pushdown.conditions import Computed, computed_in
from odps_nb.spark.pushdown.parse import Reference
from odps_nb.spark.pushdown.plan import Answers, TableRead, partition_rows, with_partitions
from odps_nb.terms import PartitionSpec, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Maximum rows of one evaluation query, and maximum distinct values per condition.
_ROWS_PER_QUERY, _MOST_ROWS = 1000, 20_000
#: Replacements in a query's text, as (start, end, replacement).
Fixed = tuple[tuple[int, int, str], ...]


def choose_partitions(
    spark: SparkSession | None,
    reads: Mapping[Reference, TableRead],
    known: Mapping[tuple[TableName, tuple[PartitionSpec, ...]], Sequence[PartitionSpec]],
) -> tuple[dict[Reference, TableRead], Fixed]:
    """Return the reads with their partitions, and the clock values to insert into the query.

    Without a session, computed conditions are ignored. ``known`` contains the partitions of each
    table that has conditions on partitions, under the specs of `TableRead.listed`.
    """
    wanted: dict[Computed, set[tuple[Value | None, ...]]] = {}
    for read in reads.values():
        for condition in read.partition_conditions:
            for one in computed_in(condition):
                rows = partition_rows(read, known[read.table, read.listed])
                values = {tuple(row[column.name] for _, column in one.names) for row in rows}
                wanted.setdefault(one, set()).update(some for some in values if None not in some)
    if spark is None:
        wanted = {}
    places = {(start, end): kind for one in wanted for start, end, kind in one.clocks}
    clock = _clock(spark) if spark is not None and places else {}
    answers: Answers = {}
    for one, some in wanted.items():
        if spark is not None and 0 < len(some) <= _MOST_ROWS:
            answers[one] = _ask(spark, one, list(some), clock)
    made = {
        ref: with_partitions(
            read, known[read.table, read.listed], answers, whole=not any(map(len, read.listed))
        )
        if read.partition_conditions
        else read
        for ref, read in reads.items()
    }
    return made, tuple((start, end, clock[kind]) for (start, end), kind in sorted(places.items()))


def _clock(spark: SparkSession) -> dict[str, str]:
    """Return the current date and time of Spark's session as SQL literals."""
    row = spark.sql(
        "select cast(current_date() as string) day, unix_micros(current_timestamp()) micros"
    ).collect()[0]
    return {"date": f"date'{row.day}'", "time": f"timestamp_micros({row.micros})"}


def _ask(
    spark: SparkSession,
    condition: Computed,
    wanted: Sequence[tuple[Value | None, ...]],
    clock: Mapping[str, str],
) -> dict[tuple[Value | None, ...], bool | None]:
    """Return Spark's result for each combination of partition values.

    The result is empty if Spark raises an error (e.g. for text that is not a number in ANSI mode);
    the query itself then raises the same error.
    """
    from pyspark.errors import PySparkException

    found: dict[tuple[Value | None, ...], bool | None] = {}
    try:
        for first in range(0, len(wanted), _ROWS_PER_QUERY):
            some = wanted[first : first + _ROWS_PER_QUERY]
            with without_query_log():
                rows = spark.sql(_question(condition, some, clock)).collect()
            found.update((some[row.n], row.holds) for row in rows)
    except PySparkException:
        return {}
    return found


def _question(
    condition: Computed, wanted: Sequence[tuple[Value | None, ...]], clock: Mapping[str, str]
) -> str:
    """Return a query that evaluates the condition over literals, cast to the partitions' types."""
    from odps_nb.spark.tasks.types import spark_type

    given = (
        f"cast(_{place} as {spark_type(column.type).simpleString()}) as `{said}`"
        for place, (said, column) in enumerate(condition.names)
    )
    rows = (f"({n}, {', '.join(map(literal, some))})" for n, some in enumerate(wanted))
    places = ", ".join(f"_{place}" for place in range(len(condition.names)))
    inner = f"select n, {', '.join(given)} from values {', '.join(rows)} as v(n, {places})"
    return f"select n, ({condition.at(clock)}) as holds from ({inner}) as `{condition.alias}`"
