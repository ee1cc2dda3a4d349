"""Requests and responses of the tunnel (``docs/protocol.md`` section 9.4).

Paths are below the tunnel endpoint. Sources: the requests of pyodps 0.13.2
(``tunnel/tabletunnel.py``, ``tunnel/instancetunnel.py``), recorded against the embedded service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from odps_nb.schema import Column, TableSchema
from odps_nb.terms import Compression, PartitionSpec, SessionStatus, TableName
from odps_nb.wire.calls.answers import parse_answer
from odps_nb.wire.calls.core import (
    NO_SCOPE,
    STREAM_TYPE,
    Pairs,
    Scope,
    WireRequest,
    encode_partition,
)
from odps_nb.wire.control.core import project_path
from odps_nb.wire.json_fields import Fields
from odps_nb.wire.type_text import read_type

VERSION = "6"
"""``x-odps-tunnel-version`` of pyodps 0.13.2."""
MAX_BLOCKS = 20_000
"""Blocks of one upload session, numbered from 0 (vendor's page *Overview of DTS*)."""
_HEADERS = (
    ("x-odps-tunnel-version", VERSION),
    ("odps-tunnel-date-transform", "v1"),
    ("odps-tunnel-sdk-support-schema-evolution", "true"),
)
_CODINGS = {Compression.ZSTD: "zstd", Compression.LZ4: "x-odps-lz4-frame"}
_STATES = {
    "NORMAL": SessionStatus.NORMAL,
    "INITIATING": SessionStatus.INIT,
    "EXPIRED": SessionStatus.EXPIRED,
    "CLOSES": SessionStatus.EXPIRED,
}


@dataclass(frozen=True, slots=True)
class TableOf:
    """A table, or one of its partitions, as the tunnel addresses it."""

    table: TableName
    partition: PartitionSpec = PartitionSpec()  # noqa: RUF009  a frozen value

    @property
    def path(self) -> str:
        """The path below the tunnel endpoint."""
        name = self.table
        schema = ("schemas", name.schema) if name.schema else ()
        return project_path(name.project, *schema, "tables", name.table)

    @property
    def params(self) -> Pairs:
        """The parameters that identify the partition."""
        spec = encode_partition(self.partition, separator=",")
        return (("partition", spec),) if spec else ()

    def __str__(self) -> str:
        return f"{self.table} ({self.partition})" if self.partition.items else str(self.table)


@dataclass(frozen=True, slots=True)
class ResultOf:
    """The result of a SQL instance, as the tunnel addresses it."""

    project: str
    instance_id: str

    @property
    def path(self) -> str:
        """The path below the tunnel endpoint."""
        return project_path(self.project, "instances", self.instance_id)

    @property
    def params(self) -> Pairs:
        """No parameters."""
        return ()

    def __str__(self) -> str:
        return f"the result of instance {self.instance_id}"


class _Of(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def params(self) -> Pairs: ...


def _request(
    of: _Of,
    params: Iterable[tuple[str, str]],
    scope: Scope,
    *,
    method: str,
    headers: Pairs = (),
    body: bytes | None = None,
) -> WireRequest:
    return WireRequest(
        method=method,
        path=of.path,
        params=(*params, *of.params, *scope.params),
        headers=(*_HEADERS, *headers),
        body=body,
    )


# -- responses --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadAnswer:
    """A download session: a snapshot of one table, partition or result.

    ``status`` may be a value that no client knows, such as a failure. ``schema`` lists the columns;
    rows contain no partition columns.
    """

    download_id: str
    status: SessionStatus | str
    record_count: int
    schema: TableSchema


def decode_download(body: bytes, headers: Mapping[str, str]) -> DownloadAnswer:
    """Decode the response to a request for a download session."""
    fields = parse_answer(body, headers, "download session")
    status = fields.text("Status").upper() or "NORMAL"
    count = fields.integer("RecordCount", -1)
    state = _STATES.get(status, status)
    if count < 0 and state is SessionStatus.NORMAL:
        raise fields.fail("RecordCount", "is missing or negative")
    return DownloadAnswer(
        download_id=fields.need_text("DownloadID"),
        status=state,
        record_count=max(0, count),
        schema=_schema(fields),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadAnswer:
    """An upload session; ``blocks`` are the numbers of the complete blocks.

    ``status`` is in lower case: ``normal``, ``closing``, ``closed``, ``canceled``, ``expired`` or
    ``critical``.
    """

    upload_id: str
    status: str
    blocks: frozenset[int]
    schema: TableSchema


def decode_upload(body: bytes, headers: Mapping[str, str]) -> UploadAnswer:
    """Decode the response to a request for an upload session."""
    fields = parse_answer(body, headers, "upload session")
    return UploadAnswer(
        upload_id=fields.need_text("UploadID"),
        status=fields.text("Status", "normal").lower(),
        blocks=frozenset(_block(one) for one in fields.inners("UploadedBlockList")),
        schema=_schema(fields),
    )


def _block(one: Fields) -> int:
    number = one.loose_integer("BlockID")
    if number is None or number < 0:
        raise one.fail("BlockID", "is missing or negative")
    return number


def _schema(fields: Fields) -> TableSchema:
    inner = fields.inner("Schema")
    return TableSchema(
        columns=_columns(inner, "columns"), partition_columns=_columns(inner, "partitionKeys")
    )


def _columns(fields: Fields, key: str) -> tuple[Column, ...]:
    return tuple(
        Column(
            name=one.need_text("name"),
            type=read_type(one.simple("type")),
            comment=one.text("comment"),
            nullable=one.boolean("nullable", default=True),
        )
        for one in fields.inners(key)
    )


def _stored(body: bytes, headers: Mapping[str, str]) -> None:
    """Check that a successful response does not contain an error."""
    if body.lstrip()[:1] == b"{":
        parse_answer(body, headers, "response to a block")


# -- downloads --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDownload:
    """Request for a new download session; its snapshot is the state at the time of the request.

    ``limited``: for a result, download at most its first 10,000 rows.
    """

    idempotent: ClassVar[bool] = True
    of: TableOf | ResultOf
    limited: bool = False

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        params = [("downloads", "")]
        if isinstance(self.of, TableOf):
            params.append(("asyncmode", "true"))
        elif self.limited:
            params.append(("instance_tunnel_limit_enabled", ""))
        return _request(self.of, params, scope, method="POST", body=b"")

    decode_answer = staticmethod(decode_download)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetDownload:
    """Request for the state of a download session."""

    idempotent: ClassVar[bool] = True
    of: TableOf | ResultOf
    download_id: str

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        return _request(self.of, [("downloadid", self.download_id)], scope, method="GET")

    decode_answer = staticmethod(decode_download)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDownload:
    """Request for the rows ``[offset, offset + count)`` of a download session, as Arrow.

    ``columns``: the data columns to send, in the table's order; empty for all. The request reads
    the session's snapshot even if rows were committed later (C++ tunnel, live tests:
    ``disable_modified_check``).
    """

    idempotent: ClassVar[bool] = True
    of: TableOf | ResultOf
    download_id: str
    offset: int
    count: int
    columns: tuple[str, ...] = ()
    compression: Compression = Compression.NONE

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        params = [
            ("data", ""),
            ("downloadid", self.download_id),
            ("rowrange", f"({self.offset},{self.count})"),
        ]
        if self.columns:
            params.append(("columns", ",".join(self.columns)))
        if isinstance(self.of, TableOf):
            params.append(("disable_modified_check", "true"))
        params.append(("arrow", ""))
        coding = _CODINGS.get(self.compression)
        headers = () if coding is None else (("Accept-Encoding", coding),)
        return _request(self.of, params, scope, method="GET", headers=headers)


# -- uploads ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenUpload:
    """Request for a new upload session for a table without partitions, or for one partition.

    The partition is created if it is missing. ``overwrite``: the commit replaces all rows.
    """

    idempotent: ClassVar[bool] = True  # an unused session expires
    of: TableOf
    overwrite: bool = False

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        params = [("uploads", "1")]
        if self.of.partition.items:
            params.append(("create_partition", "true"))
        if self.overwrite:
            params.append(("overwrite", "true"))
        return _request(self.of, params, scope, method="POST", body=b"")

    decode_answer = staticmethod(decode_upload)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetUpload:
    """Request for the state of an upload session."""

    idempotent: ClassVar[bool] = True
    of: TableOf
    upload_id: str

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        return _request(self.of, [("uploadid", self.upload_id)], scope, method="GET")

    decode_answer = staticmethod(decode_upload)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadBlock:
    """Request whose body is one block of rows as Arrow; replaces an earlier block with this number.

    ``compression``: content coding of the body.
    """

    idempotent: ClassVar[bool] = True
    of: TableOf
    upload_id: str
    block: int
    compression: Compression = Compression.NONE

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request, without its body."""
        params = [("uploadid", self.upload_id), ("blockid", str(self.block)), ("arrow", "")]
        coding = _CODINGS.get(self.compression)
        coded: Pairs = () if coding is None else (("Content-Encoding", coding),)
        headers = (("Content-Type", STREAM_TYPE), *coded)
        return _request(self.of, params, scope, method="PUT", headers=headers)

    decode_answer = staticmethod(_stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitUpload:
    """Request that makes the rows of all blocks of an upload session visible."""

    idempotent: ClassVar[bool] = False
    of: TableOf
    upload_id: str

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        return _request(self.of, [("uploadid", self.upload_id)], scope, method="POST", body=b"")

    decode_answer = staticmethod(decode_upload)
