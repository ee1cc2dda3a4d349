"""Parses UPDATE, DELETE and MERGE, and converts each to a query that returns the changed rows.

In a primary-key table, the changed rows are upserted or deleted by key. In other
transactional tables, all rows are rewritten in one version.
"""

from __future__ import annotations

from collections.abc import Iterable

from odps_nb.local import errors
from odps_nb.local.sql.parsing.statements import Branch, ChangeRows, Insert, Merge, Name
from odps_nb.local.sql.parsing.tokenizer import Cursor
from odps_nb.local.sql.parsing.words import names, quoted
from odps_nb.local.store.tables import StoredTable
from odps_nb.local.writing.upserts import DELETE, UPSERT

_ROW, _KIND = "__row", "__kind"
_ENDS = (",", "where", "when")


def read_update(cursor: Cursor) -> ChangeRows:
    """Parse the text after UPDATE: ``t [alias] SET c = expression, … [WHERE …]``."""
    name = cursor.dotted()
    alias = _alias(cursor, "set")
    cursor.expect("set")
    values = _assignments(cursor, (alias,) if alias else name)
    return ChangeRows(name=name, alias=alias, values=values, condition=_condition(cursor))


def read_delete(cursor: Cursor) -> ChangeRows:
    """Parse the text after DELETE: ``FROM t [alias] [WHERE …]``."""
    cursor.expect("from")
    name = cursor.dotted()
    alias = "" if cursor.at_end else _alias(cursor, "where")
    return ChangeRows(name=name, alias=alias, condition=_condition(cursor))


def read_merge(cursor: Cursor) -> Merge:
    """Parse the text after MERGE: ``INTO t [AS a] USING s [AS b] ON … WHEN …``."""
    cursor.expect("into")
    name = cursor.dotted()
    alias = _alias(cursor, "using")
    target = (alias,) if alias else name
    cursor.expect("using")
    if cursor.peek("("):
        source = f"({cursor.parenthesised()})"
        source_alias = _alias(cursor, "on")
    else:
        parts = cursor.dotted()
        source = ".".join(map(quoted, parts))
        source_alias = _alias(cursor, "on") or parts[-1]
    if not source_alias:
        raise cursor.error("expected an alias for the query in USING, such as USING (…) AS s")
    cursor.expect("on")
    condition = cursor.until("when")
    branches = []
    while not cursor.at_end:
        branches.append(_branch(cursor, target))
    if not branches:
        raise cursor.error("expected WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(
        name=name,
        alias=target[-1],
        source=source,
        source_alias=source_alias,
        condition=condition,
        branches=tuple(branches),
    )


def _branch(cursor: Cursor, target: Name) -> Branch:
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
    return Branch(matched=True, condition=condition, values=_assignments(cursor, target))


