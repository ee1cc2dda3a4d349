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

import pyarrow as pa

from odps_nb.errors import FramingError, TruncatedError
from odps_nb.local import errors
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
    """Create a pack from a single upload's body, which becomes the pack itself if uncompressed."""
    with _unpacked(body, work, coding), work.open("rb", buffering=0) as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        return Piece(start=0, size=file.tell(), md5=md5.hexdigest())


def pack_batch(
    body: Path, work: Path, coding: Compression, *, keys: Sequence[str] = ()
) -> list[Piece]:
    """Create a pack from a batch upload's decoded body, and verify the footers of its frames.

    ``keys``: the columns that each frame's distribution key must have; empty if none is required.
    """
    with _unpacked(body, work, coding):
        return list(framed_blobs(work, keys=keys))


@contextmanager
def _unpacked(body: Path, work: Path, coding: Compression) -> Iterator[None]:
    """Decode a body into a work file; delete the file if an error occurs."""
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
    except BaseException:
        work.unlink(missing_ok=True)
        raise


# -- downloads --------------------------------------------------------------------------------


def download_body(
    blobs: Sequence[tuple[Path, Piece]], coding: Compression
) -> Generator[bytes | memoryview, None, None]:
    """Yield a blob download's body. ``blobs`` are pairs of a pack path and a blob in that pack."""
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
                raise errors.internal("the pack of a blob is too short")
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


def framed_blobs(path: Path, *, keys: Sequence[str] = ()) -> Iterator[Piece]:
    """Yield the blobs of a framed file in order, or raise `ProtocolError` if it is damaged."""
    memory = memoryview(bytearray(READ_BYTES))
    with path.open("rb", buffering=READ_BYTES) as file:
        end, index = os.fstat(file.fileno()).st_size, 0

        def require(size: int, what: str) -> None:
            at = file.tell()
            if at + size > end:
                raise TruncatedError(
                    f"the stream ends inside the {what} of frame {index}: "
                    f"{at + size - end} bytes are missing",
                    offset=end,
                    expected=size,
                    actual=end - at,
                )

        def number(what: str) -> int:
            require(LENGTH.size, what)
            return int(LENGTH.unpack(file.read(LENGTH.size))[0])

        def text(what: str) -> bytes:
            size = check_json_size(number(f"{what} length"), DEFAULT_MAX_HEADER, what, index)
            require(size, what)
            return file.read(size)

        while file.tell() < end:
            header = FrameHeader.of(parse_json_object(text("header"), "frame header"))
            if keys:
                _check_key(header.distribution_key, keys, index)
            size = check_data_size(number("data length"), MAX_BLOB, index)
            start = file.tell()
            require(size, "data")
            file.seek(start + size)
            footer = Footer.decode(text("footer"))
            after = file.tell()
            if footer.kind is not ChecksumKind.NONE:
                file.seek(start)
                checksum, left = RunningChecksum(footer.kind), size
                while left:
                    count = file.readinto(memory[: min(left, READ_BYTES)])  # type: ignore[attr-defined]
                    checksum.update(memory[:count])
                    left -= count
                checksum.check(footer, index)
                file.seek(after)
            yield Piece(
                start=start,
                size=size,
                content_type=header.content_type or "",
                file_name=header.custom_file_name or "",
            )
            index += 1


def _check_key(key: bytes | None, names: Sequence[str], index: int) -> None:
    """Raise unless a distribution key is an Arrow stream with one row of the key columns."""
    try:
        rows = None if key is None else pa.ipc.open_stream(key).read_all()
    except pa.ArrowInvalid as error:
        raise FramingError(f"DistributionKey of frame {index} is not an Arrow stream") from error
    if rows is None or rows.num_rows != 1 or set(rows.column_names) != set(names):
        raise FramingError(
            f"frame {index} needs a DistributionKey with one row of {', '.join(names)}"
        )
