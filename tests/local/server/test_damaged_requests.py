"""Slightly wrong requests: the response names the error, and no data is changed."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
import zstandard

from odps_nb.errors import InvalidRequestError
from odps_nb.local.routes.asgi_io import SPOOL
from odps_nb.local.routes.tunnel_arrow import encode_arrow
from odps_nb.local.routes.tunnel_rows import END_RECORD, META_CHECKSUM, META_COUNT
from odps_nb.local.server.launch import LocalService
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.crc32c import crc32c
from odps_nb.wire.signing import sign
from tests.support.service.peer import Peer
from tests.support.threads import wait_until

pack = zstandard.ZstdCompressor().compress
ROOT = Path(__file__).parents[3]
ROWS = pa.record_batch({"id": pa.array(range(9), pa.int64()), "at": pa.array([0] * 9, pa.int64())})


def tunnel(
    peer: Peer, method: str, query: str, body: Any = b"", coding: str = "identity"
) -> requests.Response:
    endpoint = peer.service.tunnel_endpoint
    url = f"{endpoint}/projects/{peer.service.project}/tables/uploaded?{query}"
    signed = {"endpoint": endpoint, "credentials": peer.credentials, "now": time.time()}
    headers: dict[str, str] = sign(method, url, {}, **signed)
    headers["Content-Encoding"] = coding
    return peer.session.request(method, url, headers=headers, data=body, timeout=60)


@pytest.fixture
def upload(peer: Peer) -> Any:
    peer.sql("CREATE TABLE uploaded (id bigint, at timestamp);")
    upload_id = tunnel(peer, "POST", "uploads").json()["UploadID"]
    query = f"uploadid={upload_id}"

    def put(form: str, *body: Any) -> requests.Response:
        block = "" if "&blockid=" in form else "&blockid=0"
        return tunnel(peer, "PUT", query + block + form, *body)

    yield put
    peer.sql("DROP TABLE uploaded;")


def arrow() -> bytes:
    stamps = ROWS.set_column(1, "at", ROWS["at"].cast(pa.timestamp("ns")))
    return b"".join(bytes(piece) for piece in encode_arrow(iter([stamps])))


@pytest.mark.parametrize("place", [4, -20, -1])
def test_a_damaged_arrow_upload_is_refused(upload: Any, place: int) -> None:
    """In an earlier version, the response was 500, because a file of the body was still open."""
    body = bytearray(arrow())
    assert upload("&arrow", bytes(body)).status_code == 200
    body[place] ^= 1
    answer = upload("&arrow", bytes(body))
    assert (answer.status_code, answer.json()["Code"]) == (400, "MalformedDataStream")
    assert "CRC32C" in answer.json()["Message"]


@pytest.mark.parametrize(("coding", "compress"), [("deflate", zlib.compress), ("zstd", pack)])
def test_a_damaged_compressed_upload_is_refused_and_leaves_no_file(
    upload: Any, bare: LocalService, coding: str, compress: Callable[[bytes], bytes]
) -> None:
    whole = compress(arrow())
    assert upload("&arrow", whole, coding).status_code == 200
    for body in (b"", compress(b""), whole[:-20], b"\xff" + whole[1:], whole * 2):
        answer = upload("&arrow", body, coding)
        assert (answer.status_code, answer.json()["Code"]) == (400, "MalformedDataStream"), body
    assert not list(Path(bare.root, "work").glob("*.*"))


def test_a_block_is_a_number_below_20000_and_is_stored_once(peer: Peer, upload: Any) -> None:
    for number in ("7", "007"):
        answer = upload(f"&arrow&blockid={number}", arrow())
        assert answer.status_code == 200
    state = tunnel(peer, "GET", answer.request.url.partition("?")[2].partition("&")[0]).json()
    assert state["UploadedBlockList"] == [{"BlockID": 7}]
    for number in ("20000", "-1", "", "9" * 5000):
        answer = upload(f"&arrow&blockid={number}", arrow())
        assert (answer.status_code, answer.json()["Code"]) == (400, "InvalidArgument")
        assert "it must be 0 to 19999" in answer.json()["Message"]


def test_an_interrupted_upload_leaves_no_file(upload: Any, bare: LocalService) -> None:
    work = Path(bare.root, "work")
    with pytest.raises(requests.RequestException):
        upload("&arrow", _interrupted(work))
    wait_until(lambda: not list(work.glob("*.body")))


def _interrupted(work: Path) -> Iterator[bytes]:
    """Yield the beginning of a body, and raise once the service stores it."""
    yield bytes(SPOOL)
    wait_until(lambda: list(work.glob("*.body")))
    raise requests.ConnectionError


@pytest.mark.parametrize("path", ["tunnel", "v2"])
def test_wider_values_than_the_schema_describes_are_refused(peer: Peer, path: str) -> None:
    """An earlier version stored 5.5, 0, 7.25, 0 instead of 5.5, 7.25, 100, 0.01."""
    peer.sql("CREATE TABLE uploaded (d decimal);")
    values = pa.array(["5.5", "7.25", "100", "0.01"]).cast(pa.decimal256(54, 18))
    wide = pa.record_batch({"d": values})
    try:
        if path == "tunnel":
            upload_id = tunnel(peer, "POST", "uploads").json()["UploadID"]
            body = b"".join(bytes(piece) for piece in encode_arrow(iter([wide])))
            answer = tunnel(peer, "PUT", f"uploadid={upload_id}&blockid=0&arrow", body).json()
            assert answer["Code"] == "MalformedDataStream"
            assert "'d' has 128 bytes, but 4 values of decimal128(38, 18) need 64" in str(answer)
        else:
            schema = pa.schema({"d": pa.decimal128(38, 18)})
            body = bytes(schema.serialize()) + bytes(wide.serialize()) + END_MARKER
            session = peer.open_write("uploaded")
            peer.open_stream("uploaded", session, "0")
            with pytest.raises(InvalidRequestError, match="'d' has 128 bytes"):
                peer.put("uploaded", session, "0", pa.table({"d": values}), body=body)
    finally:
        peer.sql("DROP TABLE uploaded;")


def test_a_time_out_of_range_is_refused(upload: Any) -> None:
    assert upload("", _row_of_seconds(1_700_000_000)).status_code == 200
    answer = upload("", _row_of_seconds(2**62))
    assert (answer.status_code, answer.json()["Code"]) == (400, "InvalidArgument")
    assert "'at'" in answer.json()["Message"]


def _row_of_seconds(seconds: int) -> bytes:
    """Write one row whose time is given in seconds, as a client in another language may."""
    number = _varint(2 << 3 | 2) + _varint(seconds << 1) + b"\0"  # column 2, no nanoseconds
    crc = crc32c(struct.pack("<iqi", 2, seconds, 0))
    total = crc32c(crc.to_bytes(4, "little"))
    end = _varint(META_COUNT << 3) + b"\2" + _varint(META_CHECKSUM << 3) + _varint(total)
    return number + _varint(END_RECORD << 3) + _varint(crc) + end


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


@pytest.mark.nightly
def test_damaged_requests_get_an_error_response() -> None:
    """Some inputs of ``fuzz/mutate_requests.py``, which can run for any length of time."""
    command = [sys.executable, str(ROOT / "fuzz" / "mutate_requests.py"), "--count", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    tally = dict(re.findall(r"^(\w+) +(\d+)$", done.stdout, re.MULTILINE))
    assert int(tally["200"]) > 100
    assert int(tally["400"]) > 100
