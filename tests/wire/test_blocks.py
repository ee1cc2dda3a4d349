"""CRC32C blocks (``docs/protocol.md`` section 6.3): any division, every flip and truncation."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import ChecksumError, ProtocolError, StateError, TruncatedError
from odps_nb.wire import blocks
from odps_nb.wire.blocks import (
    BLOCK_SIZE,
    RUN_BLOCKS,
    STORED_SIZE,
    BlockDecoder,
    BlockEncoder,
    DamagedTailError,
    encode_blocks,
    residue,
    strip_into,
    verify_blocks,
    verify_tail,
)
from odps_nb.wire.crc32c import crc32c
from tests.support.wire.cutting import CUTS, cut, every, pattern

SIZES = [0, 1, 4, 4091, 4092, 4093, 4095, 4096, 4097, 8191, 8192, 8193, 20000]


def decode(*chunks: bytes) -> bytes:
    decoder = BlockDecoder()
    return b"".join([decoder.feed(chunk) for chunk in chunks]) + decoder.feed_eof()


def test_hello_is_encoded_as_the_reference_bytes() -> None:
    assert encode_blocks(b"hello") == bytes.fromhex("68656c6c6f4cbb719a")


def test_two_blocks_equal_the_reference_bytes_and_each_has_a_separate_crc() -> None:
    stored = encode_blocks(bytes(4096) + b"abc")
    assert len(stored) == 4107
    assert stored[4096:] == bytes.fromhex("8941f998 616263 b73f4b36")


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, 0), (1, 0x48674BC7), (2, 0x9467B398), (3, 0x1535A700), (256, 0x03A593FF)],
)
def test_residues_equal_those_on_the_protocol_page(count: int, expected: int) -> None:
    assert residue(count) == expected
    assert crc32c(encode_blocks(pattern(count * BLOCK_SIZE))) == expected


@given(st.integers(1, 40), st.integers(0, 255))
def test_a_residue_does_not_depend_on_the_payload(count: int, fill: int) -> None:
    assert crc32c(encode_blocks(bytes([fill]) * (count * BLOCK_SIZE))) == residue(count)


@pytest.mark.parametrize("size", SIZES)
def test_decoding_returns_the_encoded_bytes(size: int) -> None:
    stored = encode_blocks(pattern(size))
    assert len(stored) == size + 4 * -(-size // BLOCK_SIZE)
    assert decode(stored) == pattern(size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("step", [1, 3, 4095, 4096, 4097, 4100, 4101, 9000])
def test_any_regular_division_gives_the_same_result(size: int, step: int) -> None:
    stored = encode_blocks(pattern(size))
    assert decode(*every(stored, step)) == pattern(size)


@pytest.mark.parametrize("step", [1000, STORED_SIZE, STORED_SIZE + 1, 300 * STORED_SIZE])
def test_blocks_decoded_into_a_buffer_of_the_caller_are_the_same(step: int) -> None:
    payload = pattern(300 * BLOCK_SIZE + 5)
    decoder, target, done = BlockDecoder(), memoryview(bytearray(len(payload))), 0
    for chunk in every(encode_blocks(payload), step):
        done += decoder.feed_into(chunk, target[done:])
    assert done == 300 * BLOCK_SIZE
    assert bytes(target[:done]) + decoder.feed_eof() == payload


@given(st.binary(max_size=9000), CUTS, CUTS)
def test_any_payload_is_decoded_for_any_division(
    payload: bytes, cuts: list[int], stored_cuts: list[int]
) -> None:
    encoder = BlockEncoder()
    stored = b"".join([encoder.feed(part) for part in cut(payload, cuts)] + [encoder.finish()])
    assert stored == encode_blocks(payload)
    assert decode(*cut(stored, stored_cuts)) == payload


def test_a_payload_fed_byte_by_byte_encodes_the_same() -> None:
    encoder = BlockEncoder()
    parts = [encoder.feed(byte) for byte in every(pattern(5000), 1)]
    assert b"".join([*parts, encoder.finish()]) == encode_blocks(pattern(5000))


def test_more_blocks_than_one_pass_handles_are_verified_and_stripped() -> None:
    payload = pattern((RUN_BLOCKS + 3) * BLOCK_SIZE + 5)
    assert decode(encode_blocks(payload)) == payload


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_accepted(kind: type) -> None:
    stored = encode_blocks(kind(pattern(5000)))
    assert decode(kind(stored)) == pattern(5000)


def test_every_flipped_bit_is_detected() -> None:
    stored = bytearray(encode_blocks(pattern(BLOCK_SIZE + 60)))
    for at in range(len(stored)):
        bits = range(8) if at % 64 == 0 or at >= BLOCK_SIZE else (at % 8,)
        for bit in bits:
            stored[at] ^= 1 << bit
            with pytest.raises(ChecksumError) as caught:
                decode(bytes(stored))
            assert caught.value.block == (0 if at < STORED_SIZE else 1)
            stored[at] ^= 1 << bit


def test_truncation_at_every_byte_is_detected_except_after_a_whole_block() -> None:
    payload = pattern(2 * BLOCK_SIZE + 100)
    stored = encode_blocks(payload)
    for size in range(len(stored)):
        if size % STORED_SIZE == 0:
            assert decode(stored[:size]) == payload[: size // STORED_SIZE * BLOCK_SIZE]
            continue
        with pytest.raises(TruncatedError):
            decode(stored[:size])


def test_the_error_names_index_and_offset_of_a_damaged_block() -> None:
    stored = bytearray(encode_blocks(pattern(10 * BLOCK_SIZE)))
    stored[7 * STORED_SIZE + 5] ^= 1
    with pytest.raises(
        ChecksumError, match=r"block 7 \(byte 28700, 4096 payload bytes\)"
    ) as caught:
        decode(bytes(stored))
    error = caught.value
    assert (error.block, error.offset) == (7, 7 * STORED_SIZE)
    assert error.expected == crc32c(pattern(10 * BLOCK_SIZE)[7 * BLOCK_SIZE : 8 * BLOCK_SIZE])
    assert error.actual != error.expected
    assert error.hint


def test_the_error_names_a_damaged_block_of_several_feeds() -> None:
    stored = bytearray(encode_blocks(pattern(6 * BLOCK_SIZE)))
    stored[4 * STORED_SIZE + 4097] ^= 0x80
    decoder = BlockDecoder()
    decoder.feed(bytes(stored[:9000]))
    with pytest.raises(ChecksumError) as caught:
        decoder.feed(bytes(stored[9000:]))
    assert caught.value.block == 4


def test_two_flipped_bits_in_different_blocks_are_detected() -> None:
    stored = bytearray(encode_blocks(pattern(3 * BLOCK_SIZE)))
    stored[10] ^= 4
    stored[2 * STORED_SIZE + 10] ^= 4
    with pytest.raises(ChecksumError) as caught:
        decode(bytes(stored))
    assert caught.value.block == 0


@pytest.mark.parametrize("left", [1, 2, 3, 4])
def test_a_last_block_of_at_most_four_bytes_is_reported_as_truncation(left: int) -> None:
    stored = encode_blocks(pattern(BLOCK_SIZE)) + b"\x00" * left
    with pytest.raises(TruncatedError) as caught:
        decode(stored)
    assert (caught.value.offset, caught.value.actual) == (STORED_SIZE, left)


def test_a_damaged_last_block_is_reported_as_truncated_or_damaged() -> None:
    with pytest.raises(DamagedTailError) as caught:
        decode(b"hellO" + encode_blocks(b"hello")[5:])
    error = caught.value
    assert isinstance(error, ChecksumError)
    assert isinstance(error, TruncatedError)
    assert (error.block, error.offset) == (0, 0)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.message, copy.block) == (DamagedTailError, error.message, 0)


def test_a_checksum_error_names_the_slow_implementation_if_it_was_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ChecksumError) as caught:
        decode(bytes(20))
    assert caught.value.notes == ()
    monkeypatch.setattr(blocks, "IS_FAST", False)
    monkeypatch.setattr(blocks, "IMPLEMENTATION", "crc32c 2.9 (software)")
    with pytest.raises(ChecksumError) as caught:
        decode(bytes(20))
    assert caught.value.notes == ("CRC32C by crc32c 2.9 (software)",)


def test_after_an_error_the_decoder_is_unusable() -> None:
    decoder = BlockDecoder()
    with pytest.raises(ChecksumError):
        decoder.feed(bytes(STORED_SIZE))
    with pytest.raises(StateError, match="has failed"):
        decoder.feed(b"")
    with pytest.raises(StateError, match="has failed"):
        decoder.feed_eof()


def test_after_the_end_no_more_bytes_are_accepted() -> None:
    decoder = BlockDecoder()
    decoder.feed_eof()
    with pytest.raises(StateError, match="end of its stream"):
        decoder.feed(b"x")
    with pytest.raises(StateError, match="end of its stream"):
        decoder.feed_eof()


def test_a_finished_encoder_accepts_no_more_bytes() -> None:
    encoder = BlockEncoder()
    assert encoder.finish() == b""
    with pytest.raises(StateError):
        encoder.feed(b"x")
    with pytest.raises(StateError):
        encoder.finish()


@given(st.binary(max_size=9000))
def test_any_bytes_give_a_payload_or_a_typed_error(stored: bytes) -> None:
    try:
        payload = decode(stored)
    except ProtocolError:
        return
    assert encode_blocks(payload) == stored


def test_the_block_functions_verify_and_strip_blocks_in_a_buffer() -> None:
    payload = pattern(3 * BLOCK_SIZE + 9)
    stored = encode_blocks(payload)
    run, tail = stored[: 3 * STORED_SIZE], stored[3 * STORED_SIZE :]
    verify_blocks(run, 3, first_block=100)
    target = bytearray(3 * BLOCK_SIZE + 50)
    assert strip_into(run, 3, memoryview(target)) == 3 * BLOCK_SIZE
    assert bytes(target[: 3 * BLOCK_SIZE]) + verify_tail(tail, block=103) == payload
    with pytest.raises(ValueError, match="not 2 whole blocks"):
        verify_blocks(run, 2)
    with pytest.raises(ChecksumError) as caught:
        verify_blocks(run[:5] + b"?" + run[6:], 3, first_block=100)
    assert (caught.value.block, caught.value.offset) == (100, 100 * STORED_SIZE)
