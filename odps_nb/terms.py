"""The words of the house as values (floor 0): table names, partition specs, splits, references.

Pure values: no I/O, no wire spelling beyond what a person types.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from odps_nb.errors import ConfigError, InvalidRequestError

__all__ = [
    "BlobReference",
    "Compression",
    "IndexSplit",
    "PartitionSpec",
    "RowRangeSplit",
    "SessionStatus",
    "Split",
    "SplitMode",
    "TableName",
    "TimeUnit",
    "WriteMode",
    "format_bytes",
]

# Names are checked before they reach a URL or a SQL text: what cannot be a name is refused here.
_NAME = re.compile(r"[^\W\d]\w{0,127}", re.UNICODE)


class Compression(str, Enum):
    """Content coding of a body or codec of Arrow IPC buffers, by context."""

    NONE = "none"
    ZSTD = "zstd"
    LZ4 = "lz4"

    @classmethod
    def of(cls, value: str | Compression | None) -> Compression:
        """Accept ``None``, a name in any case, or a member; anything else is a `ConfigError`."""
        if value is None:
            return cls.NONE
        try:
            return cls(value.lower())
        except ValueError:
            raise ConfigError(
                f"unknown compression {value!r}",
                option="compression",
                hint="use 'none', 'zstd' or 'lz4'",
            ) from None


class SplitMode(str, Enum):
    """How a read session is cut (``protocol.md`` section 4)."""

    SIZE = "Size"
    ROW_OFFSET = "RowOffset"
    PARALLELISM = "Parallelism"
    BUCKET = "Bucket"


class SessionStatus(str, Enum):
    """State of a session on the server (``protocol.md`` section 3.1)."""

    INIT = "INIT"
    NORMAL = "NORMAL"
    CRITICAL = "CRITICAL"
    EXPIRED = "EXPIRED"
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"


class WriteMode(str, Enum):
    """How a write session makes rows visible (``protocol.md`` section 7.1)."""

    BATCH = "Batch"
    BATCH_COMPATIBLE = "BatchCompatible"
    STREAMING = "Streaming"
    STREAMING_REALTIME = "StreamingRealtime"


class TimeUnit(str, Enum):
    """Unit of Arrow timestamps, as the wire spells it."""

    SECOND = "second"
    MILLI = "milli"
    MICRO = "micro"
    NANO = "nano"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table by project, schema (``None``: the default one) and name."""

    project: str
    table: str
    schema: str | None = None

    def __post_init__(self) -> None:
        for part, value in (
            ("project", self.project),
            ("schema", self.schema),
            ("table", self.table),
        ):
            if value is not None and not _NAME.fullmatch(value):
                raise InvalidRequestError(
                    f"{value!r} is not a valid {part} name",
                    hint="names have letters, digits and underscores, start with a letter or "
                    "underscore, and are at most 128 characters long",
                )

    @classmethod
    def parse(cls, text: str, *, project: str, schema: str | None = None) -> TableName:
        """Read ``table``, ``project.table`` or ``project.schema.table``; back-quotes are allowed.

        ``project`` and ``schema`` are the defaults of the connection.
        """
        if not isinstance(text, str):  # people pass what a DataFrame held
            raise InvalidRequestError(
                f"a table is named by text, not by a {type(text).__name__}",
                hint="write table, project.table or project.schema.table",
            )
        parts = [part.strip().strip("`") for part in text.split(".")]
        if len(parts) == 1:
            return cls(project=project, schema=schema, table=parts[0])
        if len(parts) == 2:
            return cls(project=parts[0], table=parts[1])
        if len(parts) == 3:
            return cls(project=parts[0], schema=parts[1], table=parts[2])
        raise InvalidRequestError(
            f"{text!r} is not a table name",
            hint="write table, project.table or project.schema.table",
        )

    def __str__(self) -> str:
        return ".".join(part for part in (self.project, self.schema, self.table) if part)


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """Partition keys and values in order, e.g. ``ds=2024-01-01,hour=3``."""

    items: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, value: str | Mapping[str, object] | PartitionSpec | None) -> PartitionSpec:
        """Accept text (levels joined by ``,`` or ``/``), a mapping, a spec, or ``None`` (empty)."""
        if value is None or isinstance(value, PartitionSpec):
            return value or cls()
        if isinstance(value, Mapping):
            return cls(tuple(_checked(str(k), str(v), f"{k}={v}") for k, v in value.items()))
        return cls(tuple(_level(level) for level in re.split(r"[,/]", value) if level.strip()))

    def __str__(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.items)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def covers(self, other: PartitionSpec) -> bool:
        """Whether each key of this (partial) spec has the same value in ``other``."""
        theirs = dict(other.items)
        return all(theirs.get(key) == value for key, value in self.items)


def _level(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return _checked(key, value if sign else "", text)


def _checked(key: str, value: str, text: str) -> tuple[str, str]:
    if not _NAME.fullmatch(key) or not value:
        raise InvalidRequestError(
            f"{text!r} is not a partition level", hint="write key=value, e.g. ds=2024-01-01"
        )
    return key, value


@dataclass(frozen=True, slots=True)
class IndexSplit:
    """A split that the server cut: read by its index, counted from 0."""

    index: int

    def __str__(self) -> str:
        return f"split {self.index}"


@dataclass(frozen=True, slots=True)
class RowRangeSplit:
    """Rows ``[offset, offset + count)`` of the session's snapshot."""

    offset: int
    count: int

    def __str__(self) -> str:
        return f"rows {self.offset}…{self.offset + self.count}"


Split = IndexSplit | RowRangeSplit


@dataclass(frozen=True, slots=True)
class BlobReference:
    """The opaque token that names a blob; ``token`` is its standard base64 text.

    The wire has three spellings of one reference (``protocol.md`` section 6.5); this value
    holds the text, and the two constructors say where a value came from.
    """

    token: str

    @classmethod
    def from_text(cls, token: str | bytes) -> BlobReference:
        """Take base64 text, as it arrives in JSON and in BLOB columns of a read."""
        text = token.decode("ascii", "replace") if isinstance(token, bytes) else token
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            shown = text if len(text) <= 40 else text[:40] + "…"
            raise InvalidRequestError(
                f"{shown!r} is not a blob reference",
                hint="pass a value of a BLOB column as it was read; it is padded base64 text",
            ) from None
        return cls(text)

    @classmethod
    def from_raw(cls, raw: bytes) -> BlobReference:
        """Take decoded bytes, as a BLOB column of a write carries them."""
        return cls(base64.b64encode(raw).decode("ascii"))

    @property
    def raw(self) -> bytes:
        """The decoded bytes, for a BLOB column of a write."""
        return base64.b64decode(self.token)

    def __repr__(self) -> str:
        shown = self.token if len(self.token) <= 24 else self.token[:21] + "…"
        return f"BlobReference({shown!r})"


def format_bytes(count: float) -> str:
    """Write a number of bytes for a person: ``12.3 MB`` (powers of 1000)."""
    if count < 1000:
        return f"{int(count)} B"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} PB"
