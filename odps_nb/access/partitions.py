"""Resolves the partitions of a read, and returns the details of a table's partitions.

``partitions=`` accepts exact (or partial) specs, ranges such as ``ds>=2024-01-01``, and ``latest``.
A plan contains only specs: ranges and ``latest`` are resolved with the service's partition list.
"""

from __future__ import annotations

import contextlib
import datetime
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from odps_nb.access.checks import (
    PartitionLike,
    char_keys,
    check_partition,
    iterator_of,
    named_partition,
)
from odps_nb.errors import ArgumentError, NotFoundError
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName, did_you_mean
from odps_nb.type_facts import TYPE_FACTS

if TYPE_CHECKING:
    from odps_nb.client.calls.cancel import CancelToken
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.wire.control import PartitionInfo

LATEST = "latest"
"""Selects the largest first-level value that has rows, like ``max_pt`` in SQL."""

_INVALID = "InvalidPartitionSpec"
_LEVEL = re.compile(r"""((?:'[^']*'|"[^"]*"|[^,/])+)""")  # as in `PartitionSpec.of`
_RANGE = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*(.*?)\s*", re.DOTALL)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRange:
    """Exact values and comparisons; a partition must match all of them."""

    exact: PartitionSpec
    bounds: tuple[Bound, ...]

    def __str__(self) -> str:
        parts = [str(bound) for bound in self.bounds]
        return ",".join([*([str(self.exact)] if self.exact.items else []), *parts])


PartitionChoice = PartitionLike | PartitionRange


def parse_choices(
    partitions: PartitionChoice | Iterable[PartitionChoice] | None,
) -> tuple[PartitionSpec | PartitionRange | str, ...]:
    """Parse ``partitions=`` into exact specs, ranges and `LATEST`; empty for all partitions.

    Only ``None`` selects all partitions: an empty list or spec, for example from a program that
    found nothing new, raises an error.
    """
    if partitions is None:
        return ()
    single = isinstance(partitions, (str, bytes, Mapping, PartitionSpec, PartitionRange))
    many = None if single else iterator_of(partitions)
    choices = tuple(map(_parsed, (partitions,) if many is None else many))
    if not choices or any(
        isinstance(choice, PartitionSpec) and not choice.items for choice in choices
    ):
        raise no_choice()
    return choices


def target_partition(partition: PartitionLike | None) -> PartitionSpec:
    """Return the partition to write to, or an empty spec for ``None``; raise for an empty text."""
    spec = PartitionSpec.of(partition)
    if not (spec.items or partition is None or isinstance(partition, PartitionSpec)):
        raise ArgumentError(
            "the partition is empty",
            code=_INVALID,
            argument="partition",
            hint="name a partition, such as 'ds=2024-01-01', or omit partition=",
        )
    return spec


def no_choice() -> ArgumentError:
    """Return the error for an empty list or spec, which would otherwise select all partitions."""
    return ArgumentError(
        "the choice of partitions is empty",
        code=_INVALID,
        argument="partitions",
        hint="name at least one partition, or omit partitions= for all",
    )


def _parsed(value: PartitionChoice) -> PartitionSpec | PartitionRange | str:
    if isinstance(value, PartitionRange):
        return value
    if isinstance(value, str) and value.strip().casefold() == LATEST:
        return LATEST
    levels: Iterable[tuple[str, Any]] = ()
    if isinstance(value, str):
        levels = [(level, None) for level in _LEVEL.findall(value) if level.strip()]
    elif isinstance(value, Mapping):
        levels = [(str(key), item) for key, item in value.items()]
    bounds, exact = [], []
    for text, level_value in levels:
        day = _day_text(level_value)
        if match := _RANGE.fullmatch(text):
            bounds.append(_bound(match, text, day or level_value))
        elif day:
            bounds.append(Bound(text, "=", day))
        else:
            exact.append((text, level_value))
    if not bounds:
        return PartitionSpec.of(value, padded=True)
    rest = ",".join(text for text, _ in exact) if isinstance(value, str) else dict(exact)
    return PartitionRange(exact=PartitionSpec.of(rest or None, padded=True), bounds=tuple(bounds))


