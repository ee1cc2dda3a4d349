"""Users get plain types, whatever the Arrow stream of a read contains (evidence 151, 173)."""

from __future__ import annotations

import io
import struct
from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from odps_nb.arrow.plain import PlainColumns
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.splits import iter_split
from odps_nb.errors import ConversionError, FramingError, LimitExceededError
from odps_nb.http.retry import RetryPolicy
from odps_nb.schema import TableSchema
from odps_nb.stream_io import ArrowReader, StreamReader
from odps_nb.terms import RowRangeSplit, TextMode, TextOptions, TimeUnit
from odps_nb.wire.type_text import parse_columns
from tests.support import arrow_bodies
from tests.support.sockets.scripted import TABLE, Service, cut, ipc, raw

ZONES = ["UTC", "GMT", "Etc/UTC", "utc", "Asia/Shanghai", "asia/shanghai", "+08:00", "PRC", "CST",
         "Mars/Olympus", " ", "", "中国"]  # fmt: skip
SEC_NANO = pa.struct([("sec", pa.int64()), ("nano", pa.int32())])


def read(
    promised: str,
    *steps,
    rows: int = 3,
    unit: TimeUnit = TimeUnit.NANO,
    attempts: int | None = None,
    **facts,
) -> pa.Table:
    """Read rows from a socket; each response is requested once."""
    session = ReadSession(
        table=TABLE,
        session_id="s",
        schema=TableSchema(columns=parse_columns(promised)),
        splits=plan_ranges(rows, 1),
        row_count=rows,
        timestamp_unit=unit,
        **facts,
    )
    answers = [step if callable(step) else raw(step) for step in steps]
    policy = RetryPolicy(max_attempts=attempts or len(steps), spread=0.0)
    with Service(ReadRows=answers) as service, service.client(retry=policy) as storage:
        try:
            found = list(iter_split(storage, session, RowRangeSplit(0, rows)))
        finally:
            assert len(service.calls["ReadRows"]) == len(steps)
    return pa.Table.from_batches(found)


def sent(**columns: pa.Array) -> bytes:
    return ipc(pa.table(columns))


# -- time zones -------------------------------------------------------------------------------

COUNTS = pa.array([-1, None, 1706695200000], pa.int64())


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("kind", ["datetime", "timestamp", "timestamp_ntz"])
def test_a_time_zone_is_removed_without_changing_the_time(kind, zone):
    """Evidence 151: a zone does not change values; the zone of a TIMESTAMP_NTZ is dropped, too."""
    came = COUNTS.view(pa.timestamp("ms", zone))
    expected = pa.table({"t": COUNTS.view(pa.timestamp("ms"))})
    assert read(f"t {kind}", sent(t=came)).equals(expected)


def test_zones_inside_of_nested_values_are_dropped():
    """Evidence 151 also applies in ARRAY, MAP and STRUCT, with nulls at each level."""
    kinds = {
        "array<timestamp>": pa.list_(pa.timestamp("ns", "PRC")),
        "array<array<datetime>>": pa.large_list(pa.list_(pa.timestamp("ms", "PRC"))),
        "map<string,datetime>": pa.map_(pa.string(), pa.timestamp("ms", "PRC")),
        "map<timestamp,struct<t:timestamp,s:string>>": pa.map_(
            pa.timestamp("ns", "PRC"),
            pa.struct([("t", pa.timestamp("ns", "+08:00")), ("s", pa.string())]),
        ),
        "struct<a:timestamp,b:timestamp_ntz>": pa.struct(
            [("a", pa.timestamp("ns", "CST")), ("b", pa.timestamp("ns"))]
        ),
    }
    values = {
        "array<timestamp>": [[1, None], None, []],
        "array<array<datetime>>": [[[1], None, []], None, [[2, None]]],
        "map<string,datetime>": [[("a", 1), ("b", None)], None, []],
        "map<timestamp,struct<t:timestamp,s:string>>": [
            [(1, {"t": 1, "s": "x"}), (2, None)], None, [(3, {"t": None, "s": None})],
        ],
        "struct<a:timestamp,b:timestamp_ntz>": [{"a": 1, "b": 2}, None, {"a": None, "b": None}],
    }  # fmt: skip
    for name, kind in kinds.items():
        found = read(f"v {name}", sent(v=pa.array(values[name], kind)))["v"]
        assert "tz=" not in str(found.type)
        assert found.type.num_fields == kind.num_fields
        zoned = pa.array(values[name], kind).view(found.type)
        assert found.combine_chunks().equals(zoned)


