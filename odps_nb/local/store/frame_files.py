"""Finds the blobs in a file of frames, and holds each against its footer.

The file is read where it lies, so that it can become a pack as it is: nothing is copied out of it.
The footer is read before the data, because it says which checksum there is to compute: one and
no other (MD5 takes ten times as long as CRC-32). ``docs/protocol.md`` section 6.2.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odps_nb.errors import TruncatedError
from odps_nb.wire.frames import (
    DEFAULT_MAX_HEADER,
    LENGTH,
    ChecksumKind,
    Footer,
    FrameHeader,
    RunningChecksum,
    check_data_size,
    check_json_size,
    parse_json_object,
)

__all__ = ["MAX_BLOB", "FramedBlob", "framed_blobs"]

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
