"""zstd and LZ4: round trips, consecutive frames, truncation, flips, bombs and their limit."""

from contextlib import suppress

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import (
    ArgumentError,
    FramingError,
    LimitExceededError,
    ProtocolError,
    StateError,
    TruncatedError,
)
from odps_nb.terms import Compression
from odps_nb.wire.codings import (
    HTTP_NAMES,
    MAX_PIECE,
    coding_of,
    decoder,
    encoder,
    from_http_name,
    sniff,
)
from tests.support.wire.cutting import CUTS, cut, every, pattern

CODED = [Compression.ZSTD, Compression.LZ4]
ALL = [Compression.NONE, *CODED]
HELLO_ZSTD = bytes.fromhex("28b52ffd 2005290000 68656c6c6f")
HELLO_LZ4 = bytes.fromhex("04224d18 6840 0500000000000000 61 05000080 68656c6c6f 00000000")
MAX_BLOCK = 128 << 10


def encode(name: Compression | str, *chunks: bytes) -> bytes:
    coder = encoder(name)
    return b"".join([*(coder.feed(chunk) for chunk in chunks), coder.finish()])


def decode(name: Compression | str, *chunks: bytes, max_output: int | None = None) -> bytes:
    decoding = decoder(name, max_output=max_output)
    return b"".join([*(decoding.feed(chunk) for chunk in chunks), decoding.feed_eof()])


