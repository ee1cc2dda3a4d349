"""Frames are decoded byte for byte, for any division; invalid frames raise an error."""

import hashlib
import json
import zlib
from contextlib import suppress
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import (
    ChecksumError,
    FramingError,
    LimitExceededError,
    ProtocolError,
    StateError,
    TruncatedError,
)
from odps_nb.wire.frames import (
    DEFAULT_MAX_BLOB,
    BlobData,
    BlobEnd,
    BlobStart,
    ChecksumKind,
    FrameDecoder,
    FrameHeader,
    encode_frame,
)
from tests.support.wire.cutting import CUTS, cut, every, pattern
from tests.support.wire.frames import BLOBS, UPLOAD, decode, encode_all, frame, merged

DOWNLOAD = bytes.fromhex(
    "1c00000000000000 7b22436f6e74656e7454797065223a22746578742f706c61696e227d"
    "0200000000000000 6869"
    "2a00000000000000 7b22436865636b73756d223a7b2254797065223a312c"
    "224372633332223a333633333532333337327d7d"
    "1200000000000000 7b22436f6e74656e7454797065223a22227d"
    "0000000000000000"
    "1700000000000000 7b22436865636b73756d223a7b2254797065223a307d7d"
)


def test_the_upload_frame_equals_the_reference_bytes() -> None:
    header = FrameHeader(
        partition_values=("ds=x", "h=1"), column_index=1, content_type="text/plain"
    )
    assert encode_frame(b"hello world", header) == UPLOAD
    start, data, end = decode(1, UPLOAD)
    assert start == BlobStart(
        index=0,
        content_type="text/plain",
        custom_file_name=None,
        length=11,
        header={
            "PartitionValues": ["ds=x", "h=1"],
            "ColumnIndex": 1,
            "ContentType": "text/plain",
        },
    )
    assert data == BlobData(data=b"hello world")
    assert end == BlobEnd(index=0, length=11, checksum_kind=ChecksumKind.CRC32, verified=True)
    assert FrameHeader.of(start.header) == header


def test_a_file_name_makes_the_header_110_bytes_long() -> None:
    header = FrameHeader(
        partition_values=("ds=x", "h=1"),
        column_index=1,
        content_type="text/plain",
        custom_file_name="a.txt",
    )
    assert len(header.encode()) == 110


def test_the_download_of_two_blobs_equals_the_reference_bytes() -> None:
    assert len(DOWNLOAD) == 161
    first, data, first_end, second, second_end = decode(2, DOWNLOAD)
    assert (first.content_type, first.length, data.data) == ("text/plain", 2, b"hi")
    assert first_end.verified
    assert (second.index, second.content_type, second.length) == (1, None, 0)
    assert (second_end.checksum_kind, second_end.verified) == (ChecksumKind.NONE, False)


@given(BLOBS, CUTS)
def test_any_frames_are_decoded_for_any_division(
    blobs: list[tuple[bytes, FrameHeader, ChecksumKind]], cuts: list[int]
) -> None:
    events = decode(len(blobs), *cut(encode_all(blobs), cuts))
    starts = [event for event in events if isinstance(event, BlobStart)]
    ends = [event for event in events if isinstance(event, BlobEnd)]
    assert [FrameHeader.of(start.header) for start in starts] == [blob[1] for blob in blobs]
    assert [start.length for start in starts] == [len(blob[0]) for blob in blobs]
    datas = [event.data for event in events if isinstance(event, BlobData)]
    assert datas == [blob[0] for blob in blobs if blob[0]]
    assert [end.checksum_kind for end in ends] == [blob[2] for blob in blobs]
    assert [end.verified for end in ends] == [blob[2] is not ChecksumKind.NONE for blob in blobs]


def test_byte_by_byte_decoding_returns_the_same() -> None:
    stream = UPLOAD + DOWNLOAD + UPLOAD
    assert decode(4, *every(stream, 1)) == decode(4, stream)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_accepted_and_may_be_reused_by_the_caller(kind: type) -> None:
    decoder = FrameDecoder(1)
    events = []
    for byte in every(UPLOAD, 3):
        buffer = bytearray(byte)
        events += decoder.feed(kind(buffer) if kind is not bytearray else buffer)
        buffer[:] = bytes(len(buffer))
    assert merged(events + decoder.feed_eof()) == decode(1, UPLOAD)


def test_truncation_at_every_byte_is_detected() -> None:
    stream = UPLOAD + DOWNLOAD
    for size in range(len(stream)):
        with pytest.raises(TruncatedError) as caught:
            decode(3, stream[:size])
        assert caught.value.offset == size


