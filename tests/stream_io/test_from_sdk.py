"""Code for the SDK's stream_io works with odps_nb's classes, or the error states the change.

The first part runs the older SDK's own client with our streams in a separate process, against the
embedded service; each test of the second part covers one thing that this client does not do.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from enum import Enum
from typing import Any

import pyarrow as pa
import pytest
import requests
from odps.maxstorage import CompressionCodec
from odps.maxstorage import Status as SdkStatus
from odps.tunnel import CompressOption

from odps_nb.errors import (
    AccessDeniedError,
    ArgumentError,
    BrokenStreamError,
    ConfigError,
    ConversionError,
    ServiceError,
    StateError,
)
from odps_nb.local.server.launch import LocalService
from odps_nb.stream_io import (
    ArrowReader,
    ArrowWriter,
    BlobDataIterator,
    BlobStreamWriter,
    Compression,
    CrcStrippingStream,
    Status,
    StreamReader,
    StreamWriter,
)
from odps_nb.wire.blocks import encode_blocks
from tests.support.arrow_bodies import ipc
from tests.support.compat import jobs_on_our_streams, older_jobs
from tests.support.sockets.peers import Line, Peer
from tests.support.sockets.raw_streams import StoringUpload, framed

BATCH = pa.record_batch({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def job_results(
    run_older: Callable[..., list[dict[str, Any]]], empty_service: LocalService
) -> list[dict[str, Any]]:
    return run_older(jobs_on_our_streams.__name__, empty_service)


@pytest.mark.gate(5)
@pytest.mark.compat
@pytest.mark.parametrize(
    "job", [job for job, version in older_jobs.JOBS if version == jobs_on_our_streams.VERSION]
)
def test_the_older_client_runs_its_jobs_on_streams_of_odps_nb(
    job_results: list[dict[str, Any]], job: str
) -> None:
    (found,) = [one for one in job_results[1:] if one["job"] == job]
    if found["trouble"] is not None:
        pytest.fail(found["trouble"], pytrace=False)


# -- uploads by a function ----------------------------------------------------------------------


def accept_body(line: Line) -> None:
    if line.request():
        line.answer(b'{"CommitMessage": "m", "BlobReference": "/wByZWYw"}', Connection="close")


def refuse_body(line: Line) -> None:
    if line.request():
        line.answer(b'{"Code": "NoPermission", "Message": "no"}', 403, Connection="close")


def post_to(peer: Peer) -> Callable[..., requests.Response]:
    def upload(data: Any) -> requests.Response:
        return requests.post(peer.url, data=data, timeout=10)

    return upload


def test_an_upload_function_receives_the_body() -> None:
    with Peer(accept_body) as peer:
        writer = StreamWriter(post_to(peer))
        assert writer.write(b"rows ") == 5
        assert writer.write(b"of a stream")
        commit_message, success = writer.finish()
        assert (commit_message, success) == ("m", True)
        assert writer.finish()[0] == "m"
        assert writer.get_request_id() == "req-1"
        blob = BlobStreamWriter(post_to(peer), Compression.UNCOMPRESSED)
        blob.write(b"data")
        assert blob.finish().blob_reference == "/wByZWYw"
    assert [(seen.body, seen.whole) for seen in peer.seen] == [
        (b"rows of a stream", True),
        (b"data", True),
    ]


def test_an_upload_by_a_function_that_is_refused_or_broken_raises_an_error() -> None:
    with Peer(refuse_body) as peer:
        writer = StreamWriter(post_to(peer))
        writer.write(b"rows")
        with pytest.raises(AccessDeniedError) as caught:
            writer.finish()
        assert (caught.value.status, caught.value.request_id) == (403, "req-1")
        assert writer.get_status() == Status.FAILED
    writer = StreamWriter(post_to(peer))  # the listener is closed

    def use() -> None:
        writer.write(b"rows")  # the first call that detects the error
        writer.finish()

    with pytest.raises(requests.ConnectionError):
        use()
    assert writer.get_status() == Status.FAILED


class Early:
    headers = {"x-odps-request-id": "r3"}  # noqa: RUF012
    content = b"{}"

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


@pytest.mark.parametrize(("status", "kind"), [(200, ServiceError), (403, AccessDeniedError)])
def test_a_response_before_the_body_was_read_raises_an_error(status: int, kind: type) -> None:
    writer = StreamWriter(lambda body: Early(status))
    with pytest.raises(kind) as caught:
        writer.finish()
    assert caught.value.request_id == "r3"
    assert writer.get_status() == Status.FAILED


def test_a_function_that_returns_no_response_raises_an_error() -> None:
    writer = StreamWriter(lambda body: print(*body, end=""))
    with pytest.raises(BrokenStreamError, match="returned no response"):
        writer.finish()


def test_an_aborted_upload_by_a_function_is_never_complete() -> None:
    with Peer(accept_body) as peer:
        writer = StreamWriter(post_to(peer))
        writer.write(bytes(1 << 20))
        writer.abort()
        assert writer.get_status() == Status.CANCELLED
    assert not any(seen.whole for seen in peer.seen)


# -- arguments and results ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "compression",
    [
        Compression.ZSTD,
        CompressionCodec.ZSTD,
        CompressOption.CompressAlgorithm.ODPS_ZSTD,
        "ZSTD",
        Compression.UNCOMPRESSED,
        CompressionCodec.NO_COMPRESSION,
        CompressOption.CompressAlgorithm.ODPS_RAW,
        "UNCOMPRESSED",
        Compression.LZ4_FRAME,
        CompressionCodec.LZ4_FRAME,
        "LZ4_FRAME",
        None,
    ],
    ids=str,
)
def test_every_name_of_a_compression_is_accepted(compression: Any) -> None:
    upload = StoringUpload()
    writer = ArrowWriter(StreamWriter(upload), compression)
    assert writer.write(BATCH)
    assert writer.write(BATCH)
    assert writer.schema == BATCH.schema
    assert writer.get_write_stream_response() is None
    commit_message, success = writer.finish()
    assert (commit_message, success, writer.get_status()) == ("m", True, Status.OK)
    assert writer.get_write_stream_response().route_token == "route-1"
    assert pa.ipc.open_stream(upload.body).read_all().to_batches() == [BATCH, BATCH]


def test_an_unknown_or_repeated_compression_is_refused() -> None:
    with pytest.raises(ArgumentError, match="unknown compression"):
        ArrowWriter(StreamWriter(StoringUpload()), CompressOption.CompressAlgorithm.ODPS_ZLIB)
    with pytest.raises(ConfigError, match="two compressions"):
        ArrowWriter(StreamWriter(StoringUpload()), "zstd", "lz4")


def test_a_schema_by_name_or_position_applies_to_all_batches() -> None:
    for writer in (
        ArrowWriter(StreamWriter(StoringUpload()), BATCH.schema, "zstd"),
        ArrowWriter(StreamWriter(StoringUpload()), compression="zstd"),
    ):
        writer.write(record_batch=BATCH)
        with pytest.raises(ConversionError, match="differs from that of the stream"):
            writer.write(pa.record_batch({"id": ["text"]}))


def test_without_schema_and_rows_no_stream_is_sent() -> None:
    upload = StoringUpload()
    writer = ArrowWriter(StreamWriter(upload))
    with pytest.raises(StateError, match="not known before the first batch"):
        writer.schema  # noqa: B018
    with pytest.raises(StateError, match="nothing was written and no schema"):
        writer.finish()
    assert (upload.body, upload.aborted) == (b"", True)
    assert writer.get_status() == Status.CANCELLED
    with pytest.raises(StateError, match="cancelled"):
        writer.write(BATCH)


@pytest.mark.parametrize("kind", [StreamWriter, BlobStreamWriter])
@pytest.mark.parametrize("data", ["text", 5, [1, 2], None])
def test_data_that_is_not_bytes_is_refused_before_anything_is_sent(kind: Any, data: Any) -> None:
    upload = StoringUpload()
    writer = kind(upload)
    with pytest.raises(ConversionError) as caught:
        writer.write(data)
    assert caught.value.source_type == type(data).__name__
    assert caught.value.target_type == "bytes"
    assert ("write(text.encode())" in str(caught.value.hint)) == isinstance(data, str)
    assert writer.writable()
    writer.write(b"text")
    writer.finish()
    assert upload.body == b"text"


def test_session_statuses_equal_those_of_the_sdk() -> None:
    for theirs in SdkStatus:
        ours = Status[theirs.name]
        assert ours == theirs
        assert theirs == ours
        assert ours.value == theirs.value
        assert hash(ours) == hash(theirs)
        assert [one for one in Status if one == theirs] == [ours]
        assert [one for one in Status if one != theirs] == [one for one in Status if one != ours]
    assert Status.OK == "OK"
    assert Status.OK != Enum("Other", "OK").OK


# -- blobs --------------------------------------------------------------------------------------

BODY = encode_blocks(framed([b"one", b"two"]))


def test_a_blob_record_unpacks_as_a_pair() -> None:
    iterator = BlobDataIterator(BODY, expected_count=2)
    assert [(data, mime_type) for data, mime_type in iterator] == [(b"one", "a/b"), (b"two", "a/b")]
    record = next(BlobDataIterator(BODY, expected_count=2))
    assert (record[0], record[1], len(record)) == (record.data, record.mime_type, 2)
    assert record.custom_file_name == "0.bin"


def test_arguments_have_the_same_names_as_in_the_sdk() -> None:
    stream = CrcStrippingStream(encode_blocks(b"payload"))
    assert (stream.peek(size=3), stream.read(size=4), stream.read()) == (b"pay", b"payl", b"oad")
    reader = StreamReader(lambda: io.BytesIO(b"bytes"))
    assert (reader.read(nbytes=2), reader.read(nbytes=None)) == (b"by", b"tes")
    arrow = ArrowReader(StreamReader(lambda: io.BytesIO(ipc(BATCH))))
    while (batch := arrow.read()) is not None:
        assert batch == BATCH
    assert arrow.get_status() == SdkStatus.OK
