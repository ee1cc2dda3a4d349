"""Write streams and their rows as values (``docs/protocol.md`` sections 3.8, 3.9, 7.2, 7.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from odps_nb.terms import TableName, WriteMode
from odps_nb.wire.calls.answers import EmptyAnswer
from odps_nb.wire.calls.core import (
    ACCESS_TOKEN,
    NO_SCOPE,
    ROUTE_TOKEN,
    STREAM_TYPE,
    Params,
    Scope,
    WireRequest,
    find_header,
    request_fields,
    storage_request,
    table_target,
)
from odps_nb.wire.calls.write import decode_mode, mode_params
from odps_nb.wire.calls.write_answers import WriteRowsAnswer, WriteStreamAnswer
from odps_nb.wire.json_fields import Fields


def _stream_id(fields: Fields) -> str:
    # Some clients use numbers as stream ids.
    found = fields.loose_text("StreamId")
    if found is None:
        raise fields.fail("StreamId", "is missing")
    return found


def _version(fields: Fields) -> int:
    found = fields.loose_integer("StreamVersion")
    if found is not None and found < 0:
        raise fields.fail("StreamVersion", "is negative")
    return found or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWriteStream:
    """Open a write stream; a higher version of the same id replaces the lower ones.

    ``exactly_once`` makes the answer carry an access token, and every `WriteRows` an offset.
    """

    ACTION: ClassVar[str] = "TableCreateWriteStream"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    stream_id: str
    stream_version: int = 1
    exactly_once: bool = False
    route_token: str | None = None
    write_mode: WriteMode = WriteMode.BATCH

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        body: dict[str, object] = {
            "StreamId": self.stream_id,
            "StreamVersion": self.stream_version,
        }
        if self.exactly_once:
            body["ExactlyOnceMode"] = True
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (("SessionId", self.session_id), *mode_params(self.write_mode, api_version)),
            api_version=api_version,
            scope=scope,
            headers=((ROUTE_TOKEN, self.route_token),),
            body=body,
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> CreateWriteStream:
        """Decode the request."""
        params, fields = Params(wire), request_fields(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            stream_id=_stream_id(fields),
            stream_version=_version(fields),
            exactly_once=fields.boolean("ExactlyOnceMode", default=False),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
            write_mode=decode_mode(params),
        )

    decode_answer = staticmethod(WriteStreamAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWriteStream:
    """Get the state of a stream; with ``exactly_once``, its next offset and a new access token."""

    ACTION: ClassVar[str] = "TableGetWriteStream"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    stream_id: str
    stream_version: int = 1
    exactly_once: bool = False
    route_token: str | None = None
    write_mode: WriteMode = WriteMode.BATCH

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request; the body repeats the parameters."""
        body: dict[str, object] = {
            "StreamId": self.stream_id,
            "StreamVersion": self.stream_version,
        }
        if self.exactly_once:
            body["ExactlyOnceMode"] = True
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (
                ("SessionId", self.session_id),
                ("StreamId", self.stream_id),
                ("StreamVersion", str(self.stream_version)),
                *mode_params(self.write_mode, api_version),
                *((("ExactlyOnceMode", "true"),) if self.exactly_once else ()),
            ),
            api_version=api_version,
            scope=scope,
            headers=((ROUTE_TOKEN, self.route_token),),
            body=body,
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> GetWriteStream:
        """Decode the request; id and version are in the query, the body, or both.

        The C++ client sends them in the body alone; the Java client may send a GET without one.
        """
        params, fields = Params(wire), request_fields(wire)
        version = params.optional_integer("StreamVersion")
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            stream_id=params.optional("StreamId") or _stream_id(fields),
            stream_version=_version(fields) if version is None else version,
            exactly_once=params.flag("ExactlyOnceMode")
            or fields.boolean("ExactlyOnceMode", default=False),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
            write_mode=decode_mode(params),
        )

    decode_answer = staticmethod(WriteStreamAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseWriteStream:
    """Close a complete stream; only closed streams are committed."""

    ACTION: ClassVar[str] = "TableCloseWriteStream"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    stream_id: str
    stream_version: int = 1
    route_token: str | None = None
    write_mode: WriteMode = WriteMode.BATCH

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (("SessionId", self.session_id), *mode_params(self.write_mode, api_version)),
            api_version=api_version,
            scope=scope,
            headers=((ROUTE_TOKEN, self.route_token),),
            body={
                "SessionId": self.session_id,
                "StreamId": self.stream_id,
                "StreamVersion": self.stream_version,
            },
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> CloseWriteStream:
        """Decode the request."""
        params, fields = Params(wire), request_fields(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            stream_id=_stream_id(fields),
            stream_version=_version(fields),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
            write_mode=decode_mode(params),
        )

    decode_answer = staticmethod(EmptyAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRows:
    """Upload rows into a stream; the body, one whole Arrow IPC stream, is sent by the caller.

    ``count`` is the number of rows in the body, which the service does not check (live tests of
    pyodps send another one), ``row_offset`` their place in the stream (exactly-once streams only).
    """

    ACTION: ClassVar[str] = "TableWrite"

    table: TableName
    session_id: str
    stream_id: str
    stream_version: int
    count: int
    row_offset: int | None = None
    access_token: str | None = field(default=None, repr=False)
    route_token: str | None = None
    table_id: str | None = None
    schema_version: str | None = None
    write_mode: WriteMode = WriteMode.BATCH

    @property
    def idempotent(self) -> bool:
        """Only rows with an offset may be sent twice: the server recognises them by it."""
        return self.row_offset is not None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request, without its body."""
        params = [
            ("SessionId", self.session_id),
            ("StreamId", self.stream_id),
            ("StreamVersion", str(self.stream_version)),
            ("Count", str(self.count)),
            *mode_params(self.write_mode, api_version),
        ]
        if self.table_id is not None:
            params.append(("TableId", self.table_id))
        if self.schema_version is not None:
            params.append(("SchemaVersion", self.schema_version))
        if self.row_offset is not None:
            params.append(("RowOffset", str(self.row_offset)))
        return storage_request(
            self.ACTION,
            table_target(self.table),
            params,
            api_version=api_version,
            scope=scope,
            content_type=STREAM_TYPE,
            headers=((ROUTE_TOKEN, self.route_token), (ACCESS_TOKEN, self.access_token)),
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> WriteRows:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            stream_id=params.text("StreamId"),
            stream_version=params.optional_integer("StreamVersion") or 0,
            count=params.optional_integer("Count") or 0,
            row_offset=params.optional_integer("RowOffset"),
            access_token=find_header(wire.headers, ACCESS_TOKEN),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
            table_id=params.optional("TableId"),
            schema_version=params.optional("SchemaVersion"),
            write_mode=decode_mode(params),
        )

    decode_answer = staticmethod(WriteRowsAnswer.decode)
