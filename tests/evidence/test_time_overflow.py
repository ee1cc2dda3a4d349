"""TIMESTAMPs that cannot be read in nanoseconds (Apache Doris, pull request 49600 and its test)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
import requests

from odps_nb.local.server.launch import start
from tests.support.service.raw import Raw, good, refused, rows_of

MESSAGE = "ODPS-0422214: Read data failed - RuntimeTimestamp data overflow"
LAST = 2**31 * 10**9 - 1  # 2038-01-19 03:14:07.999999999
ROW_OFFSET = {"SplitMode": "RowOffset"}
MICRO = {"TimestampUnit": "micro", "DatetimeUnit": "milli"}
ALL = {"Offset": 0, "Count": 1000}
YEARS = [
    datetime(1, 1, 1),
    datetime(1969, 12, 31, 0, 0, 1, 678901),
    datetime(2023, 2, 2),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]


def without_zone(times):
    """Return the times of a stream without the zone of their Arrow type, which is UTC."""
    return [time and time.replace(tzinfo=None) for time in times.to_pylist()]


@pytest.fixture(scope="module")
def with_500() -> Iterator[Raw]:
    options = ("--form", "nanosecond_status=500")
    with start(samples=False, options=options) as service, Raw(service) as raw:
        yield raw


def stored(raw: Raw, times: pa.Array, kind: str = "timestamp") -> str:
    name = raw.make(f"(id bigint, t {kind})")
    raw.write(name, pa.table({"id": pa.array(range(len(times)), pa.int64()), "t": times}))
    return name


def requested(
    raw: Raw, name: str, place: dict[str, object] = ALL, **body: Any
) -> requests.Response:
    session = raw.session(name, SplitOptions=ROW_OFFSET, **body)
    return raw.read(name, session, place)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_far_times_are_refused_in_nanoseconds_and_returned_in_microseconds(
    raw: Raw, kind: str
) -> None:
    """Evidence 152: the session opens, the read is rejected, microseconds reach years 1 to 9999."""
    name = stored(raw, pa.array(YEARS, pa.timestamp("us")), kind)
    assert refused(requested(raw, name)) == MESSAGE
    assert requested(raw, name).json()["Code"] == "ODPS-0422214"
    assert without_zone(rows_of(requested(raw, name, ArrowOptions=MICRO))["t"]) == YEARS
    rest = raw.session(name, SplitOptions=ROW_OFFSET, RequiredDataColumns=["id"])
    assert raw.rows(name, rest, ALL).num_rows == len(YEARS)


@pytest.mark.parametrize("nanos", [-1, LAST + 1, -(2**63) + 1, 2**63 - 1])
def test_one_nanosecond_outside_of_the_bounds_is_refused(raw: Raw, nanos: int) -> None:
    """Evidence 152: 1970-01-01 to 2038-01-19."""
    name = stored(raw, pa.array([0, LAST, None, nanos], pa.timestamp("ns")))
    near = rows_of(requested(raw, name, {"Offset": 0, "Count": 3}))["t"]
    assert near.cast(pa.int64()).to_pylist() == [0, LAST, None]
    assert refused(requested(raw, name, {"Offset": 3, "Count": 1})) == MESSAGE


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("array<timestamp>", [[0], [0, LAST + 1], []]),
        ("map<string,timestamp>", [[("k", 0)], [("a", 0), ("b", -1)], []]),
        ("struct<t:timestamp>", [{"t": 0}, {"t": -1}, {"t": None}]),
    ],
)
def test_nested_times_out_of_range_are_refused_only_in_their_rows(
    raw: Raw, kind: str, values: list[Any]
) -> None:
    time = pa.timestamp("ns")
    types = {"a": pa.list_(time), "m": pa.map_(pa.string(), time), "s": pa.struct({"t": time})}
    name = stored(raw, pa.array(values, types[kind[0]]), kind)
    assert refused(requested(raw, name)) == MESSAGE
    assert rows_of(requested(raw, name, {"Offset": 0, "Count": 1})).num_rows == 1
    assert refused(requested(raw, name, {"Offset": 1, "Count": 1})) == MESSAGE
    assert rows_of(requested(raw, name, {"Offset": 2, "Count": 1})).num_rows == 1


def test_a_datetime_of_any_year_is_returned_in_milliseconds(raw: Raw) -> None:
    """Evidence 152: Doris reads DATETIME of the years 1 to 9999 in this way (datetime_tb2)."""
    years = [datetime(1, 1, 1), datetime(1969, 2, 2), datetime(9999, 12, 31, 23, 59, 59)]
    name = stored(raw, pa.array(years, pa.timestamp("ms")), "datetime")
    assert without_zone(rows_of(requested(raw, name))["t"]) == years


def test_a_read_ends_with_an_error_at_the_batch_with_the_unreadable_time(raw: Raw) -> None:
    """Evidence 152: the error arrives with the rows, some of which may already have arrived."""
    count = 200_000  # the service sends a megabyte before it checks the last rows
    name = stored(raw, pa.array([*range(count), -1], pa.timestamp("ns")))
    session = raw.session(name, SplitOptions=ROW_OFFSET)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        raw.read(name, session, {"Offset": 0, "Count": count + 1})
    assert raw.rows(name, session, {"Offset": 0, "Count": count}).num_rows == count
    assert refused(raw.read(name, session, {"Offset": count, "Count": 1})) == MESSAGE


def test_the_status_of_a_time_overflow_may_be_500(with_500: Raw) -> None:
    """Evidence 152 does not show the status."""
    for times in (pa.array([-1], pa.timestamp("ns")), pa.array(YEARS, pa.timestamp("us"))):
        answer = requested(with_500, stored(with_500, times))
        assert answer.status_code == 500
        assert answer.json()["Message"] == MESSAGE


def test_a_filter_can_exclude_unreadable_times(raw: Raw) -> None:
    name = stored(raw, pa.array([0, -1], pa.timestamp("ns")))
    session = raw.session(name, FilterPredicate="id = 0", SplitOptions=ROW_OFFSET)
    good(raw.read(name, session, {"Offset": 0, "Count": 1}))
