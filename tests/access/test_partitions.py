"""``partitions=`` accepts ranges and "latest"; details have rows and size of each partition."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb import Connection, Table
from odps_nb.access.partitions import LATEST, choose_partitions, parse_choices
from odps_nb.errors import ArgumentError, NotFoundError
from odps_nb.terms import PartitionSpec
from odps_nb.wire.control import PartitionInfo
from tests.support.compat.recorder import Recorder
from tests.support.named import NewName

DAYS = ["2023-12-31", "2024-01-01", "2024-01-02", "2024-02-01"]


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> Table:
    """Return a table of four days with the hours 2, 9 and 10; a later day is empty."""
    name = new_name("days")
    made = odps.create_table(name, "id bigint", partitioned_by="ds string, hour bigint")
    rows = [(n, day, hour) for n, day in enumerate(DAYS) for hour in (2, 9, 10)]
    made.write(rows)
    made.add_partition("ds=2024-03-01,hour=1")
    return made


def read(table: Table, partitions: Any) -> list[tuple[str, int]]:
    found = table.read(["ds", "hour"], partitions=partitions).to_arrow().to_pylist()
    return sorted((row["ds"], row["hour"]) for row in found)


def days(*numbers: int, hours: tuple[int, ...] = (2, 9, 10)) -> list[tuple[str, int]]:
    return [(DAYS[n], hour) for n in numbers for hour in hours]


@pytest.mark.gate(8)
@pytest.mark.parametrize(
    ("partitions", "wanted"),
    [
        ("latest", days(3)),
        (" LATEST ", days(3)),
        ("ds>=2024-01-02", days(2, 3)),
        ("ds > 2024-01-02", days(3)),
        ("ds<'2024-01-01'", days(0)),
        ("DS<=2024-01-01", days(0, 1)),
        ("ds>=2024-01-01,ds<2024-02-01", days(1, 2)),
        ("ds>=2024-01-01/ds<2024-02-01/hour=9", days(1, 2, hours=(9,))),
        ("hour=9,ds>=2024-01-02", days(2, 3, hours=(9,))),
        ("hour>=9", days(0, 1, 2, 3, hours=(9, 10))),  # numbers, not texts
        ("hour<10,ds=2024-01-01", days(1, hours=(2, 9))),
        ({"ds >=": datetime.date(2024, 1, 2)}, days(2, 3)),
        ({"ds": datetime.date(2024, 1, 1), "hour": 9}, days(1, hours=(9,))),
        ({"ds>": "2024-01-01", "ds <": "2024-02-01", "hour": 2}, days(2, hours=(2,))),
        (["latest", "ds<2024-01-01"], days(0, 3)),
        (["ds=2024-01-01", "ds<=2024-01-01"], days(0, 1)),
        (["latest", PartitionSpec.of("ds=2024-02-01")], days(3)),
        ("ds=2024-01-01", days(1)),
        (None, days(0, 1, 2, 3)),
    ],
    ids=str,
)
def test_a_read_chooses_partitions(table: Table, partitions: Any, wanted: Any) -> None:
    assert read(table, partitions) == wanted
    head = table.head(100, partitions=partitions)
    assert sorted(zip(head.ds, head.hour, strict=True)) == wanted


def test_a_plan_keeps_the_partitions_that_existed_at_planning(table: Table) -> None:
    scan = table.read(partitions="ds>2024-01-01")
    table.write([(9, "2024-05-01", 1)])
    assert scan.row_count == 6
    assert table.read(partitions="ds>2024-01-01").row_count == 7
    assert [str(one) for one in table.read(partitions="latest")._plan.partitions] == [
        "ds=2024-05-01"
    ]


@pytest.mark.parametrize(
    ("partitions", "kind", "said"),
    [
        ("ds>2024-09-01", NotFoundError, "no partition of .* matches ds>2024-09-01"),
        (["latest", "ds<'2000'"], NotFoundError, "no partition of .* matches ds<'2000'"),
        ("dss>=1", ArgumentError, "'dss' is not a partition column"),
        ("hour>=ten", ArgumentError, "'ten' cannot be compared with .* 'hour' of type BIGINT"),
        ("ds>=", ArgumentError, "is not a partition level"),
        ("ds<>2024-01-01", ArgumentError, "is not one comparison"),
        ("ds>=2024-01-01 and ds<2024-02-01", ArgumentError, "is not one comparison"),
        ({"ds <>": "2024-01-01"}, ArgumentError, "is not one comparison"),
        ("hour>=1_0", ArgumentError, "'1_0' cannot be compared with .* 'hour' of type BIGINT"),
        ("ds>=2024,dss=1", ArgumentError, "'dss' is not a partition column"),
        ("last", ArgumentError, "is not a partition level"),
        ({"ds >= 2024": "x"}, ArgumentError, "already has a value"),
        ({"ds >=": 1.5}, ArgumentError, "value of type float"),
        (
            {"ds": datetime.date(2024, 9, 1)},
            NotFoundError,
            "no partition of .* matches ds=2024-09-01",
        ),
        ({"ds": datetime.datetime(2024, 1, 1)}, ArgumentError, "value of type datetime"),
        (5, ArgumentError, "a value of type int is not a partition"),
        (b"ds=2024-01-01", ArgumentError, "a value of type bytes is not a partition"),
    ],
    ids=str,
)
def test_a_partition_choice_without_a_match_raises_an_error_and_reads_nothing(
    table: Table, partitions: Any, kind: Any, said: str
) -> None:
    for use in (table.read, lambda **arguments: table.head(5, **arguments)):
        with pytest.raises(kind, match=said) as refused:
            use(partitions=partitions)
        assert refused.value.hint


def test_tables_without_partitions_or_rows_are_refused(odps: Connection, new_name: NewName) -> None:
    plain = odps.create_table(new_name("plain"), "id bigint")
    for choice in ("latest", "ds>1", "ds=1"):
        with pytest.raises(ArgumentError, match="is not partitioned"):
            plain.read(partitions=choice)
    empty = odps.create_table(new_name("empty"), "id bigint", partitioned_by="ds string")
    with pytest.raises(NotFoundError, match="the table has no partitions"):
        empty.read(partitions="ds>1")
    empty.add_partition("ds=1")
    with pytest.raises(NotFoundError, match=r"no partition of .* has rows"):
        empty.read(partitions="latest")
    for made in (plain, empty):
        odps.drop_table(made.name)


def test_the_latest_partition_has_the_largest_number(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("numbers"), "id bigint", partitioned_by="n int")
    table.write([(1, 9), (2, 10)])
    assert table.read(["id"], partitions="latest").to_arrow().column("id").to_pylist() == [2]


def test_exact_partitions_are_read_without_a_list(watched: Connection, recorder: Recorder) -> None:
    table = watched.table("orders")
    table.schema  # noqa: B018
    recorder.take()
    table.read(partitions=["ds=2024-01-01", {"ds": "2024-01-02"}])
    assert not recorder.take()
    table.read(partitions=["ds>2024-01-01", "latest"])
    assert ["partitions" in dict(one.params) for one in recorder.take()] == [True]


@pytest.mark.parametrize("rows", [0, 3])
def test_without_sizes_in_the_list_the_latest_partitions_are_requested_separately(
    table: Table, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """The protocol's list of partitions may have names only (``docs/protocol.md`` section 9.3)."""
    infos = [PartitionInfo(spec=spec) for spec in table.partitions()]
    monkeypatch.setattr("odps_nb.client.catalog.iter_partitions", lambda *_, **__: iter(infos))
    if rows:
        table.write([(n, "2024-03-01", 1) for n in range(rows)])
    found = choose_partitions(LATEST, table.schema, table.name, table.connection._storage)
    assert [str(one) for one in found] == [f"ds={'2024-03-01' if rows else DAYS[-1]}"]


