"""Blobs streamed one by one: sizes, skipping, footers, faults, memory."""

import io
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import ChecksumError, StateError, TruncatedError
from odps_nb.stream_io import BlobDataIterator, BlobStreamReader
from odps_nb.wire import _frame_parts
from odps_nb.wire.blocks import BlockEncoder, encode_blocks
from odps_nb.wire.frames import ChecksumKind, FrameHeader, encode_frame
from tests.support.sockets.raw_streams import (
    KINDS,
    ReadOnly,
    framed,
    layered,
    pattern,
    some_of,
)

BLOBS = [pattern(5000), b"", pattern(100_000), b"", b"", b"end"]


def open_reader(body: object, count: int, **options: object) -> BlobStreamReader:
    return BlobStreamReader(BlobDataIterator(body, expected_count=count, **options))  # type: ignore[arg-type]


def read_all(reader: BlobStreamReader | None, step: int) -> list[bytes]:
    blobs = []
    while reader is not None:
        parts = []
        while part := reader.read(step):
            parts.append(part)
        blobs.append(b"".join(parts))
        reader = reader.next()
    return blobs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1000, 4096, 300_000, -1])
def test_blobs_are_read_from_every_source_with_every_read_size(kind: str, step: int) -> None:
    body = encode_blocks(framed(BLOBS))
    assert read_all(open_reader(KINDS[kind](body), len(BLOBS)), step) == BLOBS


def test_every_order_of_layers_is_decoded() -> None:
    for encoding, body in layered(framed(BLOBS)):
        reader = open_reader(io.BytesIO(body), len(BLOBS), content_encoding=encoding)
        assert read_all(reader, 3000) == BLOBS
        raw = open_reader(io.BytesIO(layered(pattern(9000))[0][1]), 1)
        assert read_all(raw, 700) == [pattern(9000)]


def test_large_encoded_blobs_are_read_into_large_targets() -> None:
    blob = pattern(1 << 20)
    for encoding, body in layered(framed([blob, b"x"])):
        reader = open_reader(body, 2, content_encoding=encoding)
        target = bytearray(2 << 20)
        assert target[: reader.readinto(target)] == blob


def test_names_and_sizes_belong_to_the_current_blob() -> None:
    reader = open_reader(encode_blocks(framed([b"one", b"", b"three"])), 3)
    assert (reader.mime_type, reader.custom_file_name, reader.size) == ("a/b", "0.bin", 3)
    assert reader.next() is reader
    assert (reader.custom_file_name, reader.size, reader.read()) == ("1.bin", 0, b"")
    assert reader.next() is reader
    assert (reader.custom_file_name, reader.size) == ("2.bin", 5)
    assert reader.next() is None
    assert reader.next() is None
    assert reader.read() == b""


def test_a_raw_blob_shows_its_size_at_its_end() -> None:
    reader = open_reader(encode_blocks(b"hello"), 1)
    assert (reader.mime_type, reader.custom_file_name, reader.size) == (None, None, None)
    assert reader.read(4) == b"hell"
    assert reader.size is None
    assert reader.read(4) == b"o"
    assert reader.size == 5
    assert reader.read() == b""
    assert reader.readinto(bytearray(5)) == 0
    assert reader.next() is None


def test_an_empty_raw_blob_is_a_blob() -> None:
    reader = open_reader(b"", 1)
    assert reader.read() == b""
    assert reader.size == 0
    assert reader.next() is None


SKIPPED = [pattern(size, seed=size + 3) for size in (9000, 0, 1, 4096, 20_000)]
SKIPPED_BODY = encode_blocks(framed(SKIPPED))


@settings(max_examples=50)
@given(st.data())
def test_unread_data_is_skipped(data: st.DataObject) -> None:
    reader: BlobStreamReader | None = open_reader(SKIPPED_BODY, len(SKIPPED))
    for blob in SKIPPED:
        assert reader is not None
        take = data.draw(st.integers(0, len(blob) + 1))
        if data.draw(st.booleans()):
            assert reader.read(take) == blob[:take]
        else:
            target = bytearray(take)
            assert target[: reader.readinto(target)] == blob[:take]
        reader = reader.next()
    assert reader is None


