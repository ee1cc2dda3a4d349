"""Encodes and decodes requests and responses by their field annotations.

``session_id: Annotated[str, param("SessionId")]`` declares how one parameter is encoded and
decoded: the annotation states where the field is in the message. Fields are encoded in order. A
field with several annotations is written to all of these places, and read from the first one that
has a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, NamedTuple, Self, get_type_hints

from odps_nb.terms import Compression, PartitionSpec, TableName, WriteMode
from odps_nb.wire.calls.core import (
    HTTP_CODINGS,
    JSON_TYPE,
    NO_SCOPE,
    ROUTE_TOKEN,
    Pairs,
    Params,
    Scope,
    WireRequest,
    accepted_coding,
    content_coding,
    decode_partition,
    encode_partition,
    find_header,
    instance_target,
    parse_instance_target,
    request_fields,
    storage_request,
    table_target,
)
from odps_nb.wire.json_fields import Fields, in_request


class Draft:
    """A message being encoded: parameters, headers and JSON body members."""

    def __init__(self, api_version: int = 2) -> None:
        self.target, self.api_version = "", api_version
        self.params: list[tuple[str, str]] = []
        self.headers: list[tuple[str, str]] = []
        self.body: dict[str, Any] = {}

    def add(self, path: str, value: object) -> None:
        """Set a body member; a dot in the path separates nested objects."""
        outer, _, name = path.rpartition(".")
        (self.body.setdefault(outer, {}) if outer else self.body)[name] = value


class Received:
    """A message being decoded; its body is parsed when the first field needs it."""

    def __init__(
        self, params: Params, headers: Mapping[str, str] | Pairs, fields: Callable[[], Fields]
    ) -> None:
        self.params, self.headers, self._fields = params, headers, fields

    @cached_property
    def fields(self) -> Fields:
        """Members of the JSON body."""
        return self._fields()


class FieldPlace(NamedTuple):
    """A field's place in a message: the functions that encode and decode the field.

    ``take`` returns ``None`` if the value is absent.
    """

    put: Callable[[Draft, Any], None]
    take: Callable[[Received], Any]


def param(
    name: str,
    read: Callable[[Params, str], Any] = Params.text,
    write: Callable[[Any], str | None] = str,
) -> FieldPlace:
    """Return the `FieldPlace` of a parameter, which is omitted if its value or text is ``None``."""

    def put(draft: Draft, value: Any) -> None:
        text = None if value is None else write(value)
        if text is not None:
            draft.params.append((name, text))

    return FieldPlace(put, lambda received: read(received.params, name))


def member(
    path: str,
    read: Callable[[Fields, str], Any],
    write: Callable[[Any], object] = lambda value: value,
    *,
    optional: bool = False,
) -> FieldPlace:
    """Return the `FieldPlace` of a JSON body member; ``Outer.Name`` denotes a nested member.

    ``optional``: omit ``None`` instead of writing ``null``.
    """
    outer, _, name = path.rpartition(".")

    def put(draft: Draft, value: Any) -> None:
        written = write(value)
        if written is not None or not optional:
            draft.add(path, written)

    def take(received: Received) -> Any:
        return read(received.fields.inner(outer) if outer else received.fields, name)

    return FieldPlace(put, take)


def _not_read(_: Received) -> None:
    return None


def fixed_member(path: str, value: object) -> FieldPlace:
    """Return the `FieldPlace` of a constant member, which is ignored when decoding."""
    return FieldPlace(lambda draft, _: draft.add(path, value), _not_read)


def fixed_param(name: str, value: str) -> FieldPlace:
    """Return the `FieldPlace` of a constant parameter, which is ignored when decoding."""
    return FieldPlace(lambda draft, _: draft.params.append((name, value)), _not_read)


def header(name: str) -> FieldPlace:
    """Return the `FieldPlace` of a header, which is omitted if empty."""

    def put(draft: Draft, value: str | None) -> None:
        if value:
            draft.headers.append((name, value))

    return FieldPlace(put, lambda received: find_header(received.headers, name))


def _coding(name: str, read: Callable[[Mapping[str, str] | Pairs], Compression]) -> FieldPlace:
    write = header(name)
    return FieldPlace(
        lambda draft, value: write.put(draft, HTTP_CODINGS.get(value)),
        lambda received: read(received.headers),
    )


def _put_table(draft: Draft, value: TableName) -> None:
    draft.target = table_target(value)


def _instance(part: int) -> FieldPlace:
    """Return the `FieldPlace` of an instance target's project (part 0) or instance id (part 1)."""

    def put(draft: Draft, value: str) -> None:
        draft.target = instance_target(draft.target, value) if part else value

    def take(received: Received) -> str:
        return parse_instance_target(received.params.text("Target"))[part]

    return FieldPlace(put, take)


