"""Finds the functions that a DuckDB text calls, and which of them look beyond its rows.

The sandbox blocks files and network, but functions can still read settings, DuckDB's own catalogue
and the environment, which show paths of this machine. MaxCompute has no such functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

__all__ = ["called", "looks_outside"]

_OUTSIDE = re.compile(
    r"(duckdb|pragma|pg|read|parquet|inet|python|sniff|arrow_scan|json_execute|enable|disable)_.*"
    r"|current_setting|getenv|getvariable|current_query|current_query_id|query_table|which_secret"
    r"|write_log|(next|curr|set)val",
    re.ASCII,
)


def called(spelled: str) -> Iterator[str]:
    """Yield the names of all functions that a DuckDB text calls, in lower case."""
    import sqlglot

    for token, following in pairwise(sqlglot.tokenize(spelled, read="duckdb")):
        if following.text == "(":
            yield token.text.casefold()


def looks_outside(name: str) -> bool:
    """Return whether a function reads the engine, its settings or the machine."""
    return _OUTSIDE.fullmatch(name) is not None
