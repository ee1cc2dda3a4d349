"""Renders sqlglot trees as DuckDB SQL, comparing bytes and CHAR values as MaxCompute does."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from odps_nb import sql_parser
from odps_nb.schema import TypeCode

_TEXTS = {TypeCode.STRING, TypeCode.VARCHAR}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In)


def spell(tree: Any) -> tuple[str, list[str]]:
    """Return a tree as DuckDB SQL, and the lower-case names of the functions it calls."""
    for kind in tree.find_all(exp.DataType):
        if kind.is_type("char", "varchar"):
            raise UnsupportedError(
                "the embedded service does not truncate text to CHAR(n) or VARCHAR(n): "
                "cast to STRING"
            )
    text = sql_parser.spell(tree, "duckdb", unsupported_level=ErrorLevel.RAISE)
    tokens = sqlglot.tokenize(text, read="duckdb")
    names = [token.text.casefold() for token, after in pairwise(tokens) if after.text == "("]
    return text, names


def compared_with(constant: Any) -> Any | None:
    """Return the column that a constant is compared with, or ``None`` if there is none."""
    while isinstance(constant.parent, exp.Paren):
        constant = constant.parent
    parent: Any = constant.parent
    if not isinstance(parent, _COMPARISONS):
        return None
    if parent.this is not constant:
        other = parent.this
    elif isinstance(parent, exp.In):  # several items may have different types
        other = parent.expressions[0] if len(parent.expressions) == 1 else None
    else:
        other = parent.expression
    other = None if other is None else other.unnest()
    return other if isinstance(other, exp.Column) else None


def compare_bytes(query: Any, types: Mapping[str, set[TypeCode]]) -> None:
    """Rewrite comparisons of text columns with ``unhex('…')``, in place, to compare raw bytes."""
    for constant in list(query.find_all(exp.Unhex)):
        column = compared_with(constant)
        met = set() if column is None else types.get(column.name.casefold(), set())
        if column is not None and met and met <= _TEXTS:
            column.replace(exp.Anonymous(this="encode", expressions=[column.copy()]))


def compare_chars(query: Any, types: Mapping[str, set[TypeCode]]) -> None:
    """Strip trailing blanks, in place, from text constants compared with a CHAR column.

    CHAR comparisons ignore trailing blanks ("Data types" in the vendor's manual).
    ``types`` are the column types by lower-case name.
    """
    for constant in query.find_all(exp.Literal):
        if not (constant.is_string and constant.this.endswith(" ")):
            continue
        is_bound = isinstance(constant.parent, exp.Between)
        column = constant.parent.this if is_bound else compared_with(constant)
        if isinstance(column, exp.Column) and types.get(column.name.casefold()) == {TypeCode.CHAR}:
            constant.set("this", constant.this.rstrip(" "))
