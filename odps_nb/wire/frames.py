"""Encodes blob frames, and decodes them to events (``docs/protocol.md`` sections 6.2, 6.4).

::

    | i64 LE | header JSON | i64 LE | data | i64 LE | footer JSON |   next frame …

The body for a single requested blob is raw; for none or several blobs it is framed. Only the number
of requested blobs reveals that a body was truncated at a frame boundary.
"""

# ruff: noqa: F401
# mypy: implicit-reexport

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from odps_nb.errors import FramingError, OversizeError, StateError, TruncatedError
from odps_nb.wire._frame_parts import (
    DEFAULT_MAX_BLOB,
    DEFAULT_MAX_HEADER,
    LENGTH,
    RETAINED_BYTES,
    BlobData,
    BlobEnd,
    BlobEvent,
    BlobRecord,
    BlobStart,
    ChecksumKind,
    Footer,
    FrameHeader,
    RunningChecksum,
    check_data_size,
    check_json_size,
    parse_json_object,
)
from odps_nb.wire._frame_scanner import FrameScanner, Seen
from odps_nb.wire._push import BytesLike, PushDecoder


class _Part(Enum):
    HEADER_LENGTH = "header length"
    HEADER = "header"
    DATA_LENGTH = "data length"
    DATA = "data"
    FOOTER_LENGTH = "footer length"
    FOOTER = "footer"


class RawDecoder(PushDecoder[list[BlobEvent]]):
    """Decoder that converts a raw body (one blob, for a single reference) to events."""

    __slots__ = ("_length", "_max_blob", "_started")

    def __init__(self, *, max_blob: int = DEFAULT_MAX_BLOB) -> None:
        super().__init__()
        self._length = 0
        self._max_blob = max_blob
        self._started = False

    def _feed(self, chunk: BytesLike) -> list[BlobEvent]:
        events: list[BlobEvent] = []
        if not self._started:
            self._started = True
            events.append(
                BlobStart(index=0, content_type=None, custom_file_name=None, length=None, header={})
            )
        if chunk:
            self._length += len(chunk)
            check_data_size(self._length, self._max_blob, 0)
            events.append(BlobData(data=bytes(chunk)))
        return events

    def _feed_eof(self) -> list[BlobEvent]:
        end = BlobEnd(index=0, length=self._length, checksum_kind=ChecksumKind.NONE, verified=False)
        return [*self._feed(b""), end]