def test_comparison_signs_inside_a_partition_value_are_part_of_the_value() -> None:
    assert parse_choices("ds=a>b") == (PartitionSpec((("ds", "a>b"),)),)
    assert parse_choices({"ds": "latest"}) == (PartitionSpec((("ds", "latest"),)),)


def test_details_of_partitions_contain_row_and_byte_counts(table: Table) -> None:
    found = {one.partition: one for one in table.partition_details()}
    assert list(found) == [str(spec) for spec in table.partitions()]
    full, empty = found["ds=2024-01-01,hour=9"], found["ds=2024-03-01,hour=1"]
    assert (full.rows, empty.rows, empty.bytes) == (1, 0, 0)
    assert full.bytes
    now = datetime.datetime.now(datetime.UTC)
    for one in found.values():
        assert one.created is not None
        assert one.modified is not None
        assert now - datetime.timedelta(hours=1) < one.created <= one.modified <= now
    assert len(table.partition_details("ds=2024-01-01")) == 3
    assert pd.DataFrame(list(found.values())).rows.sum() == 12


def test_details_require_a_partitioned_table(odps: Connection, new_name: NewName) -> None:
    plain = odps.create_table(new_name("plain"), "id bigint")
    with pytest.raises(ArgumentError, match="is not partitioned"):
        plain.partition_details()