def _day_text(value: object) -> str | None:
    is_day = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return value.isoformat() if is_day else None  # type: ignore[attr-defined]  # a date


def _bound(match: re.Match[str], text: str, level_value: Any) -> Bound:
    """Return a comparison; its value is parsed as in `PartitionSpec.of`."""
    key, sign, written = match.groups()
    if written[:1] not in ("'", '"') and re.search("[<>=]", written):
        raise ArgumentError(
            f"{text!r} is not one comparison",
            code=_INVALID,
            hint="separate comparisons by ',', e.g. ds>=2024-01-01,ds<2024-02-01, or use where=",
        )
    if level_value is not None and written:
        raise ArgumentError(
            f"{text!r} already has a value", code=_INVALID, hint="write {'ds >=': value}"
        )
    source = f"{key}={written}" if level_value is None else {key: level_value}
    ((_, value),) = PartitionSpec.of(source, padded=True).items
    is_text = isinstance(level_value, str) if level_value is not None else written != value
    return Bound(key, sign, value, not is_text and is_number(value))


def choose_partitions(
    partitions: PartitionChoice | Iterable[PartitionChoice] | None,
    schema: TableSchema,
    table: TableName,
    storage: StorageClient,
) -> tuple[PartitionSpec, ...]:
    """Return the exact specs of a read.

    Partitions are listed only for ranges, `LATEST` and CHAR columns. A CHAR value means any listed
    value that differs only in blanks at its end.
    """
    chars = char_keys(schema)
    chosen: dict[PartitionSpec, None] = {}
    listed: list[PartitionInfo] | None = None
    for choice in parse_choices(partitions):
        if isinstance(choice, PartitionSpec):
            exact = check_partition(choice, schema, table)
            if not any(key in chars for key, _ in exact):
                chosen[exact] = None
                continue
            choice = PartitionRange(exact=exact, bounds=())
        if not schema.partition_columns:
            raise ArgumentError(f"{table} is not partitioned", hint="omit partitions=")
        if not isinstance(choice, str):
            _check_range(choice, schema, table)
        if listed is None:
            from odps_nb.client.catalog import iter_partitions

            listed = list(iter_partitions(storage, table))
        test = None if isinstance(choice, str) else _test(choice, schema, table, listed)
        if test is None:
            chosen[_latest(listed, schema, table, storage)] = None
            continue
        specs = (PartitionSpec(info.spec.items, padded=True) for info in listed)
        matches = [named_partition(spec, schema) for spec in specs if test(dict(spec))]
        if not matches:
            raise NotFoundError(
                f"no partition of {table} matches {choice}",
                code="NoSuchPartition",
                hint=_extent(listed),
            )
        chosen.update(dict.fromkeys(matches))
    return tuple(chosen)


def _extent(listed: Iterable[PartitionInfo]) -> str:
    specs = sorted(str(info.spec) for info in listed)
    if not specs:
        return "the table has no partitions; write rows or add a partition first"
    return f"choose from the existing partitions, {specs[0]} to {specs[-1]}"


def _check_range(partition_range: PartitionRange, schema: TableSchema, table: TableName) -> None:
    """Raise for unknown partition columns, and for values that are not of a column's type."""
    check_partition(partition_range.exact, schema, table)
    names = [key.name for key in schema.partition_columns]
    for bound in partition_range.bounds:
        column = _column(bound, schema)
        if column is None:
            raise ArgumentError(
                f"{bound.key!r} is not a partition column of {table}",
                code=_INVALID,
                hint=f"{did_you_mean(bound.key, names)}partition columns are: {', '.join(names)}",
            )
        if _comparable(bound.value, column) is None:
            raise ArgumentError(
                f"{bound.value!r} cannot be compared with the partition column {column.name!r} of "
                f"type {column.type.code.name}",
                code=_INVALID,
                hint="pass a value of this type, or select rows with where=",
            )


