"""The BatchCompatible block protocol as values (``docs/protocol.md`` section 7.5).

A second way to write: blocks with attempts, and a commit by their messages. It shares action
names with ``calls.write`` and is told apart by ``WriteMode=BatchCompatible``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec, SessionStatus, TimeUnit, WriteMode
from odps_nb.wire.calls.answers import FlatSchema, Status, StorageAnswer
from odps_nb.wire.calls.core import Params
from odps_nb.wire.calls.spelling import (
    RouteToken,
    SessionId,
    StorageCall,
    Table,
    fixed_member,
    fixed_param,
    member,
    no,
    param,
    partition_member,
)
from odps_nb.wire.json_fields import Fields

ARROW_TYPE = "application/vnd.apache.arrow.stream"
# This protocol has its write mode in version 2, too.
_Table = Annotated[Table, fixed_param("WriteMode", WriteMode.BATCH_COMPATIBLE.value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSessionAnswer(StorageAnswer):
    """State of a block session; blocks are numbered from 0 to under ``max_block_number``."""

    WHAT: ClassVar[str] = "answer about a block session"

    session_id: Annotated[str | None, member("SessionId", Fields.optional_text)] = None
    status: Status = SessionStatus.NORMAL
    schema: FlatSchema = field(default_factory=TableSchema)
    max_block_number: Annotated[
        int, member("MaxBlockNumber", lambda fields, key: fields.integer(key, 20_000))
    ] = 20_000
    enhance_write_check: Annotated[bool, member("EnhanceWriteCheck", no)] = False
    message: Annotated[str, member("Message", Fields.text)] = ""
    route_token: RouteToken = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlockAnswer(StorageAnswer):
    """A block was stored; pass ``commit_message`` to the commit unchanged."""

    WHAT: ClassVar[str] = "answer to TableWrite of a block"

    commit_message: Annotated[str, member("CommitMessage", Fields.need_text)]
    record_count: Annotated[int, member("RecordCount", Fields.integer)] = 0
    route_token: RouteToken = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBlockSession(StorageCall):
    """Begin a transaction that is written in blocks; ``max_field_size`` is in bytes."""

    ACTION: ClassVar[str] = "TableCreateWriteSession"
    idempotent: ClassVar[bool] = True

    table: Annotated[_Table, fixed_param("enableQuotaToken", "true")]
    partition: Annotated[PartitionSpec, partition_member("PartitionSpec")] = field(
        default_factory=PartitionSpec
    )
    overwrite: Annotated[
        bool,
        member("Overwrite", no),
        fixed_member("DynamicPartitionOptions.InvalidStrategy", "Exception"),
        fixed_member("DynamicPartitionOptions.InvalidLimit", -1),
    ] = False
    dynamic_partition_limit: Annotated[
        int,
        member(
            "DynamicPartitionOptions.DynamicPartitionLimit",
            lambda fields, key: fields.integer(key, -1),
        ),
        fixed_member("ArrowOptions.TimestampUnit", TimeUnit.NANO.value),
        fixed_member("ArrowOptions.DatetimeUnit", TimeUnit.MILLI.value),
        fixed_member("SupportWriteCluster", False),
    ] = -1
    max_field_size: Annotated[int, member("MaxFieldSize", Fields.integer)] = 0
    enhance_write_check: Annotated[
        bool,
        member("EnhanceWriteCheck", no),
        fixed_member("SupportSaveToPangu", False),
    ] = False

    decode_answer = staticmethod(BlockSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBlockSession(StorageCall):
    """Get the state of a block session."""

    ACTION: ClassVar[str] = "TableGetWriteSession"
    idempotent: ClassVar[bool] = True

    table: _Table
    session_id: SessionId
    route_token: RouteToken = None

    decode_answer = staticmethod(BlockSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlock(StorageCall):
    """Upload one attempt of one block; the body, an Arrow IPC stream, is sent by the caller."""

    ACTION: ClassVar[str] = "TableWrite"
    CONTENT_TYPE: ClassVar[str] = ARROW_TYPE
    idempotent: ClassVar[bool] = False  # a second try takes a new attempt number

    table: _Table
    session_id: SessionId
    block_number: Annotated[int, param("BlockNumber", Params.integer)]
    attempt_number: Annotated[int, param("AttemptNumber", Params.integer)]
    quota_token: Annotated[
        str, param("quotaToken", lambda params, key: params.optional(key) or "")
    ] = field(repr=False)
    route_token: RouteToken = None

    decode_answer = staticmethod(WriteBlockAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBlocks(StorageCall):
    """Commit the blocks with these commit messages, which makes their rows visible."""

    ACTION: ClassVar[str] = "TableCommitWriteSession"
    idempotent: ClassVar[bool] = False

    table: _Table
    session_id: SessionId
    commit_messages: Annotated[tuple[str, ...], member("CommitMessages", Fields.texts)]
    route_token: RouteToken = None

    decode_answer = staticmethod(BlockSessionAnswer.decode)
