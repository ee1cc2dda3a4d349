"""The public names, parameters and defaults do not change.

More may be added; what is listed here may not go, be renamed, or change its default. Each line
of the second half is one that a user writes, run against the embedded service.
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
from odps_nb import stream_io
from odps_nb.access.blob import Blob
from odps_nb.access.blobs.column import BlobColumn
from odps_nb.access.connection import Connection
from odps_nb.access.receipt import Receipt
from odps_nb.access.scan import Scan
from odps_nb.access.sql import Result
from odps_nb.access.table import Table
from odps_nb.access.writing.open_write import OpenWrite
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ArgumentError, NotFoundError

NEEDED = object()
NONE_OF = dict.fromkeys

SETTINGS = ["source", "root", "endpoint", "tunnel_endpoint", "project", "schema", "access_id"]
SETTINGS += ["access_key", "sts_token", "bearer_token", "region", "quota", "api_version"]
READ = ["columns", "where", "partitions", "limit", "splits", "split_bytes", "compression"]
READ += ["progress"]

# what, then how many parameters are given by place, then the parameters with their defaults
CONTRACT = [
    (
        odps_nb.connect,
        1,
        NONE_OF(
            [
                "source",
                "root",
                "endpoint",
                "tunnel_endpoint",
                "project",
                "schema",
                "access_id",
                "access_key",
                "sts_token",
                "bearer_token",
                "region",
                "quota",
                "api_version",
            ]
        ),
    ),
    (odps_nb.NewBlob, 1, {"data": NEEDED, "mime_type": None, "file_name": None}),
    (Connection.tables, 1, {"pattern": None}),
    (
        Connection.create_table,
        2,
        {"name": NEEDED, "columns": NEEDED, "partitioned_by": None, "if_not_exists": False},
    ),
    (Connection.drop_table, 1, {"name": NEEDED, "if_exists": False}),
    (Connection.table, 1, {"name": NEEDED}),
    (Connection.sql, 1, {"query": NEEDED}),
    (Connection.sql_cost, 1, {"query": NEEDED, "params": None, "settings": None}),
    (Connection.blob, 1, {"reference": NEEDED}),
    (Connection.blobs, 1, {"references": NEEDED, "compression": None, "progress": None}),
    (
        Connection.save_blobs,
        2,
        {"references": NEEDED, "folder": NEEDED, "file_name": None, "overwrite": False}
        | NONE_OF(["compression", "progress"]),
    ),
    (
        Connection.each_blob,
        2,
        {"references": NEEDED, "fn": NEEDED} | NONE_OF(["compression", "progress"]),
    ),
    (Connection.close, 0, {}),
    (
        odps_nb.torch.rows,
        1,
        {"source": NEEDED, "batch_size": None, "seed": 0, "shuffle": True, "even": False}
        | NONE_OF(["rank", "world_size"]),
    ),
    (
        odps_nb.torch.blobs,
        2,
        {"source": NEEDED, "column": None, "decode": None, "seed": 0, "shuffle": True}
        | NONE_OF(["rank", "world_size"]),
    ),
    (odps_nb.torch.loader, 1, {"dataset": NEEDED, "collate_fn": None}),
    (Table.partitions, 0, {}),
    (Table.head, 1, {"rows": 5, "partitions": None, "columns": None, "text": "strict"}),
    (
        Table.read,
        1,
        NONE_OF(
            [
                "columns",
                "where",
                "partitions",
                "limit",
                "splits",
                "split_bytes",
                "compression",
                "progress",
            ]
        )
        | {"text": "strict"},
    ),
    (
        Table.write,
        1,
        {"data": NEEDED, "partition": None, "overwrite": False}
        | NONE_OF(["workers", "compression", "progress"]),
    ),
    (Table.blobs, 1, {"column": None, "limit": None, "where": None, "partitions": None}),
    (Table.explore, 0, {"rows": 100, "seed": None}),
    (Scan.explore, 0, {"rows": 100, "seed": None}),
    (Result.explore, 0, {"rows": 100, "seed": None}),
    (
        Scan.to_pandas,
        0,
        {"progress": None, "decimals": "auto", "dtype_backend": None, "dtypes": None},
    ),
    (Scan.dataset, 0, {}),
    (Scan.scan_polars, 0, {}),
    (Scan.to_dask, 0, {"decimals": "exact", "dtype_backend": "pyarrow"}),
    (Scan.to_ray, 0, {}),
    (Table.dataset, 0, {}),
    (Table.scan_polars, 0, {}),
    (Scan.to_arrow, 0, {"progress": None}),
    (Scan.batches, 0, {"progress": None}),
    (Scan.to_spark, 1, {"spark": NEEDED}),
    (Result.to_pandas, 0, {"decimals": "auto", "dtype_backend": None, "dtypes": None}),
    (Result.to_arrow, 0, {}),
    (Result.cancel, 0, {}),
    (Blob.bytes, 0, {}),
    (Blob.open, 0, {}),
    (Blob.save, 1, {"path": NEEDED}),
    (
        odps_nb.spark.read,
        3,
        {"spark": NEEDED, "odps": NEEDED, "table": NEEDED}
        | NONE_OF(["columns", "partitions", "where", "limit"])
        | {"text": "strict"},
    ),
    (
        odps_nb.spark.write,
        3,
        {"df": NEEDED, "odps": NEEDED, "table": NEEDED, "partition": None, "overwrite": False},
    ),
    (odps_nb.spark.blob_map, 4, NONE_OF(["df", "ref_column", "fn", "schema"], NEEDED)),
    (
        odps_nb.spark.with_blobs,
        2,
        {"df": NEEDED, "ref_column": NEEDED, "column": "blob"},
    ),
    (
        odps_nb.spark.sql,
        3,
        {"spark": NEEDED, "odps": NEEDED, "query": NEEDED, "params": None, "limit": None},
    ),
    (
        odps_nb.spark.explain_sql,
        3,
        {"spark": NEEDED, "odps": NEEDED, "query": NEEDED, "params": None, "limit": None},
    ),
    (odps_nb.spark.session, 1, {"master": None}),
    (odps_nb.spark.register, 1, {"spark": NEEDED}),
    (odps_nb.spark.options, 1, {"odps": None}),
    (stream_io.StreamReader, 1, {"response_or_opener": NEEDED}),
    (stream_io.StreamWriter, 1, {"upload_or_opener": NEEDED}),
    (stream_io.BlobStreamWriter, 2, {"upload_or_opener": NEEDED, "compression": None}),
    (stream_io.CrcStrippingStream, 1, {"raw_stream": NEEDED}),
    (stream_io.BlobDataIterator, 1, {"raw_stream": NEEDED, "expected_count": NEEDED}),
    (stream_io.BlobStreamReader, 1, {"iterator": NEEDED}),
    (stream_io.ArrowReader, 1, {"stream_reader": NEEDED}),
    (
        stream_io.ArrowWriter,
        3,
        {"stream_writer": NEEDED, "schema": None, "compression": None},
    ),
]

# Words that parameters had, and what each of them is called now.
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

METHODS = {
    stream_io.StreamReader: "read readinto close get_status get_request_id status request_id",
    stream_io.StreamWriter: "write finish abort close get_status get_request_id get_route_token "
    "get_write_stream_response writable",
    stream_io.BlobStreamWriter: "write finish abort close get_status get_request_id",
    stream_io.CrcStrippingStream: "read readinto peek close",
    stream_io.BlobDataIterator: "__iter__ __next__ close",
    stream_io.BlobStreamReader: "read readinto next close mime_type custom_file_name",
    stream_io.ArrowReader: "read __iter__ schema close get_status get_request_id",
    stream_io.ArrowWriter: "write finish abort close get_status get_request_id "
    "get_write_stream_response",
    Scan: "splits row_count schema",
    Table: "name schema",
    Blob: "size mime_type file_name reference verified",
    Connection: "profile __enter__ __exit__",
}


def parameters_of(thing):
    found = inspect.signature(thing).parameters.values()
    return [one for one in found if one.name != "self"]


@pytest.mark.parametrize(
    ("thing", "by_place", "promised"), CONTRACT, ids=lambda x: getattr(x, "__qualname__", "")
)
def test_parameters_and_defaults_are_those_promised(thing, by_place, promised):
    found = {one.name: one for one in parameters_of(thing)}
    for name, default in promised.items():
        assert name in found
        assert found[name].default is (inspect.Parameter.empty if default is NEEDED else default)
    given = [one.name for one in found.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert given[:by_place] == list(promised)[:by_place]


@pytest.mark.parametrize(
    ("thing", "by_place", "promised"), CONTRACT, ids=lambda x: getattr(x, "__qualname__", "")
)
def test_what_was_added_is_never_needed(thing, by_place, promised):
    for one in parameters_of(thing):
        if one.name not in promised and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            assert one.default is not one.empty


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_methods_and_properties_are_there(kind):
    assert not [name for name in METHODS[kind].split() if not hasattr(kind, name)]


@pytest.mark.parametrize("kind", [k for k in METHODS if k.__module__.startswith("odps_nb._str")])
def test_each_stream_is_a_context_manager_whose_close_may_be_repeated(kind):
    assert hasattr(kind, "__enter__")
    assert hasattr(kind, "__exit__")


# -- every line as a user writes it -------------------------------------------------------------


@pytest.fixture
def made(odps, new_name):
    """A table of the user's own, and its name."""
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


