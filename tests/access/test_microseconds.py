"""A read in nanoseconds switches to microseconds if the service requires it."""

from __future__ import annotations

import datetime as dt
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.access.table import Table
from odps_nb.errors import ArgumentError, InvalidRequestError, OdpsNbWarning
from odps_nb.local.server.launch import start
from tests.support.compat.recorder import Recorder
from tests.support.named import NewName
from tests.support.service.connecting import connected
from tests.support.watcher import Watcher

pytestmark = pytest.mark.storage_api("far times")

WARNED = r"RuntimeTimestamp data overflow"
FAR = dt.datetime(2100, 1, 1)
ROWS = 150_000  # the service sends a megabyte before it reaches the last row


@pytest.fixture(scope="module")
def status_500() -> Iterator[Connection]:
    options = ("--form", "nanosecond_status=500")
    with start(samples=False, options=options) as running, connected(running) as connection:
        yield connection


def rows(count: int = ROWS) -> pa.Table:
    """Rows whose last time is far away; the others have digits below a microsecond."""
    times = pa.array([*range(count - 1), int(FAR.timestamp()) * 10**9], pa.timestamp("ns"))
    return pa.table({"id": pa.array(range(count), pa.int64()), "t": times})


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> Table:
    """A table whose last row has a time that cannot be read in nanoseconds."""
    made = odps.create_table(new_name("micro"), "id bigint, t timestamp")
    made.write(rows(), progress=False)
    return made


def check_microseconds(found: pa.Table) -> None:
    assert found.column_names == ["id", "t"]
    assert found["id"].to_pylist() == list(range(ROWS))
    assert found["t"].type == pa.timestamp("us")
    assert found["t"][1234].as_py() == dt.datetime(1970, 1, 1, 0, 0, 0, 1)
    assert found["t"][-1].as_py() == FAR


COLLECTED: dict[str, Callable[[Any], pa.Table]] = {
    "arrow": lambda scan: scan.to_arrow(),
    "pandas": lambda scan: pa.Table.from_pandas(scan.to_pandas()),
    "polars": lambda scan: scan.to_polars().to_arrow(),
}


