"""Spells requests and answers by their fields: each is annotated with its places on the wire.

``session_id: Annotated[str, param("SessionId")]`` declares how one parameter is written and read.
Places are written in the order of the fields. A field with several places is written to all of
them, and read from the first that has a value.
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
    """What is being written: parameters, headers and members of the JSON body."""

    def __init__(self, api_version: int = 2) -> None:
        self.target, self.api_version = "", api_version
        self.params: list[tuple[str, str]] = []
        self.headers: list[tuple[str, str]] = []
        self.body: dict[str, Any] = {}

    def add(self, path: str, value: object) -> None:
        """Set a member of the body; a dot leads into an inner object."""
        outer, _, name = path.rpartition(".")
        (self.body.setdefault(outer, {}) if outer else self.body)[name] = value


class Received:
    """What is being read; the body is parsed when a field needs it."""

    def __init__(
        self, params: Params, headers: Mapping[str, str] | Pairs, fields: Callable[[], Fields]
    ) -> None:
        self.params, self.headers, self._fields = params, headers, fields

    @cached_property
    def fields(self) -> Fields:
        """Members of the JSON body."""
        return self._fields()


class FieldPlace(NamedTuple):
    """Where a field stands on the wire: how it is written, and how it is read.

    ``take`` returns ``None`` if the value is not there.
    """

    put: Callable[[Draft, Any], None]
    take: Callable[[Received], Any]


def param(
    name: str,
    read: Callable[[Params, str], Any] = Params.text,
    write: Callable[[Any], str | None] = str,
) -> FieldPlace:
    """Return the place of a parameter; it is left out if its value or text is ``None``."""

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
    """Return the place of a member of the JSON body, an inner one as ``Outer.Name``.

    ``optional``: ``None`` is left out instead of written as ``null``.
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
    """Return the place of a member that is always the same; it is not read."""
    return FieldPlace(lambda draft, _: draft.add(path, value), _not_read)


def fixed_param(name: str, value: str) -> FieldPlace:
    """Return the place of a parameter that is always the same; it is not read."""
    return FieldPlace(lambda draft, _: draft.params.append((name, value)), _not_read)


def header(name: str) -> FieldPlace:
    """Return the place of a header; it is left out if it is empty."""

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
    """Return the place of a part of the target of a SQL instance: 0 the project, 1 its id."""

    def put(draft: Draft, value: str) -> None:
        draft.target = instance_target(draft.target, value) if part else value

    def take(received: Received) -> str:
        return parse_instance_target(received.params.text("Target"))[part]

    return FieldPlace(put, take)


def _put_mode(draft: Draft, value: WriteMode) -> None:
    if draft.api_version >= 3:  # the first that has it (``docs/protocol.md`` section 3.12)
        draft.params.append(("WriteMode", value.value))


def _take_mode(received: Received) -> WriteMode:
    text = received.params.optional("WriteMode") or WriteMode.BATCH.value
    try:
        return WriteMode(text)
    except ValueError:
        raise in_request(f"WriteMode {text[:40]!r} is unknown") from None


def partition_member(name: str) -> FieldPlace:
    """Return the place of a partition as text."""
    return member(
        name,
        lambda fields, key: decode_partition(fields.text(key)),
        lambda spec: encode_partition(spec, separator="/"),
    )


def partition_param(name: str) -> FieldPlace:
    """Return the place of a partition that may be absent."""

    def read(params: Params, key: str) -> PartitionSpec | None:
        text = params.optional(key)
        return None if text is None else decode_partition(text)

    return param(name, read, lambda spec: encode_partition(spec, separator=","))


def text_or_none(value: str | None) -> str:
    """Write an absent text as an empty one."""
    return value or ""


def no(fields: Fields, key: str) -> bool:
    """Return a boolean member; absent means false."""
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
    """Return the fields of a request or an answer with their places."""
    names = kind.__init__.__globals__  # functions in annotations need those of their module
    hints = get_type_hints(kind, names, include_extras=True)
    return tuple((one.name, hints[one.name].__metadata__) for one in fields_of(kind))


def fill(draft: Draft, value: Any) -> Draft:
    """Write all fields of a request or an answer."""
    kind: Any = type(value)
    for name, places in _places_of(kind):
        for place in places:
            place.put(draft, getattr(value, name))
    return draft


def read_fields(kind: Any, received: Received) -> Any:
    """Make a request or an answer of what was received."""
    values = {}
    for name, places in _places_of(kind):
        found = (place.take(received) for place in places)
        values[name] = next((value for value in found if value is not None), None)
    return kind(**values)


class StorageCall:
    """Base class of the requests of the Storage API."""

    __slots__ = ()
    ACTION: ClassVar[str]
    METHOD: ClassVar[str] = "POST"
    CONTENT_TYPE: ClassVar[str] = JSON_TYPE
    """Of the body; one that is not JSON is sent by the caller."""

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
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
