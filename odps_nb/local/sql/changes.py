"""Parses UPDATE and DELETE, and turns them into a query of the rows that they change.

Only primary-key tables support them here: their rows are upserted or deleted by key.
"""

from __future__ import annotations

from odps_nb.local import faults
from odps_nb.local.sql.statements import Change, Insert
from odps_nb.local.sql.tokenizer import Cursor
from odps_nb.local.store.tables import Table

__all__ = ["read_delete", "read_update", "rows_of"]


def read_update(cursor: Cursor) -> Change:
    """Parse what follows UPDATE: ``t [alias] SET c = expression, … [WHERE …]``."""
    name = tuple(cursor.dotted())
    alias = "" if cursor.peek("set") else cursor.name()
    cursor.expect("set")
    values: list[tuple[str, str]] = []
    while True:
        column = cursor.dotted()[-1]
        cursor.expect("=")
        values.append((column, cursor.until(",", "where")))
        if not cursor.accept(","):
            break
    return Change(name=name, alias=alias, values=tuple(values), condition=_condition(cursor))


def read_delete(cursor: Cursor) -> Change:
    """Parse what follows DELETE FROM: ``t [alias] [WHERE …]``."""
    name = tuple(cursor.dotted())
    alias = "" if cursor.at_end or cursor.peek("where") else cursor.name()
    return Change(name=name, alias=alias, condition=_condition(cursor))


def _condition(cursor: Cursor) -> str:
    if cursor.at_end:
        return ""
    cursor.expect("where")
    if cursor.at_end:
        raise cursor.error("expected a condition")
    return cursor.rest


def rows_of(change: Change, table: Table) -> Insert:
    """Return the INSERT of the rows that a change touches, with their new values.

    Raises
    ------
    InvalidRequestError
        The table has no primary key, or a column that is set does not exist or is part of it.
    """
    if not table.key_columns:
        raise faults.invalid(
            f"ODPS-0130071: {table.name.table} has no primary key: UPDATE and DELETE need one here"
        )
    columns = {column.name.casefold(): column.name for column in table.schema.columns}
    fixed = {name.casefold() for name in (*table.key_columns, *table.partition_keys)}
    values: dict[str, str] = {}
    for name, expression in change.values:
        found = columns.get(name.casefold())
        if name.casefold() in fixed:
            raise faults.invalid(f"ODPS-0130071: {name!r} is part of the key: it cannot be updated")
        if found is None or found in values:
            reason = "has no column" if found is None else "assigns twice to"
            raise faults.invalid(f"ODPS-0130071: {table.name.table} {reason} {name!r}")
        values[found] = expression
    shown = [
        f"({values[name]}) AS {_quoted(name)}" if name in values else _quoted(name)
        for name in table.schema.names
    ]
    query = f"SELECT {', '.join(shown)} FROM {'.'.join(map(_quoted, change.name))}"
    query += f" AS {_quoted(change.alias)}" if change.alias else ""
    query += f" WHERE {change.condition}" if change.condition else ""
    partition = tuple((key, None) for key in table.partition_keys)
    return Insert(name=change.name, overwrite=False, query=query, partition=partition)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
