"""The scanner returns the same records as the decoder; records and events are values."""

import copy
import pickle
import zlib
from struct import pack
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from odps_nb.wire.frames import (
    BlobData,
    BlobRecord,
    BlobStart,
    ChecksumKind,
    FrameHeader,
    FrameScanner,
    encode_frame,
)
from tests.support.wire.frames import BLOBS, UPLOAD, decode, encode_all, frame

# -- scanner -----------------------------------------------------------------------------------


def records_of(events: list[Any]) -> list[BlobRecord]:
    """Return the results of `FrameDecoder` as records."""
    records = []
    for event in events:
        if isinstance(event, BlobStart):
            start, data = event, b""
        elif isinstance(event, BlobData):
            data = event.data
        else:
            records.append(BlobRecord(data, start.content_type, start.custom_file_name))
    return records


@given(BLOBS, st.integers(0, 6))
def test_the_scanner_returns_the_records_of_the_decoder_except_md5(
    blobs: list[tuple[bytes, FrameHeader, ChecksumKind]], limit: int
) -> None:
    stream = b"junk" + encode_all(blobs)
    records, at = FrameScanner().scan(stream, 4, limit)
    kinds = [blob[2] for blob in blobs]
    plain = kinds.index(ChecksumKind.MD5) if ChecksumKind.MD5 in kinds else len(kinds)
    assert len(records) == min(limit, plain)
    assert records == records_of(decode(None, stream[4:at]))


def test_the_scanner_stops_before_a_truncated_frame() -> None:
    for size in range(len(UPLOAD)):
        records, at = FrameScanner().scan(UPLOAD + UPLOAD[:size], 0, 9)
        assert (len(records), at) == (1, len(UPLOAD))


def test_the_scanner_stops_before_an_invalid_frame() -> None:
    good = encode_frame(b"good")
    wrong = [
        frame(b"[]", b"x", b"{}"),
        frame(b"{}", b"x", b'{"Checksum":{"Type":1,"Crc32":1}}'),
        frame(b"{}", b"x", b'{"Checksum":{"Type":9}}'),
        pack("<q", -1) + bytes(40),
        pack("<q", 0) + pack("<q", -1) + bytes(40),
        pack("<q", 0) + pack("<q", 0) + pack("<q", -1) + bytes(40),
        pack("<q", 2**40) + bytes(40),
        UPLOAD.replace(b"hello", b"hallo"),
    ]
    for bad in wrong:
        records, at = FrameScanner().scan(good + bad, 0, 9)
        assert (records, at) == ([BlobRecord(b"good")], len(good))


def test_the_scanner_has_the_limits_of_the_decoder() -> None:
    assert FrameScanner(max_header=82).scan(UPLOAD, 0, 1) == ([], 0)
    assert FrameScanner(max_blob=10).scan(UPLOAD, 0, 1) == ([], 0)
    assert FrameScanner(max_header=83, max_blob=11).scan(UPLOAD, 0, 1)[1] == len(UPLOAD)


def test_the_scanner_accepts_compact_and_spaced_footers_and_many_headers() -> None:
    compact = b'{"Checksum":{"Type":1,"Crc32":%d}}' % zlib.crc32(b"x")
    stream = b"".join(
        frame(b'{"CustomFileName": "%d"}' % number, b"x", compact) + encode_frame(b"y")
        for number in range(400)
    )
    records, at = FrameScanner().scan(stream, 0, 1000)
    assert at == len(stream)
    assert [record.custom_file_name for record in records[::2]] == [str(n) for n in range(400)]


@given(st.binary(max_size=200))
def test_the_scanner_never_accepts_frames_that_the_decoder_refuses(junk: bytes) -> None:
    stream = UPLOAD + junk
    records, at = FrameScanner().scan(stream, 0, 9)
    assert records == records_of(decode(None, stream[:at]))


# -- values ------------------------------------------------------------------------------------


def test_reprs_never_show_the_bytes() -> None:
    record = BlobRecord(bytes(12_300_000), "image/png", "a.png")
    assert repr(record) == (
        "BlobRecord(data=<12.3 MB>, mime_type='image/png', custom_file_name='a.png', verified=True)"
    )
    assert repr(BlobData(data=bytes(1500))) == "BlobData(data=<1.5 kB>)"
    assert record == BlobRecord(bytes(12_300_000), "image/png", "a.png")
    assert record.file_name == "a.png"


def test_a_record_unpacks_as_a_pair_and_equals_a_record_without_a_name() -> None:
    named, plain = BlobRecord(b"x", "image/png", "a.png"), BlobRecord(b"x", "image/png")
    data, mime_type = named
    assert (data, mime_type, named[0], named[-1], named[:]) == (
        *(b"x", "image/png"),
        *(b"x", "image/png"),
        (b"x", "image/png"),
    )
    assert (len(named), bool(BlobRecord(b""))) == (2, True)
    assert plain == (b"x", "image/png")
    assert named != (b"x", "image/png")
    assert plain != (b"x", "image/png", None)
    assert plain != named
    assert plain != b"x"
    assert {plain, named, (b"x", "image/png")} == {plain, named}
    assert pickle.loads(pickle.dumps(named)) == copy.copy(named) == named
