"""Reading some rows seeks to their row group, in the Parquet file and in its Arrow copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.local.store import row_files
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.group_starts import GroupStarts, StartsCache

ROWS, GROUP = 1_005, 10
GROUPS = -(-ROWS // GROUP)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    made = DataFolder(tmp_path / "root", durable=False)
    yield made
    made.close()


@pytest.fixture
def name(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a row file with many small row groups, the last one smaller; it has an Arrow copy."""
    monkeypatch.setattr(row_files, "ROW_GROUP_ROWS", GROUP)
    monkeypatch.setattr("odps_nb.local.store.arrow_cache.SMALLEST", 0)
    batch = pa.record_batch({"id": pa.array(range(ROWS)), "half": pa.array([0.5] * ROWS)})
    with row_files.RowFileWriter(folder, batch.schema) as writer:
        writer.write(batch)
        return writer.finish().name


@pytest.mark.parametrize("is_hot", [True, False])
def test_row_ranges_can_be_read_in_any_order(folder: DataFolder, name: str, is_hot: bool) -> None:
    if not is_hot:
        folder.hot.drop(name)
    ranges = [(0, 1), (997, 1_005), (500, 500), (15, 31), (990, 1_000), (0, 2_000), (2_000, 2_001)]
    for start, stop in ranges:
        batches = list(row_files.read_rows(folder, name, ["id"], start, stop))
        found = [row for batch in batches for row in batch.column("id").to_pylist()]
        assert found == list(range(ROWS))[start:stop]


def test_a_row_range_reads_only_its_row_groups() -> None:
    starts = GroupStarts([10, 0, 10, 5])
    assert list(starts.ranges(12, 14)) == [(2, 2, 4)]
    assert list(starts.ranges(8, 22)) == [(0, 8, 10), (2, 0, 10), (3, 0, 2)]
    assert list(starts.ranges(15, 15)) == []
    assert list(starts.ranges(25, 30)) == []


@pytest.mark.parametrize("is_hot", [True, False])
def test_row_group_offsets_are_read_once(folder: DataFolder, name: str, is_hot: bool) -> None:
    if not is_hot:
        folder.hot.drop(name)
    list(row_files.read_rows(folder, name, ["id"], 0, 1))

    def make() -> GroupStarts:
        raise AssertionError("the offsets are cached")

    starts = folder.starts.get(f"{name}.arrow" if is_hot else name, make)
    assert len(list(starts.ranges(0, ROWS))) == GROUPS
    assert (starts.metadata is None) == is_hot


def test_the_most_recently_used_offsets_are_cached() -> None:
    cache = StartsCache(limit=300)  # each group takes 64 bytes
    first = cache.get("first", lambda: GroupStarts([1, 1]))
    cache.get("second", lambda: GroupStarts([1, 1]))
    assert cache.get("first", lambda: GroupStarts([1])) is first
    cache.get("third", lambda: GroupStarts([1, 1]))
    assert cache.get("first", lambda: GroupStarts([1])) is first
    cache.get("too large", lambda: GroupStarts([1] * 1_000))
    assert cache.get("first", lambda: GroupStarts([1])) is not first
