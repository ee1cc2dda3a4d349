"""`with_blobs`: small blobs as a column; requests and buffers of both blob functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb
import odps_nb.spark
from odps_nb.client.blob import many as client_blob
from odps_nb.client.blob.batch import BlobBatch
from odps_nb.errors import ArgumentError, ConversionError, LimitExceededError
from odps_nb.spark.blobs import task as blob_tasks
from odps_nb.spark.blobs.task import BlobTask, map_batches
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import from_spark
from odps_nb.spark.versions import DATA_SOURCES, pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.storage_api("blobs")

Names = Callable[[str], str]


@pytest.fixture
def media(spark: SparkSession, odps: Connection) -> DataFrame:
    return odps_nb.spark.read(spark, odps, "media", splits=2)


@pytest.mark.spark
def test_blobs_have_content_type_and_name_and_nulls_stay_null(
    odps: Connection, media: DataFrame
) -> None:
    whole = odps_nb.spark.with_blobs(media, odps, "content", column="file")
    assert whole.columns == [*media.columns, "file"]
    rows = whole.collect()
    assert len(rows) == odps.table("media").read().row_count
    records = iter(odps.blobs([row.content for row in rows if row.content is not None]).fetch())
    for row in rows:
        if row.content is None:
            assert row.file is None
            continue
        record = next(records)
        assert bytes(row.file.data) == record.data
        assert row.file.mime_type == record.mime_type
        assert row.file.file_name == record.file_name == row.name
    assert {len(row.file.data) for row in rows if row.name == "empty.dat"} == {0}


@pytest.mark.spark
def test_a_blob_in_a_single_row_has_type_and_name(odps: Connection, media: DataFrame) -> None:
    one = media.filter("name = 'waves.jpg'")
    row = odps_nb.spark.with_blobs(one, odps, "content").first()
    assert row is not None
    assert (row.blob.mime_type, row.blob.file_name) == ("image/jpeg", "waves.jpg")


@pytest.mark.nightly
@pytest.mark.spark
def test_the_blob_column_can_be_written_to_a_table(
    odps: Connection, media: DataFrame, new_name: Names
) -> None:
    name = new_name("copied")
    odps.create_table(name, "id bigint, content blob")
    whole = odps_nb.spark.with_blobs(media.limit(5).drop("name"), odps, "content")
    odps_nb.spark.write(whole.selectExpr("id", "blob as content"), odps, name)
    copies = odps.table(name).read().to_arrow().sort_by("id").to_pylist()
    firsts = {row.id: odps.blob(row.content) for row in media.collect() if row.content}
    assert len(copies) == 5
    for row in copies:
        first, copy = firsts[row["id"]], odps.blob(row["content"])
        assert copy.bytes() == first.bytes()
        assert (copy.mime_type, copy.file_name) == (first.mime_type, first.file_name)


@pytest.mark.nightly
@pytest.mark.spark
def test_a_blob_that_is_too_large_is_refused_and_the_hint_names_blob_map(
    odps: Connection, media: DataFrame
) -> None:
    whole = odps_nb.spark.with_blobs(media, odps, "content", max_blob_bytes=1000)
    with pytest.raises(Exception, match=r"more than max_blob_bytes=1\.0 kB") as caught:
        whole.collect()
    error = from_spark(caught.value)
    assert isinstance(error, LimitExceededError)
    assert error.hint is not None
    assert "odps_nb.spark.blob_map" in error.hint
    assert "java" not in str(caught.value).lower()


@pytest.mark.spark
def test_arguments_are_checked_before_a_task_runs(odps: Connection, media: DataFrame) -> None:
    for size in (0, 256_000_001):
        with pytest.raises(ArgumentError, match="max_blob_bytes is") as caught:
            odps_nb.spark.with_blobs(media, odps, "content", max_blob_bytes=size)
        assert caught.value.argument == "max_blob_bytes"
    with pytest.raises(ArgumentError, match="already has a column 'name'") as caught:
        odps_nb.spark.with_blobs(media, odps, "content", column="name")
    assert caught.value.argument == "column"
    with pytest.raises(ConversionError, match="does not hold blob references"):
        odps_nb.spark.with_blobs(media, odps, "id")
    twice = media.selectExpr("content", "name as Content")
    with pytest.raises(ArgumentError, match="has 2 columns 'content'") as caught:
        odps_nb.spark.with_blobs(twice, odps, "content")
    assert caught.value.argument == "ref_column"
    values = ["interval 1 month", "array()"]
    if pyspark_version() >= DATA_SOURCES:
        values.append("make_interval(1)")  # PySpark 3.5 cannot return the schema
    for value in values:
        with pytest.raises(ConversionError, match="column 'more': Spark cannot send") as unsent:
            odps_nb.spark.with_blobs(media.selectExpr("content", f"{value} more"), odps, "content")
        assert unsent.value.hint == "cast the column, or drop it before this call"


# -- requests and memory of a task ----------------------------------------------------------------


@pytest.fixture
def fetched_tokens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tokens of the fetched references, in the order of the batches."""
    tokens: list[str] = []

    class Watched(BlobBatch):
        def __init__(self, storage: Any, references: Any, **more: Any) -> None:
            tokens.extend(one.token for one in references)
            super().__init__(storage, references, **more)

    monkeypatch.setattr(client_blob, "BlobBatch", Watched)
    return tokens


