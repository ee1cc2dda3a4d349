"""`scan_polars()` filters with the semantics of polars, and avoids bugs of other polars sources."""

from __future__ import annotations

import datetime
import sys
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from odps_nb.errors import MissingDependencyError
from tests.access.engines.test_dataset import only_session

DAY = pl.col("ds") == "2024-01-02"


COLUMNS = ["id", "weight", "status", "discount", "note", "created", "address"]
COLUMNS += ["quantity", "amount", "tags"]


@pytest.fixture(scope="module")
def in_memory(odps):
    """The rows of one day in memory."""
    scan = odps.table("orders").read(COLUMNS, partitions="ds=2024-01-02")
    return pl.DataFrame(scan.to_arrow())


@pytest.fixture(scope="module")
def zoned_rows(in_shanghai):
    """The times of that day in memory, read by a connection with a time zone."""
    scan = in_shanghai.table("orders").read(["created", "ds"], partitions="ds=2024-01-02")
    return pl.DataFrame(scan.to_arrow())


@pytest.mark.gate(4)
@pytest.mark.parametrize(
    "condition",
    [
        pl.col("weight") > 1,  # NaN is greater in polars, but not in Arrow
        ~pl.col("status").is_in(["paid", "new"]),  # null stays null in polars, but not in Arrow
        pl.col("discount").is_in([0.1, float("nan")]),
        pl.col("note").str.to_uppercase().is_in(["A"]),  # see polars issue 21130
        pl.col("note").str.json_path_match("$.a").is_in(["1"]),
        pl.col("created") >= datetime.datetime(2024, 1, 2, 12),
        pl.col("address").struct.field("city") == "Oslo",
        pl.lit(True),
        pl.lit(False),
    ],
    ids=str,
)
def test_a_filter_selects_the_same_rows_as_in_memory(odps, in_memory, condition):
    found = odps.table("orders").scan_polars().filter(DAY, condition).select("id").collect()
    assert found["id"].sort().equals(in_memory.filter(condition)["id"].sort())


def test_many_concurrent_queries_finish(odps, in_memory):
    """In an earlier version, one read per thread of polars blocked forever (polars issue 24963)."""
    lazy = odps.table("orders").scan_polars().filter(DAY).select(pl.col("quantity").sum())
    found = pl.collect_all([lazy] * (pl.thread_pool_size() + 2))
    assert {one.item() for one in found} == {in_memory["quantity"].sum()}


def test_the_streaming_engine_gives_the_same_rows(odps, in_memory):
    lazy = odps.table("orders").scan_polars().filter(DAY).select("id", "amount", "tags")
    assert lazy.collect(engine="streaming").equals(in_memory.select("id", "amount", "tags"))


@pytest.mark.parametrize("sign", ["__ge__", "__lt__"])
@pytest.mark.parametrize("zone", ["Asia/Shanghai", "UTC", "America/Los_Angeles"])
def test_times_in_a_zone_are_compared_as_instants(in_shanghai, zoned_rows, sign, zone):
    """For Arrow datasets, polars 2.1 shifts the times of a filter by the offset of the zone."""
    table = in_shanghai.table("orders")
    noon = datetime.datetime(2024, 1, 2, 4, tzinfo=datetime.UTC).astimezone(ZoneInfo(zone))
    noon_there = pl.lit(noon).dt.convert_time_zone("Asia/Shanghai")
    condition = getattr(pl.col("created"), sign)(noon_there)
    found = table.scan_polars().filter(DAY, condition).select("created").collect()
    assert found.schema == {"created": pl.Datetime("ms", "Asia/Shanghai")}
    assert 0 < found.height < zoned_rows.height
    assert found["created"].sort().equals(zoned_rows.filter(condition)["created"].sort())


def test_a_lazy_frame_reads_only_its_columns_and_partitions(watched, recorder):
    lazy = watched.table("orders").scan_polars()
    lazy.filter(DAY, pl.col("quantity") >= 9).select("status").collect()
    found = only_session(recorder.take())
    assert found == ({"status", "quantity", "ds"}, ["ds=2024-01-02"], "quantity >= 9")


def test_head_opens_one_session_with_only_its_columns(watched, recorder):
    lazy = watched.table("orders").scan_polars()
    assert lazy.select("priority").head(3).collect().height == 3
    assert only_session(recorder.take()) == ({"priority"}, [], "")


def test_a_lazy_frame_can_be_selected_from_and_joined(odps, in_memory):
    lazy = odps.table("orders").scan_polars().filter(DAY)
    both = lazy.select("id", "shop").join(lazy.select("id", "priority"), on="id")
    assert both.select(pl.len()).collect().item() == in_memory.height


def test_a_filter_that_arrow_cannot_express_applies_to_every_row(odps, in_memory):
    condition = pl.col("status").str.len_chars() == pl.col("quantity")
    found = odps.table("orders").scan_polars().filter(DAY, condition).select("id").collect()
    assert found["id"].sort().equals(in_memory.filter(condition)["id"].sort())


@pytest.mark.parametrize("nulls_equal", [True, False])
@pytest.mark.parametrize("values", [[1, None], [1, 2], [None]], ids=str)
@pytest.mark.parametrize("negated", [True, False])
def test_is_in_matches_nulls_only_if_nulls_are_equal(odps, new_name, values, nulls_equal, negated):
    name = new_name("found_nulls")
    table = odps.create_table(name, "a bigint")
    table.write({"a": [1, 2, 3, None]})
    condition = pl.col("a").is_in(values, nulls_equal=nulls_equal)
    condition = ~condition if negated else condition
    rows = pl.DataFrame(table.read().to_arrow())
    assert table.scan_polars().filter(condition).collect().equals(rows.filter(condition))


def test_without_polars_the_error_says_what_to_install(odps, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError) as caught:
        odps.table("orders").scan_polars()
    assert caught.value.extra == "polars"
    assert "odps-nb[polars]" in caught.value.hint
