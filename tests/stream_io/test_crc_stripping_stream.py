"""The CRC stripping stream: every kind of source, every read size, `peek`, `readinto`, errors."""

import io
import random
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import ChecksumError, ProtocolError, StateError, TruncatedError
from odps_nb.stream_io import CrcStrippingStream
from odps_nb.wire.blocks import BLOCK_SIZE, STORED_SIZE, encode_blocks
from tests.support.sockets.raw_streams import KINDS, READS, SIZES, ReadInto, ReadOnly, pattern

# Sources in memory, and sources with only one method, are read in the same way.
SOURCES = [
    (kind, size)
    for kind in KINDS
    for size in SIZES
    if size in (0, 4097, 300_000) or kind in ("bytes", "read", "short readinto", "one byte a time")
]


@pytest.mark.parametrize(("kind", "size"), SOURCES)
def test_the_payload_is_read_from_every_source_with_every_size(kind: str, size: int) -> None:
    payload = pattern(size)
    stored = encode_blocks(payload)
    for step in READS[(0 if size < 9000 else 2) :]:
        stream = CrcStrippingStream(KINDS[kind](stored))
        parts = []
        while part := stream.read(step):
            parts.append(part)
        assert b"".join(parts) == payload
        assert all(len(part) == step for part in parts[:-1])
        assert stream.tell() == size
    assert CrcStrippingStream(KINDS[kind](stored)).read() == payload
    assert CrcStrippingStream(KINDS[kind](stored)).read(None) == payload


@pytest.mark.parametrize(("kind", "size"), SOURCES)
def test_readinto_fills_its_target_from_every_source(kind: str, size: int) -> None:
    payload = pattern(size)
    for step in (5000, 262_144, 270_000, 1 << 20):
        stream = CrcStrippingStream(KINDS[kind](encode_blocks(payload)))
        target, parts = bytearray(step), []
        while count := stream.readinto(target):
            parts.append(bytes(target[:count]))
        assert b"".join(parts) == payload
        assert all(len(part) == step for part in parts[:-1])


@given(st.integers(0, 40_000), st.integers(0, 2**32), st.integers(1, 9000))
def test_any_mix_of_read_methods_returns_the_payload(size: int, seed: int, most: int) -> None:
    dice, payload = random.Random(seed), pattern(size)
    stream = CrcStrippingStream(ReadInto(encode_blocks(payload), most=most))
    out = b""
    while len(out) < size:
        wanted = dice.choice([0, 1, 100, 4096, 5000, 17_000])
        match dice.randrange(4):
            case 0:
                out += stream.read(wanted)
            case 1:
                assert stream.peek(wanted) == payload[len(out) : len(out) + wanted]
            case 2:
                out += stream.read1(wanted)
            case _:
                target = bytearray(wanted)
                out += target[: stream.readinto(target)]
        assert stream.tell() == len(out)
    assert out == payload
    assert stream.read(10) == stream.read1() == stream.peek(10) == b""


def test_large_reads_and_reads_to_the_end_return_the_payload() -> None:
    payload = random.Random(1).randbytes(5 << 20)
    stored = encode_blocks(payload)
    for size in (-1, len(payload), len(payload) + 1, 1 << 40):
        assert CrcStrippingStream(ReadInto(stored)).read(size) == payload
    stream = CrcStrippingStream(io.BytesIO(stored))
    assert stream.read(10) + stream.read(3 << 20) + stream.read(1 << 40) == payload
    stream = CrcStrippingStream(io.BytesIO(stored))
    target = bytearray(3 << 20)
    assert stream.read(100) == payload[:100]
    assert stream.readinto(target) == len(target)
    assert target == payload[100 : 100 + len(target)]
    assert stream.read() == payload[100 + len(target) :]


def test_a_body_in_memory_is_read_from_its_current_position() -> None:
    raw = io.BytesIO(b"head" + encode_blocks(b"hello"))
    raw.seek(4)
    stream = CrcStrippingStream(raw)
    assert stream.read() == b"hello"
    assert raw.tell() == 13
    raw.write(b"free to change: nothing is locked")


def test_peek_consumes_nothing_and_can_look_far_ahead() -> None:
    payload = pattern(600_000)
    stream = CrcStrippingStream(ReadOnly(encode_blocks(payload)))
    assert stream.peek(0) == stream.peek(-1) == b""
    assert stream.peek() == payload[:1]
    assert stream.peek(500_000) == payload[:500_000]
    assert stream.peek(1 << 30) == payload
    assert stream.read() == payload


