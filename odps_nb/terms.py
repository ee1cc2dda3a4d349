"""Basic value types: table names, partition specs, splits and blob references."""

from __future__ import annotations

import base64
import binascii
import contextlib
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from odps_nb.errors import ArgumentError, MissingKeyError, PositionError, shown, visible

# Names are validated here, before they are used in a URL or in SQL.
_NAME = re.compile(r"[^\W\d]\w{0,127}", re.UNICODE)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,3})?)\s*([kmgt]?)(i?)b?", re.IGNORECASE | re.ASCII)
_KEY = re.compile(r"\w{1,128}", re.UNICODE)  # column names may begin with a digit


class Compression(str, Enum):
    """Content coding of a body, or codec of Arrow IPC buffers, depending on the context.

    Examples
    --------
    >>> Compression.of("ZSTD")
    <Compression.ZSTD: 'zstd'>
    """

    NONE = "none"
    ZSTD = "zstd"
    LZ4 = "lz4"
    UNCOMPRESSED = "none"  # pyodps uses this name
    LZ4_FRAME = "lz4"

    @classmethod
    def of(cls, value: str | Enum | None) -> Compression:
        """Return the member for a name (pyodps's or ours, in any case); ``None`` means ``NONE``."""
        if value is None:
            return cls.NONE
        name = value.name if isinstance(value, Enum) else value
        known = _COMPRESSIONS.get(name.lower()) if isinstance(name, str) else None
        if known is None:
            raise ArgumentError(
                f"unknown compression {shown(value)}",
                argument="compression",
                hint="use 'none', 'zstd' or 'lz4'",
            )
        return cls(known)


_COMPRESSIONS = {
    **dict.fromkeys(("none", "uncompressed", "no_compression", "raw", "odps_raw"), "none"),
    **dict.fromkeys(("zstd", "odps_zstd"), "zstd"),
    **dict.fromkeys(("lz4", "lz4_frame", "x-lz4-frame", "odps_lz4", "odps_arrow_lz4"), "lz4"),
}


class TextMode(str, Enum):
    """How a read handles text that is not UTF-8."""

    STRICT = "strict"
    REPLACE = "replace"
    BINARY = "binary"

    @classmethod
    def of(cls, value: str | None) -> TextMode:
        """Return the member for a value (in any case); ``None`` means strict."""
        try:
            return cls.STRICT if value is None else cls(value.lower())
        except (AttributeError, ValueError):
            raise ArgumentError(
                f"unknown text mode {value!r}",
                argument="text",
                hint="use 'strict', 'replace' or 'binary'",
            ) from None


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How a read returns text; with ``char_padding``, CHAR(n) keeps its trailing blanks."""

    mode: TextMode = TextMode.STRICT
    char_padding: bool = False

    @classmethod
    def of(cls, text: str | None, *, char_padding: bool = False) -> TextOptions:
        """Create the options from a user's arguments; see `TextMode.of` for ``text``."""
        if not isinstance(char_padding, bool):
            raise ArgumentError(
                f"char_padding is {char_padding!r}, not a boolean",
                argument="char_padding",
                hint="pass True to keep trailing blanks of CHAR, or omit it",
            )
        return cls(TextMode.of(text), char_padding)


STRICT_TEXT = TextOptions()


class Transfer(str, Enum):
    """A service that transfers rows (``docs/protocol.md`` sections 3, 9.4 and 12).

    Examples
    --------
    >>> str(Transfer.STORAGE_V1)
    'Storage API v1'
    """

    STORAGE = "storage"
    STORAGE_V1 = "storage-v1"
    TUNNEL = "tunnel"

    def __str__(self) -> str:
        return _TRANSFER_NAMES[self.value]


_TRANSFER_NAMES = {
    "storage": "Storage API",
    "storage-v1": "Storage API v1",
    "tunnel": "tunnel",
}


class TransferMode(str, Enum):
    """Which transfer services a connection may use.

    ``AUTO``: the Storage API; if the account lacks it, version 1 of the Storage API; if the account
    lacks both, the tunnel. ``STORAGE``: only the Storage API, including version 1. ``TUNNEL``: only
    the tunnel.
    """

    AUTO = "auto"
    STORAGE = "storage"
    TUNNEL = "tunnel"

    @classmethod
    def of(cls, value: str | None) -> TransferMode:
        """Return the member for a value (in any case); ``None`` means automatic.

        Examples
        --------
        >>> TransferMode.of("Tunnel").value
        'tunnel'
        """
        try:
            return cls.AUTO if value is None else cls(value.lower())
        except (AttributeError, ValueError):
            raise ArgumentError(
                f"unknown transfer {value!r:.80}",
                argument="transfer",
                hint="use 'auto', 'storage' or 'tunnel'",
            ) from None

    @property
    def services(self) -> tuple[Transfer, ...]:
        """The services to use, in the order in which they are tried."""
        both = (Transfer.STORAGE, Transfer.STORAGE_V1)
        if self is TransferMode.TUNNEL:
            return (Transfer.TUNNEL,)
        return both if self is TransferMode.STORAGE else (*both, Transfer.TUNNEL)


