"""Plans what a query reads of each table: columns, partitions, filter, limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from odps_nb.access.engines.comparable import MAX_PARTITIONS, partition_value
from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.columns import used_columns
from odps_nb.spark.pushdown.conditions import Condition, Row, may_be_sent, within_length
from odps_nb.spark.pushdown.extract import conditions_of, where_is_covered
from odps_nb.spark.pushdown.parse import ParsedQuery, Reference
from odps_nb.terms import PartitionSpec, TableName

_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """The planned read of one table reference.

    ``partitions`` is ``None`` for all of them; ``known_partitions`` counts what there are, where
    they were listed. ``conditions`` are applied by the service, ``partition_conditions`` chose
    the partitions (or will, before they are listed).
    """

    name: str
    table: TableName
    schema: TableSchema = field(repr=False)
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    partition_conditions: tuple[Condition, ...] = ()
    partitions: tuple[PartitionSpec, ...] | None = None
    known_partitions: int | None = None
    limit: int | None = None

    @property
    def where(self) -> str | None:
        """The filter that is sent."""
        texts = [f"({one})" for one in self.conditions]
        return " and ".join(texts) if len(texts) > 1 else texts[0][1:-1] if texts else None

    @property
    def is_empty(self) -> bool:
        """Whether no partition is left."""
        return self.partitions == ()

    def summary(self) -> tuple[str, ...]:
        """Describe the read: columns, partitions, filter, limit."""
        told = [f"{len(self.columns)} of {len(self.schema)} columns"]
        if self.partition_conditions:
            told.append(f"{self._counted()} ({_short(self.partition_conditions)})")
        if self.conditions:
            told.append(_short(self.conditions))
        if self.limit is not None:
            told.append(f"at most {self.limit:,} rows")
        return tuple(told)

    def _counted(self) -> str:
        kept = "some" if self.partitions is None else f"{len(self.partitions):,}"
        return f"{kept} of {self.known_partitions or 0:,} partitions"

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(self.summary())}"


def _short(conditions: Sequence[Condition]) -> str:
    text = " and ".join(map(str, conditions)).replace("`", "")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def plan_reads(
    query: ParsedQuery,
    tables: dict[Reference, tuple[TableName, TableSchema]],
    *,
    limit: int | None = None,
) -> dict[Reference, TableRead]:
    """Return what to read for each reference; partitions are not chosen yet.

    Parameters
    ----------
    tables
        The references that are tables of ours.
    limit
        How many rows of the result are wanted at most.
    """
    schemas = {reference: schema for reference, (_, schema) in tables.items()}
    reads = {}
    for reference, (table, schema) in tables.items():
        keys = {column.name for column in schema.partition_columns}
        found = conditions_of(query, reference, schemas)
        chooses = tuple(one for one in found if one.columns() <= keys)
        sent = within_length(tuple(one for one in found if one not in chooses and may_be_sent(one)))
        reads[reference] = TableRead(
            name=str(reference),
            table=table,
            schema=schema,
            columns=used_columns(query, reference, schema),
            conditions=sent,
            partition_conditions=chooses,
            limit=_limit(query, reference, schemas, limit) if len(chooses) == len(found) else None,
        )
    return reads


def with_partitions(read: TableRead, known: Sequence[PartitionSpec]) -> TableRead:
    """Choose the partitions that the query may need.

    A partition goes only if its own values say so. Where too many are left to be named, or one
    that no request can name without doubt, the service is given the condition instead.
    """
    kept = tuple(spec for spec in known if _may_hold(read, spec))
    read = replace(read, known_partitions=len(known), partitions=kept)
    if len(kept) == len(known) and kept:
        read = replace(read, partitions=None)
    elif len(kept) > MAX_PARTITIONS or not all(spec.has_name for spec in kept):
        sent = tuple(one for one in read.partition_conditions if may_be_sent(one))
        read = replace(
            read, partitions=None, conditions=within_length((*read.conditions, *sent)), limit=None
        )
    if read.limit is not None and not _decides(read, known):
        read = replace(read, limit=None)
    return read


def partition_rows(read: TableRead, known: Sequence[PartitionSpec]) -> list[Row]:
    """Return the values of partitions, ``None`` where one is not sure."""
    return [_values(read, spec) for spec in known]


def _values(read: TableRead, spec: PartitionSpec) -> Row:
    texts = {key.casefold(): value for key, value in spec}
    return {
        column.name: partition_value(column, texts.get(column.name.casefold(), "__"))
        for column in read.schema.partition_columns
    }


def _may_hold(read: TableRead, spec: PartitionSpec) -> bool:
    row = _values(read, spec)
    return not any(
        one.holds(row) is False
        for one in read.partition_conditions
        if all(row[name] is not None for name in one.columns())
    )


def _decides(read: TableRead, known: Sequence[PartitionSpec]) -> bool:
    """Whether every row of the chosen partitions satisfies the conditions."""
    rows = [_values(read, spec) for spec in known if _may_hold(read, spec)]
    return all(
        all(row[name] is not None for name in one.columns()) and one.holds(row) is True
        for row in rows
        for one in read.partition_conditions
    )


# -- limit ------------------------------------------------------------------------------------


def _limit(
    query: ParsedQuery,
    reference: Reference,
    schemas: dict[Reference, TableSchema],
    wanted: int | None,
) -> int | None:
    """Return how many rows are enough, for ``select columns from table [where …] [limit n]``.

    The filter of the service is no promise, so the WHERE must be one that partitions decide.
    """
    from sqlglot import exp

    tree = query.tree
    if not (query.is_regular and query.is_repeatable and isinstance(tree, exp.Select)):
        return None
    parts = {key for key, value in tree.args.items() if value}
    if parts - {"expressions", "from", "from_", "where", "limit"}:
        return None
    plain = (exp.Star, exp.Column)
    if not all(isinstance(one.unalias(), plain) for one in tree.expressions):
        return None
    if reference.node.parent.parent is not tree:
        return None
    if not where_is_covered(query, reference, schemas):
        return None
    said = tree.args.get("limit")
    if said is None:
        return wanted
    count = _whole_number(said.expression)
    if count is None:  # an expression is Spark's
        return None
    return count if wanted is None else min(count, wanted)


def _whole_number(tree: Any) -> int | None:
    from sqlglot import exp

    text = str(tree.this) if isinstance(tree, exp.Literal) and not tree.is_string else ""
    return int(text) if text.isascii() and text.isdecimal() else None