def zstd_bomb(blocks: int) -> bytes:
    """Return a frame of ``blocks`` blocks, 4 bytes each, that decode to 128 KiB of zeros each."""
    head = bytes.fromhex("28b52ffd 00 58")
    block = (MAX_BLOCK << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (MAX_BLOCK << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return head + block * (blocks - 1) + last


def test_the_reference_bytes_of_hello_are_decoded() -> None:
    assert decode("zstd", HELLO_ZSTD) == b"hello"
    assert decode("lz4", HELLO_LZ4) == b"hello"


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [0, 1, 4096, 70_000, 300_000])
def test_decoding_returns_the_encoded_bytes(name: Compression, size: int) -> None:
    assert decode(name, encode(name, pattern(size))) == pattern(size)


@pytest.mark.parametrize("name", ALL)
@given(payload=st.binary(max_size=3000), cuts=CUTS, coded_cuts=CUTS)
def test_any_division_gives_the_same_result(
    name: Compression, payload: bytes, cuts: list[int], coded_cuts: list[int]
) -> None:
    coded = encode(name, *cut(payload, cuts))
    assert decode(name, *cut(coded, coded_cuts)) == payload


@pytest.mark.parametrize("name", CODED)
def test_byte_by_byte_decoding_returns_the_same(name: Compression) -> None:
    coded = encode(name, pattern(2000)) + encode(name, b"") + encode(name, b"more")
    assert decode(name, *every(coded, 1)) == pattern(2000) + b"more"


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("frames", [2, 3, 500])
def test_consecutive_frames_are_one_stream(name: Compression, frames: int) -> None:
    assert decode(name, encode(name, b"ab") * frames) == b"ab" * frames
    assert decode(name, encode(name, b"") * frames) == b""


@pytest.mark.parametrize("name", CODED)
def test_a_skippable_frame_is_skipped(name: Compression) -> None:
    skippable = bytes.fromhex("5a2a4d18 03000000 abcdef")
    coded = skippable + encode(name, b"after")
    assert decode(name, coded) == b"after"
    assert decode(name, *every(coded, 1)) == b"after"


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_a_zstd_frame_without_its_blocks_fails_the_checksum(step: int) -> None:
    coded = encode("zstd", pattern(70_000))
    head, checksum = coded[: zstandard.frame_header_size(coded)], coded[-4:]
    with pytest.raises(FramingError, match="damaged"):
        decode("zstd", *every(head + bytes.fromhex("010000") + checksum, step))


def test_a_zstd_stream_truncated_before_raw_bytes_is_truncated() -> None:
    """The bytes that are appended to detect truncation are not treated as content."""
    raw_block = bytes.fromhex("28b52ffd 00 58") + (1000 << 3 | 1).to_bytes(3, "little")
    skippable = bytes.fromhex("5a2a4d18 e8030000")
    for head in (raw_block, skippable):
        for size in range(1, 1000, 37):
            with pytest.raises(TruncatedError):
                decode("zstd", head + bytes(size))
    for size in range(1, 1 + len(HELLO_ZSTD[:-1])):
        with pytest.raises(TruncatedError):
            decode("zstd", HELLO_ZSTD[:size])


@pytest.mark.parametrize("name", ALL)
def test_a_stream_of_no_bytes_is_empty(name: Compression) -> None:
    assert decode(name) == b""
    assert decode(name, b"", b"") == b""


@pytest.mark.parametrize("name", CODED)
def test_an_empty_payload_is_a_valid_frame(name: Compression) -> None:
    coded = encode(name)
    assert sniff(coded) is name
    assert decode(name, coded) == b""


@pytest.mark.parametrize("name", CODED)
def test_truncation_at_every_byte_but_the_first_is_detected(name: Compression) -> None:
    coded = encode(name, pattern(600))
    for size in range(1, len(coded)):
        with pytest.raises(TruncatedError) as caught:
            decode(name, coded[:size])
        assert caught.value.offset == size


@pytest.mark.parametrize("name", CODED)
def test_each_flipped_bit_of_a_frame_is_detected_or_has_no_effect(name: Compression) -> None:
    payload = pattern(300) * 2
    coded = bytearray(encode(name, payload))
    harmless = 0
    for at in range(len(coded)):
        for bit in range(8):
            coded[at] ^= 1 << bit
            try:
                assert decode(name, bytes(coded)) == payload
                harmless += 1
            except ProtocolError:
                pass
            coded[at] ^= 1 << bit
    assert harmless <= 16  # bits of the frame header without effect, such as the window size


@pytest.mark.parametrize("name", CODED)
@given(junk=st.binary(min_size=1, max_size=200))
def test_any_bytes_give_data_or_a_typed_error(name: Compression, junk: bytes) -> None:
    for stream in (junk, encode(name, b"hello")[: len(junk)] + junk):
        with suppress(ProtocolError):
            decode(name, stream)


@pytest.mark.parametrize("name", CODED)
def test_damage_raises_a_framing_error_with_its_position(name: Compression) -> None:
    good = encode(name, b"hello")
    decoding = decoder(name)
    assert decoding.feed(good) == b"hello"
    with pytest.raises(FramingError, match=f"the {name.value} stream is damaged") as caught:
        decoding.feed(b"this is no frame")
    assert caught.value.offset == len(good)
    with pytest.raises(StateError):
        decoding.feed(good)


@pytest.mark.parametrize("name", ALL)
def test_the_output_limit_is_exact(name: Compression) -> None:
    coded = encode(name, bytes(100_000))
    assert len(decode(name, coded, max_output=100_000)) == 100_000
    with pytest.raises(LimitExceededError) as caught:
        decode(name, coded, max_output=99_999)
    assert caught.value.limit == 99_999
    assert "max_output" in (caught.value.hint or "")


@pytest.mark.parametrize("name", CODED)
def test_the_output_limit_covers_all_frames_and_feeds(name: Compression) -> None:
    decoding = decoder(name, max_output=1000)
    for _ in range(10):
        decoding.feed(encode(name, bytes(100)))
    with pytest.raises(LimitExceededError):
        decoding.feed(encode(name, b"x"))


def test_a_zstd_bomb_never_fills_the_memory() -> None:
    bomb = zstd_bomb(4000)  # 16 KB that decode to 512 MiB
    assert len(bomb) < 17_000
    decoding = decoder("zstd")
    sizes = [len(piece) for piece in decoding.pieces(bomb)]
    assert sum(sizes) == 4000 * MAX_BLOCK
    assert max(sizes) <= MAX_PIECE + MAX_BLOCK
    assert decoding.feed_eof() == b""
    with pytest.raises(LimitExceededError) as caught:
        decode("zstd", bomb, max_output=1 << 20)
    assert caught.value.actual is not None
    assert caught.value.actual <= (1 << 20) + MAX_PIECE


def test_an_lz4_bomb_never_fills_the_memory() -> None:
    bomb = lz4.frame.compress(bytes(64 << 20), block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    assert len(bomb) < 300_000
    sizes = [len(piece) for piece in decoder("lz4").pieces(bomb)]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 2 * MAX_PIECE


def test_a_window_above_the_limit_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    coded = compressor.compress(b"x" * 100) + compressor.flush()
    with pytest.raises(FramingError):
        decode("zstd", coded)


def test_a_decoder_whose_pieces_were_not_all_read_is_unusable() -> None:
    decoding = decoder("zstd")
    next(decoding.pieces(zstd_bomb(200)))
    with pytest.raises(StateError):
        decoding.feed(b"")


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_accepted(name: Compression, kind: type) -> None:
    coder = encoder(name)
    coded = coder.feed(kind(b"hello")) + coder.finish()
    assert decode(name, kind(coded)) == b"hello"


@pytest.mark.parametrize("name", ALL)
def test_a_finished_encoder_accepts_no_more_bytes(name: Compression) -> None:
    coder = encoder(name)
    coder.finish()
    with pytest.raises(StateError):
        coder.feed(b"x")
    with pytest.raises(StateError):
        coder.finish()


def test_encoded_frames_have_a_checksum_of_the_content() -> None:
    assert zstandard.get_frame_parameters(encode("zstd", b"hello")).has_checksum
    assert lz4.frame.get_frame_info(encode("lz4", b"hello"))["content_checksum"]


def test_names_in_http_headers_are_encoded_and_decoded() -> None:
    assert HTTP_NAMES == {Compression.ZSTD: "zstd", Compression.LZ4: "x-lz4-frame"}
    for coding, name in HTTP_NAMES.items():
        assert from_http_name(name) is coding
        assert from_http_name(f" {name.upper()} ") is coding
        assert coding_of(name) is coding
        assert coding_of(coding) is coding
    assert from_http_name(None) is Compression.NONE
    assert from_http_name("") is Compression.NONE
    assert from_http_name("identity") is Compression.NONE
    with pytest.raises(FramingError, match="'gzip'"):
        from_http_name("gzip")


def test_magic_numbers_are_distinguished() -> None:
    assert sniff(HELLO_ZSTD) is Compression.ZSTD
    assert sniff(memoryview(HELLO_LZ4)) is Compression.LZ4
    assert sniff(b"\xff\xff\xff\xff") is None
    assert sniff(HELLO_ZSTD[:3]) is None


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ArgumentError):
        decoder("gzip")
