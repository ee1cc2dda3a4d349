"""The start, the end and the end marker of an Arrow stream."""

from contextlib import suppress
from struct import pack

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import (
    FramingError,
    LimitExceededError,
    ProtocolError,
    StateError,
    TruncatedError,
)
from odps_nb.terms import Compression
from odps_nb.wire._ipc_message import parse_message
from odps_nb.wire.arrow_stream import (
    CONTINUATION,
    END_MARKER,
    EndMarkerCheck,
    sniff_body,
)
from tests.support.arrow_bodies import ipc
from tests.support.wire.cutting import CUTS, cut, every


def numbers(rows: int) -> pa.RecordBatch:
    names = pa.array([f"n{i % 7}" for i in range(rows)], pa.string())
    return pa.record_batch({"id": pa.array(range(rows), pa.int64()), "name": names})


def watch(*chunks: bytes, max_metadata: int = 1 << 20, max_body: int = 1 << 20) -> EndMarkerCheck:
    check = EndMarkerCheck(max_metadata=max_metadata, max_body=max_body)
    for chunk in chunks:
        check.feed(chunk)
    return check


SAMPLE = ipc(numbers(10), numbers(0), numbers(3))


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_a_whole_stream_is_complete_and_its_rows_are_counted(compression: str | None) -> None:
    stream = ipc(numbers(1000), numbers(0), numbers(3), compression=compression)
    for chunks in ([stream], every(stream, 1), every(stream, 100)):
        check = watch(*chunks)
        assert check.complete
        assert (check.rows, check.total) == (1003, len(stream))
        check.require(rows=1003)
        check.require()


def test_dictionaries_are_messages_but_not_batches() -> None:
    column = pa.array(["a", "b", "a"]).dictionary_encode()
    check = watch(ipc(pa.record_batch({"d": column})))
    assert check.complete
    assert check.rows == 3


def test_an_empty_stream_is_complete() -> None:
    check = watch(ipc(schema=pa.schema({"id": pa.int64()})))
    check.require(rows=0)


def test_truncation_at_every_byte_is_detected() -> None:
    for size in range(len(SAMPLE)):
        check = watch(SAMPLE[:size])
        assert not check.complete
        begins_message = size == 0 or SAMPLE[size : size + 4] == CONTINUATION
        assert begins_message or not check.between_messages
        with pytest.raises(TruncatedError, match="without its end marker") as caught:
            check.require()
        assert caught.value.offset == size


@given(CUTS)
def test_any_division_gives_the_same_result(cuts: list[int]) -> None:
    check = watch(*cut(SAMPLE, cuts))
    assert (check.complete, check.rows) == (True, 13)


def test_data_that_equals_the_end_marker_does_not_end_the_stream() -> None:
    column = pa.array([int.from_bytes(END_MARKER, "little", signed=True)] * 8)
    stream = ipc(pa.record_batch({"id": column}))
    at = stream.index(END_MARKER)
    assert at < len(stream) - 8
    assert not watch(stream[: at + 8]).complete
    assert watch(stream).complete


def test_bytes_after_the_end_raise_an_error() -> None:
    with pytest.raises(FramingError, match="follow the end marker") as caught:
        watch(SAMPLE + b"x")
    assert caught.value.offset == len(SAMPLE)
    with pytest.raises(FramingError):
        watch(SAMPLE, b"x")


def test_missing_and_surplus_rows_raise_errors() -> None:
    check = watch(SAMPLE)
    with pytest.raises(TruncatedError, match="13 rows, but 14") as caught:
        check.require(rows=14)
    assert (caught.value.expected, caught.value.actual) == (14, 13)
    with pytest.raises(FramingError, match="13 rows, but 12"):
        check.require(rows=12)


@pytest.mark.parametrize(
    "junk",
    [
        b"junkjunk",
        pack("<i", 100) + bytes(4),  # how streams started before Arrow 0.15
        CONTINUATION + pack("<i", -5),
    ],
)
def test_bytes_that_begin_no_message_raise_an_error(junk: bytes) -> None:
    with pytest.raises(FramingError, match="does not begin an Arrow message") as caught:
        watch(junk)
    assert caught.value.offset == 0


