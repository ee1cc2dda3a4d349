"""Decoding of the layers of a body (``docs/protocol.md`` section 6.4), framing, and limits."""

from contextlib import suppress
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
from odps_nb.terms import Compression
from odps_nb.wire.blocks import BLOCK_SIZE, encode_blocks
from odps_nb.wire.codings import HTTP_NAMES, LZ4_MAGIC, ZSTD_MAGIC, encoder
from odps_nb.wire.frames import BlobData, BlobStart, FrameHeader, encode_frame
from odps_nb.wire.layers import BlobBodyDecoder, PayloadDecoder
from tests.support.wire.cutting import CUTS, cut, every, pattern

REFERENCES = {
    "no coding": (None, "68 65 6c 6c 6f 4c bb 71 9a"),
    "zstd, CRC outermost": ("zstd", "28 b5 2f fd 20 05 29 00 00 68 65 6c 6c 6f 62 20 c7 4f"),
    "zstd, CRC innermost": ("zstd", "28 b5 2f fd 20 09 49 00 00 68 65 6c 6c 6f 4c bb 71 9a"),
    "lz4, CRC outermost": (
        "x-lz4-frame",
        "04 22 4d 18 68 40 05 00 00 00 00 00 00 00 61 05 00 00 80 68 65 6c 6c 6f 00 00 00 00"
        " 80 95 8c 9a",
    ),
}
CODED = [Compression.ZSTD, Compression.LZ4]


def code(name: Compression, data: bytes) -> bytes:
    coder = encoder(name)
    return coder.feed(data) + coder.finish()


def outermost(name: Compression, payload: bytes) -> bytes:
    return encode_blocks(code(name, payload))


def innermost(name: Compression, payload: bytes) -> bytes:
    return code(name, encode_blocks(payload))


ORDERS = pytest.mark.parametrize("order", [outermost, innermost])


def decode(encoding: Any, *chunks: bytes, max_output: int | None = None) -> bytes:
    decoder = PayloadDecoder(encoding, max_output=max_output)
    return b"".join([decoder.feed(chunk) for chunk in chunks]) + decoder.feed_eof()


@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_bytes_decode_to_hello(name: str) -> None:
    encoding, text = REFERENCES[name]
    body = bytes.fromhex(text)
    assert decode(encoding, body) == b"hello"
    assert decode(encoding, *every(body, 1)) == b"hello"


@pytest.mark.parametrize("name", REFERENCES)
def test_every_flipped_bit_of_the_reference_bytes_is_detected_or_has_no_effect(name: str) -> None:
    encoding, text = REFERENCES[name]
    body = bytearray.fromhex(text)
    harmless = []
    for at in range(len(body)):
        for bit in range(8):
            body[at] ^= 1 << bit
            with suppress(ProtocolError):
                assert decode(encoding, bytes(body)) == b"hello"
                harmless.append((at, bit))
            body[at] ^= 1 << bit
    # Two bits of the zstd header have no effect; CRC blocks around it detect every flipped bit.
    assert harmless == ([(4, 4), (4, 5)] if name == "zstd, CRC innermost" else [])


@pytest.mark.parametrize("name", REFERENCES)
def test_truncation_of_the_reference_bytes_is_detected_at_every_byte_but_the_first(
    name: str,
) -> None:
    encoding, text = REFERENCES[name]
    body = bytes.fromhex(text)
    assert decode(encoding, b"") == b""
    for size in range(1, len(body)):
        with pytest.raises(ProtocolError):
            decode(encoding, body[:size])


@ORDERS
@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("size", [0, 1, 3, 4, 4095, 4096, 4097, 20_000])
def test_both_orders_of_both_codings_are_decoded(order: Any, name: Compression, size: int) -> None:
    body = order(name, pattern(size))
    assert decode(HTTP_NAMES[name], body) == pattern(size)
    assert decode(name, *every(body, 1000)) == pattern(size)


