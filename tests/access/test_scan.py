"""Scans read one snapshot in many forms and can be stopped; also tables, writes and SQL."""

import inspect
import threading

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.client.calls.progress import Phase
from odps_nb.errors import (
    ArgumentError,
    CancelledError,
    LimitExceededError,
    OdpsNbError,
    OdpsNbWarning,
    ProtocolError,
)
from odps_nb.terms import RowRangeSplit
from tests.support.threads import running
from tests.support.watcher import Watcher

pytestmark = pytest.mark.every_service

DAY = "ds=2024-01-01"


@pytest.fixture
def orders(odps):
    return odps.table("orders")


@pytest.fixture
def small(odps, new_name):
    table = odps.create_table(new_name("small"), "id bigint, note string")
    table.write(pa.table({"id": [1, 2, 3], "note": ["a", None, "c"]}))
    return table


def test_creating_a_scan_sends_no_request(odps):
    scan = odps.table("no_such_table_at_all").read(limit=3)
    assert repr(scan) == f"Scan({odps.profile.project}.no_such_table_at_all, limit=3)"


def test_a_condition_is_checked_against_the_table_before_anything_is_read(odps, small):
    with pytest.raises(ArgumentError, match="'nope', which is not a column") as caught:
        small.read(where="nope > 1")
    assert caught.value.hint.startswith("did you mean note? its columns are: id, note (for a")
    assert "where='id > 1'" in repr(small.read(where="id > 1"))


def test_repeated_reads_of_a_scan_return_the_same_snapshot(odps, small):
    scan = small.read()
    assert scan.row_count == 3
    small.write(pa.table({"id": [4], "note": ["later"]}))
    assert scan.to_arrow().num_rows == len(scan.to_pandas()) == 3
    assert sum(batch.num_rows for batch in scan.batches()) == 3
    assert small.read().row_count == 4


def test_columns_are_returned_in_the_order_of_the_arguments(orders):
    scan = orders.read(["ds", "QUANTITY", "id"], limit=2, partitions=DAY)
    assert scan.to_arrow().column_names == ["ds", "quantity", "id"]
    assert list(scan.to_pandas().columns) == ["ds", "quantity", "id"]
    assert scan.arrow_schema.names == ["ds", "quantity", "id"]
    only = orders.read(["ds"], limit=2, partitions=DAY).to_arrow()
    assert only.to_pylist() == [{"ds": "2024-01-01"}] * 2


def test_a_limit_is_exact(orders):
    for limit in (0, 1, 100_000, 300_000):
        scan = orders.read(["id"], limit=limit)
        assert scan.to_arrow().num_rows == scan.row_count == limit


def test_a_limit_above_the_number_of_rows_returns_all_rows(small):
    assert small.read(limit=5).row_count == small.read(limit=5).to_arrow().num_rows == 3


def test_a_read_beyond_max_bytes_fails_early(orders):
    watcher, budget, columns = Watcher(), 4_000_000, ["id", "amount", "created"]
    whole = [batch.nbytes for batch in orders.read(columns, splits=8).batches()]
    most = budget + 8 * max(whole)  # each of the eight workers may hold one more batch
    assert most < sum(whole) / 3
    scan = orders.read(columns, splits=8, max_bytes=budget, progress=watcher)
    assert repr(scan).endswith(f"max_bytes={budget})")
    for take in (scan.to_arrow, scan.to_pandas, lambda: list(scan.batches())):
        with pytest.raises(LimitExceededError) as caught:
            take()
        assert caught.value.limit == budget
        assert not isinstance(caught.value, ProtocolError)  # the scan can still be read
        assert watcher.last.phase is Phase.FAILED
        assert watcher.last.decoded_bytes <= most
    assert orders.read(["id"], partitions=DAY, max_bytes=4_000_000).to_arrow().num_rows == 231072
    assert list(orders.read(["id"], where="id < 0", max_bytes=1).to_pandas()) == ["id"]


def test_an_invalid_max_bytes_is_refused(orders):
    with pytest.raises(ArgumentError, match="at least 1"):
        orders.read(max_bytes=0)
    with pytest.raises(ArgumentError, match="max_bytes cannot be used with Spark"):
        orders.read(max_bytes=1).to_spark(None)


def test_the_argument_read_ahead_limits_the_bytes_that_are_read_ahead(orders):
    watcher = Watcher()
    batches = orders.read(["id", "amount", "created"], splits=8, progress=watcher).batches(
        read_ahead=2**20
    )
    first = next(batches)
    batches.close()
    assert watcher.last.decoded_bytes < 2**21 + first.nbytes


def test_the_requested_splits_cover_all_rows(orders):
    scan = orders.read(["id"], partitions=DAY, splits=3)
    assert len(scan.splits) == 3
    assert all(isinstance(split, RowRangeSplit) for split in scan.splits)
    assert sum(split.count for split in scan.splits) == scan.row_count