def _put_mode(draft: Draft, value: WriteMode) -> None:
    if draft.api_version >= 3:  # older versions lack WriteMode (``docs/protocol.md`` section 3.12)
        draft.params.append(("WriteMode", value.value))


def _take_mode(received: Received) -> WriteMode:
    text = received.params.optional("WriteMode") or WriteMode.BATCH.value
    try:
        return WriteMode(text)
    except ValueError:
        raise in_request(f"WriteMode {text[:40]!r} is unknown") from None


def partition_member(name: str) -> FieldPlace:
    """Return the `FieldPlace` of a JSON body member that contains a partition as text."""
    return member(
        name,
        lambda fields, key: decode_partition(fields.text(key)),
        lambda spec: encode_partition(spec, separator="/"),
    )


def partition_param(name: str) -> FieldPlace:
    """Return the `FieldPlace` of an optional parameter that contains a partition."""

    def read(params: Params, key: str) -> PartitionSpec | None:
        text = params.optional(key)
        return None if text is None else decode_partition(text)

    return param(name, read, lambda spec: encode_partition(spec, separator=","))


def text_or_none(value: str | None) -> str:
    """Return the text, or an empty string for ``None``."""
    return value or ""


def no(fields: Fields, key: str) -> bool:
    """Return a boolean member; false if absent."""
    return fields.boolean(key, default=False)


Table = Annotated[TableName, FieldPlace(_put_table, lambda received: received.params.table)]
Project = Annotated[str, _instance(0)]
InstanceId = Annotated[str, _instance(1)]
SessionId = Annotated[str, param("SessionId")]
StreamId = Annotated[str, param("StreamId")]
StreamVersion = Annotated[int, param("StreamVersion", Params.count)]
Mode = Annotated[WriteMode, FieldPlace(_put_mode, _take_mode)]
RouteToken = Annotated[str | None, header(ROUTE_TOKEN)]
Accepted = Annotated[Compression, _coding("ACCEPT-ENCODING", accepted_coding)]
Coded = Annotated[Compression, _coding("Content-Encoding", content_coding)]


@cache
def _places_of(kind: Any) -> tuple[tuple[str, tuple[FieldPlace, ...]], ...]:
    """Return the fields of a request or response, each with its `FieldPlace` values."""
    names = kind.__init__.__globals__  # annotations use names of the class's module
    hints = get_type_hints(kind, names, include_extras=True)
    return tuple((one.name, hints[one.name].__metadata__) for one in fields_of(kind))


def fill(draft: Draft, value: Any) -> Draft:
    """Encode all fields of a request or response."""
    kind: Any = type(value)
    for name, places in _places_of(kind):
        for place in places:
            place.put(draft, getattr(value, name))
    return draft


def read_fields(kind: Any, received: Received) -> Any:
    """Decode a request or response from a received message."""
    values = {}
    for name, places in _places_of(kind):
        found = (place.take(received) for place in places)
        values[name] = next((value for value in found if value is not None), None)
    return kind(**values)


class StorageCall:
    """Base class of Storage API requests."""

    __slots__ = ()
    ACTION: ClassVar[str]
    METHOD: ClassVar[str] = "POST"
    CONTENT_TYPE: ClassVar[str] = JSON_TYPE
    """Content type of the body; a body that is not JSON is sent by the caller itself."""

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        draft = fill(Draft(api_version), self)
        has_body = self.METHOD == "POST" and self.CONTENT_TYPE == JSON_TYPE
        return storage_request(
            self.ACTION,
            draft.target,
            draft.params,
            api_version=api_version,
            scope=scope,
            method=self.METHOD,
            body=draft.body if has_body else None,
            content_type=self.CONTENT_TYPE,
            headers=draft.headers,
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> Self:
        """Decode the request."""
        received = Received(Params(wire), wire.headers, lambda: request_fields(wire))
        found: Self = read_fields(cls, received)
        return found
