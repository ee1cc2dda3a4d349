"""Decodes bodies of blob uploads and encodes those of downloads: codings, frames, CRC blocks.

Works on files and bytes; ``blobs`` manages references.
``docs/protocol.md`` sections 6.1 to 6.4.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from odps_nb.errors import ProtocolError, TruncatedError
from odps_nb.local import faults
from odps_nb.terms import Compression
from odps_nb.wire.blocks import BlockEncoder
from odps_nb.wire.codings import decoder, encoder
from odps_nb.wire.frames import (
    DEFAULT_MAX_HEADER,
    LENGTH,
    ChecksumKind,
    Footer,
    FrameEncoder,
    FrameHeader,
    RunningChecksum,
    check_data_size,
    check_json_size,
    parse_json_object,
)

READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One blob inside a pack: position, size, media type and name; MD5 of one sent alone."""

    start: int
    size: int
    md5: str = ""
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
    """Make a pack of the frames of a batch upload, in their order; verifies the footers.

    The pack is the body itself, undone of its coding: blobs lie in it between their headers.
    """
    try:
        if coding is Compression.NONE:
            body.replace(work)
        else:
            with body.open("rb") as source, work.open("wb") as target:
                for chunk in _decoded(source, coding):
                    target.write(chunk)
        return [_piece(blob) for blob in framed_blobs(work)]
    except ProtocolError as error:
        work.unlink(missing_ok=True)
        raise faults.malformed(f"the frames cannot be read: {error}") from error


def _piece(blob: FramedBlob) -> Piece:
    return Piece(
        start=blob.start,
        size=blob.size,
        content_type=blob.header.content_type or "",
        file_name=blob.header.custom_file_name or "",
    )


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
    with path.open("rb", buffering=0) as file:
        md5 = hashlib.file_digest(file, _md5)
        return Piece(start=0, size=file.tell(), md5=md5.hexdigest())


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


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


MAX_BLOB = 1 << 34
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedBlob:
    """The data of one frame: its place in the file, in bytes, its header and its footer."""

    start: int
    size: int
    header: FrameHeader
    footer: Footer


def framed_blobs(path: Path) -> Iterator[FramedBlob]:
    """Yield the blobs of a file that holds frames and nothing else, in their order.

    Raises
    ------
    TruncatedError
        The file ends inside a frame.
    FramingError, LimitExceededError
        It holds something else than frames, or a length that no frame has.
    ChecksumError
        The data is not what the footer says.
    """
    memory = memoryview(bytearray(_READ_BYTES))
    with path.open("rb", buffering=_READ_BYTES) as opened:
        file = _File(opened, os.fstat(opened.fileno()).st_size)
        while not file.at_end():
            yield file.frame(memory)


class _File:
    """A file of frames that is read from its beginning on."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._index = 0

    def at_end(self) -> bool:
        return self._file.tell() == self._size

    def frame(self, memory: memoryview) -> FramedBlob:
        """Read and check the next frame."""
        header = FrameHeader.of(parse_json_object(self._json("header"), "frame header"))
        size = check_data_size(self._number("data length"), MAX_BLOB, self._index)
        start = self._file.tell()
        self._require(size, "data")
        self._file.seek(start + size)
        footer = Footer.decode(self._json("footer"))
        end = self._file.tell()
        if footer.kind is not ChecksumKind.NONE:
            self._file.seek(start)
            self._check(size, footer, memory)
            self._file.seek(end)
        self._index += 1
        return FramedBlob(start=start, size=size, header=header, footer=footer)

    def _check(self, size: int, footer: Footer, memory: memoryview) -> None:
        checksum = RunningChecksum(footer.kind)
        while size:
            count = self._file.readinto(memory[: min(size, len(memory))])  # type: ignore[attr-defined]
            checksum.update(memory[:count])
            size -= count
        checksum.check(footer, self._index)

    def _json(self, what: str) -> bytes:
        number = self._number(f"{what} length")
        return self._read(check_json_size(number, DEFAULT_MAX_HEADER, what, self._index), what)

    def _number(self, what: str) -> int:
        (number,) = LENGTH.unpack(self._read(LENGTH.size, what))
        return int(number)

    def _read(self, size: int, what: str) -> bytes:
        self._require(size, what)
        return self._file.read(size)

    def _require(self, size: int, what: str) -> None:
        at = self._file.tell()
        if at + size > self._size:
            raise TruncatedError(
                f"the stream ends inside the {what} of frame {self._index}: "
                f"{at + size - self._size} bytes are missing",
                offset=self._size,
                expected=size,
                actual=self._size - at,
            )
