"""A read from a service on this machine joins its row ranges, unless the user chose them."""

from __future__ import annotations

from odps_nb import Connection
from tests.support.compat.recorder import Recorder


def test_a_read_joins_its_ranges_unless_the_user_chose_them(
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
