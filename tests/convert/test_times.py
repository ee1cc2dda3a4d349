"""Times with and without a zone are displayed unchanged and written as the intended instant."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.convert.arrow_schema import arrow_schema, fit_batch, fit_table
from odps_nb.convert.fitting.conversions import Conversions
from odps_nb.convert.pandas_frame import from_pandas, to_pandas
from odps_nb.convert.references import present_batch
from odps_nb.convert.times import in_zone
from odps_nb.errors import ConversionError
from odps_nb.filters.literals import instant_of, zone_of
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import parse_columns

PACIFIC = "America/Los_Angeles"
SHANGHAI = "Asia/Shanghai"
EPOCH = dt.datetime(1970, 1, 1)
GAP = dt.datetime(2024, 3, 10, 2, 30)  # a local time that does not exist in Los Angeles
TWICE = dt.datetime(2024, 11, 3, 1, 30)  # a local time that occurs twice


def schema_of(text: str) -> TableSchema:
    return TableSchema(columns=parse_columns(text))


def zoned(zone: str | None) -> Conversions:
    return Conversions(timezone=zone)


def sent_value(value: object, kind: str, zone: str | None, unit: str = "us") -> object:
    """Return what a write sends for one local time, displayed as a time in UTC."""
    table = pa.table({"t": pa.array([value], pa.timestamp(unit))})
    (got,) = fit_table(table, schema_of(f"t {kind}"), conversions=zoned(zone))["t"].to_pylist()
    return got


# -- shown ------------------------------------------------------------------------------------


def test_a_zone_changes_types_and_copies_no_value() -> None:
    schema = schema_of("d datetime, t timestamp, n timestamp_ntz, i bigint")
    came = pa.record_batch(
        [pa.array([1, None], kind) for kind in (pa.timestamp("ms"), pa.timestamp("ns"))]
        + [pa.array([1, None], kind) for kind in (pa.timestamp("ns"), pa.int64())],
        names=["d", "t", "n", "i"],
    )
    shown = present_batch(came, schema, timezone=SHANGHAI)
    assert shown.schema.types == [
        pa.timestamp("ms", SHANGHAI),
        pa.timestamp("ns", SHANGHAI),
        pa.timestamp("ns"),
        pa.int64(),
    ]
    assert [one.buffers()[1].address for one in shown.columns] == [
        one.buffers()[1].address for one in came.columns
    ]
    assert present_batch(came, schema) is came


def test_times_of_a_stream_in_utc_are_shown_in_the_zone() -> None:
    came = pa.record_batch([pa.array([0], pa.timestamp("ms", "UTC"))], names=["d"])
    shown = in_zone(came, schema_of("d datetime"), SHANGHAI)
    assert shown["d"].to_pylist() == [dt.datetime(1970, 1, 1, 8, tzinfo=ZoneInfo(SHANGHAI))]


NESTED = (
    "a array<timestamp>, m map<datetime,struct<t:timestamp,n:timestamp_ntz,s:string>>, "
    "l array<array<timestamp_ntz>>"
)


def test_instants_inside_of_other_types_are_shown_in_the_session_zone() -> None:
    schema = schema_of(NESTED)
    moment = dt.datetime(2024, 1, 31, 2)
    row = {
        "a": [moment, None],
        "m": [(moment, {"t": moment, "n": moment, "s": "x"})],
        "l": [[moment], None],
    }
    rows = pa.Table.from_pylist([row, dict.fromkeys("aml")] * 3, arrow_schema(schema))
    (came,) = rows.to_batches()
    shown = in_zone(came.slice(1), schema, SHANGHAI)
    shown.validate(full=True)
    assert shown.schema.equals(arrow_schema(schema, timezone=SHANGHAI))
    assert shown.num_rows == 5
    there = dt.datetime(2024, 1, 31, 10, tzinfo=ZoneInfo(SHANGHAI))
    assert shown["a"][1].as_py() == [there, None]
    assert shown["m"][1].as_py() == [(there, {"t": there, "n": moment, "s": "x"})]
    assert shown["l"][1].as_py() == [[moment], None]
    assert shown["a"][0].as_py() is None


def test_columns_with_the_same_name_keep_their_own_types() -> None:
    schema = parse_columns("t timestamp, n timestamp_ntz")
    twins = TableSchema(columns=tuple(type(c)(name="t", type=c.type) for c in schema))
    came = pa.record_batch([pa.array([0], pa.timestamp("ns"))] * 2, names=["t", "t"])
    assert in_zone(came, twins, "UTC").schema.types == [
        pa.timestamp("ns", "UTC"),
        pa.timestamp("ns"),
    ]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_a_frame_has_a_dtype_with_the_zone_and_its_own_memory(unit: str) -> None:
    kind = pa.timestamp(unit, SHANGHAI)
    parts = [pa.array([0, None], kind), pa.array([10**9], kind)]
    batches = [pa.record_batch([part], names=["t"]) for part in parts]
    frame = to_pandas(batches, schema=batches[0].schema, rows=2)  # there are three rows
    assert str(frame["t"].dtype) == f"datetime64[{unit}, {SHANGHAI}]"
    assert frame["t"][0] == pd.Timestamp(0, tz="UTC")
    assert pd.isna(frame["t"][1])
    frame.loc[0, "t"] = frame["t"][2]
    assert parts[0][0].value == 0
    assert str(to_pandas(pa.table({"t": pa.array([], kind)}))["t"].dtype).endswith("Shanghai]")


def test_far_times_are_shown_if_they_exist_in_the_zone() -> None:
    kind = pa.timestamp("us", SHANGHAI)
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    stored = pa.array([last - dt.timedelta(hours=8), last], pa.timestamp("us")).cast(kind)
    frame = to_pandas(pa.table({"t": stored}))
    assert frame["t"][0].tz_localize(None).to_pydatetime() == last
    # The other value exists, although Python cannot display it in Shanghai.
    assert frame["t"].dt.tz_convert("UTC")[1].tz_localize(None).to_pydatetime() == last


# -- written ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["datetime", "timestamp"])
def test_a_local_time_becomes_an_instant(kind: str) -> None:
    value = dt.datetime(2024, 1, 31, 10)
    assert sent_value(value, kind, SHANGHAI) == dt.datetime(2024, 1, 31, 2)
    assert sent_value(value, kind, PACIFIC) == dt.datetime(2024, 1, 31, 18)
    assert sent_value(value, kind, "UTC") == sent_value(value, kind, None) == value


def test_a_timestamp_ntz_is_never_shifted() -> None:
    value = dt.datetime(2024, 1, 31, 10)
    assert sent_value(value, "timestamp_ntz", SHANGHAI) == value
    assert sent_value(GAP, "timestamp_ntz", PACIFIC) == GAP


@pytest.mark.parametrize("zone", [None, "UTC", PACIFIC])
def test_a_time_with_a_zone_is_an_instant_for_any_connection(zone: str | None) -> None:
    aware = pa.array([dt.datetime(2024, 1, 31, 2)], pa.timestamp("us")).cast(
        pa.timestamp("us", SHANGHAI)
    )
    for data in (pa.table({"t": aware}), pa.table({"t": aware.dictionary_encode()})):
        got = fit_table(data, schema_of("t timestamp"), conversions=zoned(zone))
        assert got["t"].to_pylist() == [dt.datetime(2024, 1, 31, 2)]


def test_a_time_with_a_zone_is_refused_for_timestamp_ntz() -> None:
    aware = pa.table({"t": pa.array([0], pa.timestamp("us", SHANGHAI))})
    schema = schema_of("t timestamp_ntz")
    for zone in (None, SHANGHAI):
        with pytest.raises(ConversionError, match="a time with a time zone does not fit"):
            fit_table(aware, schema, conversions=zoned(zone))
        with pytest.raises(ConversionError, match="a time with a time zone does not fit"):
            from_pandas(aware.to_pandas().astype(object), schema, conversions=zoned(zone))


def test_a_date_begins_at_midnight_of_the_zone() -> None:
    data = pa.table({"t": pa.array([dt.date(2024, 1, 31), None])})
    got = fit_table(data, schema_of("t datetime"), conversions=zoned(SHANGHAI))
    assert got["t"].to_pylist() == [dt.datetime(2024, 1, 30, 16), None]
    objects = pd.DataFrame({"t": pd.Series([dt.date(2024, 1, 31), None], dtype=object)})
    assert from_pandas(objects, schema_of("t datetime"), conversions=zoned(SHANGHAI)).equals(got)


def test_a_repeated_local_time_means_its_first_occurrence() -> None:
    assert sent_value(TWICE, "datetime", PACIFIC) == dt.datetime(2024, 11, 3, 8, 30)


def test_a_nonexistent_local_time_is_refused_with_row_and_value() -> None:
    data = pa.table({"t": pa.array([EPOCH, GAP, None, GAP], pa.timestamp("us"))})
    with pytest.raises(ConversionError, match="clocks were set forward") as caught:
        fit_table(data, schema_of("t timestamp"), conversions=zoned(PACIFIC))
    assert (caught.value.column, caught.value.row) == ("t", 1)
    assert repr(GAP) in str(caught.value)
    assert "t[3]" in str(caught.value)
    frame = pd.DataFrame({"t": pd.Series([EPOCH, GAP], dtype=object)})
    with pytest.raises(ConversionError, match="clocks were set forward"):
        from_pandas(frame, schema_of("t datetime"), conversions=zoned(PACIFIC))


def test_zone_rules_apply_after_the_last_listed_transition() -> None:
    summer = dt.datetime(2040, 7, 1, 10)
    assert sent_value(summer, "timestamp", PACIFIC) == summer + dt.timedelta(hours=7)
    assert sent_value(dt.datetime(2040, 1, 1), "datetime", PACIFIC) == dt.datetime(2040, 1, 1, 8)


def test_row_numbers_in_errors_are_counted_from_the_start_of_a_stream() -> None:
    batch = pa.record_batch([pa.array([GAP], pa.timestamp("us"))], names=["t"])
    with pytest.raises(ConversionError) as caught:
        fit_batch(
            batch,
            schema_of("t timestamp"),
            first_row=100,
            conversions=zoned(PACIFIC),
        )
    assert caught.value.row == 100


@pytest.mark.parametrize("kind", ["datetime", "timestamp"])
def test_times_at_the_ends_of_the_range_are_refused_if_they_are_outside_in_utc(kind: str) -> None:
    last = dt.datetime(9999, 12, 31, 23, 59, 59)
    assert sent_value(last, kind, SHANGHAI) == last - dt.timedelta(hours=8)
    assert sent_value(dt.datetime(9999, 12, 31), kind, PACIFIC) == dt.datetime(9999, 12, 31, 8)
    with pytest.raises(ConversionError, match="not between 1 and 9999"):
        sent_value(last, kind, PACIFIC)
    with pytest.raises(ConversionError, match="not between 1 and 9999"):
        sent_value(dt.datetime(1, 1, 1), kind, SHANGHAI)


def test_extreme_nanoseconds_never_wrap_around() -> None:
    for end in (-(2**63) + 1, 2**63 - 1):
        table = pa.table({"t": pa.array([end], pa.int64()).cast(pa.timestamp("ns"))})
        for zone in (SHANGHAI, PACIFIC):
            with pytest.raises(ConversionError):
                fit_table(table, schema_of("t timestamp"), conversions=zoned(zone))
    near = dt.datetime(2262, 4, 11, 23, 47)  # in Los Angeles, outside of the range of nanoseconds
    assert sent_value(near, "timestamp", PACIFIC) == near + dt.timedelta(hours=7)


def test_batches_whose_times_need_different_units_can_be_in_one_table() -> None:
    far, near = dt.datetime(9999, 12, 31), dt.datetime(2024, 1, 31, 10)
    batches = [
        pa.record_batch([pa.array([one], pa.timestamp("us"))], names=["t"]) for one in (near, far)
    ]
    got = fit_table(
        pa.Table.from_batches(batches),
        schema_of("t timestamp"),
        conversions=zoned(SHANGHAI),
    )
    assert got["t"].type == pa.timestamp("us")
    hours = dt.timedelta(hours=8)
    assert got["t"].to_pylist() == [near - hours, far - hours]


def test_nested_instants_are_converted_and_nested_timestamp_ntz_is_not() -> None:
    schema = schema_of(NESTED)
    clock, moment = dt.datetime(2024, 1, 31, 10), dt.datetime(2024, 1, 31, 2)

    def row(instant: object, wall: object) -> dict[str, object]:
        inner = {"t": instant, "n": wall, "s": "x"}
        return {"a": [instant, None], "m": [(instant, inner)], "l": [[wall], None]}

    expected = [row(moment, clock), dict.fromkeys("aml")]
    arrow = pa.Table.from_pylist([row(clock, clock), dict.fromkeys("aml")], arrow_schema(schema))
    assert fit_table(arrow, schema, conversions=zoned(SHANGHAI)).to_pylist() == expected
    for instant in (clock, moment.replace(tzinfo=dt.UTC), pd.Timestamp(clock)):
        frame = pd.DataFrame([row(instant, clock), dict.fromkeys("aml")], columns=list("aml"))
        got = from_pandas(frame, schema, conversions=zoned(SHANGHAI))
        assert got.to_pylist() == expected, instant


AWARE = dt.datetime(2024, 1, 31, 10, tzinfo=ZoneInfo(PACIFIC))
MIXED = [
    ("datetime", [EPOCH, AWARE]),
    ("timestamp", [pd.Timestamp(AWARE), np.datetime64(0, "ns")]),
    ("array<datetime>", [[EPOCH], [AWARE]]),
    ("map<string,timestamp>", [{"a": EPOCH}, {"b": AWARE}]),
    ("struct<a:datetime>", [{"a": EPOCH}, {"a": AWARE}]),
]


@pytest.mark.parametrize(("kind", "values"), MIXED)
def test_times_with_and_without_a_zone_cannot_be_mixed(kind: str, values: list[object]) -> None:
    frame = pd.DataFrame({"t": pd.Series(values, dtype=object)})
    with pytest.raises(ConversionError, match="with and without a time zone") as caught:
        from_pandas(frame, schema_of(f"t {kind}"), conversions=zoned(SHANGHAI))
    assert caught.value.row == len(values) - 1


@pytest.mark.parametrize("kind", ["array<timestamp_ntz>", "struct<t:timestamp_ntz>"])
@pytest.mark.parametrize("zone", [None, SHANGHAI])
def test_a_nested_time_with_a_zone_is_refused_for_timestamp_ntz(
    kind: str, zone: str | None
) -> None:
    value = [AWARE] if kind.startswith("array") else {"t": AWARE}
    frame = pd.DataFrame({"t": pd.Series([None, value], dtype=object)})
    with pytest.raises(ConversionError, match="a time with a time zone does not fit") as caught:
        from_pandas(frame, schema_of(f"t {kind}"), conversions=zoned(zone))
    assert caught.value.row == 1


def test_nulls_of_all_kinds_stay_null_in_a_zone() -> None:
    values = [None, pd.NaT, np.datetime64("NaT", "ns"), float("nan"), pd.Timestamp(AWARE)]
    frame = pd.DataFrame({"t": pd.Series(values, dtype=object)})
    got = from_pandas(
        frame.drop(index=[2, 3]),
        schema_of("t timestamp"),
        conversions=zoned(SHANGHAI),
    )
    assert got["t"].to_pylist() == [None, None, pd.Timestamp("2024-01-31 18:00:00")]
    naive = pd.DataFrame({"t": pd.Series([*values[:4], EPOCH], dtype=object)})
    got = from_pandas(naive, schema_of("t datetime"), conversions=zoned(SHANGHAI))
    assert got["t"].to_pylist() == [None] * 4 + [dt.datetime(1969, 12, 31, 16)]


@pytest.mark.parametrize("zone", [SHANGHAI, PACIFIC, "Europe/Paris", "Australia/Lord_Howe"])
@given(st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1)))
def test_a_write_and_a_condition_mean_the_same_instant(zone: str, clock: dt.datetime) -> None:
    micros = (clock - EPOCH) // dt.timedelta(microseconds=1)
    meant = instant_of(micros * 1000, zone_of(zone))
    try:
        got = sent_value(clock, "timestamp", zone)
    except ConversionError:  # a condition may contain a local time that clocks skip
        back = EPOCH + dt.timedelta(microseconds=meant // 1000)
        shown = back.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone))
        assert shown.replace(tzinfo=None) != clock
    else:
        assert got == EPOCH + dt.timedelta(microseconds=meant // 1000)
