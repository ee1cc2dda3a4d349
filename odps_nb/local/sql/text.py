"""Parses SQL text into statements: DDL and the heads of INSERTs; queries are kept as text.

Names are not resolved here. Anything else is a parse error in the service's own form
(``ODPS-0130161:[line,column] …``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from odps_nb.errors import ArgumentError
from odps_nb.local import faults
from odps_nb.local.sql.changes import read_delete, read_update
from odps_nb.local.sql.statements import (
    AddColumns,
    AddPartitions,
    AlterTable,
    CreateSchema,
    CreateTable,
    CreateView,
    Describe,
    DropPartitions,
    DropSchema,
    DropTable,
    Insert,
    Name,
    Query,
    ShowPartitions,
    ShowTables,
    Statement,
    Truncate,
)
from odps_nb.local.sql.tokenizer import Cursor, statements
from odps_nb.local.store.tables import CLUSTERED_BY, PRIMARY_KEY
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import PartitionSpec
from odps_nb.wire.type_text import parse_columns

__all__ = ["parse_script"]


@dataclass(slots=True)
class _Tail:
    comment: str = ""
    partitions: tuple[Column, ...] = ()
    lifecycle: int = -1
    properties: list[tuple[str, str]] = field(default_factory=list)


def parse_script(source: str) -> list[Statement]:
    """Parse a script; ``SET k=v`` statements are dropped: settings come beside the text."""
    found = [_statement(cursor) for cursor in statements(source) if not _is_setting(cursor)]
    if not found:
        raise faults.parse_failed("there is no statement")
    return found


def _is_setting(cursor: Cursor) -> bool:
    return cursor.peek("set") and "=" in cursor.rest


def _statement(cursor: Cursor) -> Statement:
    if cursor.accept("create"):
        return _create(cursor)
    if cursor.accept("drop"):
        return _drop(cursor)
    if cursor.accept("alter", "table"):
        return _alter(cursor)
    if cursor.accept("alter", "view"):
        return _alter_view(cursor)
    if cursor.accept("truncate"):
        cursor.expect("table")
        truncate = Truncate(name=_name(cursor), specs=tuple(_specs(cursor)))
        cursor.end()
        return truncate
    if cursor.peek("insert"):
        return _insert(cursor)
    if cursor.accept("show"):
        return _show(cursor)
    if cursor.accept("desc") or cursor.accept("describe"):
        cursor.accept("extended")
        describe = Describe(name=_name(cursor))
        cursor.end()
        return describe
    if any(cursor.peek(word) for word in ("select", "with", "values", "from", "(")):
        return Query(text=cursor.rest)
    return _change(cursor)


def _change(cursor: Cursor) -> Statement:
    if cursor.accept("update"):
        return read_update(cursor)
    if cursor.accept("delete", "from"):
        return read_delete(cursor)
    raise cursor.error("this kind of statement is not supported here")


def _name(cursor: Cursor) -> Name:
    return tuple(cursor.dotted())


def _create(cursor: Cursor) -> Statement:
    if cursor.accept("schema"):
        exists = cursor.accept("if", "not", "exists")
        made = CreateSchema(name=_name(cursor), if_not_exists=exists)
        cursor.end()
        return made
    replaces = cursor.accept("or", "replace")
    if cursor.accept("view"):
        return _create_view(cursor, replaces=replaces)
    if replaces:
        raise cursor.error("expected VIEW")
    cursor.accept("external")
    cursor.expect("table")
    exists = cursor.accept("if", "not", "exists")
    name = _name(cursor)
    if cursor.accept("like"):
        return CreateTable(name=name, schema=None, if_not_exists=exists, like=_name(cursor))
    columns: tuple[Column, ...] = ()
    keys: tuple[str, ...] = ()
    if cursor.peek("("):
        columns, keys = _columns_and_keys(cursor)
    tail = _tail(cursor)
    if keys:
        tail.properties.append((PRIMARY_KEY, ",".join(keys)))
    query = None
    if cursor.accept("as"):
        query = cursor.rest
    else:
        cursor.end()
    return CreateTable(
        name=name,
        schema=None
        if query is not None
        else TableSchema(columns=columns, partition_columns=tail.partitions),
        if_not_exists=exists,
        comment=tail.comment,
        lifecycle=tail.lifecycle,
        properties=tuple(tail.properties),
        query=query,
    )


def _create_view(cursor: Cursor, *, replaces: bool) -> Statement:
    exists = cursor.accept("if", "not", "exists")
    name = _name(cursor)
    columns = []
    if cursor.peek("("):
        inner = Cursor(cursor.parenthesised())
        while True:
            column = inner.name()
            columns.append((column, inner.text() if inner.accept("comment") else ""))
            if not inner.accept(","):
                break
        inner.end()
    comment = cursor.text() if cursor.accept("comment") else ""
    cursor.expect("as")
    return CreateView(
        name=name,
        query=cursor.rest,
        columns=tuple(columns),
        comment=comment,
        or_replace=replaces,
        if_not_exists=exists,
    )


def _tail(cursor: Cursor) -> _Tail:
    """Parse the clauses after the column list, in any order."""
    tail = _Tail()
    while not cursor.at_end and not cursor.peek("as"):
        if cursor.accept("comment"):
            tail.comment = cursor.text()
        elif cursor.accept("partitioned", "by"):
            tail.partitions = _columns(cursor)
        elif cursor.accept("lifecycle"):
            tail.lifecycle = _integer(cursor)
        elif cursor.accept("tblproperties"):
            tail.properties += _properties(cursor)
        elif cursor.accept("clustered", "by") or cursor.accept("range", "clustered", "by"):
            tail.properties += _clustering(cursor)
        else:
            raise cursor.error("this clause of CREATE TABLE is not supported here")
    return tail


def _clustering(cursor: Cursor) -> Iterator[tuple[str, str]]:
    """Parse what follows ``[RANGE] CLUSTERED BY``; it does not affect how rows are stored."""
    yield CLUSTERED_BY, cursor.parenthesised()
    if cursor.accept("sorted", "by"):
        cursor.parenthesised()
    if cursor.accept("into"):
        yield "buckets", cursor.value()
        cursor.expect("buckets")


def _integer(cursor: Cursor) -> int:
    text = cursor.value()
    if not text.lstrip("-").isdigit():
        raise cursor.error("expected a whole number", back=1)
    return int(text)


def _columns_and_keys(cursor: Cursor) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Parse a column list with ``, PRIMARY KEY (a, b)`` at its end, or ``a bigint PRIMARY KEY``."""
    text = cursor.parenthesised()
    inner, kept, keys = Cursor(text), "", []
    start = depth = 0
    column = inner.name()
    while not inner.at_end:
        place = inner.place
        if inner.accept(",", "primary", "key"):
            kept += text[start:place]
            keys += _names(inner)
            inner.end()
            start = len(text)
        elif inner.accept("primary", "key"):
            kept += text[start:place]
            start = inner.place
            keys.append(column)
        elif not depth and inner.accept(","):
            column = inner.name()
        else:
            depth += inner.nesting()
    columns = _read_columns(kept + text[start:])
    known = {c.name.casefold(): c.name for c in columns}
    if missing := [key for key in keys if key.casefold() not in known]:
        raise faults.parse_failed(f"the key column {missing[0]!r} is not in the list")
    return columns, tuple(known[key.casefold()] for key in keys)


