"""Estimates the cost of queries for ``SQLCost`` jobs, and rejects queries as real projects do.

``docs/protocol.md`` section 9.3 describes what is known about the real service's estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from odps_nb.local import errors
from odps_nb.local.sql.parsing.statements import CreateTable, Insert, SelectStatement, Statement
from odps_nb.local.sql.query import FindTable, parse_query, tables_of
from odps_nb.local.store.snapshots import Segment
from odps_nb.local.store.tables import StoredTable
from odps_nb.terms import PartitionSpec
from odps_nb.wire.control import SqlCost

# The number of these nodes in a query determines its reported complexity.
_COUNTED = (exp.Join, exp.Group, exp.Order, exp.Distinct, exp.Window)
_STEPS = ((20, 4.0), (7, 2.0), (4, 1.5))


def estimate(
    statements: Iterable[Statement],
    find: FindTable,
    segments_of: Callable[[StoredTable], Iterable[Segment]],
) -> SqlCost:
    """Return the cost of a job: the bytes of the partitions that it cannot prune."""
    size, most = 0, 1.0
    for statement in statements:
        keywords = 1
        text = statement.text if isinstance(statement, SelectStatement) else None
        if isinstance(statement, (Insert, CreateTable)):
            text = statement.query
        if text is not None:
            query = parse_query(text)
            keywords += sum(1 for _ in query.find_all(*_COUNTED))
            for node, table in iter_scans(query, find):
                keep = _kept(node, table)
                size += sum(
                    segment.raw_bytes for segment in segments_of(table) if keep(segment.spec)
                )
        most = max(most, next((factor for least, factor in _STEPS if keywords >= least), 1.0))
    return SqlCost(input_bytes=size, complexity=most, udfs=0)


def iter_scans(
    query: Any, find: FindTable, views: tuple[StoredTable, ...] = ()
) -> Iterator[tuple[Any, StoredTable]]:
    """Yield each table that a query reads, directly or through views, with its node in the tree."""
    for node, name in tables_of(query):
        table = find(name, views[-1] if views else None)
        if any(view.table_id == table.table_id for view in views):
            raise errors.semantic(f"the view {table.name} refers to itself")
        if table.view is not None:
            yield from iter_scans(parse_query(table.view.text), find, (*views, table))
        else:
            yield node, table


def _kept(node: Any, table: StoredTable) -> Callable[[PartitionSpec], bool]:
    """Return a function that tests whether a partition may satisfy the query's conditions."""
    conditions = [
        condition.copy().transform(_spelled_out) for condition in partition_conditions(node, table)
    ]
    return lambda spec: all(_may_hold(condition, dict(spec.items)) for condition in conditions)


def _spelled_out(node: Any) -> Any:
    """Rewrite ``in`` as comparisons, which sqlglot can simplify."""
    if isinstance(node, exp.In) and node.expressions:
        each = (exp.EQ(this=node.this, expression=value) for value in node.expressions)
        return exp.paren(exp.or_(*each))
    return node


def partition_conditions(node: Any, table: StoredTable) -> list[Any]:
    """Return the conditions of a query that use only partition columns of a table."""
    select = node.find_ancestor(exp.Select)
    where = None if select is None else select.args.get("where")
    keys = {column.name.casefold() for column in table.schema.partition_columns}
    if where is None or not keys:
        return []
    alone = not select.args.get("joins")
    return [
        condition
        for condition in (where.this.flatten() if isinstance(where.this, exp.And) else [where.this])
        if all(
            column.name.casefold() in keys
            and (column.table.casefold() == node.alias_or_name.casefold() or not column.table)
            and (alone or column.table)
            for column in condition.find_all(exp.Column)
        )
        and not condition.find(exp.Select)
    ]


def _may_hold(condition: Any, values: dict[str, str]) -> bool:
    folded = {key.casefold(): value for key, value in values.items()}

    def fill(node: Any) -> Any:
        if isinstance(node, exp.Column):
            return exp.Literal.string(folded[node.name.casefold()])
        return node

    simplified = simplify(condition.transform(fill))
    return not (isinstance(simplified, exp.Boolean) and not simplified.this)


def check_query(
    text: str, find: FindTable, settings: Mapping[str, str], *, strict: bool = False
) -> None:
    """Raise 400 for a full scan of a partitioned table, or an ORDER BY without LIMIT.

    Without ``strict``, this applies only to queries whose settings ask for it.
    """
    full, ordered = (
        settings.get(key, default).lower() != allowed
        for key, allowed, default in (
            ("odps.sql.allow.fullscan", "true", "false" if strict else "true"),
            ("odps.sql.validate.orderby.limit", "false", "true" if strict else "false"),
        )
    )
    if not (full or ordered):
        return
    query = parse_query(text)
    if full:
        for node, table in iter_scans(query, find):
            if table.is_partitioned and not partition_conditions(node, table):
                name = f"{table.name.project},{table.name.table}"
                raise errors.semantic(
                    "physical plan generation failed: java.lang.RuntimeException: "
                    f"Table({name}) is full scan with all partitions, "
                    "please specify partition predicates.",
                    at=(0, 0),
                )
    if ordered and has_order_without_limit(query):
        raise errors.semantic(
            "ORDER BY must be used with a LIMIT clause, please set "
            "odps.sql.validate.orderby.limit=false to use it."
        )


def has_order_without_limit(query: Any) -> bool:
    """Return whether a query or one of its subqueries has an ORDER BY without LIMIT."""
    return any(
        subquery.args.get("order") is not None and subquery.args.get("limit") is None
        for subquery in query.find_all(exp.Query)
    )
