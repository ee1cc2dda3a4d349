"""The stock client's tunnel writes: Arrow decimals, upserts and stream uploads."""

from __future__ import annotations

import time
from decimal import Decimal

import pyarrow as pa
import pytest
from odps import ODPS
from odps.tunnel import TableTunnel

from odps_nb.local.server.launch import LocalService

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def entry(empty_service: LocalService) -> ODPS:
    service = empty_service
    keys = (service.access_id, service.access_key)
    return ODPS(*keys, project=service.project, endpoint=service.endpoint)


def test_bare_decimals_are_the_same_after_arrow_writes_and_reads(entry: ODPS) -> None:
    """pyodps sends decimal256(54,18) for a column that is described as ``decimal``."""
    table = entry.create_table(f"d{time.time_ns()}", "d decimal, l array<decimal>")
    values = [Decimal(text) for text in ("5.5", "7.25", "100", "0.01")]
    with table.open_writer(arrow=True) as writer:
        decimals = pa.array(values, pa.decimal128(38, 18))
        lists = pa.array([[one] for one in values], pa.list_(decimals.type))
        writer.write(pa.record_batch({"d": decimals, "l": lists}))
    with table.open_reader(arrow=True) as reader:
        rows = reader.read_all()
    assert rows["d"].to_pylist() == values
    assert rows["l"].to_pylist() == [[one] for one in values]
    with table.open_reader() as reader:
        assert [record[0] for record in reader] == values
    tunnel = TableTunnel(entry)
    described = tunnel.create_upload_session(table).schema
    types = [str(one.type).lower() for one in described.columns]
    assert types == ["decimal(38,18)", "array<decimal(38,18)>"]
