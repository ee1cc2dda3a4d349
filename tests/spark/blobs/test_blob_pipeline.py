"""From a table of files to a table of results: new and copied blobs."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import types

import odps_nb
import odps_nb.spark
from odps_nb.access.writing.sources import Target
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import ConversionError
from odps_nb.schema import Column, TableSchema
from odps_nb.spark.blobs import task as blob_tasks
from odps_nb.spark.blobs.task import BlobTask, map_batches
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.writing.checks import check_frame
from odps_nb.spark.writing.dataframe import write_target
from odps_nb.spark.writing.task import WriteTask, write_partition
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.storage_api("blobs")

Names = Callable[[str], str]
MIB = 1 << 20
COLUMNS = "id bigint, name string, width int, original blob, thumbnail blob, `text` blob"
SCHEMA = f"width int, thumbnail {odps_nb.spark.NEW_BLOB}, `text` {odps_nb.spark.NEW_BLOB}"


_PIC = types.StructType().add("pic", types.BinaryType())


@pytest.mark.parametrize(
    ("column", "given", "told"),
    [
        ("array<blob>", types.BinaryType(), "the nesting differs"),
        ("blob", types.ArrayType(types.BinaryType()), "the type cannot describe a blob"),
        ("map<string,blob>", types.ArrayType(types.BinaryType()), "the nesting differs"),
        ("struct<pic:blob>", _PIC.add("x", types.LongType()), "the STRUCT has no member 'x'"),
        ("struct<pic:blob>", types.StructType().add("pic", "long"), "cannot describe a blob"),
        ("blob", types.StructType().add("data", "string"), "cannot describe a blob"),
    ],
)
def test_types_that_describe_no_blob_are_refused(
    column: str, given: types.DataType, told: str
) -> None:
    schema = TableSchema(columns=(Column(name="b", type=parse_type(column)),))
    target = Target.of(schema, TableName(project="p", table="t"), PartitionSpec())
    with pytest.raises(ConversionError, match=told) as caught:
        check_frame(types.StructType().add("b", given), target)
    assert "content (binary)" in str(caught.value.hint)


def _look(record: Any) -> dict[str, Any]:
    """Return the tests' pipeline result for a file: a thumbnail, or its text in upper case."""
    import io

    from PIL import Image

    import odps_nb

    kind, name = record.mime_type or "", record.file_name
    if kind.startswith("text/plain"):
        return {"text": odps_nb.NewBlob(record.data.upper(), "text/plain", f"{name}.up.txt")}
    if kind not in ("image/png", "image/jpeg", "image/webp"):
        return {}
    picture = Image.open(io.BytesIO(record.data), formats=("PNG", "JPEG", "WEBP"))
    width = picture.width
    picture = picture.convert("RGB")
    picture.thumbnail((64, 64))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return {"width": width, "thumbnail": odps_nb.NewBlob(out.getvalue(), file_name=f"{name}.png")}


@pytest.fixture
def files(spark: SparkSession, odps: Connection) -> DataFrame:
    """Pictures and texts in the sample table, in two tasks."""
    media = odps_nb.spark.read(spark, odps, "media", splits=2)
    known = "name in ('mountains.jpg', 'mandelbrot.png', 'julia.webp', 'prism.png')"
    return media.filter(f"{known} or declared = 'text/plain' or content is null")