def test_a_read_resumes_even_if_the_zone_or_form_changes():
    """Evidence 151, 173: a column's form applies to one stream; the next may use another."""
    numbers = pa.array(range(30), pa.int64())
    words = pa.array([None if n % 7 == 3 else f"w{n % 5}" for n in range(30)])
    expected = pa.table({"t": numbers.view(pa.timestamp("ns")), "s": words})
    seconds = pa.array([{"sec": 0, "nano": n} for n in range(30)], SEC_NANO)
    forms = [
        pa.table({"t": numbers.view(pa.timestamp("ns", "UTC")), "s": words.dictionary_encode()}),
        pa.table({"t": numbers.view(pa.timestamp("ns", "Asia/Shanghai")), "s": words}),
        pa.table({"t": seconds, "s": words.dictionary_encode()}),
    ]
    for first in forms:
        for second in forms:
            # 20 rows are complete, and the third batch has more than its message header
            body = ipc(first, rows=10)
            whole = len(ipc(first.slice(0, 20), rows=10))
            got = read(
                "t timestamp, s string",
                cut(body, whole + 16),
                lambda line, seen, second=second: line.answer(
                    ipc(second.slice(line.peer.calls["ReadRows"][-1].split.offset), rows=10)
                ),
                rows=30,
            )
            assert got.equals(expected)


def test_the_reader_of_streams_shows_neither_zones_nor_dictionaries():
    """Evidence 151, 173: this class does not know the columns, so a struct stays unchanged."""
    words = pa.array(["a", None, "a"])
    seconds = pa.array([seconds_of(1)] * 3, SEC_NANO)
    zoned = COUNTS.view(pa.timestamp("ms", "PRC"))
    body = sent(t=zoned, s=words.dictionary_encode(), v=seconds)
    expected = pa.table({"t": COUNTS.view(pa.timestamp("ms")), "s": words, "v": seconds})
    with ArrowReader(StreamReader(io.BytesIO(body)), expected_rows=3) as reader:
        assert reader.schema.equals(expected.schema)
        assert pa.Table.from_batches(reader).equals(expected)


# -- dictionaries -----------------------------------------------------------------------------


