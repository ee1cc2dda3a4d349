"""Fast path for many small blobs: decodes a buffer's complete frames in one tight loop.

It never raises an error: it stops at the first frame that is incomplete, unusual or invalid, and
`FrameDecoder` decodes that frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from odps_nb.errors import FramingError
from odps_nb.wire._frame_parts import (
    DEFAULT_MAX_BLOB,
    DEFAULT_MAX_HEADER,
    LENGTH,
    BlobRecord,
    ChecksumKind,
    FrameHeader,
    parse_json_object,
)
from odps_nb.wire.crc32 import crc32

_KNOWN_HEADERS = 256  # maximum headers to cache; most blobs in a column have the same header
_CRC32_FOOTERS = (
    b'{"Checksum":{"Type":1,"Crc32":%d}}',
    b'{"Checksum": {"Type": 1, "Crc32": %d}}',
)
_FOOTERS_WITHOUT_CHECKSUM = frozenset(
    (b"", b"{}", b'{"Checksum":{"Type":0}}', b'{"Checksum": {"Type": 0}}')
)

_Known = tuple[str | None, str | None, Mapping[str, Any]]  # content type, file name, header JSON
Seen = tuple[Mapping[str, Any], ChecksumKind]


class FrameScanner:
    """Decoder of the complete frames at the start of a buffer.

    Returns records of complete frames whose checksums match, and stops before the first frame that
    is incomplete, unusual or invalid. `FrameDecoder` then decodes that frame step by step and
    raises any error.
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
        """Return at most ``limit`` records from offset ``at``, and the offset of the next frame.

        Each record's header JSON and checksum kind are appended to ``seen``.
        """
        # For 512-byte blobs, each line of this loop takes a tenth of the total time. So a header
        # equal to the previous one is not parsed again, and the expected footer is compared as
        # bytes.
        records: list[BlobRecord] = []
        end, unpack, new, starts = len(buffer), LENGTH.unpack_from, BlobRecord, buffer.startswith
        max_blob, template, kind = self._max_blob, self._template, ChecksumKind.CRC32
        head, head_size = b"\xff" * LENGTH.size, end + 1  # no header yet; this size never matches
        mime_type = file_name = header = None
        while len(records) < limit:
            if not starts(head, at):
                head = self._next_head(buffer, at)
                known = self._known(head)
                if known is None:
                    break
                mime_type, file_name, header = known
                head_size = len(head) + 8
            data_at = at + head_size
            if data_at > end:
                break
            (size,) = unpack(buffer, data_at - 8)
            footer_at = data_at + size + 8
            if not 0 <= size <= max_blob or footer_at > end:
                break
            data = buffer[data_at : footer_at - 8]
            (size,) = unpack(buffer, footer_at - 8)
            footer = template % crc32(data)
            if size == len(footer) and starts(footer, footer_at):
                kind, at = ChecksumKind.CRC32, footer_at + size
            else:
                found = self._other_footer(buffer, footer_at, size, data)
                if found is None:
                    break
                kind, at, template = found, footer_at + size, self._template
            records.append(new(data, mime_type, file_name))
            if seen is not None and header is not None:
                seen.append((header, kind))
        return records, at

    def _next_head(self, buffer: bytes, at: int) -> bytes:
        """Return the length and JSON of the header at ``at``; empty if the header is incomplete."""
        if at + LENGTH.size > len(buffer):
            return b""
        (size,) = LENGTH.unpack_from(buffer, at)
        stop = at + LENGTH.size + size
        return buffer[at:stop] if 0 <= size <= self._max_header and stop <= len(buffer) else b""

    def _known(self, head: bytes) -> _Known | None:
        known = self._headers.get(head)
        if known is None and head:
            try:
                fields = parse_json_object(head[LENGTH.size :], "frame header")
                parsed = FrameHeader.of(fields)
            except FramingError:
                return None
            known = parsed.content_type, parsed.custom_file_name, MappingProxyType(fields)
            if len(self._headers) < _KNOWN_HEADERS:
                self._headers[head] = known
        return known

    def _other_footer(self, buffer: bytes, at: int, size: int, data: bytes) -> ChecksumKind | None:
        footer = buffer[at : at + max(size, 0)]
        if len(footer) != size:
            return None
        if footer in _FOOTERS_WITHOUT_CHECKSUM:
            return ChecksumKind.NONE
        for template in _CRC32_FOOTERS:
            if footer == template % crc32(data):
                self._template = template
                return ChecksumKind.CRC32
        return None
