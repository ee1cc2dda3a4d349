"""Reads the blobs of a payload stream one at a time, framed or raw (face: pulls, on demand)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from odps_nb._stream_io.payload import PayloadStream
from odps_nb.errors import FramingError, TruncatedError
from odps_nb.wire.frames import (
    DEFAULT_MAX_BLOB,
    DEFAULT_MAX_HEADER,
    LENGTH,
    RETAINED_BYTES,
    ChecksumKind,
    Footer,
    FrameHeader,
    RunningChecksum,
    check_data_size,
    check_json_size,
    parse_json_object,
)

__all__ = ["BlobSource", "FrameSource", "RawSource"]


class BlobSource(ABC):
    """Base class: the current blob, and how many of its bytes are left.

    ``length`` and ``left`` are ``None`` while they are unknown, as for a raw blob.
    """

    def __init__(self, stream: PayloadStream, expected_count: int) -> None:
        self.stream = stream
        self.expected_count = expected_count
        self.index = -1
        self.header = FrameHeader()
        self.length: int | None = 0
        self.left: int | None = 0
        self.checksum_kind = ChecksumKind.NONE
        self.checksum_verified = False

    @abstractmethod
    def open_next(self) -> bool:
        """Go to the next blob; the current one must be at its end. ``False`` after the last."""

    @abstractmethod
    def take(self, size: int) -> bytes:
        """Return ``size`` bytes of the blob, fewer only at its end; the rest when negative."""

    @abstractmethod
    def take_into(self, target: memoryview) -> int:
        """Fill ``target`` with the blob, unless it ends; return the number of bytes."""


class RawSource(BlobSource):
    """A body that is one blob, whose length is known only at its end."""

    def __init__(self, stream: PayloadStream, *, max_blob: int = DEFAULT_MAX_BLOB) -> None:
        super().__init__(stream, 1)
        self._max_blob = max_blob

    def open_next(self) -> bool:
        """Go to the only blob; ``False`` the second time."""
        self.index += 1
        self.length = self.left = None if self.index == 0 else 0
        return self.index == 0

    def take(self, size: int) -> bytes:
        """Return the next bytes; the blob ends with the stream."""
        if self.left == 0:
            return b""
        data = self.stream.read(size)
        self._check_end(ended=size < 0 or len(data) < size)
        return data

    def take_into(self, target: memoryview) -> int:
        """Fill ``target``; the blob ends with the stream."""
        if self.left == 0:
            return 0
        count = self.stream.readinto(target)
        self._check_end(ended=count < len(target))
        return count

    def _check_end(self, *, ended: bool) -> None:
        check_data_size(self.stream.tell(), self._max_blob, 0)
        if ended:
            self.length, self.left = self.stream.tell(), 0


class FrameSource(BlobSource):
    """Framed blobs; the footer is read and checked with the last byte of its blob."""

    def __init__(
        self,
        stream: PayloadStream,
        expected_count: int,
        *,
        max_header: int = DEFAULT_MAX_HEADER,
        max_blob: int = DEFAULT_MAX_BLOB,
        always_md5: bool = False,
    ) -> None:
        super().__init__(stream, expected_count)
        self._max_header, self._max_blob = max_header, max_blob
        self._with_md5 = always_md5
        self._checksum = RunningChecksum()

    def open_next(self) -> bool:
        """Read the next header; no byte may follow the last frame."""
        self.index += 1
        if self.index == self.expected_count:
            self.require_end()
            return False
        self.header = FrameHeader.of(parse_json_object(self._json("header"), "frame header"))
        size = self._length("data length")
        self.length = self.left = check_data_size(size, self._max_blob, self.index)
        self._checksum = RunningChecksum.of_download(size, with_md5=self._with_md5)
        self.checksum_verified = False
        if not size:
            self._finish()
        return True

    def require_end(self) -> None:
        """Raise unless the payload ends here."""
        if self.stream.read(1):
            raise FramingError(
                f"bytes follow the last of {self.expected_count} frames",
                offset=self.stream.tell() - 1,
            )

    def take(self, size: int) -> bytes:
        """Return the next bytes of the current blob, checking its footer with the last."""
        wanted = self.left or 0
        if 0 <= size < wanted:
            wanted = size
        if wanted <= RETAINED_BYTES:  # kept until the footer: no copy, for these are bytes
            data = self.stream.read(wanted)
            self._checksum.update(data)
        else:
            data = self.stream.read_watched(wanted, self._checksum.update)
        self._account(len(data), wanted)
        return data

    def take_into(self, target: memoryview) -> int:
        """Fill ``target`` from the current blob, checking its footer with the last byte."""
        target = target[: self.left]
        count = self.stream.readinto(target)
        self._checksum.update(target[:count])
        self._account(count, len(target))
        return count

    def _account(self, taken: int, wanted: int) -> None:
        if taken < wanted:
            raise self._cut("data", self.left or 0, taken)
        if not wanted:
            return
        self.left = (self.left or 0) - wanted
        if not self.left:
            self._finish()

    def _finish(self) -> None:
        footer = Footer.decode(self._json("footer"))
        self.checksum_kind = footer.kind
        self.checksum_verified = self._checksum.check(footer, self.index)
        self._with_md5 = self._with_md5 or footer.kind is ChecksumKind.MD5

    def _json(self, what: str) -> bytes:
        size = self._length(f"{what} length")
        return self._exactly(check_json_size(size, self._max_header, what, self.index), what)

    def _length(self, what: str) -> int:
        size: int = LENGTH.unpack(self._exactly(LENGTH.size, what))[0]
        return size

    def _exactly(self, size: int, what: str) -> bytes:
        data = self.stream.read(size) if size else b""
        if len(data) < size:
            raise self._cut(what, size, len(data))
        return data

    def _cut(self, what: str, expected: int, actual: int) -> TruncatedError:
        if what == "header length" and not actual:
            return TruncatedError(
                f"the stream ends after {self.index} of {self.expected_count} frames",
                offset=self.stream.tell(),
                expected=self.expected_count,
                actual=self.index,
            )
        return TruncatedError(
            f"the stream ends inside the {what} of frame {self.index}: "
            f"{expected - actual} bytes are missing",
            offset=self.stream.tell(),
            expected=expected,
            actual=actual,
        )
