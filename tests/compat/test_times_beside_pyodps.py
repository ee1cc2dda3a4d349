"""odps_nb reads times of the stock client as the same instants, and vice versa, in three zones.

The stock client uses local time of its process (``TZ``), like our connection with that time zone;
its newer module ``odps.maxstorage`` uses UTC, like our connection without one.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.local.server.launch import LocalService
from tests.support.compat import times_by_pyodps as stock
from tests.support.service.connecting import connected

pytestmark = [pytest.mark.compat, pytest.mark.timeout(180)]

ZONES = [
    "Asia/Shanghai",
    *(pytest.param(zone, marks=pytest.mark.nightly) for zone in ("UTC", "America/Los_Angeles")),
]
# "aware" excludes TIMESTAMP_NTZ, which rejects times with a zone: tests/convert/test_times.py.
WRITTEN = [(how, kind) for how in ("arrow", "pandas", "objects") for kind in stock.KINDS]
WRITTEN += [("aware", kind) for kind in ("datetime", "timestamp")]
LOCAL = ("records", "arrow", "pandas", "sql")  # interfaces of the stock client that use local time
Read = dict[str, dict[str, dict[str, str | None]]]


@pytest.fixture(scope="module", params=ZONES)
def zone(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def theirs(zone: str, empty_service: LocalService) -> Read:
    """The values that the stock client read in the zone in which it wrote them."""
    names = []
    with connected(empty_service, timezone=zone) as odps:
        for how, kind in WRITTEN:
            names.append(stock.name_of(zone, "ours", how, kind))
            odps.create_table(names[-1], f"id bigint, t {kind}").write(ours(how, kind, zone))
    where = [empty_service.endpoint, empty_service.project]
    keys = [empty_service.access_id, empty_service.access_key]
    command = [sys.executable, "-W", "ignore", str(Path(stock.__file__)), *where, *keys]
    found = subprocess.run([*command, zone, json.dumps(names)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-3000:]
    return dict(json.loads(found.stdout))


@pytest.fixture(scope="module")
def both(
    zone: str, empty_service: LocalService, theirs: Read
) -> Iterator[tuple[LocalService, Connection, Read]]:
    """A service with rows from both clients, our connection in the zone, and pyodps' values."""
    with connected(empty_service, timezone=zone) as odps:
        yield empty_service, odps, theirs


def ours(how: str, kind: str, zone: str) -> object:
    ids = range(len(stock.CLOCK))
    if how == "arrow":
        return stock.rows(kind)
    if how == "pandas":
        return pd.DataFrame({"id": ids, "t": pd.array(stock.CLOCK, "datetime64[ns]")})
    if how == "objects":
        return pd.DataFrame({"id": ids, "t": pd.Series(stock.CLOCK, dtype=object)})
    # the same instants, in a named time zone
    aware = [None if v is None else instant(v, zone) for v in stock.CLOCK]
    return pa.table({"id": ids, "t": pa.array(aware, pa.timestamp("ms", "Europe/Paris"))})


def instant(clock: dt.datetime, zone: str) -> dt.datetime:
    return clock.replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC)


def clock(value: dt.datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def by_id(table: pa.Table) -> list[dt.datetime | None]:
    times = table.sort_by("id")["t"]
    if times.type.unit == "ns":
        times = times.cast(pa.timestamp("us", times.type.tz))
    found: list[dt.datetime | None] = times.to_pylist()
    return found


@pytest.mark.gate(3)
@pytest.mark.parametrize(("how", "kind"), WRITTEN)
def test_the_stock_client_reads_times_of_odps_nb_in_its_local_time(both, zone, how, kind):
    found = both[2][stock.name_of(zone, "ours", how, kind)]
    for road in LOCAL:
        assert list(found[road].values()) == [clock(v) for v in stock.CLOCK], road


@pytest.mark.gate(9)
@pytest.mark.parametrize("kind", stock.KINDS)
@pytest.mark.parametrize("how", ["records", "arrow", "pandas"])
def test_times_of_the_stock_client_are_read_in_its_zone(both, zone, how, kind):
    _, odps, _ = both
    table = odps.table(stock.name_of(zone, "theirs", how, kind))
    result = odps.sql(f"select * from {table.name.table}")
    for rows in (table.read().to_arrow(), result.to_arrow()):
        assert rows["t"].type.tz == (None if kind == "timestamp_ntz" else zone)
        shown = [None if v is None else v.replace(tzinfo=None) for v in by_id(rows)]
        assert shown == stock.CLOCK
        if kind != "timestamp_ntz":
            for got, meant in zip(by_id(rows), stock.CLOCK, strict=True):
                assert got is None if meant is None else got == instant(meant, zone)
    frame = table.read().to_pandas().sort_values("id")
    assert getattr(frame["t"].dt.tz, "key", str(frame["t"].dt.tz)) == (
        "None" if kind == "timestamp_ntz" else zone
    )
    assert [clock(v) for v in frame["t"].dt.tz_localize(None) if v == v] == [
        clock(v) for v in stock.CLOCK if v is not None
    ]


@pytest.mark.parametrize("kind", stock.KINDS)
def test_the_module_maxstorage_uses_utc_like_a_connection_without_a_zone(both, zone, kind):
    service, _, theirs = both
    expected = [
        clock(v)
        if v is None or kind == "timestamp_ntz"
        else clock(instant(v, zone).replace(tzinfo=None))
        for v in stock.CLOCK
    ]
    found = theirs[stock.name_of(zone, "ours", "pandas", kind)]
    # Arrow shows the stream's zone; records of a DATETIME with a zone are in local time
    records = [clock(v) for v in stock.CLOCK] if kind == "datetime" else expected
    for road, meant in (("maxstorage", expected), ("maxstorage records", records)):
        assert [v and v.removesuffix("+00:00") for v in found[road].values()] == meant, road
    with connected(service, timezone=None) as odps:
        assert [clock(v) for v in by_id(_read(odps, zone, "ours", "pandas", kind))] == expected
        for how in ("maxstorage", "maxstorage records"):
            assert by_id(_read(odps, zone, "theirs", how, kind)) == stock.CLOCK


def _read(odps: Connection, zone: str, who: str, how: str, kind: str) -> pa.Table:
    return odps.table(stock.name_of(zone, who, how, kind)).read().to_arrow()


def test_a_time_in_a_condition_is_in_the_zone_of_the_connection(both, zone):
    _, odps, _ = both
    table = odps.table(stock.name_of(zone, "theirs", "records", "datetime"))
    found = table.read(where="t = '2024-01-31 10:00:00'").to_arrow()
    assert found["id"].to_pylist() == [0]
    aware = instant(stock.CLOCK[1], odps.profile.timezone)
    assert table.read(where="t = :t", params={"t": aware}).to_arrow()["id"].to_pylist() == [1]
    asked = f"select id from {table.name.table} where t = :t"
    assert odps.sql(asked, params={"t": aware}).to_arrow()["id"].to_pylist() == [1]
