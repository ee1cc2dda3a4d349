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
    inputs: dict[Computed, set[tuple[Value | None, ...]]] = {}
    for read in reads.values():
        for condition in read.partition_conditions:
            for computed in computed_in(condition):
                rows = partition_rows(read, known[read.table, read.listed])
                values = {tuple(row[column.name] for _, column in computed.names) for row in rows}
                inputs.setdefault(computed, set()).update(
                    combination for combination in values if None not in combination
                )
    if spark is None:
        inputs = {}
    clocks = {(start, end): kind for computed in inputs for start, end, kind in computed.clocks}
    clock = _clock(spark) if spark is not None and clocks else {}
    answers: Answers = {}
    for computed, combinations in inputs.items():
        if spark is not None and 0 < len(combinations) <= _MOST_ROWS:
            answers[computed] = _ask(spark, computed, list(combinations), clock)
    planned = {
        ref: with_partitions(
            read, known[read.table, read.listed], answers, whole=not any(map(len, read.listed))
        )
        if read.partition_conditions
        else read
        for ref, read in reads.items()
    }
    return planned, tuple(
        (start, end, clock[kind]) for (start, end), kind in sorted(clocks.items())
    )


def _clock(spark: SparkSession) -> dict[str, str]:
    """Return the current date and time of Spark's session as SQL literals."""
    row = spark.sql(
        "select cast(current_date() as string) day, unix_micros(current_timestamp()) micros"
    ).collect()[0]
    return {"date": f"date'{row.day}'", "time": f"timestamp_micros({row.micros})"}


def _ask(
    spark: SparkSession,
    condition: Computed,
    combinations: Sequence[tuple[Value | None, ...]],
    clock: Mapping[str, str],
) -> dict[tuple[Value | None, ...], bool | None]:
    """Return Spark's result for each combination of partition values.

    The result is empty if Spark raises an error (e.g. for text that is not a number in ANSI mode);
    the query itself then raises the same error.
    """
    from pyspark.errors import PySparkException

    results: dict[tuple[Value | None, ...], bool | None] = {}
    try:
        for first in range(0, len(combinations), _ROWS_PER_QUERY):
            chunk = combinations[first : first + _ROWS_PER_QUERY]
            with without_query_log():
                rows = spark.sql(_question(condition, chunk, clock)).collect()
            results.update((chunk[row.n], row.holds) for row in rows)
    except PySparkException:
        return {}
    return results


def _question(
    condition: Computed, combinations: Sequence[tuple[Value | None, ...]], clock: Mapping[str, str]
) -> str:
    """Return a query that evaluates the condition over literals, cast to the partitions' types."""
    from odps_nb.spark.tasks.types import spark_type

    casts = (
        f"cast(_{number} as {spark_type(column.type).simpleString()}) as `{name}`"
        for number, (name, column) in enumerate(condition.names)
    )
    rows = (
        f"({n}, {', '.join(map(literal, combination))})"
        for n, combination in enumerate(combinations)
    )
    labels = ", ".join(f"_{number}" for number in range(len(condition.names)))
    inner = f"select n, {', '.join(casts)} from values {', '.join(rows)} as v(n, {labels})"
    # without "and true", a condition that is not boolean would return its value
    holds = f"({condition.at(clock)}) and true"
    return f"select n, {holds} as holds from ({inner}) as `{condition.alias}`"