def test_truncation_at_a_frame_boundary_is_detected_only_by_the_count() -> None:
    assert len(decode(None, UPLOAD)) == 3
    with pytest.raises(TruncatedError, match="after 1 of 2 frames") as caught:
        decode(2, UPLOAD)
    assert (caught.value.expected, caught.value.actual) == (2, 1)


def test_every_flipped_bit_of_data_footer_or_length_is_detected() -> None:
    stream = bytearray(UPLOAD + UPLOAD)
    header = range(8, 8 + 83)
    for at in range(len(stream)):
        for bit in range(8):
            stream[at] ^= 1 << bit
            if at % len(UPLOAD) in header:
                # A header has no checksum of its own; blocks and transport protect it.
                with suppress(ProtocolError):
                    decode(2, bytes(stream))
            else:
                changed = bytes(stream)
                try:
                    events = decode(2, changed)
                except ProtocolError:
                    pass
                else:  # the name of the checksum in the footer is damaged
                    assert not all(e.verified for e in events if isinstance(e, BlobEnd)), at
            stream[at] ^= 1 << bit


def test_bytes_after_the_last_frame_raise_an_error() -> None:
    with pytest.raises(FramingError, match="bytes follow the last of 1 frames") as caught:
        decode(1, UPLOAD + b"x")
    assert caught.value.offset == len(UPLOAD)
    with pytest.raises(FramingError):
        decode(0, b"x")
    assert decode(0) == []


def test_an_empty_header_or_footer_means_an_empty_object() -> None:
    start, end = decode(1, bytes(24))
    assert (start.header, start.content_type, start.length) == ({}, None, 0)
    assert (end.checksum_kind, end.verified) == (ChecksumKind.NONE, False)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("length", [-1, -(2**63)])
def test_a_negative_length_is_refused(at: int, length: int) -> None:
    parts = [pack("<q", 2) + b"{}", pack("<q", 0), pack("<q", 2) + b"{}"]
    parts[at] = pack("<q", length)
    with pytest.raises(FramingError, match=f"the negative length {length}"):
        decode(1, b"".join(parts))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_excessive_length_is_refused_before_buffering(at: int) -> None:
    parts = [pack("<q", 2) + b"{}", pack("<q", 0), pack("<q", 2) + b"{}"]
    parts[at] = pack("<q", 2**62)
    with pytest.raises(LimitExceededError) as caught:
        decode(1, b"".join(parts))
    assert caught.value.actual == 2**62
    assert caught.value.limit in (1 << 20, DEFAULT_MAX_BLOB)


def test_the_limits_can_be_passed_as_arguments() -> None:
    with pytest.raises(LimitExceededError) as caught:
        decode(1, UPLOAD, max_header=82)
    assert (caught.value.limit, caught.value.actual) == (82, 83)
    with pytest.raises(LimitExceededError) as caught:
        decode(1, UPLOAD, max_blob=10)
    assert (caught.value.limit, caught.value.actual) == (10, 11)
    assert len(decode(1, UPLOAD, max_header=83, max_blob=11)) == 3


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"nonsense",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b"1" * 5000,
        b'{"New": NaN}',
        b'{"ContentType": 5}',
        b'{"CustomFileName": ["a"]}',
    ],
)
def test_an_invalid_header_raises_a_framing_error(header: bytes) -> None:
    with pytest.raises(FramingError) as caught:
        decode(1, frame(header, b"", b""))
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"PartitionValues": "ds=x"},
        {"PartitionValues": [1]},
        {"ColumnIndex": "1"},
        {"ColumnIndex": True},
        {"DistributionKey": "not base64!"},
        {"DistributionKey": 7},
    ],
)
def test_header_keys_of_another_type_raise_framing_errors(fields: dict[str, Any]) -> None:
    with pytest.raises(FramingError):
        FrameHeader.of(fields)


def test_the_header_of_an_event_cannot_be_changed() -> None:
    for stream in (UPLOAD, frame(b'{"a": 1}', b"", b'{"Checksum": {}}')):
        with pytest.raises(TypeError):
            decode(1, stream)[0].header["a"] = 2


def test_unknown_keys_are_ignored() -> None:
    start, _ = decode(1, frame(b'{"New": {"deep": [1]}, "ContentType": null}', b"", b'{"x": 1}'))
    assert start.header == {"New": {"deep": [1]}, "ContentType": None}
    assert start.content_type is None


@pytest.mark.parametrize(
    "checksum",
    [
        [],
        {"Type": 3},
        {"Type": -1},
        {"Type": "1"},
        {"Type": True, "Crc32": 0},
        {"Type": 1},
        {"Type": 1, "Crc32": "0"},
        {"Type": 1, "Crc32": -1},
        {"Type": 1, "Crc32": 2**32},
        {"Type": 1, "Crc32": 0.0},
        {"Type": 2},
        {"Type": 2, "MD5": 5},
        {"Type": 2, "MD5": "d41d8cd9"},
    ],
)
def test_an_invalid_footer_raises_a_framing_error(checksum: Any) -> None:
    with pytest.raises(FramingError):
        decode(1, frame(b"{}", b"", json.dumps({"Checksum": checksum}).encode()))


