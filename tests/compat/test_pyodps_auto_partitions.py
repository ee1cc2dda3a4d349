"""Evidence 171: the stock client creates and writes auto-partitioned tables.

The same operations as its tests test_write_table_with_generate_parts,
test_write_table_with_generate_cols_and_parts and test_write_sql_to_auto_parted_table.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from odps import ODPS

from tests.support.compat.stock import STOCK

pytestmark = STOCK
TIMES = [pd.Timestamp(f"2025-02-{day} 11:23:41") for day in (25, 26, 26, 27)]
NOTES = ["r1", "r2", "r3", "r4"]


def _data(kind: str) -> Any:
    if kind == "pandas":
        return pd.DataFrame({"dt": TIMES, "a": NOTES})
    if kind == "arrow":
        return pa.RecordBatch.from_arrays([pa.array(TIMES), pa.array(NOTES)], ["dt", "a"])
    return [list(row) for row in zip(TIMES, NOTES, strict=True)]


@pytest.mark.gate(1)
@pytest.mark.parametrize("kind", ["pandas", "arrow", "records"])
def test_rows_are_written_to_the_partitions_of_their_times(
    entry: ODPS, name: str, kind: str
) -> None:
    columns = ("dt datetime, a string", "trunc_time(dt, 'day') as pt")
    table = entry.create_table(name, columns, lifecycle=1)
    assert str(table.table_schema.partitions[0].generate_expression) == "trunc_time(`dt`, 'day')"
    entry.write_table(table, _data(kind), create_partition=True)
    assert [one.name for one in table.partitions] == [f"pt='2025-02-{n}'" for n in (25, 26, 27)]
    with table.open_reader("pt=2025-02-26") as reader:
        assert [record["a"] for record in reader] == ["r2", "r3"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_result_of_a_query_is_written_to_the_computed_partitions(
    entry: ODPS, name: str, *, overwrite: bool
) -> None:
    source = entry.create_table(f"{name}_source", "ts timestamp, a string")
    with source.open_writer() as writer:
        writer.write([[one, note] for one, note in zip(TIMES, NOTES, strict=True)])
    table = entry.create_table(name, ("ts timestamp_ntz, a string", "trunc_time(ts, 'day') as pt"))
    for _ in range(2):
        query = f"select * from {name}_source"
        entry.write_sql_result_to_table(name, query, overwrite=overwrite)
    with table.open_reader("pt='2025-02-26'") as reader:
        assert reader.count == (2 if overwrite else 4)


def test_a_table_can_be_partitioned_by_the_time_of_the_write(entry: ODPS, name: str) -> None:
    columns = (
        "_partitiontime timestamp_ntz, a string",
        "trunc_time(_partitiontime, 'month') as pt",
    )
    table = entry.create_table(name, columns, table_properties={"ingestion_time_partition": "true"})
    entry.create_table(f"{name}_source", "a string")
    entry.write_table(f"{name}_source", [["x"], ["y"]])
    before = datetime.now(UTC)
    entry.write_sql_result_to_table(name, f"select * from {name}_source")
    months = {f"pt='{one:%Y-%m}'" for one in (before, datetime.now(UTC))}
    assert {one.name for one in table.partitions} <= months
    assert len(list(table.partitions)) == 1