@pytest.mark.storage_api("blobs")
def test_an_empty_result_has_its_columns(odps, new_name):
    table = odps.create_table(new_name("empty"), "id bigint, note string, b blob")
    assert table.read().to_arrow().schema.types == [pa.int64(), pa.string(), pa.string()]
    frame = table.read(["note", "id"]).to_pandas()
    assert (list(frame.columns), len(frame)) == (["note", "id"], 0)
    assert len(table.head()) == 0
    assert len(table.blobs("b")) == 0


def test_leaving_the_batches_early_stops_the_read(orders):
    watcher = Watcher()
    before = {*running()}
    batches = orders.read().batches(progress=watcher)
    next(batches)
    batches.close()
    assert watcher.last.phase is Phase.DONE
    assert watcher.last.message == "stopped early by the caller"
    assert watcher.last.rows < 2_000_000
    assert {*running()} <= before


def test_a_scan_can_be_cancelled_from_another_thread(orders):
    scan = orders.read()
    watcher = Watcher()
    batches = scan.batches(progress=watcher)
    next(batches)
    threading.Thread(target=scan.cancel).start()
    with pytest.raises(CancelledError):
        for _ in batches:
            pass
    assert watcher.last.phase is Phase.CANCELLED


def test_the_progress_of_a_read_has_rows_bytes_and_ids(orders):
    watcher = Watcher()
    scan = orders.read(["id"], partitions=DAY, progress=watcher)
    rows = scan.to_arrow().num_rows
    seen = watcher.last
    assert (seen.operation, seen.phase, seen.rows, seen.rows_total) == (
        "read",
        Phase.DONE,
        rows,
        rows,
    )
    assert seen.complete_bytes == seen.decoded_bytes > 0
    assert seen.verified_bytes == 0
    assert seen.wire_bytes > seen.decoded_bytes // 2
    assert seen.session_id == scan.session_id
    assert seen.request_ids
    again = Watcher()
    scan.to_pandas(progress=again)
    assert (again.last.rows_total, again.last.session_id) == (rows, scan.session_id)


def test_other_libraries_read_a_scan_as_a_stream(small):
    import duckdb

    scan = small.read()
    assert pa.table(scan).num_rows == 3
    with pa.RecordBatchReader.from_stream(scan) as reader:
        assert reader.schema.names == ["id", "note"]
    counted = duckdb.connect().execute("select count(*) from scan")
    assert counted.fetchall() == [(3,)]


def test_head_returns_a_small_frame(orders):
    frame = orders.head(3, partitions=DAY, columns=["id", "ds"])
    assert isinstance(frame, pd.DataFrame)
    assert frame["ds"].tolist() == ["2024-01-01"] * 3
    assert len(orders.head()) == 5


def test_the_repr_of_a_scan_is_short_and_shows_what_is_read(orders):
    scan = orders.read(["id"], where="quantity > 1" + " and quantity > 1" * 50, partitions=DAY)
    assert "columns=['id']" in repr(scan)
    assert len(repr(scan)) < 300
    opened = orders.read(["id"], partitions=DAY)
    opened.to_arrow()
    assert "rows in" in repr(opened)


# -- tables -------------------------------------------------------------------------------------


def test_displaying_a_table_fetches_its_metadata_once(odps, small):
    assert repr(small.reload()) == f"Table {small.name}"
    bundle = small._repr_mimebundle_()
    text = bundle["text/plain"]
    assert text.splitlines()[0] == f"Table {small.name}"
    assert "3 rows" in text
    assert "  note  string" in text
    assert repr(small) == text
    assert "<table" in bundle["text/html"]


def test_names_from_the_service_are_escaped(odps, new_name):
    name = new_name("esc")
    odps.create_table(name, "id bigint comment '<script>alert(1)</script>'")
    html = odps.table(name)._repr_mimebundle_()["text/html"]
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_the_display_of_a_missing_table_shows_the_error(odps):
    lines = odps.table("nothing_here")._repr_mimebundle_()["text/plain"].splitlines()
    assert lines[0].endswith(".nothing_here")
    assert lines[1].startswith("NotFoundError: ")
    assert len(lines) <= 4
    assert "NotFoundError: " in odps.table("nothing_here")._repr_html_()


def test_the_display_of_a_wide_table_shows_only_some_columns(odps, new_name):
    name = new_name("wide")
    odps.create_table(name, ", ".join(f"c{n} bigint" for n in range(200)))
    assert "and 140 more columns" in odps.table(name)._repr_mimebundle_()["text/plain"]


