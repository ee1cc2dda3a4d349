"""Suggests similar names in the error of a query that uses an unknown column or table.

The service reports only the unresolved name (vendor's manual, *Rewrite incompatible SQL
statements*), so the client looks up the tables that the query names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from odps_nb.client.catalog import suggest_tables
from odps_nb.errors import NotFoundError, OdpsNbError, QueryError, ServiceError
from odps_nb.filters.literals import bare_date
from odps_nb.terms import did_you_mean, shorten
from odps_nb.wire.control import GetTable, TableInfo

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

MAX_TABLES = 5
"""Maximum number of tables whose columns are fetched, with one request each."""

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
    """Whether a name is compared with something, as text without quotes would be."""
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
        return "check that the subquery or table in FROM has a column of this name"
    if meant := did_you_mean(name, known, "{}", most=1):
        return meant.rstrip()
    listed = shorten(", ".join(dict.fromkeys(known)), _SHOWN)
    if is_value:
        return f"write text in quotes: '{name}'; the columns are {listed}"
    return f"check the name: the columns are {listed}" if listed else ""
