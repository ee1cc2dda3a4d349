"""Text, local times and instants in SQL, in three time zones, compared with a model.

The model uses `zoneinfo`: a row has an instant, and the local time of the session at that instant.
The model computes the result of each expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from odps_nb.errors import QueryError
from odps_nb.local.server.launch import LocalService
from tests.support.named import NewTable
from tests.support.service.peer import Peer, make_table

ZONES = ("UTC", "Asia/Shanghai", "America/New_York")
FORMAT = "%Y-%m-%d %H:%M:%S"
MOMENTS = (
    "2024-07-01 20:30:05",
    "2024-02-29 17:00:00",  # 1 March in Shanghai
    "1969-12-31 23:59:59",
    "2024-11-03 05:30:00",  # 01:30 in New York for the first time
    "2024-11-03 06:30:00",  # 01:30 in New York for the second time
    "2024-03-10 06:59:59",  # the last second before New York's clocks skip an hour
    "2024-03-10 07:00:00",
    "9999-12-31 12:00:00",
)
NANOS = "123456789"


@dataclass(frozen=True)
class Row:
    """One row of the table: an instant in UTC, without a zone, and the session's zone."""

    at: datetime
    zone: str

    @property
    def clock(self) -> datetime:
        """The local time of the session."""
        shown = self.at.replace(tzinfo=UTC).astimezone(ZoneInfo(self.zone))
        return shown.replace(tzinfo=None, fold=0)

    @property
    def text(self) -> str:
        """The column ``s``."""
        return self.clock.strftime(FORMAT)

    @property
    def day(self) -> date:
        """The column ``d``."""
        return self.clock.date()

    def read(self, clock: datetime | date) -> datetime:
        """Return the instant of a local time in the session's zone; if there are two, the first."""
        if not isinstance(clock, datetime):
            clock = datetime(clock.year, clock.month, clock.day)
        moment = clock.replace(tzinfo=ZoneInfo(self.zone)).astimezone(UTC)
        return moment.replace(tzinfo=None)

    def instant_of(self, clock: datetime) -> datetime:
        """Return the instant of a computed local time, preferably with the row's own offset."""
        same = clock - (self.clock - self.at)
        return same if Row(same, self.zone).clock == clock else self.read(clock)


def epoch(at: datetime) -> int:
    return int((at - datetime(1970, 1, 1)).total_seconds())