@pytest.mark.parametrize("deltas", [True, False])
@pytest.mark.parametrize("index", [pa.int8(), pa.uint16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
def test_a_dictionary_that_grows_or_is_replaced_becomes_plain_text(kind, index, deltas):
    """Evidence 173: each batch has its own dictionary, or extends that of the previous batch."""
    dictionaries = [["a", ""], ["a", "", "ü"], ["a", "", "ü", None]]
    if not deltas:
        dictionaries[1:] = [["z"], ["b", "a", None]]
    indices = [[1, None, 0], [0, 0, None], [2, None, 0]]
    batches = [
        pa.record_batch({"s": pa.DictionaryArray.from_arrays(
            pa.array(at, index), pa.array(words).cast(kind)
        )})
        for at, words in zip(indices, dictionaries, strict=True)
    ]  # fmt: skip
    expected = [
        None if n is None else words[n]
        for at, words in zip(indices, dictionaries, strict=True)
        for n in at
    ]
    promised = "s binary" if kind == pa.binary() else "s string"
    found = read(promised, arrow_bodies.ipc(*batches, deltas=deltas), rows=9)
    assert found.equals(pa.table({"s": pa.array(expected, pa.string()).cast(kind)}))


def test_nested_dictionaries_become_plain_values():
    """Evidence 173 also applies in nested types, and to dictionaries of numbers and times."""
    words = pa.array(["x", None, "y", "x"]).dictionary_encode()
    times = pa.array([1, 1, None, 2], pa.timestamp("ns", "PRC")).dictionary_encode()
    numbers = pa.array([1, 1, None, 2]).dictionary_encode()
    lists = pa.ListArray.from_arrays(pa.array([0, None, 3, 4]), words)
    maps = pa.MapArray.from_arrays(
        pa.array([0, 1, 1, 2]), pa.array(["k", "l"]).dictionary_encode(), words[:2]
    )
    structs = pa.StructArray.from_arrays(
        [words[1:], times[1:], numbers[1:]], ["s", "t", "n"], mask=pa.array([False, True, False])
    )
    table = pa.table({"l": lists, "m": maps, "r": structs, "t": times[:3]})
    promised = (
        "l array<string>, m map<string,string>, r struct<s:string,t:timestamp,n:bigint>, "
        "t timestamp"
    )
    found = read(promised, ipc(table))
    assert "dictionary" not in str(found.schema)
    assert "tz=" not in str(found.schema)
    assert found.to_pylist() == [
        {"l": ["x", None, "y"], "m": [("k", "x")], "r": _row(None, 1, 1), "t": _at(1)},
        {"l": None, "m": [], "r": None, "t": _at(1)},
        {"l": ["x"], "m": [("l", None)], "r": _row("x", 2, 2), "t": None},
    ]


def _at(nanos: int):
    return pa.scalar(nanos, pa.timestamp("ns")).as_py()


def _row(text: str | None, nanos: int, number: int) -> dict[str, object]:
    return {"s": text, "t": _at(nanos), "n": number}


@pytest.mark.parametrize("mode", list(TextMode))
def test_text_that_is_not_utf_8_may_arrive_in_a_dictionary(mode):
    """Evidence 168, 173: bytes in a dictionary are treated like those in a plain column."""
    values = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    body = sent(s=pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int32()), values))
    columns = TableSchema(columns=parse_columns("s string"))
    promised = "s binary" if mode is TextMode.BINARY else "s string"
    if mode is TextMode.STRICT:
        with pytest.raises(ConversionError, match="'s' in row 2 of"):
            read(promised, body, text=TextOptions(mode), sent=columns)
        return
    found = read(promised, body, text=TextOptions(mode), sent=columns)["s"].to_pylist()
    assert found == (["a", None, "\ufffd"] if mode is TextMode.REPLACE else [b"a", None, b"\xff"])


def test_a_small_dictionary_that_expands_too_much_is_refused():
    """A batch of a few bytes may expand to gigabytes, so it is rejected before the expansion."""
    value = pa.array(["x" * 100_000, "y"])
    indices = pa.array(np.zeros(1000, dtype=np.int8))
    batch = pa.record_batch({"s": pa.DictionaryArray.from_arrays(indices, value)})
    columns = parse_columns("s string")
    small = PlainColumns(batch.schema, columns, unit=TimeUnit.NANO, max_bytes=99_999_999)
    with pytest.raises(LimitExceededError, match="100000000 bytes") as caught:
        small.apply(batch)
    assert (caught.value.limit, caught.value.actual) == (99_999_999, 100_000_000)
    fits = PlainColumns(batch.schema, columns, unit=TimeUnit.NANO, max_bytes=100_000_000)
    assert fits.apply(batch)["s"].type == pa.string()


def test_a_dictionary_index_out_of_range_is_reported_as_damage():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 9, 1]), pa.array(["a", "b"]), safe=False)
    with pytest.raises(FramingError, match="damaged"):
        read("s string", sent(s=array))


# -- seconds and nanoseconds ------------------------------------------------------------------

NANOS = [0, -1, 1, -1_000_000_000, 999_999_999, -(2**63) + 1, 2**63 - 1, 1706695200123456789]


