"""TIMESTAMP_NTZ in SQL with a session time zone: the local time stays unchanged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.client.auth.profile import Profile
from tests.support.named import NewName

CLOCK = dt.datetime(2024, 7, 1, 12, 34, 56)
TEXT = "2024-07-01 12:34:56"


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/New_York"])
def zoned(profile: Profile, request: pytest.FixtureRequest) -> Iterator[Connection]:
    with odps_nb.connect(profile, timezone=request.param) as odps:
        yield odps


@pytest.fixture
def name(zoned: Connection, new_name: NewName) -> str:
    columns = "id bigint, n timestamp_ntz, d datetime, t timestamp, PRIMARY KEY (id)"
    made = new_name("clocks")
    zoned.sql(
        f"create table {made} ({columns.replace('id bigint', 'id bigint not null')})"
        " tblproperties ('transactional'='true')"
    ).wait()
    return made


def clocks(odps: Connection, query: str) -> set[str]:
    """Return the times of the first row as local times of the session."""
    row = odps.sql(query).to_pandas().iloc[0]
    return {str(value)[:19] for value in row}


ROW = [
    f"values (1, timestamp '{TEXT}', timestamp '{TEXT}', timestamp '{TEXT}')",
    f"values (1, datetime '{TEXT}', datetime '{TEXT}', datetime '{TEXT}')",
    f"values (1, timestamp_ntz '{TEXT}', timestamp_ntz '{TEXT}', timestamp_ntz '{TEXT}')",
    f"values (1, '{TEXT}', '{TEXT}', '{TEXT}')",
    "select 1, :v, :v, :v",
    "values (1, :v, :v, :v)",
    "select id, (:v), case when id = 1 then :v end, coalesce(null, :v) from (select 1 as id) q",
    "select 1, :v, :v, :v where false union all select 1, :v, :v, :v",
    "select * from (values (1, :v, :v, :v)) q",
]


@pytest.mark.gate(1)
def test_a_constant_is_the_same_local_time_in_every_column(zoned: Connection, name: str) -> None:
    for row in ROW:
        zoned.sql(f"truncate table {name}").wait()
        zoned.sql(f"insert into {name} {row}", params={"v": CLOCK}).wait()
        assert clocks(zoned, f"select n, d, t from {name}") == {TEXT}, row
        same = zoned.sql(f"select id from {name} where n = :v", params={"v": CLOCK})
        assert same.to_arrow().num_rows == 1, row


COPIED = [
    "insert into {to} select id, d, n, n from {name}",
    "insert into {to} select id, t, n, n from {name}",
    "insert into {to} select id, n, t, d from {name}",
    "insert into {to} (id, d, t, n) select * from {name}",
    "insert into {to} select id, d, n, n from {name} union all select 2, t, n, n from {name}",
    "insert into {to} select id, cast(d as timestamp_ntz), cast(n as datetime),"
    " cast(n as timestamp) from {name}",
    "insert into {to} select id, dateadd(d, 0, 'dd'), n, n from {name}",
    "merge into {to} using {name} s on {to}.id = s.id"
    " when not matched then insert values (s.id, s.d, s.n, s.n)",
]


@pytest.mark.gate(1)
def test_copied_times_keep_their_local_time(
    zoned: Connection, name: str, new_name: NewName
) -> None:
    zoned.sql(f"insert into {name} values (1, '{TEXT}', '{TEXT}', '{TEXT}')").wait()
    to = new_name("copied")
    zoned.sql(
        f"create table {to} (id bigint not null, n timestamp_ntz, d datetime, t timestamp,"
        " PRIMARY KEY (id)) tblproperties ('transactional'='true')"
    ).wait()
    for statement in COPIED:
        zoned.sql(f"truncate table {to}").wait()
        zoned.sql(statement.format(to=to, name=name)).wait()
        assert clocks(zoned, f"select n, d, t from {to} order by id") == {TEXT}, statement


@pytest.mark.gate(1)
def test_an_update_of_a_local_time_changes_only_the_matching_rows(
    zoned: Connection, new_name: NewName
) -> None:
    made = new_name("updated")
    zoned.sql(
        f"create table {made} (id bigint, n timestamp_ntz, d datetime, t timestamp)"
        " tblproperties ('transactional'='true')"
    ).wait()
    values = ("d", "t", ":v", f"datetime '{TEXT}'")
    rows = [f"({row}, {'null' if row else repr(TEXT)}, '{TEXT}', '{TEXT}')" for row in range(5)]
    zoned.sql(f"insert into {made} values {', '.join(rows)}").wait()
    for row, value in enumerate(values, 1):
        text = f"update {made} set n = {value} where id = {row}"
        zoned.sql(text, params={"v": CLOCK}).wait()
        shown = zoned.sql(f"select id, n, d, t from {made} order by id limit 9").to_pandas()
        for id, *times in shown.itertuples(index=False):
            expected = {TEXT} if id <= row else {TEXT, "NaT"}
            assert {str(one)[:19] for one in times} == expected, (value, id)


def test_a_cast_to_timestamp_ntz_is_a_timestamp_ntz(zoned: Connection, name: str) -> None:
    zoned.sql(f"insert into {name} values (1, '{TEXT}', '{TEXT}', '{TEXT}')").wait()
    found = zoned.sql(
        f"select cast(d as timestamp_ntz) as a, cast(t as timestamp_ntz) as b, n as c,"
        f" cast(n as timestamp_ntz) as e,timestamp_ntz '{TEXT}' as g from {name}"
    ).to_arrow()
    assert {str(kind) for kind in found.schema.types} == {"timestamp[ns]"}
    assert set(found.to_pandas().iloc[0].astype(str)) == {TEXT}


@pytest.mark.gate(1)
def test_a_text_is_parsed_in_the_session_zone(zoned: Connection, name: str) -> None:
    zoned.sql(f"insert into {name} values (1, '{TEXT}', '{TEXT}', '{TEXT}')").wait()
    for text in (TEXT, "2024-07-01T12:34:56", "2024-7-1 12:34:56"):
        columns = f"cast('{text}' as datetime) as a, cast('{text}' as timestamp) as b"
        assert clocks(zoned, f"select {columns}, d from {name}") == {TEXT}, text
        equal = " and ".join(f"{column} = '{text}'" for column in ("n", "d", "t"))
        assert zoned.sql(f"select id from {name} where {equal}").to_arrow().num_rows == 1, text
    slashed = "2024/07/01 12:34:56"
    columns = f"cast('{slashed}' as datetime) as a, cast('{slashed}' as timestamp) as b"
    assert clocks(zoned, f"select {columns} from {name}") == {"NaT"}
