"""A sandboxed DuckDB without access to files, the network or Python variables.

The service evaluates filter predicates in one in-memory database. Each worker process for SQL has a
separate database. Each query runs on a new connection, which sees only the tables registered with
that connection. Queries cannot lift the restrictions (``lock_configuration``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from odps_nb.errors import StateError

# GLOBAL is required, because a plain SET does not apply to new connections
_FENCE = (
    "SET GLOBAL python_enable_replacements=false",  # SQL must not see variables of this program
    "SET GLOBAL autoinstall_known_extensions=false",
    "SET GLOBAL autoload_known_extensions=false",
    "SET GLOBAL allow_community_extensions=false",
    "SET GLOBAL old_implicit_casting=true",  # MaxCompute can compare text with numbers
    "SET GLOBAL preserve_insertion_order=true",
    "SET GLOBAL TimeZone='UTC'",
    "SET GLOBAL enable_external_access=false",
)

# Functions that read settings, DuckDB's catalog or the environment, and could expose local paths.
# MaxCompute does not have these functions.
_OUTSIDE = re.compile(
    r"(duckdb|pragma|pg|read|parquet|inet|python|sniff|arrow_scan|json_execute|enable|disable)_.*"
    r"|current_setting|getenv|getvariable|current_query|current_query_id|query_table|which_secret"
    r"|write_log|(next|curr|set)val",
    re.ASCII,
)


class Duck:
    """The sandboxed database, opened by the first connection. The owner must call `close`.

    ``macros`` are function definitions, in the syntax that follows ``CREATE MACRO``. ``spill`` is
    the folder for data that exceeds ``memory``; with ``None``, queries that need more memory fail.
    (By default, DuckDB spills rows into the working directory, where all users can read them.)
    """

    def __init__(
        self, *, macros: Sequence[str] = (), memory: str = "2GB", spill: Path | None = None
    ) -> None:
        self._lock = Lock()
        self._database: Any = None
        self._closed = False
        self._macros, self._memory, self._spill = macros, memory, spill

    def _open(self) -> Any:
        import duckdb

        database = duckdb.connect(":memory:")
        folder = "" if self._spill is None else str(self._spill).replace("'", "''")
        for statement in (
            f"SET threads={max(1, min(4, os.cpu_count() or 1))}",
            f"SET memory_limit='{self._memory}'",
            f"SET temp_directory='{folder}'",
            *_FENCE,
            *(f"CREATE MACRO {macro}" for macro in self._macros),
            "SET GLOBAL lock_configuration=true",
        ):
            database.execute(statement)
        return database

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Open a connection without tables, and close it when the ``with`` block ends."""
        with self._lock:  # the database object is not thread-safe
            if self._closed:
                raise StateError("the database of the service is closed")
            if self._database is None:
                self._database = self._open()
            connection = self._database.cursor()
        try:
            yield connection
        except BaseException:
            self.replace_if_invalid()
            raise
        finally:
            connection.close()

    def replace_if_invalid(self) -> None:
        """Close the database if invalid UTF-8 broke it; the next connection opens a new one."""
        import duckdb

        with self._lock:
            if self._database is None:
                return
            try:
                self._database.execute("SELECT 1")
            except duckdb.FatalException:
                self._database.close()
                self._database = None

    def close(self) -> None:
        """Close the database. Idempotent."""
        with self._lock:
            self._closed = True
            if self._database is not None:
                self._database.close()


def looks_outside(name: str) -> bool:
    """Return whether a function exposes the engine, its settings or the machine."""
    return _OUTSIDE.fullmatch(name) is not None


def duck_quoted(name: str) -> str:
    """Return an identifier quoted for DuckDB."""
    return '"' + name.replace('"', '""') + '"'