def month_later(clock: datetime) -> datetime:
    year, month = clock.year + clock.month // 12, clock.month % 12 + 1
    last = (datetime(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day
    return clock.replace(year=year, month=month, day=min(clock.day, last))


Expected = Callable[[Row], Any]

# Text: functions of characters use the local time.
SHOWN: dict[str, Expected] = {
    "dt || ''": lambda r: r.text,
    "'at ' || dt || s": lambda r: f"at {r.text}{r.text}",
    "n || ''": lambda r: r.text,
    "d || s": lambda r: f"{r.day}{r.text}",
    "concat('<', dt, '>')": lambda r: f"<{r.text}>",
    "concat_ws('|', dt, s)": lambda r: f"{r.text}|{r.text}",
    "cast(dt as string)": lambda r: r.text,
    "substr(dt, 12, 5)": lambda r: r.text[11:16],
    "length(dt)": lambda r: 19,
    "upper(dt)": lambda r: r.text,
    "replace(dt, '-', '/')": lambda r: r.text.replace("-", "/"),
    "regexp_replace(dt, ':..$', '')": lambda r: r.text[:-3],
    "split(dt, ' ')[1]": lambda r: r.text[11:],
    "instr(dt, ':30')": lambda r: r.text.find(":30") + 1,
    "md5(dt) = md5(s)": lambda r: True,
    "dt like '2024-11-03 01:%'": lambda r: r.text.startswith("2024-11-03 01:"),
    "dt rlike '0:00$'": lambda r: r.text.endswith("0:00"),
    "'2024' like substr(dt, 1, 4)": lambda r: r.text.startswith("2024"),
    "concat_ws(',', array(dt, dt))": lambda r: f"{r.text},{r.text}",
    "cast(array(dt) as array<string>)": lambda r: [r.text],
    "to_json(array(dt))": lambda r: f'["{r.text}"]',
    "to_json(dt)": lambda r: f'"{r.text}"',
    "to_char(dt, 'yyyymmdd hh:mi')": lambda r: r.clock.strftime("%Y%m%d %H:%M"),
    "date_format(dt, 'yyyy-MM-dd HH')": lambda r: r.clock.strftime("%Y-%m-%d %H"),
    "(case when id > 0 then dt end) || ''": lambda r: r.text,
}
# Choices: if one value is text, all values become text.
CHOSEN: dict[str, Expected] = {
    "case when id > 0 then dt else s end": lambda r: r.text,
    "case when id > 0 then dt else 'none' end": lambda r: r.text,
    "case when id > 0 then s else dt end": lambda r: r.text,
    "if(id > 0, dt, s)": lambda r: r.text,
    "coalesce(dt, s)": lambda r: r.text,
    "nvl(dt, 'none')": lambda r: r.text,
    "coalesce(d, s)": lambda r: str(r.day),
    "decode(id, -1, s, dt)": lambda r: r.text,
    "case when id > 0 then dt end": lambda r: r.at,
    "case when id < 0 then dt else d end": lambda r: r.read(r.day),
    "if(id > 0, n, dt)": lambda r: r.read(r.clock),
    "coalesce(null, dt)": lambda r: r.at,
    "nvl2(id, dt, null)": lambda r: r.at,
    "nvl2(dt, dt, s)": lambda r: r.text,
    "greatest(dt, '0001-01-02 00:00:00')": lambda r: r.at,
    "least(dt, s)": lambda r: min(r.at, r.read(r.clock)),
    "lag(dt, 100, s) over (order by id)": lambda r: r.read(r.clock),
    "array(dt, s)": lambda r: [r.at, r.read(r.clock)],
}
# Comparisons: text is converted to an instant; in a repeated hour, to the first instant.
COMPARED: dict[str, Expected] = {
    "dt = s": lambda r: r.at == r.read(r.clock),
    "s <> dt": lambda r: r.at != r.read(r.clock),
    "dt in (s)": lambda r: r.at == r.read(r.clock),
    "s in (dt, '2000-01-01 00:00:00')": lambda r: r.at == r.read(r.clock),
    "dt between s and s": lambda r: r.at == r.read(r.clock),
    "dt >= d": lambda r: True,
    "dt in (n)": lambda r: r.at == r.read(r.clock),
    "dt = '2024-11-03 01:30:00'": lambda r: r.at == r.read(datetime(2024, 11, 3, 1, 30)),
    "dt = '2024-11-03T01:30:00'": lambda r: r.at == r.read(datetime(2024, 11, 3, 1, 30)),
    "dt = '2024-11-03 14:30:00+08:00'": lambda r: r.at == datetime(2024, 11, 3, 6, 30),
    "dt > '2024-03-10 02:30:00'": lambda r: r.at > r.read(datetime(2024, 3, 10, 2, 30)),
    "dt < '9999-12-31 18:00:00'": lambda r: r.at < r.read(datetime(9999, 12, 31, 18)),
    "array_contains(array(dt), s)": lambda r: r.at == r.read(r.clock),
    "dt in (select s from T)": lambda r: r.at == r.read(r.clock) or _listed(r),
    "s in (select dt from T)": lambda r: True,
    "(dt, id) in (select s, id from T)": lambda r: r.at == r.read(r.clock),
}
# Parts of a time, and date arithmetic.
COMPUTED: dict[str, Expected] = {
    **{f"{part}(dt)": partial(_part := lambda part, r: getattr(r.clock, part), part)
       for part in ("year", "month", "day", "hour", "minute", "second")},
    **{f"{part}(s)": partial(_part, part) for part in ("year", "hour", "minute", "second")},
    "extract(hour from dt)": lambda r: r.clock.hour,
    "extract(day from dt)": lambda r: r.clock.day,
    "extract(hour from s)": lambda r: r.clock.hour,
    "quarter(dt)": lambda r: (r.clock.month + 2) // 3,
    "weekday(dt)": lambda r: r.clock.weekday(),
    "weekofyear(dt)": lambda r: r.clock.isocalendar().week,
    "datepart(dt, 'hh')": lambda r: r.clock.hour,
    "to_date(dt)": lambda r: r.day,
    "cast(dt as date)": lambda r: r.day,
    "date_sub(dt, 1)": lambda r: r.day - timedelta(days=1),
    "last_day(date_sub(dt, 0)) >= to_date(dt)": lambda r: True,
    "datetrunc(dt, 'hh')": lambda r: r.instant_of(r.clock.replace(minute=0, second=0)),
    "datetrunc(dt, 'dd')": lambda r: r.instant_of(r.clock.replace(hour=0, minute=0, second=0)),
    "datetrunc(s, 'dd')": lambda r: r.read(r.day),
    "dateadd(dt, -1, 'dd')": lambda r: r.instant_of(r.clock - timedelta(days=1)),
    "dateadd(dt, -1, 'hh')": lambda r: r.at - timedelta(hours=1),
    "dateadd(dt, -90, 'mi')": lambda r: r.at - timedelta(minutes=90),
    "dt - interval '1' hour": lambda r: r.at - timedelta(hours=1),
    "dt - interval '1 02:03:04' day to second": lambda r: r.at - timedelta(1, 7384),
    "datediff(dt, s, 'dd')": lambda r: 0,
    "datediff(dt, '2024-01-01 00:00:00', 'dd')": lambda r: (r.day - date(2024, 1, 1)).days,
    "unix_timestamp(dt)": lambda r: epoch(r.at),
    "unix_timestamp(s)": lambda r: epoch(r.read(r.clock)),
    "to_millis(dt)": lambda r: epoch(r.at) * 1000,
    "from_unixtime(unix_timestamp(dt))": lambda r: r.at,
    "to_char(from_unixtime(unix_timestamp(dt)), 'hh')": lambda r: r.clock.strftime("%H"),
    "cast(s as datetime)": lambda r: r.read(r.clock),
    "cast(s as timestamp)": lambda r: r.read(r.clock),
    "cast(s as timestamp_ntz)": lambda r: r.clock,
    "cast(n as datetime)": lambda r: r.read(r.clock),
    "cast(d as timestamp)": lambda r: r.read(r.day),
    "cast(concat(s, '+05:30') as datetime)": lambda r: r.clock - timedelta(hours=5.5),
    "cast(concat(s, ' -03:00') as timestamp)": lambda r: r.clock + timedelta(hours=3),
    "cast(concat(s, 'Z') as timestamp)": lambda r: r.clock,
    "cast(concat(s, 'x') as datetime)": lambda r: None,
}  # fmt: skip
EXPRESSIONS = {**SHOWN, **CHOSEN, **COMPARED, **COMPUTED}


def _listed(row: Row) -> bool:
    """Whether the text of another row is parsed as this row's instant."""
    return any(row.at == Row(one, row.zone).read(Row(one, row.zone).clock) for one in instants())


def instants() -> list[datetime]:
    return [datetime.fromisoformat(one) for one in MOMENTS]


@pytest.fixture(scope="module", params=ZONES)
def session(request: pytest.FixtureRequest, bare: LocalService) -> Iterator[tuple[str, Peer, str]]:
    """A zone, a client, and a table with the instants."""
    peer, zone = Peer(bare), str(request.param)
    name = make_table(peer, "(id bigint, dt datetime, n timestamp_ntz, s string, d date)")
    rows = [Row(one, zone) for one in instants()]
    table = {
        "id": pa.array(range(1, len(rows) + 1), pa.int64()),
        "dt": pa.array([row.at for row in rows], pa.timestamp("ms")),
        "n": pa.array([row.clock for row in rows], pa.timestamp("us")),
        "s": [row.text for row in rows],
        "d": pa.array([row.day for row in rows], pa.date32()),
    }
    peer.write(name, pa.table(table))
    yield zone, peer, name
    peer.session.close()


def query(peer: Peer, zone: str, text: str) -> list[Any]:
    """Return the only column of a query; instants are in UTC, without a zone."""
    return values(peer.query(text, {"odps.sql.timezone": zone}).column(0))


def values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; instants are in UTC, without a zone."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us"), safe=False)
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


