"""A write stores rows, columns, iterators and LazyFrames in one commit."""

from __future__ import annotations

import collections
import contextlib
import csv
import dataclasses
import datetime
import sqlite3
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from odps_nb import Connection, Table
from odps_nb.access.writing import tabular
from odps_nb.errors import ArgumentError, ConversionError, OdpsNbWarning
from tests.support.named import NewName
from tests.support.watcher import Watcher

pytestmark = pytest.mark.every_service(in_turn=True)

Pair = collections.namedtuple("Pair", "name id")


@dataclasses.dataclass
class Point:
    x: int
    y: float


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    id: int
    name: str | None = None
    at: Point | None = None


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> Table:
    name = new_name("rows")
    return odps.create_table(name, "id bigint, name string, at struct<x:bigint, y:double>")


def content(table: Table) -> list[tuple[Any, ...]]:
    found = table.read().to_arrow().to_pylist()
    return sorted((row["id"], row["name"], row["at"]) for row in found)


def rows_of_a_database() -> list[Any]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        return database.execute("select 'a' as name, 1 as ID union all select null, 2").fetchall()


TWO = [(1, "a", None), (2, None, None)]
WAYS = {
    "dicts": [{"id": 1, "name": "a"}, {"id": 2}],
    "dicts by case": [{"ID": 1, "Name": "a"}, {"id": 2, "name": None}],
    "a tuple of dicts": ({"id": 1, "name": "a"}, {"id": 2}),
    "tuples": [(1, "a", None), (2, None, None)],
    "lists": [[1, "a", None], [2, None, None]],
    "named tuples": [Pair("a", 1), Pair(None, 2)],
    "dataclasses": [Item(1, "a"), Item(2)],
    "named kinds together": [Item(1, "a"), {"id": 2}],
    "Series": [pd.Series({"id": 1, "name": "a"}), pd.Series({"id": 2}, dtype=object)],
    "values of a dict": {"x": {"id": 1, "name": "a"}, "y": {"id": 2}}.values(),
    "a deque": collections.deque(TWO),
    "object array": np.array([[1, "a", None], [2, None, None]], dtype=object),
    "structured array": np.array([(1, "a"), (2, "b")], dtype=[("id", "i8"), ("name", "U5")])[:0],
    "columns": {"id": [1, 2], "name": ["a", None]},
    "columns of kinds": {"id": pa.array([1, 2]), "name": pl.Series(["a", None])},
    "columns of arrays": {"id": np.array([1, 2]), "name": pd.array(["a", None], "string")},
    "aligned Series": {
        "id": pd.Series([1, 2], index=["p", "q"]),
        "name": pd.Series([None, "a"], index=["q", "p"]),
    },
    "columns by label": pd.DataFrame({"id": [1, 2], "name": ["a", None]}, dtype=object).to_dict(),
    "a generator": lambda: ({"id": 1 + n, "name": "a" if not n else None} for n in range(2)),
    "an iterator": lambda: iter(TWO),
    "zip": lambda: zip([1, 2], ["a", None], [None, None], strict=True),
    "rows of a database": rows_of_a_database,
    "tables": [
        pd.DataFrame({"id": [1], "name": ["a"]}),
        pa.table({"id": [2]}),
        pl.DataFrame({"id": []}, schema={"id": pl.Int64}),
    ],
    "batches": lambda: iter(
        [pa.record_batch({"name": ["a"], "id": [1]}), pl.DataFrame({"id": [2]})]
    ),
    "an index": pd.MultiIndex.from_arrays([[1, 2], ["a", None]], names=["id", "name"]),
    "a lazy frame": pl.LazyFrame({"id": [1, 2], "name": ["a", None]}),
    "lazy frames": [pl.LazyFrame({"id": [1], "name": ["a"]}), pl.LazyFrame({"id": [2]})],
}


@pytest.mark.gate(10)
@pytest.mark.parametrize("way", WAYS)
def test_rows_in_every_form_are_written_in_one_commit(table: Table, way: str) -> None:
    data = WAYS[way]
    receipt = table.write(data() if callable(data) else data)
    wanted = [] if way == "structured array" else TWO
    assert content(table) == wanted
    assert receipt.rows == len(wanted)