@ORDERS
@given(payload=st.binary(max_size=5000), cuts=CUTS, name=st.sampled_from(CODED))
def test_any_division_gives_the_same_result(
    order: Any, payload: bytes, cuts: list[int], name: Compression
) -> None:
    assert decode(name, *cut(order(name, payload), cuts)) == payload


@pytest.mark.parametrize("magic", [ZSTD_MAGIC, LZ4_MAGIC])
def test_without_a_header_no_coding_is_decoded_even_after_a_magic_number(magic: bytes) -> None:
    blob = magic + b"is how this blob begins"
    assert decode(None, encode_blocks(blob)) == blob
    assert decode("identity", encode_blocks(blob)) == blob


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("blob", [b"", b"abc", b"plain text", pattern(5000)])
def test_a_header_without_its_magic_number_decodes_nothing(name: Compression, blob: bytes) -> None:
    body = encode_blocks(blob)
    assert decode(name, body) == blob
    assert decode(name, *every(body, 1)) == blob


def test_the_magic_number_of_the_other_coding_is_treated_as_content() -> None:
    blob = code(Compression.LZ4, b"hello")
    assert decode("zstd", encode_blocks(blob)) == blob


def test_a_body_that_is_valid_in_neither_order_raises_an_error_that_names_both() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode("zstd", b"no blocks and no zstd either, whatever the header says")
    assert any("checksum of the first block did not match" in note for note in caught.value.notes)


def test_the_error_names_a_damaged_block_in_either_order() -> None:
    stored = bytearray(encode_blocks(pattern(3 * BLOCK_SIZE)))
    stored[4100 + 7] ^= 1
    with pytest.raises(ChecksumError) as caught:
        decode("zstd", code(Compression.ZSTD, bytes(stored)))
    assert caught.value.block == 1
    assert caught.value.notes


def test_a_truncated_last_block_inside_the_body_is_reported_as_truncation() -> None:
    stored = encode_blocks(pattern(5000))
    with pytest.raises(TruncatedError) as caught:
        decode("zstd", code(Compression.ZSTD, stored[:-2]))
    assert caught.value.notes


def test_an_unprotected_body_is_refused() -> None:
    with pytest.raises(ChecksumError):
        decode(None, b"hello world, with no checksum")


def test_an_unknown_coding_is_refused_immediately() -> None:
    with pytest.raises(FramingError):
        PayloadDecoder("br")


@ORDERS
@pytest.mark.parametrize("name", CODED)
def test_the_output_limit_counts_decoded_bytes(order: Any, name: Compression) -> None:
    body = order(name, bytes(100_000))
    with pytest.raises(LimitExceededError):
        decode(name, body, max_output=99_999)
    assert len(decode(name, body, max_output=101_000)) == 100_000


@ORDERS
def test_pieces_are_bounded_and_are_the_same_bytes(order: Any) -> None:
    body = order(Compression.ZSTD, bytes(40 << 20))
    decoder = PayloadDecoder("zstd")
    sizes = [len(piece) for piece in decoder.pieces(body)]
    sizes += [len(piece) for piece in decoder.pieces_eof()]
    assert sum(sizes) == 40 << 20
    assert max(sizes) <= 9 << 20
    with pytest.raises(StateError):
        decoder.feed(b"")


def test_pieces_of_an_uncoded_body_are_the_payload() -> None:
    decoder = PayloadDecoder()
    assert b"".join(decoder.pieces(encode_blocks(pattern(5000)))) + decoder.feed_eof() == pattern(
        5000
    )


def test_after_an_error_the_decoder_is_unusable() -> None:
    decoder = PayloadDecoder()
    with pytest.raises(ChecksumError):
        decoder.feed(bytes(4100))
    with pytest.raises(StateError):
        decoder.feed_eof()