def _inserted(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """Parse ``[(a, b)] VALUES (x, y)``; without a column list, the names are empty."""
    columns = names(cursor) if cursor.peek("(") else None
    cursor.expect("values")
    inner = cursor.inner()
    values = inner.listed(lambda: inner.until(","))
    if columns is not None and len(columns) != len(values):
        raise cursor.error(f"expected {len(columns)} values instead of {len(values)}", back=1)
    return tuple(zip(columns or [""] * len(values), values, strict=True))


def _assignments(cursor: Cursor, target: Name) -> tuple[tuple[str, str], ...]:
    """Parse ``a = 1, t.b = 2``. ``target``: the alias or name of the table to change."""

    def assignment() -> tuple[str, str]:
        *qualifier, column = cursor.dotted()
        ending = target[-len(qualifier) :] if qualifier else ()
        if [*map(str.casefold, qualifier)] != [*map(str.casefold, ending)]:
            raise cursor.error(
                f"SET changes columns of {target[-1]}, not {'.'.join([*qualifier, column])}",
                back=1,
                advice="write the name of a column, and assign a STRUCT as a whole",
            )
        cursor.expect("=")
        return column, cursor.until(*_ENDS)

    return cursor.listed(assignment)


def _alias(cursor: Cursor, ends: str) -> str:
    cursor.accept("as")
    return "" if cursor.peek(ends) else cursor.name()


def _condition(cursor: Cursor) -> str:
    if cursor.at_end:
        return ""
    cursor.expect("where")
    if cursor.at_end:
        raise cursor.error("expected a condition")
    return cursor.take(cursor.rest)


def rows_of(change: ChangeRows, table: StoredTable) -> Insert:
    """Return an UPDATE or DELETE as an INSERT of the changed rows with their new values."""
    _check_transactional(table, "DELETE" if not change.values else "UPDATE")
    values = _set_values(table, change.values)
    alias = quoted(change.alias or change.name[-1])
    source = f"FROM {'.'.join(map(quoted, change.name))} AS {alias}"
    condition = f"({change.condition})" if change.condition else "TRUE"
    old = {name: quoted(name) for name in _all(table)}
    query, kept_index = _Query(), None
    if table.key_columns:
        new = old | {name: f"({value})" for name, value in values.items()}
        operation = UPSERT if change.values else DELETE
        kind = query.add(_with_operation(table, new.values(), operation))
        query.end(str(kind), f"{source} WHERE {condition}")
    elif change.values:
        subquery = f"SELECT *, CASE WHEN {condition} THEN 1 ELSE 0 END AS {_KIND} {source}"
        kept_index = query.add(old.values())
        new = {n: f"CASE WHEN {_KIND} = 1 THEN ({value}) END" for n, value in values.items()}
        query.add((old | new).values())
        query.end(_KIND, f"FROM ({subquery}) AS {alias}")
    else:
        kept_index = query.add(old.values())
        query.end(f"CASE WHEN {condition} THEN NULL ELSE {kept_index} END", source)
    return _insert(table, change.name, query, kept_index)


def rows_of_merge(merge: Merge, table: StoredTable) -> Insert:
    """Return a MERGE as an INSERT of the rows that it updates, deletes and inserts."""
    _check_transactional(table, "MERGE")
    target, source = quoted(merge.alias), quoted(merge.source_alias)
    numbered = (
        f"(SELECT *, row_number() OVER (ORDER BY 1) AS {_ROW}"
        f" FROM {'.'.join(map(quoted, merge.name))}) AS {target}"
    )
    from_source = f"{merge.source} AS {source}"
    matched = [branch for branch in merge.branches if branch.matched]
    applies = " OR ".join(
        f"({branch.condition})" if branch.condition else "TRUE" for branch in matched
    )
    query = _Query()
    if matched:
        kind = _add_matched(query, merge, table, matched)
        joined = f"FROM {numbered} JOIN {from_source} ON {merge.condition}"
        query.end(kind, f"{joined} WHERE ({applies})")
    kept_index = None
    if not table.key_columns:
        kept_index = query.add([f"{target}.{quoted(n)}" for n in _all(table)])
        on = f"({merge.condition}) AND ({applies or 'FALSE'})"
        query.end(str(kept_index), f"FROM {numbered} LEFT ANTI JOIN {from_source} ON {on}")
    earlier: list[str] = []
    for branch in (branch for branch in merge.branches if not branch.matched):
        condition = " AND ".join([f"({branch.condition or 'TRUE'})", *earlier])
        earlier.append(f"NOT COALESCE(({branch.condition or 'TRUE'}), FALSE)")
        added = query.add(_with_operation(table, _added(table, branch), UPSERT))
        joined = f"FROM {from_source} LEFT ANTI JOIN {numbered} ON {merge.condition}"
        query.end(str(added), f"{joined} WHERE {condition}")
    return _insert(table, merge.name, query, kept_index)


class _Query:
    """A UNION ALL of changed rows, built part by part. Each expression has a separate column."""

    def __init__(self) -> None:
        self.choices: list[tuple[int | None, ...]] = []
        self._parts: list[tuple[dict[tuple[int, str], int], str, str]] = []
        self._places: dict[tuple[int, str], int] = {}  # (column, SQL) → position
        self._count = 0

    def add(self, values: Iterable[str | None]) -> int:
        """Add a row (``None``: null value) to the current part; return its index in ``choices``."""
        choice: list[int | None] = []
        for column, value in enumerate(values):
            if value is not None and (column, value) not in self._places:
                self._places[column, value] = self._count
                self._count += 1
            choice.append(None if value is None else self._places[column, value])
        self.choices.append(tuple(choice))
        return len(self.choices) - 1

    def end(self, number: str, source: str) -> None:
        """End a part. ``number``: SQL for the index in ``choices``; ``source`` starts with FROM."""
        self._parts.append((self._places, number, source))
        self._places = {}

    @property
    def text(self) -> str:
        """The text of the query; its last column is the index into ``choices``."""
        parts = []
        for positions, number, source in self._parts:
            shown = ["NULL"] * self._count
            for (_column, value), position in positions.items():
                shown[position] = value
            parts.append(f"SELECT {', '.join(shown)}, {number} {source}")
        return parts[0] if len(parts) == 1 else " UNION ALL ".join(f"({part})" for part in parts)


def _add_matched(query: _Query, merge: Merge, table: StoredTable, matched: list[Branch]) -> str:
    """Add the values of matched rows, and return the SQL of their index into ``choices``."""
    target = quoted(merge.alias)
    old = {name: f"{target}.{quoted(name)}" for name in _all(table)}
    earlier, numbers = "", []
    for branch in matched:
        condition = f"WHEN {branch.condition or 'TRUE'} THEN"
        new = {
            name: f"CASE {earlier}{condition} ({value}) END"
            for name, value in _set_values(table, branch.values).items()
        }
        number = "NULL"  # rows with a null index are not rewritten, so they are deleted
        if branch.values or table.key_columns:
            operation = UPSERT if branch.values else DELETE
            number = str(query.add(_with_operation(table, (old | new).values(), operation)))
        numbers.append(f"{condition} {number}")
        earlier += f"{condition} NULL "
    # the check is part of the index, because DuckDB could skip a separate condition
    once = f"mc_once(count(*) OVER (PARTITION BY {target}.{_ROW}))"
    return f"CASE WHEN {once} THEN CASE {' '.join(numbers)} END END"


def _with_operation(
    table: StoredTable, values: Iterable[str | None], operation: int
) -> list[str | None]:
    return [*values, *([str(operation)] if table.key_columns else [])]


def _added(table: StoredTable, branch: Branch) -> list[str | None]:
    """Return the values of an inserted row; columns without a value are null."""
    columns = _all(table)
    if not branch.values[0][0]:
        if len(branch.values) != len(columns):
            raise errors.semantic(
                f"the INSERT of MERGE has {len(branch.values)} values, but the table "
                f"{table.name.table} requires {len(columns)}"
            )
        return [f"({value})" for _, value in branch.values]
    values = _named(table, branch.values)
    return [f"({values[n]})" if n in values else None for n in columns]


def _set_values(table: StoredTable, assignments: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the expression of each assigned column, or raise 400 for a primary key column."""
    fixed = {name.casefold() for name in (*table.key_columns, *table.partition_keys)}
    for name, _ in assignments:
        if name.casefold() in fixed:
            raise errors.semantic(f"{name!r} is a key column and cannot be updated")
    return _named(table, assignments)


def _named(table: StoredTable, assignments: tuple[tuple[str, str], ...]) -> dict[str, str]:
    known = {name.casefold(): name for name in _all(table)}
    values: dict[str, str] = {}
    for name, expression in assignments:
        column = known.get(name.casefold())
        if column is None or column in values:
            reason = "has no column" if column is None else "has two assignments to"
            raise errors.semantic(f"{table.name.table} {reason} {name!r}")
        values[column] = expression
    return values


def _check_transactional(table: StoredTable, what: str) -> None:
    if not table.key_columns and not table.is_append2:
        raise errors.semantic(
            f"{table.name.table} is not transactional: {what} needs a table with a "
            "primary key, or with TBLPROPERTIES ('transactional'='true')"
        )


def _all(table: StoredTable) -> tuple[str, ...]:
    return tuple(
        c.name for c in table.schema if c.generated is None
    )  # generated columns are recomputed


def _insert(
    table: StoredTable, name: tuple[str, ...], query: _Query, kept_index: int | None
) -> Insert:
    return Insert(
        name=name,
        overwrite=not table.key_columns,
        query=query.text,
        choices=tuple(query.choices),
        partition=tuple((c.name, None) for c in table.schema.partition_columns if not c.generated),
        has_operations=bool(table.key_columns),
        rewrites=not table.key_columns,
        kept=kept_index,
    )
