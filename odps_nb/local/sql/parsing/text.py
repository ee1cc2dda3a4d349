"""Parses SQL text into a statement: DDL and the heads of INSERTs. Queries remain text.

Names are not resolved here. Text that is not a statement raises a parse error in the service's
format (``ODPS-0130161:[line,column] …``). For an unsupported statement or clause, the error says
whether MaxCompute supports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from odps_nb.local import errors
from odps_nb.local.sql.parsing.changes import read_delete, read_merge, read_update
from odps_nb.local.sql.parsing.create import read_create, read_properties
from odps_nb.local.sql.parsing.statements import (
    AlterTable,
    ChangeColumn,
    ChangePartitions,
    ChangeSchema,
    CloneTable,
    DropTable,
    Explain,
    Insert,
    Inserts,
    Name,
    Rebuild,
    SelectStatement,
    Show,
    Statement,
)
from odps_nb.local.sql.parsing.tokenizer import Cursor, statements
from odps_nb.local.sql.parsing.words import (
    columns_of,
    days,
    items,
    names,
    read_columns,
    read_describe,
    read_show,
    specs,
    specs_or_conditions,
)
from odps_nb.local.store.tables import TableKind
from odps_nb.terms import PartitionSpec

_READ_ONLY = "odps.sql.read.only"
_MODE = "odps.sql.submit.mode"
_QUERIES = ("select", "with", "values", "from", "(")


def parse_job(source: str, settings: Mapping[str, str]) -> tuple[Statement, ...]:
    """Parse the text of a job: one statement or, in script mode, any number of statements.

    The result excludes comments and SETs, which can turn on the script and read-only modes. At most
    one statement may return rows (vendor's page *Script mode SQL*).
    """
    if not source.strip("; \t\r\n"):
        raise errors.parse_failed("there is no statement")
    every = statements(source)
    options = {key: settings.get(key, "").lower() for key in (_MODE, _READ_ONLY)}
    for cursor in filter(_is_setting, every):
        options.update(_set_in(cursor))
    cursors = [cursor for cursor in every if not _is_setting(cursor)]
    if len(cursors) > 1 and options[_MODE] != "script":
        raise cursors[1].error(
            "the text contains more than one statement; none of them was run",
            advice=f"run each statement with a separate call, in order, or set {_MODE}=script",
        )
    starts = [cursor.line_and_column for cursor in cursors]
    parsed = tuple(map(_statement, cursors))
    changing = [
        at for at, statement in zip(starts, parsed, strict=True) if not returns_rows(statement)
    ]
    if changing and options[_READ_ONLY] == "true":
        # The vendor's MCP server and JDBC driver turn this mode on to prevent changes.
        message = f"the statement changes data, but {_READ_ONLY} is true"
        raise errors.semantic(message, at=changing[0], advice="run only queries, SHOW and DESC")
    shown = [at for at, statement in zip(starts, parsed, strict=True) if returns_rows(statement)]
    if len(shown) > 1:
        message = "a script can contain only one statement that returns rows"
        raise errors.parse_failed(message, at=shown[1], advice="write others as CREATE TABLE … AS")
    return parsed


def returns_rows(statement: Statement) -> bool:
    """Return whether a statement is a query, EXPLAIN, SHOW or DESC."""
    return isinstance(statement, (SelectStatement, Explain, Show))


def _is_setting(cursor: Cursor) -> bool:
    return cursor.peek("set") and "=" in cursor.rest


def _set_in(setting: Cursor) -> dict[str, str]:
    key, _, value = setting.rest[len("set") :].partition("=")
    return {key.strip().lower(): value.strip().lower()}


def _statement(cursor: Cursor) -> Statement:
    read = next(
        (reader for words, reader in _READERS.items() if cursor.accept(*words.split())), None
    )
    if read is None and any(cursor.peek(word) for word in _QUERIES):
        read = _query
    if read is None and cursor.peek("@"):
        at = cursor.line_and_column
        raise errors.lacks("variables of script mode (@name := …)", is_sure=True, at=at)
    if read is None:
        known = (*" ".join(_READERS).split(), *_QUERIES, "set")
        raise cursor.lacks(cursor.words or ("this statement",), known=known)
    statement = read(cursor)
    cursor.end()
    return statement


_BEFORE_SELECT = ("where", "group", "having")


def _query(cursor: Cursor) -> Statement:
    """Return a query, or the INSERT that follows ``WITH … AS (…)``."""
    text, placed = cursor.rest, cursor.placed
    if cursor.accept("from"):
        cursor.until(*_BEFORE_SELECT, "select", "insert")
        is_late = any(map(cursor.peek, _BEFORE_SELECT))
        at = cursor.line_and_column
        if is_late:
            cursor.until("select", "insert")
        if cursor.peek("insert"):
            return _inserts(cursor, text[: len(text) - len(cursor.rest)])
        if cursor.at_end:
            raise cursor.error("expected SELECT or INSERT")
        if is_late:  # vendor's page *SELECT statement order*
            raise errors.lacks("WHERE, GROUP BY or HAVING before SELECT", is_sure=True, at=at)
    if cursor.accept("with"):
        cursor.until("select", "insert", "from", "values", "merge")
        before = text[: len(text) - len(cursor.rest)]
        if cursor.accept("insert"):
            insert = _insert(cursor)
            head = placed[: len(placed) - len(text)] + before
            # Replace the parsed text with blanks, so that positions still refer to the statement.
            return replace(insert, query=head + insert.query[len(head) :])
    return SelectStatement(text=cursor.take(placed))


def _explain(cursor: Cursor) -> Statement:
    output = cursor.accept("output")
    if output and not any(cursor.peek(word) for word in _QUERIES):
        cursor.take(cursor.placed)
        return Explain(text="", output=True)
    if not any(cursor.peek(word) for word in _QUERIES):
        what = " ".join(("EXPLAIN", *cursor.words))
        raise errors.lacks(what, is_sure=True, at=cursor.line_and_column)
    return Explain(text=cursor.take(cursor.placed), output=output)


def _inserts(cursor: Cursor, source: str) -> Statement:
    """Parse the INSERTs after ``FROM …``; ``source`` is the text before them."""
    inserts = []
    while cursor.accept("insert"):
        head = _insert_head(cursor)
        cursor.expect("select")
        query = f"{source} SELECT {cursor.until('insert')}"
        inserts.append(replace(head, query=query))
    return Inserts(inserts=tuple(inserts))


def _clone(cursor: Cursor) -> Statement:
    source, chosen = cursor.dotted(), specs(cursor)
    cursor.expect("to")
    name, at = cursor.dotted(), cursor.line_and_column
    if cursor.peek("if", "exists"):
        raise errors.lacks("IF EXISTS in CLONE TABLE", is_sure=True, at=at)
    return CloneTable(source=source, specs=chosen, name=name)


def _drop(cursor: Cursor) -> Statement:
    if cursor.accept("materialized"):
        cursor.expect("view")
        return _dropped(cursor, "materialized view")
    kind = cursor.one_of("table", "view", "schema")
    if kind != "schema":
        return _dropped(cursor, "table" if kind == "table" else "view")
    exists = cursor.accept("if", "exists")
    name = cursor.dotted()
    cascade = cursor.accept("cascade")
    return ChangeSchema(name=name, drops=True, lenient=exists, cascade=cascade)


def _dropped(cursor: Cursor, kind: TableKind) -> DropTable:
    exists = cursor.accept("if", "exists")
    statement = DropTable(name=cursor.dotted(), if_exists=exists, kind=kind)
    cursor.accept("purge")
    return statement


def _truncate(cursor: Cursor) -> Statement:
    cursor.one_of("table")
    name = cursor.dotted()
    chosen, conditions = specs_or_conditions(cursor)
    return ChangePartitions(action="truncate", name=name, specs=chosen, conditions=conditions)


def _alter_view(cursor: Cursor) -> Statement:
    name = cursor.dotted()
    if cursor.accept("change", "column"):
        column = cursor.name()
        cursor.one_of("comment")
        return ChangeColumn(name=name, column=column, comment=cursor.text(), view=True)
    cursor.one_of("rename")
    cursor.expect("to")
    return AlterTable(name=name, new_name=_new_name(name, cursor), view=True)


def _alter_materialized(cursor: Cursor) -> Statement:
    name = cursor.dotted()
    cursor.one_of("rebuild")
    return Rebuild(name=name)


def _alter(cursor: Cursor) -> Statement:
    name = cursor.dotted()
    if cursor.accept("add"):
        if cursor.accept("columns") or cursor.accept("column"):
            return _add_columns(name, cursor)
        lenient = cursor.accept("if", "not", "exists")
        chosen = specs(cursor)
        _require_parts(chosen, cursor, "ADD")
        return ChangePartitions(action="add", name=name, specs=chosen, lenient=lenient)
    if cursor.accept("drop"):
        return _drop_parts(name, cursor)
    if cursor.accept("rename", "column"):
        column = cursor.name()
        cursor.expect("to")
        return ChangeColumn(name=name, column=column, new_name=cursor.name())
    if cursor.accept("change"):
        return _change_column(name, cursor)
    return _alter_settings(name, cursor)


def _drop_parts(name: Name, cursor: Cursor) -> Statement:
    """Parse the text after ``ALTER TABLE … DROP``: columns or partitions."""
    if cursor.accept("columns") or cursor.accept("column"):
        return AlterTable(name=name, dropped=cursor.listed(cursor.name))
    lenient = cursor.accept("if", "exists")
    chosen, conditions = specs_or_conditions(cursor)
    _require_parts((*chosen, *conditions), cursor, "DROP")
    return ChangePartitions(
        action="drop", name=name, specs=chosen, conditions=conditions, lenient=lenient
    )


def _alter_settings(name: Name, cursor: Cursor) -> Statement:
    if cursor.peek("partition"):
        old = _one_spec(cursor)
        if not cursor.accept("rename", "to"):
            raise cursor.lacks(cursor.words or ("PARTITION",), known=("rename",))
        return ChangePartitions(action="rename", name=name, specs=(old, _one_spec(cursor)))
    if cursor.accept("rename", "to"):
        return AlterTable(name=name, new_name=_new_name(name, cursor))
    if cursor.accept("touch"):
        return ChangePartitions(action="touch", name=name, specs=specs(cursor))
    if cursor.accept("set", "comment"):
        return AlterTable(name=name, comment=cursor.text())
    if cursor.accept("set", "lifecycle"):
        return AlterTable(name=name, lifecycle=days(cursor))
    if cursor.accept("set", "tblproperties"):
        return AlterTable(name=name, properties=tuple(read_properties(cursor)))
    raise cursor.unexpected("an action such as ADD", ("add", "drop", "rename", "touch", "set"))


def _new_name(name: Name, cursor: Cursor) -> str:
    *place, new = cursor.dotted()
    if place and (*place, name[-1]) != name:
        advice = "write only the new name; the project and the schema remain"
        raise cursor.error("RENAME TO cannot move a table", back=1, advice=advice)
    return new


def _add_columns(name: Name, cursor: Cursor) -> Statement:
    exists = cursor.accept("if", "not", "exists")
    if cursor.peek("("):
        columns = columns_of(cursor)
    else:
        at = cursor.line_and_column
        columns = read_columns(cursor.take(cursor.rest), at)
    return AlterTable(name=name, added=columns, lenient=exists)


def _change_column(name: Name, cursor: Cursor) -> Statement:
    """Parse ``CHANGE [COLUMN] a b string COMMENT '…'``, ``a RENAME TO b`` or ``a NULL``."""
    cursor.accept("column")
    column = cursor.name()
    if cursor.accept("null"):
        return ChangeColumn(name=name, column=column, nullable=True)
    if cursor.accept("comment"):
        return ChangeColumn(name=name, column=column, comment=cursor.text())
    if cursor.accept("rename", "to"):
        return ChangeColumn(name=name, column=column, new_name=cursor.name())
    at, text = cursor.line_and_column, cursor.until("after", "first")
    if not cursor.at_end:
        raise cursor.lacks(cursor.words)
    definition = read_columns(text, at)[0]
    new_name = None if definition.name.casefold() == column.casefold() else definition.name
    return ChangeColumn(
        name=name,
        column=column,
        new_name=new_name,
        definition=definition,
        comment=definition.comment or None,
    )


def _require_parts(parts: Sequence[object], cursor: Cursor, before: str) -> None:
    """Check the partitions after ``ALTER TABLE … ADD`` or ``DROP``."""
    if not parts:
        words = cursor.words
        raise cursor.lacks((before, *words)) if words else cursor.error("expected PARTITION")
    cursor.accept("purge")


def _one_spec(cursor: Cursor) -> PartitionSpec:
    chosen = specs(cursor)
    if len(chosen) != 1:
        raise cursor.error("expected one PARTITION (…)")
    return chosen[0]


def _insert(cursor: Cursor) -> Insert:
    head = _insert_head(cursor)
    if not any(cursor.peek(word) for word in _QUERIES):
        raise cursor.error("expected a query")
    return replace(head, query=cursor.take(cursor.placed))


def _insert_head(cursor: Cursor) -> Insert:
    """Parse the text after INSERT, up to its query."""
    overwrite = cursor.accept("overwrite")
    if not overwrite:
        cursor.expect("into")
    cursor.accept("table")
    name = cursor.dotted()
    partition = items(cursor) if cursor.accept("partition") else ()
    columns: tuple[str, ...] = ()
    if cursor.peek("(") and not cursor.peek("(", "select") and not cursor.peek("(", "with"):
        columns = names(cursor)
    return Insert(name=name, overwrite=overwrite, query="", partition=partition, columns=columns)


_READERS: dict[str, Callable[[Cursor], Statement]] = {
    "create": read_create,
    "drop": _drop,
    "insert": _insert,
    "alter table": _alter,
    "alter view": _alter_view,
    "alter materialized view": _alter_materialized,
    "clone table": _clone,
    "truncate": _truncate,
    "update": read_update,
    "delete": read_delete,
    "merge": read_merge,
    "explain": _explain,
    "show": read_show,
    "desc": read_describe,
    "describe": read_describe,
}
