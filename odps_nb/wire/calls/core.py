"""Parts shared by all Storage API calls: `WireRequest`, targets, parameters.

``docs/protocol.md`` sections 1.1 to 1.4. Other modules sign and send the requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode

from odps_nb.errors import ArgumentError, FramingError, InvalidRequestError
from odps_nb.terms import Compression, PartitionSpec, TableName, format_bytes, shorten
from odps_nb.wire.codings import HTTP_NAMES, from_http_name
from odps_nb.wire.json_fields import Fields, dump, in_request, parse_object

JSON_TYPE = "application/json; charset=utf-8"
STREAM_TYPE = "application/octet-stream"
ROUTE_TOKEN = "x-odps-max-storage-route-token"
ACCESS_TOKEN = "x-odps-max-storage-write-access-token"
REQUEST_ID = "x-odps-request-id"
HTTP_CODINGS = HTTP_NAMES

_CODING_NAMES = {name: coding for coding, name in HTTP_CODINGS.items()}
_TABLE_TARGET = re.compile(r"projects\.(.+?)(?:\.schemas\.(.+?))?\.tables\.(.+)")
_INSTANCE_TARGET = re.compile(r"projects\.(.+?)\.instances\.([\w-]{1,128})", re.ASCII)
_LEVEL = re.compile(r"(\w+)=(.+)", re.DOTALL)
_LEVEL_BREAK = re.compile(r"[,/](?=\w+=)")

Pairs = tuple[tuple[str, str], ...]
Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WireRequest:
    """One HTTP request; ``path`` is relative to the endpoint and not escaped.

    ``body`` is ``None`` if the caller streams the body (uploads) or the request has none (GET).
    ``params`` and ``headers`` are sent in this order.
    """

    method: str
    path: str
    params: Pairs = ()
    headers: Pairs = ()
    body: bytes | None = None

    def url(self, endpoint: str) -> str:
        """Return the absolute URL, encoded as by the stock clients (a space becomes ``+``)."""
        try:
            url = endpoint.rstrip("/") + quote(self.path, safe="/-_.~")
            return f"{url}?{urlencode(self.params)}" if self.params else url
        except UnicodeEncodeError:
            raise ArgumentError(
                f"{self!r} is not valid Unicode", hint="check names and partition values"
            ) from None

    @property
    def action(self) -> str | None:
        """The ``Action`` parameter, or ``None``."""
        return dict(self.params).get("Action")

    @property
    def target(self) -> str | None:
        """The ``Target`` parameter, or ``None``."""
        return dict(self.params).get("Target")

    def __repr__(self) -> str:
        body = "no body" if self.body is None else f"<{format_bytes(len(self.body))}>"
        params = "&".join(f"{key}={value}" for key, value in self.params)
        return f"WireRequest({self.method} {self.path}?{shorten(params, 200)}, {body})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Parameters that a connection adds to every request (``docs/protocol.md`` section 1.3)."""

    curr_project: str | None = None
    curr_schema: str | None = None
    quota_name: str | None = None

    @property
    def params(self) -> Pairs:
        """The parameters to append, in the stock clients' order."""
        named = (
            ("quotaName", self.quota_name),
            ("curr_project", self.curr_project),
            ("curr_schema", self.curr_schema),
        )
        return tuple((key, value) for key, value in named if value is not None)


NO_SCOPE = Scope()


class StreamingCall(Protocol):
    """A request whose response is a stream (rows or blobs), not a JSON document."""

    @property
    def idempotent(self) -> bool:
        """Whether the request is safe to send twice."""

    def encode(self, api_version: int = 2, *, scope: Scope = ...) -> WireRequest:
        """Encode the request for the wire."""


class Call(StreamingCall, Protocol[Answer_co]):
    """A request whose response is a JSON document."""

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> Answer_co:
        """Decode the response of a successful request."""


def storage_request(
    action: str,
    target: str,
    params: Iterable[tuple[str, str]] = (),
    *,
    api_version: int,
    scope: Scope,
    method: str = "POST",
    body: object = None,
    content_type: str = JSON_TYPE,
    headers: Iterable[tuple[str, str | None]] = (),
) -> WireRequest:
    """Build one Storage API request; headers whose value is ``None`` or empty are omitted."""
    return WireRequest(
        method=method,
        path=f"/api/storage/v{api_version}",
        params=(("Action", action), ("Target", target), *params, *scope.params),
        headers=(
            ("Content-Type", content_type),
            *((name, value) for name, value in headers if value),
        ),
        body=None if body is None else dump(body),
    )


def table_target(table: TableName) -> str:
    """Format the ``Target`` of a table (``docs/protocol.md`` section 1.2)."""
    schema = f".schemas.{table.schema}" if table.schema else ""
    return f"projects.{table.project}{schema}.tables.{table.table}"


def parse_table_target(target: str) -> TableName:
    """Parse the ``Target`` of a table; raise `InvalidRequestError` for invalid names."""
    match = _TABLE_TARGET.fullmatch(target)
    if match is None:
        raise in_request(f"Target {target[:80]!r} is not a table")
    return table_name(match[1], match[2], match[3])


