"""Parses UPDATE, DELETE and MERGE, and turns them into a query of the rows that they change.

Of a primary-key table the changed rows are upserted or deleted by key. Of another transactional
table all rows are written anew, in one version.
"""

from __future__ import annotations

from odps_nb.local import faults
from odps_nb.local.sql.statements import Branch, Change, Insert, Merge
from odps_nb.local.sql.text_words import names
from odps_nb.local.sql.tokenizer import Cursor
from odps_nb.local.store.tables import Table
from odps_nb.local.writing.upserts import DELETE, UPSERT

__all__ = ["read_delete", "read_merge", "read_update", "rows_of", "rows_of_merge"]

_ROW = "__row"
_ENDS = (",", "where", "when")


def read_update(cursor: Cursor) -> Change:
    """Parse what follows UPDATE: ``t [alias] SET c = expression, … [WHERE …]``."""
    name = tuple(cursor.dotted())
    alias = _alias(cursor, "set")
    cursor.expect("set")
    return Change(name=name, alias=alias, values=_assignments(cursor), condition=_condition(cursor))


def read_delete(cursor: Cursor) -> Change:
    """Parse what follows DELETE FROM: ``t [alias] [WHERE …]``."""
    name = tuple(cursor.dotted())
    alias = "" if cursor.at_end else _alias(cursor, "where")
    return Change(name=name, alias=alias, condition=_condition(cursor))


def read_merge(cursor: Cursor) -> Merge:
    """Parse what follows MERGE INTO: ``t [AS a] USING s [AS b] ON … WHEN …``."""
    name = tuple(cursor.dotted())
    alias = _alias(cursor, "using") or name[-1]
    cursor.expect("using")
    if cursor.peek("("):
        source = f"({cursor.parenthesised()})"
        source_alias = _alias(cursor, "on")
    else:
        parts = cursor.dotted()
        source = ".".join(map(_quoted, parts))
        source_alias = _alias(cursor, "on") or parts[-1]
    if not source_alias:
        raise cursor.error("expected a name for the query of USING: USING (…) AS s")
    cursor.expect("on")
    condition = cursor.until("when")
    branches = []
    while not cursor.at_end:
        branches.append(_branch(cursor))
    if not branches:
        raise cursor.error("expected WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(
        name=name,
        alias=alias,
        source=source,
        source_alias=source_alias,
        condition=condition,
        branches=tuple(branches),
    )


def _branch(cursor: Cursor) -> Branch:
    cursor.expect("when")
    matched = not cursor.accept("not")
    cursor.expect("matched")
    condition = cursor.until("then") if cursor.accept("and") else ""
    cursor.expect("then")
    if not matched:
        cursor.expect("insert")
        return Branch(matched=False, condition=condition, values=_inserted(cursor))
    if cursor.accept("delete"):
        return Branch(matched=True, condition=condition)
    cursor.expect("update", "set")
    return Branch(matched=True, condition=condition, values=_assignments(cursor))


