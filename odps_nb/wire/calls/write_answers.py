"""Answers to write calls as values (``docs/protocol.md`` sections 3.5 to 3.10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odps_nb.schema import TableSchema
from odps_nb.wire.calls.answers import parse_answer
from odps_nb.wire.calls.core import ROUTE_TOKEN, find_header
from odps_nb.wire.json_fields import Fields, dump
from odps_nb.wire.schema_json import WriteSchema, decode_nested, encode_nested


def _empty_schema() -> WriteSchema:
    return WriteSchema(schema=TableSchema())


def _route(token: str | None) -> dict[str, str]:
    return {ROUTE_TOKEN: token} if token else {}


def _schema(fields: Fields) -> WriteSchema:
    return decode_nested(fields.mapping("TableSchema") or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionAnswer:
    """A write session was created."""

    session_id: str
    warning: str = ""
    route_token: str | None = None

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers."""
        members = {"SessionId": self.session_id, "WarningMessage": self.warning}
        return dump(members), _route(self.route_token)

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> WriteSessionAnswer:
        """Decode an answer; one without a session id is a `FramingError`."""
        fields = parse_answer(body, headers, "answer to TableCreateWriteSession")
        return cls(
            session_id=fields.need_text("SessionId"),
            warning=fields.text("WarningMessage"),
            route_token=find_header(headers, ROUTE_TOKEN),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionStateAnswer:
    """The closed streams of a write session: stream id -> highest closed version.

    A staging id is opaque text of the service.
    """

    streams: Mapping[str, int] = field(default_factory=dict)
    warning: str = ""
    min_uncommitted_staging_id: str | None = None
    status: str | None = None
    route_token: str | None = None

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers."""
        members: dict[str, object] = {
            "Streams": dict(self.streams),
            "WarningMessage": self.warning,
            "MinUncommittedStagingId": self.min_uncommitted_staging_id,
        }
        if self.status is not None:
            members["SessionStatus"] = self.status
        return dump(members), _route(self.route_token)

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> WriteSessionStateAnswer:
        """Decode an answer."""
        fields = parse_answer(body, headers, "answer to TableGetWriteSession")
        streams = fields.inner("Streams")
        return cls(
            streams={key: streams.integer(key) for key in streams},
            warning=fields.text("WarningMessage"),
            min_uncommitted_staging_id=fields.loose_text("MinUncommittedStagingId"),
            status=fields.optional_text("SessionStatus"),
            route_token=find_header(headers, ROUTE_TOKEN),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStreamAnswer:
    """A write stream: its schema and its state.

    ``row_offset`` is the next offset of an exactly-once stream, ``record_count`` the rows
    that it holds, ``byte_size`` their bytes; each ``None`` where the answer lacks it.
    """

    schema: WriteSchema = field(default_factory=_empty_schema)
    table_id: str | None = None
    schema_version: str | None = None
    access_token: str | None = field(default=None, repr=False)
    quota_token: str | None = field(default=None, repr=False)
    row_offset: int | None = None
    record_count: int | None = None
    byte_size: int | None = None
    status: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    latest_schema_version: str | None = None
    route_token: str | None = None

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers, with both spellings of state and row count.

        ``docs/protocol.md`` section 3.8.
        """
        members: dict[str, object] = {
            "TableSchema": encode_nested(self.schema),
            "TableId": self.table_id,
            "SchemaVersion": self.schema_version,
            "AccessToken": self.access_token or "",
            "QuotaToken": self.quota_token or "",
            "WarningMessage": "",
            "status": 1,
            "Status": self.status or "NORMAL",
            "recordCount": self.record_count,
            "RecordCount": self.record_count,
            "ByteSize": self.byte_size,
            "ErrorCode": self.error_code,
            "ErrorMessage": self.error_message,
            "LatestSchemaVersion": self.latest_schema_version or self.schema_version,
            "RowOffset": self.row_offset,
        }
        return dump(members), _route(self.route_token)

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> WriteStreamAnswer:
        """Decode the answer to a create or a get."""
        fields = parse_answer(body, headers, "answer about a write stream")
        count = "recordCount" if "recordCount" in fields else "RecordCount"
        return cls(
            schema=_schema(fields),
            table_id=fields.loose_text("TableId"),
            schema_version=fields.loose_text("SchemaVersion"),
            access_token=fields.header_text("AccessToken"),
            quota_token=fields.optional_text("QuotaToken"),
            row_offset=fields.loose_integer("RowOffset"),
            record_count=fields.optional_integer(count),
            byte_size=fields.optional_integer("ByteSize"),
            status=fields.loose_text("Status") or fields.loose_text("status"),
            error_code=fields.loose_text("ErrorCode"),
            error_message=fields.optional_text("ErrorMessage"),
            latest_schema_version=fields.loose_text("LatestSchemaVersion"),
            route_token=find_header(headers, ROUTE_TOKEN),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSchemaAnswer:
    """The write schema of a table."""

    schema: WriteSchema

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers."""
        return dump({"TableSchema": encode_nested(self.schema)}), {}

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> WriteSchemaAnswer:
        """Decode an answer."""
        return cls(schema=_schema(parse_answer(body, headers, "answer to TableGetWriteSchema")))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRowsAnswer:
    """Rows were stored; ``row_offset`` is the next offset of an exactly-once stream.

    ``staging_id`` is opaque text of the service.
    """

    commit_message: str = ""
    row_offset: int | None = None
    staging_id: str | None = None
    warning: str = ""
    route_token: str | None = None

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers."""
        members: dict[str, object] = {
            "WarningMessage": self.warning,
            "CommitMessage": self.commit_message,
        }
        if self.row_offset is not None:
            members["ExactlyOnceRowOffset"] = self.row_offset
        if self.staging_id is not None:
            members["StagingId"] = self.staging_id
        return dump(members), _route(self.route_token)

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> WriteRowsAnswer:
        """Decode an answer; all members may be absent."""
        fields = parse_answer(body, headers, "answer to TableWrite")
        return cls(
            commit_message=fields.text("CommitMessage"),
            row_offset=fields.loose_integer("ExactlyOnceRowOffset"),
            staging_id=fields.loose_text("StagingId"),
            warning=fields.text("WarningMessage"),
            route_token=find_header(headers, ROUTE_TOKEN),
        )
