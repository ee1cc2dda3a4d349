"""TIMESTAMPs of the years 1 and 9999 can be read in every form of a read or result."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import zstandard

import odps_nb
from odps_nb import Connection
from odps_nb.access.paging.browsing import rows_of
from odps_nb.access.table import Table
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import ConversionError, OdpsNbError, OdpsNbWarning
from odps_nb.local.server.launch import start
from tests.support.arrow_bodies import ipc
from tests.support.compat.recorder import Recorder
from tests.support.named import NewName
from tests.support.reverse_proxy import Answer, Request
from tests.support.service.connecting import connected

TIMES = [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)]
MIDDLE = dt.datetime(2000, 1, 1)
MICRO = pa.timestamp("us")


@pytest.fixture(scope="module")
def struct_odps() -> Iterator[Connection]:
    """A connection to a service whose TIMESTAMPs are structs."""
    options = ("--form", "timestamps=struct")
    with start(samples=False, options=options) as running, connected(running) as connection:
        yield connection


def far_table(odps: Connection, name: str) -> Table:
    table = odps.create_table(name, "id bigint, t timestamp")
    table.write(pa.table({"id": [1, 2], "t": pa.array(TIMES, MICRO)}), progress=False)
    return table


@pytest.fixture
def table(struct_odps: Connection, new_name: NewName) -> Table:
    return far_table(struct_odps, new_name("far"))


@pytest.fixture
def refused(odps: Connection, new_name: NewName) -> Table:
    """A table of a service that refuses reads of far times in nanoseconds (ODPS-0422214)."""
    found = far_table(odps, new_name("far"))
    return found


@contextmanager
def connect_by(odps: Connection, kind: type[Recorder]) -> Iterator[tuple[Connection, Recorder]]:
    """Connect through a proxy that changes responses."""
    proxy = kind(odps.profile.tunnel_endpoint)
    with (
        proxy.running(),
        odps_nb.connect(
            odps.profile, endpoint=proxy.endpoint, tunnel_endpoint=proxy.base
        ) as connection,
    ):
        yield connection, proxy


def first_page(source: Any) -> pa.Table:
    return pa.Table.from_batches(list(rows_of(source).page(0, 5, CancelToken())))


FORMS: dict[str, Callable[[Any], list[Any]]] = {
    "arrow": lambda rows: rows.to_arrow()["t"].to_pylist(),
    "pandas": lambda rows: [one.to_pydatetime() for one in rows.to_pandas()["t"]],
    "polars": lambda rows: rows.to_polars()["t"].to_list(),
    "batches": lambda rows: pa.Table.from_batches(list(rows.batches()))["t"].to_pylist(),
    "reader": lambda rows: rows.reader().read_all()["t"].to_pylist(),
    "stream": lambda rows: pa.table(rows)["t"].to_pylist(),
    "page": lambda rows: first_page(rows)["t"].to_pylist(),
    "duckdb": lambda rows: [one for (one,) in duckdb.sql("select t from rows").fetchall()],
}


@pytest.mark.storage_api("far times")
@pytest.mark.gate(1)
@pytest.mark.parametrize("form", FORMS)
def test_far_times_that_arrive_as_structs_are_read_exactly(table: Table, form: str) -> None:
    """The client repeats a read in microseconds and warns once."""
    for source in (table.read(), table.connection.sql(f"select * from {table.name}")):
        with pytest.warns(OdpsNbWarning, match="in microseconds") as warned:
            assert FORMS[form](source) == TIMES
        assert len(warned) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # after the first read, the unit is known
            if form != "page":  # a page uses a separate read
                assert FORMS[form](source) == TIMES
                assert source.arrow_schema.field("t").type == MICRO


def test_structs_of_near_times_keep_nanoseconds(struct_odps: Connection, new_name: NewName) -> None:
    table = struct_odps.create_table(new_name("near"), "t timestamp")
    table.write(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), progress=False)
    for source in (table.read(), struct_odps.sql(f"select * from {table.name}")):
        for found in (source.to_arrow(), pa.table(source)):
            assert found["t"].type == pa.timestamp("ns")
            assert found["t"].cast(pa.int64()).to_pylist() == [1]


@pytest.mark.storage_api("far times")
def test_the_first_rows_show_far_times_that_arrive_as_structs(table: Table) -> None:
    with pytest.warns(OdpsNbWarning, match="in microseconds"):
        assert [one.to_pydatetime() for one in table.head()["t"]] == TIMES


class FarStructs(Recorder):
    """Sends the times of every read as structs, the first of them in the year 9999."""

    def changed(self, request: Request, answer: Answer) -> bytes:
        if dict(request.params).get("Action") != "TableRead":
            return answer.body
        body = answer.body
        if body.startswith(b"\x28\xb5\x2f\xfd"):
            body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
        rows = pa.ipc.open_stream(body).read_all()
        second = int(TIMES[0].replace(tzinfo=dt.UTC).timestamp())
        kind = pa.struct({"sec": pa.int64(), "nano": pa.int32()})
        times = pa.array([{"sec": second, "nano": 1_999}] * len(rows), kind)
        return ipc(rows.set_column(1, "t", times))


@pytest.mark.storage_api("its requests")
def test_a_session_in_nanoseconds_with_far_times_is_replaced(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(new_name("near"), "id bigint, t timestamp")
    table.write(pa.table({"id": [1], "t": pa.array([1], pa.timestamp("ns"))}), progress=False)
    wanted = TIMES[0] + dt.timedelta(microseconds=1)
    with connect_by(odps, FarStructs) as (near, proxy):
        found = near.table(table.name)
        for ask in (lambda: found.read().to_arrow(), lambda: found.dataset().to_table()):
            proxy.take()
            with pytest.warns(OdpsNbWarning, match="in microseconds"):
                assert ask()["t"].to_pylist() == [wanted]
            sent = [one.action for one in proxy.take()]
            assert sent.count("TableCreateReadSession") == 2
        with pytest.raises(ConversionError, match="'t'") as caught:
            found.read(timestamp_unit="ns").to_arrow()
        assert "timestamp_unit='us'" in str(caught.value.hint)


WHOLE: dict[str, Callable[[Table], pa.Table]] = {
    "to_table": lambda table: table.dataset().to_table(),
    "filtered": lambda table: table.dataset().to_table(filter=pc.field("t") != MIDDLE),
    "head": lambda table: table.dataset().head(2),
    "take": lambda table: table.dataset().take([0, 1]),
}


@pytest.mark.storage_api("far times")
@pytest.mark.parametrize("form", WHOLE)
def test_a_dataset_with_far_times_is_read_in_microseconds(refused: Table, form: str) -> None:
    with pytest.warns(OdpsNbWarning, match="in microseconds") as warned:
        found = WHOLE[form](refused)
    assert len(warned) == 1
    assert found["t"].type == MICRO
    assert found["t"].to_pylist() == TIMES


@pytest.mark.storage_api("far times")
def test_a_filter_with_a_far_time_counts_rows(refused: Table) -> None:
    with pytest.warns(OdpsNbWarning, match="in microseconds"):
        assert refused.dataset().count_rows(filter=pc.field("t") > MIDDLE) == 1


@pytest.mark.storage_api("far times")
def test_streams_with_a_fixed_schema_raise_an_error_that_names_the_option(refused: Table) -> None:
    """The schemas of a polars LazyFrame and of a Dask frame already declare nanoseconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", OdpsNbWarning)
        for ask in (
            lambda: refused.scan_polars().collect(),
            lambda: refused.scan_polars().filter(pl.col("id") > 0).select("t").collect(),
            lambda: list(refused.dataset().to_batches()),
        ):
            with pytest.raises(ConversionError, match="'t'") as caught:
                ask()
            assert "timestamp_unit='us'" in str(caught.value.hint)
        assert refused.scan_polars().select("id").collect()["id"].to_list() == [1, 2]
        found = refused.read(timestamp_unit="us").scan_polars().collect()
        assert found["t"].to_list() == TIMES


