"""A write changes only the named partition, whatever characters its value contains.

A table has a partition for each value, created by SQL on the service. Each value that a request can
name is written, read and replaced in every way; other values are rejected before anything is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.binding.literals import literal
from odps_nb.access.writing.replacing import Remainder
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.read.splits import iter_batches
from odps_nb.client.reading import open_read_session
from odps_nb.errors import ArgumentError, NotFoundError, OdpsNbError
from odps_nb.notebook.magics.context import _names_of
from odps_nb.terms import PartitionSpec
from tests.support.named import NewName

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table

State = dict[Any, list[int]]

NAMED = (
    *("b", "B", "a b", "a  b", "%62", "b%20", "a+b", "a&b", "a;b", "a:b#c", "$x", "..", "*", "?"),
    *("None", "nan", "true", "03", "-1", "1.0", "2024-01-01", "__HIVE_DEFAULT_PARTITION__"),
    *("é", "e\u0301", "ß", "a\xa0b", "<b>", "$\\".rstrip("\\"), "{b}", "🙂"),
)
"""What must come back as it is; many differ from another one by what some reader ignores."""
REFUSED = (
    *(" b", "b ", " b ", "\xa0b", "b\u3000", "\u200bb", "b\ufeff", "'b'", '"b"', "'b", "a'b"),
    *("a,b", "a/b", "b=", "=b", "a=b", "a\\b", "b,ds=B", "b/ds=B", "a\tb", "b\n"),
)
"""What some reader of a request takes for another value."""


def by_sql(odps: Connection, name: str, values: tuple[str, ...]) -> None:
    rows = (f"select {at} as id, {literal(value)} as ds" for at, value in enumerate(values))
    odps.sql(f"insert into {name} partition (ds) {' union all '.join(rows)}")


@pytest.fixture(scope="module")
def table(odps: Connection) -> Iterator[Table]:
    name = "partition_values"
    made = odps.create_table(name, "id bigint", partitioned_by="ds string")
    by_sql(odps, name, NAMED + REFUSED)
    yield made.reload()
    odps.drop_table(name)


@pytest.fixture
def requests(odps: Connection, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that this connection sends from now on."""
    sent: list[str] = []
    transport = odps._storage._transport
    send = transport.send

    def record_and_send(request: Any) -> Any:
        sent.append(request.url)
        return send(request)

    monkeypatch.setattr(transport, "send", record_and_send)
    return sent


def ids_by_value(table: Table) -> State:
    found: State = {}
    rows = table.read().to_arrow()
    for number, value in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        found.setdefault(value, []).append(number)
    return found


def by_argument(table: Table, value: str, number: int) -> None:
    table.write(pa.table({"id": [number]}), partition={"ds": value}, overwrite=True)


def by_list(table: Table, value: str, number: int) -> None:
    spec = next(one for one in table.partitions() if dict(one)["ds"] == value)
    table.write(pa.table({"id": [number]}), partition=spec, overwrite=True)


def by_both(table: Table, value: str, number: int) -> None:
    rows = pd.DataFrame({"id": [number], "ds": [value]})
    table.write(rows, partition={"ds": value}, overwrite=True)


def by_pandas(table: Table, value: str, number: int) -> None:
    table.write(pd.DataFrame({"id": [number], "ds": [value]}), overwrite="partitions")


def by_dictionary(table: Table, value: str, number: int) -> None:
    column = pa.array([value]).dictionary_encode()
    table.write(pa.table({"id": [number], "ds": column}), overwrite="partitions")


def by_stream(table: Table, value: str, number: int) -> None:
    rows = pa.table({"id": [number], "ds": [value]})
    table.write(rows.to_reader(), overwrite="partitions")


ROADS = (by_argument, by_list, by_both, by_pandas, by_dictionary, by_stream)


