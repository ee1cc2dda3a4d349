"""A blob that fails in `blob_map`: the error names row, reference, file and request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
import odps_nb.spark
from odps_nb import ClientOptions
from odps_nb.errors import (
    ArgumentError,
    ConfigError,
    ConversionError,
    NotFoundError,
    ServerFaultError,
    SessionExpiredError,
)
from odps_nb.spark.blobs import task as blob_tasks
from odps_nb.spark.blobs.task import BlobTask, map_batches
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import from_spark
from tests.support.spark.watched import injected, misbehave

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.storage_api("blobs")

UNKNOWN = "bm8gc3VjaCBibG9i"


def _size(record: Any) -> dict[str, Any]:
    if record.data.startswith(b"bad"):
        raise ValueError(f"no use for {record.data!r}")
    return {"size": len(record.data) if record.data != b"misfit" else "many"}


@pytest.fixture(scope="module")
def references(odps: Connection) -> list[str]:
    """The references of six small blobs: two are invalid, one has a size that is not a number."""
    odps.create_table("failing", "id bigint, pic blob")
    contents = (b"first", b"bad one", b"misfit", b"fourth", b"bad two", b"sixth")
    blobs = [odps_nb.NewBlob(one, file_name=f"{one.decode()}.txt") for one in contents]
    odps.table("failing").write(pd.DataFrame({"id": range(6), "pic": blobs}), progress=False)
    rows = odps.table("failing").read(progress=False).to_arrow().sort_by("id")
    return rows.column("pic").to_pylist()


@pytest.fixture(scope="module", autouse=True)
def _tidy(odps: Connection) -> Any:
    yield
    odps.drop_table("failing", if_exists=True)


def _task(odps: Connection, **more: Any) -> BlobTask:
    added = pa.schema([("size", pa.int64())])
    last = [pa.field(more["error_column"], pa.string())] if "error_column" in more else []
    return BlobTask(
        profile=TaskProfile.of(odps._storage),
        column=0,
        name="pic",
        fn=_size,
        added=added,
        whole=pa.schema([pa.field("pic", pa.string()), *added, *last]),
        **more,
    )


def _run(task: BlobTask, *batches: list[str | None]) -> list[Any]:
    made = [pa.RecordBatch.from_pydict({"pic": pa.array(one, pa.string())}) for one in batches]
    return [row for out in map_batches(task, made) for row in out.to_pylist()]


def test_errors_become_text_and_the_other_rows_are_complete(
    odps: Connection, references: list[str]
) -> None:
    first, bad, misfit, fourth, bad_too, sixth = references
    asked: list[str | None] = [first, bad, None, UNKNOWN, misfit, fourth, UNKNOWN, bad_too, sixth]
    rows = _run(_task(odps, goes_on=True, error_column="error"), asked)
    assert [row["pic"] for row in rows] == asked
    sizes = [5, None, None, None, None, 6, None, None, 5]
    assert [row["size"] for row in rows] == sizes
    texts = [row["error"] for row in rows]
    assert [texts[0], texts[2], texts[5], texts[8]] == [None] * 4
    assert texts[1].startswith("ValueError: no use for b'bad one' · file 'bad one.txt' · request")
    assert texts[7].startswith("ValueError: no use for b'bad two' · file 'bad two.txt' · request")
    assert texts[3] == texts[6]
    unknown = f"NotFoundError: the service does not know the blob reference {UNKNOWN!r}"
    assert texts[3].startswith(unknown)
    assert "request id" in texts[3]
    assert texts[4].startswith(
        "ConversionError: the values returned by the function for 'size' do not fit"
    )
    assert "file 'misfit.txt'" in texts[4]


def test_failed_rows_are_null_without_an_error_column(
    odps: Connection, references: list[str]
) -> None:
    rows = _run(_task(odps, goes_on=True), [*references, UNKNOWN, "N/A", references[0], "N/A"])
    assert [row["size"] for row in rows] == [5, None, None, 6, None, 5, None, None, 5, None]


def test_a_failure_ends_the_task_and_names_its_row(odps: Connection, references: list[str]) -> None:
    with pytest.raises(NotFoundError, match=UNKNOWN) as unknown:
        _run(_task(odps), references[:1], [references[3], None, UNKNOWN, references[5]])
    assert f"row 3 · reference '{UNKNOWN}'" in str(unknown.value)
    assert "request id" in str(unknown.value)
    with pytest.raises(ArgumentError, match="'N/A' is not a blob reference") as refused:
        _run(_task(odps), [references[0], "N/A"])
    assert "row 1 · reference 'N/A'" in str(refused.value)
    with pytest.raises(ValueError, match="no use for b'bad one'") as useless:
        _run(_task(odps), references)
    [note] = useless.value.__notes__
    assert f"row 1 · reference '{references[1]}' · file 'bad one.txt' · request id" in note


def test_unknown_blobs_cause_at_most_one_more_request_for_the_others(
    odps: Connection, references: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    opened = odps._storage.__class__.open

    def counting(self: Any, request: Any, **more: Any) -> Any:
        sent.append(len(set(request.references)))
        return opened(self, request, **more)

    monkeypatch.setattr(odps._storage.__class__, "open", counting)
    monkeypatch.setattr(blob_tasks, "REFERENCES_PER_REQUEST", 64)
    good = [references[0], references[3], references[5]]
    rows = _run(_task(odps, goes_on=True), [UNKNOWN, UNKNOWN + "0A==", *good])
    assert [row["size"] for row in rows] == [None, None, 5, 6, 5]
    assert len(sent) <= 2 * 5


@pytest.mark.nightly
def test_retries_are_bounded_and_a_service_that_fails_ends_the_task(
    slow: Connection, request: pytest.FixtureRequest
) -> None:
    slow.create_table("retried", "pic blob")
    request.addfinalizer(lambda: (misbehave(slow), slow.drop_table("retried")))
    slow.table("retried").write(pa.table({"pic": [b"one", b"two"]}), progress=False)
    tokens = slow.table("retried").read(progress=False).to_arrow().column("pic").to_pylist()
    misbehave(slow, {"action": "BlobRead", "fault": "status", "status": 503, "times": 0})
    patient = odps_nb.connect(slow.profile, client_options=ClientOptions(retries=2))
    with pytest.raises(ServerFaultError, match="waiting for row 0 · reference"):
        _run(_task(patient, goes_on=True), tokens)
    assert sum(injected(slow)) == 3
    misbehave(slow, {"action": "BlobRead", "fault": "status", "status": 503, "times": 2})
    assert [row["size"] for row in _run(_task(patient), tokens)] == [3, 3]
    patient.close()


def test_failed_rows_are_reported_immediately(odps: Connection, references: list[str]) -> None:
    with odps_nb.client.calls.progress.ProgressTracker("blobs", "of pic") as tracker:
        task = _task(odps, goes_on=True)
        results = blob_tasks._Results(task, tracker)
        results.add(blob_tasks.Made(error=ValueError("why not")))
        assert "why not" in tracker.snapshot().events[-1]


# -- through Spark ------------------------------------------------------------------------------


@pytest.fixture
def failing(spark: SparkSession, odps: Connection, references: list[str]) -> DataFrame:
    return odps_nb.spark.read(spark, odps, "failing", splits=2)


def _pythons(frame: DataFrame) -> int:
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return plan.count("MapInArrow")


@pytest.mark.nightly
@pytest.mark.spark
def test_errors_of_rows_fill_a_column_and_one_worker_reads_and_computes(
    odps: Connection, failing: DataFrame
) -> None:
    made = odps_nb.spark.blob_map(failing, odps, "pic", _size, "size long", on_error="why")
    assert made.columns == ["id", "pic", "size", "why"]
    assert _pythons(made) == 1
    rows = sorted(made.collect())
    assert [row.size for row in rows] == [5, None, None, 6, None, 5]
    assert [(row.why or "").partition(":")[0] for row in rows] == [
        *("", "ValueError", "ConversionError", "", "ValueError", "")
    ]
    again = odps_nb.spark.blob_map(
        made, odps, "pic", lambda blob: {"name": blob.file_name}, "name string"
    )
    assert _pythons(again) == 1
    rows = sorted(again.collect())
    assert [(row.size, row.name) for row in rows[:2]] == [(5, "first.txt"), (None, "bad one.txt")]


@pytest.mark.spark
def test_after_an_intermediate_spark_step_the_next_function_runs_in_a_separate_worker(
    odps: Connection, failing: DataFrame
) -> None:
    def sizes(frame: DataFrame) -> DataFrame:
        return odps_nb.spark.blob_map(
            frame, odps, "pic", lambda blob: {"size": len(blob.data)}, "size long"
        )

    assert _pythons(sizes(failing.filter("id > 2"))) == 2
    cached = failing.cache()
    try:
        assert [row.size for row in sizes(cached).filter("id = 0").collect()] == [5]
        assert failing.is_cached
        assert "InMemory" in sizes(cached)._jdf.queryExecution().executedPlan().toString()
    finally:
        cached.unpersist()


@pytest.mark.spark
def test_an_error_of_a_task_names_its_row(
    spark: SparkSession, odps: Connection, references: list[str]
) -> None:
    failing = odps_nb.spark.read(spark, odps, "failing", splits=1)
    made = odps_nb.spark.blob_map(failing, odps, "pic", _size, "size long")
    with pytest.raises(Exception, match="no use for b'bad one'") as caught:
        made.collect()
    named = f"row 1 of partition 0 · reference '{references[1]}' · file 'bad one.txt' · request id"
    assert named in str(caught.value)
    unknown = failing.selectExpr(f"'{UNKNOWN}' as pic").limit(1)
    made = odps_nb.spark.with_blobs(unknown, odps, "pic", on_error="null")
    assert [row.blob for row in made.collect()] == [None]
    made = odps_nb.spark.with_blobs(unknown, odps, "pic")
    with pytest.raises(Exception, match="does not know the blob") as caught:
        made.collect()
    assert isinstance(from_spark(caught.value), NotFoundError)
    assert f"row 0 of partition 0 · reference '{UNKNOWN}'" in str(caught.value)


@pytest.mark.nightly
@pytest.mark.spark
def test_an_error_of_the_read_is_reported_once(
    spark: SparkSession, slow: Connection, request: pytest.FixtureRequest
) -> None:
    slow.create_table("broken", "id bigint, pic blob")
    request.addfinalizer(lambda: (misbehave(slow), slow.drop_table("broken")))
    slow.table("broken").write(pa.table({"id": [1], "pic": [b"x"]}), progress=False)
    frame = odps_nb.spark.read(spark, slow, "broken")
    made = odps_nb.spark.blob_map(frame, slow, "pic", _size, "size long")
    misbehave(slow, {"action": "TableRead", "fault": "expire", "times": 0})
    with pytest.raises(Exception, match="read the table again") as caught:
        made.collect()
    error = from_spark(caught.value)
    assert isinstance(error, SessionExpiredError)
    assert error.hint is not None
    assert error.hint.startswith("read the table again")
    assert "blobs of column" not in str(caught.value)


@pytest.mark.spark
def test_arguments_are_checked_before_a_task_runs(odps: Connection, failing: DataFrame) -> None:
    for argument, values in {
        "on_error": ("", None, "ID", "size"),
        "schema": ("int", None, ["size"], {"size": "long"}, pa.schema([]), "size int, SIZE long"),
    }.items():
        for value in values:
            more: dict[str, Any] = {"schema": "size long", argument: value}
            with pytest.raises(ArgumentError) as caught:
                odps_nb.spark.blob_map(failing, odps, "pic", _size, **more)
            assert caught.value.argument == argument, value
    with pytest.raises(ConversionError, match="'age': Spark cannot send interval year"):
        odps_nb.spark.blob_map(failing, odps, "pic", _size, "age interval year")


@pytest.mark.spark
def test_the_example_of_the_readme_needs_no_environment(
    spark: SparkSession, odps: Connection, repo: Path
) -> None:
    readme = (repo / "README.md").read_text("utf-8")
    example = readme[readme.index("media = odps_nb.spark.read(") :].partition("```")[0]
    names: dict[str, Any] = {"odps_nb": odps_nb, "spark": spark, "odps": odps}
    exec(example, names)
    assert names["sizes"].first().bytes > 0
    with pytest.raises(ConfigError, match="no connection was passed") as caught:
        odps_nb.spark.blob_map(names["media"], None, "content", _size, "bytes long")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("pass the connection")