class AlwaysOverflows(Recorder):
    """Responds to every read of rows with the error of evidence 152."""

    def changed(self, request: Request, answer: Answer) -> bytes:
        if dict(request.params).get("Action") != "TableRead":
            return answer.body
        return (
            b'{"Code": "ODPS-0422214", '
            b'"Message": "ODPS-0422214: Read data failed - RuntimeTimestamp data overflow"}'
        )


@pytest.mark.storage_api("its requests")
@pytest.mark.parametrize(("unit", "reads"), [(None, 2), ("us", 1), ("ns", 1)])
def test_an_overflow_of_microseconds_is_reported_once(
    odps: Connection, refused: Table, unit: str | None, reads: int
) -> None:
    """Evidence 152: no source says that microseconds always work."""
    with connect_by(odps, AlwaysOverflows) as (connection, proxy), warnings.catch_warnings():
        warnings.simplefilter("error", OdpsNbWarning)
        with pytest.raises(OdpsNbError, match="RuntimeTimestamp") as caught:
            connection.table(refused.name).read(timestamp_unit=unit).to_arrow()
    hint = str(getattr(caught.value, "hint", ""))
    assert ("timestamp_unit='us'" in hint) == (unit == "ns")
    assert ("STRING" in hint) or unit == "ns"
    sent = [one.action for one in proxy.take()]
    assert sent.count("TableRead") == reads
    assert sent.count("TableCreateReadSession") == reads
