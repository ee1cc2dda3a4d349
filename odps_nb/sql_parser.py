"""Parses and writes SQL with sqlglot; raises failures as `sqlglot.errors.SqlglotError`.

sqlglot also raises other errors: version 30 raises an `IndexError` for ``map('a')``, for example.
`MemoryError`, and the `RecursionError` for text that is nested too deeply, are not converted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def hive() -> Any:
    """Return the Hive dialect, changed so that casts keep the length in CHAR(n) and VARCHAR(n).

    The changed dialect also parses ``vector(1, 2)`` as a function call, not as a type.
    """
    from sqlglot.dialects.hive import Hive

    def _parse_types(self: Any, *arguments: Any, **options: Any) -> Any:
        return super(Hive.Parser, self)._parse_types(*arguments, **options)

    def _parse_vector_expressions(self: Any, expressions: list[Any]) -> list[Any]:
        if not expressions[0].name.isidentifier():  # two numbers, not a type
            return expressions
        return super(Hive.Parser, self)._parse_vector_expressions(expressions)  # type: ignore[no-any-return]

    own = (_parse_types, _parse_vector_expressions)
    parser = type("Parser", (Hive.Parser,), {method.__name__: method for method in own})
    return type("ExactHive", (Hive,), {"Parser": parser})


def parse(text: str, dialect: Any) -> list[Any]:
    """Return the tree of each statement; ``None`` for an empty statement."""
    import sqlglot

    with _own_errors():
        return list(sqlglot.parse(text, dialect=dialect))


def spell(tree: Any, dialect: Any, **options: Any) -> str:
    """Return a tree's SQL text; ``options`` are passed to ``Expression.sql``."""
    with _own_errors():
        return str(tree.sql(dialect=dialect, **options))


def annotate(tree: Any, columns: Mapping[str, object], dialect: Any) -> Any:
    """Return a copy of a query with the type of each node, where the type can be inferred.

    Parameters
    ----------
    columns
        Maps each table name to a mapping of column names to sqlglot types.
    """
    from sqlglot.optimizer.annotate_types import annotate_types
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.schema import MappingSchema

    with _own_errors():
        schema = MappingSchema(dict(columns), dialect=dialect)
        copy = qualify(
            tree.copy(),
            schema=schema,
            dialect=dialect,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
        return annotate_types(copy, schema=schema, dialect=dialect)


@contextmanager
def _own_errors() -> Iterator[None]:
    from sqlglot.errors import ParseError, SqlglotError

    try:
        yield
    except (SqlglotError, RecursionError, MemoryError):
        raise
    except Exception as error:  # sqlglot may raise any exception for an unusual tree
        reason = "the parser failed: check that each function has all its arguments"
        raise ParseError(reason) from error
