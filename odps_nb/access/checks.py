"""Checks arguments against the columns and partitions of a table, before a request is sent."""

from __future__ import annotations

import datetime
import importlib
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, SupportsIndex

from odps_nb.errors import ArgumentError, MissingDependencyError, NotFoundError, shown
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.terms import (
    PartitionSpec,
    TableName,
    check_partition_value,
    did_you_mean,
    listed_columns,
)
from odps_nb.type_facts import TYPE_FACTS

PartitionLike = str | Mapping[str, object] | PartitionSpec
Overwrite = bool | Literal["partitions", "all"]
"""``True`` replaces the table or the partition passed, ``"partitions"`` each partition that
receives rows, ``"all"`` every partition."""


def is_missing(value: object) -> bool:
    """Whether the value is null, including pandas nulls (NaN, NA, NaT)."""
    if value is None:
        return True
    if isinstance(value, float):
        return value != value
    return type(value).__name__ in ("NAType", "NaTType")


def check_text(argument: str, value: object) -> None:
    """Raise `ArgumentError` unless the value is a string."""
    if not isinstance(value, str):
        raise ArgumentError(
            f"{argument} is of type {type(value).__name__}; it must be a string", argument=argument
        )


def check_columns(columns: Sequence[str], schema: TableSchema, table: TableName) -> tuple[str, ...]:
    """Check column names and return them in the table's spelling."""
    if isinstance(columns, str):
        raise ArgumentError(
            f"columns is {columns!r}; it must be a list", hint=f"pass columns=[{columns!r}]"
        )
    spelled = []
    for name in columns:
        column = schema.find(name)
        if column is None:
            raise NotFoundError(
                f"{table} has no column {name!r}",
                code="NoSuchColumn",
                hint=f"{did_you_mean(name, schema.names)}"
                f"its columns are: {listed_columns(schema.names)}",
            )
        spelled.append(column.name)
    for name in spelled:
        if spelled.count(name) > 1:
            raise ArgumentError(
                f"the column {name!r} is listed twice", hint="name each column once"
            )
    return tuple(spelled)