def seconds_of(nanos: int | None) -> dict[str, int] | None:
    return None if nanos is None else {"sec": nanos // 10**9, "nano": nanos % 10**9}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_struct_of_seconds_and_nanoseconds_becomes_a_timestamp(kind):
    """Evidence 173: values in the whole range of int64, nulls, times before and after 1970."""
    nanos = [*NANOS, -(2**63), None]
    came = pa.array(list(map(seconds_of, nanos)), SEC_NANO)
    expected = pa.array(nanos, pa.timestamp("ns"))
    assert read(f"t {kind}", sent(t=came), rows=10)["t"].combine_chunks().equals(expected)


def test_digits_below_the_unit_are_rounded_down():
    """Evidence 173: the service rounds in the same way."""
    years = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]
    micros = [pa.scalar(year, pa.timestamp("us")).value for year in years]
    nanos = [-1, 1999, None, *(micro * 1000 + 1 for micro in micros)]
    came = pa.array(list(map(seconds_of, nanos)), SEC_NANO)
    found = read("t timestamp", sent(t=came), rows=5, unit=TimeUnit.MICRO)["t"]
    assert found.type == pa.timestamp("us")
    assert found.cast(pa.int64()).to_pylist() == [-1, 1, None, *micros]
    found = read("t datetime", sent(t=came), rows=5)["t"]
    assert found.type == pa.timestamp("ms")
    assert found.cast(pa.int64()).to_pylist() == [-1, 0, None, *(m // 1000 for m in micros)]


def test_a_struct_of_seconds_and_nanoseconds_becomes_an_interval():
    came = pa.array([{"sec": -1, "nano": 5}, None, {"sec": 2, "nano": 0}], SEC_NANO)
    found = read("i interval_day_time", sent(i=came))["i"]
    assert found.combine_chunks().equals(pa.array([-999_999_995, None, 2 * 10**9], found.type))
    assert found.type == pa.duration("ns")


def test_nested_structs_of_seconds_and_nanoseconds_become_timestamps():
    """Evidence 173 also applies in ARRAY, MAP and STRUCT; values below a null are ignored."""
    far = pa.StructArray.from_arrays(
        [pa.array([2**62, 1]), pa.array([0, 5], pa.int32())], fields=list(SEC_NANO)
    )
    structs = pa.StructArray.from_arrays([far], ["t"], mask=pa.array([True, False]))
    lists = pa.array([[seconds_of(-1), None], None], pa.list_(SEC_NANO))
    maps = pa.array([[("a", seconds_of(7))], []], pa.map_(pa.string(), SEC_NANO))
    found = read(
        "r struct<t:timestamp>, l array<timestamp_ntz>, m map<string,timestamp>",
        sent(r=structs, l=lists, m=maps),
        rows=2,
    )
    assert found.to_pylist() == [
        {"r": None, "l": [_at(-1), None], "m": [("a", _at(7))]},
        {"r": {"t": _at(1_000_000_005)}, "l": None, "m": []},
    ]


@pytest.mark.parametrize("nanos", [-(2**63) - 1, 2**63, -62135596800 * 10**9, 2**62 * 10**9])
def test_a_time_outside_of_the_unit_raises_a_typed_error_without_a_retry(nanos):
    """Evidence 173: the error names the column and what to do."""
    came = pa.array([seconds_of(0), None, seconds_of(nanos)], SEC_NANO)
    with pytest.raises(ConversionError, match="column 'when'") as caught:
        read("when timestamp", sent(when=came), attempts=3)
    assert caught.value.column == "when"
    assert "timestamp_unit" in caught.value.hint


def test_a_struct_column_named_like_a_time_struct_stays_a_struct():
    """Only in a time column does the struct mean a time: a STRUCT<sec, nano> stays a struct."""
    came = pa.array([{"sec": 1, "nano": 2}] * 3, SEC_NANO)
    assert read("v struct<sec:bigint,nano:int>", sent(v=came))["v"].type == SEC_NANO


# -- the layout of DECIMAL --------------------------------------------------------------------

LAYOUT = pa.binary(32)


def laid_out(*groups: int, before: int = 1, behind: int = 0, sign: int = 0) -> bytes:
    """Return the bytes of a decimal: groups of nine digits, those before the point first."""
    places = [0] * 6
    for n in range(before):
        places[2 + n] = groups[before - 1 - n]
    for n in range(behind):
        places[1 - n] = groups[before + n]
    return struct.pack("<bbbb6i4x", 0, sign, before, behind, *places)


def test_decimals_in_the_layout_of_maxcompute_are_read():
    """Evidence 173 (Java: ArrowDecimalExtensionAccessor): sign, groups of digits, nulls."""
    values = {
        "0": laid_out(0),
        "-1.5": laid_out(1, 500_000_000, behind=1, sign=1),
        "12345678900000000001.000000001000000023": laid_out(
            12, 345_678_900, 1, 1, 23, before=3, behind=2
        ),
        "0.25": laid_out(250_000_000, before=0, behind=1),
        "-99999999999999999999": laid_out(99, 999_999_999, 999_999_999, before=3, sign=1),
    }
    null = struct.pack("<bbbb6i4x", 1, 0, 1, 0, *[7] * 6)
    came = pa.array([*values.values(), None, null], LAYOUT)
    found = read("d decimal, l array<decimal>", sent(d=came, l=_alone(came)), rows=7)
    expected = [*map(Decimal, values), None, None]
    assert found["d"].type == pa.decimal128(38, 18)
    assert found["d"].to_pylist() == expected
    assert found["l"].to_pylist() == [[value] for value in expected]


def _alone(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)


@pytest.mark.parametrize(
    "cell",
    [
        laid_out(1, 0, 0, 0, before=4),
        laid_out(100, 0, 0, before=3),
        laid_out(1_000_000_000),
        laid_out(-1),
        struct.pack("<bbbb6i4x", 0, 0, 5, 0, *[0] * 6),
        struct.pack("<bbbb6i4x", 0, 0, 1, -1, *[0] * 6),
    ],
)
def test_a_decimal_of_more_than_38_digits_raises_a_typed_error(cell):
    with pytest.raises(ConversionError, match="DECIMAL column 'd'"):
        read("d decimal", sent(d=pa.array([cell], LAYOUT)), rows=1, attempts=3)
    with pytest.raises(FramingError, match="'d'"):
        read("d decimal(10,2)", sent(d=pa.array([cell], LAYOUT)), rows=1)


def test_a_stream_without_the_replaced_forms_is_returned_unchanged():
    batch = pa.record_batch({"s": ["a"], "t": pa.array([1], pa.timestamp("ns"))})
    plain = PlainColumns(
        batch.schema, parse_columns("s string, t timestamp"), unit=TimeUnit.NANO, max_bytes=0
    )
    assert plain.apply(batch) is batch


# -- views, runs and columns without a value ----------------------------------------------------


def runs(values: pa.Array, ends: list[int]) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


def test_arrow_views_become_text_and_bytes():
    """Values are flat or nested, short or long, or null; text may contain invalid UTF-8."""
    raws = [b"a", None, b"", b"\xff" * 40]
    texts, long = ["a", None, "", "é" * 40], [["a"], None, [], ["b" * 40, None]]
    body = sent(
        s=pa.array(texts, pa.string_view()),
        b=pa.array(raws, pa.binary_view()),
        l=pa.array(long, pa.list_(pa.string_view())),
        r=pa.array([{"s": text} for text in texts], pa.struct([("s", pa.string_view())])),
    )
    found = read("s string, b binary, l array<string>, r struct<s:string>", body, rows=4)
    assert found.schema.types[:2] == [pa.string(), pa.binary()]
    assert found["s"].to_pylist() == texts
    assert found["b"].to_pylist() == raws
    assert found["l"].to_pylist() == long
    assert found["r"].to_pylist() == [{"s": text} for text in texts]
    odd = pa.array([b"ok", None, b"\xff" * 20], pa.binary_view()).view(pa.string_view())
    replaced = read("s string", sent(s=odd), text=TextOptions(mode=TextMode.REPLACE))
    assert replaced["s"].to_pylist() == ["ok", None, "\ufffd" * 20]


@pytest.mark.parametrize(
    ("promised", "values", "expected"),
    [
        ("bigint", pa.array([1, None]), pa.array([1, 1, None])),
        ("string", pa.array(["a", None]), pa.array(["a", "a", None])),
        ("string", pa.array(["a", "b"], pa.string_view()), pa.array(["a", "a", "b"])),
        ("boolean", pa.array([True, None]), pa.array([True, True, None])),
        (
            "datetime",
            pa.array([5, None], pa.timestamp("ms", "PRC")),
            pa.array([5, 5, None], pa.timestamp("ms")),
        ),
        ("string", pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "a", "b"])),
    ],
)
def test_run_end_encoded_columns_become_plain_values(promised, values, expected):
    found = read(f"c {promised}", sent(c=runs(values, [2, 3])))["c"]
    assert found.combine_chunks().equals(expected)
    inside = pa.StructArray.from_arrays([runs(values, [2, 3])], names=["c"])
    found = read(f"r struct<c:{promised}>", sent(r=inside))["r"]
    assert found.combine_chunks().field("c").equals(expected)


