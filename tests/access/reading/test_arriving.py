"""A DataFrame from batches that are still arriving, when they end in an error."""

from __future__ import annotations

import traceback
from collections.abc import Generator

import pyarrow as pa
import pytest

from odps_nb.access.reading.arriving import read_frame
from odps_nb.client.calls.progress import ProgressTracker

ROWS = 10_000


def test_what_came_before_an_interrupt_is_not_kept_by_its_traceback() -> None:
    def interrupted() -> Generator[pa.RecordBatch, None, None]:
        for _ in range(20):
            yield pa.record_batch({"id": range(ROWS), "text": ["a" * 100] * ROWS})
        raise KeyboardInterrupt

    before = pa.total_allocated_bytes()
    with (
        ProgressTracker("read", "t") as tracker,
        pytest.raises(KeyboardInterrupt) as caught,  # IPython keeps it as sys.last_value
    ):
        read_frame(interrupted(), lambda: pa.schema([]), tracker, row_count=lambda: 20 * ROWS)
    assert pa.total_allocated_bytes() - before < ROWS * 100
    held = {
        frame.f_code.co_name: dict(frame.f_locals)
        for frame, _ in traceback.walk_tb(caught.value.__traceback__)
    }
    assert held["to_pandas"] == held["interrupted"] == {}
