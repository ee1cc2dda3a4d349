"""Decodes bodies of blob uploads and encodes those of downloads: codings, frames, CRC blocks.

Works on files and bytes; ``blobs`` manages references.
``docs/protocol.md`` sections 6.1 to 6.4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odps_nb.errors import ProtocolError
from odps_nb.local import faults
from odps_nb.terms import Compression
from odps_nb.wire.blocks import BlockEncoder
from odps_nb.wire.codings import decoder, encoder
from odps_nb.wire.crc32 import crc32
from odps_nb.wire.frames import (
    BlobData,
    BlobEnd,
    BlobStart,
    ChecksumKind,
    FrameDecoder,
    FrameEncoder,
    FrameHeader,
)

__all__ = ["Piece", "Stretch", "download_body", "pack_batch", "pack_bytes", "pack_single"]

READ_BYTES = 1 << 20
MAX_BLOB = 1 << 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One blob inside a pack: its position, size, checksums, media type and name."""

    start: int
    size: int
    md5: str
    crc32: int
    content_type: str = ""
    file_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The position of a blob's bytes in a pack, for a download."""

    pack: Path
    start: int
    size: int
    content_type: str = ""
    file_name: str = ""


# -- uploads ----------------------------------------------------------------------------------


def pack_single(body: Path, work: Path, coding: Compression) -> Piece:
    """Make a pack of the body of a single upload; without a coding the file itself is used."""
    if coding is Compression.NONE:
        body.replace(work)
        return _measure(work)
    try:
        with body.open("rb") as source, work.open("wb") as target:
            for chunk in _decoded(source, coding):
                target.write(chunk)
    except ProtocolError as error:
        work.unlink(missing_ok=True)
        raise faults.malformed(f"the body cannot be decoded: {error}") from error
    return _measure(work)


def pack_batch(body: Path, work: Path, coding: Compression) -> list[Piece]:
    """Make a pack of the blobs of a batch upload, in frame order; verifies the footers."""
    try:
        with body.open("rb") as source, work.open("wb") as target:
            return list(_unframe(_decoded(source, coding), target))
    except ProtocolError as error:
        work.unlink(missing_ok=True)
        raise faults.malformed(f"the frames cannot be read: {error}") from error


def pack_bytes(blobs: Iterable[tuple[bytes, str, str]], work: Path) -> list[Piece]:
    """Make a pack of blobs in memory, given as (data, content type, file name)."""
    pieces, start = [], 0
    with work.open("wb") as target:
        for data, content_type, file_name in blobs:
            target.write(data)
            pieces.append(
                Piece(
                    start=start,
                    size=len(data),
                    md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
                    crc32=crc32(data),
                    content_type=content_type,
                    file_name=file_name,
                )
            )
            start += len(data)
    return pieces


def _decoded(source: BinaryIO, coding: Compression) -> Iterator[bytes]:
    undo = decoder(coding, max_output=MAX_BLOB)
    while chunk := source.read(READ_BYTES):
        if ready := undo.feed(chunk):
            yield ready
    if last := undo.feed_eof():
        yield last


def _measure(path: Path) -> Piece:
    md5, check, size = hashlib.md5(usedforsecurity=False), 0, 0
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            md5.update(chunk)
            check = crc32(chunk, check)
            size += len(chunk)
    return Piece(start=0, size=size, md5=md5.hexdigest(), crc32=check)


def _unframe(chunks: Iterator[bytes], target: BinaryIO) -> Iterator[Piece]:
    """Write the data of frames one after the other; yield the position of each."""
    frames = FrameDecoder(None, max_blob=MAX_BLOB, always_md5=True)
    start, check, offset = None, 0, 0
    md5 = hashlib.md5(usedforsecurity=False)

    def take(events: Iterable[object]) -> Iterator[Piece]:
        nonlocal start, check, offset, md5
        for event in events:
            if isinstance(event, BlobStart):
                start, check = event, 0
                md5 = hashlib.md5(usedforsecurity=False)
            elif isinstance(event, BlobData):
                target.write(event.data)
                md5.update(event.data)
                check = crc32(event.data, check)
            elif isinstance(event, BlobEnd):
                assert start is not None
                yield Piece(
                    start=offset,
                    size=event.length,
                    md5=md5.hexdigest(),
                    crc32=check,
                    content_type=start.content_type or "",
                    file_name=start.custom_file_name or "",
                )
                offset += event.length

    for chunk in chunks:
        yield from take(frames.feed(chunk))
    yield from take(frames.feed_eof())


# -- downloads --------------------------------------------------------------------------------


def download_body(
    blobs: Sequence[Stretch], coding: Compression
) -> Generator[bytes | memoryview, None, None]:
    """Yield the body of a download: payload, compressed if requested, in CRC blocks.

    One blob is raw, none or several are framed (``docs/protocol.md`` section 6.4).
    """
    blocks = BlockEncoder()
    payload = _raw(blobs[0]) if len(blobs) == 1 else _framed(blobs)
    if coding is not Compression.NONE:
        payload = _encoded(payload, coding)
    for chunk in payload:
        if ready := blocks.feed(chunk):
            yield ready
    if last := blocks.finish():
        yield last


def _raw(blob: Stretch) -> Iterator[bytes]:
    with blob.pack.open("rb") as pack:
        pack.seek(blob.start)
        left = blob.size
        while left:
            chunk = pack.read(min(left, READ_BYTES))
            if not chunk:
                raise faults.internal("the pack of a blob is too short")
            left -= len(chunk)
            yield chunk


def _framed(blobs: Sequence[Stretch]) -> Iterator[bytes]:
    held, size = [], 0
    for blob in blobs:
        frame = FrameEncoder(
            FrameHeader(content_type=blob.content_type, custom_file_name=blob.file_name or None),
            length=blob.size,
            checksum=ChecksumKind.CRC32,
        )
        for part in _frame(frame, _raw(blob)):
            held.append(part)
            size += len(part)
            if size >= READ_BYTES:
                yield b"".join(held)
                held, size = [], 0
    yield b"".join(held)


def _frame(frame: FrameEncoder, data: Iterator[bytes]) -> Iterator[bytes]:
    yield frame.begin()
    for chunk in data:
        yield frame.feed(chunk)
    yield frame.finish()


def _encoded(payload: Iterator[bytes], coding: Compression) -> Iterator[bytes]:
    coder = encoder(coding)
    for chunk in payload:
        if ready := coder.feed(chunk):
            yield ready
    yield coder.finish()