def _inserted(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """Parse ``[(a, b)] VALUES (x, y)``; without the first list the columns have no names."""
    columns = names(cursor) if cursor.peek("(") else None
    cursor.expect("values")
    inner = cursor.inner()
    values = [inner.until(",")]
    while inner.accept(","):
        values.append(inner.until(","))
    if columns is not None and len(columns) != len(values):
        raise cursor.error(f"expected {len(columns)} values", back=1)
    return tuple(zip(columns or [""] * len(values), values, strict=True))


def _assignments(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    values = []
    while True:
        column = cursor.dotted()[-1]
        cursor.expect("=")
        values.append((column, cursor.until(*_ENDS)))
        if not cursor.accept(","):
            return tuple(values)


def _alias(cursor: Cursor, ends: str) -> str:
    cursor.accept("as")
    return "" if cursor.peek(ends) else cursor.name()


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
        The table is not transactional, or a column that is set does not exist or is part of the
        key.
    """
    _check_transactional(table, "DELETE" if not change.values else "UPDATE")
    values = _set_values(table, change.values)
    source = f" FROM {'.'.join(map(_quoted, change.name))}"
    source += f" AS {_quoted(change.alias)}" if change.alias else ""
    condition = f"({change.condition})" if change.condition else "TRUE"
    if table.key_columns:
        operation = UPSERT if change.values else DELETE
        shown = [
            f"({values[n]}) AS {_quoted(n)}" if n in values else _quoted(n) for n in _all(table)
        ]
        query = f"SELECT {', '.join(shown)}, {operation} AS __operation{source} WHERE {condition}"
    elif change.values:
        shown = [
            f"CASE WHEN {condition} THEN ({values[n]}) ELSE {_quoted(n)} END AS {_quoted(n)}"
            if n in values
            else _quoted(n)
            for n in _all(table)
        ]
        query = f"SELECT {', '.join(shown)}{source}"
    else:
        shown = [_quoted(n) for n in _all(table)]
        query = f"SELECT {', '.join(shown)}{source} WHERE NOT COALESCE({condition}, FALSE)"
    return _insert(table, change.name, query)


def rows_of_merge(merge: Merge, table: Table) -> Insert:
    """Return the INSERT of the rows that MERGE changes, deletes and adds.

    Raises
    ------
    InvalidRequestError
        As `rows_of`; or the values of an INSERT do not fit the columns. A row that is matched by
        several rows of the source fails while the query runs.
    """
    _check_transactional(table, "MERGE")
    target, source = _quoted(merge.alias), _quoted(merge.source_alias)
    numbered = (
        f"(SELECT *, row_number() OVER (ORDER BY 1) AS {_ROW}"
        f" FROM {'.'.join(map(_quoted, merge.name))}) AS {target}"
    )
    from_source = f"{merge.source} AS {source}"
    matched = [one for one in merge.branches if one.matched]
    applies = " OR ".join(f"({one.condition})" if one.condition else "TRUE" for one in matched)
    parts = []
    if matched:
        parts.append(
            f"SELECT {_changed(merge, table, matched)} FROM {numbered} JOIN {from_source}"
            f" ON {merge.condition} WHERE ({applies})"
        )
    if not table.key_columns:
        kept = ", ".join(f"{target}.{_quoted(n)}" for n in _all(table))
        parts.append(
            f"SELECT {kept}, {UPSERT} FROM {numbered} LEFT ANTI JOIN {from_source}"
            f" ON ({merge.condition}) AND ({applies or 'FALSE'})"
        )
    earlier: list[str] = []
    for one in (one for one in merge.branches if not one.matched):
        condition = " AND ".join([f"({one.condition or 'TRUE'})", *earlier])
        earlier.append(f"NOT COALESCE(({one.condition or 'TRUE'}), FALSE)")
        parts.append(
            f"SELECT {_added(table, one)}, {UPSERT} FROM {from_source} LEFT ANTI JOIN"
            f" {numbered} ON {merge.condition} WHERE {condition}"
        )
    listed = ", ".join(map(_quoted, _all(table)))
    rows = " UNION ALL ".join(f"({part})" for part in parts)
    query = f"SELECT {listed}, __operation FROM ({rows}) AS changed ({listed}, __operation)"
    if not table.key_columns:
        query = (
            f"SELECT {listed} FROM ({rows}) AS changed ({listed}, __operation)"
            f" WHERE __operation = {UPSERT}"
        )
    return _insert(table, merge.name, query)


def _changed(merge: Merge, table: Table, matched: list[Branch]) -> str:
    """Return the columns of matched rows, and what is done with each row."""
    new = [_set_values(table, one.values) for one in matched]
    target = _quoted(merge.alias)
    shown = []
    for name in _all(table):
        old = f"{target}.{_quoted(name)}"
        cases = [
            f"WHEN {one.condition or 'TRUE'} THEN ({values.get(name, old)})"
            for one, values in zip(matched, new, strict=True)
        ]
        is_set = any(name in values for values in new)
        shown.append(f"CASE {' '.join(cases)} END" if is_set else old)
    operations = [
        f"WHEN {one.condition or 'TRUE'} THEN {UPSERT if one.values else DELETE}" for one in matched
    ]
    # in the operation, which every row needs: as a condition of its own it may be left out
    once = f"mc_once(count(*) OVER (PARTITION BY {target}.{_ROW}))"
    return f"{', '.join(shown)}, CASE WHEN {once} THEN CASE {' '.join(operations)} END END"


def _added(table: Table, branch: Branch) -> str:
    """Return the columns of a row that is inserted; columns without a value are null."""
    columns = _all(table)
    if not branch.values[0][0]:
        if len(branch.values) != len(columns):
            raise faults.invalid(
                f"ODPS-0130071: INSERT of MERGE gives {len(branch.values)} values, the table "
                f"{table.name.table} takes {len(columns)}"
            )
        return ", ".join(f"({value})" for _, value in branch.values)
    values = _named(table, branch.values)
    return ", ".join(f"({values[n]})" if n in values else "NULL" for n in columns)


def _set_values(table: Table, given: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the expression of each column that is set; those of the key cannot be."""
    fixed = {name.casefold() for name in (*table.key_columns, *table.partition_keys)}
    for name, _ in given:
        if name.casefold() in fixed:
            raise faults.invalid(f"ODPS-0130071: {name!r} is part of the key: it cannot be updated")
    return _named(table, given)


def _named(table: Table, given: tuple[tuple[str, str], ...]) -> dict[str, str]:
    known = {name.casefold(): name for name in _all(table)}
    values: dict[str, str] = {}
    for name, expression in given:
        found = known.get(name.casefold())
        if found is None or found in values:
            reason = "has no column" if found is None else "assigns twice to"
            raise faults.invalid(f"ODPS-0130071: {table.name.table} {reason} {name!r}")
        values[found] = expression
    return values


def _check_transactional(table: Table, what: str) -> None:
    if not table.key_columns and not table.is_append2:
        raise faults.invalid(
            f"ODPS-0130071: {table.name.table} is not transactional: {what} needs a table with a "
            "primary key, or with TBLPROPERTIES ('transactional'='true')"
        )


def _all(table: Table) -> tuple[str, ...]:
    return tuple(c.name for c in table.schema if c.generated is None)  # those are computed again


def _insert(table: Table, name: tuple[str, ...], query: str) -> Insert:
    return Insert(
        name=name,
        overwrite=not table.key_columns,
        query=query,
        partition=tuple((c.name, None) for c in table.schema.partition_columns if not c.generated),
        has_operations=bool(table.key_columns),
        rewrites=not table.key_columns,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
