"""Parses SHOW and DESC, and parts that statements share: columns, partitions, lists."""

from __future__ import annotations

from odps_nb.errors import ArgumentError
from odps_nb.local import errors
from odps_nb.local.sql.parsing.statements import Show
from odps_nb.local.sql.parsing.tokenizer import Cursor
from odps_nb.schema import Column
from odps_nb.terms import PartitionSpec
from odps_nb.wire.type_text import parse_columns

_CONDITIONS = ("<", "<=", ">", ">=", "<>", "!=", "in", "like", "between")


def integer(cursor: Cursor) -> int:
    """Parse a whole number."""
    text = cursor.value()
    if not text.lstrip("-").isdigit():
        raise cursor.error("expected a whole number", back=1)
    return int(text)


def days(cursor: Cursor) -> int:
    """Parse the number of days of a lifecycle."""
    number = integer(cursor)
    if number < 1:
        raise cursor.error("a lifecycle is a positive number of days", back=1)
    return number


def names(cursor: Cursor) -> tuple[str, ...]:
    """Parse ``(a, b)``."""
    inner = cursor.inner()
    identifiers = inner.listed(inner.name)
    inner.end()
    return identifiers


def columns_of(cursor: Cursor) -> tuple[Column, ...]:
    """Parse ``(a bigint, b string comment '…')``."""
    at = cursor.line_and_column
    return read_columns(cursor.parenthesised(), at)


def read_columns(text: str, at: tuple[int, int]) -> tuple[Column, ...]:
    """Parse ``a bigint, b string comment '…'``. ``at``: the text's line and column, for errors."""
    try:
        return parse_columns(text)
    except ArgumentError as error:
        if error.message.lower().endswith("found 'default'"):
            raise errors.lacks("a DEFAULT value for a column", is_sure=True, at=at) from None
        advice = f"check the types: {error.hint}"
        raise errors.parse_failed(error.message, at=at, advice=advice) from None


def specs(cursor: Cursor) -> tuple[PartitionSpec, ...]:
    """Parse any number of ``PARTITION (a='x', b=1)``, in which each key needs a value."""
    partitions = []
    while cursor.peek("partition"):
        partitions.append(_spec(cursor))
    return tuple(partitions)


def _spec(cursor: Cursor) -> PartitionSpec:
    cursor.expect("partition")
    pairs = items(cursor)
    if any(value is None for _, value in pairs):
        raise cursor.error("a partition key needs a value here")
    cursor.accept(",")
    return PartitionSpec(tuple((k, v) for k, v in pairs if v is not None))


def specs_or_conditions(cursor: Cursor) -> tuple[tuple[PartitionSpec, ...], tuple[str, ...]]:
    """Parse any number of ``PARTITION (a='x')`` and ``PARTITION (a > 'x')``."""
    partitions: list[PartitionSpec] = []
    conditions: list[str] = []
    while cursor.peek("partition"):
        if cursor.encloses(*_CONDITIONS, "and", "or", "not", "("):
            cursor.expect("partition")
            inner = cursor.inner()
            conditions.append(inner.until(","))
            if not inner.at_end:
                raise inner.error("expected AND or OR between conditions")
            cursor.accept(",")
        else:
            partitions.append(_spec(cursor))
    return tuple(partitions), tuple(conditions)


def items(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """Parse ``(a='x', b)``; a key without a value is dynamic."""
    inner = cursor.inner()
    pairs: list[tuple[str, str | None]] = []
    while not inner.at_end:
        key = inner.name()
        if any(inner.peek(sign) for sign in _CONDITIONS):
            what, at = "condition in PARTITION (…)", inner.line_and_column
            raise errors.lacks(what, is_sure=True, at=at)
        pairs.append((key, inner.value() if inner.accept("=") else None))
        if not (inner.accept(",") or inner.accept("/")):
            break
    inner.end()
    return tuple(pairs)


def read_show(cursor: Cursor) -> Show:
    """Parse ``SHOW TABLES | PARTITIONS | SCHEMAS | CREATE TABLE …``."""
    what = cursor.one_of("tables", "partitions", "schemas", "create")
    if what == "partitions":
        return Show(what=what, name=cursor.dotted(), within=_within(cursor))
    if what == "create":
        cursor.one_of("table", "view")
        return Show(what=what, name=cursor.dotted())
    scope = cursor.dotted() if cursor.accept("in") or cursor.accept("from") else ()
    pattern = cursor.text() if cursor.accept("like") else "*"
    return Show(what=what, name=scope, pattern=pattern)


def read_describe(cursor: Cursor) -> Show:
    """Parse ``DESC [TABLE] [EXTENDED | FORMATTED] t [PARTITION (…)]``."""
    extended = cursor.accept("extended") or cursor.accept("formatted")
    if cursor.peek("table") and len(cursor.rest.split()) > 1:
        cursor.accept("table")
    return Show(what="columns", name=cursor.dotted(), within=_within(cursor), extended=extended)


def quoted(name: str) -> str:
    """Return an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def _within(cursor: Cursor) -> PartitionSpec | None:
    return specs(cursor)[0] if cursor.peek("partition") else None