def _column(bound: Bound, schema: TableSchema) -> Column | None:
    keys = {column.name.casefold(): column for column in schema.partition_columns}
    return keys.get(bound.key.casefold())


def _test(
    partition_range: PartitionRange,
    schema: TableSchema,
    table: TableName,
    listed: list[PartitionInfo],
) -> Callable[[Mapping[str, str]], bool]:
    """Return a function that tests whether a partition is in a range."""
    keys = {column.name.casefold(): column for column in schema.partition_columns}
    exact = check_partition(partition_range.exact, schema, table)
    wanted_values = [(key, _text(value, keys[key.casefold()])) for key, value in exact]
    tests: list[tuple[str, Callable[[Any, Any], bool], Callable[[str], Any], Any]] = []
    for comparison in partition_range.bounds:
        column = _column(comparison, schema)
        assert column is not None
        value_of, bound = partial(_comparable, column=column), _comparable(comparison.value, column)
        if isinstance(bound, str):
            partition_values = {_text(dict(info.spec)[column.name], column) for info in listed}
            compared, bound = text_comparison(
                replace(comparison, value=bound),
                partition_values - {DEFAULT_PARTITION},
                column.name,
            )
            value_of = partial(_compared, compared, column)
        tests.append((column.name, _COMPARE[comparison.sign], value_of, bound))

    def test(values: Mapping[str, str]) -> bool:
        if any(_text(values[key], keys[key.casefold()]) != value for key, value in wanted_values):
            return False
        for name, holds, value_of, bound in tests:
            value = None if values[name] == DEFAULT_PARTITION else value_of(values[name])
            if value is None or not holds(value, bound):
                return False
        return True

    return test


def _compared(value_of: Callable[[str], Any], column: Column, value: str) -> Any:
    return value_of(_text(value, column))


def _text(value: str, column: Column) -> str:
    """Return a partition value without the blanks that a comparison ignores."""
    return value.rstrip(" ") if column.type.code is TypeCode.CHAR else value


def _comparable(value: str, column: Column) -> Any:
    """Parse a partition value as the column's type; ``None`` if it is not valid."""
    kind = TYPE_FACTS[column.type.code].kind
    if kind in ("TEXT", "CHAR"):
        return _text(value, column)
    with contextlib.suppress(ValueError):
        if kind == "INTEGER":
            return int(value) if re.fullmatch(r"[+-]?[0-9]+", value) else None
        if kind == "DATE":
            return datetime.date.fromisoformat(value)
    return None


def _latest(
    listed: list[PartitionInfo], schema: TableSchema, table: TableName, storage: StorageClient
) -> PartitionSpec:
    """Return the largest first-level value that has rows; values are compared by type."""
    first = schema.partition_columns[0]

    def value_of(info: PartitionInfo) -> str:
        return dict(info.spec)[first.name]

    def rank(info: PartitionInfo) -> tuple[bool, Any, str]:
        value = _comparable(value_of(info), first)
        known = value is not None
        return known, value if known else 0, value_of(info)

    ordered = sorted(listed, key=rank, reverse=True)
    for value, group in groupby(ordered, key=value_of):
        if any(_has_rows(info, table, storage) for info in group):
            return named_partition(PartitionSpec(((first.name, value),), padded=True), schema)
    raise NotFoundError(
        f"no partition of {table} has rows", code="NoSuchPartition", hint="write rows first"
    )


def _has_rows(info: PartitionInfo, table: TableName, storage: StorageClient) -> bool:
    if info.record_count is None and info.size is None:
        info = _fetched(info, table, storage)
    return info.record_count != 0 if info.size is None else bool(info.size or info.record_count)


def _fetched(
    info: PartitionInfo, table: TableName, storage: StorageClient, token: CancelToken | None = None
) -> PartitionInfo:
    """Fetch a partition's details; return ``info`` if its name cannot be sent in a request."""
    from odps_nb.wire.control import GetPartition

    if not info.spec.has_name:
        return info
    return storage.control(GetPartition(table=table, partition=info.spec), cancel=token)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDetails:
    """Details of one partition; ``None`` for fields that the service does not report.

    ``partition`` can be passed as ``partitions=``. Times are in UTC; ``modified`` is the time of
    the last change to rows.
    """

    partition: str
    rows: int | None = None
    bytes: int | None = None
    created: datetime.datetime | None = None
    modified: datetime.datetime | None = None


