"""Uploads over real sockets are confirmed or raise a typed error."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import lz4.frame
import pytest
import zstandard

from odps_nb.errors import (
    ChecksumError,
    FramingError,
    InvalidRequestError,
    ServiceError,
    StateError,
    TransportError,
)
from odps_nb.http.transport import HttpRequest, RequestsTransport
from odps_nb.http.upload import Upload
from odps_nb.stream_io import BlobStreamWriter, Status, StreamWriter
from tests.support.sockets.peers import Line, Peer
from tests.support.sockets.raw_streams import pattern

DATA = pattern(700_000)


def opener(transport: RequestsTransport, url: str) -> Callable[[], Upload]:
    def request(body: Iterator[bytes]) -> HttpRequest:
        return HttpRequest(method="POST", url=url, body=body, read_timeout=5.0)

    return lambda: Upload(transport, request)


def answering(make: Callable[[bytes], Any], status: int = 200, **headers: str) -> Any:
    """Return a script that responds to a complete body with the JSON that ``make`` returns."""

    def script(line: Line) -> None:
        seen = line.request()
        if seen is not None and seen.whole:
            line.answer(json.dumps(make(seen.body)).encode(), status, **headers)

    return script


def confirm_rows(body: bytes) -> dict[str, Any]:
    return {
        "CommitMessage": hashlib.md5(body).hexdigest(),
        "ExactlyOnceRowOffset": 3,
        "StagingId": "staging-5",
        "WarningMessage": "careful",
    }


def confirm_blob(body: bytes) -> dict[str, Any]:
    digest = hashlib.md5(body).hexdigest()
    return {"BlobReference": "/wByZWYw", "Size": len(body), "MD5Value": digest.upper()}


def test_written_rows_arrive_and_the_response_is_returned(transport: RequestsTransport) -> None:
    route = {"x_odps_max_storage_route_token": "route-1"}
    with Peer(answering(confirm_rows, **route)) as peer:
        writer = StreamWriter(opener(transport, peer.url))
        assert writer.get_status() is Status.RUNNING
        assert writer.write(DATA[:500_000]) == 500_000
        assert writer.write(memoryview(DATA)[500_000:]) == 200_000
        writer.flush()
        assert (writer.request_id, writer.get_request_id()) == (None, None)
        assert (writer.get_route_token(), writer.get_write_stream_response()) == (None, None)
        result = writer.finish()
        assert result.commit_message == hashlib.md5(DATA).hexdigest()
        assert (result.exactly_once_row_offset, result.staging_id) == (3, "staging-5")
        assert (result.warning_message, result.request_id) == ("careful", "req-1")
        assert result.route_token == writer.get_route_token() == "route-1"
        assert writer.get_write_stream_response() is result
        assert writer.finish() is result
        assert writer.get_status() is Status.OK
        assert writer.get_request_id() == "req-1"
        for use in (lambda: writer.write(b"x"), lambda: writer.write(b"")):
            with pytest.raises(StateError):
                use()
        writer.abort()
        writer.close()
        assert writer.get_status() is Status.OK


def test_leaving_the_block_finishes_and_an_error_aborts_an_upload(
    transport: RequestsTransport,
) -> None:
    with Peer(answering(confirm_rows)) as peer:
        with StreamWriter(opener(transport, peer.url)) as writer:
            writer.write(b"rows")
        assert writer.get_status() is Status.OK
        assert peer.seen[0].whole
        with suppress(KeyError), StreamWriter(opener(transport, peer.url)) as writer:
            writer.write(DATA)
            raise KeyError
        assert writer.get_status() is Status.CANCELLED
        assert writer.closed
        with StreamWriter(opener(transport, peer.url)) as writer:
            writer.finish()
    assert [seen.whole for seen in peer.seen] in ([True, False, True], [True, True])


@pytest.mark.parametrize("kind", [StreamWriter, BlobStreamWriter])
def test_an_aborted_upload_is_never_stored(transport: RequestsTransport, kind: Any) -> None:
    with Peer(answering(confirm_rows)) as peer:
        writer = kind(opener(transport, peer.url)())
        writer.write(DATA)
        writer.close()
        writer.abort()
        assert not writer.writable()
        with pytest.raises(StateError, match="cancelled"):
            writer.write(b"x")
        with pytest.raises(StateError):
            writer.finish()
    assert not any(seen.whole for seen in peer.seen)


def test_an_upload_that_cannot_be_opened_raises_an_error() -> None:
    def refuses() -> Any:
        raise ConnectionRefusedError

    writer = StreamWriter(refuses)
    with pytest.raises(ConnectionRefusedError):
        writer.write(b"rows")
    assert writer.get_status() is Status.FAILED
    with pytest.raises(StateError):
        writer.finish()


def test_an_abort_before_a_write_opens_no_connection(transport: RequestsTransport) -> None:
    with Peer(answering(confirm_rows)) as peer:
        StreamWriter(opener(transport, peer.url)).abort()
        assert peer.seen == []


@pytest.mark.parametrize("kind", [StreamWriter, BlobStreamWriter])
@pytest.mark.parametrize("status", [400, 201, 500])
def test_any_other_status_raises_an_error_with_code_and_request_id(
    transport: RequestsTransport, kind: Any, status: int
) -> None:
    error = {"Code": "InvalidArgument", "Message": "no"}
    with Peer(answering(lambda _: error, status)) as peer:
        writer = kind(opener(transport, peer.url))
        writer.write(b"rows")
        with pytest.raises(ServiceError) as caught:
            writer.finish()
        assert (caught.value.status, caught.value.request_id) == (status, "req-1")
        assert isinstance(caught.value, InvalidRequestError) or status != 400
        assert writer.get_status() is Status.FAILED
        assert writer.request_id == "req-1"
        with pytest.raises(StateError, match="failed"):
            writer.finish()


def test_a_response_before_the_end_of_the_body_reaches_the_writer(
    transport: RequestsTransport,
) -> None:
    def early(line: Line) -> None:
        line.head()
        line.answer(b"{}", 403)
        line.wait_closed()

    def flood(writer: StreamWriter) -> None:
        for _ in range(1000):
            writer.write(bytes(1 << 18))

    with Peer(early) as peer:
        writer = StreamWriter(opener(transport, peer.url))
        with pytest.raises(ServiceError):
            flood(writer)
        assert writer.get_status() is Status.FAILED


def test_a_connection_that_breaks_raises_a_transport_error(transport: RequestsTransport) -> None:
    def breaks(line: Line) -> None:
        line.request()
        line.reset()

    with Peer(breaks) as peer:
        writer = StreamWriter(opener(transport, peer.url))
        writer.write(b"rows")
        with pytest.raises(TransportError):
            writer.finish()


# -- blobs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", DATA])
@pytest.mark.parametrize(
    ("compression", "decompress"),
    [
        (None, bytes),
        ("none", bytes),
        ("zstd", lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body)),
        ("lz4", lz4.frame.decompress),
    ],
)
def test_a_blob_arrives_and_is_confirmed(
    transport: RequestsTransport, compression: str | None, decompress: Any, data: bytes
) -> None:
    with Peer(answering(lambda body: confirm_blob(decompress(body)))) as peer:
        writer = BlobStreamWriter(opener(transport, peer.url), compression)
        for at in range(0, len(data), 100_000):
            writer.write(data[at : at + 100_000])
        result = writer.finish()
    assert (result.reference.token, result.size) == ("/wByZWYw", len(data))
    assert result.md5 == hashlib.md5(data).hexdigest()
    assert result.request_id == "req-1"


@pytest.mark.parametrize(
    "change",
    [
        {"Size": 3},
        {"MD5Value": "0" * 32},
    ],
)
def test_a_response_with_another_size_or_md5_raises_a_checksum_error(
    transport: RequestsTransport, change: dict[str, Any]
) -> None:
    with Peer(answering(lambda body: {**confirm_blob(body), **change})) as peer:
        writer = BlobStreamWriter(opener(transport, peer.url))
        writer.write(b"data")
        with pytest.raises(ChecksumError) as caught:
            writer.finish()
        assert caught.value.request_id == "req-1"
        assert caught.value.actual in change.values()


def test_a_server_without_size_and_md5_is_accepted(transport: RequestsTransport) -> None:
    with Peer(answering(lambda _: {"BlobReference": "/wByZWYw", "MD5Value": ""})) as peer:
        writer = BlobStreamWriter(opener(transport, peer.url))
        writer.write(b"data")
        assert writer.finish().size == 4


@pytest.mark.parametrize("answer", [{}, {"BlobReferences": ["/wByZWYw", "/wByZWYx"]}])
def test_a_response_without_exactly_one_reference_raises_an_error(
    transport: RequestsTransport, answer: dict[str, Any]
) -> None:
    with Peer(answering(lambda _: answer)) as peer:
        writer = BlobStreamWriter(opener(transport, peer.url))
        with pytest.raises(FramingError, match="references"):
            writer.finish()