@pytest.mark.parametrize(
    "footer",
    [b'{"Checksum": {"Type": null, "Crc32": 1}}', b" \n", b"\xef\xbb\xbf{}", "{}".encode("utf-16")],
)
def test_a_footer_whose_checksum_may_have_been_damaged_is_refused(footer: bytes) -> None:
    body = pack("<q", 2) + b"{}" + pack("<q", 1) + b"x" + pack("<q", len(footer)) + footer
    with pytest.raises(FramingError):
        decode(1, body)


def test_a_name_that_is_not_unicode_does_not_affect_the_blob() -> None:
    """A file in another encoding has half a surrogate pair in its name."""
    named = FrameHeader(custom_file_name="caf\udce9.jpg")
    start, *_ = decode(2, encode_frame(b"x", named) + encode_frame(b"y", FrameHeader()))
    assert isinstance(start, BlobStart)
    assert start.custom_file_name == "caf\udce9.jpg"


def test_a_wrong_footer_is_a_checksum_error_that_names_both_values() -> None:
    footer = b'{"Checksum": {"Type": 1, "Crc32": 5}}'
    with pytest.raises(ChecksumError, match="crc32 of blob 0") as caught:
        decode(1, frame(b"{}", b"data", footer))
    assert (caught.value.expected, caught.value.actual) == (5, zlib.crc32(b"data"))
    footer = b'{"Checksum": {"Type": 2, "MD5": "00000000000000000000000000000000"}}'
    with pytest.raises(ChecksumError) as caught:
        decode(1, frame(b"{}", b"data", footer))
    assert caught.value.actual == hashlib.md5(b"data").hexdigest()


def test_an_upper_case_md5_is_the_same_md5() -> None:
    digest = hashlib.md5(b"data").hexdigest().upper()
    footer = json.dumps({"Checksum": {"Type": 2, "MD5": digest}}).encode()
    *_, end = decode(1, frame(b"{}", b"data", footer))
    assert end.verified


def test_a_footer_without_a_checksum_is_reported_as_not_verified() -> None:
    for footer in (b"", b"{}", b'{"Checksum": null}', b'{"Checksum": {}}'):
        *_, end = decode(1, frame(b"{}", b"data", footer))
        assert (end.checksum_kind, end.verified) == (ChecksumKind.NONE, False)


@pytest.mark.usefixtures("little_retained")
@pytest.mark.parametrize("size", [999, 1000, 1001, 5000])
def test_crc32_of_large_blobs_is_computed_as_data_arrives(size: int) -> None:
    good = encode_frame(pattern(size))
    *_, end = decode(1, *every(good, 300))
    assert end.verified
    bad = good.replace(b"Crc32", b"Crc32", 1)[:-3] + b"1}}"
    if bad != good:
        with pytest.raises(ProtocolError):
            decode(1, *every(bad, 300))


@pytest.mark.usefixtures("little_retained")
def test_md5_of_large_blobs_is_checked_from_the_second_blob() -> None:
    one = encode_frame(pattern(5000), checksum=ChecksumKind.MD5)
    events = decode(2, *every(one + one, 300))
    assert [e.verified for e in events if isinstance(e, BlobEnd)] == [False, True]
    bad = one[:-20] + (b"00" if one[-20:-18] != b"00" else b"11") + one[-18:]
    with pytest.raises(ChecksumError, match="md5 of blob 1"):
        decode(2, *every(one + bad, 300))


@pytest.mark.parametrize("kind", ChecksumKind)
def test_an_empty_blob_is_a_blob_with_a_checksum(kind: ChecksumKind) -> None:
    start, end = decode(1, encode_frame(b"", checksum=kind))
    assert (start.length, end.length) == (0, 0)
    assert end.verified is (kind is not ChecksumKind.NONE)


def test_after_an_error_the_decoder_is_unusable() -> None:
    decoder = FrameDecoder(1)
    with pytest.raises(FramingError):
        decoder.feed(b"\xff" * 8)
    with pytest.raises(StateError):
        decoder.feed(UPLOAD)


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        FrameDecoder(-1)


@given(st.binary(max_size=300), st.integers(0, 3) | st.none())
def test_any_bytes_give_events_or_a_typed_error(junk: bytes, count: int | None) -> None:
    for stream in (junk, bytes(8) + junk, bytes(16) + junk, UPLOAD + junk):
        with suppress(ProtocolError):
            decode(count, stream)