def test_a_write_replaces_only_the_named_partition(table: Table) -> None:
    expected = ids_by_value(table)
    assert set(expected) == {*NAMED, *REFUSED}
    for at, value in enumerate(NAMED):
        road = ROADS[at % len(ROADS)]
        number = 1000 + at
        road(table, value, number)
        expected[value] = [number]
        assert ids_by_value(table) == expected, (road.__name__, value)
        read = table.read(partitions={"ds": value}).to_arrow().to_pylist()
        assert read == [{"id": number, "ds": value}]
        assert table.partitions({"ds": value}) == [PartitionSpec((("ds", value),))]
        assert table.head(partitions=PartitionSpec.of(f"ds='{value}'"))["id"].tolist() == [number]


BY_EACH_ROAD = ("b", "B", "a b", "a  b", "%62", "ß")


@pytest.fixture(scope="module")
def table_of_values(odps: Connection) -> Iterator[Table]:
    name = "partition_values_by_road"
    made = odps.create_table(name, "id bigint", partitioned_by="ds string")
    by_sql(odps, name, BY_EACH_ROAD + REFUSED)
    yield made.reload()
    odps.drop_table(name)


@pytest.mark.gate(3)
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_each_kind_of_overwrite_replaces_only_the_named_partitions(
    table_of_values: Table, road: Callable[[Table, str, int], None]
) -> None:
    expected = ids_by_value(table_of_values)
    for at, value in enumerate(BY_EACH_ROAD):
        number = 100 * (1 + ROADS.index(road)) + at
        road(table_of_values, value, number)
        assert expected[value] != [number]
        expected[value] = [number]
        assert ids_by_value(table_of_values) == expected


@pytest.mark.parametrize(("old", "new"), [("B", "b"), ("007", "7"), ("-0", "0")])
def test_overwrite_all_drops_partitions_whose_values_are_only_similar(
    odps: Connection, new_name: NewName, old: str, new: str
) -> None:
    table = odps.create_table(new_name("similar"), "id bigint", partitioned_by="ds string")
    table.write([(1, old), (2, new), (3, "other")])
    table.write([(4, new)], overwrite="all")
    assert ids_by_value(table) == {new: [4]}
    storage, only_old = odps._storage, PartitionSpec.of({"ds": old})
    table.write([(5, old)], overwrite="all")
    # the service may list a written partition with a value that it has changed
    remainder, written = Remainder(table=table.name, partitions=(only_old,)), f"ds={new}"
    remainder.drop(storage, [PartitionSpec.of(written)])
    assert ids_by_value(table) == {old: [5]}
    odps.drop_table(table.name)
    with pytest.raises(NotFoundError) as caught:  # the partitions can no longer be listed
        remainder.drop(storage, [PartitionSpec.of(written)])
    assert "the rows are committed, but old partitions may remain" in caught.value.__notes__


@pytest.mark.parametrize("value", REFUSED, ids=ascii)
def test_values_that_a_request_cannot_express_are_refused_before_anything_is_sent(
    table: Table, requests: list[str], value: str
) -> None:
    hostile = PartitionSpec((("ds", value),))
    assert hostile in table.partitions()
    table.schema  # noqa: B018  asked for once
    requests.clear()
    for road in (by_argument, by_both, by_pandas, by_dictionary):
        with pytest.raises(ArgumentError, match="no request can express it") as caught:
            road(table, value, -1)
        assert (caught.value.code, bool(caught.value.hint)) == ("InvalidPartitionSpec", True)
    for spec in (hostile, {"ds": value}):
        for look in (
            lambda spec=spec: table.read(partitions=spec),
            lambda spec=spec: table.read(partitions=["ds=b", spec]),
            lambda spec=spec: table.head(partitions=spec),
            lambda spec=spec: table.partitions(spec),
            lambda spec=spec: table.write(pa.table({"id": [1]}), partition=spec),
        ):
            with pytest.raises(ArgumentError, match="no request can express it"):
                look()
    assert requests == []


def test_a_bad_value_late_in_a_stream_of_rows_commits_nothing(
    odps: Connection, table: Table
) -> None:
    before = ids_by_value(table)
    schema = pa.schema([("id", pa.int64()), ("ds", pa.string())])
    values = ["b"] * 20 + [" b"]
    batches = (pa.record_batch([[7], [value]], schema=schema) for value in values)
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    with pytest.raises(ArgumentError, match="' b'"):
        table.write(reader, overwrite="partitions")
    assert ids_by_value(table) == before


