"""Reading the result of a SQL instance as values (``docs/protocol.md`` section 3.14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from odps_nb.schema import TableSchema
from odps_nb.terms import Compression, SessionStatus
from odps_nb.wire.calls.answers import parse_answer, parse_status
from odps_nb.wire.calls.core import (
    HTTP_CODINGS,
    NO_SCOPE,
    Params,
    Scope,
    WireRequest,
    accepted_coding,
    instance_target,
    parse_instance_target,
    request_fields,
    storage_request,
)
from odps_nb.wire.json_fields import Fields, dump
from odps_nb.wire.schema_json import decode_nested, encode_nested

DEFAULT_TASK = "AnonymousSQLTask"
LIMITED_RESULT_ROWS = 10_000
"""Rows of a result that a key may read which may not read all of its tables (vendor's manual)."""
# Statuses of the tunnel that the real service is reported to send here, too.
_TUNNEL_STATUS = {"INITIATING": SessionStatus.INIT, "CLOSES": SessionStatus.EXPIRED}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSessionAnswer:
    """The result of an instance: ``download_id`` is the session id of the calls that follow."""

    download_id: str
    status: SessionStatus = SessionStatus.NORMAL
    record_count: int | None = None
    schema: TableSchema = field(default_factory=TableSchema)
    owner: str = ""
    quota_name: str = ""

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers."""
        members = {
            "DownloadID": self.download_id,
            "Status": self.status.value,
            "RecordCount": -1 if self.record_count is None else self.record_count,
            "Owner": self.owner,
            "Initiated": "",
            "QuotaName": self.quota_name,
            "TableSchema": encode_nested(self.schema),
        }
        return dump(members), {}

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> InstanceSessionAnswer:
        """Decode an answer; one without a download id is a `FramingError`."""
        fields = parse_answer(body, headers, "answer about an instance session")
        records = fields.integer("RecordCount", -1)
        return cls(
            download_id=fields.need_text("DownloadID"),
            status=_status(fields),
            record_count=None if records < 0 else records,
            schema=decode_nested(fields.mapping("TableSchema") or {}).schema,
            owner=fields.text("Owner"),
            quota_name=fields.text("QuotaName"),
        )


def _status(fields: Fields) -> SessionStatus:
    text = fields.text("Status").upper()
    if not text:
        return SessionStatus.NORMAL
    return _TUNNEL_STATUS.get(text) or parse_status(fields, "Status")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInstanceReadSession:
    """Open a session on a finished instance's result.

    ``enable_limit`` caps it at `LIMITED_RESULT_ROWS`.
    """

    ACTION: ClassVar[str] = "InstanceCreateReadSession"
    idempotent: ClassVar[bool] = True

    project: str
    instance_id: str
    enable_limit: bool = False

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        return storage_request(
            self.ACTION,
            instance_target(self.project, self.instance_id),
            api_version=api_version,
            scope=scope,
            body={"EnableLimit": self.enable_limit},
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> CreateInstanceReadSession:
        """Decode the request."""
        project, instance_id = parse_instance_target(Params(wire).text("Target"))
        enable_limit = request_fields(wire).boolean("EnableLimit", default=False)
        return cls(project=project, instance_id=instance_id, enable_limit=enable_limit)

    decode_answer = staticmethod(InstanceSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInstanceReadSession:
    """Get the state of the session on the result of an instance (a GET)."""

    ACTION: ClassVar[str] = "InstanceGetReadSession"
    idempotent: ClassVar[bool] = True

    project: str
    instance_id: str
    session_id: str

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        return storage_request(
            self.ACTION,
            instance_target(self.project, self.instance_id),
            (("SessionId", self.session_id),),
            api_version=api_version,
            scope=scope,
            method="GET",
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> GetInstanceReadSession:
        """Decode the request, from a GET or a POST."""
        params = Params(wire)
        project, instance_id = parse_instance_target(params.text("Target"))
        return cls(project=project, instance_id=instance_id, session_id=params.text("SessionId"))

    decode_answer = staticmethod(InstanceSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInstance:
    """Open the Arrow stream of rows ``[offset, offset + count)`` of a result.

    ``count`` is ``None`` for all the rest. Without a ``session_id`` the rows of the query
    ``query_id`` of the instance are streamed, and their number is not known in advance.
    """

    ACTION: ClassVar[str] = "InstanceRead"
    idempotent: ClassVar[bool] = True

    project: str
    instance_id: str
    session_id: str | None
    offset: int = 0
    count: int | None = None
    columns: tuple[str, ...] = ()
    task_name: str = DEFAULT_TASK
    query_id: int = 0
    enable_limit: bool = False
    compression: Compression = Compression.NONE

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        return storage_request(
            self.ACTION,
            instance_target(self.project, self.instance_id),
            (
                *((("SessionId", self.session_id),) if self.session_id is not None else ()),
                *((("Count", str(self.count)),) if self.count is not None else ()),
                ("Offset", str(self.offset)),
            ),
            api_version=api_version,
            scope=scope,
            headers=(("ACCEPT-ENCODING", HTTP_CODINGS.get(self.compression)),),
            body={
                "TaskName": self.task_name,
                "QueryId": self.query_id,
                "EnableLimit": self.enable_limit,
                "Columns": list(self.columns),
            },
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> ReadInstance:
        """Decode the request."""
        params, fields = Params(wire), request_fields(wire)
        project, instance_id = parse_instance_target(params.text("Target"))
        return cls(
            project=project,
            instance_id=instance_id,
            session_id=params.optional("SessionId"),
            offset=params.optional_integer("Offset") or 0,
            count=params.optional_integer("Count"),
            columns=fields.texts("Columns"),
            task_name=fields.text("TaskName") or DEFAULT_TASK,
            query_id=fields.integer("QueryId"),
            enable_limit=fields.boolean("EnableLimit", default=False),
            compression=accepted_coding(wire.headers),
        )