def _size(record: Any) -> dict[str, Any]:
    return {"size": len(record.data)}


def _task(
    odps: Connection,
    fn: Callable[[Any], Any] = _size,
    kind: pa.DataType | None = None,
    **more: Any,
) -> BlobTask:
    added = pa.schema([("size", kind or pa.int64())])
    return BlobTask(
        profile=TaskProfile.of(odps._storage),
        column=0,
        name="content",
        fn=fn,
        added=added,
        whole=pa.schema([pa.field("content", pa.string()), *added]),
        **more,
    )


@pytest.fixture(scope="module")
def tokens(odps: Connection) -> list[str]:
    references = odps.table("media").read(columns=["content"]).to_arrow().column("content")
    return [token for token in references.to_pylist() if token is not None][:6]


def _batch(tokens: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"content": pa.array(tokens, pa.string())})


def _run(task: BlobTask, tokens: list[str | None]) -> list[Any]:
    return [row for out in map_batches(task, [_batch(tokens)]) for row in out.to_pylist()]


def test_a_repeated_reference_in_a_batch_is_fetched_once(
    odps: Connection, tokens: list[str], fetched_tokens: list[str]
) -> None:
    repeated = [*tokens, None, *reversed(tokens), *tokens]
    rows = _run(_task(odps), repeated)
    assert sorted(fetched_tokens) == sorted(tokens)
    assert [row["content"] for row in rows] == repeated
    sizes = {token: odps.blob(token).size for token in tokens}
    assert [row["size"] for row in rows] == [sizes.get(token) for token in repeated]


