"""Parses what follows SHOW and DESC."""

from __future__ import annotations

from odps_nb.local.sql.statements import (
    Describe,
    ShowCreate,
    ShowPartitions,
    ShowSchemas,
    ShowTables,
    Statement,
)
from odps_nb.local.sql.text_words import specs
from odps_nb.local.sql.tokenizer import Cursor
from odps_nb.terms import PartitionSpec

__all__ = ["read_describe", "read_show"]

_SHOWN = ("tables", "partitions", "schemas", "create")


def read_show(cursor: Cursor) -> Statement:
    """Parse ``SHOW TABLES | PARTITIONS | SCHEMAS | CREATE TABLE …``."""
    if cursor.accept("partitions"):
        name = tuple(cursor.dotted())
        shown: Statement = ShowPartitions(name=name, within=_within(cursor))
    elif cursor.accept("create", "table") or cursor.accept("create", "view"):
        shown = ShowCreate(name=tuple(cursor.dotted()))
    elif cursor.accept("schemas"):
        scope = cursor.dotted() if cursor.accept("in") or cursor.accept("from") else []
        pattern = cursor.text() if cursor.accept("like") else "*"
        shown = ShowSchemas(project=scope[-1] if scope else None, pattern=pattern)
    elif cursor.accept("tables"):
        scope = cursor.dotted() if cursor.accept("in") or cursor.accept("from") else []
        shown = ShowTables(
            scope=tuple(scope), pattern=cursor.text() if cursor.accept("like") else "*"
        )
    else:
        raise (
            cursor.lacks(cursor.words, known=_SHOWN)
            if cursor.words
            else cursor.error(f"expected {', '.join(_SHOWN).upper()}")
        )
    cursor.end()
    return shown


def read_describe(cursor: Cursor) -> Statement:
    """Parse ``DESC [TABLE] [EXTENDED | FORMATTED] t [PARTITION (…)]``."""
    extended = cursor.accept("extended") or cursor.accept("formatted")
    if len(cursor.words) > 1:
        cursor.accept("table")
    name = tuple(cursor.dotted())
    described = Describe(name=name, partition=_within(cursor), extended=extended)
    cursor.end()
    return described


def _within(cursor: Cursor) -> PartitionSpec | None:
    if not cursor.peek("partition"):
        return None
    return specs(cursor)[0]