def test_the_rows_of_a_cursor_are_written_in_one_commit(table: Table) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        receipt = table.write(
            database.execute("select 1, 'a', null union all select 2, null, null")
        )
    assert content(table) == TWO
    assert receipt.rows == 2


def test_values_in_rows_are_exact(odps: Connection, new_name: NewName) -> None:
    name = new_name("rules")
    table = odps.create_table(
        name, "n bigint, d decimal(38,18), t timestamp, tags array<bigint>, p struct<x:bigint>"
    )
    exact = pd.Timestamp("2024-01-31 10:00:00.123456789")
    row = {
        "n": 2**53 + 1,
        "d": Decimal("12345678901234567890.123456789012345678"),
        "t": exact,
        "tags": np.array([1, 2]),
        "p": {"x": 2**53 + 1},
    }
    table.write([row, {"n": None, "tags": np.array([3, 4])}, tuple(row.values())[:0] or {}])
    found = table.read().to_arrow().to_pylist()[0]
    assert (found["n"], found["d"], found["p"]) == (row["n"], row["d"], row["p"])
    assert pd.Timestamp(found["t"]) == exact
    assert found["tags"] == [1, 2]
    table.write({"n": [2**53 + 3, None]}, overwrite=True)  # not through float
    assert table.read(["n"]).to_arrow().column("n").to_pylist() == [2**53 + 3, None]


def test_dataclasses_inside_of_dataclasses_are_structs(table: Table) -> None:
    table.write(Item(n, None, Point(n, 0.5)) for n in range(2))
    assert content(table) == [(0, None, {"x": 0, "y": 0.5}), (1, None, {"x": 1, "y": 0.5})]


def test_empty_data_of_any_form_is_written_as_zero_rows(table: Table) -> None:
    for nothing in (
        [],
        (),
        iter([]),
        {"id": []},
        np.zeros((0, 3)),
        pl.LazyFrame({"id": [1]}).head(0),
        [{}][:0],
    ):
        assert table.write(nothing).rows == 0
    table.write([(1, "a", None)])
    assert table.write([], overwrite=True).rows == 0
    assert content(table) == []


def test_an_iterator_is_streamed_and_its_rows_are_counted_over_all_chunks(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabular, "CHUNK_ROWS", 10)
    ahead: list[int] = []
    taken = 0
    gather = tabular.Chunks._gathered

    def record_part(self: Any, first: Any) -> Any:
        made = gather(self, first)
        ahead.append(taken)
        return made

    monkeypatch.setattr(tabular.Chunks, "_gathered", record_part)

    def rows(last: object) -> Iterator[dict[str, object]]:
        nonlocal taken
        for number in range(95):
            taken += 1
            yield {"id": number if number < 94 else last}

    assert table.write(rows(94)).rows == 95
    assert ahead == [*range(10, 100, 10), 95]
    assert [row[0] for row in content(table)] == list(range(95))
    for bad in (2**63, "x", 1.5):
        with pytest.raises(ConversionError) as refused:
            table.write(rows(bad), overwrite=True)
        assert (refused.value.column, refused.value.row) == ("id", 94)
    assert len(content(table)) == 95  # nothing was replaced


def test_a_large_value_ends_a_chunk_of_rows(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "CHUNK_BYTES", 1000)
    parts = []
    gather = tabular.Chunks._gathered

    def record_part(self: Any, first: Any) -> Any:
        parts.append(made := gather(self, first))
        return made

    monkeypatch.setattr(tabular.Chunks, "_gathered", record_part)
    table.write({"id": n, "name": "x" * 300} for n in range(8))
    assert [len(part) for part in parts] == [4, 4]


@pytest.mark.storage_api("far times")
def test_chunks_may_contain_times_of_different_ranges(
    odps: Connection, new_name: NewName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabular, "CHUNK_ROWS", 1)
    name = new_name("ranges")
    table = odps.create_table(name, "t timestamp")
    whens = [datetime.datetime(2024, 1, 1), datetime.datetime(9999, 12, 31), None]
    table.write({"t": when} for when in whens)
    found = table.read(timestamp_unit="us").to_arrow().column("t").to_pylist()
    assert [one and one.replace(tzinfo=None) for one in found] == whens


