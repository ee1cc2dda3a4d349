"""DROP, RENAME and ADD of columns: rows written before and after are read by every route.

A row file keeps the names that it was written with. No later column may show the values of a
dropped or renamed one.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from odps_nb.errors import ServiceError
from odps_nb.terms import RowRangeSplit, SplitMode
from tests.support.named import NewTable
from tests.support.service.peer import Peer

KINDS = {
    "plain": "(id bigint, a string, b double)",
    "partitioned": "(id bigint, a string, b double) partitioned by (ds string)",
    "append": "(id bigint, a string, b double) tblproperties ('transactional'='true')",
    "key": "(id bigint not null, a string, b double, primary key (id))"
    " tblproperties ('transactional'='true')",
}


def insert(peer: Peer, name: str, columns: str, values: str, kind: str) -> None:
    into = "partition (ds='1') " if kind == "partitioned" else ""
    peer.sql(f"insert into {name} {into}({columns}) values {values}")


def rows(peer: Peer, name: str) -> list[tuple[object, ...]]:
    """Return the rows, after checking that every way of reading returns the same ones."""
    read = peer.read(name)
    shown = ", ".join(one for one in read.column_names if one != "ds")
    found = sorted(read.select(shown.split(", ")).to_pylist(), key=lambda row: row["id"])
    assert peer.query(f"select {shown} from {name} order by id limit 99").to_pylist() == found
    return [tuple(row.values()) for row in found]


@pytest.mark.parametrize("kind", KINDS)
def test_no_column_shows_the_values_of_another(peer: Peer, new_table: NewTable, kind: str) -> None:
    name = new_table(KINDS[kind])
    insert(peer, name, "id, a, b", "(1, 'old', 1.5)", kind)
    peer.sql(f"alter table {name} change column a c string comment 'renamed'")
    peer.sql(f"alter table {name} add columns (a string)")
    assert rows(peer, name) == [(1, "old", 1.5, None)]
    insert(peer, name, "id, a, c", "(2, 'a', 'c')", kind)
    peer.sql(f"alter table {name} drop columns b, c")
    peer.sql(f"alter table {name} add columns (c string, b double)")
    assert rows(peer, name) == [(1, None, None, None), (2, "a", None, None)]
    insert(peer, name, "id, a, b, c", "(3, 'x', 2.5, 'y')", kind)
    peer.sql(f"alter table {name} rename column a to b2")
    assert rows(peer, name) == [
        *((1, None, None, None), (2, "a", None, None), (3, "x", "y", 2.5)),
    ]
    assert peer.query(f"select id from {name} where b2 = 'x'").to_pylist() == [{"id": 3}]


@pytest.mark.parametrize("kind", ["append", "key"])
def test_rows_are_changed_after_a_column_was_renamed(
    peer: Peer, new_table: NewTable, kind: str
) -> None:
    name = new_table(KINDS[kind])
    insert(peer, name, "id, a, b", "(1, 'x', 1.5), (2, 'y', 2.5)", kind)
    peer.sql(f"alter table {name} change column a c string")
    peer.sql(f"update {name} set c = concat(c, '!') where id = 1")
    peer.sql(f"delete from {name} where c = 'y'")
    assert rows(peer, name) == [(1, "x!", 1.5)]


def test_an_open_read_session_keeps_its_columns(peer: Peer, new_table: NewTable) -> None:
    name = new_table(KINDS["plain"])
    insert(peer, name, "id, a, b", "(1, 'x', 1.5)", "plain")
    opened = peer.open_read(name, split_mode=SplitMode.ROW_OFFSET)
    peer.sql(f"alter table {name} change column a c string")
    peer.sql(f"alter table {name} drop columns b")
    found = peer.split(name, opened.session_id, RowRangeSplit(0, 1))
    assert found.to_pylist() == [{"id": 1, "a": "x", "b": 1.5}]


def test_a_write_session_from_before_a_rename_fills_the_renamed_column(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table(KINDS["plain"])
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    peer.put(name, session, "0", pa.table({"id": [1], "a": ["x"], "b": [1.5]}))
    peer.close_stream(name, session, "0")
    peer.sql(f"alter table {name} change column a c string")
    peer.commit(name, session)
    assert rows(peer, name) == [(1, "x", 1.5)]


def test_a_text_column_can_become_longer(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(id bigint, a varchar(3))")
    insert(peer, name, "id, a", "(1, 'old')", "plain")
    for kind in ("varchar(5)", "string"):
        peer.sql(f"alter table {name} change column a a {kind}")
        assert rows(peer, name) == [(1, "old")]
    insert(peer, name, "id, a", "(2, 'longer')", "plain")
    assert rows(peer, name) == [(1, "old"), (2, "longer")]


@pytest.mark.parametrize(
    ("definition", "rest", "problem"),
    [
        ("(a bigint, b bigint) partitioned by (ds string)", "drop columns ds", "cannot be dropped"),
        (KINDS["key"], "drop columns id", "cannot be dropped"),
        (KINDS["key"], "change column id k bigint", "cannot be renamed"),
        ("(a bigint, b bigint) clustered by (b)", "drop columns b", "cannot be dropped"),
        (
            "(d date, b bigint) auto partitioned by (trunc_time(d, 'day') as pt)",
            "rename column d to e",
            "cannot be renamed",
        ),
        ("(a bigint, b bigint)", "change column a b bigint", "is used twice"),
        ("(a bigint, b bigint)", "drop columns a, b", "at least one column"),
        ("(a bigint, b bigint)", "drop columns c", "has no column 'c'"),
        ("(a bigint, b bigint)", "change column a c string", "does not support changing the type"),
        ("(a varchar(5))", "change column a a varchar(4)", "does not support changing the type"),
    ],
)
def test_key_columns_partition_columns_and_the_last_column_cannot_be_dropped(
    peer: Peer, new_table: NewTable, definition: str, rest: str, problem: str
) -> None:
    name = new_table(definition)
    before = peer.query(f"desc {name}")
    with pytest.raises(ServiceError, match=problem):
        peer.sql(f"alter table {name} {rest}")
    assert peer.query(f"desc {name}") == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_has_the_rows_of_its_source_and_changes_independently(
    peer: Peer, new_table: NewTable, kind: str
) -> None:
    name = new_table(KINDS[kind])
    insert(peer, name, "id, a, b", "(1, 'x', 1.5)", kind)
    peer.sql(f"alter table {name} change column a c string")
    peer.sql(f"clone table {name} to {name}_2")
    insert(peer, f"{name}_2", "id, c, b", "(2, 'y', 2.5)", kind)
    assert rows(peer, f"{name}_2") == [(1, "x", 1.5), (2, "y", 2.5)]
    peer.sql(f"drop table {name}_2")
    assert rows(peer, name) == [(1, "x", 1.5)]


def test_a_clone_may_have_only_some_partitions(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint) partitioned by (ds string)")
    peer.sql(f"insert into {name} partition (ds) values (1, '1'), (2, '2')")
    peer.sql(f"clone table {name} partition (ds='2') to {name}_2")
    assert peer.read(f"{name}_2").to_pylist() == [{"a": 2, "ds": "2"}]
    with pytest.raises(ServiceError, match="already"):
        peer.sql(f"clone table {name} to {name}_2")
