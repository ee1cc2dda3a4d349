"""Chunks of the tunnel (``docs/protocol.md`` section 9.4): divisions, flipped bits, truncation."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import ChecksumError, FramingError, ProtocolError, StateError, TruncatedError
from odps_nb.wire.crc32c import crc32c
from odps_nb.wire.tunnel.chunks import (
    CHUNK_SIZE,
    MAX_CHUNK,
    ChunkEncoder,
    ChunkVerifier,
    encode_chunks,
)
from tests.support.wire.cutting import CUTS, cut, every, pattern

SIZES = [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 9 * CHUNK_SIZE, 17 * CHUNK_SIZE + 5]
#: The payloads of the short streams below, in chunks of eight bytes.
SHORT = [b"", b"a", b"seven b", b"eight by", b"eight bytes, and more", b"sixteen bytes .."]


def stored(payload: bytes, chunk: int = CHUNK_SIZE) -> bytes:
    """Encode a stream as pyodps does, in the format of the protocol page."""
    parts = [chunk.to_bytes(4, "big")]
    whole = len(payload) // chunk * chunk
    for at in range(0, whole, chunk):
        part = payload[at : at + chunk]
        parts += [part, crc32c(part).to_bytes(4, "big")]
    return b"".join([*parts, payload[whole:], crc32c(payload).to_bytes(4, "big")])


def verified(stream: bytes) -> bytes:
    """Return the payload of a stream, read as described in the verifier's docstring."""
    verifier, at, out = ChunkVerifier(stream[:4]), 4, b""
    while at < len(stream):
        piece = memoryview(stream)[at : at + verifier.stored_size]
        out += verifier.verify(piece)
        at += len(piece)
    verifier.require_end()
    return out


def encoded(pieces: Iterable[bytes]) -> bytes:
    return b"".join(map(bytes, encode_chunks(iter(pieces))))


def test_hello_is_encoded_as_the_reference_bytes() -> None:
    assert encoded([b"hello"]) == bytes.fromhex("00010000 68656c6c6f 9a71bb4c")


def test_an_empty_stream_has_a_size_and_a_checksum() -> None:
    assert encoded([]) == encoded([b"", b""]) == bytes.fromhex("00010000 00000000")


@pytest.mark.parametrize("size", SIZES)
def test_the_encoder_follows_the_protocol_page(size: int) -> None:
    assert encoded([pattern(size)]) == stored(pattern(size))
    assert verified(stored(pattern(size))) == pattern(size)


@pytest.mark.parametrize("size", SIZES[:6])
@pytest.mark.parametrize("step", [1000, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 300_000])
def test_an_encoded_stream_is_the_same_however_the_payload_is_divided(size: int, step: int) -> None:
    assert encoded(every(pattern(size), step)) == stored(pattern(size))


@given(st.integers(0, 3 * CHUNK_SIZE), CUTS)
def test_random_pieces_make_the_same_stream(size: int, places: list[int]) -> None:
    payload = pattern(size)
    pieces = cut(payload, [place * 19 for place in places])
    assert encoded(pieces) == stored(payload)


def test_a_piece_may_be_any_contiguous_buffer() -> None:
    numbers = memoryview(pattern(CHUNK_SIZE + 4)).cast("I")
    assert encoded([numbers]) == encoded([bytearray(numbers)]) == stored(bytes(numbers))


def test_a_finished_encoder_accepts_no_more_bytes() -> None:
    encoder = ChunkEncoder()
    encoder.finish()
    with pytest.raises(StateError, match="is finished"):
        next(encoder.feed(b"more"))


@pytest.mark.parametrize("chunk", [1, 2, 7, 8, 4096, 100_000])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 100])
def test_a_reader_uses_the_chunk_size_of_the_stream(chunk: int, size: int) -> None:
    assert verified(stored(pattern(size), chunk)) == pattern(size)


@pytest.mark.parametrize("chunks", [2, 3, 9])
def test_the_last_full_chunk_may_have_the_checksum_of_the_whole_payload(chunks: int) -> None:
    payload = pattern(8 * chunks)
    without_last = stored(payload, 8)[:-8] + crc32c(payload).to_bytes(4, "big")
    assert verified(without_last) == payload


@pytest.mark.parametrize("payload", SHORT)
def test_every_truncation_of_a_short_stream_is_detected(payload: bytes) -> None:
    stream = stored(payload, 8)
    for length in range(len(stream)):
        with pytest.raises((TruncatedError, ChecksumError)) as caught:
            verified(stream[:length])
        assert "truncated" in caught.value.hint