NULL_TYPES = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "char(3)": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "datetime": pa.timestamp("ms"),
    "timestamp": pa.timestamp("us"),
    "decimal": pa.decimal128(38, 18),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(40,2)": pa.decimal256(40, 2),
    "interval_day_time": pa.duration("ns"),
    "array<timestamp>": pa.list_(pa.field("element", pa.timestamp("us"))),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "struct<a:bigint>": pa.struct([("a", pa.int64())]),
}


@pytest.mark.parametrize("promised", NULL_TYPES)
def test_a_column_without_a_value_has_the_type_of_its_session(promised):
    found = read(f"c {promised}", sent(c=pa.nulls(3)), unit=TimeUnit.MICRO)["c"]
    assert found.type == NULL_TYPES[promised]
    assert found.null_count == 3


def test_nulls_of_an_unknown_type_stay_nulls():
    for came in (pa.nulls(3), pa.nulls(3).dictionary_encode(), runs(pa.nulls(1), [3])):
        batch = pa.record_batch({"c": came})
        plain = PlainColumns(batch.schema, None, unit=TimeUnit.NANO, max_bytes=100).apply(batch)
        assert plain["c"].equals(pa.nulls(3))


def test_nulls_inside_of_nested_values_have_their_type():
    came = pa.array([[None], None, []], pa.list_(pa.null()))
    found = read("l array<bigint>", sent(l=came))["l"]
    assert (found.type.value_type, found.to_pylist()) == (pa.int64(), [[None], None, []])


