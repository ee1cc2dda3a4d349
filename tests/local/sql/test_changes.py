"""UPDATE, DELETE and MERGE: new values have the column's type, and other values are unchanged."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from odps_nb.errors import ServiceError
from odps_nb.wire.calls import WireRequest
from tests.support.named import NewTable
from tests.support.service.peer import Peer

COLUMNS = (
    "n bigint, dc decimal(38,18), v string, nz timestamp_ntz, ts timestamp, d date,"
    " a array<bigint>, s struct<x:bigint>"
)
TRANSACTIONAL = "tblproperties ('transactional'='true')"
BIG, DIGITS = 9007199254740993, "12345678901234567890.123456789012345678"
NANOS = "2024-01-01 00:00:00.123456789"
ROW = (
    f"{BIG}, {DIGITS}, 'keep', timestamp_ntz'{NANOS}', timestamp'{NANOS}', date'2024-01-01',"
    f" array({BIG}), named_struct('x', {BIG})"
)
SHOWN = ("n", "dc", "v", "cast(nz as string)", "cast(ts as string)", "cast(d as string)", "a", "s")
VALUES = ", ".join(f"{one} as c{place}" for place, one in enumerate(SHOWN))
OLD = (BIG, Decimal(DIGITS), "keep", NANOS, NANOS, "2024-01-01", [BIG], {"x": BIG})
UTC = {"odps.sql.timezone": "UTC"}


@pytest.fixture(params=["append", "key"])
def name(new_table: NewTable, request: pytest.FixtureRequest, peer: Peer) -> str:
    """A table with two rows, without and with a primary key."""
    if request.param == "append":
        made = new_table(f"(id bigint, {COLUMNS}) {TRANSACTIONAL}")
    else:
        made = new_table(f"(id bigint not null, {COLUMNS}, primary key (id)) {TRANSACTIONAL}")
    peer.sql(f"insert into {made} values (1, {ROW}), (2, {ROW})", UTC)
    return made


def rows(peer: Peer, name: str) -> list[tuple[Any, ...]]:
    found = peer.query(f"select {VALUES} from {name} order by id limit 9", UTC).to_pylist()
    return [tuple(one.values()) for one in found]


def row(peer: Peer, name: str, number: int) -> tuple[Any, ...]:
    found = peer.query(f"select {VALUES} from {name} where id = {number}", UTC).to_pylist()
    (one,) = found
    return tuple(one.values())


# For each statement, by column: the assigned expression, and the stored value.
SET: list[dict[str, tuple[str, object]]] = [
    {"n": ("cast(n * 1.5 as bigint)", 13510798882111488)},
    {
        "dc": ("1.5e0", Decimal("1.5")),
        "nz": ("cast('2024-05-06 07:08:09' as datetime)", "2024-05-06 07:08:09"),
        "d": ("cast('2024-05-06 07:08:09' as datetime)", "2024-05-06"),
        "a": ("array(1, 2)", [1, 2]),
    },
    {
        "v": ("cast('2024-05-06 07:08:09' as datetime)", "2024-05-06 07:08:09"),
        "ts": ("date'2024-05-06'", "2024-05-06 00:00:00"),
        "s": ("named_struct('x', 1)", {"x": 1}),
    },
    {
        "n": ("'7.9'", 7),
        "dc": ("-0.123456789012345678", Decimal("-0.123456789012345678")),
        "v": ("12", "12"),
        "nz": ("'2024-05-06 07:08:09'", "2024-05-06 07:08:09"),
        "a": ("null", None),
    },
]
PLACES = ("n", "dc", "v", "nz", "ts", "d", "a", "s")
STATEMENTS = {
    "update": "update {name} set {settings} where id = 1",
    "merge": "merge into {name} t using (select 1 as key) q on t.id = q.key"
    " when matched and t.id = 9 then update set v = 'nine'"
    " when matched then update set {settings}",
}


@pytest.mark.gate(1)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_updated_value_is_stored_as_by_insert_and_no_other_value_changes(
    peer: Peer, name: str, statement: str
) -> None:
    """Neither values of other rows nor those of other columns are converted."""
    expected = list(OLD)
    for values in SET:
        for column, (_, stored) in values.items():
            expected[PLACES.index(column)] = stored
        settings = ", ".join(f"{column} = {value}" for column, (value, _) in values.items())
        peer.sql(STATEMENTS[statement].format(name=name, settings=settings), UTC)
        changed, other = rows(peer, name)
        assert _trimmed(changed) == _trimmed(expected), settings
        assert other == OLD, settings


def _trimmed(values: Any) -> list[Any]:
    return [v.rstrip("0").rstrip(".:") if isinstance(v, str) else v for v in values]


def test_one_merge_updates_deletes_and_inserts_values_of_different_types(
    peer: Peer, name: str
) -> None:
    """Each branch has its own expressions for a column."""
    source = " union all ".join(
        f"select {key} as key, cast('2024-05-06 07:08:09' as datetime) as at, {BIG} as n"
        for key in (1, 2, 3)
    )
    peer.sql(
        f"merge into {name} t using ({source}) q on t.id = q.key"
        " when matched and t.id = 2 then delete"
        " when matched then update set v = q.at, n = cast(1 as tinyint)"
        " when not matched then insert (id, v, n) values (q.key, 'fresh', q.n)",
        UTC,
    )
    assert row(peer, name, 1) == (1, OLD[1], "2024-05-06 07:08:09", *OLD[3:])
    assert row(peer, name, 3) == (BIG, None, "fresh", *[None] * 5)
    assert peer.query(f"select count(*) as c from {name}")["c"].to_pylist() == [2]


def test_a_time_is_shown_in_the_session_zone(peer: Peer, name: str) -> None:
    zone = {"odps.sql.timezone": "Asia/Shanghai"}
    at = "cast('2024-05-06 07:08:09' as datetime)"
    peer.sql(f"update {name} set v = {at}, nz = {at}, d = {at}, ts = {at} where id = 1", zone)
    shown = "cast(nz as string), cast(d as string), cast(ts as string)"
    (found,) = peer.query(f"select v, {shown} from {name} where id = 1", zone).to_pylist()
    assert {str(value)[:10] for value in found.values()} == {"2024-05-06"}
    assert [str(value)[11:19] for value in found.values()] == [
        "07:08:09",
        "07:08:09",
        "",
        "07:08:09",
    ]


def test_a_value_that_does_not_fit_is_refused_and_changes_nothing(peer: Peer, name: str) -> None:
    for value in ("'many'", "1e300"):
        with pytest.raises(ServiceError):
            peer.sql(f"update {name} set n = {value} where id = 1")
    assert row(peer, name, 1) == row(peer, name, 2) == OLD


def test_values_of_unchanged_rows_are_not_computed(peer: Peer, name: str) -> None:
    peer.sql(f"update {name} set v = '5' where id = 1")
    peer.sql(f"update {name} set n = cast(v as bigint) where id = 1")
    assert row(peer, name, 1)[0] == 5
    assert row(peer, name, 2) == OLD


def test_a_condition_is_evaluated_once_per_row(peer: Peer, new_table: NewTable) -> None:
    """A second evaluation could return a different value."""
    name = new_table(f"(id bigint, a string, b string) {TRANSACTIONAL}")
    peer.sql(f"insert into {name} select explode(sequence(1, 200)), 'old', 'old'")
    peer.sql(f"update {name} set a = 'new', b = 'new' where rand() < 0.5")
    pairs = peer.query(f"select distinct a, b from {name} order by a limit 9").to_pylist()
    assert pairs == [{"a": "new", "b": "new"}, {"a": "old", "b": "old"}]


def test_rows_keep_their_order(peer: Peer, new_table: NewTable) -> None:
    name = new_table(f"(id bigint, v string) {TRANSACTIONAL}")
    peer.sql(f"insert into {name} values (1, 'a'), (2, 'b'), (3, 'c')")
    peer.sql(f"update {name} set v = 'z' where id in (1, 3)")
    assert peer.read(name).to_pydict() == {"id": [1, 2, 3], "v": ["z", "b", "z"]}


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    "statement",
    [
        "update {name} set n = n + 1 where id = (SLOW)",
        "merge into {name} t using (SLOW) q on t.id = q.key"
        " when matched then update set n = t.n + 1",
    ],
)
def test_concurrent_statements_lose_no_update(peer: Peer, name: str, statement: str) -> None:
    """A statement that read rows which another one has since changed fails with a conflict."""
    peer.sql(f"update {name} set n = 0")
    slow = (
        "select count(distinct md5(x)) - 199999 as key"
        " from (select explode(sequence(1, 200000)) as x) r"
    )
    text = statement.format(name=name).replace("SLOW", slow)
    running = [peer.start(text) for _ in range(4)]
    done = 0
    for one in running:
        (task,) = peer.wait(one).tasks
        if task.status == "Success":
            done += 1
        else:
            assert "was changed while the statement was running" in str(peer.failure(one))
    assert done
    assert row(peer, name, 1)[0] == done


@pytest.mark.parametrize(
    "query",
    [
        "date'2024-01-02' in ('2024-01-02')",
        "date'2024-01-02' in ('2024-01-01', '2024-01-02')",
        "date'2024-01-02' in (date'2024-01-02')",
        "datetime'2024-01-02 00:00:00' in ('2024-01-02 00:00:00')",
        "timestamp'2024-01-02 00:00:00' not in ('2024-01-03 00:00:00')",
        "date'2024-01-02' in (select date'2024-01-02')",
        "date'2024-01-01' in (d)",
        "date'2024-01-01' in (d, date'2000-01-01')",
    ],
)
def test_a_constant_time_is_compared_with_a_list(
    peer: Peer, new_table: NewTable, query: str
) -> None:
    name = new_table("(d date)")
    peer.sql(f"insert into {name} values (date'2024-01-01')")
    assert peer.query(f"select {query} as found from {name}").to_pylist() == [{"found": True}]


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("insert into {} (id) values (3), (4), (5)", 3),
        ("insert into {0} select * from {0} where id > 9", 0),
        ("update {} set v = 'new'", 2),
        ("update {} set v = 'new' where id = 2", 1),
        ("delete from {} where id = 2", 1),
        ("delete from {} where n is null", 0),
        ("delete from {}", 2),
        (
            "merge into {} t using (select 2 as id union all select 7 as id) s on t.id = s.id"
            " when matched then update set v = 'new'"
            " when not matched then insert (id) values (s.id)",
            2,
        ),
        (
            "merge into {} t using (select 1 as id union all select 7 as id) s on t.id = s.id"
            " when matched then delete",
            1,
        ),
        (
            "merge into {} t using (select 1 as id union all select 2 as id) s on t.id = s.id"
            " when matched and t.id = 1 then delete when matched and t.id = 3 then delete",
            1,
        ),
        ("create table {0}_copy lifecycle 1 as select id from {0}", 2),
        ("select * from {}", None),
    ],
)
def test_a_summary_has_the_number_of_changed_rows(
    peer: Peer, name: str, statement: str, changed: int | None
) -> None:
    peer.sql(statement.format(name), UTC)
    path = f"/projects/{peer.service.project}/instances/{peer.last_instance}"
    request = WireRequest(method="GET", path=path, params=(("instancesummary", ""),))
    summary = json.loads(peer.ok(request).json()["Instance"]["JsonSummary"])
    assert [rows for rows, _bytes in summary["Outputs"].values()] == (
        [] if changed is None else [changed]
    )
