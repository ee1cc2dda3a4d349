"""Parses CREATE TABLE, VIEW, MATERIALIZED VIEW and SCHEMA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from odps_nb.local import errors
from odps_nb.local.sql.parsing.statements import (
    ChangeSchema,
    CreateMaterialized,
    CreateTable,
    CreateView,
    Statement,
)
from odps_nb.local.sql.parsing.tokenizer import Cursor
from odps_nb.local.sql.parsing.words import columns_of, days, names, read_columns
from odps_nb.local.store.tables import CLUSTERED_BY, PRIMARY_KEY
from odps_nb.schema import Column, TableSchema
from odps_nb.wire.control.generated import parse_generated


def read_create(cursor: Cursor) -> Statement:
    """Parse the text after CREATE."""
    if cursor.accept("schema"):
        exists = cursor.accept("if", "not", "exists")
        name = cursor.dotted()
        comment = cursor.text() if cursor.accept("comment") else ""
        return ChangeSchema(name=name, drops=False, lenient=exists, comment=comment)
    replaces = cursor.accept("or", "replace")
    if not replaces and cursor.accept("materialized", "view"):
        return _create_materialized(cursor)
    if cursor.accept("view"):
        return _create_view(cursor, replaces=replaces)
    cursor.one_of("table", *(["view"] if replaces else []))
    statement = CreateTable(
        if_not_exists=cursor.accept("if", "not", "exists"),
        name=cursor.dotted(),
        or_replace=replaces,
    )
    if cursor.accept("like"):
        like = cursor.dotted()
        lifecycle = days(cursor) if cursor.accept("lifecycle") else -1
        return replace(statement, like=like, lifecycle=lifecycle)
    columns: tuple[Column, ...] = ()
    keys: tuple[str, ...] = ()
    if cursor.peek("("):
        columns, keys = _columns_and_keys(cursor)
    partitions, properties, facts = _tail(cursor, columns)
    if keys:
        properties.append((PRIMARY_KEY, ",".join(keys)))
    if cursor.accept("as"):
        if columns or partitions:
            what = "a column list" if columns else "PARTITIONED BY"
            advice = "create the table without AS, and run INSERT INTO"
            raise errors.lacks(f"{what} in CREATE TABLE … AS", is_sure=False, advice=advice)
        facts["query"] = cursor.take(cursor.placed)
    else:
        facts["schema"] = TableSchema(columns=columns, partition_columns=partitions)
    return replace(statement, properties=tuple(properties), **facts)


def _create_view(cursor: Cursor, *, replaces: bool) -> Statement:
    exists = cursor.accept("if", "not", "exists")
    name = cursor.dotted()
    columns = _commented(cursor) if cursor.peek("(") else ()
    comment = cursor.text() if cursor.accept("comment") else ""
    cursor.expect("as")
    return CreateView(
        name=name,
        query=cursor.take(cursor.rest),
        columns=columns,
        comment=comment,
        or_replace=replaces,
        if_not_exists=exists,
    )


def _commented(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """Parse ``(a COMMENT '…', b)``."""
    inner = cursor.inner()
    columns = inner.listed(lambda: (inner.name(), inner.text() if inner.accept("comment") else ""))
    inner.end()
    return columns


def _create_materialized(cursor: Cursor) -> Statement:
    exists = cursor.accept("if", "not", "exists")
    view = CreateView(name=cursor.dotted(), query="", if_not_exists=exists)
    facts: dict[str, Any] = {}
    known: set[str] = set()
    while not cursor.accept("as"):
        _check_new(cursor, known)
        if cursor.peek("("):
            view = replace(view, columns=_commented(cursor))
        elif cursor.accept("comment"):
            view = replace(view, comment=cursor.text())
        elif cursor.accept("lifecycle"):
            facts["lifecycle"] = days(cursor)
        elif cursor.accept("build", "deferred"):
            facts["deferred"] = True
        elif cursor.accept("disable", "rewrite"):
            facts["rewrites"] = False
        elif cursor.accept("partitioned", "on") or cursor.accept("partitioned", "by"):
            facts["partitions"] = names(cursor)
        elif cursor.accept("tblproperties"):
            facts["properties"] = (*facts.get("properties", ()), *read_properties(cursor))
        else:
            raise cursor.unexpected("a clause of CREATE MATERIALIZED VIEW", _CLAUSES)
    return CreateMaterialized(view=replace(view, query=cursor.take(cursor.rest)), **facts)


_CLAUSES = (
    *("comment", "partitioned", "lifecycle", "tblproperties", "clustered", "range", "auto", "as"),
    "stored",
)


def _tail(
    cursor: Cursor, columns: tuple[Column, ...]
) -> tuple[tuple[Column, ...], list[tuple[str, str]], dict[str, Any]]:
    """Parse the clauses after the column list (partitions, properties etc.) in any order."""
    partitions: tuple[Column, ...] = ()
    properties: list[tuple[str, str]] = []
    facts: dict[str, Any] = {}
    known: set[str] = set()
    while not cursor.at_end and not cursor.peek("as"):
        _check_new(cursor, known)
        if cursor.accept("comment"):
            facts["comment"] = cursor.text()
        elif cursor.accept("partitioned", "by"):
            partitions = columns_of(cursor)
        elif cursor.accept("auto", "partitioned", "by"):
            partitions = (_generated(cursor, columns),)
        elif cursor.accept("lifecycle"):
            facts["lifecycle"] = days(cursor)
        elif cursor.accept("tblproperties"):
            properties += read_properties(cursor)
        elif cursor.accept("stored", "as"):
            _stored_as(cursor)
        elif cursor.accept("clustered", "by") or cursor.accept("range", "clustered", "by"):
            properties += _clustering(cursor)
        else:
            raise cursor.unexpected("a clause of CREATE TABLE", _CLAUSES)
    return partitions, properties, facts


def _check_new(cursor: Cursor, known: set[str]) -> None:
    """Raise a parse error for a clause that occurs twice; add its first word to ``known``.

    The properties of several TBLPROPERTIES are combined.
    """
    for word in cursor.words[:1]:
        if word in known and word != "TBLPROPERTIES":
            raise cursor.error(f"{word} occurs twice")
        known.add(word)


def _stored_as(cursor: Cursor) -> None:
    """Parse a file format. Only the format of internal tables is accepted."""
    at, word = cursor.line_and_column, cursor.name().upper()
    if word != "ALIORC":
        raise errors.lacks(f"STORED AS {word} in CREATE TABLE", is_sure=True, at=at)


def _generated(cursor: Cursor, columns: tuple[Column, ...]) -> Column:
    """Parse ``(trunc_time(d, 'day') as pt)``."""
    column = parse_generated(cursor.parenthesised(), [column.name for column in columns])
    if column is None:
        raise cursor.error(
            "AUTO PARTITIONED BY requires one TRUNC_TIME of a column and a unit",
            back=1,
            advice="write (trunc_time(d, 'day') as pt)",
        )
    return column


def _clustering(cursor: Cursor) -> Iterator[tuple[str, str]]:
    """Parse the text after ``[RANGE] CLUSTERED BY``, which does not affect how rows are stored."""
    yield CLUSTERED_BY, cursor.parenthesised()
    if cursor.accept("sorted", "by"):
        cursor.parenthesised()
    if cursor.accept("into"):
        yield "buckets", cursor.value()
        cursor.expect("buckets")


def _columns_and_keys(cursor: Cursor) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Parse a column list with ``PRIMARY KEY (a, b)`` at its end or after a column's type."""
    at = cursor.line_and_column
    text = cursor.parenthesised()
    inner, column_text, keys = Cursor(text), "", list[str]()
    start = depth = 0
    column = inner.name()
    while not inner.at_end:
        offset = inner.place
        if inner.accept(",", "primary", "key"):
            column_text += text[start:offset]
            keys += names(inner)
            inner.end()
            start = len(text)
        elif inner.accept("primary", "key"):
            column_text += text[start:offset]
            start = inner.place
            keys.append(column)
        elif not depth and inner.accept(","):
            column = inner.name()
        else:
            depth += inner.nesting()
    columns = read_columns(column_text + text[start:], at)
    known = {c.name.casefold(): c.name for c in columns}
    if missing := [key for key in keys if key.casefold() not in known]:
        raise errors.semantic(f"the key column {missing[0]!r} is not in the column list")
    return columns, tuple(known[key.casefold()] for key in keys)


def read_properties(cursor: Cursor) -> list[tuple[str, str]]:
    """Parse ``('key'='value', …)``."""
    inner = cursor.inner()
    properties = []
    while not inner.at_end:
        key = inner.text()
        inner.expect("=")
        is_word = inner.peek("true") or inner.peek("false")
        properties.append((key, inner.name() if is_word else inner.value()))
        if not inner.accept(","):
            break
    inner.end()
    return properties