def check_count(name: str, value: SupportsIndex | None, *, at_least: int = 1) -> int | None:
    """Check a count, e.g. a NumPy integer, and return it as `int`; ``None`` stays ``None``."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentError(
            f"{name} is {shown(value)}; it must be a whole number", hint=f"pass e.g. {name}=5"
        )
    count = operator.index(value)
    if count < at_least:
        raise ArgumentError(
            f"{name} is {count}; it must be at least {at_least}",
            argument=name,
            hint=f"pass e.g. {name}=5, or omit it",
        )
    return count


def iterator_of(value: object) -> Iterator[Any] | None:
    """Return an iterator over a collection; ``None`` for any other object.

    Such objects include an array without dimensions and a Spark column, whose ``__iter__`` raises.
    """
    if not isinstance(value, Iterable):
        return None
    try:
        return iter(value)
    except TypeError:
        return None


def check_partition(spec: PartitionSpec, schema: TableSchema, table: TableName) -> PartitionSpec:
    """Check a partition spec and return it with the table's key names, in the table's order."""
    keys = [column.name for column in schema.partition_columns]
    if spec.items and not keys:
        raise ArgumentError(
            f"{table} is not partitioned, but {str(spec)!r} was passed", hint="omit the partition"
        )
    values: dict[str, str] = {}
    for key, value in spec:
        spelled = next((name for name in keys if name.casefold() == key.casefold()), None)
        if spelled is None or spelled in values:
            meant = "" if spelled else did_you_mean(key, keys)
            raise ArgumentError(
                f"{key!r} occurs twice in {str(spec)!r}"
                if spelled
                else f"{key!r} is not a partition column of {table}",
                code="InvalidPartitionSpec",
                hint=f"{meant}partition columns are: {', '.join(keys)}",
            )
        values[spelled] = value
    for column in schema.partition_columns:
        _check_spelling(values.get(column.name), column)
    items = tuple((key, values[key]) for key in keys if key in values)
    return named_partition(PartitionSpec(items, spec.padded), schema)


def named_partition(spec: PartitionSpec, schema: TableSchema) -> PartitionSpec:
    """Return a spec, or raise if a request cannot express it; CHAR values may end in blanks."""
    chars = char_keys(schema)
    for key, value in spec:
        if key not in chars:
            check_partition_value(key, value)
    return PartitionSpec.of(spec)


def char_keys(schema: TableSchema) -> frozenset[str]:
    """Return the partition columns of type CHAR, whose values may end in blanks."""
    columns = schema.partition_columns
    return frozenset(column.name for column in columns if column.type.code is TypeCode.CHAR)


def check_whole_partition(
    spec: PartitionSpec, schema: TableSchema, table: TableName
) -> PartitionSpec:
    """Check a spec as `check_partition` does, and require a value for every partition level."""
    checked, keys = check_partition(spec, schema, table), schema.partition_columns
    if not keys:
        raise ArgumentError(f"{table} is not partitioned")
    if len(checked) < len(keys):
        raise ArgumentError(
            f"{str(spec)!r} is not a complete partition of {table}",
            code="InvalidPartitionSpec",
            hint=f"pass a value for each of: {', '.join(column.name for column in keys)}",
        )
    return checked


def check_overwrite(
    overwrite: Overwrite,
    partition: PartitionSpec,
    schema: TableSchema,
    table: TableName,
    *,
    takes_all: bool = True,
) -> bool:
    """Return whether a write replaces rows; raise if it could replace more than intended.

    ``takes_all``: whether ``overwrite="all"`` is allowed.
    """
    keys = [column.name for column in schema.partition_columns]
    if overwrite == "partitions":
        if not keys:
            raise ArgumentError(
                f"{table} is not partitioned", argument="overwrite", hint="pass overwrite=True"
            )
        return True
    if overwrite == "all" and takes_all:
        return True
    if not isinstance(overwrite, bool):
        words = "False, True, 'partitions' or 'all'" if takes_all else "False, True or 'partitions'"
        raise ArgumentError(
            f"overwrite is {shown(overwrite)}", argument="overwrite", hint=f"pass {words}"
        )
    if overwrite and len(partition) < len(keys):
        raise ArgumentError(
            f"{table} is partitioned by {', '.join(keys)}, so overwrite=True needs a complete "
            "partition=",
            argument="overwrite",
            hint="pass a value for each level, or overwrite='partitions' to replace the "
            "partitions that receive rows"
            + (", or overwrite='all' to replace all partitions" if takes_all else ""),
        )
    return overwrite


def _check_spelling(value: str | None, column: Column) -> None:
    """Reject spellings such as ``03`` for 3, which some readers treat as another partition."""
    if value is None:
        return
    code, good = column.type.code, True
    if TYPE_FACTS[code].kind == "INTEGER":
        most = 1 << (8 * TYPE_FACTS[code].width - 1)
        is_number = re.fullmatch("0|-?[1-9][0-9]{0,18}", value) is not None
        good = is_number and -most <= int(value) < most
    elif code is TypeCode.DATE:
        try:
            good = datetime.date.fromisoformat(value).isoformat() == value
        except ValueError:
            good = False
    if not good:
        raise ArgumentError(
            f"{value!r} is not a valid {code.name} for the partition column {column.name!r}",
            code="InvalidPartitionSpec",
            hint="write dates as 2024-01-31"
            if code is TypeCode.DATE
            else f"write digits without leading zeros, in the range of {code.name}",
        )


def require(module: str) -> Any:
    """Import a library; if it is missing, raise an error that names the extra to install."""
    extra = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{error.name} is not installed", extra=extra, hint=f"pip install 'odps-nb[{extra}]'"
        ) from error
