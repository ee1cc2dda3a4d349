"""Plans a query over a `TableDataset`: columns, partitions, and the condition to push down.

Pruning is only an optimisation: the engine still applies the full filter to every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.types as pt
from pyarrow.fs import LocalFileSystem

from odps_nb.access.engines.comparable import (
    MAX_PARTITIONS,
    may_be_null_tested,
    partition_value,
    takes_value,
)
from odps_nb.access.engines.expression import (
    ArrowCall,
    Field,
    Literal,
    Tree,
    build,
    fields_of,
    parts_of,
    read,
)
from odps_nb.client.read.plan import ReadPlan
from odps_nb.filters.parse import column_value, kind_of
from odps_nb.filters.row_filter import fixed_partitions
from odps_nb.filters.tree import (
    AllOf,
    AnyOf,
    Compare,
    Constant,
    IsIn,
    IsNull,
    Node,
    Not,
    ValueKind,
)
from odps_nb.filters.tree import columns_of as filter_columns
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, covered

Projection = Sequence[str] | dict[str, pc.Expression] | None


def plan_query(
    base: ReadPlan,
    schema: TableSchema,
    arrow: pa.Schema,
    *,
    columns: Iterable[str],
    filter: pc.Expression | None,
    list_partitions: Callable[[Sequence[PartitionSpec]], Iterable[PartitionSpec]],
) -> ReadPlan | None:
    """Return the plan of one query; ``None`` if no partition can match.

    ``base`` is the plan of the dataset; ``columns`` includes the filter's columns.
    ``list_partitions`` is called only if the filter uses partition columns, and then once, with
    partial specs of the partitions to list.
    """
    keys = tuple(column.name for column in schema.partition_columns)
    plan = replace(base, columns=tuple(columns), partition_columns=keys, schema=schema)
    if filter is None or base.limit is not None:  # the limit must apply before the filter
        return plan
    tree = read(filter)
    parts = [filter] if tree is None else [build(part) for part in parts_of(tree)]
    key_filters = [part for part in parts if _columns_in([part], arrow) & set(keys)]
    chosen = False
    if key_filters:
        listed = list_partitions(() if tree is None else _fixed(tree, schema))
        in_base = covered(base.partitions or (PartitionSpec(),))
        known = [spec for spec in listed if in_base(spec)]
        surviving = _surviving(known, schema, arrow, key_filters)
        if not surviving:
            return None
        if len(surviving) <= MAX_PARTITIONS and all(spec.has_name for spec in surviving):
            plan, chosen = replace(plan, partitions=tuple(surviving)), True
    return plan if tree is None else _with_condition(plan, tree, set(keys) if chosen else set())


def columns_of(
    projection: Projection, filter: pc.Expression | None, schema: pa.Schema
) -> tuple[str, ...]:
    """Return the columns (at least one) that a projection and a filter need, in schema order."""
    needed: set[str]
    if projection is None:
        return tuple(schema.names)
    if isinstance(projection, dict):
        needed = _columns_in(projection.values(), schema)
    else:
        needed = set(projection)
    if filter is not None:
        needed |= _columns_in([filter], schema)
    return tuple(name for name in schema.names if name in needed) or (schema.names[0],)


def _columns_in(expressions: Iterable[pc.Expression], schema: pa.Schema) -> set[str]:
    columns: set[str] = set()
    for expression in expressions:
        names = fields_of(expression)
        if names is None:  # a column is needed if the expression is invalid without it
            names = frozenset(n for n in schema.names if not _binds(expression, schema, without=n))
        columns |= names
    return columns


def _binds(expression: pc.Expression, schema: pa.Schema, *, without: str) -> bool:
    rest = schema.remove(schema.get_field_index(without))
    try:
        ds.Scanner.from_batches([], schema=rest, columns={"it": expression})
    except pa.ArrowException:
        return False
    return True


def _fixed(tree: Tree, schema: TableSchema) -> tuple[PartitionSpec, ...]:
    """Return specs of the partitions to list; listing thousands would take many requests."""
    parts = (_condition(part, schema, "") for part in parts_of(tree))
    return fixed_partitions((node for node in parts if node is not None), schema.partition_columns)


def _surviving(
    known: Sequence[PartitionSpec],
    schema: TableSchema,
    arrow: pa.Schema,
    filters: Iterable[pc.Expression],
) -> list[PartitionSpec]:
    """Return the partitions that may have rows matching all filters.

    Arrow prunes the files of a dataset using one expression per file. Here, each partition is
    represented by a file named after its number; no file is opened.
    """
    form, nowhere = ds.IpcFileFormat(), LocalFileSystem()
    pieces = [
        form.make_fragment(
            str(number), filesystem=nowhere, partition_expression=_known_of(spec, schema, arrow)
        )
        for number, spec in enumerate(known)
    ]
    for expression in filters:
        try:
            fragments = ds.FileSystemDataset(pieces, arrow, form, nowhere).get_fragments(
                filter=expression
            )
            pieces = list(fragments)
        except pa.ArrowException:  # invalid in Arrow, but possibly valid in the engine
            continue
    return [known[int(piece.path)] for piece in pieces]


def _known_of(spec: PartitionSpec, schema: TableSchema, arrow: pa.Schema) -> pc.Expression:
    known = pc.scalar(True)
    texts = {key.casefold(): value for key, value in spec}
    for column in schema.partition_columns:
        value = partition_value(column, texts.get(column.name.casefold(), "__"))
        if value is not None and column.name in arrow.names:
            kind = arrow.field(column.name).type
            known &= pc.field(column.name) == pa.scalar(value, kind)
    return known


def _with_condition(plan: ReadPlan, tree: Tree, decided: set[str]) -> ReadPlan:
    """Add the conditions that can be pushed down; skip those that use only ``decided`` columns."""
    assert plan.schema is not None
    conditions = (_condition(part, plan.schema, plan.timezone) for part in parts_of(tree))
    useful = tuple(
        condition
        for condition in conditions
        if condition is not None and not set(filter_columns(condition)) <= decided
    )
    return replace(plan, condition=AllOf(useful)) if useful else plan


def _condition(tree: Tree, schema: TableSchema, zone: str, *, exact: bool = False) -> Node | None:
    """Return a condition that follows from the tree or, with ``exact``, is equivalent to it."""
    if isinstance(tree, Field):
        column = _column(tree, schema)
        if column is None or not takes_value(column, True):
            return None
        return Compare("=", column_value(column), Constant(ValueKind.BOOLEAN, True))
    if isinstance(tree, Literal):
        return None
    if tree.name in ("and_kleene", "or_kleene"):
        parts = [_condition(argument, schema, zone, exact=exact) for argument in tree.arguments]
        conditions = tuple(part for part in parts if part is not None)
        if len(conditions) == len(parts):
            return AllOf(conditions) if tree.name == "and_kleene" else AnyOf(conditions)
        return conditions[0] if conditions and tree.name == "and_kleene" and not exact else None
    if tree.name == "invert":
        inner = _condition(tree.arguments[0], schema, zone, exact=True)
        return None if inner is None else Not(inner)
    if tree.name in _SIGNS:
        return _comparison(tree, schema, zone)
    if tree.name == "is_in":  # Arrow returns false for a null, SQL returns null
        return None if exact else _membership(tree, schema)
    if tree.name == "if_else":  # DuckDB's form of SQL's ``in``
        return _membership_of_sql(tree, schema)
    return _null_test(tree, schema)


_SIGNS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _column(tree: Tree, schema: TableSchema) -> Column | None:
    if not isinstance(tree, Field) or len(tree.path) > 1:
        return None
    return schema.find(tree.path[0])


def _comparison(tree: ArrowCall, schema: TableSchema, zone: str) -> Node | None:
    (left, right), sign = tree.arguments, _SIGNS[tree.name]
    if isinstance(left, Literal):
        left, right, sign = right, left, _MIRRORED.get(sign, sign)
    column = _column(left, schema)
    if column is None or not isinstance(right, Literal):
        return None
    value = _constant(right.value, column, zone, sign)
    return None if value is None else Compare(sign, column_value(column), value)


def _constant(scalar: pa.Scalar, column: Column, zone: str, sign: str = "=") -> Constant | None:
    """Return a literal, or ``None`` if the service may interpret it differently."""
    if not scalar.is_valid:
        return None
    if pt.is_timestamp(scalar.type):
        return _instant(scalar, zone) if column.type.code is TypeCode.DATETIME else None
    if pt.is_date64(scalar.type):  # a date64 may include a time of day
        return None
    value, kind = scalar.as_py(), kind_of(column.type)
    if not takes_value(column, value, sign):
        return None
    return Constant(kind, Decimal(value) if kind is ValueKind.DECIMAL else value)


def _instant(scalar: pa.Scalar, zone: str) -> Constant | None:
    """Convert a time to a constant; ``None`` if it has no zone and ``zone`` is not UTC."""
    if scalar.type.tz is None and zone != "UTC":
        return None
    try:
        value = scalar.cast(pa.timestamp("us", scalar.type.tz)).value
    except pa.ArrowException:
        return None
    return Constant(ValueKind.INSTANT, value * 1000)


def _membership(tree: ArrowCall, schema: TableSchema) -> Node | None:
    column = _column(tree.arguments[0], schema)
    if column is None or kind_of(column.type) is ValueKind.BOOLEAN:
        return None
    values = [_constant(scalar, column, "") for scalar in tree.among if scalar.is_valid]
    known = tuple(constant.value for constant in values if constant is not None)
    if not known or len(known) < len(values):
        return None
    among = IsIn(column_value(column), known)
    if tree.among.null_count:
        return AnyOf((among, IsNull(column_value(column))))
    return among


def _membership_of_sql(tree: ArrowCall, schema: TableSchema) -> Node | None:
    """Return ``x in (…)`` for ``if_else(is_valid(x), is_in(x), null)``."""
    match tree.arguments:
        case (ArrowCall("is_valid", tested), ArrowCall("is_in", listed) as among, Literal(value)):
            if tested == listed and not among.among.null_count and not value.is_valid:
                return _membership(among, schema)
    return None


def _null_test(tree: ArrowCall, schema: TableSchema) -> Node | None:
    column = _column(tree.arguments[0], schema) if tree.name in ("is_null", "is_valid") else None
    if column is None or not may_be_null_tested(column):
        return None
    test = IsNull(column_value(column))
    return test if tree.name == "is_null" else Not(test)