def test_an_error_of_the_generator_is_raised_unchanged_and_nothing_is_written(table: Table) -> None:
    closed = []

    def rows(*, fails: bool) -> Iterator[dict[str, object]]:
        try:
            yield {"id": 1}
            if fails:
                raise KeyError("of the source")
            yield {"idd": 2}
        finally:
            closed.append(fails)

    with pytest.raises(KeyError, match="of the source"):
        table.write(rows(fails=True))
    with pytest.raises(ConversionError, match="row 1"):
        table.write(rows(fails=False))
    assert closed == [True, False]
    assert content(table) == []


def test_text_of_a_csv_file_is_not_parsed_as_numbers(table: Table, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,name\n1,a\n")
    with file.open(newline="") as lines, pytest.raises(ConversionError) as refused:
        table.write(csv.DictReader(lines))
    assert refused.value.column == "id"


def test_partition_values_may_be_in_the_rows_or_an_argument_or_both(
    odps: Connection, new_name: NewName
) -> None:
    name = new_name("parted")
    table = odps.create_table(name, "id bigint", partitioned_by="ds string")
    table.write([(1, "a"), (2, "b")])
    table.write([(3,)], partition="ds=c")
    table.write([{"id": 4, "ds": "c"}], partition="ds=c")
    with pytest.raises(ArgumentError, match="partitioned by 'ds'"):
        table.write([{"id": 4}])
    assert table.write([]).rows == 0
    for data, options in (([(5, "日本")], {}), ([(5,)], {"partition": "ds=日本"})):
        with pytest.raises(ArgumentError, match="Chinese characters") as refused:
            table.write(data, **options)
        assert "Latin letters" in (refused.value.hint or "")
    found = table.read().to_arrow().to_pylist()
    assert sorted((row["id"], row["ds"]) for row in found) == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (4, "c"),
    ]


@pytest.mark.storage_api("blobs")
def test_rows_may_contain_blobs(odps: Connection, new_name: NewName, tmp_path: Path) -> None:
    name = new_name("blobs")
    table = odps.create_table(name, "id bigint, content blob")
    file = tmp_path / "two.txt"
    file.write_bytes(b"two")
    table.write([{"id": 1, "content": b"one"}])
    table.write((n, file if n == 2 else None) for n in (2, 3))
    assert sorted(blob.bytes() for blob in table.blobs()) == [b"one", b"two"]
    with pytest.raises(ConversionError, match=r"content\[1\]"):
        table.write((n, b"x" if n == 2 else "text") for n in (2, 3))


def test_rows_create_a_table(odps: Connection, new_name: NewName) -> None:
    name = new_name("made")
    table = odps.table(name)
    table.write(
        [{"id": 1, "at": {"x": 1}}, {"id": 2, "when": datetime.date(2024, 1, 1)}], create=True
    )
    assert [(c.name, c.nullable) for c in table.schema] == [
        ("id", True),
        ("at", True),
        ("when", True),
    ]
    odps.drop_table(name)
    table.write(({"id": n} for n in range(3)), create=True)
    assert table.read().row_count == 3
    odps.drop_table(name)
    empty = pl.LazyFrame({"id": [1]}).filter(pl.col("id") > 1)
    assert odps.create_table(name, empty).schema.names == ("id",)
    odps.drop_table(name)
    assert odps.create_table(name, {"id": [1, 2], "v": ["a", None]}).read().row_count == 2


def test_a_lazy_frame_that_does_not_fit_is_refused_and_the_process_continues(table: Table) -> None:
    numbers = pl.LazyFrame({"id": range(100_000)})
    halves = numbers.select(pl.col("id") / 2)
    with pytest.raises(ConversionError, match=r"id\[1\] = 0\.5"):
        table.write(halves)
    with pytest.raises(ConversionError, match="no column 'x'"):
        table.write(numbers.select(x="id"))
    assert table.write(numbers).rows == 100_000