def test_oversized_messages_are_refused_before_they_arrive() -> None:
    with pytest.raises(LimitExceededError, match="metadata") as caught:
        watch(CONTINUATION + pack("<i", 2**31 - 1))
    assert caught.value.actual == 2**31 - 1
    body = ipc(numbers(1000))
    with pytest.raises(LimitExceededError, match="body") as caught:
        watch(body, max_body=1000)
    assert "max_body" in (caught.value.hint or "")


def test_after_an_error_no_more_bytes_are_accepted() -> None:
    check = EndMarkerCheck()
    with pytest.raises(FramingError):
        check.feed(b"junkjunk")
    with pytest.raises(StateError):
        check.feed(SAMPLE)
    assert not check.complete


def test_a_flipped_bit_never_raises_another_kind_of_error() -> None:
    stream = bytearray(SAMPLE)
    for at in range(len(stream)):
        stream[at] ^= 1 << at % 8
        with suppress(ProtocolError):
            watch(bytes(stream)).require(rows=13)
        stream[at] ^= 1 << at % 8


@given(st.binary(max_size=200))
def test_any_metadata_is_parsed_or_a_typed_error(metadata: bytes) -> None:
    with suppress(ProtocolError):
        parse_message(metadata)
    size = pack("<i", len(metadata) + 8)
    with suppress(ProtocolError):
        watch(CONTINUATION + size + pack("<I", 8) + metadata + bytes(4))


def test_a_message_with_only_defaults_has_no_kind_no_body_and_no_rows() -> None:
    table = pack("<I", 12) + pack("<HHHH", 4, 4, 0, 0) + pack("<i", 8)
    message = parse_message(table)
    assert (message.kind, message.body_length, message.rows) == (0, 0, 0)


def build_message(*, header: bool, body_length: int) -> bytes:
    """Return a flatbuffer Message of kind RecordBatch, with an empty header or none."""
    vtable = pack("<HHHHHH", 12, 24, 0, 4, 8 if header else 0, 16)
    table = pack("<iBxxxIxxxxq", 12, 3, 12, body_length)
    batch = pack("<HH", 4, 4) + pack("<i", 4)
    return pack("<I", 16) + vtable + table + batch


def test_a_batch_without_a_row_count_has_no_rows() -> None:
    assert parse_message(build_message(header=False, body_length=8)).rows == 0
    assert parse_message(build_message(header=True, body_length=8)).rows == 0


def test_a_negative_body_is_refused() -> None:
    with pytest.raises(FramingError, match="-8 bytes"):
        parse_message(build_message(header=False, body_length=-8))


@pytest.mark.parametrize("metadata", [b"", b"\x04\x00\x00\x00", b"\xff" * 16])
def test_a_message_that_points_outside_of_itself_is_refused(metadata: bytes) -> None:
    with pytest.raises(FramingError, match="outside"):
        parse_message(metadata)


# -- decompressed sizes ------------------------------------------------------------------------


def feed(check: EndMarkerCheck, chunks: list[bytes]) -> None:
    for chunk in chunks:
        check.feed(chunk)


def zeros(rows: int) -> pa.RecordBatch:
    buffer = pa.py_buffer(bytes(8 * rows))
    return pa.record_batch({"z": pa.Array.from_buffers(pa.int64(), rows, [None, buffer])})


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_the_size_of_a_compressed_batch_is_known_before_decompression(compression: str) -> None:
    stream = ipc(zeros(100_000), zeros(50_000), compression=compression)
    for size in (1, 7, 64, len(stream)):
        check = EndMarkerCheck(max_decompressed=800_000)
        feed(check, every(stream, size))
        assert check.complete
        check = EndMarkerCheck(max_decompressed=799_999)
        with pytest.raises(LimitExceededError, match="after decompression") as caught:
            feed(check, every(stream, size))
        assert (caught.value.limit, caught.value.actual) == (799_999, 800_000)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_dictionary_is_bounded_like_a_batch(compression: str) -> None:
    words = pa.array(["x" * 1000 + str(n) for n in range(100)]).dictionary_encode()
    stream = ipc(pa.record_batch({"word": words}), compression=compression)
    assert watch(stream).complete
    with pytest.raises(LimitExceededError, match="after decompression"):
        EndMarkerCheck(max_decompressed=100_000).feed(stream)