@pytest.mark.gate(1)
@pytest.mark.parametrize("form", COLLECTED)
def test_a_read_that_restarts_in_microseconds_has_every_row_once(table: Table, form: str) -> None:
    """Evidence 152: the error may arrive in the middle of the rows."""
    scan = table.read()
    with pytest.warns(OdpsNbWarning, match=WARNED) as warned:
        check_microseconds(COLLECTED[form](scan))
    assert [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_microseconds(scan.to_arrow())  # the open session keeps the unit
        assert scan.arrow_schema.field("t").type == pa.timestamp("us")
        check_microseconds(pickle.loads(pickle.dumps(scan)).to_arrow())


def test_an_overflow_error_is_not_retried(status_500: Connection, new_name: NewName) -> None:
    """Evidence 152: the HTTP status of the error is unknown."""
    table = status_500.create_table(new_name("status"), "id bigint, t timestamp")
    table.write(rows(), progress=False)
    watcher = Watcher()
    with pytest.warns(OdpsNbWarning, match=WARNED):
        frame = table.read().to_pandas(progress=watcher)
    assert len(frame) == ROWS
    snapshot = watcher.last
    assert (snapshot.rows, snapshot.retries) == (ROWS, 0)
    assert sum(split.rows for split in snapshot.splits) == ROWS


@pytest.mark.storage_api("its requests")
def test_a_restart_in_microseconds_takes_few_requests(
    watched: Connection, recorder: Recorder, table: Table
) -> None:
    recorder.take()
    with pytest.warns(OdpsNbWarning, match=WARNED):
        watched.table(table.name).read(where="id = 149999").to_arrow()
    actions = [dict(one.params).get("Action") for one in recorder.take()]
    assert actions.count("TableCreateReadSession") == 2
    assert actions.count("TableRead") <= 4


STREAMED: dict[str, Callable[[Any], Any]] = {
    "batches": lambda scan: scan.batches(),
    "reader": lambda scan: scan.reader(),
    "stream": lambda scan: pa.RecordBatchReader.from_stream(scan),
    "dataset": lambda scan: scan.dataset().scanner().to_batches(),
}


@pytest.mark.gate(2)
@pytest.mark.parametrize("form", STREAMED)
def test_a_far_time_after_the_first_rows_of_a_stream_raises_an_error(
    table: Table, form: str
) -> None:
    """Rows of another session must not follow, because their order may differ."""
    given: list[pa.RecordBatch] = []
    kind = pa.ArrowInvalid if form == "stream" else InvalidRequestError
    with pytest.raises(kind, match=WARNED) as caught:
        given.extend(STREAMED[form](table.read()))
    assert "timestamp_unit='us'" in str(caught.value if form == "stream" else caught.value.hint)
    batches = list(STREAMED[form](table.read(timestamp_unit="us")))
    check_microseconds(pa.Table.from_batches(batches))


@pytest.mark.parametrize("form", STREAMED)
def test_a_stream_switches_to_microseconds_before_its_first_row(
    odps: Connection, new_name: NewName, form: str
) -> None:
    table = odps.create_table(new_name("first"), "id bigint, t timestamp")
    table.write(rows(3), progress=False)
    with pytest.warns(OdpsNbWarning, match=WARNED):
        found = pa.Table.from_batches(list(STREAMED[form](table.read())))
    assert found["t"].to_pylist()[-1:] == [FAR]
    # a dataset keeps its declared unit, which can represent FAR
    promised = "ns" if form == "dataset" else "us"
    assert found["t"].type == pa.timestamp(promised)


def test_reads_of_rows_without_far_times_keep_nanoseconds(table: Table) -> None:
    near = table.read(limit=20_000).to_arrow()
    assert near["t"].type == pa.timestamp("ns")
    assert near["t"][1234].cast(pa.int64()).as_py() == 1234
    assert table.read(["id"]).to_arrow().num_rows == ROWS


def test_a_condition_that_microseconds_cannot_compare_is_refused(table: Table) -> None:
    scan = table.read(where="t >= '1970-01-01 00:00:00.000001234'")
    with pytest.raises(ArgumentError, match="this read returns microseconds"):
        scan.to_arrow()


def test_a_read_does_not_restart_in_microseconds_after_the_table_changed(table: Table) -> None:
    scan = table.read()
    assert scan.row_count == ROWS
    table.write(rows(3), progress=False)
    with pytest.raises(InvalidRequestError, match=WARNED) as caught:
        scan.to_arrow()
    assert any("has changed" in note for note in caught.value.notes)
    with pytest.warns(OdpsNbWarning, match=WARNED):
        assert table.read().to_arrow().num_rows == ROWS + 3


def test_two_reads_of_a_scan_that_fail_together_switch_once(table: Table) -> None:
    scan = table.read()
    with pytest.raises(InvalidRequestError) as caught:
        list(scan.batches())
    first, second = scan._fall_back(None, None), scan._fall_back(None, None)
    assert "in microseconds" in (first(caught.value) or "")
    assert second(caught.value) is None
    check_microseconds(scan.to_arrow())


@pytest.mark.storage_api("versions")
def test_incremental_reads_switch_to_microseconds(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(
        new_name("since"),
        "id bigint, t timestamp",
        primary_key="id",
        properties={"acid.cdc.mode.enable": True},
    )
    table.upsert(rows(3), progress=False)
    for options in ({"since": 0}, {"since": 0, "changes": True}):
        with pytest.warns(OdpsNbWarning, match=WARNED):
            found = table.read(**options).to_arrow()
        assert sorted(found["id"].to_pylist()) == [0, 1, 2]
        assert FAR in found["t"].to_pylist()


def test_pages_of_an_explorer_show_far_times(table: Table) -> None:
    from odps_nb.access.paging.browsing import rows_of
    from odps_nb.client.calls.cancel import CancelToken

    looking = rows_of(table.read())
    with pytest.warns(OdpsNbWarning, match=WARNED):
        page = pa.Table.from_batches(list(looking.page(ROWS - 2, 10, CancelToken())))
    assert page["id"].to_pylist() == [ROWS - 2, ROWS - 1]
    assert page["t"].to_pylist()[1] == FAR
    with pytest.warns(OdpsNbWarning, match=WARNED):
        ((_, found),) = rows_of(table.read()).found("id = 149999")
    assert found["t"].to_pylist() == [FAR]


def test_tasks_raise_an_error_that_names_the_option(table: Table) -> None:
    """Tasks read one session in several processes, so no process can change the unit."""
    (task,) = table.read()._split_tasks()
    with pytest.raises(InvalidRequestError, match=WARNED) as caught:
        task.table()
    assert "timestamp_unit='us'" in str(pickle.loads(pickle.dumps(caught.value)).hint)
    (task,) = table.read(timestamp_unit="us")._split_tasks()
    check_microseconds(task.table())
