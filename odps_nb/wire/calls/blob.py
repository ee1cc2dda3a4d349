"""Requests to upload and read blobs (``docs/protocol.md`` sections 6.1 and 6.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from odps_nb.errors import ArgumentError
from odps_nb.terms import BlobReference, Compression, PartitionSpec
from odps_nb.wire.calls.answers import parse_answer
from odps_nb.wire.calls.core import (
    STREAM_TYPE,
    Params,
    decode_partition,
    encode_partition,
)
from odps_nb.wire.calls.spelling import (
    Accepted,
    Coded,
    Draft,
    FieldPlace,
    Received,
    RouteToken,
    SessionId,
    StorageCall,
    StreamId,
    StreamVersion,
    Table,
    fixed_param,
    member,
    param,
)
from odps_nb.wire.json_fields import Fields, dump, in_request

BLOB_TARGET = "generic.blob"
MAX_REFERENCES = 100_000


def _references(fields: Fields, key: str) -> tuple[BlobReference, ...]:
    tokens = fields.texts(key)
    if len(tokens) > MAX_REFERENCES:
        raise fields.fail(key, f"has {len(tokens)} items; the limit is {MAX_REFERENCES}")
    return tuple(_reference(fields, key, token) for token in tokens)


def _reference(fields: Fields, key: str, token: str) -> BlobReference:
    try:
        return BlobReference.from_text(token)
    except ArgumentError as error:
        raise fields.fail(key, f"has an item that is not a reference: {error.message}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlobAnswer:
    """The references of the stored blobs, in order.

    ``size`` is the total size of the blobs in bytes before compression. ``md5`` is lower-case hex
    and set only for a single upload.
    """

    references: tuple[BlobReference, ...]
    size: int | None = None
    md5: str | None = None
    warning: str = ""
    batch: bool = False

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers; only a single upload fills ``BlobReference``."""
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
        """Decode a response; the request's `decode_answer` checks the number of references."""
        fields = parse_answer(body, headers, "response to TableWriteBlob")
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
class WriteBlob(StorageCall):
    """Request to upload one blob; the caller sends the unframed bytes as the body.

    ``column_id`` is the BLOB leaf's id in the write schema, not a position. ``PartitionValues`` is
    sent even if the partition is empty.
    """

    ACTION: ClassVar[str] = "TableWriteBlob"
    CONTENT_TYPE: ClassVar[str] = STREAM_TYPE
    idempotent: ClassVar[bool] = True  # a blob that no row references is never visible

    table: Table
    session_id: SessionId
    stream_id: StreamId
    stream_version: StreamVersion
    partition: Annotated[
        PartitionSpec,
        param(
            "PartitionValues",
            lambda params, key: decode_partition(params.optional(key) or ""),
            lambda spec: encode_partition(spec, separator=","),
        ),
    ] = field(default_factory=PartitionSpec)
    column_id: Annotated[int, param("ColumnIndex", Params.integer)]
    route_token: RouteToken = None
    compression: Coded = Compression.NONE

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> WriteBlobAnswer:
        """Decode the response; raise `FramingError` unless it has exactly one reference."""
        answer = WriteBlobAnswer.decode(body, headers)
        if len(answer.references) != 1:
            fields = parse_answer(body, headers, "response to TableWriteBlob")
            raise fields.fail("BlobReference", f"names {len(answer.references)} blobs, not 1")
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlobBatch(StorageCall):
    """Request to upload many blobs at once; the caller sends the framed body."""

    ACTION: ClassVar[str] = "TableWriteBlob"
    CONTENT_TYPE: ClassVar[str] = STREAM_TYPE
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: SessionId
    stream_id: StreamId
    stream_version: Annotated[StreamVersion, fixed_param("Mode", "Batch")]
    route_token: RouteToken = None
    compression: Coded = Compression.NONE

    decode_answer = staticmethod(WriteBlobAnswer.decode)


def _put_target(draft: Draft, _: object) -> None:
    draft.target = BLOB_TARGET


def _check_target(received: Received) -> None:
    if received.params.optional("Target") != BLOB_TARGET:
        raise in_request(f"Target of BlobRead is not {BLOB_TARGET}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBlobs(StorageCall):
    """Request to read blobs: the response is unframed for one reference, framed for several.

    ``docs/protocol.md`` section 6.4.
    """

    ACTION: ClassVar[str] = "BlobRead"
    idempotent: ClassVar[bool] = True

    references: Annotated[
        tuple[BlobReference, ...],
        FieldPlace(_put_target, _check_target),
        member("BlobReferences", _references, lambda named: [one.token for one in named]),
    ]
    compression: Accepted = Compression.NONE
