"""`blob_map`: blobs are fetched and processed in the same task."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.errors import ArgumentError, ConfigError, ConversionError
from odps_nb.spark.blobs import task as blob_tasks
from odps_nb.spark.blobs.task import BlobTask, map_batches
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.storage_api("blobs")


@pytest.fixture
def media(spark: SparkSession, odps: Connection) -> DataFrame:
    return odps_nb.spark.read(spark, odps, "media", splits=2)


def _digest(record: Any) -> dict[str, Any]:
    import hashlib

    return {
        "digest": hashlib.sha256(record.data).hexdigest(),
        "size": len(record.data),
        "mime": record.mime_type,
    }


@pytest.mark.spark
def test_digests_equal_those_of_the_blobs_and_nulls_are_kept(
    odps: Connection, media: DataFrame
) -> None:
    mapped = odps_nb.spark.blob_map(
        media, odps, "content", _digest, "digest string, size bigint, mime string"
    )
    assert mapped.columns == [*media.columns, "digest", "size", "mime"]
    rows = mapped.collect()
    assert len(rows) == odps.table("media").read().row_count
    references = [row.content for row in rows if row.content is not None]
    assert len(references) < len(rows)
    records = iter(odps.blobs(references).fetch())
    for row in rows:
        if row.content is None:
            assert (row.digest, row.size, row.mime) == (None, None, None)
        else:
            record = next(records)
            assert row.digest == hashlib.sha256(record.data).hexdigest()
            assert (row.size, row.mime) == (len(record.data), record.mime_type)


@pytest.mark.spark
def test_errors_of_a_function_are_reported_without_java_frames(
    odps: Connection, media: DataFrame
) -> None:
    mapped = odps_nb.spark.blob_map(
        media, odps, "content", lambda record: {"sise": 1}, "size bigint"
    )
    with pytest.raises(Exception, match="'sise', which is not a column") as caught:
        mapped.limit(1).collect()
    assert isinstance(from_spark(caught.value), ConversionError)
    assert "java" not in str(caught.value).lower()


def _task(odps: Connection, fn: Callable[[Any], Any], added: pa.Schema) -> BlobTask:
    return BlobTask(
        profile=TaskProfile.of(odps._storage),
        column=0,
        name="content",
        fn=fn,
        added=added,
        whole=pa.schema([pa.field("content", pa.string()), *added]),
    )


def _some(odps: Connection, count: int = 3) -> pa.RecordBatch:
    references = odps.table("media").read(columns=["content"]).to_arrow().column("content")
    tokens = [token for token in references.to_pylist() if token is not None][:count]
    return pa.RecordBatch.from_pydict({"content": pa.array([*tokens, None], pa.string())})


TWO = pa.schema([("size", pa.int64()), ("head", pa.list_(pa.binary()))])


@pytest.mark.parametrize(
    ("fn", "filled"),
    [
        (lambda record: (len(record.data), [record.data[:1]]), (True, True)),
        (lambda record: {"size": len(record.data)}, (True, False)),
        (lambda record: None, (False, False)),
    ],
)
def test_a_function_may_return_a_tuple_a_dict_without_some_keys_or_none(
    odps: Connection, fn: Callable[[Any], Any], filled: tuple[bool, bool]
) -> None:
    batch = _some(odps)
    rows = [row for out in map_batches(_task(odps, fn, TWO), [batch]) for row in out.to_pylist()]
    assert [row["content"] for row in rows] == batch.column(0).to_pylist()
    assert {(row["size"] is not None, row["head"] is not None) for row in rows[:-1]} == {filled}
    assert (rows[-1]["size"], rows[-1]["head"]) == (None, None)


@pytest.mark.parametrize(
    ("fn", "told"),
    [
        (lambda record: {"sise": 1}, "'sise', which is not a column"),
        (lambda record: (1, 2), "tuple and length 2"),
        (lambda record: 1, "returned a value of type int"),
        (lambda record: {"size": "many"}, "function for 'size'"),
    ],
)
def test_results_that_do_not_fit_the_schema_are_reported(
    odps: Connection, fn: Callable[[Any], Any], told: str
) -> None:
    task = _task(odps, fn, pa.schema([("size", pa.int64())]))
    with pytest.raises(ConversionError, match=told) as caught:
        list(map_batches(task, [_some(odps)]))
    assert "blobs of column 'content'" in str(caught.value)


def test_results_are_sent_in_batches_of_limited_size(
    odps: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_tasks, "BYTES_PER_BATCH", 1000)
    task = _task(odps, lambda record: (b"x" * 600,), pa.schema([("copy", pa.binary())]))
    sizes = [out.num_rows for out in map_batches(task, [_some(odps, 5)])]
    assert sizes == [2, 2, 2]


@pytest.mark.spark
def test_columns_are_checked_before_a_task_runs(odps: Connection, media: DataFrame) -> None:
    for column, schema, told in (
        ("nope", "size bigint", "no column 'nope'"),
        ("content", "ID bigint", "already has a column 'ID'"),
    ):
        with pytest.raises(ArgumentError, match=told):
            odps_nb.spark.blob_map(media, odps, column, _digest, schema)
    with pytest.raises(ConversionError, match="does not hold blob references"):
        odps_nb.spark.blob_map(media, odps, "id", _digest, "size bigint")


@pytest.mark.spark
def test_without_a_connection_the_environment_is_used(
    odps: Connection, media: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="endpoint"):
        odps_nb.spark.blob_map(media, None, "content", _digest, "size bigint")
    for key, value in odps.profile.as_options().items():
        monkeypatch.setenv(f"ODPS_{key.upper()}", value)
    mapped = odps_nb.spark.blob_map(
        media.limit(1), None, "content", lambda record: {"size": len(record.data)}, "size bigint"
    )
    assert mapped.collect()[0].size > 0


@pytest.mark.nightly
@pytest.mark.spark
def test_many_blobs_are_fetched_in_requests_of_limited_size(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    name = new_name("many")
    odps.create_table(name, "id bigint, pic blob")
    frame = spark.range(0, 300, 1, 1).selectExpr("id", "cast(id as string) text")
    contents = frame.selectExpr("id", "cast(repeat(text, 100) as binary) pic")
    assert odps_nb.spark.write(contents, odps, name).blobs == 300
    rows = odps_nb.spark.blob_map(
        odps_nb.spark.read(spark, odps, name),
        odps,
        "pic",
        lambda record: {"copy": record.data},  # every blob of a response is in the right row
        "copy binary",
    ).collect()
    assert sorted((row.id, bytes(row.copy)) for row in rows) == [
        (n, str(n).encode() * 100) for n in range(300)
    ]
