"""A read of some rows seeks to their row group, in both files of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odps_nb.local.store import row_files
from odps_nb.local.store.folder import Folder
from odps_nb.local.store.group_starts import GroupStarts, StartsCache

ROWS, GROUP = 1_005, 10
GROUPS = -(-ROWS // GROUP)


class CountedReader:
    """A reader of an Arrow file that counts the batches that are read."""

    def __init__(self, file: pa.RecordBatchFileReader) -> None:
        self._file, self.read = file, 0
        self.schema, self.num_record_batches = file.schema, file.num_record_batches

    def get_batch(self, index: int) -> pa.RecordBatch:
        self.read += 1
        return self._file.get_batch(index)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path / "root", durable=False)
    yield made
    made.close()


@pytest.fixture
def name(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    """A row file of many small groups, the last one short, also as Arrow."""
    monkeypatch.setattr(row_files, "ROW_GROUP_ROWS", GROUP)
    monkeypatch.setattr("odps_nb.local.store.arrow_cache.SMALLEST", 0)
    batch = pa.record_batch({"id": pa.array(range(ROWS)), "half": pa.array([0.5] * ROWS)})
    with row_files.RowFileWriter(folder, batch.schema) as writer:
        writer.write(batch)
        return writer.finish().name


@pytest.mark.parametrize("is_hot", [True, False])
def test_any_range_in_any_order_is_the_rows_of_that_range(
    folder: Folder, name: str, is_hot: bool
) -> None:
    if not is_hot:
        folder.hot.drop(name)
    ranges = [(0, 1), (997, 1_005), (500, 500), (15, 31), (990, 1_000), (0, 2_000), (2_000, 2_001)]
    for start, stop in ranges:
        batches = list(row_files.read_rows(folder, name, ["id"], start, stop))
        found = [row for batch in batches for row in batch.column("id").to_pylist()]
        assert found == list(range(ROWS))[start:stop]


def test_a_range_of_an_arrow_file_reads_its_batches_only(folder: Folder, name: str) -> None:
    source = folder.hot.open(name)
    assert source is not None
    with source:
        reader, starts = CountedReader(pa.ipc.open_file(source)), GroupStarts()
        assert reader.num_record_batches == GROUPS
        list(row_files._hot_rows(reader, starts, ["id"], 900, 905))
        assert reader.read == 91  # nobody knew how many rows come before
        reader.read = 0
        for row in (903, 444, 0):
            list(row_files._hot_rows(reader, starts, ["id"], row, row + 1))
        assert reader.read == 3


def test_the_footer_of_a_parquet_file_is_parsed_once(folder: Folder, name: str) -> None:
    folder.hot.drop(name)
    list(row_files.read_rows(folder, name, ["id"], 0, 1))

    def read() -> pq.FileMetaData:
        raise AssertionError("it is known")

    starts = folder.starts.of_parquet(name, read)
    assert starts.metadata is not None
    assert starts.metadata.num_row_groups == GROUPS
    assert [starts.group_of(row) for row in (0, 9, 10, 1_004)] == [0, 0, 1, 100]


def test_the_starts_that_were_used_last_are_kept() -> None:
    cache = StartsCache(limit=300)  # of 64 bytes a group
    first = cache.of("first", 2)
    cache.of("second", 2)
    assert cache.of("first", 2) is first
    cache.of("third", 2)
    assert cache.of("first", 2) is first
    first.note(0, 7)
    assert cache.of("second", 2).group_of(7) == 0
    cache.of("too large", 1_000)
    assert cache.of("first", 2) is not first
