"""The parts of a blob frame: header JSON, footer JSON, running checksums.

Pure values of ``docs/protocol.md`` section 6.2; `odps_nb.wire.frames` puts them in order.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn, Protocol

from odps_nb.errors import ChecksumError, FramingError, LimitExceededError
from odps_nb.wire._push import BytesLike
from odps_nb.wire.crc32 import crc32

RETAINED_BYTES = 8 << 20
"""Bytes of a blob that are kept until its footer says which checksum counts."""


class _Hash(Protocol):
    def update(self, data: BytesLike, /) -> None: ...
    def hexdigest(self) -> str: ...


class ChecksumKind(str, Enum):
    """The kind of checksum in a frame's footer."""

    NONE = "none"
    CRC32 = "crc32"
    MD5 = "md5"

    @property
    def wire_type(self) -> int:
        """The number in the footer's ``Type``."""
        return _KINDS.index(self)


_KINDS = tuple(ChecksumKind)  # the index is the number on the wire


def parse_json_object(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in ``data``; no bytes at all stand for ``{}``.

    Raises `FramingError` when it is not UTF-8, not JSON, or not an object.
    """
    if not data:
        return {}
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FramingError(f"the {what} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise FramingError(f"the {what} is not a JSON object but a {type(value).__name__}")
    return value


def _no_constant(name: str) -> NoReturn:
    # Python would take NaN and Infinity, which are not JSON.
    raise ValueError(f"{name} is not a JSON value")


def check_json_size(size: int, limit: int, what: str, index: int) -> int:
    """Return the length of a header or footer that may be read.

    Raises `FramingError` when it is negative; `LimitExceededError` when it is over ``limit``.
    """
    if size < 0:
        raise FramingError(f"the {what} of frame {index} has the length {size}")
    if size > limit:
        raise LimitExceededError(
            f"the {what} of frame {index} has {size} bytes, more than {limit}",
            limit=limit,
            actual=size,
            hint="the stream is damaged, or not framed; else raise max_header",
        )
    return size


def check_data_size(size: int, limit: int, index: int) -> int:
    """Return the length of a blob that may be read; raises like `check_json_size`."""
    if size < 0:
        raise FramingError(f"the data of frame {index} has the length {size}")
    if size > limit:
        raise LimitExceededError(
            f"blob {index} has {size} bytes, more than {limit}",
            limit=limit,
            actual=size,
            hint="the stream is damaged, or not framed; else raise max_blob",
        )
    return size


def _text_or_none(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise FramingError(f"{key} of a frame header is not text but a {type(value).__name__}")
    return value or None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHeader:
    """The header of one frame; ``None`` leaves a key out.

    An upload always names ``partition_values`` (``"key=value"`` texts, maybe none) and
    ``column_index`` (the column id of the write schema); a download has neither.
    """

    partition_values: tuple[str, ...] | None = None
    column_index: int | None = None
    distribution_key: bytes | None = None
    content_type: str | None = None
    custom_file_name: str | None = None

    def encode(self) -> bytes:
        """Return the header's JSON, spelled as pyodps spells it."""
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
        """Check the types of a parsed header; unknown keys are left alone.

        Raises `FramingError` when a known key has a value of another type.
        """
        values, index = fields.get("PartitionValues"), fields.get("ColumnIndex")
        if values is not None and not (
            isinstance(values, list) and all(isinstance(value, str) for value in values)
        ):
            raise FramingError("PartitionValues of a frame header is not a list of texts")
        if index is not None and type(index) is not int:
            raise FramingError("ColumnIndex of a frame header is not a whole number")
        key = _text_or_none(fields, "DistributionKey")
        try:
            raw_key = None if key is None else base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError) as error:
            raise FramingError("DistributionKey of a frame header is not base64") from error
        return cls(
            partition_values=None if values is None else tuple(values),
            column_index=index,
            distribution_key=raw_key,
            content_type=_text_or_none(fields, "ContentType"),
            custom_file_name=_text_or_none(fields, "CustomFileName"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of one frame: which checksum, and its value."""

    kind: ChecksumKind = ChecksumKind.NONE
    value: int | str | None = None

    def encode(self) -> bytes:
        """Return the footer's JSON, spelled as pyodps spells it."""
        checksum: dict[str, int | str | None] = {"Type": self.kind.wire_type}
        if self.kind is ChecksumKind.CRC32:
            checksum["Crc32"] = self.value
        elif self.kind is ChecksumKind.MD5:
            checksum["MD5"] = self.value
        return json.dumps({"Checksum": checksum}).encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> Footer:
        """Parse a footer; no checksum in it is the kind ``NONE``.

        Raises `FramingError` for what is not JSON, an unknown type, or a value that does not fit
        its type.
        """
        checksum = parse_json_object(data, "frame footer").get("Checksum")
        if checksum is None:
            return cls()
        if not isinstance(checksum, dict):
            raise FramingError("Checksum of a frame footer is not a JSON object")
        number = checksum.get("Type", 0)
        if type(number) is not int or not 0 <= number <= 2:
            raise FramingError(f"unknown checksum type {number!r} in a frame footer")
        kind = _KINDS[number]
        if kind is ChecksumKind.CRC32:
            crc = checksum.get("Crc32")
            if type(crc) is not int or not 0 <= crc <= 0xFFFFFFFF:
                raise FramingError(f"Crc32 of a frame footer is {crc!r}, not a 32-bit number")
            return cls(kind=kind, value=crc)
        if kind is ChecksumKind.MD5:
            digest = checksum.get("MD5")
            if not isinstance(digest, str) or len(digest) != 32:
                raise FramingError(f"MD5 of a frame footer is {digest!r}, not 32 hex digits")
            return cls(kind=kind, value=digest.lower())
        return cls()


class RunningChecksum:
    """Checksums of one blob's data on its way.

    Parameters
    ----------
    kinds
        What is computed as the data goes by.
    keep
        Keep the data instead, and compute what is asked for at the end.
    """

    __slots__ = ("_crc", "_kinds", "_md5", "_pieces")

    def __init__(self, *kinds: ChecksumKind, keep: bool = False) -> None:
        self._pieces: list[bytes] | None = [] if keep else None
        self._kinds = kinds
        self._crc = 0
        self._md5: _Hash | None = None

    @classmethod
    def of_download(cls, length: int, *, with_md5: bool) -> RunningChecksum:
        """Make one for data whose checksum is known only from the footer behind it.

        Up to `RETAINED_BYTES` the data is kept until then. A larger blob has CRC-32 computed as
        it goes by, and MD5 (0.6 GB/s, an order slower than all else) only ``with_md5``.
        """
        kinds = (ChecksumKind.CRC32, ChecksumKind.MD5) if with_md5 else (ChecksumKind.CRC32,)
        return cls(*kinds, keep=length <= RETAINED_BYTES)

    def update(self, piece: BytesLike) -> None:
        """Take the next bytes of the blob; what is not ``bytes`` may change afterwards."""
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
        """Return the footer for the data so far, which ends it."""
        return Footer(kind=kind, value=self._value(kind))

    def check(self, footer: Footer, index: int) -> bool:
        """Compare with the footer; ``False`` when nothing could be compared.

        Raises `ChecksumError` when the data is not what the footer says.
        """
        actual = self._value(footer.kind)
        if actual is None:
            return False
        if actual != footer.value:
            raise ChecksumError(
                f"{footer.kind.value} of blob {index} is {actual} where its footer says "
                f"{footer.value}",
                expected=footer.value,
                actual=actual,
                hint="fetch it again; if it repeats, the blob was damaged before it was stored",
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
        self._run(b"")  # there is a digest even of nothing
        assert self._md5 is not None
        return self._md5.hexdigest()
