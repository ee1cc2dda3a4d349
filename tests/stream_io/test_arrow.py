"""Record batches read from a body and written to a body: complete, counted, with one schema."""

import io
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.errors import (
    ConversionError,
    FramingError,
    LimitExceededError,
    StateError,
    TruncatedError,
)
from odps_nb.stream_io import ArrowReader, ArrowWriter, Status, StreamReader, StreamWriter
from odps_nb.terms import Compression
from odps_nb.wire.codings import HTTP_NAMES
from tests.support.arrow_bodies import ipc
from tests.support.sockets.raw_streams import ReadOnly, StoringUpload, WithHeaders, code

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "tags": pa.list_(pa.string())})


def rows(count: int, start: int = 0) -> pa.RecordBatch:
    ids = range(start, start + count)
    return pa.record_batch(
        [
            pa.array(ids, pa.int64()),
            pa.array([None if n % 5 == 0 else f"name {n}" for n in ids], pa.string()),
            pa.array([[f"t{n % 3}"] * (n % 4) for n in ids], pa.list_(pa.string())),
        ],
        schema=SCHEMA,
    )


BATCHES = [rows(1000), rows(0), rows(3, 1000)]


def read(body: bytes, **options: Any) -> list[pa.RecordBatch]:
    return list(ArrowReader(StreamReader(ReadOnly(body)), **options))


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
@pytest.mark.parametrize("coding", [None, Compression.ZSTD, Compression.LZ4])
def test_batches_are_read_in_every_codec_and_coding(
    codec: str | None, coding: Compression | None
) -> None:
    body = ipc(*BATCHES, compression=codec)
    headers = {}
    if coding is not None:
        body, headers = code(coding, body), {"content_encoding": HTTP_NAMES[coding]}
    for answer in (ReadOnly(body), ReadOnly(body, most=777), WithHeaders(body, **headers)):
        with ArrowReader(StreamReader(answer), expected_rows=1003) as reader:
            assert reader.schema == SCHEMA
            assert reader.get_status() is Status.RUNNING
            assert list(reader) == BATCHES
            assert reader.get_status() is Status.OK
            assert reader.read() is None
            assert list(reader) == []
        assert reader.get_status() is Status.OK
        with pytest.raises(StateError):
            reader.read()


@pytest.mark.parametrize("coding", [None, Compression.ZSTD, Compression.LZ4])
def test_truncation_at_every_byte_is_detected(coding: Compression | None) -> None:
    body = ipc(rows(3), rows(2))
    body = body if coding is None else code(coding, body)
    marks = [at for at in range(len(body)) if body[at : at + 4] == b"\xff\xff\xff\xff"]
    near = {mark + step for mark in marks for step in range(-2, 10)} & set(range(len(body)))
    for size in sorted({*range(0, len(body), 1 if coding else 5), *near}):
        with pytest.raises(TruncatedError):
            read(body[:size])


def test_missing_and_surplus_rows_raise_errors_after_the_last_batch() -> None:
    reader = ArrowReader(StreamReader(io.BytesIO(ipc(*BATCHES))), expected_rows=1004)
    assert [reader.read().num_rows for _ in BATCHES] == [1000, 0, 3]
    with pytest.raises(TruncatedError, match="1003 rows, but 1004"):
        reader.read()
    assert reader.get_status() is Status.FAILED
    with pytest.raises(StateError):
        reader.read()
    with pytest.raises(FramingError, match="1003 rows, but 1002"):
        read(ipc(*BATCHES), expected_rows=1002)


def test_an_oversized_batch_is_refused_before_it_arrives() -> None:
    with pytest.raises(LimitExceededError):
        read(ipc(*BATCHES), max_batch=1000)


def test_the_decoded_size_of_a_coded_body_is_limited() -> None:
    body = code(Compression.ZSTD, ipc(rows(50_000)))
    with pytest.raises(LimitExceededError):
        read(body, max_output=10_000)


def test_an_error_of_the_connection_is_raised_unchanged() -> None:
    class Breaks(ReadOnly):
        def read(self, size: int) -> bytes:
            if self.file.tell() > 1000:
                raise ConnectionResetError("gone")
            return super().read(min(size, 500))

    with pytest.raises(ConnectionResetError):
        list(ArrowReader(StreamReader(Breaks(ipc(*BATCHES)))))