def _check(odps: Connection, name: str, files: DataFrame) -> None:
    from PIL import Image

    made = {row["id"]: row for row in odps.table(name).read().to_arrow().to_pylist()}
    sources = {row.id: row for row in files.collect()}
    assert made.keys() == sources.keys()
    assert odps.table(name).read().row_count == len(sources)
    pictures = texts = 0
    for number, row in made.items():
        if sources[number].content is None:
            assert (row["original"], row["thumbnail"], row["text"]) == (None, None, None)
            continue
        source, copy = odps.blob(sources[number].content), odps.blob(row["original"])
        assert copy.bytes() == source.bytes()
        assert (copy.mime_type, copy.file_name) == (source.mime_type, source.file_name)
        if row["thumbnail"] is not None:
            pictures += 1
            thumbnail = odps.blob(row["thumbnail"])
            picture = Image.open(io.BytesIO(thumbnail.bytes()))
            assert max(picture.size) == 64 < row["width"]
            assert thumbnail.size == len(thumbnail.bytes()) < source.size
            assert (thumbnail.mime_type, thumbnail.file_name) == (
                "image/png",
                f"{source.file_name}.png",
            )
        if row["text"] is not None:
            texts += 1
            text = odps.blob(row["text"])
            assert text.bytes() == source.bytes().upper()
            assert (text.mime_type, text.file_name) == (
                "text/plain",
                f"{source.file_name}.up.txt",
            )
    assert (pictures, texts) == (4, 4)


def _pipeline(files: DataFrame, odps: Connection) -> DataFrame:
    made = odps_nb.spark.blob_map(files, odps, "content", _look, SCHEMA)
    return made.withColumnRenamed("content", "original").drop("declared")


@pytest.mark.nightly
@pytest.mark.spark
def test_thumbnails_and_texts_are_stored_with_copies_of_the_originals(
    odps: Connection, files: DataFrame, new_name: Names
) -> None:
    name = new_name("made")
    odps.create_table(name, COLUMNS)
    receipt = odps_nb.spark.write(_pipeline(files, odps), odps, name)
    assert (receipt.rows, receipt.blobs) == (9, 16)
    assert receipt.blob_bytes > 100_000
    _check(odps, name, files)


