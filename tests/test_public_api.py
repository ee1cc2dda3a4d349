"""The public API: its snapshot, the types that it names, and lines as a user writes them.

The snapshot changes only on purpose; names become stable with version 1.0. The second half runs
lines as a user writes them against the embedded service.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
import odps_nb.spark
import odps_nb.torch
from odps_nb.access.blob import Blob
from odps_nb.access.blobs.column import BlobColumn
from odps_nb.access.connection import Connection
from odps_nb.access.displayed import Displayed
from odps_nb.access.receipt import Receipt
from odps_nb.access.scan import Scan
from odps_nb.access.sql import Result
from odps_nb.access.table import Table
from odps_nb.access.writing.open_write import OpenWrite
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ArgumentError, NotFoundError
from tests.support.signatures import (
    PUBLIC,
    TYPES,
    callables,
    exported,
    public_classes,
    snapshot,
    types_of,
)

SNAPSHOT = Path(__file__).with_name("public_api.txt")
NEED_TORCH = {"Loader", "RowDataset"}  # in odps_nb.types, but this environment has no torch

# Former names of parameters, and their current names.
RETIRED = {
    "side_by_side": "workers",
    "streams": "workers",
    "lanes": "workers",
    "parallel": "workers",
    "max_workers": "workers",
    "custom_file_name": "file_name",
    "filename": "file_name",
    "mode": "overwrite",
    "overwrite_scope": "overwrite",
}
FACES = [Connection, Table, Scan, Result, Blob, BlobColumn, odps_nb.Receipt, odps_nb.NewBlob]
FACES += [odps_nb.connect, odps_nb.spark.read, odps_nb.spark.write, odps_nb.spark.sql]
FACES += [odps_nb.spark.explain_sql, odps_nb.spark.blob_map, odps_nb.spark.with_blobs]


def test_the_public_api_equals_the_snapshot():
    """After an intended change: ``python -m tests.support.signatures > tests/public_api.txt``."""
    assert snapshot() == SNAPSHOT.read_text("utf-8").splitlines()


def test_every_type_of_a_public_signature_can_be_imported():
    public = {name.rpartition(".")[2] for name in exported(*PUBLIC, TYPES)} | NEED_TORCH
    named = {
        (where, one)
        for name, thing in exported(*PUBLIC).items()
        for where, function in callables(name, thing)
        for one in types_of(function)
    }
    assert len({one for _, one in named}) > 50
    assert [f"{where} names {one}" for where, one in sorted(named) if one not in public] == []


# -- lines of user code -------------------------------------------------------------------------


@pytest.fixture
def made(odps, new_name):
    """A table that belongs to the test, and its name."""
    name = new_name("api")
    yield (
        odps.create_table(
            name,
            "id bigint, amount decimal(18,2), note string",
            partitioned_by="ds string",
            if_not_exists=False,
        ),
        name,
    )
    odps.drop_table(name, if_exists=True)


def test_a_profile_has_its_settings_as_attributes(odps, service):
    profile = odps.profile
    assert isinstance(profile, Profile)
    assert (profile.endpoint, profile.tunnel_endpoint, profile.project) == (
        service.endpoint,
        service.tunnel_endpoint,
        service.project,
    )
    assert (profile.schema, profile.access_id) == (None, service.access_id)
    assert profile.access_key == service.access_key
    assert service.access_key not in repr(profile)


def test_tables_are_listed_created_and_dropped(odps, made, new_name):
    table, name = made
    assert odps.tables("ord*") == ["orders"]
    assert name in odps.tables()
    assert table == odps.table(name)
    again = odps.create_table(name, "other bigint", if_not_exists=True)
    assert again.schema.names == ("id", "amount", "note", "ds")
    other = new_name("arrow")
    odps.create_table(other, pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))]))
    assert odps.table(other).schema.names == ("a", "b")
    odps.drop_table(other)
    odps.drop_table(other, if_exists=True)
    with pytest.raises(NotFoundError):
        odps.drop_table(other)


def _signatures(face: object) -> list[tuple[str, inspect.Signature]]:
    if not inspect.isclass(face):
        return [(face.__name__, inspect.signature(face))]  # type: ignore[attr-defined]
    members = inspect.getmembers(face, inspect.isfunction)
    return [
        (f"{face.__name__}.{name}", inspect.signature(one))
        for name, one in members
        if not name.startswith("_") and not (face is OpenWrite and name == "commit")
    ]


@pytest.mark.parametrize("face", [*FACES, OpenWrite], ids=lambda face: face.__name__)
def test_retired_parameter_names_are_not_used(face):
    for name, signature in _signatures(face):
        for parameter in signature.parameters.values():
            assert parameter.name not in RETIRED, f"{name}: {RETIRED[parameter.name]}"
            if parameter.name == "text":  # a query is ``query``
                assert parameter.default in ("strict", "exact"), (
                    name
                )  # names of read and write options
            if parameter.name == "progress":
                assert parameter.annotation == "Progress", name
            if parameter.name == "overwrite" and name not in ("Blob.save", "BlobColumn.save"):
                assert parameter.annotation == "Overwrite", name


def test_a_table_shows_its_schema_partitions_and_size(odps):
    orders = odps.table("orders")
    shown = orders._repr_mimebundle_()["text/plain"]
    assert "8 partitions" in shown
    assert "rows" in shown
    assert "B" in shown.splitlines()[1]
    assert "amount" in shown
    assert "decimal(18,2)" in shown
    assert orders.schema.names[0] == "id"
    assert str(orders.partitions()[0]) == "ds=2024-01-01"
    assert orders.head(5, partitions="ds=2024-01-01", columns=["id"]).shape == (5, 1)


def test_a_scan_returns_the_same_rows_in_every_form(odps):
    orders = odps.table("orders")
    scan = orders.read(
        columns=["id", "amount"],
        where="id < 1000100",
        partitions=["ds=2024-01-01", "ds=2024-01-02"],
        limit=50,
        splits=2,
        split_bytes=None,
        compression="zstd",
    )
    table = scan.to_arrow()
    assert table.num_rows == 50
    assert scan.splits
    assert sum(batch.num_rows for batch in scan.batches()) == 50
    assert scan.to_pandas()["id"].tolist() == table.column("id").to_pylist()
    assert orders.read(partitions="ds=2024-01-01").row_count > 200_000


WRITTEN = {"id": [1, 2], "note": ["a", None]}


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame(WRITTEN),
        pa.table(WRITTEN),
        pa.RecordBatch.from_pydict(WRITTEN),
        pa.table(WRITTEN).to_reader(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_written_rows_are_read_and_counted_in_the_receipt(made, data):
    table, _ = made
    receipt = table.write(data, partition="ds=1", overwrite=True, workers=1, compression="lz4")
    assert isinstance(receipt, Receipt)
    assert receipt.rows == 2
    assert receipt.bytes > 0
    assert receipt.session_id
    assert table.read(["id", "note"]).to_arrow().to_pydict() == WRITTEN


def test_a_blob_column_accepts_bytes_paths_files_and_new_blobs(odps, new_name, tmp_path: Path):
    path = tmp_path / "one.txt"
    path.write_bytes(b"from a path")
    name = new_name("blobs")
    table = odps.create_table(name, "id bigint, photo blob")
    with path.open("rb") as file:
        table.write(
            pd.DataFrame(
                {
                    "id": np.arange(5),
                    "photo": [
                        b"bytes",
                        path,
                        file,
                        odps_nb.NewBlob(b"\x89PNG", mime_type="image/png", file_name="a.png"),
                        None,
                    ],
                }
            )
        )
    shown = table.blobs("photo", limit=24, where=None, partitions=None)
    assert isinstance(shown, BlobColumn)
    assert [one.bytes() for one in shown] == [b"bytes", b"from a path", b"from a path", b"\x89PNG"]
    reference = table.read().to_pandas()["photo"][3]
    blob = odps.blob(reference)
    assert isinstance(blob, Blob)
    assert (blob.size, blob.mime_type) == (4, "image/png")
    with blob.open() as stream:
        assert stream.read() == b"\x89PNG"
    assert blob.save(tmp_path / "saved.png").read_bytes() == b"\x89PNG"
    records = list(odps.blobs([reference, reference]).fetch(compression="zstd"))
    assert [(one.data, one.mime_type) for one in records] == [(b"\x89PNG", "image/png")] * 2
    assert hasattr(records[0], "file_name")
    photos = table.read().to_pandas()["photo"]
    paths = odps.blobs(photos).save(tmp_path, file_name=lambda n, head: "b")
    assert [path.name for path in paths] == ["b", "b-2", "b-3", "b-4"]
    assert photos.odps.save(tmp_path)[4] is None
    (blob,) = odps.blobs([reference, None]).stream(compression="lz4")
    assert blob.positions == (0,)
    odps.drop_table(name)


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, 5])
def test_invalid_names_and_references_raise_typed_errors(odps, value):
    with pytest.raises(ArgumentError, match="is not a table name"):
        odps.table(value)
    with pytest.raises(ArgumentError, match="not a blob reference"):
        odps.blob(value)
    if isinstance(value, int):
        for wrong in ([value], value):
            with pytest.raises(ArgumentError, match="blob reference"):
                odps.blobs(wrong)
    else:
        assert len(odps.blobs([value])) == 0  # a null has no blob


def test_sql_returns_a_result_that_can_be_cancelled(odps):
    result = odps.sql("select ds, count(*) as n from orders group by ds order by ds")
    assert len(result.to_pandas()) == 8
    result.cancel()


def test_the_embedded_service_keeps_its_folder(tmp_path: Path):
    with odps_nb.connect("local", root=tmp_path / "kept") as odps:
        odps.create_table("mine", "id bigint").write(pd.DataFrame({"id": [7]}))
    with odps_nb.connect("local", root=tmp_path / "kept") as odps:
        assert odps.table("mine").read().to_pandas()["id"].tolist() == [7]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_spark_reads_writes_and_works_on_blobs(odps, made, spark_session):
    table, name = made
    spark = odps_nb.spark.session(
        master="local[1]", **{"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2}
    )
    assert spark is spark_session
    orders = odps.table("orders").read(["id"], partitions="ds=2024-01-01", limit=10)
    frame = orders.to_spark(spark)
    assert frame.count() == 10
    assert odps_nb.spark.write(frame, odps, name, partition="ds=1", overwrite=False).rows == 10
    read = odps_nb.spark.read(
        spark, odps, name, columns=["id"], partitions=["ds=1"], where="id > 0", limit=3
    )
    assert read.count() == 3
    assert table.write(read, partition="ds=2").rows == 3
    media = odps_nb.spark.read(spark, odps, "media", columns=["id", "content"], limit=4)
    sizes = odps_nb.spark.blob_map(
        media, odps, "content", lambda blob: {"n": len(blob.data)}, "n long"
    )
    assert sizes.count() == 4
    odps_nb.spark.register(spark)
    given = spark.read.format("odps").options(**odps_nb.spark.options(odps))
    assert given.option("table", name).load().count() == 13


def test_a_public_class_with_one_display_method_has_all_of_them() -> None:
    """Every host, whichever method it calls, shows the page instead of the repr."""
    methods = {"_ipython_display_", "_repr_mimebundle_", "_repr_html_", "_repr_markdown_"}
    shown = {one.__name__ for one in public_classes() if methods & set(dir(one))}
    assert shown == {one.__name__ for one in public_classes() if issubclass(one, Displayed)}
    assert {"Blob", "BlobColumn", "Chart", "Explorer", "Queries", "Result"} <= shown
    assert {"Scan", "Table"} <= shown
