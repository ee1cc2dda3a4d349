"""Text that is not UTF-8 in every Arrow layout, whole and sliced, and bytes outside of all rows."""

from __future__ import annotations

import io
import struct
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.arrow import text as forms
from odps_nb.arrow.text import as_bytes, fit_text, is_utf8, text_types
from odps_nb.arrow.validation import Validator, validate
from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.splits import iter_split
from odps_nb.errors import ConversionError, FramingError
from odps_nb.schema import TableSchema
from odps_nb.stream_io import ArrowReader, StreamReader
from odps_nb.terms import RowRangeSplit, TextMode
from odps_nb.wire.type_text import parse_columns
from tests.support.any_bytes import replaced, text_of
from tests.support.sockets.scripted import TABLE, Service, ipc, raw

BAD = b"a\xe9"
TEXT, LARGE = pa.string(), pa.large_string()
STRUCT = pa.struct([("n", pa.int64()), ("x", TEXT)])
LAYOUTS: list[tuple[pa.DataType, list[Any], str, int]] = [
    (TEXT, [b"a", None, BAD], "c", 2),
    (LARGE, [b"a", None, BAD], "c", 2),
    (pa.list_(TEXT), [[], None, [b"a"], [None, BAD]], "c.element", 3),
    (pa.large_list(LARGE), [[b"a"], [BAD]], "c.element", 1),
    (pa.list_(TEXT, 2), [[b"a", b"b"], None, [b"a", BAD]], "c.element", 2),
    (pa.map_(TEXT, pa.int64()), [[(b"k", 1)], None, [(BAD, 2)]], "c.key", 2),
    (pa.map_(pa.int64(), TEXT), [[(1, b"v"), (2, None)], [(3, BAD)]], "c.value", 1),
    (STRUCT, [None, {"n": 1, "x": b"a"}, {"n": 2, "x": BAD}], "c.x", 2),
    (pa.list_(STRUCT), [[{"n": 1, "x": b"a"}, {"n": 1, "x": BAD}]], "c.element.x", 0),
    (pa.list_(pa.list_(TEXT)), [[[b"a"], []], [[], [BAD]]], "c.element.element", 1),
    (pa.dictionary(pa.int8(), TEXT), [b"a", None, BAD, b"a", BAD], "c", 2),
    (pa.dictionary(pa.int32(), LARGE), [BAD, b"a"], "c", 0),
]


def fitted(batch: pa.RecordBatch, mode: TextMode) -> pa.RecordBatch:
    """The result of a read for an arriving batch."""
    found = Validator(batch.schema).validate(batch)
    types = text_types(batch.schema, None, mode)
    return fit_text(found, types, mode, lambda row: (f"row {row}", row))


@pytest.mark.parametrize(("kind", "values", "path", "row"), LAYOUTS, ids=str)
def test_invalid_text_in_every_layout_is_replaced_or_kept_as_bytes_or_named(
    kind: pa.DataType, values: list[Any], path: str, row: int
) -> None:
    whole = pa.record_batch({"c": text_of(values, kind)})
    for start in range(row + 1):
        batch = whole.slice(start)
        text, raw_bytes = fitted(batch, TextMode.REPLACE), fitted(batch, TextMode.BINARY)
        assert text.schema == batch.schema
        text.validate(full=True)
        assert text.column("c").to_pylist() == replaced(values[start:])
        assert raw_bytes.schema.field("c").type == as_bytes(kind)
        assert raw_bytes.column("c").to_pylist() == values[start:]
        with pytest.raises(ConversionError) as caught:
            fitted(batch, TextMode.STRICT)
        assert (caught.value.column, caught.value.row) == (path, row - start)
        with pytest.raises(pa.ArrowInvalid):
            validate(batch)


@pytest.mark.parametrize(("kind", "values", "path", "row"), LAYOUTS, ids=str)
def test_invalid_bytes_outside_of_rows_raise_no_error(
    kind: pa.DataType, values: list[Any], path: str, row: int
) -> None:
    batch = pa.record_batch({"c": text_of(values, kind)}).slice(0, row)
    assert fitted(batch, TextMode.STRICT).column("c").to_pylist() == replaced(values[:row])


def test_bytes_below_a_null_of_a_struct_or_list_raise_no_error() -> None:
    member = text_of([BAD, b"a"])
    struct = pa.StructArray.from_arrays([member], ["x"], mask=pa.array([True, False]))
    offsets = pa.array([0, 1, 2], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, member, mask=pa.array([True, False]))
    for array, shown in ((struct, [None, {"x": "a"}]), (lists, [None, ["a"]])):
        found = fitted(pa.record_batch({"c": array}), TextMode.STRICT)
        assert found.column("c").to_pylist() == shown
        found.validate(full=True)


def test_text_modes_keep_other_columns_and_metadata() -> None:
    fields = [pa.field("c", TEXT, metadata={"k": "v"}), pa.field("n", pa.int64(), nullable=False)]
    schema = pa.schema(fields, metadata={"s": "t"})
    batch = pa.record_batch([text_of([BAD]), pa.array([1])], schema=schema)
    found = fitted(batch, TextMode.REPLACE)
    assert found.schema.equals(schema, check_metadata=True)
    assert found.column("n").to_pylist() == [1]


