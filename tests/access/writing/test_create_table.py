"""`Connection.create_table` creates tables with keys, properties, comments, buckets and BLOBs."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import ArgumentError, OdpsNbError
from odps_nb.wire.control import GetTable
from tests.support.named import NewName


def properties(odps: Connection, name: str) -> dict[str, str]:
    request = GetTable(table=odps.table(name).name, extended=True)
    return dict(odps._storage.control(request).properties)


def test_a_created_table_has_its_key_and_properties(odps: Connection, new_name: NewName) -> None:
    name = new_name("asked")
    columns = pa.schema([("id", pa.int64()), ("v", pa.string()), ("ds", pa.string())])
    table = odps.create_table(
        name,
        columns,
        partitioned_by="ds",
        primary_key=["ID"],
        properties={"acid.cdc.mode.enable": True, "acid.data.retain.hours": 12},
        comment="it's a\nkey",
        lifecycle=7,
        buckets=4,
    )
    assert (table.info.comment, table.info.lifecycle) == ("it's a\nkey", 7)
    assert [column.nullable for column in table.schema.columns] == [False, True]
    found = properties(odps, name)
    expected = {
        "transactional": "true",
        "write.bucket.num": "4",
        "acid.cdc.mode.enable": "true",
        "acid.data.retain.hours": "12",
    }
    assert expected.items() <= found.items()
    for value in ("old", "new"):
        table.write(pd.DataFrame({"id": [1], "v": [value]}), partition="ds=x")
    assert table.read(["v"]).to_arrow()["v"].to_pylist() == ["new"]


def test_a_clustered_table_keeps_all_rows(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("hash"), "id bigint", cluster_by="id", buckets=3)
    table.write(pd.DataFrame({"id": range(10)}))
    assert sorted(table.read().to_arrow()["id"].to_pylist()) == list(range(10))


@pytest.mark.storage_api("blobs")
def test_a_blob_column_and_a_primary_key_get_the_properties_of_both(
    odps: Connection, new_name: NewName
) -> None:
    name = new_name("both")
    table = odps.create_table(name, "id bigint, photo blob", primary_key="id")
    assert {"transactional": "true", "table.format.version": "2"}.items() <= properties(
        odps, name
    ).items()
    table.write(pd.DataFrame({"id": [1], "photo": [b"picture"]}))
    assert [one.bytes() for one in table.blobs("photo")] == [b"picture"]


@pytest.mark.parametrize(
    "options",
    [
        {"primary_key": "idd"},
        {"primary_key": "photo"},
        {"properties": {"a": [1]}},
        {"properties": {"transactional": False}},
        {"buckets": True, "cluster_by": "id"},
        {"lifecycle": 0},
    ],
    ids=str,
)
def test_an_invalid_definition_creates_nothing(
    odps: Connection, new_name: NewName, options: dict[str, object]
) -> None:
    name = new_name("never")
    with pytest.raises(ArgumentError) as caught:
        odps.create_table(name, "id bigint, photo blob", **options)  # type: ignore[arg-type]
    assert isinstance(caught.value, OdpsNbError)
    assert odps.tables(name) == []