@pytest.mark.parametrize("kind", [ChecksumKind.CRC32, ChecksumKind.MD5])
@pytest.mark.parametrize("size", [10, 100_000, 2_000_000])
@pytest.mark.parametrize("how", ["read", "readinto", "skip"])
def test_a_wrong_footer_is_detected_with_the_last_byte(
    kind: ChecksumKind, size: int, how: str
) -> None:
    good = encode_frame(b"z" * size, checksum=kind)
    bad = good.replace(b"z" * size, b"z" * (size - 1) + b"y")
    reader = open_reader(io.BytesIO(encode_blocks(bad + good)), 2)
    assert reader.read(size - 1) == b"z" * (size - 1)
    uses = {
        "read": lambda: reader.read(1),
        "readinto": lambda: reader.readinto(bytearray(1)),
        "skip": reader.next,
    }
    with pytest.raises(ChecksumError) as caught:
        uses[how]()
    assert caught.value.notes == ("blob 0 of 2",)
    with pytest.raises(StateError):
        reader.read()


def test_the_verification_status_is_reported() -> None:
    frames = b"".join(encode_frame(b"data", checksum=kind) for kind in ChecksumKind)
    reader: BlobStreamReader | None = open_reader(encode_blocks(frames), 3)
    said = []
    while reader is not None:
        assert not reader.checksum_verified
        reader.read()
        said.append((reader.checksum_kind, reader.checksum_verified))
        reader = reader.next()
    assert said == [
        (ChecksumKind.NONE, False),
        (ChecksumKind.CRC32, True),
        (ChecksumKind.MD5, True),
    ]


def test_md5_of_large_blobs_is_checked_from_the_second_blob(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_frame_parts, "RETAINED_BYTES", 1000)
    frame = encode_frame(pattern(5000), checksum=ChecksumKind.MD5)
    reader = open_reader(encode_blocks(frame * 2), 2)
    reader.read()
    assert not reader.checksum_verified
    reader.next()
    reader.read(2000)
    reader.readinto(bytearray(3000))
    assert reader.checksum_verified


def test_truncation_at_every_byte_is_detected() -> None:
    body = encode_blocks(framed([b"one", b"", pattern(5000)]))
    for size in some_of(len(body)):
        with pytest.raises(TruncatedError):
            read_all(open_reader(body[:size], 3), 900)


def test_the_memory_for_a_blob_is_bounded_by_the_window() -> None:
    class Endless:
        """A raw stream with one blob of 64 MiB, generated while it is read."""

        def __init__(self) -> None:
            self.encoder, self.left, self.ready = BlockEncoder(), 64 << 20, bytearray()

        def read(self, size: int) -> bytes:
            while len(self.ready) < size and self.left:
                self.ready += self.encoder.feed(bytes(1 << 20))
                self.left -= 1 << 20
            out = bytes(self.ready[:size])
            del self.ready[:size]
            return out

    reader = open_reader(Endless(), 1)
    tracemalloc.start()
    try:
        target, total = bytearray(1 << 20), 0
        while count := reader.readinto(target):
            total += count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 64 << 20
    assert peak < 16 << 20


def test_an_iterator_can_be_either_iterated_or_streamed() -> None:
    body = encode_blocks(framed([b"1", b"2"]))
    iterator = BlobDataIterator(body, expected_count=2)
    next(iterator)
    with pytest.raises(StateError, match="in use"):
        BlobStreamReader(iterator)
    iterator = BlobDataIterator(body, expected_count=2)
    BlobStreamReader(iterator)
    with pytest.raises(StateError, match="passed to"):
        next(iterator)
    with pytest.raises(StateError):
        BlobStreamReader(iterator)


def test_close_closes_the_source_and_later_calls_raise_an_error() -> None:
    raw = ReadOnly(encode_blocks(framed([b"1", b"2"])))
    with open_reader(raw, 2) as reader:
        assert reader.readable()
        assert not reader.closed
    reader.close()
    assert raw.closed
    assert reader.closed
    assert not reader.readable()
    for use in (reader.read, reader.next, lambda: reader.mime_type):
        with pytest.raises(StateError, match="closed"):
            use()


def test_a_frame_with_the_header_of_an_upload_is_streamed() -> None:
    header = FrameHeader(partition_values=("ds=x",), column_index=3)
    body = encode_blocks(encode_frame(b"up", header) * 2)
    assert read_all(open_reader(body, 2), -1) == [b"up", b"up"]
