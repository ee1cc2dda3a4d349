"""Blob frames in a file are located and checked; other bytes are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from odps_nb.errors import ChecksumError, FramingError, LimitExceededError, TruncatedError
from odps_nb.local.store.blob_bodies import framed_blobs
from odps_nb.wire.frames import ChecksumKind, FrameHeader, encode_frame

LARGE = bytes(range(256)) * 4 * 1100  # more than one read returns
NAMED = FrameHeader(content_type="image/png", custom_file_name="a.png", column_index=2)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "frames"


@pytest.mark.parametrize("kind", list(ChecksumKind))
def test_blobs_are_located_in_a_file(file: Path, kind: ChecksumKind) -> None:
    contents = [b"one", b"", LARGE, b"last"]
    body = b"".join(encode_frame(one, NAMED, checksum=kind) for one in contents)
    file.write_bytes(body)
    found = list(framed_blobs(file))
    assert [body[one.start : one.start + one.size] for one in found] == contents
    assert {(one.content_type, one.file_name) for one in found} == {("image/png", "a.png")}
    file.write_bytes(b"")
    assert list(framed_blobs(file)) == []


def test_any_truncation_is_detected(file: Path) -> None:
    whole = encode_frame(b"first", NAMED)
    body = whole + encode_frame(b"the second", NAMED, checksum=ChecksumKind.MD5)
    for end in range(len(whole) + 1, len(body)):
        file.write_bytes(body[:end])
        blobs = framed_blobs(file)
        assert next(blobs).size == 5
        with pytest.raises(TruncatedError):
            next(blobs)


@pytest.mark.parametrize("kind", [ChecksumKind.CRC32, ChecksumKind.MD5])
@pytest.mark.parametrize("data", [b"some data", LARGE])
def test_a_flipped_bit_raises_a_checksum_error(file: Path, kind: ChecksumKind, data: bytes) -> None:
    body = bytearray(encode_frame(data, NAMED, checksum=kind))
    body[body.index(data) + len(data) - 1] ^= 1
    file.write_bytes(body)
    with pytest.raises(ChecksumError):
        list(framed_blobs(file))


def test_invalid_frames_are_refused(file: Path) -> None:
    frame = encode_frame(b"data", NAMED)
    header = int.from_bytes(frame[:8], "little")
    for body, error in (
        (b"\xff" * 8 + frame[8:], FramingError),
        ((1 << 40).to_bytes(8, "little") + frame[8:], LimitExceededError),
        (frame[:8] + b"[" + frame[9:], FramingError),
        (frame[: 8 + header] + b"\xff" * 8 + frame[16 + header :], FramingError),
        (frame[: 8 + header] + (1 << 50).to_bytes(8, "little") + b"data", LimitExceededError),
        (frame.replace(b'"Type": 1', b'"Type": 7'), FramingError),
    ):
        file.write_bytes(body)
        with pytest.raises(error):
            list(framed_blobs(file))