@given(st.binary(max_size=300), st.sampled_from([None, "zstd", "x-lz4-frame"]), st.integers(0, 3))
def test_any_bytes_give_events_or_a_typed_error(
    junk: bytes, encoding: str | None, count: int
) -> None:
    for body in (junk, encode_blocks(junk), encode_blocks(ZSTD_MAGIC + junk)):
        with suppress(ProtocolError):
            decoder = BlobBodyDecoder(encoding, count)
            decoder.feed(body)
            decoder.feed_eof()


# -- whole bodies ------------------------------------------------------------------------------


def bodies(payload: bytes) -> list[tuple[str | None, bytes]]:
    """Return a payload in every order of layers."""
    coded = [
        (HTTP_NAMES[name], order(name, payload))
        for name in CODED
        for order in (outermost, innermost)
    ]
    return [(None, encode_blocks(payload)), *coded]


def blobs(encoding: str | None, count: int, *chunks: bytes) -> list[bytes]:
    decoder = BlobBodyDecoder(encoding, count)
    events = [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.feed_eof()
    out: list[bytes] = []
    for event in events:
        if isinstance(event, BlobStart):
            out.append(b"")
        elif isinstance(event, BlobData):
            out[-1] += event.data
    return out


@pytest.mark.parametrize("count", [0, 2, 3, 50])
def test_zero_or_several_references_are_sent_as_frames(count: int) -> None:
    contents = [pattern(index % 7 * 700) for index in range(count)]
    payload = b"".join(encode_frame(data, FrameHeader(content_type="a/b")) for data in contents)
    for encoding, body in bodies(payload):
        assert blobs(encoding, count, body) == contents
        assert blobs(encoding, count, *every(body, 333)) == contents


@pytest.mark.parametrize("payload", [b"", b"x", encode_frame(b"a frame, but one reference")])
def test_a_single_blob_is_sent_without_a_frame(payload: bytes) -> None:
    for encoding, body in bodies(payload):
        assert blobs(encoding, 1, body) == [payload]


def test_fewer_or_more_frames_than_references_raise_errors() -> None:
    payload = encode_frame(b"one") + encode_frame(b"two")
    for encoding, body in bodies(payload):
        with pytest.raises(TruncatedError, match="after 2 of 3 frames"):
            blobs(encoding, 3, body)
        with pytest.raises(FramingError):
            blobs(encoding, 0, body)


def test_lazy_events_are_the_same_and_a_bomb_is_not_decoded_completely() -> None:
    payload = encode_frame(pattern(3000)) + encode_frame(b"") + encode_frame(b"end")
    for encoding, body in bodies(payload):
        one, other = BlobBodyDecoder(encoding, 3), BlobBodyDecoder(encoding, 3)
        events = [event for chunk in every(body, 700) for event in one.events(chunk)]
        events += one.events_eof()
        plain = [event for chunk in every(body, 700) for event in other.feed(chunk)]
        assert events == plain + other.feed_eof()
        with pytest.raises(StateError):
            one.feed(b"")
    decoder = BlobBodyDecoder("zstd", 1)
    sizes = [
        len(event.data)
        for events in (
            decoder.events(outermost(Compression.ZSTD, bytes(40 << 20))),
            decoder.events_eof(),
        )
        for event in events
        if isinstance(event, BlobData)
    ]
    assert sum(sizes) == 40 << 20
    assert max(sizes) <= 9 << 20


def test_a_blob_larger_than_accepted_is_refused() -> None:
    with pytest.raises(LimitExceededError):
        BlobBodyDecoder(None, 1, max_blob=10).feed(encode_blocks(bytes(5000)))
    body = encode_blocks(encode_frame(bytes(5000)) * 2)
    with pytest.raises(LimitExceededError):
        BlobBodyDecoder(None, 2, max_blob=10).feed(body)
    decoder = BlobBodyDecoder("zstd", 1, 10)
    decoder.feed(outermost(Compression.ZSTD, bytes(5000)))
    with pytest.raises(LimitExceededError):
        decoder.feed_eof()
