"""An Arrow stream in any coding is complete and has plain types, or raises an error."""

from __future__ import annotations

import gzip
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.client.read.arrow_body import RowStream
from odps_nb.errors import (
    BrokenStreamError,
    ConversionError,
    FramingError,
    InvalidRequestError,
    LimitExceededError,
    OdpsNbError,
    ProtocolError,
    ServiceError,
    StateError,
    TruncatedError,
)
from odps_nb.http.transport import HttpRequest, RequestsTransport
from odps_nb.terms import Compression
from odps_nb.wire.calls import HTTP_CODINGS
from odps_nb.wire.codings import encoder
from tests.support import arrow_bodies
from tests.support.sockets.peers import Line, Peer
from tests.support.sockets.scripted import ids, ipc, numbers

TABLE = numbers(0, 95).append_column("s", pa.array([f"row {n}" * (n % 7) for n in range(95)]))
WHOLE = ipc(TABLE)


class Opened:
    """A row stream over a body that a peer sends in a given way."""

    def __init__(self, body: bytes, way: str = "length", **headers: str) -> None:
        def script(line: Line) -> None:
            line.request()
            if way == "length":
                line.answer(body, **headers)
            elif way == "chunked":
                line.chunked(*[body[at : at + 100] for at in range(0, len(body), 100)])
            else:
                line.send(line.headline(**headers) + body)

        self.peer = Peer(script)
        self.transport = RequestsTransport()

    def __enter__(self):
        request = HttpRequest(method="POST", url=self.peer.url, read_timeout=5.0)
        self.response = self.transport.send(request)
        return self.response

    def __exit__(self, *_):
        self.response.close()
        self.transport.close()
        self.peer.close()


def read_all(response, **facts) -> pa.Table:
    stream = RowStream(response, **facts)
    return pa.Table.from_batches(list(iter(stream.next, None)), schema=stream.schema)


@pytest.mark.parametrize("way", ["length", "chunked", "until close"])
@pytest.mark.parametrize("inner", [None, "zstd", "lz4"])
def test_rows_arrive_however_the_body_is_delimited(way, inner):
    with Opened(ipc(TABLE, compression=inner), way) as response:
        assert read_all(response).equals(TABLE)
        assert response.closed


def coded(body: bytes, coding: Compression) -> bytes:
    squeeze = encoder(coding)
    return squeeze.feed(body) + squeeze.finish()


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("coding", [Compression.ZSTD, Compression.LZ4])
def test_the_coding_of_a_body_is_detected_from_its_bytes(coding, declared):
    headers = {"Content-Encoding": HTTP_CODINGS[coding]} if declared else {}
    with Opened(coded(WHOLE, coding), **headers) as response:
        assert read_all(response).equals(TABLE)


@pytest.mark.parametrize("coding", [Compression.ZSTD, Compression.LZ4])
def test_rows_that_compress_well_are_decoded_a_piece_at_a_time(coding):
    rows, batches = 2**17, 192
    column = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(bytes(8 * rows))])
    zeros = pa.table({"id": column})
    body = ipc(pa.concat_tables([zeros] * batches), rows=rows)
    with Opened(coded(body, coding)) as response:
        del body
        tracemalloc.start()
        stream = RowStream(response)
        try:
            assert sum(batch.num_rows for batch in iter(stream.next, None)) == rows * batches
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # a piece of 8 MiB, the rest of the previous piece, and a batch; LZ4 needs nine times as much
    assert peak < 96 * 2**20


def test_an_empty_stream_has_a_schema_and_no_batch():
    with Opened(ipc(TABLE.slice(0, 0))) as response:
        assert read_all(response).equals(TABLE.slice(0, 0))


def test_batches_without_rows_are_skipped():
    empty, full = (
        TABLE.slice(0, 0).to_batches() or [pa.RecordBatch.from_pylist([], schema=TABLE.schema)],
        TABLE.to_batches(),
    )
    with Opened(arrow_bodies.ipc(*empty, *full, *empty)) as response:
        stream = RowStream(response)
        assert [batch.num_rows for batch in iter(stream.next, None)] == [95]


@pytest.mark.gate(1)
@pytest.mark.parametrize("way", ["length", "chunked", "until close"])
def test_truncation_inside_or_between_messages_raises_an_error(way):
    marks = [at for at in range(len(WHOLE)) if WHOLE[at : at + 4] == b"\xff\xff\xff\xff"]
    beside = {mark + step for mark in marks for step in (-1, 0, 1, 4, 7, 8)}
    between = range(0, len(WHOLE), 37 if way == "until close" else 400)
    for at in sorted({*between, *beside} & set(range(len(WHOLE)))):
        with Opened(WHOLE[:at], way) as response, pytest.raises(ProtocolError) as caught:
            read_all(response)
        assert caught.value.request_id == "req-1"


@settings(max_examples=60)
@given(data=st.data())
def test_truncation_is_detected_in_every_coding(data):
    coding = data.draw(st.sampled_from([Compression.ZSTD, Compression.LZ4]))
    body = coded(WHOLE, coding)
    at = data.draw(st.integers(0, len(body) - 1))
    with Opened(body[:at]) as response, pytest.raises(ProtocolError):
        read_all(response)


