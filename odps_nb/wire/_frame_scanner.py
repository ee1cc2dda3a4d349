"""The way for many small blobs: whole frames out of a buffer in one tight loop (floor 1).

Never judges: where a frame is cut, odd or wrong it stops, and `FrameDecoder` takes that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from odps_nb.errors import FramingError
from odps_nb.wire._frame_events import (
    DEFAULT_MAX_BLOB,
    DEFAULT_MAX_HEADER,
    LENGTH,
    BlobRecord,
)
from odps_nb.wire._frame_parts import ChecksumKind, FrameHeader, parse_json_object
from odps_nb.wire.crc32 import crc32

__all__ = ["FrameScanner", "Seen"]

_KNOWN_HEADERS = 256  # headers repeat: most blobs of a column have the same type and no name
_CRC32_FOOTERS = (
    b'{"Checksum":{"Type":1,"Crc32":%d}}',
    b'{"Checksum": {"Type": 1, "Crc32": %d}}',
)
_FOOTERS_WITHOUT_CHECKSUM = frozenset(
    (b"", b"{}", b'{"Checksum":{"Type":0}}', b'{"Checksum": {"Type": 0}}')
)

Names = tuple[str | None, str | None]
_Known = tuple[Names, Mapping[str, Any]]
Seen = tuple[Mapping[str, Any], ChecksumKind]


class FrameScanner:
    """Take whole frames out of a buffer in one tight loop: the way for many small blobs.

    Gives records of frames that lie whole in the buffer and prove right; stops in front of the
    first that is cut, odd or wrong, for `FrameDecoder` to take it step by step and, where
    something is wrong, to say what.
    """

    __slots__ = ("_headers", "_max_blob", "_max_header", "_template")

    def __init__(
        self, *, max_header: int = DEFAULT_MAX_HEADER, max_blob: int = DEFAULT_MAX_BLOB
    ) -> None:
        self._max_header, self._max_blob = max_header, max_blob
        self._headers: dict[bytes, _Known] = {}
        self._template = _CRC32_FOOTERS[0]

    def scan(
        self, buffer: bytes, at: int, limit: int, seen: list[Seen] | None = None
    ) -> tuple[list[BlobRecord], int]:
        """Return at most ``limit`` records that begin at ``at``, and where the next would.

        What the records do not say, header JSON and kind of checksum, is added to ``seen``.
        """
        records: list[BlobRecord] = []
        end, unpack, new = len(buffer), LENGTH.unpack_from, tuple.__new__
        while len(records) < limit and at + 8 <= end:
            (size,) = unpack(buffer, at)
            data_at = at + 16 + size
            if not 0 <= size <= self._max_header or data_at > end:
                break
            header = buffer[at + 8 : data_at - 8]
            known = self._headers.get(header) or self._parse(header)
            (size,) = unpack(buffer, data_at - 8)
            footer_at = data_at + size + 8
            if known is None or not 0 <= size <= self._max_blob or footer_at > end:
                break
            (size,) = unpack(buffer, footer_at - 8)
            stop = footer_at + size
            if not 0 <= size <= self._max_header or stop > end:
                break
            data = buffer[data_at : footer_at - 8]
            kind = self._prove(buffer[footer_at:stop], data)
            if kind is None:
                break
            records.append(new(BlobRecord, (data, *known[0])))
            if seen is not None:
                seen.append((known[1], kind))
            at = stop
        return records, at

    def _parse(self, header: bytes) -> _Known | None:
        try:
            fields = parse_json_object(header, "frame header")
            parsed = FrameHeader.of(fields)
        except FramingError:
            return None
        known = (parsed.content_type, parsed.custom_file_name), MappingProxyType(fields)
        if len(self._headers) < _KNOWN_HEADERS:
            self._headers[header] = known
        return known

    def _prove(self, footer: bytes, data: bytes) -> ChecksumKind | None:
        # Spelling the footer that the data should have is faster than parsing the one it has.
        if footer in _FOOTERS_WITHOUT_CHECKSUM:
            return ChecksumKind.NONE
        crc = crc32(data)
        if footer == self._template % crc:
            return ChecksumKind.CRC32
        for template in _CRC32_FOOTERS:
            if footer == template % crc:
                self._template = template
                return ChecksumKind.CRC32
        return None
