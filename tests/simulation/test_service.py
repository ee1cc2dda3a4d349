"""The read sessions of the simulated service answer as those of the embedded one.

Its write sessions are the model's, which `tests/model` plays against the embedded service.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import SessionExpiredError
from odps_nb.terms import IndexSplit, RowRangeSplit, SplitMode, TableName
from odps_nb.wire import calls
from tests.model.client import TABLE
from tests.model.scenarios import write_stream
from tests.simulation.scenarios import VALUES, Scene
from tests.simulation.world import Plan

READS: list[tuple[SplitMode, Any, int]] = [
    (SplitMode.ROW_OFFSET, RowRangeSplit(0, 8), 0),
    (SplitMode.ROW_OFFSET, RowRangeSplit(8, 5), 0),
    (SplitMode.ROW_OFFSET, RowRangeSplit(20, 4), 0),
    (SplitMode.SIZE, IndexSplit(0), 0),
    (SplitMode.SIZE, IndexSplit(0), 3),
]


def rows(storage: StorageClient, table: TableName, read: tuple[SplitMode, Any, int]) -> list[int]:
    mode, split, skip = read
    session = storage.call(calls.CreateReadSession(table=table, split_mode=mode))
    request = calls.ReadRows(
        table=table, session_id=session.session_id, split=split, skip_rows=skip, max_batch_rows=3
    )
    with storage.open(request) as response, pa.ipc.open_stream(response.read()) as reader:
        found: list[int] = reader.read_all()["id"].to_pylist()
    # sizes of splits are the service's own choice: what counts is the rows after those skipped
    return found[:4] if mode is SplitMode.SIZE else found


def test_reads_give_the_rows_that_the_embedded_service_gives(
    odps: Connection, new_name: Callable[[str], str]
) -> None:
    table = odps.create_table(new_name("simulated"), "id bigint").name
    with open_write_session(odps.storage, table) as session:
        session.commit([write_stream(odps.storage, session.ref, "0", VALUES).stream])
    scene = Scene(Plan("read", 0))
    answers: list[list[int]] = []
    scene.service.table = list(VALUES)
    scene.world.spawn(
        "reader", lambda: answers.extend(rows(scene.storage(), TABLE, one) for one in READS)
    )
    scene.world.play()
    assert answers == [rows(odps.storage, table, one) for one in READS]
    with pytest.raises(SessionExpiredError):
        odps.storage.call(calls.GetReadSession(table=table, session_id="unknown"))
    with pytest.raises(SessionExpiredError):
        scene.service.answer(calls.GetReadSession(table=TABLE, session_id="unknown"))
