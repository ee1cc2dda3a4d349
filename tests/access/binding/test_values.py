"""Single bound values are converted before SQL text is created from them."""

from __future__ import annotations

import datetime
import enum
import math
import subprocess
import sys
from decimal import Decimal
from uuid import uuid4
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from odps_nb.access.binding.literals import Writer, literal
from odps_nb.access.binding.text import bind_query
from odps_nb.access.binding.values import Duration, Time, plain
from odps_nb.errors import ArgumentError
from tests.support.bound_values import REFUSED

NANOSECONDS = st.integers(-(2**63) + 1, 2**63 - 1)


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_a_value_without_a_literal_raises_a_typed_error_with_advice(value):
    for form in (value, [1, value]):
        with pytest.raises(ArgumentError) as caught:
            literal(form)
        assert caught.value.hint


def test_a_uuid_is_refused_and_its_text_is_bound():
    value = uuid4()
    for form in (value, pa.scalar(value.bytes, pa.uuid())):
        with pytest.raises(ArgumentError, match="a UUID cannot be bound") as caught:
            plain(form)
        assert caught.value.hint == "bind it as text: str(value)"
    assert plain(str(value)) == str(value)


@given(NANOSECONDS)
def test_times_of_every_library_keep_their_nanoseconds(ns):
    clock, length = Time(ns, is_instant=False), Duration(ns)
    assert plain(np.datetime64(ns, "ns")) == plain(np.array(ns, "M8[ns]")) == clock
    assert plain(pa.scalar(ns, pa.timestamp("ns"))) == clock
    assert plain(pa.scalar(ns, pa.timestamp("ns", "Asia/Shanghai"))) == Time(ns, is_instant=True)
    assert plain(pa.array([ns], pa.timestamp("ns"))) == [clock]
    assert plain(pl.Series([ns]).cast(pl.Datetime("ns"))) == [clock]
    assert plain(np.timedelta64(ns, "ns")) == length
    assert plain(pa.scalar(ns, pa.duration("ns"))) == length
    assert plain(pd.Series([pd.Timestamp(0)]) + pd.Timedelta(ns)) == [clock]
    assert plain(pd.Timestamp(0) + pd.Timedelta(ns)) == clock
    assert plain(pd.Timedelta(ns)) == length


@given(st.datetimes(), st.timezones())
def test_a_time_with_a_zone_is_bound_as_its_instant(clock, zone):
    value = clock.replace(tzinfo=zone)
    offset = value.utcoffset() // datetime.timedelta(microseconds=1)
    naive = plain(clock)
    assert plain(value) == Time(naive.nanoseconds - offset * 1000, is_instant=True)


@given(st.datetimes(), st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York"]))
@example(datetime.datetime(2024, 11, 3, 5, 30), "America/New_York")
@example(datetime.datetime(2024, 11, 3, 6, 30), "America/New_York")
def test_a_literal_is_parsed_as_the_instant_that_it_was_written_for(clock, name):
    zone, utc = ZoneInfo(name), datetime.UTC
    assume(datetime.datetime(1, 1, 3) < clock < datetime.datetime(9999, 12, 30))
    moment = plain(clock.replace(tzinfo=utc))
    for target in ("where", "spark"):
        written = Writer(target=target, timezone=name).literal(moment)
        text = written.removeprefix("CAST('").removesuffix("' AS TIMESTAMP)")
        read = datetime.datetime.fromisoformat(text)
        read = read if read.tzinfo else read.replace(tzinfo=zone)
        assert read.astimezone(utc).replace(tzinfo=None) == clock


@pytest.mark.parametrize("zone", ["GMT+8", "+08:00", "'UTC'", "../UTC"])
def test_an_unknown_time_zone_of_a_query_raises_a_typed_error(zone):
    noon = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
    with pytest.raises(ArgumentError, match="there is no time zone") as caught:
        bind_query("select :x", {"x": noon}, {"odps.sql.timezone": zone}, timezone="UTC")
    assert "Asia/Shanghai" in caught.value.hint


@pytest.mark.parametrize(
    "null",
    [
        *(None, pd.NaT, pd.NA, np.datetime64("NaT", "s"), np.timedelta64("NaT", "s"), np.ma.masked),
        *(pa.scalar(None), pa.scalar(None, pa.timestamp("ns")), pa.scalar(None, pa.int64())),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_missing_value_is_null_also_in_a_list(null):
    assert plain(null) is None
    assert literal(null) == "NULL"
    assert literal([1, null]) == literal((1, null)) == "(1, NULL)"
    assert literal(np.array([1, null], object)) == "(1, NULL)"
    assert literal(pd.Series([1, null], dtype=object)) == "(1, NULL)"


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["a", None]),
        pd.Series(["a", None], dtype="string"),
        pd.Series(["a", None], dtype="category"),
        pd.Series(["a", np.nan], dtype=object),
        pd.Series(["a", None], dtype=pd.ArrowDtype(pa.string())),
        pd.Index(["a", None]),
        pa.array(["a", None]),
        pa.array(["a", None]).dictionary_encode(),
        pa.chunked_array([["a"], [None]]),
        pl.Series(["a", None]),
        np.ma.array(["a", "b"], mask=[False, True]),
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}",
)
def test_a_missing_value_of_a_text_column_is_null(values):
    assert plain(values) == ["a", None]


