"""Raw write calls to the service over its socket, written as the other clients write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from odps_nb.client.calls.storage import StorageClient
from odps_nb.terms import Compression, PartitionSpec, TableName
from odps_nb.wire import calls
from tests.support.arrow_bodies import ipc


@dataclass(frozen=True)
class Raw:
    """A request with a different body or fewer parameters; its response is the unchanged JSON."""

    request: Any
    body: Mapping[str, object] | None = None
    without: tuple[str, ...] = ()

    idempotent = True

    def encode(self, api_version: int = 2, *, scope: calls.Scope) -> calls.WireRequest:
        wire = self.request.encode(api_version, scope=scope)
        body = wire.body if self.body is None else json.dumps(self.body).encode()
        params = tuple(pair for pair in wire.params if pair[0] not in self.without)
        return replace(wire, body=body, params=params)

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> Any:
        return json.loads(body) if body else {}


@dataclass
class Writer:
    """Communicates with the service about one table."""

    storage: StorageClient
    table: TableName

    def call(self, kind: type, **members: Any) -> Any:
        return self.storage.call(kind(table=self.table, **members))

    def raw(
        self, kind: type, body: Mapping[str, object] | None = None, *without: str, **members: Any
    ) -> Any:
        return self.storage.call(Raw(kind(table=self.table, **members), body, without))

    def begin(self, partition: str = "", *, overwrite: bool = False) -> str:
        made = self.call(
            calls.CreateWriteSession, partition=PartitionSpec.of(partition), overwrite=overwrite
        )
        return made.session_id

    def stream(self, session: str, name: str = "0", version: int = 1) -> calls.WriteStreamAnswer:
        return self.call(
            calls.CreateWriteStream, session_id=session, stream_id=name, stream_version=version
        )

    def send(
        self,
        session: str,
        *tables: pa.Table,
        name: str = "0",
        version: int = 1,
        count: int | None = None,
        codec: str | None = None,
    ) -> calls.WriteRowsAnswer:
        """Upload one body with a batch for each table."""
        request = calls.WriteRows(
            table=self.table,
            session_id=session,
            stream_id=name,
            stream_version=version,
            count=sum(t.num_rows for t in tables) if count is None else count,
        )
        with self.storage.upload(request) as upload:
            upload.write(ipc(*tables, compression=codec))
            return upload.finish()

    def close(self, session: str, name: str = "0", version: int = 1) -> None:
        self.call(
            calls.CloseWriteStream, session_id=session, stream_id=name, stream_version=version
        )

    def whole(self, session: str, *tables: pa.Table, name: str = "0", version: int = 1) -> None:
        """Open a stream, write to it, and close it."""
        self.stream(session, name, version)
        self.send(session, *tables, name=name, version=version)
        self.close(session, name, version)

    def commit(self, session: str, *streams: tuple[str, int]) -> None:
        self.call(calls.CommitWriteSession, session_id=session, streams=streams)

    def blob(self, session: str, data: bytes, column_id: int, partition: str = "") -> Any:
        request = calls.WriteBlob(
            table=self.table,
            session_id=session,
            stream_id="0",
            stream_version=1,
            column_id=column_id,
            partition=PartitionSpec.of(partition),
        )
        with self.storage.upload(request) as upload:
            upload.write(data)
            return upload.finish()

    def blob_frames(self, session: str, body: bytes) -> Any:
        request = calls.WriteBlobBatch(
            table=self.table,
            session_id=session,
            stream_id="0",
            stream_version=1,
            compression=Compression.NONE,
        )
        with self.storage.upload(request) as upload:
            upload.write(body)
            return upload.finish()