def promises_of(stream: bytes) -> list[int]:
    """Return the start of the compressed buffers of the first batch in the stream."""
    at = 8 + int.from_bytes(stream[4:8], "little")
    body = at + 8 + int.from_bytes(stream[at + 4 : at + 8], "little")
    return [body + place for place in parse_message(stream[at + 8 : body]).promises]


def test_uncompressed_buffers_declare_no_size() -> None:
    stream = bytearray(ipc(zeros(100_000), compression="zstd"))
    (place,) = promises_of(stream)
    stream[place : place + 8] = pack("<q", -1)
    EndMarkerCheck(max_decompressed=0).feed(bytes(stream))
    stream[place : place + 8] = pack("<q", -2)
    with pytest.raises(FramingError, match="size -2"):
        watch(bytes(stream))


def test_the_sizes_of_the_buffers_of_a_batch_are_added() -> None:
    stream = bytearray(ipc(numbers(1000), compression="lz4"))
    places = promises_of(stream)
    assert len(places) == 3  # numbers, offsets, text
    for place in places:
        stream[place : place + 8] = pack("<q", 1 << 61)
    with pytest.raises(LimitExceededError):
        EndMarkerCheck(max_decompressed=(1 << 62) + 1).feed(bytes(stream))
    EndMarkerCheck(max_decompressed=3 << 61).feed(bytes(stream))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_the_length_of_columns_without_bytes_is_limited(compression: str | None) -> None:
    few, many = (pa.record_batch({"n": pa.nulls(rows)}) for rows in (1 << 20, (1 << 20) + 1))
    assert watch(ipc(few, compression=compression)).rows == 1 << 20
    with pytest.raises(LimitExceededError, match="1048577 values"):
        watch(ipc(many, compression=compression))
    bits = pa.record_batch({"b": pa.array([True]).take(pa.array([0] * (1 << 21)))})
    assert watch(ipc(bits, compression=compression)).rows == 1 << 21


def changed(
    batch: pa.RecordBatch, old: bytes, new: bytes, *, compression: str | None = None
) -> bytes:
    """Return a stream whose first batch has different metadata."""
    stream = ipc(batch, compression=compression)
    at = 8 + int.from_bytes(stream[4:8], "little")
    body = at + 8 + int.from_bytes(stream[at + 4 : at + 8], "little")
    metadata = stream[at:body]
    assert metadata.count(old) == 1
    return stream[:at] + metadata.replace(old, new) + stream[body:]


@pytest.mark.parametrize(
    "buffers",
    [
        (0, 8, 4, 8),
        (8, 8, 0, 8),
        (0, -8, 8, 8),
        (-8, 8, 8, 8),
        (0, 8, 8, 1 << 40),
        (1 << 62, 8, 8, 8),
    ],
)
def test_buffers_that_overlap_or_exceed_the_body_are_refused(buffers: tuple[int, ...]) -> None:
    batch = pa.record_batch({"a": pa.array([1]), "b": pa.array([2])})
    old = pack("<8q", 0, 0, 0, 8, 8, 0, 8, 8)  # two for validity, two for values
    new = pack("<8q", 0, 0, *buffers[:2], 8, 0, *buffers[2:])
    with pytest.raises(FramingError, match="overlaps another buffer or lies outside"):
        watch(changed(batch, old, new))


def test_a_compressed_buffer_must_have_space_for_its_declared_size() -> None:
    batch = zeros(1000)
    stream = ipc(batch, compression="zstd")
    (place,) = promises_of(stream)
    at = 8 + int.from_bytes(stream[4:8], "little")
    body = at + 8 + int.from_bytes(stream[at + 4 : at + 8], "little")
    size = stream[place:].index(END_MARKER)
    lengths = [
        n for n in range(size - 8, size + 1) if stream[at:body].count(pack("<qq", 0, n)) == 1
    ]
    with pytest.raises(FramingError, match="overlaps another buffer or lies outside"):
        watch(changed(batch, pack("<qq", 0, lengths[0]), pack("<qq", 0, 7), compression="zstd"))


def test_a_column_of_negative_length_is_refused() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2, 3])})
    with pytest.raises(FramingError, match="column is -3"):
        watch(changed(batch, pack("<qq", 3, 0), pack("<qq", -3, 0)))