def test_a_nan_of_a_float_column_is_not_a_null():
    for values in (pd.Series([1.0, np.nan]), np.array([1.0, np.nan]), [1.0, math.nan]):
        with pytest.raises(ArgumentError, match="nan has no SQL literal") as caught:
            literal(values)
        assert "dropna" in caught.value.hint
    assert literal(pd.Series([1.0, np.nan]).dropna()) == "(1.0)"
    assert plain(pd.Series([1.0, None], dtype="Float64")) == [1.0, None]


def test_integers_beyond_bigint_are_decimals():
    assert literal(2**63) == "CAST('9223372036854775808' AS DECIMAL(19,0))"
    assert literal(np.uint64(2**64 - 1)) == "CAST('18446744073709551615' AS DECIMAL(20,0))"
    assert literal(-(2**63)) == "CAST('-9223372036854775808' AS DECIMAL(19,0))"
    with pytest.raises(ArgumentError, match="the maximum is 38"):
        literal(10**38)
    assert Writer(target="where").literal(10**75).endswith("AS DECIMAL(76,0))")


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=18, min_value=-(10**19), max_value=10**19
    )
)
def test_a_decimal_keeps_all_of_its_digits(value):
    text = literal(value).removeprefix("CAST('").partition("'")[0]
    assert Decimal(text) == value


def test_zero_digits_below_a_nanosecond_are_dropped():
    assert plain(np.datetime64(5_000, "ps")) == Time(5, is_instant=False)
    assert plain(np.timedelta64(-(10**9), "as")) == Duration(-1)
    with pytest.raises(ArgumentError, match="more precise than a nanosecond") as caught:
        plain(np.datetime64(5_001, "ps"))
    assert "astype" in caught.value.hint
    assert plain(np.datetime64(5_001, "ps").astype("datetime64[ns]")) == Time(5, is_instant=False)


def test_datetime64_values_in_days_or_longer_units_are_dates():
    assert plain(np.datetime64("0001", "Y")) == datetime.date(1, 1, 1)
    assert plain(np.datetime64("9999-12", "M")) == datetime.date(9999, 12, 1)
    assert plain(np.datetime64("1969-12-31", "D")) == datetime.date(1969, 12, 31)
    assert plain(np.datetime64("2024-07-03", "10D")) == datetime.date(2024, 6, 26)
    assert literal(np.datetime64("9999-12-31T23:59:59", "s")).startswith(
        "CAST('9999-12-31 23:59:59'"
    )


def test_values_of_a_polars_series_of_any_type_are_bound():
    assert plain(pl.Series([1, 2], dtype=pl.Int128)) == [1, 2]
    assert plain(pl.Series(["a"], dtype=pl.Enum(["a"]))) == ["a"]
    assert plain(pl.Series([Decimal("1.50")])) == [Decimal("1.50")]
    assert plain(pl.Series([datetime.date(2024, 1, 2), None])) == [datetime.date(2024, 1, 2), None]
    with pytest.raises(ArgumentError, match=r"an? object cannot be bound"):
        plain(pl.Series([object()], dtype=pl.Object))


class PlainFlag(enum.Flag):
    ONE = 1


def test_an_enum_is_bound_by_its_value():
    assert plain(PlainFlag.ONE) == 1


def test_a_long_column_is_refused_before_it_is_converted():
    with pytest.raises(ArgumentError, match="1,000,000,000 values cannot be bound") as caught:
        plain(range(10**9))
    assert caught.value.hint == "write the values to a table, and join that table"


def test_binding_loads_no_library():
    script = (
        "import sys; from odps_nb.access.binding.literals import literal; literal([1, 'a', 1.5]);"
        "print([n for n in ('pandas', 'numpy', 'polars', 'pyarrow') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
