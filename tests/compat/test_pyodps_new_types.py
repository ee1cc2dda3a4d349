"""The stock client writes and reads VECTOR and GEOGRAPHY over the tunnel, like its live tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from odps import ODPS
from odps import types as odps_types
from odps.tunnel import TableTunnel

import odps_nb
from odps_nb.local.server.launch import LocalService
from tests.support.compat.stock import STOCK
from tests.support.service.connecting import connected

pytestmark = STOCK
ROWS = [[0.5] * 128, [n * 0.5 for n in range(128)], None]


@pytest.fixture
def odps(empty_service: LocalService) -> Iterator[odps_nb.Connection]:
    with connected(empty_service) as found:
        yield found


def test_vectors_are_transferred_as_records(
    entry: ODPS, odps: odps_nb.Connection, name: str
) -> None:
    """Evidence 155: live test test_vector (odps/tunnel/tests/test_tabletunnel.py)."""
    table = entry.create_table(name, "id bigint, fvec vector(float,128)")
    assert table.table_schema["fvec"].type == odps_types.Vector(odps_types.float_, 128)
    given = [None if row is None else np.array(row, "float32") for row in ROWS]
    with table.open_writer() as writer:
        writer.write([[n, row] for n, row in enumerate(given)])
    with table.open_reader() as reader:
        found = [record["fvec"] for record in reader]
    assert [None if row is None else list(row) for row in found] == ROWS
    assert odps.table(name).read().to_arrow()["fvec"].to_pylist() == ROWS


def test_vectors_are_transferred_as_arrow(entry: ODPS, odps: odps_nb.Connection, name: str) -> None:
    """Evidence 155: live test test_upload_and_download_vector (test_arrow_tabletunnel.py)."""
    table = entry.create_table(name, "id bigint, fvec vector(float,128)")
    rows = pa.array(ROWS, pa.list_(pa.float32()))
    upload = TableTunnel(entry).create_upload_session(table)
    with upload.open_arrow_writer(0) as writer:
        writer.write(pa.record_batch([pa.array([1, 2, 3]), rows], names=["id", "fvec"]))
    upload.commit([0])
    download = TableTunnel(entry).create_download_session(table)
    with download.open_arrow_reader(0, download.count) as reader:
        assert reader.read().column("fvec").to_pylist() == ROWS
    assert odps.table(name).read().to_arrow()["fvec"].to_pylist() == ROWS


def test_the_stock_client_shows_the_type_geography_and_reads_the_other_columns(
    entry: ODPS, odps: odps_nb.Connection, name: str
) -> None:
    """Evidence 154: the stock client knows the type by name, and reads the other columns."""
    odps.create_table(name, "id bigint, g geography").write({"id": [1], "g": [b"\x01\x02"]})
    table = entry.get_table(name)
    assert table.table_schema["g"].type == odps_types.geography
    with table.open_reader(columns=["id"]) as reader:
        assert [record["id"] for record in reader] == [1]
