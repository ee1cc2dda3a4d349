"""Decodes blob upload bodies and encodes blob download bodies.

See ``docs/protocol.md`` sections 6.1 to 6.4.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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
MAX_BLOB = 1 << 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One blob in a pack file: offset, size, media type, name, and MD5 if it was uploaded alone."""

    start: int
    size: int
    md5: str = ""
    content_type: str = ""
    file_name: str = ""


# -- uploads ----------------------------------------------------------------------------------


def pack_single(body: Path, work: Path, coding: Compression) -> Piece:
    """Create a pack from the body of a single upload. An uncompressed file is used unchanged."""
    with _unpacked(body, work, coding), work.open("rb", buffering=0) as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        return Piece(start=0, size=file.tell(), md5=md5.hexdigest())


def pack_batch(body: Path, work: Path, coding: Compression) -> list[Piece]:
    """Create a pack from a batch upload's decoded body, and verify the footers of its frames."""
    with _unpacked(body, work, coding):
        return [
            Piece(
                start=blob.start,
                size=blob.size,
                content_type=blob.header.content_type or "",
                file_name=blob.header.custom_file_name or "",
            )
            for blob in framed_blobs(work)
        ]


@contextmanager
def _unpacked(body: Path, work: Path, coding: Compression) -> Iterator[None]:
    """Decode a body into a work file. A `ProtocolError` deletes the file."""
    try:
        if coding is Compression.NONE:
            body.replace(work)
        else:
            undo = decoder(coding, max_output=MAX_BLOB)
            with body.open("rb") as source, work.open("wb") as target:
                while chunk := source.read(READ_BYTES):
                    target.write(undo.feed(chunk))
                target.write(undo.feed_eof())
        yield
    except ProtocolError as error:
        work.unlink(missing_ok=True)
        raise faults.malformed(f"the body cannot be decoded: {error}") from error


def pack_bytes(blobs: Iterable[tuple[bytes, str, str]], work: Path) -> list[Piece]:
    """Create a pack from in-memory blobs, each a tuple (data, content type, file name)."""
    pieces, start = [], 0
    with work.open("wb") as target:
        for data, content_type, file_name in blobs:
            target.write(data)
            facts = {"content_type": content_type, "file_name": file_name}
            pieces.append(Piece(start=start, size=len(data), **facts))
            start += len(data)
    return pieces


# -- downloads --------------------------------------------------------------------------------


def download_body(
    blobs: Sequence[tuple[Path, Piece]], coding: Compression
) -> Generator[bytes | memoryview, None, None]:
    """Yield a blob download's body. ``blobs`` are pairs: the path of a pack, and a blob in it."""
    blocks = BlockEncoder()
    payload: Iterator[bytes | memoryview]
    payload = _raw(*blobs[0]) if len(blobs) == 1 else _framed(blobs)
    if coding is not Compression.NONE:
        payload = encoded(payload, coding)
    for chunk in payload:
        if ready := blocks.feed(chunk):
            yield ready
    if last := blocks.finish():
        yield last


def _raw(path: Path, blob: Piece) -> Iterator[bytes]:
    with path.open("rb") as pack:
        pack.seek(blob.start)
        left = blob.size
        while left:
            chunk = pack.read(min(left, READ_BYTES))
            if not chunk:
                raise faults.internal("the pack of a blob is too short")
            left -= len(chunk)
            yield chunk


def _framed(blobs: Sequence[tuple[Path, Piece]]) -> Iterator[bytes]:
    held, size = [], 0
    for path, blob in blobs:
        frame = FrameEncoder(
            FrameHeader(content_type=blob.content_type, custom_file_name=blob.file_name or None),
            length=blob.size,
            checksum=ChecksumKind.CRC32,
        )
        for part in _frame(frame, _raw(path, blob)):
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


def encoded(
    chunks: Iterable[bytes | memoryview], coding: Compression
) -> Generator[bytes | memoryview, None, None]:
    """Yield a body compressed with a content coding."""
    coder = encoder(coding)
    for chunk in chunks:
        if ready := coder.feed(chunk):
            yield ready
    yield coder.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedBlob:
    """The blob in one frame: offset and size of its data in the file, its header and footer."""

    start: int
    size: int
    header: FrameHeader
    footer: Footer


def framed_blobs(path: Path) -> Iterator[FramedBlob]:
    """Yield the blobs of a framed file in order, or raise `ProtocolError` if it is damaged."""
    memory = memoryview(bytearray(READ_BYTES))
    with path.open("rb", buffering=READ_BYTES) as opened:
        file = _File(opened, os.fstat(opened.fileno()).st_size)
        while not file.at_end():
            yield file.frame(memory)


class _File:
    """Reads the frames of a file sequentially."""

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
