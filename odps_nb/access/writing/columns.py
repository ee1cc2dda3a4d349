"""Converts the column arguments of a new table, in any accepted form, to a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

from odps_nb.access.checks import did_you_mean
from odps_nb.errors import ArgumentError
from odps_nb.schema import Column, TableSchema
from odps_nb.wire.type_text import parse_columns, parse_type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["is_definition", "names_of", "properties_of", "schema_of"]


def schema_of(
    columns: str | Mapping[str, str] | pa.Schema | TableSchema,
    partitioned_by: str | Sequence[str] | None = None,
) -> TableSchema:
    """Return the schema of a new table.

    Parameters
    ----------
    columns
        Text as in ``CREATE TABLE``, a mapping of names to type texts, an Arrow schema, or a
        schema that is ready.
    partitioned_by
        Text as in ``PARTITIONED BY``, or names of columns that move to the partition columns.

    Raises
    ------
    ArgumentError
        Text that cannot be read, or a partition column that is not there.
    ConversionError
        An Arrow type without a MaxCompute type.
    """
    schema = _data_columns(columns)
    if partitioned_by is None or not len(partitioned_by):
        return schema
    if schema.partition_columns:
        raise ArgumentError("the schema already has partition columns")
    if is_definition(partitioned_by):
        return TableSchema(columns=schema.columns, partition_columns=parse_columns(partitioned_by))
    names = partitioned_by.split(",") if isinstance(partitioned_by, str) else partitioned_by
    return _moved(schema, [name.strip() for name in names])


def names_of(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Accept ``"a, b"`` or a list of names."""
    names = columns.split(",") if isinstance(columns, str) else columns
    return tuple(name.strip() for name in names)


def properties_of(properties: Mapping[str, object] | None) -> dict[str, str]:
    """Return table properties as text: ``True`` is ``true``, a number its digits.

    Raises
    ------
    ArgumentError
        A value of another kind.
    """
    found = {}
    for key, value in (properties or {}).items():
        if not isinstance(value, (str, bool, int, float)):
            raise ArgumentError(
                f"the property {key!r} is a {type(value).__name__}",
                hint="values are text, numbers or booleans",
            )
        found[str(key)] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _data_columns(columns: str | Mapping[str, str] | pa.Schema | TableSchema) -> TableSchema:
    if isinstance(columns, TableSchema):
        return columns
    if isinstance(columns, str):
        return TableSchema(columns=parse_columns(columns))
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


def is_definition(partitioned_by: str | Sequence[str]) -> TypeGuard[str]:
    """Whether partition columns come with types: ``ds string`` and not just ``ds``."""
    return isinstance(partitioned_by, str) and any(
        len(part.split(None, 1)) > 1 for part in partitioned_by.split(",")
    )


def _moved(schema: TableSchema, names: Sequence[str]) -> TableSchema:
    by_name = {column.name.casefold(): column for column in schema.columns}
    moved = []
    for name in names:
        column = by_name.pop(name.casefold(), None)
        if column is None:
            known = [one.name for one in schema.columns]
            raise ArgumentError(
                f"the table has no column {name!r} to partition by",
                hint=f"{did_you_mean(name, known)}write its type as well: '{name} string'",
            )
        moved.append(column)
    return TableSchema(columns=tuple(by_name.values()), partition_columns=tuple(moved))