def test_a_vector_that_extends_beyond_its_message_is_refused() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2, 3])})
    with pytest.raises(FramingError, match="outside"):
        watch(changed(batch, pack("<Iqq", 1, 3, 0), pack("<Iqq", 1 << 28, 3, 0)))


def test_the_compression_metadata_of_old_writers_is_refused() -> None:
    old = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    for metadata in (None, {"ARROW:experimental_compression": "zstd"}):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, numbers(3).schema, options=old) as writer:
            writer.write_batch(numbers(3), custom_metadata=metadata)
        stream = sink.getvalue().to_pybytes()
        if metadata is None:
            assert watch(stream).rows == 3
        else:
            with pytest.raises(FramingError, match="metadata version 4"):
                watch(stream)


@pytest.mark.parametrize("endianness", [0, 1])
def test_a_stream_with_the_other_byte_order_is_refused(endianness: int) -> None:
    vtable = pack("<HHHHHH", 12, 24, 0, 4, 8, 0)
    table = pack("<iBxxxIxxxxxxxxxxxx", 12, 1, 24)
    schema = pack("<HHH", 6, 8, 4) + pack("<xx") + pack("<ih", 8, endianness)
    message = pack("<I", 16) + vtable + table + schema
    if endianness:
        with pytest.raises(FramingError, match="big-endian"):
            parse_message(message)
    else:
        assert parse_message(message).kind == 1


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema({"name": pa.int64()}),
        pa.schema({"s": pa.list_(pa.struct([("name", pa.int64())]))}),
        pa.schema({"t": pa.timestamp("ns", "name")}),
    ],
    ids=["column", "member", "zone"],
)
def test_names_that_are_not_utf8_are_refused_at_every_level(schema: pa.Schema) -> None:
    stream = schema.serialize().to_pybytes()
    assert not watch(stream).complete
    with pytest.raises(FramingError, match="not UTF-8 text"):
        watch(stream.replace(b"name", b"na\xffe"))


def test_a_schema_with_shared_parts_is_refused_if_it_expands_too_much() -> None:
    """Each level refers twice to the next one: 40 levels would be 10^12 fields."""
    field = pack("<HHHHHHHH", 16, 8, 0, 0, 0, 0, 0, 4)  # a vtable; the children are at offset 4
    levels = b"".join(pack("<iIIII", 16 + 20 * n, 4, 2, 8, 4) for n in range(40))
    schema = pack("<HHHH", 8, 8, 0, 4) + pack("<iI", 8, 4) + pack("<II", 1, 4 + 16)
    vtable = pack("<HHHHHH", 12, 12, 0, 4, 8, 0) + pack("<iBxxxI", 12, 1, 4 + 8)
    with pytest.raises(FramingError, match="100000 fields"):
        parse_message(pack("<I", 16) + vtable + schema + field + levels + bytes(4))


# -- the first bytes ---------------------------------------------------------------------------


def test_the_first_bytes_determine_the_coding_of_a_body() -> None:
    assert sniff_body(SAMPLE, None) == "ipc"
    assert sniff_body(bytes.fromhex("28b52ffd"), None) is Compression.ZSTD
    assert sniff_body(bytes.fromhex("04224d18"), "") is Compression.LZ4
    assert sniff_body(bytes.fromhex("28b52ffd"), "zstd") is Compression.ZSTD
    assert sniff_body(bytes.fromhex("04224d18"), Compression.LZ4) is Compression.LZ4


def test_a_content_encoding_that_the_bytes_contradict_raises_an_error() -> None:
    with pytest.raises(FramingError, match="says zstd"):
        sniff_body(SAMPLE, "zstd")
    with pytest.raises(FramingError, match="says x-lz4-frame"):
        sniff_body(bytes.fromhex("28b52ffd"), "x-lz4-frame")
    with pytest.raises(FramingError, match="'gzip'"):
        sniff_body(SAMPLE, "gzip")


def test_unknown_first_bytes_raise_an_error() -> None:
    with pytest.raises(FramingError, match="7b 22 43 6f, which is not"):
        sniff_body(b'{"Code": ', None)


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_a_body_of_fewer_than_four_bytes_is_truncated(size: int) -> None:
    with pytest.raises(TruncatedError) as caught:
        sniff_body(CONTINUATION[:size], None)
    assert caught.value.actual == size
