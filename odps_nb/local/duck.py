"""DuckDB behind a fence: no files, no network, no Python objects by name (world local).

Every connection is private and in memory, sees only what is registered with it, and cannot be
given back what was taken from it (``lock_configuration``). Used for predicates and for SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["duck_batches", "open_duck"]

_FENCE = (
    "SET python_enable_replacements=false",  # SQL must not see variables of this program
    "SET autoinstall_known_extensions=false",
    "SET autoload_known_extensions=false",
    "SET allow_community_extensions=false",
    "SET old_implicit_casting=true",  # MaxCompute compares text with numbers, too
    "SET preserve_insertion_order=true",
    "SET TimeZone='UTC'",
    "SET enable_external_access=false",
)


def open_duck(
    *,
    threads: int = 1,
    memory: str = "1GB",
    macros: Sequence[str] = (),
    spill: Path | None = None,
) -> Any:
    """Return a fenced connection; the caller closes it.

    Parameters
    ----------
    spill
        Folder for what does not fit into ``memory``; without it that fails. (Left to itself
        DuckDB writes rows into the working directory, readable by everybody.)
    macros
        Definitions of functions of our own, as after ``CREATE MACRO``.
    """
    import duckdb

    connection = duckdb.connect(":memory:")
    for statement in (
        f"SET threads={int(threads)}",
        f"SET memory_limit='{memory}'",
        "SET temp_directory='{}'".format("" if spill is None else str(spill).replace("'", "''")),
        *_FENCE,
        "SET lock_configuration=true",
    ):
        connection.execute(statement)
    for macro in macros:
        connection.execute(f"CREATE MACRO {macro}")
    return connection


def duck_batches(connection: Any, query: str, rows: int = 65536) -> Iterator[pa.RecordBatch]:
    """Run a query and yield its rows as Arrow batches, lazily."""
    yield from connection.sql(query).to_arrow_reader(rows)
