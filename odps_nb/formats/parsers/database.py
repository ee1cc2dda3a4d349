"""SQLite databases: names, row counts and columns of the tables, from a copy in memory.

No view, trigger or virtual table is used, and rows are only counted. So no expression in the file
is evaluated.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import Any, Final

from odps_nb.formats.shared import answer
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

_TABLES: Final = 60
_ROWS: Final = 100_000  # maximum rows to count in one table
_SECONDS: Final = 3
_STEPS: Final = 10_000  # instructions of SQLite's virtual machine between time checks
# header bytes for write-ahead logging, which an in-memory database does not support
_JOURNAL: Final = slice(18, 20)
_LISTED: Final = """
    SELECT name, (SELECT ifnull(group_concat(name, ', '), '') FROM pragma_table_xinfo(held.name))
    FROM sqlite_schema AS held
    WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the name, number of rows and columns of each table."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        if not hasattr(database, "deserialize"):
            raise UnshowableError("this build of SQLite cannot open databases in memory")
        copy = bytearray(data)
        copy[_JOURNAL] = b"\1\1"
        database.deserialize(bytes(copy))
        _restrict(database)
        tables = database.execute(_LISTED).fetchall()
        ends = time.monotonic() + _SECONDS
        database.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
        rows = [(name, _counted(database, name), columns) for name, columns in tables[:_TABLES]]
    facts = (count_of(len(tables), "table"),)
    return answer(facts, head=("table", "rows", "columns"), rows=rows)


def _restrict(database: sqlite3.Connection) -> None:
    """Disable functions in the schema, and all changes to the database."""
    database.text_factory = lambda text: text.decode("utf-8", "replace")
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
        database.execute(f"PRAGMA {setting}")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 8 << 20)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)


def _counted(database: sqlite3.Connection, name: str) -> str:
    """Return a table's number of rows as a string, such as ``over 100,000`` if there are many."""
    quoted = '"' + name.replace('"', '""') + '"'
    query = f"SELECT count(*) FROM (SELECT 1 FROM main.{quoted} LIMIT {_ROWS + 1})"
    try:
        (count,) = database.execute(query).fetchone()
    except sqlite3.Error:  # the table is damaged, or the time limit is exceeded
        return "?"
    return f"{count:,}" if count <= _ROWS else f"over {_ROWS:,}"
