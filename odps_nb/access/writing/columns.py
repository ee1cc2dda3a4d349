"""Converts the column arguments of a new table, in any accepted form, to a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

from odps_nb.access.checks import did_you_mean
from odps_nb.errors import ArgumentError
from odps_nb.schema import Column, TableSchema
from odps_nb.wire.control.generated import parse_generated
from odps_nb.wire.type_text import parse_columns, parse_type

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(
    columns: str | Sequence[str] | Mapping[str, str] | pa.Schema | TableSchema,
    partitioned_by: str | Sequence[str] | None = None,
) -> TableSchema:
    """Return the schema of a new table; see `Connection.create_table` for the forms."""
    schema = _data_columns(columns)
    if partitioned_by is None or not len(partitioned_by):
        return schema
    if schema.partition_columns:
        raise ArgumentError("the schema already has partition columns")
    return _partitioned(schema, partition_items(partitioned_by))


def _partitioned(schema: TableSchema, items: Sequence[Column | str]) -> TableSchema:
    by_name = {column.name.casefold(): column for column in schema.columns}
    keys = []
    for item in items:
        if isinstance(item, Column):
            keys.append(item)
            continue
        column = by_name.pop(item.casefold(), None)
        if column is None:
            known = [one.name for one in schema.columns]
            raise ArgumentError(
                f"the table has no column {item!r} to partition by",
                hint=f"{did_you_mean(item, known)}write its type as well: '{item} string'",
            )
        keys.append(column)
    return TableSchema(columns=tuple(by_name.values()), partition_columns=tuple(keys))


def partition_items(partitioned_by: str | Sequence[str]) -> tuple[Column | str, ...]:
    """Return what a table is partitioned by: columns where a type is given, else names."""
    if isinstance(partitioned_by, str):
        if (made := parse_generated(partitioned_by)) is not None:
            return (made,)
        parts = [part.strip() for part in partitioned_by.split(",")]
        if any(len(part.split(None, 1)) > 1 for part in parts):
            return parse_columns(partitioned_by)
        return tuple(parts)
    found: list[Column | str] = []
    for item in partitioned_by:
        if not isinstance(item, str):
            raise ArgumentError(
                f"partitioned_by holds a {type(item).__name__}",
                argument="partitioned_by",
                hint="pass names of columns, or texts such as 'ds string'",
            )
        found += partition_items(item)
    return tuple(found)


def names_of(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Accept ``"a, b"`` or a list of names."""
    names = columns.split(",") if isinstance(columns, str) else columns
    return tuple(name.strip() for name in names)


def properties_of(properties: Mapping[str, object] | None) -> dict[str, str]:
    """Return table properties as text: ``True`` is ``true``, a number its digits."""
    found = {}
    for key, value in (properties or {}).items():
        if not isinstance(value, (str, bool, int, float)):
            raise ArgumentError(
                f"the property {key!r} is a {type(value).__name__}",
                hint="values are text, numbers or booleans",
            )
        found[str(key)] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def is_text(columns: object) -> TypeGuard[str | Sequence[str]]:
    """Whether columns are given as text, or as a list of texts."""
    return isinstance(columns, str) or (
        isinstance(columns, (list, tuple))
        and bool(columns)
        and all(isinstance(one, str) for one in columns)
    )


def _data_columns(
    columns: str | Sequence[str] | Mapping[str, str] | pa.Schema | TableSchema,
) -> TableSchema:
    if isinstance(columns, TableSchema):
        return columns
    if is_text(columns):
        text = columns if isinstance(columns, str) else ", ".join(columns)
        return TableSchema(columns=parse_columns(text))
    if isinstance(columns, Mapping):
        for name, text in columns.items():
            if not isinstance(text, str):
                raise ArgumentError(
                    f"the type of {name!r} is a {type(text).__name__}",
                    argument="columns",
                    hint="pass types, e.g. {'id': 'bigint'}, or a list of values for each column",
                )
        made = (Column(name=name, type=parse_type(text)) for name, text in columns.items())
        return TableSchema(columns=tuple(made))
    import pyarrow as pa

    if isinstance(columns, pa.Schema):
        from odps_nb.convert.arrow_schema import table_schema

        return table_schema(columns)
    raise ArgumentError(
        f"columns is a {type(columns).__name__}",
        hint="pass text such as 'id bigint, note string', an Arrow schema, or rows to be written",
    )
