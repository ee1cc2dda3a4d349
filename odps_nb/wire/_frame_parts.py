"""Parts of a blob frame: header and footer JSON, running checksums, events and records.

``docs/protocol.md`` section 6.2. `odps_nb.wire.frames` assembles frames from these parts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Any, NamedTuple

from odps_nb.errors import ChecksumError, FramingError, OversizeError
from odps_nb.terms import BlobReference, format_bytes
from odps_nb.wire._push import BytesLike
from odps_nb.wire.crc32 import crc32
from odps_nb.wire.json_fields import Fields, load_object

RETAINED_BYTES = 8 << 20
"""Maximum bytes of a blob to keep until its footer states the checksum kind."""
DEFAULT_MAX_HEADER = 1 << 20
"""Maximum bytes of a header's or footer's JSON."""
DEFAULT_MAX_BLOB = 1 << 40
"""Maximum bytes of one blob; a larger length is treated as damage."""

LENGTH = Struct("<q")
"""``struct`` format of every length in a frame."""


class ChecksumKind(str, Enum):
    """The checksum kind in a frame's footer."""

    NONE = "none"
    CRC32 = "crc32"
    MD5 = "md5"


_KINDS = tuple(ChecksumKind)  # the index of a kind is the "Type" in footers


def parse_json_object(data: bytes, what: str) -> dict[str, Any]:
    """Parse UTF-8 ``data`` as a JSON object; empty ``data`` yields ``{}``."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise FramingError(f"{what} is not UTF-8") from None
    if text.startswith("\ufeff") or (text and not text.strip()):
        raise FramingError(f"{what} is not JSON")
    return load_object(data, what, FramingError)


def _any_text(fields: Mapping[str, Any], known: Fields, key: str) -> str | None:
    """Return a text member, even if it contains lone surrogates, as file names may."""
    value = fields.get(key)
    return (value or None) if isinstance(value, str) else known.optional_text(key)


def check_json_size(size: int, limit: int, what: str, index: int) -> int:
    """Return the length of a header or footer; raise unless it is between 0 and ``limit`` bytes."""
    name = f"the {what} of frame {index}"
    return _check_size(size, limit, name, name, "max_header")


def check_data_size(size: int, limit: int, index: int) -> int:
    """Return the length of a blob; raise unless it is between 0 and ``limit`` bytes."""
    return _check_size(size, limit, f"the data of frame {index}", f"blob {index}", "max_blob")


def _check_size(size: int, limit: int, part: str, name: str, option: str) -> int:
    if size < 0:
        raise FramingError(f"{part} has the negative length {size}")
    if size > limit:
        raise OversizeError(
            f"{name} has {size} bytes; the limit is {limit}",
            limit=limit,
            actual=size,
            hint=f"increase {option}; if this recurs, the stream is damaged or not framed",
        )
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHeader:
    """The header of one frame; fields that are ``None`` are omitted from its JSON.

    Headers in uploads always have ``partition_values`` (a list of ``"key=value"``, possibly empty)
    and ``column_index`` (the column's id in the write schema). Headers in downloads have neither.
    """

    partition_values: tuple[str, ...] | None = None
    column_index: int | None = None
    distribution_key: bytes | None = None
    content_type: str | None = None
    custom_file_name: str | None = None

    def encode(self) -> bytes:
        """Return the header's JSON, formatted as pyodps formats it."""
        key = self.distribution_key
        fields = {
            "PartitionValues": None if self.partition_values is None else [*self.partition_values],
            "ColumnIndex": self.column_index,
            "DistributionKey": None if key is None else base64.b64encode(key).decode("ascii"),
            "ContentType": self.content_type,
            "CustomFileName": self.custom_file_name,
        }
        return json.dumps({k: v for k, v in fields.items() if v is not None}).encode("ascii")

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> FrameHeader:
        """Create a header from parsed JSON, checking types and ignoring unknown keys."""
        known = Fields(fields, "frame header", FramingError)
        values = known.texts("PartitionValues") if "PartitionValues" in known else None
        key = known.optional_text("DistributionKey")
        try:
            raw_key = None if key is None else base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError) as error:
            raise FramingError("DistributionKey of a frame header is not base64") from error
        return cls(
            partition_values=values,
            column_index=known.optional_integer("ColumnIndex"),
            distribution_key=raw_key,
            content_type=_any_text(fields, known, "ContentType"),
            custom_file_name=_any_text(fields, known, "CustomFileName"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of one frame: the checksum's kind and value."""

    kind: ChecksumKind = ChecksumKind.NONE
    value: int | str | None = None

    def encode(self) -> bytes:
        """Return the footer's JSON, formatted as pyodps formats it."""
        checksum: dict[str, int | str | None] = {"Type": _KINDS.index(self.kind)}
        if self.kind is ChecksumKind.CRC32:
            checksum["Crc32"] = self.value
        elif self.kind is ChecksumKind.MD5:
            checksum["MD5"] = self.value
        return json.dumps({"Checksum": checksum}).encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> Footer:
        """Parse a footer; the kind is ``NONE`` if it has no checksum."""
        fields = Fields(parse_json_object(data, "frame footer"), "frame footer", FramingError)
        checksum = fields.inner("Checksum")
        number = checksum.integer("Type", -1 if "Type" in iter(checksum) else 0)  # null is invalid
        if not 0 <= number < len(_KINDS):
            raise FramingError(f"unknown checksum type {number!r} in a frame footer")
        kind = _KINDS[number]
        if kind is ChecksumKind.CRC32:
            crc = checksum.optional_integer("Crc32")
            if crc is None or not 0 <= crc <= 0xFFFFFFFF:
                raise FramingError(f"Crc32 of a frame footer is {crc!r}, not a 32-bit number")
            return cls(kind=kind, value=crc)
        if kind is ChecksumKind.MD5:
            digest = checksum.text("MD5")
            if len(digest) != 32:
                raise FramingError(f"MD5 of a frame footer is {digest!r}, not 32 hex digits")
            return cls(kind=kind, value=digest.lower())
        return cls()


class RunningChecksum:
    """Incremental checksums of one blob."""

    __slots__ = ("_crc", "_kinds", "_md5", "_pieces")

    def __init__(self, *kinds: ChecksumKind, keep: bool = False) -> None:
        self._pieces: list[bytes] | None = [] if keep else None
        self._kinds = kinds
        self._crc = 0
        self._md5: Any = None

    @classmethod
    def of_download(cls, length: int, *, with_md5: bool) -> RunningChecksum:
        """Create a running checksum for a download, whose footer states the checksum kind.

        Keeps a blob of up to `RETAINED_BYTES` until the footer arrives. For a larger blob, computes
        CRC-32 as data arrives, and MD5 (0.6 GB/s, ten times slower) only if ``with_md5`` is true.
        """
        kinds = (ChecksumKind.CRC32, ChecksumKind.MD5) if with_md5 else (ChecksumKind.CRC32,)
        return cls(*kinds, keep=length <= RETAINED_BYTES)

    def update(self, piece: BytesLike) -> None:
        """Add the next bytes of the blob. The caller may reuse a mutable buffer afterwards."""
        if self._pieces is None:
            self._run(piece)
        else:
            self._pieces.append(bytes(piece))

    def _run(self, piece: BytesLike) -> None:
        if ChecksumKind.CRC32 in self._kinds:
            self._crc = crc32(piece, self._crc)
        if ChecksumKind.MD5 in self._kinds:
            self._md5 = self._md5 or hashlib.md5(usedforsecurity=False)
            self._md5.update(piece)

    def footer(self, kind: ChecksumKind) -> Footer:
        """Finish the checksum; return the footer for the data added so far."""
        return Footer(kind=kind, value=self._value(kind))

    def check(self, footer: Footer, index: int) -> bool:
        """Raise if a footer's checksum differs; return ``False`` if its kind was not computed."""
        actual = self._value(footer.kind)
        if actual is None:
            return False
        if actual != footer.value:
            raise ChecksumError(
                f"{footer.kind.value} of blob {index} is {actual}, but its footer states "
                f"{footer.value}",
                expected=footer.value,
                actual=actual,
                hint="fetch it again; if that fails too, the blob was damaged before it was stored",
            )
        return True

    def _value(self, kind: ChecksumKind) -> int | str | None:
        if self._pieces is not None:
            pieces, self._pieces, self._kinds = self._pieces, None, (kind,)
            for piece in pieces:
                self._run(piece)
        if kind is ChecksumKind.NONE or kind not in self._kinds:
            return None
        if kind is ChecksumKind.CRC32:
            return self._crc
        self._run(b"")  # even empty data has a digest
        digest: str = self._md5.hexdigest()
        return digest


# -- events and records: tuples and __slots__ are fast; each small blob creates several ---


class BlobRecord:
    """One whole blob. Only framed blobs have a ``mime_type`` and a ``custom_file_name``.

    ``verified``: whether the blob's checksums and length were checked; false only for a single blob
    in a body of unknown length. ``reference``: the blob reference used to fetch it; ``request_id``:
    the service's id for the response. The last two are ``None`` if unknown.

    Unpacks into ``data, mime_type`` like the SDK's record, and equals that pair if it has neither
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
        """Alias of ``custom_file_name``, used by the other classes of this package."""
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
    """Start of a blob; ``length`` (bytes) is ``None`` for a raw body, ``header`` is parsed JSON."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which is unused
    content_type: str | None
    custom_file_name: str | None
    length: int | None
    header: Mapping[str, Any]


class BlobData(NamedTuple):
    """The current blob's next bytes, never empty; chunk boundaries are arbitrary."""

    data: bytes

    def __repr__(self) -> str:
        return f"BlobData(data=<{format_bytes(len(self.data))}>)"


class BlobEnd(NamedTuple):
    """End of the current blob; ``verified`` states whether its checksum was checked."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which is unused
    length: int
    checksum_kind: ChecksumKind
    verified: bool


BlobEvent = BlobStart | BlobData | BlobEnd
