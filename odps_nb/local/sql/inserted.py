"""Matches the columns of an INSERT's query with the columns of its table, and casts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.local import errors
from odps_nb.local.sql.ddl import Place, zone_of
from odps_nb.local.sql.duck_types import CLOCKS, duck_type, result_array
from odps_nb.local.sql.parsing.statements import Insert
from odps_nb.local.sql.queries import Described
from odps_nb.local.store.arrow_types import arrow_type
from odps_nb.local.store.tables import OPERATION, PASSTHROUGH_PROPERTY, StoredTable
from odps_nb.schema import (
    ArrayType,
    Column,
    MapType,
    OdpsType,
    StructType,
    TypeCode,
    VectorType,
    children_of,
    has_timestamp,
)
from odps_nb.terms import PartitionSpec

if TYPE_CHECKING:  # `query` imports sqlglot, which only queries need
    from odps_nb.local.sql.query import TranslatedQuery

Choices = tuple[tuple[int | None, ...], ...]
"""See `Insert.choices`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertTarget:
    """The fixed partition keys of an INSERT, and its columns in the order of the query.

    ``generated``: partition columns that the query may return after the others, because
    ``SELECT *`` of an auto-partitioned table contains them.
    """

    spec: PartitionSpec
    columns: tuple[Column, ...]
    generated: tuple[Column, ...] = ()

    def matching(self, count: int) -> InsertTarget:
        """Return the target of a query with ``count`` columns."""
        if not self.generated or count != len(self.columns) + len(self.generated):
            return self
        return replace(self, columns=(*self.columns, *self.generated), generated=())

    def filled(self, choices: Choices) -> tuple[Column, ...]:
        """Return the table column that each query column is inserted into."""
        if not choices:
            return self.columns
        filled = {
            index: column
            for choice in choices
            for index, column in zip(choice, self.columns, strict=True)
            if index is not None
        }
        return tuple(filled[index] for index in sorted(filled))


def check_insert(table: StoredTable, statement: Insert) -> None:
    """Raise 400 for INSERT INTO a table that records changes, unless a property permits it."""
    is_plain = not (statement.overwrite or statement.rewrites or statement.has_operations)
    permitted = table.lower_property(PASSTHROUGH_PROPERTY) == "true"
    if is_plain and table.records_changes and not permitted:
        raise errors.semantic(
            f"{table.name} records changes, so it does not support INSERT INTO",
            advice="use MERGE INTO",
        )


def insert_target(table: StoredTable, statement: Insert) -> InsertTarget:
    """Return the target of an INSERT, or raise 400 for unknown, repeated or missing names.

    A column list may contain partition columns in any position. If it contains none, the query
    returns the values of the dynamic partition columns last.
    """
    fixed = tuple((k, v) for k, v in statement.partition if v is not None)
    spec = table.spec(PartitionSpec(fixed))
    full_spec = table.spec(PartitionSpec(tuple((k, v or "") for k, v in statement.partition)))
    fixed_keys, named = {key for key, _ in spec}, {key for key, _ in full_spec}
    free = [c for c in table.schema.partition_columns if c.name not in fixed_keys]
    dynamic = tuple(c for c in free if c.generated is None or c.name in named)
    in_clause = [key.casefold() for key, value in statement.partition if value is None]
    in_table = [column.name.casefold() for column in dynamic if column.name in named]
    if in_clause != in_table and not {*in_table} <= {name.casefold() for name in statement.columns}:
        raise errors.semantic(
            f"PARTITION ({', '.join(in_clause)}) is not in the order of the table",
            advice=f"write PARTITION ({', '.join(in_table)}), and its values in this order",
        )
    if statement.columns:
        return InsertTarget(
            spec=spec, columns=_listed(table, statement.columns, spec, dynamic, named)
        )
    operation = (OPERATION,) if statement.has_operations else ()
    is_plain = not statement.partition and not statement.choices
    generated = tuple(c for c in free if c not in dynamic) if is_plain else ()
    columns = (*table.schema.columns, *dynamic, *operation)
    return InsertTarget(spec=spec, columns=columns, generated=generated)


