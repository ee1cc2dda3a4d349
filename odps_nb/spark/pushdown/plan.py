"""Plans how each table of a query is read: columns, partitions, filter, limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from odps_nb.access.engines.comparable import MAX_PARTITIONS, Value, partition_value
from odps_nb.filters.evaluate import mask_of
from odps_nb.filters.row_filter import fixed_partitions
from odps_nb.filters.tree import ColumnValue, Node, text_of, with_columns
from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.columns import used_columns
from odps_nb.spark.pushdown.conditions import Computed, columns_in, computed_in, within_length
from odps_nb.spark.pushdown.extract import conditions_of, where_is_covered
from odps_nb.spark.pushdown.parse import ParsedQuery, Reference
from odps_nb.spark.pushdown.scopes import parts_of
from odps_nb.terms import PartitionSpec, TableName, shorten

_SHOWN = 200
Row = Mapping[str, Value | None]
#: Spark's results for computed conditions, keyed by partition values.
Answers = dict[Computed, dict[tuple[Value | None, ...], bool | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """The planned read of one table reference.

    ``partitions`` is ``None`` if all partitions are read; ``known_partitions`` is the number
    of the table's partitions, if all of them were listed. ``conditions`` filter rows, and
    ``partition_conditions`` select partitions.
    """

    name: str = field(compare=False)
    table: TableName
    schema: TableSchema = field(repr=False)
    columns: tuple[str, ...]
    conditions: tuple[Node, ...] = ()
    partition_conditions: tuple[Node, ...] = ()
    partitions: tuple[PartitionSpec, ...] | None = None
    known_partitions: int | None = None
    limit: int | None = None

    @property
    def listed(self) -> tuple[PartitionSpec, ...]:
        """Specs of the partitions to list; one empty spec for all."""
        return fixed_partitions(self.partition_conditions, self.schema.partition_columns)

    @property
    def is_empty(self) -> bool:
        """Whether no partitions remain to be read."""
        return self.partitions == ()

    def summary(self) -> tuple[str, ...]:
        """Describe the read: columns, partitions, filter, limit."""
        parts = [f"{len(self.columns)} of {len(self.schema)} columns"]
        if self.partition_conditions:
            count = "some" if self.partitions is None else f"{len(self.partitions):,}"
            counted = f"{count} partitions"
            if self.known_partitions is not None:
                counted = f"{count} of {self.known_partitions:,} partitions"
            elif count == "1":
                counted = "1 partition"
            parts.append(f"{counted} ({_short(self.partition_conditions)})")
        if self.conditions:
            parts.append(_short(self.conditions))
        if self.limit is not None:
            parts.append(f"at most {self.limit:,} rows")
        return tuple(parts)

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(self.summary())}"


def _short(conditions: Sequence[Node]) -> str:
    return shorten(" and ".join(map(text_of, conditions)), _SHOWN)


def plan_reads(
    query: ParsedQuery,
    tables: dict[Reference, tuple[TableName, TableSchema]],
    *,
    limit: int | None = None,
) -> dict[Reference, TableRead]:
    """Return the read for each reference to an ODPS table; partitions are chosen later."""
    schemas = {reference: schema for reference, (_, schema) in tables.items()}
    reads = {}
    for reference, (table, schema) in tables.items():
        keys = {column.name for column in schema.partition_columns}
        conditions = conditions_of(query, reference, schemas)
        chooses = tuple(condition for condition in conditions if columns_in(condition) <= keys)
        reads[reference] = TableRead(
            name=str(reference),
            table=table,
            schema=schema,
            columns=used_columns(query, reference, schema),
            conditions=within_length(
                condition for condition in conditions if condition not in chooses
            ),
            partition_conditions=chooses,
            limit=_limit(query, reference, schemas, limit)
            if len(chooses) == len(conditions)
            else None,
        )
    return reads


def with_partitions(
    read: TableRead,
    known: Sequence[PartitionSpec],
    answers: Answers | None = None,
    *,
    whole: bool = True,
) -> TableRead:
    """Choose the partitions that the query may need from ``known``: all partitions if ``whole``.

    ``answers`` are Spark's results for computed conditions, keyed by partition values. If too many
    partitions are left, or if a request cannot express a partition unambiguously, the condition
    filters the rows instead.
    """
    results = _held(read, known, answers or {})
    remaining = tuple(spec for spec, held in zip(known, results, strict=True) if False not in held)
    decided = all(False in held or all(held) for held in results)
    read = replace(read, known_partitions=len(known) if whole else None, partitions=remaining)
    if not decided:
        read = replace(read, limit=None)
    if whole and len(remaining) == len(known) and remaining:
        return replace(read, partitions=None)
    if len(remaining) <= MAX_PARTITIONS and all(spec.has_name for spec in remaining):
        return read
    sent = (condition for condition in read.partition_conditions if not any(computed_in(condition)))
    conditions = within_length((*read.conditions, *sent))
    return replace(read, partitions=None, conditions=conditions, limit=None)


def partition_rows(read: TableRead, known: Sequence[PartitionSpec]) -> list[Row]:
    """Return the typed values of each partition; ``None`` replaces each uncertain value."""
    rows: list[Row] = []
    for spec in known:
        texts = {key.casefold(): value for key, value in spec}
        rows.append(
            {
                column.name: partition_value(column, texts.get(column.name.casefold(), "__"))
                for column in read.schema.partition_columns
            }
        )
    return rows


def _held(
    read: TableRead, known: Sequence[PartitionSpec], answers: Answers
) -> list[list[bool | None]]:
    """Return the result of each condition for each partition; ``None`` if it is unknown."""
    rows = partition_rows(read, known)
    results = [_holds(condition, rows, answers) for condition in read.partition_conditions]
    return [[values[index] for values in results] for index in range(len(rows))]


def _holds(condition: Node, rows: Sequence[Row], answers: Answers) -> list[bool | None]:
    # A null means false; where Spark has returned no result, the value stays unknown.
    names, unknown = columns_in(condition), set[int]()
    sure = [row for row in rows if all(row[name] is not None for name in names)]
    columns = {name: pa.array([row[name] for row in sure]) for name in names}

    def as_column(node: ColumnValue) -> ColumnValue:
        if not isinstance(node, Computed):
            return node
        results = answers.get(node, {})
        keys = [tuple(row[column.name] for _, column in node.names) for row in sure]
        unknown.update(index for index, key in enumerate(keys) if key not in results)
        name = f"{len(columns)} computed"
        columns[name] = pa.array(map(results.get, keys), pa.bool_())
        return ColumnValue(name, node.kind, node.code, node.type_text)

    tree = with_columns(condition, as_column)
    mask = mask_of(tree, columns, len(sure)).to_pylist() if sure else []
    held = iter([value if index in unknown else bool(value) for index, value in enumerate(mask)])
    return [next(held) if all(row[n] is not None for n in names) else None for row in rows]


def _limit(
    query: ParsedQuery,
    reference: Reference,
    schemas: dict[Reference, TableSchema],
    requested: int | None,
) -> int | None:
    """Return how many rows suffice for ``select columns from table [where …] [limit n]``.

    The service may return rows that do not match, so WHERE may only use partition columns.
    """
    from sqlglot import exp

    tree = query.tree
    if not (query.is_regular and query.is_repeatable and isinstance(tree, exp.Select)):
        return None
    if parts_of(tree) - {"expressions", "from_", "where", "limit"}:
        return None
    plain = all(
        isinstance(expression.unalias(), (exp.Star, exp.Column)) for expression in tree.expressions
    )
    if not plain or reference.node.parent.parent is not tree:
        return None
    if not where_is_covered(query, reference, schemas):
        return None
    clause = tree.args.get("limit")
    if clause is None:
        return requested
    count = clause.expression
    text = str(count.this) if isinstance(count, exp.Literal) and not count.is_string else ""
    if not (text.isascii() and text.isdecimal()):  # Spark evaluates expressions
        return None
    return int(text) if requested is None else min(int(text), requested)
