"""The BatchCompatible block protocol as values (``docs/protocol.md`` section 7.5).

A second way to write: blocks with attempts, and a commit by their messages. It shares action
names with ``calls.write`` and is told apart by ``WriteMode=BatchCompatible``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec, SessionStatus, TableName, TimeUnit, WriteMode
from odps_nb.wire.calls.answers import parse_answer, parse_status
from odps_nb.wire.calls.core import (
    NO_SCOPE,
    ROUTE_TOKEN,
    Pairs,
    Params,
    Scope,
    WireRequest,
    decode_partition,
    encode_partition,
    find_header,
    request_fields,
    storage_request,
    table_target,
)
from odps_nb.wire.json_fields import dump
from odps_nb.wire.schema_json import decode_flat, encode_flat

ARROW_TYPE = "application/vnd.apache.arrow.stream"
_MODE = ("WriteMode", WriteMode.BATCH_COMPATIBLE.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSessionAnswer:
    """State of a block session; blocks are numbered from 0 to under ``max_block_number``."""

    session_id: str | None = None
    status: SessionStatus = SessionStatus.NORMAL
    schema: TableSchema = field(default_factory=TableSchema)
    max_block_number: int = 20_000
    enhance_write_check: bool = False
    message: str = ""
    route_token: str | None = None

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers."""
        members = {
            "SessionId": self.session_id,
            "SessionStatus": self.status.value,
            "DataSchema": encode_flat(self.schema),
            "MaxBlockNumber": self.max_block_number,
            "EnhanceWriteCheck": self.enhance_write_check,
            "Message": self.message,
        }
        return dump(members), {ROUTE_TOKEN: self.route_token} if self.route_token else {}

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> BlockSessionAnswer:
        """Decode the answer to create, get or commit; one without a status is a `FramingError`."""
        fields = parse_answer(body, headers, "answer about a block session")
        return cls(
            session_id=fields.optional_text("SessionId"),
            status=parse_status(fields, "SessionStatus"),
            schema=decode_flat(fields.mapping("DataSchema") or {}),
            max_block_number=fields.integer("MaxBlockNumber", 20_000),
            enhance_write_check=fields.boolean("EnhanceWriteCheck", default=False),
            message=fields.text("Message"),
            route_token=find_header(headers, ROUTE_TOKEN),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlockAnswer:
    """A block was stored; pass ``commit_message`` to the commit unchanged."""

    commit_message: str
    record_count: int = 0
    route_token: str | None = None

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers."""
        members = {"CommitMessage": self.commit_message, "RecordCount": self.record_count}
        return dump(members), {ROUTE_TOKEN: self.route_token} if self.route_token else {}

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> WriteBlockAnswer:
        """Decode an answer; one without a commit message is a `FramingError`."""
        fields = parse_answer(body, headers, "answer to TableWrite of a block")
        return cls(
            commit_message=fields.need_text("CommitMessage"),
            record_count=fields.integer("RecordCount"),
            route_token=find_header(headers, ROUTE_TOKEN),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBlockSession:
    """Begin a transaction that is written in blocks; ``max_field_size`` is in bytes."""

    ACTION: ClassVar[str] = "TableCreateWriteSession"
    idempotent: ClassVar[bool] = True

    table: TableName
    partition: PartitionSpec = field(default_factory=PartitionSpec)
    overwrite: bool = False
    dynamic_partition_limit: int = -1
    max_field_size: int = 0
    enhance_write_check: bool = False

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request; this one has its write mode in version 2, too."""
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (_MODE, ("enableQuotaToken", "true")),
            api_version=api_version,
            scope=scope,
            body={
                "PartitionSpec": encode_partition(self.partition, separator="/"),
                "Overwrite": self.overwrite,
                "DynamicPartitionOptions": {
                    "InvalidStrategy": "Exception",
                    "InvalidLimit": -1,
                    "DynamicPartitionLimit": self.dynamic_partition_limit,
                },
                "ArrowOptions": {
                    "TimestampUnit": TimeUnit.NANO.value,
                    "DatetimeUnit": TimeUnit.MILLI.value,
                },
                "SupportWriteCluster": False,
                "MaxFieldSize": self.max_field_size,
                "EnhanceWriteCheck": self.enhance_write_check,
                "SupportSaveToPangu": False,
            },
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> CreateBlockSession:
        """Decode the request."""
        fields = request_fields(wire)
        dynamic = fields.inner("DynamicPartitionOptions")
        return cls(
            table=Params(wire).table,
            partition=decode_partition(fields.text("PartitionSpec")),
            overwrite=fields.boolean("Overwrite", default=False),
            dynamic_partition_limit=dynamic.integer("DynamicPartitionLimit", -1),
            max_field_size=fields.integer("MaxFieldSize"),
            enhance_write_check=fields.boolean("EnhanceWriteCheck", default=False),
        )

    decode_answer = staticmethod(BlockSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBlockSession:
    """Get the state of a block session."""

    ACTION: ClassVar[str] = "TableGetWriteSession"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    route_token: str | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (_MODE, ("SessionId", self.session_id)),
            api_version=api_version,
            scope=scope,
            headers=((ROUTE_TOKEN, self.route_token),),
            body={},
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> GetBlockSession:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
        )

    decode_answer = staticmethod(BlockSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlock:
    """Upload one attempt of one block; the body, an Arrow IPC stream, is sent by the caller."""

    ACTION: ClassVar[str] = "TableWrite"
    idempotent: ClassVar[bool] = False  # a second try takes a new attempt number

    table: TableName
    session_id: str
    block_number: int
    attempt_number: int
    quota_token: str = field(repr=False)
    route_token: str | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request, without its body."""
        params: Pairs = (
            _MODE,
            ("SessionId", self.session_id),
            ("BlockNumber", str(self.block_number)),
            ("AttemptNumber", str(self.attempt_number)),
            ("quotaToken", self.quota_token),
        )
        return storage_request(
            self.ACTION,
            table_target(self.table),
            params,
            api_version=api_version,
            scope=scope,
            content_type=ARROW_TYPE,
            headers=((ROUTE_TOKEN, self.route_token),),
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> WriteBlock:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            block_number=params.integer("BlockNumber"),
            attempt_number=params.integer("AttemptNumber"),
            quota_token=params.optional("quotaToken") or "",
            route_token=find_header(wire.headers, ROUTE_TOKEN),
        )

    decode_answer = staticmethod(WriteBlockAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBlocks:
    """Commit the blocks with these commit messages, which makes their rows visible."""

    ACTION: ClassVar[str] = "TableCommitWriteSession"
    idempotent: ClassVar[bool] = False

    table: TableName
    session_id: str
    commit_messages: tuple[str, ...]
    route_token: str | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (_MODE, ("SessionId", self.session_id)),
            api_version=api_version,
            scope=scope,
            headers=((ROUTE_TOKEN, self.route_token),),
            body={"CommitMessages": list(self.commit_messages)},
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> CommitBlocks:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            commit_messages=request_fields(wire).texts("CommitMessages"),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
        )

    decode_answer = staticmethod(BlockSessionAnswer.decode)