@pytest.mark.parametrize("payload", SHORT)
def test_truncation_after_a_chunk_is_reported_with_its_position(payload: bytes) -> None:
    for count in range(len(payload) // 8 + 1):
        length = 4 + 12 * count
        with pytest.raises(TruncatedError) as caught:
            verified(stored(payload, 8)[:length])
        assert caught.value.offset == length


@pytest.mark.parametrize("payload", SHORT)
def test_every_flipped_bit_of_a_short_stream_is_detected(payload: bytes) -> None:
    stream = stored(payload, 8)
    for place in range(8 * len(stream)):
        damaged = bytearray(stream)
        damaged[place // 8] ^= 1 << place % 8
        try:
            found = verified(bytes(damaged))
        except ProtocolError:
            continue
        # A stream shorter than one chunk does not depend on the size of its chunks.
        assert place < 32, place
        assert found == payload
        assert len(payload) < int.from_bytes(damaged[:4], "big")


def test_the_error_names_a_damaged_chunk_and_both_checksums() -> None:
    stream = bytearray(stored(b"eight bytes, and more", 8))
    stream[18] ^= 1  # within the second chunk
    with pytest.raises(ChecksumError, match="the tunnel's chunk at byte 16") as caught:
        verified(bytes(stream))
    error, second = caught.value, bytes(stream[16:24])
    assert (error.offset, error.actual) == (16, crc32c(second))
    assert error.expected == crc32c(b"tes, and")


def test_a_damaged_last_chunk_raises_an_error_with_the_checksum_of_the_whole_payload() -> None:
    payload = b"eight bytes, and more"
    stream = bytearray(stored(payload, 8))
    stream[-1] ^= 0x80
    with pytest.raises(ChecksumError) as caught:
        verified(bytes(stream))
    assert caught.value.offset == 4 + 2 * 12
    assert caught.value.actual == crc32c(payload) == caught.value.expected ^ 0x80


def test_swapped_and_omitted_chunks_are_detected() -> None:
    stream = stored(pattern(21), 8)
    for chunks in (stream[16:28] + stream[4:16] + stream[28:], stream[16:]):
        with pytest.raises(ChecksumError):
            verified(stream[:4] + chunks)


@pytest.mark.parametrize("payload", [b"", b"short", b"eight by"])
def test_bytes_after_the_last_chunk_are_refused(payload: bytes) -> None:
    stream = stored(payload, 8)
    verifier = ChunkVerifier(stream[:4])
    for piece in every(stream[4:], verifier.stored_size):
        verifier.verify(memoryview(piece))
    with pytest.raises(FramingError, match="3 bytes follow the end") as caught:
        verifier.verify(memoryview(b"abc"))
    assert caught.value.offset == len(stream)


@pytest.mark.parametrize("size", [0, MAX_CHUNK + 1, 2**31, 2**32 - 1])
def test_a_chunk_size_out_of_range_is_refused_before_memory_is_reserved(size: int) -> None:
    with pytest.raises(FramingError, match=f"chunk size is {size} bytes"):
        ChunkVerifier(size.to_bytes(4, "big"))


@pytest.mark.parametrize("size", [1, MAX_CHUNK])
def test_the_least_and_the_greatest_chunk_size_are_accepted(size: int) -> None:
    assert ChunkVerifier(size.to_bytes(4, "big")).stored_size == size + 4


@pytest.mark.parametrize("wrong", [1, 4, 7, 9, 11, 12, 16])
def test_a_wrong_chunk_size_is_detected_if_the_stream_has_a_full_chunk(wrong: int) -> None:
    stream = stored(b"eight bytes, and more", 8)
    with pytest.raises(ProtocolError):
        verified(wrong.to_bytes(4, "big") + stream[4:])


@pytest.mark.parametrize("head", [b"", b"\0", b"\0\1\0"])
def test_a_stream_that_ends_in_its_chunk_size_is_truncated(head: bytes) -> None:
    with pytest.raises(TruncatedError, match="ends within its chunk size") as caught:
        ChunkVerifier(head)
    assert (caught.value.expected, caught.value.actual) == (4, len(head))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_payload_or_a_protocol_error(data: bytes) -> None:
    try:
        payload = verified(data)
    except ProtocolError:
        return
    assert data[-4:] == crc32c(payload).to_bytes(4, "big")
