"""Shared parts of tests of blob frames."""

from collections.abc import Iterable
from struct import pack
from typing import Any

from hypothesis import strategies as st

from odps_nb.wire.frames import (
    BlobData,
    BlobEvent,
    ChecksumKind,
    FrameDecoder,
    FrameHeader,
    encode_frame,
)

UPLOAD = (
    bytes.fromhex("5300000000000000")
    + b'{"PartitionValues": ["ds=x", "h=1"], "ColumnIndex": 1, "ContentType": "text/plain"}'
    + bytes.fromhex("0b00000000000000")
    + b"hello world"
    + bytes.fromhex("2d00000000000000")
    + b'{"Checksum": {"Type": 1, "Crc32": 222957957}}'
)

HEADERS = st.builds(
    FrameHeader,
    partition_values=st.none() | st.just(("ds=x", "h=é")),
    column_index=st.none() | st.integers(-5, 1000),
    distribution_key=st.none() | st.binary(min_size=1, max_size=20),
    content_type=st.none() | st.text(min_size=1, max_size=20),
    custom_file_name=st.none() | st.text(min_size=1, max_size=20),
)

BLOBS = st.lists(
    st.tuples(st.binary(max_size=60), HEADERS, st.sampled_from(ChecksumKind)), max_size=4
)


def merged(events: Iterable[BlobEvent]) -> list[Any]:
    """Return the events with adjacent data joined, because its division does not matter."""
    out: list[Any] = []
    for event in events:
        if isinstance(event, BlobData) and out and isinstance(out[-1], BlobData):
            out[-1] = BlobData(data=out[-1].data + event.data)
        else:
            out.append(event)
    return out


def decode(count: int | None, *chunks: bytes, **limits: Any) -> list[Any]:
    decoder = FrameDecoder(count, **limits)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return merged(events + decoder.feed_eof())


def frame(header: bytes, data: bytes, footer: bytes) -> bytes:
    """Return a frame with any three parts, valid or not."""
    return b"".join(pack("<q", len(part)) + part for part in (header, data, footer))


def encode_all(blobs: list[tuple[bytes, FrameHeader, ChecksumKind]]) -> bytes:
    return b"".join(encode_frame(data, header, checksum=kind) for data, header, kind in blobs)