def test_the_cache_of_repeated_blobs_is_bounded(
    odps: Connection, tokens: list[str], fetched_tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {token: odps.blob(token).size for token in tokens}
    small, large = sorted(tokens, key=lambda token: sizes[token])[:: len(tokens) - 1]
    monkeypatch.setattr(blob_tasks, "KEPT", sizes[small])
    repeated: list[str | None] = [large, small, large, small]
    rows = _run(_task(odps), repeated)
    assert sorted(fetched_tokens) == sorted([large, small, large])
    assert [row["size"] for row in rows] == [sizes[token or ""] for token in repeated]


def test_the_bytes_of_a_blob_that_is_too_large_are_not_fetched(
    odps: Connection, tokens: list[str]
) -> None:
    largest = max(odps.blob(token).size for token in tokens)
    assert len(_run(_task(odps, largest=largest), [*tokens])) == len(tokens)
    with pytest.raises(LimitExceededError, match="more than max_blob_bytes") as caught:
        _run(_task(odps, largest=largest - 1), [*tokens])
    assert "blobs of column 'content'" in str(caught.value)


def test_bytes_inside_structs_and_lists_count_toward_the_batch_size(
    odps: Connection, tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_tasks, "BYTES_PER_BATCH", 1000)
    page = pa.list_(pa.struct([("data", pa.binary())]))
    task = _task(odps, lambda record: ([{"data": b"x" * 300}] * 2,), page)
    assert [out.num_rows for out in map_batches(task, [_batch([*tokens])])] == [2, 2, 2]


def test_large_input_columns_are_divided_into_batches(
    odps: Connection, tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = _batch([*tokens]).nbytes
    monkeypatch.setattr(blob_tasks, "LARGEST_BATCH", size // 2)
    batches = list(map_batches(_task(odps), [_batch([*tokens])]))
    assert len(batches) > 1
    assert all(out.nbytes <= size // 2 or out.num_rows == 1 for out in batches)
    assert pa.Table.from_batches(batches).column("content").to_pylist() == tokens


def test_a_value_that_would_break_the_jvm_is_refused(
    odps: Connection, tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_tasks, "LARGEST_VALUE", 999)
    task = _task(odps, lambda record: (b"x" * 1000,), pa.binary())
    with pytest.raises(LimitExceededError, match=r"returned 1\.0 kB for 'size'"):
        _run(task, [*tokens])


def test_closing_the_iterator_frees_the_connection(odps: Connection, tokens: list[str]) -> None:
    closed: list[str] = []

    def watched(place: Any, wanted: list[str]) -> Iterator[Any]:
        try:
            yield from original(place, wanted)
        finally:
            closed.append("closed")

    original = blob_tasks._fetch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blob_tasks, "_fetch", watched)
        patch.setattr(blob_tasks, "ROWS_PER_BATCH", 1)
        batches = map_batches(_task(odps), [_batch([*tokens])])
        next(batches)
        assert closed == []
        batches.close()  # type: ignore[attr-defined]  # it is a generator
        assert closed == ["closed"]


NEW = pa.struct([("data", pa.binary()), ("mime_type", pa.string()), ("file_name", pa.string())])


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (b"plain", NEW, {"data": b"plain", "mime_type": None, "file_name": None}),
        (
            odps_nb.NewBlob(b"x", mime_type="a/b", file_name="x.png"),
            NEW,
            {"data": b"x", "mime_type": "a/b", "file_name": "x.png"},
        ),
        (
            odps_nb.NewBlob(b"x", file_name="x.png"),
            pa.struct([("data", pa.binary()), ("mime_type", pa.string())]),
            {"data": b"x", "mime_type": "image/png"},
        ),
        (
            [odps_nb.NewBlob(b"1"), None, b"2"],
            pa.list_(NEW),
            [
                {"data": b"1", "mime_type": None, "file_name": None},
                None,
                {"data": b"2", "mime_type": None, "file_name": None},
            ],
        ),
        (
            {"page": odps_nb.NewBlob(b"x"), "n": 1},
            pa.struct([("page", NEW), ("n", pa.int64())]),
            {"page": {"data": b"x", "mime_type": None, "file_name": None}, "n": 1},
        ),
    ],
)
def test_a_function_may_return_new_blobs(
    odps: Connection, tokens: list[str], value: Any, kind: pa.DataType, stored: Any
) -> None:
    rows = _run(_task(odps, lambda record: (value,), kind), [tokens[0]])
    assert rows[0]["size"] == stored


def test_new_blobs_may_be_files(odps: Connection, tokens: list[str], tmp_path: Any) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes(b"text of a page")
    rows = _run(_task(odps, lambda record: (odps_nb.NewBlob(path),), NEW), [tokens[0]])
    assert rows[0]["size"] == {
        "data": b"text of a page",
        "mime_type": "text/plain",
        "file_name": "page.txt",
    }
    with path.open("rb") as file:
        rows = _run(_task(odps, lambda record: (odps_nb.NewBlob(file),), NEW), [tokens[0]])
    assert rows[0]["size"]["data"] == b"text of a page"


def test_a_new_blob_for_a_column_of_another_type_is_refused(
    odps: Connection, tokens: list[str]
) -> None:
    task = _task(odps, lambda record: (odps_nb.NewBlob(b"x"),), pa.binary())
    with pytest.raises(ConversionError, match="NEW_BLOB"):
        _run(task, [tokens[0]])