class SplitMode(str, Enum):
    """How a read session is split (``docs/protocol.md`` section 4)."""

    SIZE = "Size"
    ROW_OFFSET = "RowOffset"
    PARALLELISM = "Parallelism"
    BUCKET = "Bucket"


class SessionStatus(str, Enum):
    """State of a session on the server (``docs/protocol.md`` section 3.1)."""

    INIT = "INIT"
    NORMAL = "NORMAL"
    CRITICAL = "CRITICAL"
    EXPIRED = "EXPIRED"
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"


class WriteMode(str, Enum):
    """How a write session makes rows visible (``docs/protocol.md`` section 7.1)."""

    BATCH = "Batch"
    STREAMING = "Streaming"
    STREAMING_REALTIME = "StreamingRealtime"


class TimeUnit(str, Enum):
    """Unit of Arrow timestamps, with the names used on the wire."""

    SECOND = "second"
    MILLI = "milli"
    MICRO = "micro"
    NANO = "nano"


def is_name(text: str) -> bool:
    """Whether a string is a valid project, schema or table name."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table's project, schema (``None`` for the default schema) and name."""

    project: str
    table: str
    schema: str | None = None

    def __post_init__(self) -> None:
        for part in ("project", "schema", "table"):
            value = getattr(self, part)
            if value is not None and not _NAME.fullmatch(value):
                raise ArgumentError(
                    f"{value!r} is not a valid {part} name",
                    hint="use letters, digits and underscores, start with a letter or "
                    "underscore, and use at most 128 characters",
                )

    @classmethod
    def parse(cls, text: str, *, project: str, schema: str | None = None) -> TableName:
        """Parse ``table``, ``project.table`` or ``project.schema.table``; names may be quoted."""
        parts = (
            text.split(".") if isinstance(text, str) else []
        )  # a name taken from a DataFrame may not be a string (e.g. NaN)
        match [part.strip().strip("`") for part in parts]:
            case [table]:
                return cls(project=project, schema=schema, table=table)
            case [project, table]:
                return cls(project=project, table=table)
            case [project, schema, table]:
                return cls(project=project, schema=schema, table=table)
        raise ArgumentError(
            f"{shown(text)} is not a table name",
            hint="pass the name as text: table, project.table or project.schema.table",
        )

    def __str__(self) -> str:
        return ".".join(part for part in (self.project, self.schema, self.table) if part)


@dataclass(frozen=True, slots=True, repr=False)
class PartitionSpec:
    """Partition keys and values in order, e.g. ``ds=2024-01-01,hour=3``.

    Partition lists from the service may contain values that requests cannot express unambiguously
    (see `check_partition_value`); `of` and `checked` raise errors for them. With ``padded``, values
    may end in blanks, as those of CHAR columns do.
    """

    items: tuple[tuple[str, str], ...] = ()
    padded: bool = field(default=False, compare=False)

    @classmethod
    def of(
        cls, value: str | Mapping[str, object] | PartitionSpec | None, *, padded: bool = False
    ) -> PartitionSpec:
        """Create a spec from text, a mapping, another spec, or ``None`` (an empty spec).

        Values in a mapping are text or integers, and are used unchanged. In text, ``,`` or ``/``
        separates levels. Blanks around keys and values are ignored, and quotes around a value
        are removed: ``ds = 2024-01-01, hour = '3'``.
        """
        if value is None or isinstance(value, PartitionSpec):
            found = value or cls()
            return replace(found, padded=found.padded or padded).checked()
        if isinstance(value, Mapping):
            pairs = ((str(key), _value_text(str(key), one)) for key, one in value.items())
            return cls(tuple(pairs), padded).checked()
        if not isinstance(value, str):
            raise ArgumentError(
                f"a value of type {type(value).__name__} is not a partition",
                code=_INVALID,
                hint="pass text such as ds=2024-01-01, or a dict of keys and values",
            )
        levels = (_level(level) for level in _LEVELS.findall(value) if level.strip())
        return cls(tuple(levels), padded).checked()

    def checked(self) -> PartitionSpec:
        """Return this spec, or raise if a request cannot express it unambiguously."""
        for key, value in self.items:
            _check_level(key, value, f"{key}={value}")
            check_partition_value(key, value.rstrip(" ") if self.padded else value)
        return self

    @property
    def has_name(self) -> bool:
        """Whether a request can express the spec unambiguously."""
        return not any(_doubt(v.rstrip(" ") if self.padded else v) for _, v in self.items)

    def __str__(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.items)

    def __repr__(self) -> str:
        return f"PartitionSpec({visible(str(self))!r})"

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: str) -> str:
        """Return the value of a partition column, ignoring case: ``spec["ds"]``."""
        for name, value in self.items:
            if isinstance(key, str) and name.casefold() == key.casefold():
                return value
        raise MissingKeyError(
            f"the partition {str(self)!r} has no key {shown(key)}",
            argument="key",
            hint=f"use one of its keys: {', '.join(name for name, _ in self.items)}",
        )

    def covers(self, other: PartitionSpec) -> bool:
        """Whether ``other`` has the same value for each key of this (partial) spec."""
        theirs = dict(other.items)
        return all(theirs.get(key) == value for key, value in self.items)


