"""Text on which sqlglot's own code fails, wherever user or request SQL is parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import sqlglot
from sqlglot.errors import ParseError, SqlglotError

from fuzz.targets.sql import filter_predicate, sql_query, where
from odps_nb import sql_parser
from odps_nb.errors import ArgumentError, OdpsNbError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.parse import parse_query
from odps_nb.wire.type_text import parse_columns

COLUMNS = TableSchema(columns=tuple(parse_columns("i bigint, s string")))


def spark_query(text: bytes) -> None:
    with suppress(OdpsNbError):  # rejected with a message; any other error fails the test
        parse_query(text.decode())


DOORS: dict[str, tuple[Callable[[bytes], None], str]] = {
    "where": (where, "{} = 1"),
    "filter predicate": (filter_predicate, "{} = 1"),
    "query of the service": (sql_query, "select {0} from t where {0} = 1"),
    "query of Spark": (spark_query, "select {0} from t where {0} = 1"),
}
CALLS = [
    *("map('a')", "map('a', 1, 'b')", "year()", "day()", "regexp_replace(s, 'a')"),
    *("date_add(1, 'b', i)", "j_s_o_n_object(i)", "wm_concat(distinct 's')"),
]
"""Each of them is an error of Python somewhere in sqlglot 30, or once was one here."""
ARGUMENTS = ("", "i", "'a'", "1", "i, s", "1, 'b', i", "distinct i", "*", "i, s, i, s")


def functions() -> Iterator[str]:
    for dialect in ("hive", "spark", "duckdb"):
        parser = sqlglot.Dialect.get_or_raise(dialect).parser_class
        yield from parser.FUNCTIONS
        yield from parser.FUNCTION_PARSERS


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("door", DOORS)
def test_a_call_on_which_the_parser_fails_raises_only_odps_nb_errors(door: str, call: str) -> None:
    read, form = DOORS[door]
    read(form.format(call).encode())


@pytest.mark.nightly
@pytest.mark.parametrize("door", DOORS)
def test_calls_of_all_functions_raise_no_error_of_the_parser(door: str) -> None:
    read, form = DOORS[door]
    for name in sorted(set(functions())):
        for arguments in ARGUMENTS:
            read(form.format(f"{name}({arguments})").encode())


def test_text_on_which_the_parser_fails_raises_a_parse_error() -> None:
    with pytest.raises(ParseError, match="all its arguments"):
        sql_parser.parse("select map('a')", "hive")
    tree = sql_parser.parse("select regexp_replace(s, 'a')", "hive")[0]
    with pytest.raises(ParseError, match="all its arguments"):
        sql_parser.spell(tree, "hive")
    with pytest.raises(SqlglotError):
        sql_parser.parse("select (", "hive")
    with pytest.raises(RecursionError):
        sql_parser.parse("(" * 5000, "hive")


def test_a_refused_condition_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """sqlglot once logged a warning about syntax that Hive does not support."""
    with pytest.raises(ArgumentError, match="not supported"):
        RowFilter.parse("named_struct('a', 1) = 1", COLUMNS)
    assert not caplog.records


def test_a_cast_to_char_or_varchar_keeps_its_length() -> None:
    """sqlglot silently parses CHAR(n) and VARCHAR(n) as STRING, as Spark does."""
    for text in ("cast(s as varchar(2)) = 'a'", "cast(s as array<char(2)>) = 'a'"):
        tree = sql_parser.parse(text, sql_parser.hive())[0]
        assert "(2)" in sql_parser.spell(tree, "hive")