@settings(max_examples=50)
@given(st.lists(st.none() | st.binary(max_size=5) | st.text(max_size=3).map(str.encode)))
def test_replaced_text_equals_that_of_python(values: list[bytes | None]) -> None:
    batch = pa.record_batch({"c": text_of(values)})
    assert fitted(batch, TextMode.REPLACE).column("c").to_pylist() == replaced(values)
    assert fitted(batch, TextMode.BINARY).column("c").to_pylist() == values
    assert is_utf8(batch.column("c")) == (
        replaced(values)
        == [None if one is None else one.decode("utf-8", "surrogateescape") for one in values]
    )


def test_an_error_quotes_a_long_value_around_its_first_byte_that_is_not_utf8() -> None:
    value = b"x" * 1000 + b"\xff" + b"y" * 1000
    with pytest.raises(ConversionError) as caught:
        fitted(pa.record_batch({"c": text_of([value])}), TextMode.STRICT)
    message = str(caught.value)
    assert "… 78 78" in message
    assert "ff 79" in message
    assert message.endswith("(byte 1000 of 2001)")
    assert len(message) < 200


# -- over sockets -------------------------------------------------------------------------------

SESSION = ReadSession(
    table=TABLE,
    session_id="s",
    schema=TableSchema(columns=parse_columns("s string")),
    splits=(),
    row_count=3,
)


def body_of(array: pa.Array) -> bytes:
    """Return a stream as a service may send it; Arrow's writer does not validate text."""
    return ipc(pa.table({"s": array}))


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_text_that_is_not_utf8_is_not_retried(codec: str | None) -> None:
    body = ipc(pa.table({"s": text_of([b"a", BAD, b"c"])}), compression=codec)
    with Service(ReadRows=[raw(body)]) as service, service.client() as storage:
        with pytest.raises(ConversionError, match=r"column 's' in row 1 of p\.t") as caught:
            list(iter_split(storage, SESSION, RowRangeSplit(0, 3)))
        assert len(service.calls["ReadRows"]) == 1
        assert service.slept == []
    assert "plain http" in str(caught.value.notes)  # a changed byte would look the same


def test_a_stream_whose_structure_is_damaged_is_read_again() -> None:
    ends = pa.py_buffer(struct.pack("<4i", 0, 1 << 20, 2, 3))
    broken = pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(b"abc")])
    steps = [raw(body_of(broken)), raw(body_of(pa.array(["a", "b", "c"])))]
    with Service(ReadRows=steps) as service, service.client() as storage:
        rows = list(iter_split(storage, SESSION, RowRangeSplit(0, 3)))
        assert [batch.column("s").to_pylist() for batch in rows] == [["a", "b", "c"]]
        assert len(service.calls["ReadRows"]) == 2
    with Service(ReadRows=steps[:1]) as service, service.client() as storage:
        with pytest.raises(FramingError, match="the Arrow stream is damaged"):
            list(iter_split(storage, SESSION, RowRangeSplit(0, 3)))
        assert len(service.calls["ReadRows"]) > 2


def test_only_bodies_over_plain_http_can_change_undetected() -> None:
    class Body(io.BytesIO):
        headers: ClassVar[dict[str, str]] = {}
        request_id = None
        url = "https://service/rows"

        def read1(self, n: int = -1) -> bytes:
            return super().read1(n)

    body = body_of(text_of([BAD]))
    for url, notes in (("https://service/rows", 0), ("http://service/rows", 1)):
        source = Body(body)
        source.url = url
        with pytest.raises(ConversionError) as caught:
            RowStream(source).next()
        assert len(caught.value.notes) == notes


def test_the_reader_of_stream_io_has_the_text_option() -> None:
    body = body_of(text_of([b"a", BAD]))
    for text, shown in (("replace", ["a", "a\ufffd"]), ("binary", [b"a", BAD])):
        with ArrowReader(StreamReader(io.BytesIO(body)), text=text) as reader:
            kind = reader.schema.field("s").type
            assert kind == (pa.binary() if text == "binary" else pa.string())
            assert [row for batch in reader for row in batch.column("s").to_pylist()] == shown
    with (
        ArrowReader(StreamReader(io.BytesIO(body))) as reader,
        pytest.raises(ConversionError, match="row 1 of the stream"),
    ):
        list(reader)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("to_text", [False, True])
def test_valid_columns_are_checked_in_one_step(
    monkeypatch: pytest.MonkeyPatch, nested: bool, to_text: bool
) -> None:
    """Checking each cell would take a thousand times as long."""
    one, other = (pa.binary(), pa.string()) if to_text else (pa.string(), pa.binary())
    kinds = [one, pa.dictionary(pa.int32(), one)]
    wanted = [other, pa.dictionary(pa.int32(), other)]
    if nested:
        kinds = [pa.list_(one), pa.struct([("x", one)]), pa.map_(one, one)]
        wanted = [pa.list_(other), pa.struct([("x", other)]), pa.map_(other, other)]
    monkeypatch.setattr(forms, "_bad_in", lambda *_: pytest.fail("a cell was checked alone"))
    for kind, other_kind in zip(kinds, wanted, strict=True):
        value: Any = [("k", "v")] if pa.types.is_map(kind) else {"x": "v"}
        value = value if pa.types.is_nested(kind) and not pa.types.is_list(kind) else "v"
        array = pa.array([["v"] if pa.types.is_list(kind) else value, None], kind)
        assert forms._first_bad(array, other_kind, "c") is None
