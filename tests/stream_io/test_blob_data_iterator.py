"""Blob records: every order of layers is decoded, and every fault raises an error."""

import io

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
from odps_nb.stream_io import BlobDataIterator, BlobRecord
from odps_nb.terms import Compression
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.frames import ChecksumKind, encode_frame
from tests.support.sockets.raw_streams import (
    KINDS,
    ReadOnly,
    WithHeaders,
    framed,
    layered,
    pattern,
    some_of,
)

BLOBS = [b"", b"x", pattern(4096), b"", pattern(70_000), pattern(250_000), b"end"]


def records(body: object, count: int, **options: object) -> list[BlobRecord]:
    return list(BlobDataIterator(body, expected_count=count, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_read_from_every_source(kind: str) -> None:
    body = encode_blocks(framed(BLOBS))
    found = records(KINDS[kind](body), len(BLOBS))
    assert [record.data for record in found] == BLOBS
    assert [record.mime_type for record in found] == ["a/b"] * len(BLOBS)
    assert [record.custom_file_name for record in found] == [f"{n}.bin" for n in range(len(BLOBS))]


def test_every_order_of_layers_is_decoded() -> None:
    for encoding, body in layered(framed(BLOBS)):
        assert [r.data for r in records(body, len(BLOBS), content_encoding=encoding)] == BLOBS
        raw = WithHeaders(body, **({"content_encoding": encoding} if encoding else {}))
        assert [r.data for r in records(raw, len(BLOBS))] == BLOBS
    assert [r.data for r in records(body, len(BLOBS), content_encoding=Compression.LZ4)] == BLOBS


@pytest.mark.parametrize("payload", [b"", b"x", framed([b"looks like a frame"]), pattern(300_000)])
def test_a_single_blob_is_sent_without_a_frame(payload: bytes) -> None:
    for encoding, body in layered(payload):
        (record,) = records(io.BytesIO(body), 1, content_encoding=encoding)
        assert record == BlobRecord(payload, None, None)


@given(
    st.lists(st.binary(max_size=700), min_size=2, max_size=12),
    st.sampled_from(ChecksumKind),
    st.integers(1, 5000),
)
def test_any_blobs_are_decoded_with_any_checksum_and_division(
    blobs: list[bytes], kind: ChecksumKind, most: int
) -> None:
    frames = b"".join(encode_frame(blob, checksum=kind) for blob in blobs)
    found = records(ReadOnly(encode_blocks(frames), most=most), len(blobs))
    assert [record.data for record in found] == blobs


def test_many_small_blobs_are_read_across_many_windows() -> None:
    blobs = [pattern(n % 900, seed=n) for n in range(3000)]
    found = records(io.BytesIO(encode_blocks(framed(blobs))), len(blobs))
    assert [record.data for record in found] == blobs


def test_a_large_blob_is_read_completely() -> None:
    large = bytes(range(256)) * (20 << 12)
    for checksum in ChecksumKind:
        frames = encode_frame(large, checksum=checksum) + encode_frame(b"next")
        assert [r.data for r in records(ReadOnly(encode_blocks(frames)), 2)] == [large, b"next"]


# -- faults ------------------------------------------------------------------------------------


def test_truncation_at_every_byte_is_detected() -> None:
    frames = framed([b"one", b"", pattern(5000)])
    body = encode_blocks(frames)
    for size in some_of(len(body)):
        with pytest.raises(TruncatedError):
            records(body[:size], 3)


def test_every_flipped_bit_is_detected() -> None:
    body = bytearray(encode_blocks(framed([b"one", b"", pattern(300)])))
    for at in range(len(body)):
        for bit in range(8):
            body[at] ^= 1 << bit
            with pytest.raises(ProtocolError):
                records(bytes(body), 3)
            body[at] ^= 1 << bit


@pytest.mark.parametrize("count", [3, 4, 100])
def test_fewer_frames_than_references_raise_an_error(count: int) -> None:
    with pytest.raises(TruncatedError, match=f"after 2 of {count} frames") as caught:
        records(encode_blocks(framed([b"one", b"two"])), count)
    assert caught.value.notes[-1] == f"blob 2 of {count}"


def test_excess_frames_raise_an_error_before_the_last_blob_is_returned() -> None:
    iterator = BlobDataIterator(encode_blocks(framed([b"1", b"2", b"3"])), expected_count=2)
    assert next(iterator).data == b"1"
    with pytest.raises(FramingError, match="bytes follow the last of 2"):
        next(iterator)


@pytest.mark.parametrize("kind", [ChecksumKind.CRC32, ChecksumKind.MD5])
@pytest.mark.parametrize("size", [10, 100_000, 2_000_000])
def test_a_wrong_footer_is_detected_at_every_size(kind: ChecksumKind, size: int) -> None:
    good = encode_frame(b"z" * size, checksum=kind)
    bad = good.replace(b"z" * size, b"z" * (size - 1) + b"y")
    body = encode_blocks(good + bad + good)
    iterator = BlobDataIterator(io.BytesIO(body), expected_count=3)
    assert next(iterator).data == b"z" * size
    with pytest.raises(ChecksumError) as caught:
        next(iterator)
    assert caught.value.notes == ("blob 1 of 3",)
    with pytest.raises(StateError):
        next(iterator)


def test_a_declared_size_allocates_no_memory_before_the_bytes_arrive() -> None:
    frame = bytes(8) + (1 << 39).to_bytes(8, "little") + b"few bytes"
    with pytest.raises(TruncatedError, match="inside the data of frame 0"):
        records(ReadOnly(encode_blocks(frame)), 2)


def test_the_limits_can_be_passed_as_arguments() -> None:
    body = encode_blocks(framed([pattern(1000), b"x"]))
    with pytest.raises(LimitExceededError):
        records(body, 2, max_blob=999)
    with pytest.raises(LimitExceededError):
        records(encode_blocks(pattern(1000)), 1, max_blob=999)
    for encoding, coded in layered(framed([bytes(100_000), b"x"]))[1:]:
        with pytest.raises(LimitExceededError):
            records(coded, 2, content_encoding=encoding, max_output=99_999)


# -- end and close ---------------------------------------------------------------------------------


def test_an_exhausted_iterator_stays_exhausted() -> None:
    for count, body in ((0, b""), (1, encode_blocks(b"x")), (2, encode_blocks(framed([b"", b""])))):
        iterator = BlobDataIterator(body, expected_count=count)
        assert len(list(iterator)) == count
        assert list(iterator) == []


def test_close_closes_the_source_and_ends_the_iteration() -> None:
    raw = ReadOnly(encode_blocks(framed([b"1", b"2", b"3"])))
    with BlobDataIterator(raw, expected_count=3) as iterator:
        next(iterator)
    iterator.close()
    assert raw.closed
    with pytest.raises(StateError, match="closed"):
        next(iterator)


def test_the_repr_of_an_iterator_shows_its_position() -> None:
    iterator = BlobDataIterator(encode_blocks(framed([b"1", b"2", b"3"])), expected_count=3)
    assert repr(iterator) == "<BlobDataIterator of 3 blobs, 3 left>"
    next(iterator)
    assert repr(iterator).endswith("1 left>") or repr(iterator).endswith("2 left>")
    assert iterator.expected_count == 3


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        BlobDataIterator(b"", expected_count=-1)
