"""Write sessions as values (``docs/protocol.md`` sections 3.5 to 3.7, 3.10, 7.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from odps_nb.terms import PartitionSpec, TableName, WriteMode
from odps_nb.wire.calls.answers import EmptyAnswer
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
from odps_nb.wire.calls.write_answers import (
    WriteSchemaAnswer,
    WriteSessionAnswer,
    WriteSessionStateAnswer,
)
from odps_nb.wire.json_fields import in_request


def mode_params(mode: WriteMode, api_version: int) -> Pairs:
    """Spell ``WriteMode``: only version 3 has it (``docs/protocol.md`` section 3.12)."""
    return (("WriteMode", mode.value),) if api_version >= 3 else ()


def decode_mode(params: Params) -> WriteMode:
    """Decode ``WriteMode``; absent means Batch."""
    text = params.optional("WriteMode") or WriteMode.BATCH.value
    try:
        return WriteMode(text)
    except ValueError:
        raise in_request(f"WriteMode {text[:40]!r} is unknown") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWriteSession:
    """Begin a transaction on a table, or on the partitions under ``partition``.

    ``overwrite`` replaces the target at commit. ``flags`` are further ``Flags`` members.
    """

    ACTION: ClassVar[str] = "TableCreateWriteSession"
    idempotent: ClassVar[bool] = True  # an uncommitted session changes nothing

    table: TableName
    partition: PartitionSpec = field(default_factory=PartitionSpec)
    overwrite: bool = False
    flags: Pairs = ()
    write_mode: WriteMode = WriteMode.BATCH

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        flags = ({"overwrite": "true"} if self.overwrite else {}) | dict(self.flags)
        return storage_request(
            self.ACTION,
            table_target(self.table),
            mode_params(self.write_mode, api_version),
            api_version=api_version,
            scope=scope,
            body={
                "PartialPartitionSpec": encode_partition(self.partition, separator="/"),
                "Flags": flags,
            },
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> CreateWriteSession:
        """Decode the request; ``overwrite`` may be text or a JSON boolean."""
        params, fields = Params(wire), request_fields(wire)
        flags = fields.inner("Flags")
        return cls(
            table=params.table,
            partition=decode_partition(fields.text("PartialPartitionSpec")),
            overwrite=flags.boolean("overwrite", default=False),
            flags=tuple((key, flags.text(key)) for key in flags if key != "overwrite"),
            write_mode=decode_mode(params),
        )

    decode_answer = staticmethod(WriteSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWriteSession:
    """Get the streams of a write session."""

    ACTION: ClassVar[str] = "TableGetWriteSession"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    write_mode: WriteMode = WriteMode.BATCH

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (("SessionId", self.session_id), *mode_params(self.write_mode, api_version)),
            api_version=api_version,
            scope=scope,
            body={},
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> GetWriteSession:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            write_mode=decode_mode(params),
        )

    decode_answer = staticmethod(WriteSessionStateAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWriteSession:
    """Commit the named (stream id, version) pairs, or all closed streams."""

    ACTION: ClassVar[str] = "TableCommitWriteSession"
    idempotent: ClassVar[bool] = False  # after a lost answer, get the session's state

    table: TableName
    session_id: str
    streams: tuple[tuple[str, int], ...] = ()
    route_token: str | None = None
    write_mode: WriteMode = WriteMode.BATCH

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        body: dict[str, object] = {}
        if self.streams:
            body["StreamIds"] = [stream_id for stream_id, _ in self.streams]
            body["StreamVersions"] = [version for _, version in self.streams]
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
    def decode(cls, wire: WireRequest) -> CommitWriteSession:
        """Decode the request; the two lists must be equally long."""
        params, fields = Params(wire), request_fields(wire)
        ids, versions = fields.texts("StreamIds"), fields.integers("StreamVersions")
        if len(ids) != len(versions):
            raise fields.fail("StreamIds", "and StreamVersions differ in length")
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            streams=tuple(zip(ids, versions, strict=True)),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
            write_mode=decode_mode(params),
        )

    decode_answer = staticmethod(EmptyAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortWriteSession:
    """Abort a write session; what was written into it is discarded."""

    ACTION: ClassVar[str] = "TableAbortWriteSession"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
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
            body={},
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> AbortWriteSession:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
            write_mode=decode_mode(params),
        )

    decode_answer = staticmethod(EmptyAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWriteSchema:
    """Get the column ids of the table of a write session."""

    ACTION: ClassVar[str] = "TableGetWriteSchema"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    route_token: str | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request; it has no write mode, not even in version 3."""
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (("SessionId", self.session_id),),
            api_version=api_version,
            scope=scope,
            headers=((ROUTE_TOKEN, self.route_token),),
            body={},
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> GetWriteSchema:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
        )

    decode_answer = staticmethod(WriteSchemaAnswer.decode)