def _listed(
    table: StoredTable,
    names: Sequence[str],
    spec: PartitionSpec,
    dynamic: tuple[Column, ...],
    named: set[str],
) -> tuple[Column, ...]:
    """Return the columns of a column list, and the dynamic partition columns that follow them."""
    known = {c.name.casefold(): c for c in table.schema.all_columns}
    fixed = {key for key, _ in spec}
    columns: list[Column] = []
    for name in names:
        column = known.get(name.casefold())
        if column is None:
            raise errors.semantic(f"the table has no column {name!r}")
        if column in columns:
            raise errors.semantic(f"the column {name!r} is listed twice")
        if column.name in fixed:
            raise errors.semantic(f"PARTITION (…) already sets the listed column {name!r}")
        columns.append(column)
    absent = [c for c in dynamic if c not in columns]
    is_partial = len(absent) < len(dynamic)
    missing = [c.name for c in absent if is_partial or c.name not in named]
    if missing:
        raise errors.semantic(f"the column list lacks the partition column {missing[0]!r}")
    return (*columns, *absent)


def chosen_rows(
    batch: pa.RecordBatch,
    columns: tuple[Column, ...],
    choices: Choices,
) -> list[pa.RecordBatch]:
    """Convert a batch, whose last column is an index into ``choices``, to rows to insert."""
    batches: list[pa.RecordBatch] = []
    order: list[pa.Array] = []
    for number, choice in enumerate(choices or (range(len(columns)),)):
        chosen = batch
        if choices:
            order.append(pc.indices_nonzero(pc.equal(batch.columns[-1], number)))
            chosen = batch.take(order[-1])
        arrays = [
            pa.nulls(chosen.num_rows, arrow_type(column.type))
            if index is None
            else result_array(chosen.columns[index], column.type)
            for index, column in zip(choice, columns, strict=True)
        ]
        batches.append(pa.record_batch(arrays, names=[column.name for column in columns]))
    batches = [rows for rows in batches if rows.num_rows]
    if len(batches) > 1 and all(rows.schema == batches[0].schema for rows in batches):
        back = pc.sort_indices(pa.concat_arrays(order))
        batches = pa.Table.from_batches(batches).take(back).combine_chunks().to_batches()
    return batches


def changed_rows(batch: pa.RecordBatch, kept: int | None) -> int:
    """Return the number of rows of a query's batch whose index is not ``kept``."""
    rewritten = 0 if kept is None else pc.sum(pc.equal(batch.columns[-1], kept)).as_py() or 0
    return int(batch.num_rows - rewritten)


def converted(
    described: Described,
    query: TranslatedQuery,
    filled: tuple[Column, ...],
    place: Place,
    *,
    numbered: bool,
) -> str:
    """Return the query with each column cast to the type of its target column in the table."""
    number = ["number"] if numbered else []
    if len(described.columns) != len(filled) + len(number):
        count = len(described.columns) - len(number)
        raise errors.semantic(
            f"wrong columns count {count} in data source, requires {len(filled)} columns "
            "(includes dynamic partitions if any)"
        )
    # without a star, `convert_rows` converts the values
    count = len(filled) if query.has_star else 0
    names = [f"c{i}" for i in range(len(filled))]
    kinds = [query.kind(i, count) for i in range(len(filled))]
    for i, (column, value) in enumerate(zip(filled, described.schema.types, strict=False)):
        if not _is_implicit(value, column.type, query.kind(i, len(described.columns))):
            is_plain = not isinstance(column.type, NESTED) and not pa.types.is_nested(value)
            raise errors.semantic(
                f"the values of column {column.name!r} are not converted to {column.type}",
                advice=f"write cast(… as {column.type})"
                if is_plain
                else "insert a value with the nesting of the column; write a STRUCT as "
                "named_struct('name', value) with the members of the column",
            )
    casts = [
        f"{_cast(_read(name, column, spelled), column, spelled, place, kind)} AS {name}"
        for name, column, spelled, kind in zip(names, filled, described.types, kinds, strict=False)
    ]
    shown, columns = ", ".join([*casts, *number]), ", ".join([*names, *number])
    return f"SELECT {shown} FROM ({query.sql}) AS q({columns})"