@pytest.mark.spark
def test_a_task_that_fails_while_fetching_blobs_stores_no_row_twice(
    odps: Connection, files: DataFrame, new_name: Names, tmp_path: Path
) -> None:
    name, marks = new_name("made"), str(tmp_path)
    odps.create_table(name, COLUMNS)

    def look(record: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and record.file_name == "julia.webp":
            (Path(marks) / str(context.partitionId())).touch()
            raise RuntimeError("this attempt is lost")
        return _look(record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blob_tasks, "ROWS_PER_BATCH", 1)  # earlier rows have reached the writer
        made = odps_nb.spark.blob_map(files, odps, "content", look, SCHEMA)
        made = made.withColumnRenamed("content", "original").drop("declared")
        receipt = odps_nb.spark.write(made, odps, name)
    assert len(list(tmp_path.iterdir())) == 1
    assert (receipt.rows, receipt.blobs) == (9, 16)
    _check(odps, name, files)


@pytest.mark.nightly
@pytest.mark.spark
def test_new_blobs_are_stored_in_the_partitions_of_their_rows(
    odps: Connection, files: DataFrame, new_name: Names
) -> None:
    name = new_name("by_kind")
    odps.create_table(name, "id bigint, thumbnail blob", partitioned_by="kind string")
    made = _pipeline(files, odps).filter("thumbnail is not null")
    frame = made.selectExpr("id", "thumbnail", "substring_index(name, '.', -1) kind")
    assert odps_nb.spark.write(frame, odps, name).blobs == 4
    for kind, count in (("jpg", 1), ("png", 2), ("webp", 1)):
        rows = odps.table(name).read(partitions=f"kind={kind}").to_arrow().to_pylist()
        assert len(rows) == count
        for row in rows:
            assert odps.blob(row["thumbnail"]).bytes().startswith(b"\x89PNG")


# -- large ones ---------------------------------------------------------------------------------

LARGE = 100 * MIB


@pytest.mark.spark
@pytest.mark.nightly  # large
def test_a_blob_of_100_mb_passes_through_a_pipeline(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    first, second = new_name("large"), new_name("large")
    for name in (first, second):
        odps.create_table(name, "id bigint, content blob")
    content = b"0123456789abcdef" * (LARGE // 16)
    odps.table(first).write(pd.DataFrame({"id": [0], "content": [content]}))
    rows = odps_nb.spark.read(spark, odps, first)

    def double(record: Any) -> Any:
        return {"copy": record.data.upper(), "size": len(record.data)}

    made = odps_nb.spark.blob_map(rows, odps, "content", double, "copy binary, size bigint")
    receipt = odps_nb.spark.write(made.selectExpr("id", "copy content"), odps, second)
    assert receipt.blob_bytes == LARGE
    (token,) = odps.table(second).read().to_arrow().column("content").to_pylist()
    digest = hashlib.sha256()
    with odps.blob(token).open() as file:
        while piece := file.read(MIB):
            digest.update(piece)
    assert digest.digest() == hashlib.sha256(content.upper()).digest()


def _needed(odps: Connection, job: dict[str, Any]) -> int:
    """Run a job as a Spark worker would, in a separate process; return the bytes it needed."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.spark.blobs.test_blob_pipeline"],
        cwd=Path(__file__).parents[3],
        input=json.dumps({"profile": odps.profile.as_options(), **job}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(child.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.nightly  # large
def test_the_memory_of_a_task_for_large_blobs_is_bounded(odps: Connection, new_name: Names) -> None:
    name = new_name("held")
    table = odps.create_table(name, "id bigint, content blob")
    table.write(pd.DataFrame({"id": [0], "content": [b"small"]}))
    table.write(pd.DataFrame({"id": [1], "content": [bytes(LARGE)]}))
    seven = [(b"%d" % n) * (7 * MIB) for n in range(2)]
    table.write(pd.DataFrame({"id": range(2, 42), "content": [*seven * 20]}))
    rows = {row["id"]: row["content"] for row in table.read().to_arrow().to_pylist()}
    job = {"table": name, "warm": rows[0]}
    # one large blob: its bytes, the array for Spark, and pieces in transfer
    assert _needed(odps, {**job, "work": "digest", "tokens": [rows[1]]}) < 2.5 * LARGE
    assert _needed(odps, {**job, "work": "copy", "tokens": [rows[1]]}) < 32 * MIB
    # 40 blobs of 7 MiB each: only those buffered, kept or in transfer (four) are in memory
    many = [rows[n] for n in range(2, 42)]
    assert _needed(odps, {**job, "work": "copy", "tokens": many}) < 100 * MIB
    assert _needed(odps, {**job, "work": "digest", "tokens": many}) < 160 * MIB


# -- the child ----------------------------------------------------------------------------------


def _work(job: dict[str, Any], tokens: list[str]) -> None:
    """Map blobs to their digests, or copy them by reference into a write session."""
    batch = pa.RecordBatch.from_pydict(
        {"id": pa.array(range(len(tokens))), "content": pa.array(tokens)}
    )
    with odps_nb.connect(**job["profile"]) as odps:
        profile = TaskProfile.of(odps._storage)
        if job["work"] == "copy":
            target, _ = write_target(
                odps._storage, odps.profile.table(job["table"]), None, overwrite=False
            )
            with open_write_session(odps._storage, target.table) as session:
                task = WriteTask(profile=profile, session=session.ref, target=target)
                assert write_partition(task, [batch], "0") is not None
            return
        added = pa.schema([("digest", pa.binary())])
        blobs = BlobTask(
            profile=profile,
            column=1,
            name="content",
            fn=lambda record: {"digest": hashlib.sha256(record.data).digest()},
            added=added,
            whole=pa.schema([*batch.schema, *added]),
        )
        for out in map_batches(blobs, [batch]):
            assert out.num_rows == len(tokens)


def main() -> None:
    """Print by how much a job raises the peak memory of a process that has run a small one."""
    from tests.test_memory import resident_peak

    job = json.load(sys.stdin)
    _work(job, [job["warm"]])
    before = resident_peak()
    _work(job, job["tokens"])
    print(resident_peak() - before)


if __name__ == "__main__":
    main()