def _names(cursor: Cursor) -> list[str]:
    inner = Cursor(cursor.parenthesised())
    names = [inner.name()]
    while inner.accept(","):
        names.append(inner.name())
    inner.end()
    return names


def _columns(cursor: Cursor) -> tuple[Column, ...]:
    return _read_columns(cursor.parenthesised())


def _read_columns(text: str) -> tuple[Column, ...]:
    try:
        return parse_columns(text)
    except ArgumentError as error:
        raise faults.parse_failed(error.message) from None


def _properties(cursor: Cursor) -> list[tuple[str, str]]:
    inner = Cursor(cursor.parenthesised())
    found = []
    while not inner.at_end:
        key = inner.text()
        inner.expect("=")
        found.append((key, inner.value()))
        if not inner.accept(","):
            break
    inner.end()
    return found


def _drop(cursor: Cursor) -> Statement:
    schema = cursor.accept("schema")
    view = not schema and cursor.accept("view")
    if not schema and not view:
        cursor.expect("table")
    exists = cursor.accept("if", "exists")
    name = _name(cursor)
    cursor.accept("purge")
    cursor.end()
    if schema:
        return DropSchema(name=name, if_exists=exists)
    return DropTable(name=name, if_exists=exists, view=view)


def _alter_view(cursor: Cursor) -> Statement:
    name = _name(cursor)
    cursor.expect("rename")
    cursor.expect("to")
    altered = AlterTable(name=name, new_name=cursor.dotted()[-1], view=True)
    cursor.end()
    return altered