def table_name(project: str, schema: str | None, table: str) -> TableName:
    """Create a table name from the parts in a client's request."""
    try:
        return TableName(project=project, schema=schema, table=table)
    except ArgumentError as error:
        raise in_request(error.message) from None


def instance_target(project: str, instance_id: str) -> str:
    """Format the ``Target`` of a SQL instance."""
    return f"projects.{project}.instances.{instance_id}"


def parse_instance_target(target: str) -> tuple[str, str]:
    """Parse the ``Target`` of an instance; return (project, instance id)."""
    match = _INSTANCE_TARGET.fullmatch(target)
    if match is None:
        raise in_request(f"Target {target[:80]!r} is not an instance")
    return match[1], match[2]


def encode_partition(spec: PartitionSpec, *, separator: str) -> str:
    """Format a partition as ``ds=x/h=1``; raise if this text would parse as another partition.

    The separator follows the C++ client's live tests: ``/`` in write sessions and in a read's
    partitions, ``,`` in previews (TestTableWriteFullPartitioned,
    TestFilterOptionsRequiredPartitions, TestSpecificPartition).
    """
    return separator.join(f"{key}={value}" for key, value in spec.checked())


def decode_partition(text: str, *, quoted: bool = False) -> PartitionSpec:
    """Parse ``ds=x,h=1`` or ``ds=x/h=1``; keep blanks and quotes in the values.

    A ``,`` or ``/`` separates levels only before another ``key=``, because values may contain both
    (``docs/protocol.md`` section 6.1). With ``quoted``, quotes around a value are removed
    (control plane, ``docs/protocol.md`` section 7.2).
    """
    if not text:
        return PartitionSpec()
    return PartitionSpec(tuple(_level(level, quoted=quoted) for level in _LEVEL_BREAK.split(text)))


def _level(text: str, *, quoted: bool) -> tuple[str, str]:
    match = _LEVEL.fullmatch(text)
    value = match[2] if match else ""
    if quoted and len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    if match is None or not value:
        raise InvalidRequestError(
            f"{text[:80]!r} is not a partition level of the form key=value",
            status=400,
            code="InvalidPartitionSpec",
        )
    return match[1], value


class Params:
    """A request's decoded query parameters; if a name is repeated, the last value is kept."""

    __slots__ = ("_values",)

    def __init__(self, wire: WireRequest) -> None:
        self._values = dict(wire.params)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def optional(self, key: str) -> str | None:
        """Return a parameter; ``None`` if absent or empty."""
        return self._values.get(key) or None

    def text(self, key: str) -> str:
        """Return a parameter; raise if it is missing."""
        value = self.optional(key)
        if value is None:
            raise in_request(f"parameter {key} is missing")
        return value

    def flag(self, key: str) -> bool:
        """Return whether a parameter is ``true``."""
        return (self._values.get(key) or "").lower() == "true"

    def integer(self, key: str, *, low: int = 0) -> int:
        """Return an integer parameter; raise if it is missing or below ``low``."""
        text = self.text(key)
        digits = text[1:] if text[0] == "-" else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18) or int(text) < low:
            raise in_request(f"parameter {key} is {text[:40]!r}, not an integer of at least {low}")
        return int(text)

    def optional_integer(self, key: str) -> int | None:
        """Return an integer parameter; ``None`` if absent."""
        return None if self.optional(key) is None else self.integer(key)

    def count(self, key: str) -> int:
        """Return an integer parameter; 0 if absent."""
        return self.optional_integer(key) or 0

    @property
    def table(self) -> TableName:
        """The table named by ``Target``."""
        return parse_table_target(self.text("Target"))


def request_fields(wire: WireRequest) -> Fields:
    """Parse the JSON body of a request; a missing body is an empty object."""
    return parse_object(wire.body or b"", f"body of {wire.action}", in_request)


def find_header(headers: Mapping[str, str] | Pairs, name: str) -> str | None:
    """Return a header, ignoring case; ``None`` if absent or empty."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return next((value for key, value in pairs if key.lower() == name and value), None)


def accepted_coding(headers: Mapping[str, str] | Pairs) -> Compression:
    """Return the coding that ``Accept-Encoding`` requests.

    A list with an unsupported coding is ignored, because HTTP libraries add generic lists such as
    ``gzip, deflate, zstd`` (``docs/protocol.md`` section 1.4).
    """
    listed = find_header(headers, "accept-encoding") or ""
    names = [name.partition(";")[0].strip().lower() for name in listed.split(",")]
    if all(name in _CODING_NAMES for name in names):
        return _CODING_NAMES[names[0]]
    return Compression.NONE


def content_coding(headers: Mapping[str, str] | Pairs) -> Compression:
    """Return the content coding of an upload."""
    name = find_header(headers, "content-encoding")
    try:
        return from_http_name(name)
    except FramingError:
        raise in_request(
            f"Content-Encoding {(name or '')[:40]!r} is not zstd or x-lz4-frame"
        ) from None