def fetch_details(
    storage: StorageClient, table: TableName, under: PartitionSpec
) -> list[PartitionDetails]:
    """Return the details of each partition; sends one request per partition."""
    from odps_nb.client.catalog import iter_partitions
    from odps_nb.client.parallel.fan_out import fan_out

    def fetch(info: PartitionInfo, token: CancelToken) -> Iterator[PartitionDetails]:
        details = _fetched(info, table, storage, token)
        yield PartitionDetails(
            partition=str(info.spec),
            rows=details.record_count,
            bytes=details.size,
            created=_moment(details.created_at),
            modified=_moment(details.modified_at),
        )

    jobs = [partial(fetch, info) for info in iter_partitions(storage, table, under)]
    return list(fan_out(jobs, size=lambda _: 0, cancel=storage.operation()))


def _moment(seconds: int | None) -> datetime.datetime | None:
    return None if not seconds else datetime.datetime.fromtimestamp(seconds, datetime.UTC)


DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The partition of null values, which no range selects."""
_DAYS = {"%Y-%m-%d": re.compile(r"\d{4}-\d\d-\d\d"), "%Y%m%d": re.compile(r"\d{8}")}


@dataclass(frozen=True, slots=True)
class Bound:
    """One comparison; ``is_number``: whether the value is a number (in text: without quotes)."""

    key: str
    sign: str
    value: str
    is_number: bool = False

    def __str__(self) -> str:
        is_text = is_number(self.value) and not self.is_number
        return f"{self.key}{self.sign}" + (f"'{self.value}'" if is_text else self.value)


def text_comparison(
    bound: Bound, found: Collection[str], column: str
) -> tuple[Callable[[str], Any], Any]:
    """Return how to compare values of a text column, and what to compare them with.

    A day is formatted like the existing values, a number is compared with numbers (as in SQL), and
    any other value as text. Raises `ArgumentError` if a value cannot be compared in this way.
    """
    day = _day(bound.value)
    for form, shape in _DAYS.items():
        if day is not None and all(map(shape.fullmatch, found)):
            return str, day.strftime(form)
    mixed = day is not None and any(map(_DAYS["%Y-%m-%d"].fullmatch, found))
    compared: tuple[Callable[[str], Any], Any] = str, bound.value
    to_do = "write it in the form of the values, or select rows with where="
    if bound.is_number:
        same_kind = all(map(is_number, found))
        if day is not None:  # months and hours such as 2024010203 are numbers, but not days
            same_kind = same_kind and any(map(_DAYS["%Y%m%d"].fullmatch, found))
        compared = Decimal, Decimal(bound.value)
        if not mixed:
            to_do = f"write it in quotes to compare text: {column}{bound.sign}'{bound.value}'"
    elif re.match(r"\d{4}-\d", bound.value):
        begins = re.compile(re.sub(r"\d", r"\\d", re.escape(bound.value[:10])))
        same_kind = all(map(begins.match, found))
    else:
        same_kind = not mixed
    if not same_kind:
        raise ArgumentError(
            f"{bound.value!r} cannot be compared with the values of {column!r}, such as "
            f"{min(found)!r} and {max(found)!r}",
            code="InvalidPartitionSpec",
            hint=to_do,
        )
    return compared


def _day(text: str) -> datetime.date | None:
    for form, shape in _DAYS.items():
        if shape.fullmatch(text):
            with contextlib.suppress(ValueError):
                return datetime.datetime.strptime(text, form).date()
    return None


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,9})?", re.ASCII | re.IGNORECASE)


def is_number(text: str) -> bool:
    """Whether the text is a finite number, as in SQL: `Decimal` would also accept ``1_0``."""
    return _NUMBER.fullmatch(text) is not None
