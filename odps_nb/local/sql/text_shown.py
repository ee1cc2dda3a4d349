"""Parses what follows SHOW and DESC."""

from __future__ import annotations

from odps_nb.local.sql.statements import (
    Describe,
    Query,
    ShowCreate,
    ShowPartitions,
    ShowSchemas,
    ShowTables,
    Statement,
)
from odps_nb.local.sql.text_words import integer, names, specs
from odps_nb.local.sql.tokenizer import Cursor
from odps_nb.terms import PartitionSpec
from odps_nb.wire.type_text import format_text

__all__ = ["read_describe", "read_rows", "read_show"]

READ_ROWS = 10_000

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
    if cursor.peek("table") and len(cursor.rest.split()) > 1:
        cursor.accept("table")
    name = tuple(cursor.dotted())
    described = Describe(name=name, partition=_within(cursor), extended=extended)
    cursor.end()
    return described


def read_rows(cursor: Cursor) -> Statement:
    """Parse ``READ t [(a, b)] [PARTITION (…)] [n]``, which is a query of the first rows."""
    table = ".".join(map(_quoted, cursor.dotted()))
    columns = ", ".join(map(_quoted, names(cursor))) if cursor.peek("(") else "*"
    within = _within(cursor) or PartitionSpec()
    count = integer(cursor) if not cursor.at_end else READ_ROWS
    cursor.end()
    conditions = [f"{_quoted(key)} = {format_text(value)}" for key, value in within]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return Query(text=f"SELECT {columns} FROM {table}{where} LIMIT {count}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _within(cursor: Cursor) -> PartitionSpec | None:
    if not cursor.peek("partition"):
        return None
    return specs(cursor)[0]
