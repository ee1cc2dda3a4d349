"""Requests that read a SQL instance's result (``docs/protocol.md`` section 3.14)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from odps_nb.schema import TableSchema
from odps_nb.terms import Compression, SessionStatus
from odps_nb.wire.calls.answers import StorageAnswer, optional_record_count, parse_status
from odps_nb.wire.calls.core import Params
from odps_nb.wire.calls.spelling import (
    Accepted,
    InstanceId,
    Project,
    SessionId,
    StorageCall,
    fixed_member,
    member,
    no,
    param,
)
from odps_nb.wire.json_fields import Fields
from odps_nb.wire.schema_json import decode_nested, encode_nested

DEFAULT_TASK = "AnonymousSQLTask"
LIMITED_RESULT_ROWS = 10_000
"""Maximum rows of a result if the caller may not download the queried tables (vendor's manual)."""
# The real service reportedly also sends these tunnel statuses.
_TUNNEL_STATUS = {"INITIATING": SessionStatus.INIT, "CLOSES": SessionStatus.EXPIRED}


def _status(fields: Fields, key: str) -> SessionStatus:
    text = fields.text(key).upper()
    if not text:
        return SessionStatus.NORMAL
    return _TUNNEL_STATUS.get(text) or parse_status(fields, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSessionAnswer(StorageAnswer):
    """A session on an instance's result; ``download_id`` is the session id for `ReadInstance`."""

    WHAT: ClassVar[str] = "instance session"

    download_id: Annotated[str, member("DownloadID", Fields.need_text)]
    status: Annotated[SessionStatus, member("Status", _status, lambda status: status.value)] = (
        SessionStatus.NORMAL
    )
    record_count: Annotated[int | None, optional_record_count()] = None
    owner: Annotated[str, member("Owner", Fields.text), fixed_member("Initiated", "")] = ""
    quota_name: Annotated[str, member("QuotaName", Fields.text)] = ""
    schema: Annotated[
        TableSchema,
        member(
            "TableSchema",
            lambda fields, key: decode_nested(fields.mapping(key) or {}).schema,
            encode_nested,
        ),
    ] = field(default_factory=TableSchema)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInstanceReadSession(StorageCall):
    """Request to open a session on a finished instance's result.

    ``enable_limit`` limits the result to `LIMITED_RESULT_ROWS` rows.
    """

    ACTION: ClassVar[str] = "InstanceCreateReadSession"
    idempotent: ClassVar[bool] = True

    project: Project
    instance_id: InstanceId
    enable_limit: Annotated[bool, member("EnableLimit", no)] = False

    decode_answer = staticmethod(InstanceSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInstanceReadSession(StorageCall):
    """Request for the state of a session on an instance's result (a GET)."""

    ACTION: ClassVar[str] = "InstanceGetReadSession"
    METHOD: ClassVar[str] = "GET"
    idempotent: ClassVar[bool] = True

    project: Project
    instance_id: InstanceId
    session_id: SessionId

    decode_answer = staticmethod(InstanceSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInstance(StorageCall):
    """Request to open the Arrow stream of a result's rows ``[offset, offset + count)``.

    ``count`` is ``None`` for all remaining rows. Without a ``session_id``, the service streams the
    rows of the instance's query ``query_id``; the number of rows is not known in advance.
    """

    ACTION: ClassVar[str] = "InstanceRead"
    idempotent: ClassVar[bool] = True

    project: Project
    instance_id: InstanceId
    session_id: Annotated[str | None, param("SessionId", Params.optional)]
    count: Annotated[int | None, param("Count", Params.optional_integer)] = None
    offset: Annotated[int, param("Offset", Params.count)] = 0
    task_name: Annotated[
        str, member("TaskName", lambda fields, key: fields.text(key) or DEFAULT_TASK)
    ] = DEFAULT_TASK
    query_id: Annotated[int, member("QueryId", Fields.integer)] = 0
    enable_limit: Annotated[bool, member("EnableLimit", no)] = False
    columns: Annotated[tuple[str, ...], member("Columns", Fields.texts)] = ()
    compression: Accepted = Compression.NONE
