"""A table has TIMESTAMPs finer than microseconds or outside the nanosecond range, but not both.

SQL of the embedded service rejects statements that need both, and never truncates stored digits.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from odps_nb.errors import ServiceError
from tests.support.named import NewTable
from tests.support.service.peer import Peer

FINE, FAR = "'2024-01-01 00:00:00.123456789'", "'9999-12-31 00:00:00'"
REFUSED = "range of nanoseconds"
NEEDS_BOTH = (
    "insert into {name} values (2, {far})",
    "insert into {name} values (2, timestamp{far})",
    "update {name} set ts = {far} where id = 2",
    "merge into {name} t using (select 3 as key) q on t.id = q.key"
    " when not matched then insert values (3, {far})",
    "insert overwrite table {name} values (1, {fine}), (2, {far})",
    "insert overwrite table {name} values (1, timestamp{fine}), (2, timestamp{far})",
    "insert overwrite table {name} select 1, {fine} union all select 2, {far}",
    "insert overwrite table {name} select id, cast(x as timestamp)"
    " from (select 1 as id, {fine} as x union all select 2, {far}) q",
    "create table {name}_2 as select cast(x as timestamp) as ts"
    " from (select {fine} as x union all select {far}) q",
)


@pytest.fixture(params=["timestamp", "timestamp_ntz"])
def name(new_table: NewTable, request: pytest.FixtureRequest) -> str:
    properties = "tblproperties ('transactional'='true')"
    return new_table(f"(id bigint, ts {request.param}) {properties}")


def shown(peer: Peer, name: str) -> dict[int, str]:
    rows = peer.query(f"select id, cast(ts as string) as t from {name}").to_pylist()
    return {row["id"]: row["t"] for row in rows}


@pytest.mark.gate(1)
def test_a_statement_that_needs_both_units_is_refused_and_loses_nothing(
    peer: Peer, name: str
) -> None:
    peer.sql(f"insert into {name} values (1, {FINE}), (2, '2024-01-02 00:00:00')")
    before = shown(peer, name)
    assert before[1] == FINE.strip("'")
    for statement in NEEDS_BOTH:
        with pytest.raises(ServiceError, match=REFUSED):
            peer.sql(statement.format(name=name, fine=FINE, far=FAR))
        assert shown(peer, name) == before, statement


@pytest.mark.nightly
def test_two_timestamp_columns_of_a_row_need_the_same_unit(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a timestamp, b timestamp)")
    for query in (
        f"timestamp{FINE} as a, timestamp{FAR} as b",
        f"timestamp{FAR} as a, timestamp{FINE} as b",
    ):
        for statement in (f"insert into {name}", f"create table {name}_2 as"):
            with pytest.raises(ServiceError, match=REFUSED):
                peer.sql(f"{statement} select {query}")
    assert peer.query(f"select * from {name}").num_rows == 0


def test_a_table_may_change_from_one_unit_to_the_other(peer: Peer, name: str) -> None:
    peer.sql(f"insert into {name} values (1, {FINE})")
    peer.sql(f"update {name} set ts = {FAR}")
    peer.sql(f"insert into {name} values (2, '2024-01-01 00:00:00.123456')")
    assert shown(peer, name) == {1: FAR.strip("'"), 2: "2024-01-01 00:00:00.123456"}
    peer.sql(f"insert overwrite table {name} values (1, {FINE})")
    assert shown(peer, name) == {1: FINE.strip("'")}


def test_sql_explains_why_it_cannot_read_a_column_with_both_units(peer: Peer, name: str) -> None:
    """Other columns can be read, and no statement rewrites the rows."""
    peer.write(name, pa.table({"id": [1], "ts": pa.array([1], pa.timestamp("ns"))}))
    far = pa.array([253402214400000000], pa.timestamp("us"))
    peer.write(name, pa.table({"id": [2], "ts": far}))
    assert sorted(peer.query(f"select id from {name}")["id"].to_pylist()) == [1, 2]
    for statement in (
        f"select ts from {name}",
        f"select id from {name} where ts > timestamp'2000-01-01 00:00:00'",
        f"create table {name}_2 as select * from {name}",
        f"insert overwrite table {name} select * from {name}",
        f"delete from {name} where id = 1",
        f"update {name} set id = 3 where id = 1",
    ):
        with pytest.raises(ServiceError, match=r"range of nanoseconds .* read the table"):
            peer.sql(statement)
    assert sorted(peer.query(f"select id from {name}")["id"].to_pylist()) == [1, 2]
