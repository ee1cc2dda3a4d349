"""Decoded blob frames as values: events and records; and the size limits of a frame.

Tuples, not dataclasses: some are made per blob, however small, and making a frozen dataclass
takes longer than reading, checking and copying a blob of 512 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, NamedTuple

from odps_nb.terms import BlobReference, format_bytes
from odps_nb.wire._frame_parts import ChecksumKind

DEFAULT_MAX_HEADER = 1 << 20
"""Bytes of a header or footer JSON that are accepted."""
DEFAULT_MAX_BLOB = 1 << 40
"""Bytes of one blob that are accepted; a larger length counts as damage."""

LENGTH = Struct("<q")
"""Format (``struct``) of every length in a frame."""


class BlobRecord:
    """One whole blob. ``mime_type`` and ``custom_file_name`` are known from frames only.

    ``verified`` says that its checksums and its length were checked; it is false only for a single
    blob in a body of unknown length. ``reference`` is the blob reference it was fetched by, and
    ``request_id`` the service's id of the answer that brought it, where they are known.

    It unpacks, as the SDK's does, into ``data, mime_type``, and equals that pair if it has neither
    file name nor reference.
    """

    __slots__ = ("custom_file_name", "data", "mime_type", "reference", "request_id", "verified")

    def __init__(
        self,
        data: bytes,
        mime_type: str | None = None,
        custom_file_name: str | None = None,
        *,
        verified: bool = True,
        reference: BlobReference | None = None,
        request_id: str | None = None,
    ) -> None:
        self.data: bytes = data
        self.mime_type: str | None = mime_type
        self.custom_file_name: str | None = custom_file_name
        self.verified: bool = verified
        self.reference: BlobReference | None = reference
        self.request_id: str | None = request_id

    @property
    def file_name(self) -> str | None:
        """The same as ``custom_file_name``, under this package's own name for it."""
        return self.custom_file_name

    def __iter__(self) -> Iterator[Any]:
        return iter((self.data, self.mime_type))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: Any) -> Any:
        return (self.data, self.mime_type)[at]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BlobRecord):
            return self._all() == other._all()
        if isinstance(other, tuple):
            return self._all() == (*other, None, None)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def _all(self) -> tuple[bytes, str | None, str | None, BlobReference | None]:
        return self.data, self.mime_type, self.custom_file_name, self.reference

    def __repr__(self) -> str:
        return (
            f"BlobRecord(data=<{format_bytes(len(self.data))}>, mime_type={self.mime_type!r}, "
            f"custom_file_name={self.custom_file_name!r}, verified={self.verified})"
        )


class BlobStart(NamedTuple):
    """A blob begins; ``length`` (bytes) is ``None`` for a raw body, ``header`` its JSON."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which has no use here
    content_type: str | None
    custom_file_name: str | None
    length: int | None
    header: Mapping[str, Any]


class BlobData(NamedTuple):
    """Some bytes of the current blob, never empty; where they are cut has no meaning."""

    data: bytes

    def __repr__(self) -> str:
        return f"BlobData(data=<{format_bytes(len(self.data))}>)"


class BlobEnd(NamedTuple):
    """The current blob is complete; ``verified`` says whether its checksum was compared."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which has no use here
    length: int
    checksum_kind: ChecksumKind
    verified: bool


BlobEvent = BlobStart | BlobData | BlobEnd