@settings(max_examples=60)
@given(data=st.data())
def test_a_flipped_bit_in_a_coding_with_a_checksum_raises_an_error(data):
    coding = data.draw(st.sampled_from([Compression.ZSTD, Compression.LZ4]))
    body = bytearray(coded(WHOLE, coding))
    body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with Opened(bytes(body)) as response:
        try:
            got = read_all(response)
        except OdpsNbError:
            return
        assert got.equals(TABLE)  # a bit without effect, such as a reserved bit


@settings(max_examples=60)
@given(data=st.data())
def test_any_damage_gives_a_typed_error_or_a_table(data):
    body = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with Opened(bytes(body)) as response:
        try:
            read_all(response)
        except OdpsNbError as error:
            # a changed byte of text may also be valid data, because there is no checksum
            assert isinstance(error, (ProtocolError, ConversionError))  # noqa: PT017


def test_bytes_after_the_end_marker_raise_an_error():
    with (
        Opened(WHOLE + b"x") as response,
        pytest.raises(FramingError, match="bytes follow"),
    ):
        read_all(response)


def test_an_end_marker_in_a_broken_http_body_is_not_accepted():
    def script(line: Line) -> None:
        line.request()
        line.chunked(WHOLE, end=False)

    transport = RequestsTransport()
    with Peer(script) as peer:
        response = transport.send(HttpRequest(method="POST", url=peer.url, read_timeout=5.0))
        with response, pytest.raises(BrokenStreamError):
            read_all(response)
    transport.close()


def test_a_header_that_contradicts_the_body_raises_an_error():
    with Opened(WHOLE, **{"Content-Encoding": "zstd"}) as response, pytest.raises(FramingError):
        RowStream(response)


def test_an_arrow_message_over_the_limit_is_refused_before_reading_it():
    with Opened(WHOLE) as response, pytest.raises(LimitExceededError) as caught:
        read_all(response, max_message=64)
    assert caught.value.limit == 64


def test_a_closed_reader_returns_no_batch():
    with Opened(WHOLE) as response:
        stream = RowStream(response)
        assert ids([stream.next()]) == list(range(10))
        stream.close()
        stream.close()
        with pytest.raises(StateError):
            stream.next()


def test_a_stream_that_ends_between_two_batches_is_reported_as_truncated():
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, TABLE.schema)
    writer.write_table(TABLE)
    with Opened(sink.getvalue().to_pybytes(), "until close") as response:
        stream = RowStream(response)
        assert stream.next().num_rows == 95
        with pytest.raises(TruncatedError, match="end marker"):
            stream.next()


OVERFLOW = b"ODPS-0422214: Read data failed - RuntimeTimestamp data overflow"
DOCUMENTS = [
    b'{"Code": "ODPS-0422214", "Message": "%b"}' % OVERFLOW,
    b"<Error><Code>ODPS-0422214</Code><Message>%b</Message></Error>" % OVERFLOW,
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=["json", "xml"])
def test_an_error_document_in_place_of_rows_is_raised(document):
    """Evidence 152: the status of this error is unknown."""
    with Opened(document) as response, pytest.raises(InvalidRequestError) as caught:
        RowStream(response)
    assert caught.value.message == OVERFLOW.decode()
    assert "timestamp_unit='us'" in caught.value.hint


def boundaries(document: bytes) -> dict[str, bytes]:
    """Return bodies with the error document at each place where a message may begin."""
    schema = pa.ipc.read_message(WHOLE)
    sink = pa.BufferOutputStream()
    schema.serialize_to(sink)
    head = len(sink.getvalue())
    return {
        "instead": document,
        "after the schema": WHOLE[:head] + document,
        "after the batches": WHOLE[:-8] + document,
        "after the end": WHOLE + document,
    }


@pytest.mark.parametrize("coding", [None, *HTTP_CODINGS])
@pytest.mark.parametrize("place", boundaries(b""))
def test_an_error_document_at_a_message_boundary_is_raised(place, coding):
    """Evidence 152: the error is recognised by its number, or by the form of the document."""
    unknown = [b'{"Code": "Odd", "Message": "why"}', b" <Error><Code>Odd</Code></Error>"]
    for document in (*DOCUMENTS, *unknown):
        body = boundaries(document)[place]
        sent = coded(body, coding) if coding else body
        with Opened(sent) as response, pytest.raises(ServiceError) as caught:
            read_all(response)
        if document in unknown:
            assert type(caught.value) is ServiceError
            assert caught.value.code == "Odd"
        else:
            assert type(caught.value) is InvalidRequestError
            assert caught.value.message == OVERFLOW.decode()
    with Opened(gzip.compress(DOCUMENTS[0])) as response, pytest.raises(InvalidRequestError):
        RowStream(response)


@pytest.mark.parametrize("page", [b"<p>sign in</p>", b'{"wifi": "sign in"}', b"{\x00\xff\xff"])
def test_an_error_of_another_server_is_not_reported_as_an_error_of_the_service(page):
    with Opened(page) as response, pytest.raises(FramingError, match="which is not Arrow"):
        RowStream(response)
    with Opened(WHOLE[:-8] + page) as response, pytest.raises(ProtocolError):
        read_all(response)