def test_close_frees_the_source_and_later_calls_raise_a_state_error() -> None:
    raw = WithHeaders(ipc(*BATCHES), x_odps_request_id="r1")
    with ArrowReader(StreamReader(raw)) as reader:
        reader.read()
        assert reader.get_request_id() == "r1"
    reader.close()
    assert raw.closed
    assert reader.get_status() is Status.CANCELLED
    for use in (reader.read, lambda: reader.schema):
        with pytest.raises(StateError, match="closed"):
            use()


# -- writing -----------------------------------------------------------------------------------


@pytest.fixture
def server() -> StoringUpload:
    return StoringUpload()


@pytest.mark.parametrize("codec", [None, "none", "zstd", "lz4"])
def test_written_batches_can_be_read(server: StoringUpload, codec: str | None) -> None:
    with ArrowWriter(StreamWriter(server), SCHEMA, codec) as writer:
        assert [writer.write(batch) for batch in BATCHES] == [1000, 0, 3]
        assert writer.write(pa.Table.from_batches([rows(2), rows(5)])) == 7
    assert writer.rows == 1010
    assert writer.schema == SCHEMA
    assert (writer.get_status(), writer.get_request_id()) == (Status.OK, "r1")
    result = writer.finish()
    assert result.commit_message == "m"
    assert pa.Table.from_batches(read(bytes(server.body), expected_rows=1010)) == (
        pa.Table.from_batches([*BATCHES, rows(2), rows(5)])
    )


def test_compression_makes_the_stream_smaller(server: StoringUpload) -> None:
    sizes = {}
    for codec in (None, "zstd"):
        server.body.clear()
        with ArrowWriter(StreamWriter(server), SCHEMA, codec) as writer:
            writer.write(rows(10_000))
        sizes[codec] = len(server.body)
    assert sizes["zstd"] < sizes[None]


def test_finish_without_rows_sends_a_valid_empty_stream(server: StoringUpload) -> None:
    writer = ArrowWriter(StreamWriter(server), SCHEMA)
    assert server.body == b""
    assert writer.finish().commit_message == "m"
    assert read(bytes(server.body), expected_rows=0) == []
    assert ArrowReader(StreamReader(io.BytesIO(server.body))).schema == SCHEMA


def test_a_batch_of_another_schema_raises_a_conversion_error_and_the_stream_stays_usable(
    server: StoringUpload,
) -> None:
    with ArrowWriter(StreamWriter(server), SCHEMA) as writer:
        with pytest.raises(ConversionError) as caught:
            writer.write(pa.record_batch({"id": ["text"]}))
        assert "int64" in (caught.value.target_type or "")
        writer.write(rows(3))
    assert read(bytes(server.body), expected_rows=3) == [rows(3)]


def test_an_error_in_the_block_aborts_the_stream(server: StoringUpload) -> None:
    with suppress(KeyError), ArrowWriter(StreamWriter(server), SCHEMA) as writer:
        writer.write(rows(3))
        raise KeyError
    assert server.aborted
    with pytest.raises(StateError, match="cancelled"):
        writer.write(rows(3))
    with pytest.raises(StateError):
        writer.finish()


def test_leaving_the_block_after_finish_or_close_has_no_effect(server: StoringUpload) -> None:
    with ArrowWriter(StreamWriter(server), SCHEMA) as writer:
        writer.finish()
    assert not server.aborted
    other = StoringUpload()
    with ArrowWriter(StreamWriter(other), SCHEMA) as writer:
        writer.close()
    assert other.aborted


def test_a_failed_write_raises_an_error_and_ends_the_stream(server: StoringUpload) -> None:
    class Fails(StoringUpload):
        def write(self, data: bytes) -> None:
            raise ConnectionResetError("gone")

    failing = Fails()
    writer = ArrowWriter(StreamWriter(failing), SCHEMA)
    with pytest.raises(ConnectionResetError):
        writer.write(rows(3))
    assert failing.aborted
    assert writer.get_status() is Status.FAILED
    with pytest.raises(StateError, match="failed"):
        writer.write(rows(3))