@pytest.mark.storage_api("blobs")
def test_blobs_and_datasets_accept_partition_choices(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("blobs"), "content blob", partitioned_by="ds string")
    table.write([{"content": day.encode(), "ds": day} for day in DAYS])
    assert [one.bytes() for one in table.blobs(partitions="latest")] == [DAYS[-1].encode()]
    assert len(table.blobs(partitions="ds<2024-01-02")) == 2
    found = table.read(["ds"], partitions="ds<2024-01-02").dataset().to_table()
    assert sorted(found.column("ds").to_pylist()) == DAYS[:2]
    assert isinstance(found, pa.Table)


COMPACT = ["20240101", "20240102", "20240103"]
DASHED = ["2024-01-01", "2024-01-02", "2024-01-03"]
HOURS = ["00", "08", "09", "10"]
DAY_BOUNDS: list[Any] = [
    {"ds >=": datetime.date(2024, 1, 2)},
    "ds>=2024-01-02",
    "ds>='2024-01-02'",
    "ds>=20240102",
    {"ds >=": "20240102"},
]


@pytest.mark.parametrize(
    ("values", "bound", "wanted"),
    [
        *((days, bound, days[1:]) for days in (COMPACT, DASHED) for bound in DAY_BOUNDS),
        *((days, {"ds": datetime.date(2024, 1, 2)}, days[1:2]) for days in (COMPACT, DASHED)),
        (HOURS, {"ds >=": 9}, HOURS[2:]),
        (HOURS, "ds>=9", HOURS[2:]),
        (HOURS, "ds<10", HOURS[:3]),
        (HOURS, "ds>='09'", HOURS[2:]),
        (["1", "9", "10"], {"ds >=": 9}, ["10", "9"]),
        (["1", "9", "10"], {"ds >=": "9"}, ["9"]),
        (["2024-01", "2024-02"], "ds>=2024-02", ["2024-02"]),
        (["2024-01-01 05", "2024-01-02 05"], "ds>=2024-01-02", ["2024-01-02 05"]),
        ([*COMPACT, "__HIVE_DEFAULT_PARTITION__"], "ds>=2024-01-03", COMPACT[2:]),
        (["a", "b"], "ds>a", ["b"]),
        (["1_10", "1_9"], "ds>=1_9", ["1_9"]),
        (["2024010203", "2024010303"], "ds>='20240103'", ["2024010303"]),
        (["5", "20240103"], "ds>=20240102", ["20240103"]),
        ([COMPACT[0], "all"], {"ds >=": "20240102"}, ["all"]),
    ],
    ids=str,
)
def test_days_numbers_and_text_are_compared_as_in_sql(
    odps: Connection, new_name: NewName, values: list[str], bound: Any, wanted: list[str]
) -> None:
    assert _values_read(odps, new_name("texts"), values, bound) == wanted


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        ([COMPACT[0], DASHED[1]], {"ds >=": datetime.date(2024, 1, 2)}),
        ([COMPACT[0], DASHED[1]], {"ds": datetime.date(2024, 1, 2)}),
        ([COMPACT[0], DASHED[1]], "ds>=20240102"),
        ([COMPACT[0], DASHED[1]], {"ds >=": "20240102"}),
        ([COMPACT[0], DASHED[1]], "ds>='2024-01-02'"),
        (HOURS, {"ds >=": datetime.date(2024, 1, 2)}),
        (["a", "b"], {"ds >=": 9}),
        (["2024010203", "2024010303"], "ds>=20240103"),
        (["202401", "202402"], {"ds <": 20240201}),
        (DASHED, "ds>=2024"),
        (COMPACT, "ds>=2024-01"),
    ],
    ids=str,
)
def test_a_bound_in_another_format_than_the_values_is_refused(
    odps: Connection, new_name: NewName, values: list[str], bound: Any
) -> None:
    with pytest.raises(ArgumentError, match="cannot be compared with the values") as caught:
        _values_read(odps, new_name("forms"), values, bound)
    hint = caught.value.hint
    assert hint is not None
    if "in quotes" in hint:
        _values_read(odps, new_name("quoted"), values, hint.rpartition(": ")[2])
    else:
        assert "where=" in hint


def _values_read(odps: Connection, name: str, values: list[str], bound: Any) -> list[str]:
    table = odps.create_table(name, "id bigint", partitioned_by="ds string")
    try:
        table.write([(n, value) for n, value in enumerate(values)])
        return sorted(table.read(["ds"], partitions=bound).to_arrow()["ds"].to_pylist())
    finally:
        odps.drop_table(name)
