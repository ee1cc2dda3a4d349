"""Rows and columns that a plan omits do not change a query: random queries, run by DuckDB.

The invariant is that of `test_differential`: a query returns the same result over all rows and
columns as over those that `plan_reads` keeps. DuckDB differs from Spark, but it runs both queries,
so a difference is a bug in the plan. It runs fifty queries per second.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pytest
from sqlglot import ErrorLevel, exp

from odps_nb.errors import ArgumentError
from odps_nb.spark.pushdown.plan import TableRead
from tests.support.spark.sql_grammar import Grammar
from tests.support.spark.sql_rows import ROWS, SCHEMAS, arrow, left, plan, reads_less

# Ignored errors: bugs of DuckDB, and casts that fail only for some join orders.
_OTHER_FAILURES = {"InternalException", "ConversionException", "OutOfRangeException"}
EXPLORE = int(os.environ.get("ODPS_NB_EXPLORE") or 0)


@dataclass
class Tables:
    """All rows, and a table for each set of rows and columns that a plan has kept."""

    connection: duckdb.DuckDBPyConnection
    made: dict[Any, str] = field(default_factory=dict)

    @classmethod
    def open(cls) -> Tables:
        """A database with all rows; the caller closes its connection."""
        tables = cls(duckdb.connect())
        tables.connection.execute("set threads = 1")
        for name, schema in SCHEMAS.items():
            tables.add((name, schema.names, tuple(range(len(ROWS[name])))), name)
        return tables

    def reopen(self) -> None:
        """Start again: after a fatal error, DuckDB's database no longer responds."""
        self.connection.close()
        fresh = Tables.open()
        self.connection, self.made = fresh.connection, fresh.made

    def add(self, key: Any, name: str) -> str:
        if key not in self.made:
            self.made[key] = name
            self.connection.register("given", arrow(*key))
            self.connection.execute(f"create table {name} as select * from given")
            self.connection.unregister("given")
        return self.made[key]

    def of(self, read: TableRead) -> str:
        key = (read.table.table, read.columns, left(read))
        return self.add(key, f"left_{len(self.made)}")

    def rows(self, query: exp.Expression) -> tuple[str, list[str]]:
        """The error of a query, or its rows."""
        text = query.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)
        try:
            return "", [repr(row) for row in self.connection.execute(text).fetchall()]
        except duckdb.FatalException:
            raise
        except duckdb.Error as failure:
            return type(failure).__name__, []

    def compare(self, text: str, *, ordered: bool) -> str:
        """Describe how a query ended, or how the results differ."""
        query, reads = plan(text)
        if not reads_less(reads.values()):
            return "reads all"
        try:
            return self._compared(query, reads, text, ordered=ordered)
        except duckdb.FatalException:
            self.reopen()
            return "failed"

    def _compared(self, query: Any, reads: Any, text: str, *, ordered: bool) -> str:
        refused, expected = self.rows(query.tree)
        for reference, read in reads.items():
            node = reference.node
            if node.args.get("alias") is None:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(reference.alias)))
            node.set("this", exp.to_identifier(self.of(read)))
        instead, found = self.rows(query.tree)
        if _OTHER_FAILURES & {refused, instead}:
            return "failed"
        if bool(refused) != bool(instead):
            return f"DIFFERENCE: refused {instead or 'not'} instead of {refused or 'not'}: {text}"
        if found != expected if ordered else Counter(found) != Counter(expected):
            return f"DIFFERENCE: {found[:5]} instead of {expected[:5]}: {text}"
        return "refused" if refused else "rows" if expected else "no rows"


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    made = Tables.open()
    yield made
    made.connection.close()


def search(tables: Tables, seeds: range) -> Counter[str]:
    ends: Counter[str] = Counter()
    for seed in seeds:
        grammar = Grammar(seed)
        made = grammar.query()
        if grammar.wild or grammar.doubtful:  # only Spark defines rand(3) and duplicate names
            ends["Spark's"] += 1
            continue
        try:
            end = tables.compare(made.text, ordered=made.total)
        except ArgumentError:
            end = "not read"
        assert not end.startswith("DIFFERENCE"), f"Grammar({seed}): {end}"
        ends[end] += 1
    return ends


@pytest.mark.nightly
def test_results_of_random_queries_do_not_change_with_pruned_tables(tables: Tables) -> None:
    ends = search(tables, range(300))
    assert ends["rows"] > 60  # otherwise nothing was tested


if EXPLORE:  # `make explore` prints the number

    @pytest.mark.explore
    @pytest.mark.timeout(0)
    def test_results_of_many_random_queries_do_not_change_with_pruned_tables(
        tables: Tables,
    ) -> None:
        first = int.from_bytes(os.urandom(4), "big")
        print(f"seeds from {first}:", dict(search(tables, range(first, first + 10 * EXPLORE))))


@pytest.mark.parametrize(
    "text",
    [
        "select count(*) from (select * from q2 group by all)",
        "select sum(a) from (select * from q2 order by all limit 5)",
        "select sum(a) from (select * from q2 order by 2 desc, 1 limit 5)",
        "select sum(k) from (select * from q2 order by 5, 1 limit 4)",
        "select sum(a) from ((select * from q2) order by 5, 1 limit 4)",
        "select count(*) from (select id from q2 limit 2 + 3)",
        "select id from q2 limit 1 * 5",
        "select sum(v) from q2 unpivot (v for w in (a, k))",
        "select count(*) from q1 join q2 on q1.id = q2.id natural join q3",
        "select count(*) from (select * from q2 group by id)",
    ],
)
def test_queries_whose_rows_were_once_omitted_return_them(tables: Tables, text: str) -> None:
    end = tables.compare(text, ordered=False)
    assert not end.startswith("DIFFERENCE"), end