def covered(specs: Iterable[PartitionSpec]) -> Callable[[PartitionSpec], bool]:
    """Return a fast test of whether any of many (partial) specs covers a spec."""
    by_keys: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for one in specs:
        pairs = sorted(one.items)
        by_keys.setdefault(tuple(k for k, _ in pairs), set()).add(tuple(v for _, v in pairs))

    def test(spec: PartitionSpec) -> bool:
        values = dict(spec.items)
        return any(
            tuple(values.get(key) for key in keys) in among for keys, among in by_keys.items()
        )

    return test


_INVALID = "InvalidPartitionSpec"
# Matches one level, in which a quoted value may contain separators.
_LEVELS = re.compile(r"""(?:'[^']*'|"[^"]*"|[^,/])+""")
# Parsers of ``key=value,key=value`` split the text at these characters, or remove them.
_SIGNS = ",/='\"\\"
_NO_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def check_partition_value(key: str, value: str) -> None:
    """Raise if a request cannot express a partition value unambiguously.

    Requests express partitions as ``key=value,key=value`` without quotes. Parsers of that text
    strip blanks and quotes, and split the text at ``,``, ``/`` and ``=``. So a value that contains
    these characters could make a request read or replace another partition.
    """
    problem = _doubt(value)
    if problem:
        raise ArgumentError(
            f"the value {shorten(value, 80)!r} of the partition key {key!r} {problem}: "
            "no request can express it unambiguously",
            code=_INVALID,
            hint="write rows with another value; to find existing rows, read the table without "
            "a partition",
        )


def _doubt(value: str) -> str:
    if not value:
        return "is empty"
    sign = next((one for one in value if one in _SIGNS), None)
    if sign is not None:
        return f"contains {sign!r}"
    if _NO_TEXT.search(value):
        return "contains a control character or another non-text character"
    if any(one.isspace() or unicodedata.category(one) == "Cf" for one in (value[0], value[-1])):
        return "begins or ends with a blank or an invisible character"
    return ""


def _value_text(key: str, value: object) -> str:
    """Return a mapping's value as text; raise for types without an exact text form."""
    if isinstance(value, str):
        return str.__str__(value)  # a subclass may override str()
    if hasattr(value, "__index__") and not isinstance(value, bool):
        with contextlib.suppress(TypeError):  # raised for arrays and NumPy booleans
            return str(operator.index(value))
    raise ArgumentError(
        f"the partition key {key!r} has a value of type {type(value).__name__}: {shown(value)}",
        code=_INVALID,
        hint="pass text or an integer, e.g. {'ds': '2024-01-01', 'hour': 3}; write a day as the "
        "table's partitions are named, e.g. with day.isoformat() or day.strftime('%Y%m%d')",
    )


