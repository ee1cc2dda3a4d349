"""``TablePreview`` as the real service responds, with the parameters only in the body."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.calls import Preview
from tests.support.service.raw import Raw, batches_of, rows_of

PLACES = [("east", "20250701"), ("east", "20250702"), ("west", "20250701")]
NAMES = ["id", "name", "score", "region", "dt"]


@pytest.fixture(scope="module")
def table(raw: Raw) -> str:
    name = raw.make(
        "(id bigint, name string, score double) PARTITIONED BY (region string, dt string)"
    )
    for number, (region, day) in enumerate(PLACES):
        first = 3 * number
        rows = {
            "id": pa.array(range(first, first + 3), pa.int64()),
            "name": [f"n{i}" for i in range(first, first + 3)],
            "score": [i * 0.5 for i in range(first, first + 3)],
        }
        raw.write(name, pa.table(rows), f"region={region}/dt={day}")
    return name


def shown(
    raw: Raw, table: str, *, limit: int = 0, partition: str = "", columns: tuple[str, ...] = ()
) -> pa.Table:
    """Request a preview as the C++ client does; the body has all three members."""
    body = {"Limit": limit, "Partition": partition, "Columns": list(columns)}
    return rows_of(raw.ask("TablePreview", raw.table(table), body=body, coding="x-lz4-frame,zstd"))


def test_a_preview_without_a_limit_returns_all_rows_of_all_partitions(raw: Raw, table: str) -> None:
    """evidence 140, 145, 146: Limit 0, Partition "", Columns []: 9 rows (C++: TestAllPartitions)"""
    rows = shown(raw, table)
    assert rows.column_names == NAMES
    assert rows["id"].to_pylist() == list(range(9))
    assert rows.schema.types == [pa.int64(), pa.utf8(), pa.float64(), pa.utf8(), pa.utf8()]


@pytest.mark.parametrize(
    "columns", [("id", "name"), ("name", "id"), ("dt", "score"), ("region",)], ids=",".join
)
def test_a_preview_returns_the_requested_columns_in_the_requested_order(
    raw: Raw, table: str, columns: tuple[str, ...]
) -> None:
    """evidence 141: exactly these columns, no partition columns (C++: TestSpecificPartition)"""
    rows = shown(raw, table, partition="region=east,dt=20250701", columns=columns)
    assert (tuple(rows.column_names), rows.num_rows) == (columns, 3)


@pytest.mark.parametrize(
    ("partition", "ids"),
    [
        ("region=east,dt=20250701", [0, 1, 2]),
        ("region=east/dt=20250702", [3, 4, 5]),
        ("region=east", [0, 1, 2, 3, 4, 5]),
        ("dt=20250701", [0, 1, 2, 6, 7, 8]),
    ],
)
def test_a_partition_may_be_given_as_a_partial_spec(
    raw: Raw, table: str, partition: str, ids: list[int]
) -> None:
    """evidence 142: commas between levels, and a partial spec (C++: preview_test)"""
    assert shown(raw, table, partition=partition)["id"].to_pylist() == ids


@pytest.mark.parametrize("partition", ["region=north,dt=20250701", "region=north"])
def test_the_preview_of_a_missing_partition_is_a_stream_without_batches(
    raw: Raw, table: str, partition: str
) -> None:
    """evidence 143: no batch, no error (C++: TestNonExistentPartition)"""
    body = {"Limit": 0, "Partition": partition, "Columns": []}
    answer = raw.ask("TablePreview", raw.table(table), body=body)
    assert batches_of(answer) == []
    assert rows_of(answer).column_names == NAMES


@pytest.mark.parametrize(("limit", "rows"), [(1, 1), (2, 2), (9, 9), (10, 9), (20_000, 9)])
def test_the_limit_of_a_preview_is_exact(raw: Raw, table: str, limit: int, rows: int) -> None:
    """evidence 144 (C++: preview_test; Python: test_preview_table)"""
    assert shown(raw, table, limit=limit)["id"].to_pylist() == list(range(rows))


def test_the_preview_of_an_empty_table_has_no_rows(raw: Raw) -> None:
    """evidence 143, 146: same for a partition without rows, named or not"""
    name = raw.make("(id bigint) PARTITIONED BY (p string)")
    assert shown(raw, name).num_rows == shown(raw, name, partition="p=x").num_rows == 0


def test_odps_nb_puts_commas_between_partition_levels_of_a_preview(raw: Raw, table: str) -> None:
    """evidence 142: the comma is confirmed here, the slash elsewhere (C++: preview_test)"""
    spec = PartitionSpec.of("region=east/dt=20250701")
    name = TableName.parse(table, project=raw.service.project)
    wire = Preview(table=name, limit=2, partition=spec).encode()
    assert dict(wire.params)["Partition"] == "region=east,dt=20250701"
    assert rows_of(raw.send(wire))["id"].to_pylist() == [0, 1]
