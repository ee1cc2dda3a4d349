"""What blob frames become: events, records, and the limits of their sizes (floor 1).

Tuples, not dataclasses: some are made per blob, however small, and making a frozen dataclass
takes longer than reading, checking and copying a blob of 512 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple

from odps_nb.terms import format_bytes
from odps_nb.wire._frame_parts import ChecksumKind

__all__ = [
    "DEFAULT_MAX_BLOB",
    "DEFAULT_MAX_HEADER",
    "LENGTH",
    "BlobData",
    "BlobEnd",
    "BlobEvent",
    "BlobRecord",
    "BlobStart",
]

DEFAULT_MAX_HEADER = 1 << 20
"""Bytes of a header or footer JSON that are accepted."""
DEFAULT_MAX_BLOB = 1 << 40
"""Bytes of one blob that are accepted; a larger length is taken for damage."""

LENGTH = Struct("<q")
"""Spelling of every length of a frame."""


class BlobRecord(NamedTuple):
    """One whole blob. ``mime_type`` and ``custom_file_name`` are known from frames only."""

    data: bytes
    mime_type: str | None = None
    custom_file_name: str | None = None

    def __repr__(self) -> str:
        return (
            f"BlobRecord(data=<{format_bytes(len(self.data))}>, mime_type={self.mime_type!r}, "
            f"custom_file_name={self.custom_file_name!r})"
        )


class BlobStart(NamedTuple):
    """A blob begins; ``length`` (bytes) is ``None`` for a raw body, ``header`` its JSON."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which has no use here
    content_type: str | None
    custom_file_name: str | None
    length: int | None
    header: Mapping[str, Any]


class BlobData(NamedTuple):
    """Some bytes of the current blob, never empty; how they are cut means nothing."""

    data: bytes

    def __repr__(self) -> str:
        return f"BlobData(data=<{format_bytes(len(self.data))}>)"


class BlobEnd(NamedTuple):
    """The current blob is whole; ``verified`` says whether a checksum of its footer was."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which has no use here
    length: int
    checksum_kind: ChecksumKind
    verified: bool


BlobEvent = BlobStart | BlobData | BlobEnd