def test_tables_are_listed_made_and_dropped(odps, made, new_name):
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
def test_one_thing_has_one_name(face):
    for name, signature in _signatures(face):
        for parameter in signature.parameters.values():
            assert parameter.name not in RETIRED, f"{name}: {RETIRED[parameter.name]}"
            if parameter.name == "text":  # a query is ``query``
                assert parameter.default in ("strict", "exact"), name  # of a read, of a write
            if parameter.name == "progress":
                assert parameter.annotation == "Progress", name
            if parameter.name == "overwrite" and name not in ("Blob.save", "Connection.save_blobs"):
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


def test_a_scan_gives_every_form_of_the_same_rows(odps):
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
def test_what_is_written_is_read_and_the_receipt_says_so(made, data):
    table, _ = made
    receipt = table.write(data, partition="ds=1", overwrite=True, workers=1, compression="lz4")
    assert isinstance(receipt, Receipt)
    assert receipt.rows == 2
    assert receipt.bytes > 0
    assert receipt.session_id
    assert table.read(["id", "note"]).to_arrow().to_pydict() == WRITTEN


def test_a_blob_column_takes_bytes_paths_files_and_new_blobs(odps, new_name, tmp_path: Path):
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
    records = list(odps.blobs([reference, reference], compression="zstd"))
    assert [(one.data, one.mime_type) for one in records] == [(b"\x89PNG", "image/png")] * 2
    assert hasattr(records[0], "file_name")
    paths = odps.save_blobs(
        table.read().to_pandas()["photo"], tmp_path, file_name=lambda n, head: "b"
    )
    assert [path.name for path in paths[:4]] == ["b", "b-2", "b-3", "b-4"]
    assert paths[4] is None
    assert odps.each_blob([reference, None], lambda blob: blob.read(), compression="lz4") == 1
    odps.drop_table(name)


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, 5])
def test_what_is_no_name_and_no_reference_is_one_typed_error(odps, value):
    with pytest.raises(ArgumentError, match="is not a table name"):
        odps.table(value)
    with pytest.raises(ArgumentError, match="not a blob reference"):
        odps.blob(value)
    with pytest.raises(ArgumentError, match="not a blob reference"):
        odps.blobs([value])


def test_sql_gives_a_result_that_can_be_cancelled(odps):
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
        media, "content", lambda blob: {"n": len(blob.data)}, "n long", odps=odps
    )
    assert sizes.count() == 4
    odps_nb.spark.register(spark)
    given = spark.read.format("odps").options(**odps_nb.spark.options(odps))
    assert given.option("table", name).load().count() == 13