def test_an_iterator_of_arrow_readers_is_streamed(odps: Connection, new_name: NewName) -> None:
    taken = []

    def batches(first: int) -> Iterator[pa.RecordBatch]:
        for number in range(first, first + 2):
            taken.append(number)
            yield pa.record_batch({"id": [number]})

    def readers() -> Iterator[pa.RecordBatchReader]:
        for first in (0, 2):
            schema = pa.schema({"id": pa.int64()})
            yield pa.RecordBatchReader.from_batches(schema, batches(first))

    table = odps.table(new_name("readers"))
    assert table.write(readers(), create=True).rows == 4
    assert sorted(table.read().to_arrow().column("id").to_pylist()) == taken == [0, 1, 2, 3]


def test_tables_in_a_list_are_converted_before_the_first_is_sent(table: Table) -> None:
    seen = Watcher()
    with pytest.raises(ConversionError):
        table.write([pa.table({"id": [1]}), pa.table({"id": ["x"]})], progress=seen)
    assert not hasattr(seen, "tracker")


def test_a_reader_whose_batches_have_other_columns_is_refused(table: Table) -> None:
    batches = (pa.record_batch({name: [1]}) for name in ("id", "idd"))
    reader = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), batches)
    with pytest.raises(ConversionError, match="the columns of a batch differ"):
        table.write(reader)
    assert content(table) == []


def test_data_without_column_names_creates_no_table(odps: Connection, new_name: NewName) -> None:
    table = odps.table(new_name("never"))
    for nothing in ([], iter([]), {}):
        with pytest.raises(ConversionError, match="columns of a new table are unknown") as refused:
            table.write(nothing, create=True)
        assert "create_table" in (refused.value.hint or "")
    with pytest.raises(ConversionError, match="rows without names"):
        table.write([(1, 2)], create=True)
    with pytest.raises(ConversionError, match="no column 'w'"):
        table.write(iter([pa.table({"v": [1]}), pa.table({"w": [1]})]), create=True)
    assert not table.exists()


def test_upserts_and_deletes_accept_rows(odps: Connection, new_name: NewName) -> None:
    name = new_name("keyed")
    table = odps.create_table(name, "id bigint, v string", primary_key="id")
    table.upsert([{"id": n, "v": "old"} for n in range(9)])
    table.upsert((n, "new") for n in range(2))
    table.upsert([{"id": 1, "v": "x", "gone": True}, {"id": 2, "gone": False}], deleted="gone")
    table.delete([{"id": 3, "other": object()}])
    table.delete(n for n in [4])
    table.delete([(5,)])
    table.delete(pd.Index([6], name="any"))
    table.delete(np.array([7]))
    table.delete({8})
    found = table.read().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 0, "v": "new"}, {"id": 2, "v": None}]


def test_open_write_accepts_rows(table: Table) -> None:
    with table.open_write() as session:
        assert session.write([{"id": 1}]) == 1
        assert session.write((n, None, None) for n in (2, 3)) == 2
        with pytest.raises(ConversionError):
            session.write([{"id": 4}, {"id": "x"}])
        assert session.commit().rows == 3
    assert [row[0] for row in content(table)] == [1, 2, 3]


# -- the index of pandas -------------------------------------------------------------------------


def test_the_index_is_written_on_request(table: Table) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", "b"]})
    table.write(frame.set_index("id"), index=True)
    table.write(frame.set_index(["id", "name"]), index=True, overwrite=True)
    assert [row[:2] for row in content(table)] == [(1, "a"), (2, "b")]
    table.write(frame.set_index("name")["id"], index=True, overwrite=True)  # a Series
    assert [row[:2] for row in content(table)] == [(1, "a"), (2, "b")]
    table.write(iter([frame.set_index("id")]), index=True, overwrite=True)
    assert [row[:2] for row in content(table)] == [(1, "a"), (2, "b")]
    table.write(frame.set_index("id"), index=False, overwrite=True)
    assert [row[:2] for row in content(table) if row[0] is None]
    assert list(frame.columns) == ["id", "name"]  # unchanged


