"""The stock client's `storage_api` (version 1) drives the embedded service.

``tests/versions/pyodps_live.py`` also runs its live tests.
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from odps import ODPS
from odps.apis.storage_api import (
    Compression,
    ReadRowsRequest,
    SessionRequest,
    SessionStatus,
    SplitOptions,
    Status,
    StorageApiArrowClient,
    TableBatchScanRequest,
    TableBatchWriteRequest,
    WriteRowsRequest,
)
from odps.errors import ODPSError

from tests.support.compat.stock import STOCK

pytestmark = STOCK

ROWS = pa.record_batch({"a": pa.array(range(9)), "b": pa.array(["x", None, "z"] * 3)})


@pytest.fixture
def client(entry: ODPS) -> StorageApiArrowClient:
    table = entry.create_table(f"v{time.time_ns()}", ("a bigint, b string", "pt string"))
    return StorageApiArrowClient(entry, table)


def written(client: StorageApiArrowClient, session: str, rows: Any, **options: Any) -> str:
    writer = client.write_rows_arrow(WriteRowsRequest(session_id=session, **options))
    assert writer.write(rows)
    message, is_done = writer.finish()
    assert is_done
    assert isinstance(message, str)
    return message


def read(client: StorageApiArrowClient, session: Any, **options: Any) -> list[dict[str, Any]]:
    reader = client.read_rows_arrow(ReadRowsRequest(session_id=session.session_id, **options))
    found: list[dict[str, Any]] = []
    while (batch := reader.read()) is not None:
        found += batch.to_pylist()
    return found


@pytest.mark.parametrize("codec", Compression)
def test_blocks_are_written_and_read(client: StorageApiArrowClient, codec: Compression) -> None:
    made = client.create_write_session(TableBatchWriteRequest(partition_spec="pt=a"))
    assert (made.status, made.session_status) == (Status.OK, SessionStatus.NORMAL)
    assert made.data_schema.partition_columns == []
    kept = [
        written(client, made.session_id, ROWS.slice(3), block_number=1, compression=codec),
        written(client, made.session_id, ROWS.slice(0, 3), attempt_number=2, compression=codec),
    ]
    written(client, made.session_id, ROWS, attempt_number=1)
    done = client.commit_write_session(SessionRequest(made.session_id), kept)
    assert (done.status, done.session_status) == (Status.OK, SessionStatus.COMMITTED)

    request = TableBatchScanRequest(required_partitions=["pt=a"], enable_estimate_stats=True)
    session = client.create_read_session(request)
    assert (session.status, session.split_count) == (Status.OK, 1)
    assert session.session_stats.estimated_row_count == 9
    expected = [row | {"pt": "a"} for row in ROWS.to_pylist()]
    assert read(client, session, compression=codec) == expected
    request.split_options = SplitOptions.get_default_options(SplitOptions.SplitMode.ROW_OFFSET)
    ranges = client.create_read_session(request)
    assert ranges.record_count == 9
    assert read(client, ranges, row_index=4, row_count=2) == expected[4:6]
    with pytest.raises(ODPSError, match="row_index exceeded total row count"):
        read(client, ranges, row_index=9, row_count=1)