class FrameDecoder(PushDecoder[list[BlobEvent]]):
    """Decoder that converts frames to events.

    ``expected_count``: number of frames that the body must have; ``None`` for any number, as in an
    upload, whose number of frames the server does not know. With ``None``, the transport must
    detect truncation at a frame boundary. ``max_header``: maximum bytes of a header's or footer's
    JSON. ``max_blob``: maximum bytes of one blob.

    An MD5 footer of a blob over 8 MiB is checked only if an earlier footer in the stream was MD5;
    see `BlobEnd.verified`.
    """

    def __init__(
        self,
        expected_count: int | None,
        *,
        max_header: int = DEFAULT_MAX_HEADER,
        max_blob: int = DEFAULT_MAX_BLOB,
    ) -> None:
        super().__init__()
        if expected_count is not None and expected_count < 0:
            raise ValueError(
                f"expected_count is {expected_count}; the number of frames must be at least 0"
            )
        self._expected_count = expected_count
        self._max_header, self._max_blob = max_header, max_blob
        self._with_md5 = False
        self._scanner = FrameScanner(max_header=max_header, max_blob=max_blob)
        self._index = 0
        self._offset = 0  # position of the next byte, for errors
        self._part = _Part.HEADER_LENGTH
        self._wanted = LENGTH.size
        self._held = bytearray()
        self._header: Mapping[str, Any] = {}
        self._length = 0
        self._checksum = RunningChecksum()

    @property
    def wanted(self) -> int:
        """Number of bytes missing from the current length, header, data or footer."""
        return self._wanted - len(self._held)

    def feed_data(self, piece: BytesLike) -> None:
        """Add at most `wanted` bytes of the current blob's data without creating an event."""
        self._checksum.update(piece)
        self._wanted -= len(piece)
        self._offset += len(piece)
        if not self._wanted:
            self._expect(_Part.FOOTER_LENGTH, LENGTH.size)

    def scan(
        self, buffer: bytes, at: int, seen: list[Seen] | None = None, *, leave: int = 0
    ) -> tuple[list[BlobRecord], int]:
        """Decode the complete frames in ``buffer`` from ``at``, except the last ``leave`` frames.

        Call it only between two frames. Returns the records and the offset of the next frame.
        """
        expected = sys.maxsize if self._expected_count is None else self._expected_count
        records, stop = self._scanner.scan(buffer, at, expected - self._index - leave, seen)
        self._index += len(records)
        self._offset += stop - at
        return records, stop

    def _feed(self, chunk: BytesLike) -> list[BlobEvent]:
        data = bytes(chunk)
        events: list[BlobEvent] = []
        at = 0
        try:
            at += self._take_whole(data, at, events)
            while at < len(data) or not self._wanted:
                piece = data[at : at + self.wanted]
                if self._part is _Part.DATA:
                    self.feed_data(piece)
                    if piece:
                        events.append(BlobData(data=piece))
                else:
                    self._take_part(piece, events)
                    self._offset += len(piece)
                at += len(piece)
                at += self._take_whole(data, at, events)
        except (FramingError, OversizeError) as error:
            error.offset = self._offset
            raise
        return events

    def _take_whole(self, data: bytes, at: int, events: list[BlobEvent]) -> int:
        """Decode the complete frames in ``data``; return their total size."""
        if self._part is not _Part.HEADER_LENGTH or self._held:
            return 0
        seen: list[Seen] = []
        first = self._index
        records, stop = self.scan(data, at, seen)
        for index, (record, (header, kind)) in enumerate(zip(records, seen, strict=True), first):
            blob, size = record.data, len(record.data)
            events.append(BlobStart(index, record.mime_type, record.custom_file_name, size, header))
            if blob:
                events.append(BlobData(blob))
            events.append(BlobEnd(index, size, kind, kind is not ChecksumKind.NONE))
        return stop - at

    def _take_part(self, piece: bytes, events: list[BlobEvent]) -> None:
        if self._part is _Part.HEADER_LENGTH and self._index == self._expected_count:
            raise FramingError(f"bytes follow the last of {self._expected_count} frames")
        self._held += piece
        if len(self._held) < self._wanted:
            return
        part, self._held = bytes(self._held), bytearray()
        match self._part:
            case _Part.HEADER_LENGTH:
                self._expect(_Part.HEADER, self._json_length(part))
            case _Part.HEADER:
                self._header = MappingProxyType(parse_json_object(part, "frame header"))
                self._expect(_Part.DATA_LENGTH, LENGTH.size)
            case _Part.DATA_LENGTH:
                self._start(LENGTH.unpack(part)[0], events)
            case _Part.FOOTER_LENGTH:
                self._expect(_Part.FOOTER, self._json_length(part))
            case _:
                self._end(Footer.decode(part), events)

    def _expect(self, part: _Part, wanted: int) -> None:
        self._part, self._wanted = part, wanted

    def _json_length(self, part: bytes) -> int:
        what = "header" if self._part is _Part.HEADER_LENGTH else "footer"
        return check_json_size(LENGTH.unpack(part)[0], self._max_header, what, self._index)

    def _start(self, length: int, events: list[BlobEvent]) -> None:
        check_data_size(length, self._max_blob, self._index)
        known = FrameHeader.of(self._header)
        self._length = length
        self._checksum = RunningChecksum.of_download(length, with_md5=self._with_md5)
        events.append(
            BlobStart(
                index=self._index,
                content_type=known.content_type,
                custom_file_name=known.custom_file_name,
                length=length,
                header=self._header,
            )
        )
        self._expect(_Part.DATA, length)

    def _end(self, footer: Footer, events: list[BlobEvent]) -> None:
        verified = self._checksum.check(footer, self._index)
        self._with_md5 = self._with_md5 or footer.kind is ChecksumKind.MD5
        events.append(
            BlobEnd(
                index=self._index,
                length=self._length,
                checksum_kind=footer.kind,
                verified=verified,
            )
        )
        self._index += 1
        self._expect(_Part.HEADER_LENGTH, LENGTH.size)

    def _feed_eof(self) -> list[BlobEvent]:
        if self._part is not _Part.HEADER_LENGTH or self._held:
            missing = self._wanted - len(self._held)
            raise TruncatedError(
                f"the stream ends inside the {self._part.value} of frame {self._index}: "
                f"{missing} bytes are missing",
                offset=self._offset,
                expected=self._wanted,
                actual=len(self._held),
            )
        if self._expected_count is not None and self._index < self._expected_count:
            raise TruncatedError(
                f"the stream ends after {self._index} of {self._expected_count} frames",
                offset=self._offset,
                expected=self._expected_count,
                actual=self._index,
            )
        return []


class FrameEncoder:
    """Encoder of one frame, with an incremental checksum; chunks of data may end anywhere."""

    def __init__(
        self,
        header: FrameHeader,
        *,
        length: int,
        checksum: ChecksumKind = ChecksumKind.CRC32,
    ) -> None:
        if length < 0:
            raise ValueError(f"length is {length}; it must be at least 0")
        self._header, self._length, self._kind = header, length, checksum
        self._left = length
        self._checksum = RunningChecksum(checksum)
        self._state = "new"

    def begin(self) -> bytes:
        """Begin the frame: return the header and the data length."""
        self._move("new", "open")
        header = self._header.encode()
        return LENGTH.pack(len(header)) + header + LENGTH.pack(self._length)

    def feed(self, chunk: BytesLike) -> bytes:
        """Add the next chunk of data; return the bytes to send."""
        self._move("open", "open")
        self._left -= len(chunk)
        if self._left < 0:
            self._state = "closed"
            raise FramingError(
                f"the source has more than the announced {self._length} bytes",
                hint="pass the correct size, or the whole content",
            )
        piece = bytes(chunk)
        self._checksum.update(piece)
        return piece

    def finish(self) -> bytes:
        """End the frame; return its footer."""
        self._move("open", "closed")
        if self._left:
            raise FramingError(
                f"the source has only {self._length - self._left} of the announced "
                f"{self._length} bytes",
                hint="pass the correct size, or the whole content",
            )
        footer = self._checksum.footer(self._kind).encode()
        return LENGTH.pack(len(footer)) + footer

    def _move(self, source: str, target: str) -> None:
        if self._state != source:
            raise StateError(f"call begin, feed and finish in order; the frame is {self._state}")
        self._state = target


def encode_frame(
    data: BytesLike,
    header: FrameHeader | None = None,
    *,
    checksum: ChecksumKind = ChecksumKind.CRC32,
) -> bytes:
    """Return one complete frame."""
    encoder = FrameEncoder(header or FrameHeader(), length=len(data), checksum=checksum)
    return b"".join((encoder.begin(), encoder.feed(data), encoder.finish()))