def _is_implicit(value: pa.DataType, target: OdpsType, kind: str = "") -> bool:
    """Whether an INSERT converts the values without CAST: no fractions are lost, no BOOLEANs.

    Text is not converted to or from nested types, and STRUCTs need the same members. ``kind`` is
    the type of the value, or ``""`` if unknown: NULL has an integer type in DuckDB, and a column
    that DuckDB cannot read is text. Source: the vendor's page *MaxCompute V2.0 data type edition*.
    """
    is_nested = isinstance(target, NESTED)
    if is_nested != pa.types.is_nested(value):
        return is_nested and not (pa.types.is_string(value) and kind in _TEXT_KINDS)
    if isinstance(target, StructType) and pa.types.is_struct(value):
        members = {field.name.casefold(): field.type for field in value}
        names = {member.name.casefold() for member in target.fields}
        return members.keys() == names and all(
            _is_implicit(members[member.name.casefold()], member.type, "TEXT")
            for member in target.fields
        )
    inner = [value.field(i).type for i in range(value.num_fields)]
    if pa.types.is_map(value):
        inner = [value.key_type, value.item_type]
    targets = [child for _, child in children_of(target)]
    if inner or targets:
        return len(inner) != len(targets) or all(
            _is_implicit(*pair, "TEXT") for pair in zip(inner, targets, strict=True)
        )
    is_real = pa.types.is_floating(value) or pa.types.is_decimal(value)
    if target.code == TypeCode.BOOLEAN:
        return not (is_real or pa.types.is_string(value) or kind in _NUMBERS)
    return not (pa.types.is_boolean(value) or (is_real and target.code in _WHOLE))


def _read(name: str, column: Column, spelled: str) -> str:
    """Return the SQL that reads text and bytes as MaxCompute does, before a cast."""
    return f"{_READ.get((spelled, column.type.code), '')}({name})"


def _cast(name: str, column: Column, spelled: str, place: Place, kind: str) -> str:
    """Return the SQL that casts a value to a column's type; TIMESTAMPs keep their unit.

    Text, DATE and TIMESTAMP_NTZ values are converted to instants in the session's time zone.
    ``kind`` is the type of the value, or ``""`` if unknown.
    """
    code, zone = column.type.code, zone_of(place.timezone).key.replace("'", "''")
    is_instant = code in (TypeCode.DATETIME, TypeCode.TIMESTAMP)
    if kind in ("DATETIME", "TIMESTAMP") and code in CLOCKS and zone != "UTC":
        name = f"mc_local({name}, '{zone}')"
    elif is_instant and kind == "TIMESTAMPNTZ" and zone != "UTC":
        name = f"mc_instant({name}, '{zone}')"
    is_timestamp = code in (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
    if is_timestamp and spelled.startswith("TIMESTAMP"):
        return name
    if spelled == "VARCHAR" and (is_instant or is_timestamp):
        unit = "TIMESTAMP" if place.far or not is_timestamp else "TIMESTAMP_NS"
        text = f"{'mc_near' if unit == 'TIMESTAMP_NS' else 'mc_micro'}({name})"
        text = text if is_timestamp else name
        clock = f"CAST({text} AS {unit})"
        moved = f"mc_text({clock}, {name}, '{zone}')" if is_instant else clock
        if is_instant and unit == "TIMESTAMP":
            moved = f"mc_within({moved})"
        return f"CAST({moved} AS {unit if is_timestamp else 'TIMESTAMP_MS'})"
    if is_instant and spelled == "DATE":
        clock = f"CAST({name} AS TIMESTAMP)"
        return clock if zone == "UTC" else f"mc_instant({clock}, '{zone}')"
    if code in _TEXTS and spelled.startswith("DECIMAL"):
        return f"mc_decimal_text({name})"
    target = "TIMESTAMP" if is_timestamp and spelled == "DATE" else duck_type(column.type)
    if has_timestamp(column.type) and "TIMESTAMP" in spelled and "TIMESTAMP_NS" not in spelled:
        target = target.replace("TIMESTAMP_NS", "TIMESTAMP")  # keep the microsecond range
    return f"CAST({name} AS {target})"


NESTED = (ArrayType, MapType, StructType, VectorType)
_WHOLE = (TypeCode.TINYINT, TypeCode.SMALLINT, TypeCode.INT, TypeCode.BIGINT)
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TEXT_KINDS = ("TEXT", "VARCHAR", "CHAR")
_TEXTS = (TypeCode.STRING, TypeCode.VARCHAR, TypeCode.CHAR)
_REALS = (TypeCode.FLOAT, TypeCode.DOUBLE, TypeCode.DECIMAL)
_TIMES = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
_READ = {
    **{("VARCHAR", code): "mc_read_whole" for code in _WHOLE},
    **{("VARCHAR", code): "mc_read_number" for code in _REALS},
    **{("VARCHAR", code): "mc_read_time" for code in _TIMES},
    ("VARCHAR", TypeCode.BINARY): "encode",
    **{("BLOB", code): "decode" for code in _TEXTS},
}