def test_read1_returns_available_bytes_after_one_read() -> None:
    stream = CrcStrippingStream(ReadOnly(encode_blocks(pattern(9000)), most=STORED_SIZE))
    assert stream.read1() == pattern(9000)[:BLOCK_SIZE]
    assert stream.read1(10) == pattern(9000)[BLOCK_SIZE : BLOCK_SIZE + 10]
    assert len(stream.read1(100_000)) == BLOCK_SIZE - 10


def test_other_libraries_can_read_the_stream_as_a_file() -> None:
    text = b"first line\nsecond line\n"
    with CrcStrippingStream(encode_blocks(text)) as stream:
        assert stream.readable()
        assert not stream.writable()
        assert not stream.seekable()
        assert list(stream) == [b"first line\n", b"second line\n"]
    sink = io.BytesIO()
    shutil.copyfileobj(CrcStrippingStream(encode_blocks(pattern(100_000))), sink)
    assert sink.getvalue() == pattern(100_000)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_block_is_named_for_every_source(kind: str) -> None:
    stored = bytearray(encode_blocks(pattern(2 * BLOCK_SIZE)))
    stored[STORED_SIZE + 9] ^= 1
    stream = CrcStrippingStream(KINDS[kind](bytes(stored)))
    with pytest.raises(ChecksumError) as caught:
        stream.read()
    assert (caught.value.block, caught.value.offset) == (1, STORED_SIZE)
    for use in (stream.read, stream.peek, stream.read1, lambda: stream.readinto(bytearray(1))):
        with pytest.raises(StateError, match="already failed"):
            use()
    stream.close()


def test_a_damaged_block_is_named_in_a_direct_read_far_into_the_stream() -> None:
    stored = bytearray(encode_blocks(bytes(3 << 20)))
    stored[700 * STORED_SIZE] ^= 1
    with pytest.raises(ChecksumError) as caught:
        CrcStrippingStream(ReadInto(bytes(stored))).readinto(bytearray(4 << 20))
    assert caught.value.block == 700


@pytest.mark.parametrize("kind", ["bytes", "read", "short readinto"])
def test_truncation_inside_a_block_is_detected(kind: str) -> None:
    stored = encode_blocks(pattern(BLOCK_SIZE + 50))
    for size in [*range(1, 60), *range(STORED_SIZE - 20, len(stored))]:
        stream = CrcStrippingStream(KINDS[kind](stored[:size]))
        if size == STORED_SIZE:  # only frames or HTTP detect this truncation
            assert stream.read() == pattern(BLOCK_SIZE)
            continue
        with pytest.raises(TruncatedError):
            stream.read()


def test_no_unverified_bytes_are_returned() -> None:
    stored = bytearray(encode_blocks(pattern(BLOCK_SIZE * 40)))
    stored[-1] ^= 1
    stream = CrcStrippingStream(ReadOnly(bytes(stored)))
    given = []
    with pytest.raises(ProtocolError):
        given.extend(iter(lambda: stream.read(1000), b""))
    assert pattern(BLOCK_SIZE * 40).startswith(b"".join(given))
    assert len(b"".join(given)) < BLOCK_SIZE * 40


def test_close_closes_the_source_once_and_later_calls_raise_a_state_error() -> None:
    raw = ReadOnly(encode_blocks(b"hello"))
    stream = CrcStrippingStream(raw)
    stream.read(2)
    stream.close()
    stream.close()
    assert raw.closed
    assert stream.closed
    assert not stream.readable()
    for use in (stream.read, stream.peek, stream.read1, lambda: stream.readinto(bytearray(1))):
        with pytest.raises(StateError, match="closed"):
            use()
    with pytest.raises(StateError):
        stream.read(0)


def test_an_error_of_the_source_is_raised_and_the_stream_is_unusable() -> None:
    class Breaks(ReadOnly):
        def read(self, size: int) -> bytes:
            raise ConnectionResetError("gone")

    stream = CrcStrippingStream(Breaks(b""))
    with pytest.raises(ConnectionResetError):
        stream.read(1)
    with pytest.raises(StateError):
        stream.read(1)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_source_that_returns_too_many_bytes_is_refused(size: int) -> None:
    class Generous(ReadOnly):
        def read(self, size: int) -> bytes:
            return encode_blocks(pattern(4 * size))

    with pytest.raises(StateError, match="at most"):
        CrcStrippingStream(Generous(b"")).read(size)


def test_an_object_without_read_is_refused() -> None:
    with pytest.raises(TypeError, match="read"):
        CrcStrippingStream(42)