def test_partitions_are_listed_unchanged(odps, new_name):
    table = odps.create_table(new_name("p"), "id bigint", partitioned_by="ds string, hour string")
    assert table.partitions() == []
    table.write(pa.table({"id": [1, 2], "ds": ["a", "b"], "hour": ["1", "2"]}))
    assert [str(one) for one in table.partitions()] == ["ds=a,hour=1", "ds=b,hour=2"]
    assert [str(one) for one in table.partitions("ds=b")] == ["ds=b,hour=2"]
    assert "2 partitions" in table._repr_mimebundle_()["text/plain"]
    odps.drop_table(table.name)
    with pytest.raises(OdpsNbError, match="is not partitioned"):
        odps.table("media").partitions()


def test_tables_are_found_by_pattern(odps):
    assert {"orders", "media", "documents"} <= set(odps.tables())
    assert odps.tables("ORD*") == ["orders"]
    assert odps.tables("*dia") == ["media"]
    assert odps.tables("m[ae]dia") == ["media"]
    assert odps.tables("nothing*") == []


def test_equal_handles_are_equal(odps):
    assert odps.table("orders") == odps.table(f"{odps.profile.project}.orders")
    assert odps.table("orders") != odps.table("media")
    assert len({odps.table("orders"), odps.table("orders")}) == 1


# -- writing ------------------------------------------------------------------------------------


def test_a_receipt_describes_the_write(odps, small):
    watcher = Watcher()
    receipt = small.write(pa.table({"id": [9], "note": ["new"]}), overwrite=True, progress=watcher)
    assert (receipt.rows, receipt.overwrite, receipt.streams) == (1, True, 1)
    assert receipt.bytes > 0
    assert receipt.session_id in repr(receipt)
    assert "1 row" in repr(receipt)
    assert watcher.last.phase is Phase.DONE
    assert (watcher.last.rows, watcher.last.rows_total) == (1, 1)
    assert small.read().to_arrow().to_pylist() == [{"id": 9, "note": "new"}]


def test_overwriting_with_zero_rows_empties_the_table(small):
    receipt = small.write(pa.table({"id": pa.array([], pa.int64())}), overwrite=True)
    assert receipt.rows == 0
    assert small.read().row_count == 0


def test_every_object_with_an_arrow_interface_is_written(small):
    schema = pa.schema([("id", pa.int64())])
    batch = pa.record_batch({"id": [7]}, schema=schema)

    class Foreign:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table(batch.to_pydict()).__arrow_c_stream__(requested_schema)

    class ForeignArray:
        def __arrow_c_array__(self, requested_schema=None):
            return batch.__arrow_c_array__(requested_schema)

    given = [
        pa.Table.from_batches([batch]),
        batch,
        pa.RecordBatchReader.from_batches(schema, [batch, batch.slice(1)]),
        Foreign(),
        ForeignArray(),
        small.read(["id"], limit=1),
    ]
    for data in given:
        assert small.write(data).rows == 1
    assert small.read().row_count == 3 + len(given)


def test_the_index_of_a_frame_is_not_written(small):
    frame = pd.DataFrame({"id": [5]}, index=pd.Index([17], name="whatever"))
    with pytest.warns(OdpsNbWarning, match="'whatever' is not written"):
        small.write(frame, overwrite=True)
    assert small.read().to_arrow().to_pylist() == [{"id": 5, "note": None}]


# -- SQL ----------------------------------------------------------------------------------------


def test_a_query_returns_its_rows_in_every_form(odps, small):
    watcher = Watcher()
    result = odps.sql(f"select id, note from {small.name} order by id", progress=watcher)
    assert watcher.last.operation == "sql"
    assert result.row_count == 3
    assert result.schema.names == ("id", "note")
    assert result.to_arrow().column("id").to_pylist() == [1, 2, 3]
    assert result.to_pandas()["note"].isna().tolist() == [False, True, False]
    assert sum(batch.num_rows for batch in result.batches()) == 3
    assert pa.table(result).num_rows == 3
    assert "3 rows" in repr(result)


def test_a_query_can_be_awaited_later(odps, small):
    result = odps.sql(f"select count(*) as n from {small.name}", wait=False)
    assert result.wait(timeout=60).to_arrow().to_pylist() == [{"n": 3}]
    result.cancel()
    assert result.instance_id


def test_statements_without_rows_are_finished_when_the_call_returns(odps, new_name):
    name = new_name("ctas")
    result = odps.sql(f"create table {name} as select 1 as x")
    assert result.row_count == result.to_arrow().num_columns == len(result.schema) == 0
    assert len(result.to_pandas()) == 0
    assert odps.table(name).read().to_arrow().num_rows == 1
    odps.sql(f"drop table {name}")
    assert name not in odps.tables()


def test_an_interrupted_read_is_closed_while_its_traceback_is_kept(odps):
    held = []

    def collect(tracker, batches):
        held.append(batches)
        next(batches)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        odps.table("orders").read(limit=10)._collected(False, collect)
    assert caught.tb is not None
    assert inspect.getgeneratorstate(held[0]) == inspect.GEN_CLOSED