def _alter(cursor: Cursor) -> Statement:
    name = _name(cursor)
    if cursor.accept("add"):
        if cursor.accept("columns") or cursor.accept("column"):
            columns = _columns(cursor)
            cursor.end()
            return AddColumns(name=name, columns=columns)
        exists = cursor.accept("if", "not", "exists")
        specs = tuple(_specs(cursor))
        cursor.end()
        if not specs:
            raise cursor.error("expected PARTITION or COLUMNS")
        return AddPartitions(name=name, specs=specs, if_not_exists=exists)
    if cursor.accept("drop"):
        exists = cursor.accept("if", "exists")
        specs = tuple(_specs(cursor))
        cursor.accept("purge")
        cursor.end()
        if not specs:
            raise cursor.error("expected PARTITION")
        return DropPartitions(name=name, specs=specs, if_exists=exists)
    return _alter_settings(name, cursor)


def _alter_settings(name: Name, cursor: Cursor) -> Statement:
    made = None
    if cursor.accept("rename", "to"):
        made = AlterTable(name=name, new_name=cursor.dotted()[-1])
    elif cursor.accept("touch"):
        made = AlterTable(name=name)
    elif cursor.accept("set"):
        if cursor.accept("comment"):
            made = AlterTable(name=name, comment=cursor.text())
        elif cursor.accept("lifecycle"):
            made = AlterTable(name=name, lifecycle=_integer(cursor))
        elif cursor.accept("tblproperties"):
            made = AlterTable(name=name, properties=tuple(_properties(cursor)))
    if made is None:
        raise cursor.error("this kind of ALTER TABLE is not supported here")
    cursor.end()
    return made


def _specs(cursor: Cursor) -> list[PartitionSpec]:
    specs = []
    while cursor.accept("partition"):
        items = _items(cursor)
        if any(value is None for _, value in items):
            raise cursor.error("a partition key needs a value here")
        specs.append(PartitionSpec(tuple((k, v) for k, v in items if v is not None)))
        cursor.accept(",")
    return specs


def _items(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    inner = Cursor(cursor.parenthesised())
    items: list[tuple[str, str | None]] = []
    while not inner.at_end:
        key = inner.name()
        items.append((key, inner.value() if inner.accept("=") else None))
        if not (inner.accept(",") or inner.accept("/")):
            break
    inner.end()
    return tuple(items)


def _insert(cursor: Cursor) -> Statement:
    cursor.expect("insert")
    overwrite = cursor.accept("overwrite")
    if not overwrite:
        cursor.expect("into")
    cursor.accept("table")
    name = _name(cursor)
    partition = _items(cursor) if cursor.accept("partition") else ()
    columns: tuple[str, ...] = ()
    if cursor.peek("(") and not cursor.peek("(", "select") and not cursor.peek("(", "with"):
        columns = tuple(_names(cursor))
    if not any(cursor.peek(word) for word in ("select", "with", "values", "from", "(")):
        raise cursor.error("expected a query")
    return Insert(
        name=name, overwrite=overwrite, query=cursor.rest, partition=partition, columns=columns
    )


def _show(cursor: Cursor) -> Statement:
    if cursor.accept("partitions"):
        shown: Statement = ShowPartitions(name=_name(cursor))
    else:
        cursor.expect("tables")
        scope = _name(cursor) if cursor.accept("in") else ()
        shown = ShowTables(scope=scope, pattern=cursor.text() if cursor.accept("like") else "*")
    cursor.end()
    return shown
