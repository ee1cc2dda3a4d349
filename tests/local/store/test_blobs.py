"""Blobs over real sockets: uploads, references, downloads, damage."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.errors import ConflictError, InvalidRequestError, NotFoundError, ServerFaultError
from odps_nb.local.routes.asgi_io import SPOOL
from odps_nb.terms import BlobReference, Compression
from odps_nb.wire import calls
from odps_nb.wire.codings import encoder
from odps_nb.wire.frames import ChecksumKind, FrameHeader, encode_frame
from tests.support.named import NewTable
from tests.support.service.peer import Peer

SIZES = [0, 1, 4091, 4095, 4096, 4097, 8192, 1 << 20]


@pytest.fixture
def name(new_table: NewTable) -> str:
    return new_table("(id bigint, b blob, n array<struct<x:string,y:blob>>)")


def content(size: int) -> bytes:
    return bytes(i * 31 % 251 for i in range(min(size, 4099))) * (size // 4099 + 1)


@pytest.mark.parametrize("coding", list(Compression))
def test_a_blob_of_any_size_is_returned_unchanged(
    peer: Peer, name: str, coding: Compression
) -> None:
    session = peer.open_write(name)
    for size in SIZES:
        data = content(size)[:size]
        body = data
        if coding is not Compression.NONE:
            coder = encoder(coding)
            body = coder.feed(data) + coder.finish()
        answer = peer.put_blob(name, session, "0", body, column_id=2, coding=coding)
        assert answer.size == size
        for wanted in Compression:
            assert peer.blobs([answer.references[0]], wanted) == [(data, None, None)], size


def test_a_body_written_in_parts_is_complete(peer: Peer, name: str) -> None:
    data = content(3 * SPOOL + 4097)
    session = peer.open_write(name)
    alone = peer.put_blob(name, session, "0", data, column_id=2)
    header = FrameHeader(content_type="x/y", column_index=2)
    batch = peer.put_blobs(name, session, "0", [(data, header), (b"after", header)])
    assert (alone.size, batch.size) == (len(data), len(data) + 5)
    found = peer.blobs([*alone.references, *batch.references])
    assert [one[0] == data for one in found] == [True, True, False]
    assert found[2][0] == b"after"


def test_content_that_looks_like_a_format_stays_plain_content(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    for start in (b"\x05" + bytes(7), b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"):
        data = start + b" and more"
        reference = peer.put_blob(name, session, "0", data, column_id=2).references[0]
        for coding in Compression:
            assert peer.blobs([reference], coding) == [(data, None, None)]


@pytest.mark.parametrize("kind", list(ChecksumKind))
def test_a_batch_keeps_order_types_and_names(peer: Peer, name: str, kind: ChecksumKind) -> None:
    blobs = [
        (b"one", FrameHeader(content_type="text/plain", custom_file_name="1.txt", column_index=2)),
        (b"", FrameHeader(column_index=2)),
        (content(10_000), FrameHeader(content_type="image/png", column_index=6)),
    ]
    answer = peer.put_blobs(name, peer.open_write(name), "0", blobs, kind)
    assert answer.size == sum(len(data) for data, _ in blobs)
    found = peer.blobs(list(answer.references))
    assert [data for data, _, _ in found] == [data for data, _ in blobs]
    assert [kind for _, kind, _ in found] == ["text/plain", None, "image/png"]
    assert [file for _, _, file in found] == ["1.txt", None, None]


def test_an_empty_batch_gives_no_references(peer: Peer, name: str) -> None:
    assert peer.put_blobs(name, peer.open_write(name), "0", []).references == ()


def test_a_damaged_batch_is_refused_and_leaves_no_file(peer: Peer, name: str) -> None:
    whole = encode_frame(b"content", FrameHeader(column_index=2))
    request = calls.WriteBlobBatch(
        table=peer.table(name), session_id=peer.open_write(name), stream_id="0", stream_version=1
    )
    for body in (whole.replace(b"content", b"c0ntent"), whole[:-3], whole + b"\x01"):
        with pytest.raises(InvalidRequestError) as caught:
            peer.call(request, body)
        assert caught.value.code == "MalformedDataStream"
    assert not list(Path(peer.service.root, "work").glob("*.*"))


def test_a_truncated_pack_breaks_the_response(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    known = set(Path(peer.service.root, "blobs").iterdir())
    answer = peer.put_blob(name, session, "0", b"content", column_id=2)
    (pack,) = set(Path(peer.service.root, "blobs").iterdir()) - known
    pack.write_bytes(b"con")
    with pytest.raises(ServerFaultError):
        peer.blobs(list(answer.references))


def test_references_in_rows_survive_commits(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    top, inner = (
        peer.put_blob(name, session, "0", data, column_id=column).references[0]
        for data, column in ((b"top", 2), (b"inner", 6))
    )
    nested = pa.list_(pa.struct([("x", pa.string()), ("y", pa.binary())]))
    rows = pa.table(
        {
            "id": [1, 2],
            "b": pa.array([top.raw, None], pa.binary()),
            "n": pa.array([[{"x": "q", "y": inner.raw}, {"x": "r", "y": None}], None], nested),
        }
    )
    peer.put(name, session, "0", rows)
    peer.close_stream(name, session, "0")
    peer.commit(name, session)
    peer.write(name, peer.read(name))
    read = peer.read(name).to_pylist()
    assert len(read) == 4
    for row in (read[0], read[2]):
        assert BlobReference.from_text(row["b"]) == top
        assert BlobReference.from_text(row["n"][0]["y"]) == inner
        assert row["n"][1]["y"] is None
    found = peer.blobs([BlobReference.from_text(read[2]["b"]), inner])
    assert [data for data, _, _ in found] == [b"top", b"inner"]


def test_an_invented_reference_is_unknown(peer: Peer, name: str, new_table: NewTable) -> None:
    named = new_table("(b blob)")
    real = peer.put_blob(name, peer.open_write(name), "0", b"x", column_id=2).references[0]
    forged = BlobReference.from_raw(real.raw[:-1] + bytes([real.raw[-1] ^ 1]))
    for reference in (forged, BlobReference.from_raw(b"short")):
        with pytest.raises(NotFoundError):
            peer.blobs([reference])
        with pytest.raises(InvalidRequestError):
            peer.write(named, pa.table({"b": pa.array([reference.raw], pa.binary())}))


def test_a_blob_needs_an_open_session_and_a_blob_column(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    with pytest.raises(InvalidRequestError, match="no BLOB column"):
        peer.put_blob(name, session, "0", b"x", column_id=1)
    peer.abort(name, session)
    with pytest.raises(ConflictError):
        peer.put_blob(name, session, "0", b"x", column_id=2)


def test_pyodps_gets_blobs_without_a_coding(peer: Peer, name: str) -> None:
    data = content(20_000)
    reference = peer.put_blob(name, peer.open_write(name), "0", data, column_id=2).references[0]
    request = calls.ReadBlobs(references=(reference,), compression=Compression.ZSTD)
    response = peer.ok(request.encode(), **{"User-Agent": "pyodps/0.13.2"})
    assert "Content-Encoding" not in response.headers
