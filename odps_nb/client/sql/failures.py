"""The errors of queries: their classes, hints, and the line of the query that they concern."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from odps_nb.client.catalog import suggest_tables
from odps_nb.errors import ConflictError, NotFoundError, OdpsNbError, QueryError, ServiceError
from odps_nb.filters.literals import bare_date
from odps_nb.terms import did_you_mean, shorten
from odps_nb.wire.calls.hints import without_names
from odps_nb.wire.control import GetTable, TableInfo, TaskResult, query_error

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

_MISSING = {"NoSuchProject", "NoSuchTable", "NoSuchPartition", "NoSuchObject"}
# Error texts of queries that projects refuse by default, and hints on how to allow these queries
# (``docs/protocol.md`` 8.6).
_REFUSED = {
    "is full scan with all partitions": "select partitions in the condition, or write "
    "set odps.sql.allow.fullscan=true; above the query",
    "ORDER BY must be used with a LIMIT": "add a limit, or write "
    "set odps.sql.validate.orderby.limit=false; above the query",
}
_NO_PARTITION = re.compile("partition.*(?:does not exist|not found|not exist)", re.IGNORECASE)


def failure_of(
    storage: StorageClient, task: TaskResult, instance_id: str, sql: str
) -> ServiceError:
    """Return the error of a failed task; sends requests for similar names if one is unknown."""
    error: ServiceError = query_error(task)
    text = without_names(error.message)  # a value of a row may contain these phrases
    if error.code in _MISSING:  # use the error class that REST requests raise
        error = NotFoundError(error.message, code=error.code, hint=error.hint, status=error.status)
    elif _NO_PARTITION.search(text):  # the service has no code for this error
        error = NotFoundError(
            error.message,
            code="NoSuchPartition",
            hint="check the partition; table.partitions() lists those that exist",
        )
    elif "already exist" in text:  # the service has no code for this error
        of_table = "partition already exist" not in text.lower()
        error = ConflictError(
            error.message,
            code="TableAlreadyExists" if of_table else "ObjectAlreadyExists",
            hint="drop it first, or pass if_not_exists",
        )
    for phrase, hint in _REFUSED.items():
        if phrase in text:
            error.hint = hint
    error.excerpt = excerpt(sql, error.message)
    suggest_names(storage, sql, error)
    error.add_note(f"instance {instance_id}")
    storage.redact(error)
    return error


_MOST = 100  # maximum characters of the displayed line
_PLACE = re.compile(r"ODPS-\d{7}:\s*\[(\d{1,6}),(\d{1,6})\]")


def excerpt(sql: str, message: str) -> str | None:
    """Return the query line of an error, with a caret below the error's position, or ``None``.

    The service counts lines and columns from 1; ``[1,1]`` means that the position is unknown.

    Examples
    --------
    >>> print(excerpt("select id frm orders", "ODPS-0130161:[1,11] Parse exception"))
      select id frm orders
                ^
    """
    match = _PLACE.search(message)
    if match is None or match.groups() == ("1", "1"):
        return None
    line, column = (int(part) - 1 for part in match.groups())
    lines = sql.strip().split("\n")
    if not 0 <= line < len(lines) or not 0 <= column <= len(lines[line]):
        return None
    start = max(0, column - _MOST * 3 // 4)
    shown = "".join(c if c.isprintable() else " " for c in lines[line][start : start + _MOST])
    return f"  {shown.rstrip()}\n  {' ' * (column - start)}^"


MAX_TABLES = 5
"""Maximum number of tables whose metadata is fetched, with one request each."""

_NAME = r"((?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))*)"
_COLUMN = re.compile(rf"column {_NAME} cannot be resolved", re.IGNORECASE)
_TABLE = re.compile(rf"table {_NAME} cannot be resolved", re.IGNORECASE)
_TABLES = re.compile(rf"\b(?:from|join|into|using|update|table)\s+{_NAME}", re.IGNORECASE)
_ALIASES = re.compile(r"\bas\s+`?(\w+)", re.IGNORECASE)
_SHOWN = 200


def suggest_names(storage: StorageClient, sql: str, error: ServiceError) -> None:
    """Add similar names to the hint of a failed query's error; sends a few requests."""
    table, column = _TABLE.search(error.message), _COLUMN.search(error.message)
    if table is not None and isinstance(error, NotFoundError):
        with suppress(OdpsNbError):  # not a valid name
            suggest_tables(storage, storage.profile.table(_plain(table[1])), error)
    elif column is not None:
        columns = [name for info in tables_in(storage, sql) for name in info.schema.names]
        name = _plain(column[1]).rpartition(".")[2]
        known = [*columns, *_ALIASES.findall(sql)]
        error.hint = _hint(name, known, is_value=_is_value(name, sql)) or error.hint
    elif isinstance(error, QueryError) and (date := bare_date(sql)):
        error.hint = f"write dates and times in quotes: '{date}'"


def _is_value(name: str, sql: str) -> bool:
    """Whether a query compares a name with a value, so the name may be text without quotes."""
    before = r"(?:[=<>]|\blike\b|\bbetween\b|\bin\s*\([^()]*)\s*"
    value = rf"\b{re.escape(name)}\b"
    compared = rf"{before}{value}(?!\s*[.(])|(?<!\.){value}\s*[=<>]"
    return re.search(compared, sql, re.IGNORECASE) is not None


def _plain(name: str) -> str:
    return name.replace("`", "")


def tables_in(storage: StorageClient, sql: str) -> Iterator[TableInfo]:
    """Yield the metadata of the first `MAX_TABLES` tables that a query names."""
    names = dict.fromkeys(map(_plain, _TABLES.findall(sql)))
    for name in list(names)[:MAX_TABLES]:
        with suppress(OdpsNbError):  # the name may refer to a subquery, or access may be denied
            yield storage.control(GetTable(table=storage.profile.table(name)))


def _hint(name: str, known: Sequence[str], *, is_value: bool) -> str:
    if name.casefold() in map(str.casefold, known):
        return (
            "check that the subquery or table in FROM has a column of this name; WHERE cannot use "
            "an alias of SELECT"
        )
    if meant := did_you_mean(name, known, "{}", most=1):
        return meant.rstrip()
    listed = shorten(", ".join(dict.fromkeys(known)), _SHOWN)
    if is_value:
        return f"write text in quotes: '{name}'; the columns are {listed}"
    return f"check the name: the columns are {listed}" if listed else ""
