"""A read from a service on this machine joins row ranges and opens few connections."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.access import scan as scans
from odps_nb.client.calls.storage import HERE_SECONDS
from odps_nb.client.read.splits import iter_batches
from tests.support.compat.recorder import Recorder


@pytest.mark.storage_api("its requests")
def test_a_read_joins_row_ranges_unless_the_user_set_the_splits(
    watched: Connection, recorder: Recorder
) -> None:
    def requests(**options: int) -> int:
        scan = watched.table("orders").read(columns=["quantity"], **options)
        assert len(scan.splits) > 1
        watched._storage.quickest = 0.0
        recorder.take()
        assert sum(batch.num_rows for batch in scan.batches(progress=False)) == scan.row_count
        return len(recorder.take())

    assert requests() == 1
    assert requests(splits=3) == 3


@pytest.mark.parametrize("quickest", [0.0, HERE_SECONDS])
def test_a_service_on_this_machine_gets_one_connection_per_processor(
    odps: Connection, monkeypatch: pytest.MonkeyPatch, quickest: float
) -> None:
    used: list[int] = []

    def record_workers(*args: Any, workers: int, **options: Any) -> Iterator[pa.RecordBatch]:
        used.append(workers)
        return iter_batches(*args, workers=workers, **options)

    monkeypatch.setattr(scans, "iter_batches", record_workers)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    scan = odps.table("orders").read(columns=["quantity"], splits=8)
    assert len(scan.splits) == 8
    monkeypatch.setattr(odps._storage, "quickest", quickest)
    batches = scan.batches(workers=8, progress=False)
    assert sum(batch.num_rows for batch in batches) == scan.row_count
    assert used == [8 if quickest else 3]