BIG = 2**53 + 1


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([BIG, None], dtype=object, name="id"),
        pd.MultiIndex.from_tuples([(BIG, "a"), (None, "b")], names=["id", "name"]),
        pd.MultiIndex.from_arrays(
            [pd.array([BIG, None], "Int64"), ["a", "b"]], names=["id", "name"]
        ),
    ],
)
def test_large_integers_in_an_index_stay_exact(table: Table, index: Any) -> None:
    frame = pd.DataFrame(index=index)
    for data, more in ((frame, {"index": True}), (index, {})):
        table.write(data, overwrite=True, **more)
        assert table.read().to_arrow()["id"].to_pylist() == [BIG, None]
    repeated = pd.MultiIndex.from_tuples([(1, 2)], names=["id", "id"])
    with pytest.raises(ConversionError, match="occur more than once"):
        table.write(pd.DataFrame(index=repeated), index=True)


def test_a_column_in_the_index_raises_an_error_unless_index_is_passed(table: Table) -> None:
    frame = pd.DataFrame({"Id": [1], "name": ["a"]}).set_index("Id")
    with pytest.raises(ConversionError, match="'Id' is in the index") as refused:
        table.write(frame)
    assert "index=True" in (refused.value.hint or "")
    table.write(frame, index=True)
    assert [row[:2] for row in content(table)] == [(1, "a")]


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([7, 8], name="key"),
        pd.RangeIndex(2, name="key"),
        pd.Index(["x", "y"]),
        pd.DatetimeIndex(["2024-01-01", "2024-01-02"]),
        pd.Index([0.5, 1.5]),
        pd.MultiIndex.from_tuples([(1, 2), (3, 4)]),
    ],
    ids=str,
)
def test_dropping_an_index_with_names_or_labels_causes_a_warning(table: Table, index: Any) -> None:
    frame = pd.DataFrame({"id": [1, 2]}, index=index)
    with pytest.warns(OdpsNbWarning, match="is not written; pass index=True") as said:
        table.write(frame)
    assert [one.filename for one in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.write(frame, index=False)
    assert len(content(table)) == 4


def test_a_default_index_is_dropped_without_a_warning(table: Table) -> None:
    frame = pd.DataFrame({"id": [1, 2, 3]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in (frame, frame[frame.id > 1], frame.sort_values("id", ascending=False)):
            table.write(part)
        table.write(frame.iloc[:0].set_axis(pd.Index([], dtype=object)))
    assert len(content(table)) == 8


def test_an_index_that_cannot_be_columns_is_refused(table: Table, odps: Connection) -> None:
    frame = pd.DataFrame({"id": [1], "name": ["a"]})
    for bad, text in (
        (frame, "no name"),
        (frame.set_index("id", drop=False), "'id' is both an index level and a column"),
    ):
        with pytest.raises(ConversionError, match=text):
            table.write(bad, index=True)
    for data in (
        pa.table({"id": [1]}),
        pl.DataFrame({"id": [1]}),
        [{"id": 1}],
        {"id": [1]},
        iter(TWO),
    ):
        with pytest.raises(ArgumentError, match="index=True does not apply"):
            table.write(data, index=True)
    with pytest.raises(ArgumentError, match="index is 'id'"):
        table.write(frame, index="id")  # type: ignore[arg-type]
    assert content(table) == []


def test_an_index_can_become_columns_of_a_new_table(odps: Connection, new_name: NewName) -> None:
    name = new_name("indexed")
    frame = pd.DataFrame({"id": [1, 2], "v": ["a", "b"]}).set_index("id")
    with pytest.raises(ConversionError, match="'id' is in the index"):
        odps.create_table(name, frame)
    assert odps.create_table(name, frame, index=False).schema.names == ("v",)
    odps.drop_table(name)
    table = odps.create_table(name, frame, index=True, primary_key="id")
    table.upsert(frame.assign(v="c").iloc[:1], index=True)
    assert table.read().to_arrow().sort_by("id").column("v").to_pylist() == ["c", "b"]
    table.delete(frame.iloc[:1], index=True)
    assert table.read().to_arrow().column("id").to_pylist() == [2]