def _level(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    key, value = key.strip(_FORMATTING), value.strip(_FORMATTING)
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    _check_level(key, value if sign else "", text)
    return key, value


_FORMATTING = " \t\r\n"


def _check_level(key: str, value: str, text: str) -> None:
    if not _KEY.fullmatch(key) or not value:
        raise ArgumentError(
            f"{text!r} is not a partition level",
            code=_INVALID,
            hint="write key=value, e.g. ds=2024-01-01",
        )


@dataclass(frozen=True, slots=True)
class IndexSplit:
    """A split that the server defines; read by its index, which counts from 0."""

    index: int

    def __str__(self) -> str:
        return f"split {self.index}"


@dataclass(frozen=True, slots=True)
class RowRangeSplit:
    """The rows ``[offset, offset + count)`` of a session's snapshot."""

    offset: int
    count: int

    def __str__(self) -> str:
        return f"rows {self.offset}…{self.offset + self.count}"


Split = IndexSplit | RowRangeSplit


@dataclass(frozen=True, slots=True)
class BlobReference:
    """The opaque token that identifies a blob, as base64 (``docs/protocol.md`` section 6.5)."""

    token: str

    @classmethod
    def from_text(cls, token: str | bytes) -> BlobReference:
        """Create a reference from base64 text, as used in JSON and in reads of BLOB columns."""
        text = token.decode("ascii", "replace") if isinstance(token, bytes) else token
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise ArgumentError(
                f"{shorten(text, 40)!r} is not a blob reference",
                hint="pass a value of a BLOB column unchanged; it is padded base64 text",
            ) from None
        return cls(text)

    @classmethod
    def from_raw(cls, raw: bytes) -> BlobReference:
        """Create a reference from decoded bytes, the form used in writes of BLOB columns."""
        return cls(base64.b64encode(raw).decode("ascii"))

    @property
    def raw(self) -> bytes:
        """The decoded bytes, the form used in writes of BLOB columns."""
        return base64.b64decode(self.token)

    def __repr__(self) -> str:
        shown = self.token if len(self.token) <= 24 else self.token[:21] + "…"
        return f"BlobReference({shown!r})"


def check_choice(argument: str, value: object, known: tuple[object, ...]) -> None:
    """Raise `ArgumentError` unless an argument has one of the allowed values."""
    if value not in known:
        *others, last = map(repr, known)
        hint = f"pass {', '.join(others)} or {last}"
        raise ArgumentError(f"{argument} is {value!r}", argument=argument, hint=hint)


def count_of(count: int, noun: str) -> str:
    """Format a count with its noun, e.g. ``1 row``, ``1,234 rows``, ``2 retries``, ``3 keys``."""
    if count == 1:
        return f"1 {noun}"
    is_y = noun.endswith("y") and noun[-2] not in "aeiou"
    plural = noun[:-1] + "ies" if is_y else noun + "s"
    return f"{count:,} {plural}"


def no_item(noun: str, position: int, count: int) -> PositionError:
    """Return the error for a position outside a sequence of ``count`` items."""
    hint = f"pass a position from 0 to {count - 1}" if count else "select other rows"
    there = count_of(count, noun) if count else f"no {noun}s"
    return PositionError(f"there is no {noun} {position}: the sequence has {there}", hint=hint)


def did_you_mean(
    name: str, known: Iterable[str], form: str = "{!r}", *, most: int = 3, cutoff: float = 0.7
) -> str:
    """Return ``did you mean 'x' or 'y'? `` with similar names, or ``""``; the case is ignored."""
    from difflib import get_close_matches

    by_key = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), by_key, n=most, cutoff=cutoff)
    shown = (form.format(by_key[one]) for one in near)
    return f"did you mean {' or '.join(shown)}? " if near else ""


def listed_columns(names: Sequence[str]) -> str:
    """Return text for a hint: a table's first column names, and how to fetch newer columns."""
    more = ", …" if len(names) > 20 else ""
    return f"{', '.join(names[:20])}{more} (for a newer column, call table.reload() first)"


MAX_ID = 100
"""Maximum length of a service's codes and ids in error messages."""


def shorten(text: str, limit: int) -> str:
    """Truncate ``text`` to ``limit`` characters; a truncated text ends with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def query_title(sql: str, limit: int = 80) -> str:
    """Return a query on one line; a long query is truncated before a word or literal.

    >>> query_title("select id from orders where status = 'not paid'", 40)
    'select id from orders where status = …'
    """
    text = " ".join(sql.split())
    if len(text) <= limit:
        return text
    cut = text[: limit - 1].rpartition(" ")[0]
    for quote in "'\"`":
        if cut.count(quote) % 2:
            cut = cut.rpartition(quote)[0]
    return f"{cut.rstrip()} …" if cut.strip() else shorten(text, limit)


def format_bytes(count: float) -> str:
    """Format a number of bytes for display: ``12.3 MB`` (powers of 1000)."""
    if count < 1000:
        return f"{int(count)} B"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} PB"


def parse_bytes(text: str) -> int | None:
    """Parse ``512 MiB``, ``1.5GB`` or a plain number of bytes; return ``None`` for other text."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " kmgt".index(match[2].lower() or " "))
