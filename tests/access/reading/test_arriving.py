"""An interrupt while a DataFrame is built from arriving batches does not keep rows in memory."""

from __future__ import annotations

import traceback
from collections.abc import Generator

import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.access.row_forms import read_frame
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.convert.frame_options import FrameOptions

ROWS = 10_000


def test_the_traceback_of_an_interrupt_does_not_keep_the_rows(odps: Connection) -> None:
    def interrupted() -> Generator[pa.RecordBatch, None, None]:
        for _ in range(20):
            yield pa.record_batch({"id": range(ROWS), "text": ["a" * 100] * ROWS})
        raise KeyboardInterrupt

    scan = odps.table("orders").read(["id", "ds"])
    scan.row_count  # noqa: B018  opens its session
    before = pa.total_allocated_bytes()
    with (
        ProgressTracker("read", "t") as tracker,
        pytest.raises(KeyboardInterrupt) as caught,  # IPython keeps the error as sys.last_value
    ):
        read_frame(scan, interrupted(), tracker, FrameOptions())
    assert pa.total_allocated_bytes() - before < ROWS * 100
    held = {
        frame.f_code.co_name: dict(frame.f_locals)
        for frame, _ in traceback.walk_tb(caught.value.__traceback__)
    }
    assert held["to_pandas"] == held["interrupted"] == {}
