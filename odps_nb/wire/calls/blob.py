"""Blob uploads and reads as values (``docs/protocol.md`` sections 6.1 and 6.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from odps_nb.errors import ArgumentError
from odps_nb.terms import BlobReference, Compression, PartitionSpec, TableName
from odps_nb.wire.calls.answers import parse_answer
from odps_nb.wire.calls.core import (
    HTTP_CODINGS,
    NO_SCOPE,
    ROUTE_TOKEN,
    STREAM_TYPE,
    Params,
    Scope,
    WireRequest,
    accepted_coding,
    content_coding,
    decode_partition,
    encode_partition,
    find_header,
    request_fields,
    storage_request,
    table_target,
)
from odps_nb.wire.json_fields import Fields, dump, in_request

BLOB_TARGET = "generic.blob"
MAX_REFERENCES = 100_000


def _references(fields: Fields, key: str) -> tuple[BlobReference, ...]:
    tokens = fields.texts(key)
    if len(tokens) > MAX_REFERENCES:
        raise fields.fail(key, f"has {len(tokens)} items, more than {MAX_REFERENCES}")
    return tuple(_reference(fields, key, token) for token in tokens)


def _reference(fields: Fields, key: str, token: str) -> BlobReference:
    try:
        return BlobReference.from_text(token)
    except ArgumentError as error:
        raise fields.fail(key, f"holds an item that is not a reference: {error.message}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlobAnswer:
    """Blobs were stored: one reference each, in order.

    ``size`` counts the bytes of all of them before compression; ``md5`` is lower-case hex and
    only there for a single upload.
    """

    references: tuple[BlobReference, ...]
    size: int | None = None
    md5: str | None = None
    warning: str = ""
    batch: bool = False

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers; only a single upload fills ``BlobReference``."""
        tokens = [reference.token for reference in self.references]
        members = {
            "BlobReference": "" if self.batch or not tokens else tokens[0],
            "BlobReferences": tokens,
            "Size": self.size,
            "MD5Value": self.md5 or "",
            "WarningMessage": self.warning,
        }
        return dump(members), {}

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> WriteBlobAnswer:
        """Decode an answer; the request checks the count."""
        fields = parse_answer(body, headers, "answer to TableWriteBlob")
        references = _references(fields, "BlobReferences")
        single = fields.optional_text("BlobReference")
        if single is not None and not references:
            references = (_reference(fields, "BlobReference", single),)
        digest = fields.optional_text("MD5Value")
        return cls(
            references=references,
            size=fields.optional_integer("Size"),
            md5=None if digest is None else digest.lower(),
            warning=fields.text("WarningMessage"),
            batch=single is None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlob:
    """Upload one blob; the body, its bare bytes, is sent by the caller.

    ``column_id`` is the id of the BLOB leaf in the write schema, not a position.
    """

    ACTION: ClassVar[str] = "TableWriteBlob"
    idempotent: ClassVar[bool] = True  # a blob that no row references is garbage, not data

    table: TableName
    session_id: str
    stream_id: str
    stream_version: int
    partition: PartitionSpec = field(default_factory=PartitionSpec)
    column_id: int
    compression: Compression = Compression.NONE
    route_token: str | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request, without its body; empty partition values are sent, too."""
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (
                ("SessionId", self.session_id),
                ("StreamId", self.stream_id),
                ("StreamVersion", str(self.stream_version)),
                ("PartitionValues", encode_partition(self.partition, separator=",")),
                ("ColumnIndex", str(self.column_id)),
            ),
            api_version=api_version,
            scope=scope,
            content_type=STREAM_TYPE,
            headers=(
                (ROUTE_TOKEN, self.route_token),
                ("Content-Encoding", HTTP_CODINGS.get(self.compression)),
            ),
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> WriteBlob:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            stream_id=params.text("StreamId"),
            stream_version=params.optional_integer("StreamVersion") or 0,
            partition=decode_partition(params.optional("PartitionValues") or ""),
            column_id=params.integer("ColumnIndex"),
            compression=content_coding(wire.headers),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
        )

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> WriteBlobAnswer:
        """Decode the answer; one without exactly one reference is a `FramingError`."""
        answer = WriteBlobAnswer.decode(body, headers)
        if len(answer.references) != 1:
            fields = parse_answer(body, headers, "answer to TableWriteBlob")
            raise fields.fail("BlobReference", f"names {len(answer.references)} blobs, not 1")
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlobBatch:
    """Upload many blobs in one request; the body, their frames, is sent by the caller."""

    ACTION: ClassVar[str] = "TableWriteBlob"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    stream_id: str
    stream_version: int
    compression: Compression = Compression.NONE
    route_token: str | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request, without its body."""
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (
                ("SessionId", self.session_id),
                ("StreamId", self.stream_id),
                ("StreamVersion", str(self.stream_version)),
                ("Mode", "Batch"),
            ),
            api_version=api_version,
            scope=scope,
            content_type=STREAM_TYPE,
            headers=(
                (ROUTE_TOKEN, self.route_token),
                ("Content-Encoding", HTTP_CODINGS.get(self.compression)),
            ),
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> WriteBlobBatch:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            stream_id=params.text("StreamId"),
            stream_version=params.optional_integer("StreamVersion") or 0,
            compression=content_coding(wire.headers),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
        )

    decode_answer = staticmethod(WriteBlobAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBlobs:
    """Read blobs: one reference gives bare bytes, more give frames.

    ``docs/protocol.md`` section 6.4.
    """

    ACTION: ClassVar[str] = "BlobRead"
    idempotent: ClassVar[bool] = True

    references: tuple[BlobReference, ...]
    compression: Compression = Compression.NONE

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        return storage_request(
            self.ACTION,
            BLOB_TARGET,
            api_version=api_version,
            scope=scope,
            headers=(("ACCEPT-ENCODING", HTTP_CODINGS.get(self.compression)),),
            body={"BlobReferences": [reference.token for reference in self.references]},
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> ReadBlobs:
        """Decode the request."""
        fields = request_fields(wire)
        if wire.target != BLOB_TARGET:
            raise in_request(f"Target of BlobRead is not {BLOB_TARGET}")
        return cls(
            references=_references(fields, "BlobReferences"),
            compression=accepted_coding(wire.headers),
        )