def test_a_read_without_partitions_returns_the_rows_of_every_partition(table: Table) -> None:
    total = table.read().to_arrow().num_rows
    assert total == table.read(splits=3).to_pandas().shape[0] == len(NAMED + REFUSED)
    for value in (" b", "b", "'b'", "a,b"):
        found = table.read(where=f"ds = {literal(value)}").to_arrow()
        assert found.column("ds").to_pylist() == [value]


def test_completion_offers_only_partitions_that_a_magic_can_express(
    odps: Connection, table: Table
) -> None:
    offered = {str(PartitionSpec((("ds", value),))) for value in NAMED}
    assert set(_names_of(odps)("partitions", table.name.table)) == offered


@pytest.mark.parametrize(
    "value", ["03", "+3", "3.0", "-0", "٣", "0x3", "1e3", str(2**63), "9" * 5000]
)
def test_a_numeric_partition_value_has_exactly_one_accepted_spelling(
    odps: Connection, new_name: NewName, value: str
) -> None:
    table = odps.create_table(new_name("typed"), "id bigint", partitioned_by="k bigint")
    with pytest.raises(ArgumentError, match="for the partition column") as caught:
        table.write(pa.table({"id": [1]}), partition={"k": value}, overwrite=True)
    assert caught.value.hint
    table.write(pa.table({"id": [1]}), partition={"k": np.int64(3)})
    table.write(pa.table({"id": [2], "k": [3]}), overwrite="partitions")
    assert ids_by_value(table) == {3: [2]}


def test_sql_creates_and_drops_exactly_the_named_partitions(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(new_name("ddl"), "id bigint", partitioned_by="ds string")
    name = table.name.table
    for value in (" b", "b", "b "):
        odps.sql(f"alter table {name} add partition (ds='{value}')")
    odps.sql(f"insert overwrite table {name} partition (ds=' b') values (1)")
    odps.sql(f"insert overwrite table {name} partition (ds='b') values (2)")
    assert ids_by_value(table.reload()) == {" b": [1], "b": [2]}
    odps.sql(f"alter table {name} drop partition (ds='b ')")
    assert Counter(dict(one)["ds"] for one in table.partitions()) == Counter([" b", "b"])
    odps.sql(f"truncate table {name} partition (ds=' b')")
    assert ids_by_value(table) == {"b": [2]}


def test_the_service_stores_exactly_the_received_value(
    odps: Connection, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a client without these checks can change only the partition that it sent."""
    monkeypatch.setattr(PartitionSpec, "checked", lambda self: self)
    for value in (" b", "b ", "'b'", "b="):
        spec = PartitionSpec((("ds", value),))
        plan = ReadPlan(table=table.name, partitions=(spec,))
        rows = iter_batches(odps._storage, open_read_session(odps._storage, plan))
        assert [batch.column("ds").to_pylist() for batch in rows] == [[value]]
    for value in ("b  ", "  b", '"b"b', "B "):
        missing = PartitionSpec((("ds", value),))
        with pytest.raises(NotFoundError):
            open_read_session(odps._storage, ReadPlan(table=table.name, partitions=(missing,)))


@pytest.mark.gate(2)
@pytest.mark.parametrize("value", ["a\x01b", "\x1b[0m", "\ufffe", ""], ids=ascii)
def test_the_service_rejects_partitions_that_it_cannot_list(
    odps: Connection, table: Table, value: str
) -> None:
    name = table.name.table
    with pytest.raises(OdpsNbError, match="partition key 'ds'"):
        by_sql(odps, name, (value,))
    known = table.partitions()
    if value:  # this value would arrive as U+FFFD
        with pytest.raises(ArgumentError, match="control character"):
            odps.sql(f"alter table {name} add partition (ds='{value}')")
    else:
        with pytest.raises(OdpsNbError, match="partition key 'ds'"):
            odps.sql(f"alter table {name} add partition (ds='')")
    assert table.partitions() == known