def test_run_end_encoded_columns_and_views_that_expand_too_much_are_refused():
    """A few bytes would expand to gigabytes."""
    text = "x" * 1000
    one = pa.array([text], pa.string_view())
    _, view, data = one.buffers()
    many_views = pa.py_buffer(view.to_pybytes()[:16] * 100)
    views = pa.Array.from_buffers(one.type, 100, [None, many_views, data])
    many = {"runs": runs(pa.array([text]), [100]), "views": views}
    for column in many.values():
        came = pa.record_batch({"c": column})
        with pytest.raises(LimitExceededError, match="expand to"):
            PlainColumns(came.schema, None, unit=TimeUnit.NANO, max_bytes=50_000).apply(came)
        plain = PlainColumns(came.schema, None, unit=TimeUnit.NANO, max_bytes=100_000).apply(came)
        assert plain["c"].to_pylist() == [text] * 100


@pytest.mark.parametrize(
    "came",
    [
        pa.array([[1], None, [2]], pa.list_view(pa.int64())),
        runs(pa.array([[1], None]), [2, 3]),
        pa.array(["a", "b", "c"]),
    ],
    ids=["list views", "runs of lists", "another type"],
)
def test_a_type_that_differs_from_the_session_is_not_retried(came):
    """A retry would return the same stream."""
    with pytest.raises(FramingError, match="in the session"):
        read("c array<bigint>", sent(c=came), attempts=7)
