"""Random conditions give the same rows as DuckDB.

Uses the grammar of ``where=`` over all types, nulls and extreme values. A failure prints the seed
and the condition; ``make explore`` tries more seeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from odps_nb.filters.row_filter import RowFilter
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import parse_columns
from tests.support.conditions import SCHEMA, Conditions, table

ROWS = table(400, seed=1)
BATCH = ROWS.combine_chunks().to_batches()[0]
COLUMNS = TableSchema(columns=tuple(parse_columns(SCHEMA)))
EXPLORE = int(os.environ.get("ODPS_NB_EXPLORE") or 0)


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        numbered = ROWS.append_column("row", pa.array(range(ROWS.num_rows)))
        connection.register("rows", numbered)
        connection.execute("create table given as select * from rows")
        yield connection


def selected_rows(found: RowFilter) -> list[int]:
    numbered = BATCH.append_column("row", pa.array(range(BATCH.num_rows)))
    kept = found.apply(numbered)
    return kept.column(kept.num_columns - 1).to_pylist()


def check_condition(duck: duckdb.DuckDBPyConnection, seed: int) -> int:
    made = Conditions(seed).condition()
    read = RowFilter.parse(made.ours, COLUMNS)
    found = selected_rows(read)
    said = f"Conditions({seed}): {made.ours}"
    query = f"select row from given where {made.duck} order by row"
    assert found == [row for (row,) in duck.execute(query).fetchall()], said
    if read.predicate:  # the predicate may select more rows
        sent = duck.execute(f"select row from given where {read.predicate}").fetchall()
        assert set(found) <= {row for (row,) in sent}, f"{said} sends {read.predicate}"
    return len(found)


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(100, 1000, 100))]
)
def test_random_conditions_select_the_same_rows_as_duckdb(duck, first):
    kept = [check_condition(duck, seed) for seed in range(first, first + 100)]
    assert sum(0 < count < ROWS.num_rows for count in kept) > 50  # neither all rows nor none


if EXPLORE:  # `make explore` prints the number

    @pytest.mark.explore
    @pytest.mark.timeout(0)
    def test_many_random_conditions_select_the_same_rows_as_duckdb(duck):
        first = int.from_bytes(os.urandom(4), "big")
        for seed in range(first, first + 10 * EXPLORE):
            check_condition(duck, seed)
