"""Raw bodies and the frames that odps_nb encodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import FramingError, LimitExceededError, StateError
from odps_nb.wire.frames import (
    BlobEnd,
    BlobStart,
    ChecksumKind,
    Footer,
    FrameEncoder,
    FrameHeader,
    RawDecoder,
    encode_frame,
)
from tests.support.wire.cutting import CUTS, cut, every, pattern
from tests.support.wire.frames import decode, merged

# -- raw ---------------------------------------------------------------------------------------


@given(st.binary(max_size=500), CUTS)
def test_a_raw_body_is_one_blob_even_when_it_looks_like_frames(
    payload: bytes, cuts: list[int]
) -> None:
    for body in (payload, bytes.fromhex("0500000000000000") + payload):
        decoder = RawDecoder()
        events = [event for chunk in cut(body, cuts) for event in decoder.feed(chunk)]
        start, *data, end = merged(events + decoder.feed_eof())
        assert (start.index, start.length, start.content_type) == (0, None, None)
        assert b"".join(event.data for event in data) == body
        assert end == BlobEnd(
            index=0, length=len(body), checksum_kind=ChecksumKind.NONE, verified=False
        )


def test_an_empty_raw_body_is_an_empty_blob() -> None:
    start, end = RawDecoder().feed_eof()
    assert isinstance(start, BlobStart)
    assert isinstance(end, BlobEnd)
    assert end.length == 0


def test_a_raw_blob_has_a_size_limit() -> None:
    decoder = RawDecoder(max_blob=10)
    decoder.feed(bytes(10))
    with pytest.raises(LimitExceededError):
        decoder.feed(b"x")


# -- encoder -----------------------------------------------------------------------------------


@given(st.binary(max_size=500), CUTS, st.sampled_from(ChecksumKind))
def test_a_frame_is_the_same_however_its_data_is_divided(
    payload: bytes, cuts: list[int], kind: ChecksumKind
) -> None:
    header = FrameHeader(content_type="a/b")
    encoder = FrameEncoder(header, length=len(payload), checksum=kind)
    parts = [encoder.begin(), *(encoder.feed(part) for part in cut(payload, cuts))]
    assert b"".join([*parts, encoder.finish()]) == encode_frame(payload, header, checksum=kind)


@pytest.mark.usefixtures("little_retained")
@pytest.mark.parametrize("kind", ChecksumKind)
def test_the_checksum_of_a_large_source_is_computed_as_it_is_encoded(kind: ChecksumKind) -> None:
    encoder = FrameEncoder(FrameHeader(), length=5000, checksum=kind)
    parts = [encoder.begin(), *(encoder.feed(part) for part in every(pattern(5000), 300))]
    stream = b"".join([*parts, encoder.finish()])
    *_, end = decode(2, *every(stream * 2, 300))  # MD5 is known after the first footer
    assert end.verified is (kind is not ChecksumKind.NONE)


def test_a_source_longer_or_shorter_than_announced_raises_an_error() -> None:
    encoder = FrameEncoder(FrameHeader(), length=5)
    encoder.begin()
    encoder.feed(b"1234")
    with pytest.raises(FramingError, match="4 of the announced 5 bytes"):
        encoder.finish()
    encoder = FrameEncoder(FrameHeader(), length=5)
    encoder.begin()
    with pytest.raises(FramingError, match="more than the announced 5 bytes"):
        encoder.feed(b"123456")
    with pytest.raises(StateError):
        encoder.finish()
    with pytest.raises(ValueError, match="-1"):
        FrameEncoder(FrameHeader(), length=-1)


def test_parts_of_a_frame_must_be_encoded_in_order() -> None:
    encoder = FrameEncoder(FrameHeader(), length=0)
    with pytest.raises(StateError):
        encoder.feed(b"")
    with pytest.raises(StateError):
        encoder.finish()
    encoder.begin()
    with pytest.raises(StateError):
        encoder.begin()
    encoder.finish()
    with pytest.raises(StateError):
        encoder.finish()


def test_footers_are_unchanged_by_a_round_trip() -> None:
    for footer in (
        Footer(),
        Footer(kind=ChecksumKind.CRC32, value=7),
        Footer(kind=ChecksumKind.MD5, value="0" * 32),
    ):
        assert Footer.decode(footer.encode()) == footer
    assert Footer.decode(b"") == Footer()
