"""Parses the parts that several kinds of statements share: columns, partitions, lists of names."""

from __future__ import annotations

from odps_nb.errors import ArgumentError
from odps_nb.local import faults
from odps_nb.local.sql.tokenizer import Cursor
from odps_nb.schema import Column
from odps_nb.terms import PartitionSpec
from odps_nb.wire.type_text import parse_columns

__all__ = ["columns_of", "integer", "items", "names", "read_columns", "specs"]


_CONDITIONS = ("<", "<=", ">", ">=", "<>", "!=", "in", "like", "between")


def integer(cursor: Cursor) -> int:
    """Parse a whole number."""
    text = cursor.value()
    if not text.lstrip("-").isdigit():
        raise cursor.error("expected a whole number", back=1)
    return int(text)


def names(cursor: Cursor) -> list[str]:
    """Parse ``(a, b)``."""
    inner = cursor.inner()
    found = [inner.name()]
    while inner.accept(","):
        found.append(inner.name())
    inner.end()
    return found


def columns_of(cursor: Cursor) -> tuple[Column, ...]:
    """Parse ``(a bigint, b string comment '…')``."""
    at = cursor.line_and_column
    return read_columns(cursor.parenthesised(), at)


def read_columns(text: str, at: tuple[int, int]) -> tuple[Column, ...]:
    """Parse ``a bigint, b string comment '…'``, which begins ``at`` a line and column."""
    try:
        return parse_columns(text)
    except ArgumentError as error:
        line, column = at
        if error.message.lower().endswith("found 'default'"):
            what = "DEFAULT value of a column"
            raise faults.lacks(what, is_sure=True, line=line, column=column) from None
        raise faults.parse_failed(
            error.message, line=line, column=column, advice=f"check the types: {error.hint}"
        ) from None


def specs(cursor: Cursor) -> list[PartitionSpec]:
    """Parse any number of ``PARTITION (a='x', b=1)``; each key needs a value."""
    found = []
    while cursor.accept("partition"):
        given = items(cursor)
        if any(value is None for _, value in given):
            raise cursor.error("a partition key needs a value here")
        found.append(PartitionSpec(tuple((k, v) for k, v in given if v is not None)))
        cursor.accept(",")
    return found


def items(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """Parse ``(a='x', b)``; a key without a value is dynamic."""
    inner = cursor.inner()
    found: list[tuple[str, str | None]] = []
    while not inner.at_end:
        key = inner.name()
        if any(inner.peek(sign) for sign in _CONDITIONS):
            line, column = inner.line_and_column
            what = "condition in PARTITION (…)"
            raise faults.lacks(what, is_sure=True, line=line, column=column)
        found.append((key, inner.value() if inner.accept("=") else None))
        if not (inner.accept(",") or inner.accept("/")):
            break
    inner.end()
    return tuple(found)
