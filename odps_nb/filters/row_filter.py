"""`RowFilter`: a condition applied to a read's batches, and the predicate pushed down for it.

The service uses the predicate to skip blocks of rows. The predicate may keep more rows than the
condition, but never fewer. It contains only expressions that the C++ client's live tests send
(`test/max_storage_api/table_read_test.cpp`).
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.filters.evaluate import mask_of
from odps_nb.filters.literals import refuse
from odps_nb.filters.parse import parse_condition
from odps_nb.filters.tree import (
    AllOf,
    AnyOf,
    ColumnValue,
    Compare,
    Constant,
    IsIn,
    IsNull,
    Node,
    Not,
    PyValue,
    ValueKind,
    columns_of,
    nodes_of,
)
from odps_nb.schema import Column, DecimalType, TableSchema, TypeCode, types_in
from odps_nb.terms import PartitionSpec, TimeUnit

MAX_LENGTH = 16 * 1024
"""Maximum number of characters in a predicate; the service's limit is not documented."""

MOST_LISTS = 8
"""Maximum number of partial specs to list partitions under; with more, list all partitions."""

MOST_SCALE = 18
"""DECIMAL scale above which the vendor's Spark connector sends no predicate (OdpsScan)."""

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[^'\\\x00-\x1f\x7f]*")
_WORDS = frozenset(("and", "or", "not", "in", "is", "null", "true", "false", "between", "like"))
_DAY = 26 * 3600 * 10**9  # more than the difference between any two time zones
_PROVED = 10**15  # below this magnitude, an integer compares the same as BIGINT, DOUBLE or DECIMAL
_EPOCH = datetime.datetime(1970, 1, 1)
_YEARS = (-(719162 * 86400) * 10**9 + _DAY, 253402300799 * 10**9 - _DAY)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition on rows; a frozen, picklable value (unpickling does not need sqlglot).

    ``columns`` are the columns in the condition, in the table's spelling and order. ``predicate``
    is the part that is pushed down to the service, and is empty if nothing can be pushed down.
    """

    text: str
    condition: Node
    columns: tuple[str, ...]
    predicate: str

    @classmethod
    def parse(
        cls,
        text: str,
        schema: TableSchema,
        *,
        timezone: str = "UTC",
        unit: TimeUnit | None = None,
    ) -> RowFilter:
        """Parse a condition on a table's columns; ``unit``: unit of the TIMESTAMPs read."""
        condition = parse_condition(text, schema, timezone=timezone)
        return cls.of(condition, schema, unit=unit, text=text)

    @classmethod
    def of(
        cls, condition: Node, schema: TableSchema, *, unit: TimeUnit | None = None, text: str = ""
    ) -> RowFilter:
        """Create the filter from a condition on a table's columns; see `parse`."""
        if unit is TimeUnit.MICRO and any(map(_needs_nanoseconds, nodes_of(condition))):
            raise refuse(
                "the condition contains a time in nanoseconds, but this read returns microseconds",
                "round the time with value.floor('us') (pandas) or .astype('datetime64[us]')",
            )
        needed = set(columns_of(condition))
        return cls(
            text=text,
            condition=condition,
            columns=tuple(name for name in schema.names if name in needed),
            predicate=predicate_of(condition, schema),
        )

    def apply(self, batch: pa.RecordBatch, keep: int | None = None) -> pa.RecordBatch:
        """Return the rows that satisfy the condition, with all columns or the first ``keep``.

        Raises `ArgumentError` if the condition is undefined for a value.
        """
        mask = self._mask(batch)
        if keep is not None and keep < batch.num_columns:
            batch = batch.select(range(keep))
        count = pc.sum(mask).as_py() or 0
        if count == batch.num_rows:
            return batch
        return batch.filter(mask) if count else batch.slice(0, 0)

    def rows(self, batch: pa.RecordBatch) -> list[int]:
        """Return the indices of the rows that satisfy the condition."""
        indices: list[int] = pc.indices_nonzero(self._mask(batch)).to_pylist()
        return indices

    def _mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        positions = {name.casefold(): n for n, name in enumerate(batch.schema.names)}
        columns = {name: batch.column(positions[name.casefold()]) for name in self.columns}
        return mask_of(self.condition, columns, batch.num_rows)


def _needs_nanoseconds(node: Node) -> bool:
    """Return whether a TIMESTAMP column is compared with a time that needs nanoseconds."""
    values: tuple[PyValue, ...] = ()
    if isinstance(node, Compare) and isinstance(node.right, Constant):
        column, values = node.left, (node.right.value,)
    elif isinstance(node, IsIn):
        column, values = node.value, node.among
    else:
        return False
    return (
        isinstance(column, ColumnValue)
        and column.code in (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
        and any(isinstance(value, int) and value % 1000 != 0 for value in values)
    )


def predicate_of(condition: Node, schema: TableSchema) -> str:
    """Return the text of ``FilterPredicate``; empty if nothing can be pushed down.

    The text is empty for a table with any DECIMAL column whose scale exceeds `MOST_SCALE`.
    Parts that would exceed `MAX_LENGTH`, such as lists of many values, are omitted.
    """
    if any(
        isinstance(inner, DecimalType) and (inner.scale or 0) > MOST_SCALE
        for column in schema
        for inner in types_in(column.type)
    ):
        return ""
    parts = list(_parts(condition))
    chosen, room = [], MAX_LENGTH
    for text in dict.fromkeys(text for text in map(_text, parts) if text):
        if len(text) <= room:
            chosen.append(text)
            room -= len(text) + len(" and ")
    return " and ".join(chosen)


def _parts(node: Node) -> Iterator[Node]:
    if isinstance(node, AllOf):
        for part in node.parts:
            yield from _parts(part)
    else:
        yield node


def _text(node: Node) -> str | None:
    if isinstance(node, AllOf):
        clauses = [text for text in map(_text, node.parts) if text]
        return " and ".join(dict.fromkeys(clauses)) or None
    if isinstance(node, AnyOf):
        parts = [_text(part) for part in node.parts]
        texts = [f"({text})" for text in parts if text is not None]
        return "(" + " or ".join(texts) + ")" if len(texts) == len(parts) else None
    if isinstance(node, Compare):
        return _comparison(node)
    if isinstance(node, IsIn):
        return _membership(node, "in") if not node.with_null or node.among else None
    if isinstance(node, IsNull) and isinstance(node.value, ColumnValue):
        return f"{_name(node.value)} is null"
    if isinstance(node, Not):
        return _opposite(node.value)
    return None


def _opposite(node: Node) -> str | None:
    """Return the negation of a node as text; ``None`` if it cannot be expressed exactly."""
    if isinstance(node, IsNull) and isinstance(node.value, ColumnValue):
        return f"{_name(node.value)} is not null"
    if isinstance(node, IsIn) and not node.with_null:
        return _membership(node, "not in")
    return None


def _comparison(node: Compare) -> str | None:
    column, constant = node.left, node.right
    if not isinstance(column, ColumnValue) or not isinstance(constant, Constant):
        return None
    if column.code is TypeCode.DATETIME and isinstance(constant.value, int):
        return _around(node.operator, _name(column), constant.value)
    text = _literal(column, constant.value)
    sign = "!=" if node.operator == "<>" else node.operator
    return None if text is None else f"{_name(column)} {sign} {text}"


def _around(sign: str, name: str, instant: int) -> str | None:
    """Widen a time comparison by a day on each side, because the service's time zone is unknown."""
    if sign == "<>" or not _YEARS[0] < instant < _YEARS[1]:
        return None
    texts = []
    if sign in ("=", ">", ">="):
        texts.append(f"{name} >= '{_time(instant - _DAY)}'")
    if sign in ("=", "<", "<="):
        texts.append(f"{name} <= '{_time(instant + _DAY)}'")
    return " and ".join(texts)


def _time(instant: int) -> str:
    moment = _EPOCH + datetime.timedelta(seconds=instant // 10**9)
    return moment.isoformat(sep=" ")


def _membership(node: IsIn, words: str) -> str | None:
    if not isinstance(node.value, ColumnValue):
        return None
    if len(node.among) > MAX_LENGTH // 3:  # the text would be too long
        return None
    column = node.value
    texts = [_literal(column, value) for value in node.among]
    if not texts or any(text is None for text in texts):
        return None
    return f"{_name(column)} {words} ({', '.join(text for text in texts if text)})"


def _literal(column: ColumnValue, value: PyValue) -> str | None:
    """Format a constant for a column type with block statistics; ``None`` for other constants."""
    if column.kind is ValueKind.INTEGER and isinstance(value, int):
        return str(value)
    if column.kind is ValueKind.DECIMAL and isinstance(value, Decimal):
        whole = value == value.to_integral_value() and abs(value) < _PROVED
        return str(int(value)) if whole else None
    if column.code is TypeCode.DOUBLE and isinstance(value, (int, Decimal)):
        return repr(float(value)) if -_PROVED < value < _PROVED else None
    if column.kind is ValueKind.TEXT and isinstance(value, str):
        return f"'{value}'" if _PLAIN.fullmatch(value) else None
    if column.kind is ValueKind.DATE and isinstance(value, datetime.date):
        return f"'{value.isoformat()}'"
    return None


def _name(column: ColumnValue) -> str:
    if _BARE.fullmatch(column.name) and column.name.casefold() not in _WORDS:
        return column.name
    return "`" + column.name.replace("`", "``") + "`"


def fixed_partitions(
    conditions: Iterable[Node], keys: Iterable[Column]
) -> tuple[PartitionSpec, ...]:
    """Return specs that cover every partition that may satisfy the conditions.

    They contain the leading STRING keys that ``=`` or a short ``in`` restricts to a few values, so
    a client can list the partitions under these specs only. Without such keys, the result is one
    empty spec.
    """
    values: dict[str, set[str]] = {}
    for part in itertools.chain.from_iterable(map(_parts, conditions)):
        match part:
            case Compare("=", ColumnValue(name, code=TypeCode.STRING), Constant(value=str(one))):
                fixed = {one}
            case IsIn(ColumnValue(name, code=TypeCode.STRING), constants):
                fixed = {constant for constant in constants if isinstance(constant, str)}
            case _:
                continue
        values[name] = fixed & values.get(name, fixed) or fixed
    specs: list[tuple[tuple[str, str], ...]] = [()]
    for key in keys:
        among = values.get(key.name)
        if among is None or len(specs) * len(among) > MOST_LISTS:
            break
        specs = [(*spec, (key.name, value)) for spec in specs for value in sorted(among)]
    partitions = tuple(map(PartitionSpec, specs))
    return partitions if all(spec.has_name for spec in partitions) else (PartitionSpec(),)


def conditions_on(whole: RowFilter, columns: Iterable[Column]) -> RowFilter | None:
    """Return the part of a filter that tests only these columns; ``None`` if there is none.

    A row that fails this part fails the whole filter.
    """
    known = {column.name for column in columns}
    parts = [
        part
        for part in _parts(whole.condition)
        if (used := set(columns_of(part))) and used <= known
    ]
    if not parts:
        return None
    condition = parts[0] if len(parts) == 1 else AllOf(tuple(parts))
    used = set(columns_of(condition))
    return RowFilter(
        text="",
        condition=condition,
        columns=tuple(name for name in whole.columns if name in used),
        predicate="",
    )