@pytest.fixture(scope="module")
def answers(session: tuple[str, Peer, str]) -> dict[str, list[Any]]:
    """Return the result of each expression; one query has all of them as its columns."""
    zone, peer, name = session
    shown = (
        f"{expression.replace('T)', f'{name})')} AS v{place}"
        for place, expression in enumerate(EXPRESSIONS)
    )
    found = peer.query(
        f"SELECT {', '.join(shown)} FROM {name} ORDER BY id;", {"odps.sql.timezone": zone}
    )
    return {one: values(column) for one, column in zip(EXPRESSIONS, found.columns, strict=True)}


@pytest.mark.gate(10)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_agrees_with_the_model_of_the_session_zone(
    session: tuple[str, Peer, str], answers: dict[str, list[Any]], expression: str
) -> None:
    expected = [EXPRESSIONS[expression](Row(one, session[0])) for one in instants()]
    assert answers[expression] == expected


@pytest.mark.parametrize("shown", ["k || ''", "x.k || ''", "cast(k AS string)", "concat_ws('', k)"])
def test_elements_of_an_array_use_the_session_zone(
    session: tuple[str, Peer, str], shown: str
) -> None:
    zone, peer, name = session
    text = f"SELECT {shown} AS v FROM {name} LATERAL VIEW explode(array(dt)) x AS k WHERE id = 5;"
    assert query(peer, zone, text) == [Row(instants()[4], zone).text]


