"""Spells what sqlglot parsed for DuckDB, and finds the functions that it calls there.

The sandbox blocks files and network, but functions can still read settings, DuckDB's own catalogue
and the environment, which show paths of this machine. MaxCompute has no such functions.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from odps_nb import sql_parser

__all__ = ["looks_outside", "spell"]

_OUTSIDE = re.compile(
    r"(duckdb|pragma|pg|read|parquet|inet|python|sniff|arrow_scan|json_execute|enable|disable)_.*"
    r"|current_setting|getenv|getvariable|current_query|current_query_id|query_table|which_secret"
    r"|write_log|(next|curr|set)val",
    re.ASCII,
)


def spell(tree: Any) -> tuple[str, list[str]]:
    """Return a tree as text for DuckDB, and the names of the functions in it, in lower case.

    Raises
    ------
    sqlglot.errors.SqlglotError
        DuckDB cannot say it, or would say something else.
    RecursionError
        It is nested too deeply.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ErrorLevel, UnsupportedError

    for kind in tree.find_all(exp.DataType):
        if kind.is_type("char", "varchar"):
            raise UnsupportedError(
                "the embedded service does not cut text to CHAR(n) or VARCHAR(n): cast to STRING"
            )
    text = sql_parser.spell(tree, "duckdb", unsupported_level=ErrorLevel.RAISE)
    tokens = sqlglot.tokenize(text, read="duckdb")
    names = [token.text.casefold() for token, after in pairwise(tokens) if after.text == "("]
    return text, names


def looks_outside(name: str) -> bool:
    """Return whether a function reads the engine, its settings or the machine."""
    return _OUTSIDE.fullmatch(name) is not None