@pytest.mark.gate(6)
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("SELECT dt AS v FROM T UNION ALL SELECT s FROM T", lambda r: [r.at, r.read(r.clock)]),
        ("SELECT s AS v FROM T UNION ALL SELECT dt FROM T", lambda r: [r.read(r.clock), r.at]),
        ("SELECT dt AS v FROM T UNION ALL SELECT d FROM T", lambda r: [r.at, r.read(r.day)]),
        ("SELECT n AS v FROM T UNION ALL SELECT dt FROM T", lambda r: [r.read(r.clock), r.at]),
        (
            "SELECT dt AS v FROM T UNION ALL SELECT '2024-11-03 01:30:00'",
            lambda r: [r.at, r.read(datetime(2024, 11, 3, 1, 30))],
        ),
        (
            "SELECT v FROM (SELECT dt AS v FROM T UNION ALL SELECT null) q",
            lambda r: [r.at, None],
        ),
    ],
)
def test_a_set_operation_with_an_instant_gives_instants(
    session: tuple[str, Peer, str], rows: str, expected: Expected
) -> None:
    zone, peer, name = session
    one = f"(SELECT * FROM {name} WHERE id = 5) t"
    rows = rows.replace("FROM T", f"FROM {one}")
    row = Row(instants()[4], zone)
    found = query(peer, zone, f"{rows};")
    assert sorted(found, key=str) == sorted(expected(row), key=str)
    outer = query(peer, zone, f"SELECT v || '' FROM ({rows}) outer_rows;")
    shown = [None if v is None else Row(v, zone).text for v in expected(row)]
    assert sorted(outer, key=str) == sorted(shown, key=str)


TARGETS = ("s string", "d date", "n timestamp_ntz", "dt datetime", "p string")


@pytest.mark.parametrize("values", ["dt, dt, dt, dt, dt", "s, d, n, s, s", "*"])
def test_values_are_inserted_in_the_session_zone(
    session: tuple[str, Peer, str], values: str
) -> None:
    zone, peer, name = session
    into = make_table(peer, f"({', '.join(TARGETS)})")
    source = (
        name
        if values != "*"
        else f"(SELECT dt AS a, dt AS b, dt AS c, dt AS e, dt AS f FROM {name} WHERE id = 5) q"
    )
    where = "" if values == "*" else " WHERE id = 5"
    zoned = {"odps.sql.timezone": zone}
    peer.sql(f"INSERT INTO {into} SELECT {values} FROM {source}{where};", zoned)
    row = Row(instants()[4], zone)
    stored = row.at if "dt" in values or values == "*" else row.read(row.clock)
    found = peer.query(f"SELECT s, d, n, dt, p FROM {into};", zoned).to_pylist()[0]
    assert {key: _plain(value) for key, value in found.items()} == {
        "s": row.text,
        "d": row.day,
        "n": row.clock,
        "dt": stored,
        "p": row.text,
    }


SUFFIXES = ("", "Z", "+08:00")


@pytest.mark.parametrize("zone", ZONES)
def test_text_of_a_column_keeps_its_nanoseconds(bare: LocalService, zone: str) -> None:
    peer = Peer(bare)
    name = make_table(peer, "(ts timestamp, n timestamp_ntz, f string)")
    texts = [f"2024-07-01 20:30:05.{NANOS}{suffix}" for suffix in SUFFIXES]
    zoned = {"odps.sql.timezone": zone}
    values = ", ".join(f"('{text}', '{text}', '{text}')" for text in texts)
    peer.sql(f"INSERT INTO {name} VALUES {values};", zoned)
    peer.sql(f"INSERT INTO {name} SELECT f, f, f FROM {name};", zoned)
    clock = datetime(2024, 7, 1, 20, 30, 5)
    instants = [Row(clock, zone).read(clock), clock, clock - timedelta(hours=8)]
    read = peer.query(
        f"SELECT ts, cast(f AS timestamp) AS c, cast(f AS timestamp_ntz) AS n, ts = f AS same,"
        f" n AS m, f FROM {name};",
        zoned,
    )
    assert sorted(read.column("f").to_pylist()) == sorted(texts * 2)
    for column in ("ts", "c", "n", "m"):
        nanos = read.column(column).cast(pa.int64()).to_pylist()
        for text, found in zip(read.column("f").to_pylist(), nanos, strict=True):
            seconds = instants[texts.index(text)] if column in ("ts", "c") else clock
            assert found == epoch(seconds) * 10**9 + int(NANOS), (column, text)
    assert read.column("same").to_pylist() == [True] * 6
    peer.session.close()


@pytest.mark.parametrize("zone", ZONES)
def test_text_of_years_outside_the_nanosecond_range_is_read_in_microseconds(
    bare: LocalService, zone: str
) -> None:
    peer = Peer(bare)
    zoned = {"odps.sql.timezone": zone}
    name = make_table(peer, "(ts timestamp, f string) TBLPROPERTIES ('transactional'='true')")
    far, near = datetime(9999, 12, 30, 12, 0, 0, 250_000), datetime(2024, 7, 1)
    texts = [str(far), str(near)]
    peer.sql(f"INSERT INTO {name} VALUES (null, '{texts[0]}'), (null, '{texts[1]}');", zoned)
    expected = [Row(at, zone).read(at) for at in (near, far)]
    assert query(peer, zone, f"SELECT cast(f AS timestamp) FROM {name} ORDER BY f;") == expected
    peer.sql(f"INSERT OVERWRITE TABLE {name} SELECT f, f FROM {name};", zoned)
    assert query(peer, zone, f"SELECT ts FROM {name} ORDER BY f;") == expected
    peer.sql(f"UPDATE {name} SET ts = f WHERE f > '3';", zoned)
    assert query(peer, zone, f"SELECT ts FROM {name} ORDER BY f;") == expected
    assert query(peer, zone, f"SELECT count(*) FROM {name} WHERE ts < '9999-12-31';") == [2]
    assert query(peer, zone, f"SELECT count(*) FROM {name} WHERE ts = f;") == [2]
    peer.session.close()


@pytest.mark.parametrize("zone", ZONES)
def test_the_current_time_is_in_the_session_zone(peer: Peer, zone: str) -> None:
    text = (
        "SELECT to_date(getdate()) = current_date() AND to_date(now()) = current_date()"
        " AND substr(current_timestamp(), 1, 13) = date_format(getdate(), 'yyyy-MM-dd HH')"
        " AND abs(unix_timestamp() - unix_timestamp(getdate())) < 5 AS v;"
    )
    assert query(peer, zone, text) == [True]
    assert query(peer, zone, "SELECT current_timezone() AS v;") == [zone]
    kinds = peer.query("SELECT getdate() AS a, now() AS b, from_unixtime(1) AS c;").schema.types
    assert set(kinds) == {pa.timestamp("ms")}
    assert pa.types.is_timestamp(peer.query("SELECT current_timestamp() AS t;").schema.types[0])
    text = "SELECT abs(datediff(current_timestamp_ntz('{}'), {}, 'ss')) < 5 AS v;"
    assert query(peer, zone, text.format(zone, "current_timestamp()")) == [True]
    assert query(peer, zone, text.format("UTC", "current_timestamp_ntz()")) == [True]


@pytest.mark.parametrize("zone", ZONES)
def test_a_values_clause_with_an_instant_gives_instants(
    peer: Peer, zone: str, new_table: NewTable
) -> None:
    """Text next to an instant is parsed in the session's zone, once, in either order."""
    clock = datetime(2024, 7, 1, 20, 30, 5)
    stored = Row(clock, zone).read(clock)
    texts = [f"'{clock}'", f"cast('{clock}' as datetime)", f"nvl(datetime '{clock}', '')"]
    for rows in (texts, texts[::-1]):
        values = ", ".join(f"({text})" for text in rows)
        assert query(peer, zone, f"SELECT v FROM VALUES {values} t(v);") == [stored] * 3
        name = new_table("(v datetime, s string)")
        values = ", ".join(f"({text}, {text})" for text in rows)
        peer.sql(f"INSERT INTO {name} VALUES {values};", {"odps.sql.timezone": zone})
        assert query(peer, zone, f"SELECT v FROM {name};") == [stored] * 3
        assert query(peer, zone, f"SELECT s FROM {name};") == [str(clock)] * 3


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ("(interval '1' day) day", "INTERVAL cannot be cast"),
        ("(interval '1 02:03:04' day to second) day to second", "intervals of nanoseconds"),
        ("'1 02:03:04.0000005' day to second", "does not support intervals of nanoseconds"),
        ("'1.0000005' second", "fractions of an interval such as '1.0000005'"),
        ("'0.5' minute", "fractions of an interval"),
    ],
)
def test_an_interval_that_the_service_does_not_support_is_refused(
    peer: Peer, interval: str, said: str
) -> None:
    with pytest.raises(QueryError, match=said):
        peer.query(f"SELECT getdate() + interval {interval} AS v;")


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("interval", ["interval '1' month", "interval '0-1' year to month"])
def test_months_are_added_in_the_session_zone(peer: Peer, zone: str, interval: str) -> None:
    for clock in (datetime(2024, 3, 1, 0, 30), datetime(2024, 1, 31, 23, 30)):
        text = f"SELECT cast('{clock}' AS datetime) + {interval} AS v;"
        assert query(peer, zone, text) == [Row(clock, zone).read(month_later(clock))]


GIVING = (
    "select cast('2024-01-01 00:00:00' as datetime) as v union all select {text} from {given}",
    "select {text} as v from {given} union all select getdate()",
    "select timestamp'2024-01-01 00:00:00' as v union select {text} from {given}",
    "select array(getdate(), {text})[1] as v from {given}",
    "select greatest(getdate(), {text}) as v from {given}",
)


def test_invalid_time_text_compared_with_an_instant_raises_an_error(peer: Peer) -> None:
    """An invalid text is never stored as null; null stays null."""
    made, given = make_table(peer, "(v string)"), make_table(peer, "(s string)")
    peer.sql(f"insert into {given} values ('later')")
    for query in GIVING:
        for text in ("'n/a'", "s", "''"):
            statement = query.format(text=text, given=given)
            for zone in ZONES[:2]:
                with pytest.raises(QueryError, match="cannot be converted"):
                    peer.sql(f"insert into {made} {statement}", {"odps.sql.timezone": zone})
        nulls = query.format(text="cast(null as string)", given=given)
        assert peer.query(nulls).num_rows
    assert peer.query(f"select * from {made}").num_rows == 0
