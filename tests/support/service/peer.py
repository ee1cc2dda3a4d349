"""A plain client of the embedded service: wire values over `requests`, without higher layers."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import requests

from odps_nb.errors import ServiceError
from odps_nb.local.server.launch import LocalService
from odps_nb.terms import (
    BlobReference,
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SplitMode,
    TableName,
)
from odps_nb.wire import calls, control
from odps_nb.wire.frames import (
    BlobData,
    BlobEnd,
    BlobStart,
    ChecksumKind,
    FrameHeader,
    encode_frame,
)
from odps_nb.wire.layers import BlobBodyDecoder
from odps_nb.wire.signing import Credentials, sign
from tests.support.arrow_bodies import ipc


@dataclass
class Peer:
    """Communicates with one service; raises the typed error of a rejection."""

    service: LocalService
    api_version: int = 2
    session: requests.Session = field(default_factory=requests.Session)
    access_key: str | None = None
    clock: Callable[[], float] = time.time

    @property
    def credentials(self) -> Credentials:
        key = self.access_key or self.service.access_key
        return Credentials(access_id=self.service.access_id, access_key=key)

    def table(self, name: str) -> TableName:
        return TableName.parse(name, project=self.service.project)

    def send(self, wire: calls.WireRequest, body: Any = None, **extra: str) -> requests.Response:
        rest = not wire.path.startswith("/api/")
        endpoint = self.service.endpoint if rest else self.service.tunnel_endpoint
        url = wire.url(endpoint)
        headers = dict(wire.headers) | extra
        headers |= self.signature(wire, endpoint, headers)
        if not any(header.lower() == "accept-encoding" for header in headers):
            headers["Accept-Encoding"] = "identity"
        data = wire.body if body is None else body
        request = requests.Request(wire.method, url, headers=headers, data=data).prepare()
        return self.session.send(request, stream=True, timeout=60)

    def signature(
        self, wire: calls.WireRequest, endpoint: str, headers: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        return sign(
            wire.method,
            wire.url(endpoint),
            headers or {},
            endpoint=endpoint,
            credentials=self.credentials,
            now=self.clock(),
        )

    def ok(self, wire: calls.WireRequest, body: Any = None, **extra: str) -> requests.Response:
        response = self.send(wire, body, **extra)
        if response.status_code >= 300:
            raise calls.decode_error(response.status_code, dict(response.headers), response.content)
        return response

    def call(self, request: Any, body: Any = None) -> Any:
        response = self.ok(request.encode(self.api_version), body)
        assert response.status_code == 200
        return request.decode_answer(response.content, dict(response.headers))

    # -- SQL ----------------------------------------------------------------------------------

    def start(self, text: str, settings: Mapping[str, str] | None = None) -> str:
        """Submit a statement; return the id of its instance."""
        submit = control.SubmitSql(
            project=self.service.project, sql=text, settings=dict(settings or {})
        )
        response = self.ok(submit.encode())
        return submit.decode_answer(response.content, dict(response.headers)).instance_id

    def wait(self, instance: str) -> control.InstanceStatus:
        """Wait for the end of an instance; return its status."""
        status = control.GetTaskStatus(project=self.service.project, instance_id=instance)
        while True:
            response = self.ok(status.encode())
            found = status.decode_answer(response.content, dict(response.headers))
            if found.is_over:
                return found
            time.sleep(0.02)  # the protocol offers only polling

    def sql(self, text: str, settings: Mapping[str, str] | None = None) -> control.InstanceStatus:
        instance = self.start(text, settings)
        found = self.wait(instance)
        (task,) = found.tasks
        if task.status != "Success":
            raise self.failure(instance)
        self.last_instance = instance
        return found

    def make_blob_table(self, name: str, definition: str) -> None:
        """Create a table with a BLOB column, with the properties and settings that it requires."""
        listed = ", ".join(f"'{k}'='{v}'" for k, v in control.BLOB_TABLE_PROPERTIES.items())
        self.sql(
            f"CREATE TABLE {name} {definition} TBLPROPERTIES ({listed});",
            control.BLOB_TABLE_SETTINGS,
        )

    def failure(self, instance: str) -> ServiceError:
        result = control.GetInstanceResult(project=self.service.project, instance_id=instance)
        response = self.ok(result.encode())
        (task,) = result.decode_answer(response.content, dict(response.headers)).tasks
        return control.query_error(task)

    def query(self, text: str, settings: Mapping[str, str] | None = None) -> pa.Table:
        self.sql(text, settings)
        project, instance = self.service.project, self.last_instance
        made = self.call(calls.CreateInstanceReadSession(project=project, instance_id=instance))
        read = calls.ReadInstance(
            project=project,
            instance_id=instance,
            session_id=made.download_id,
            offset=0,
            count=made.record_count,
        )
        return _without_zones(pa.ipc.open_stream(self.ok(read.encode()).content).read_all())

    # -- rows ---------------------------------------------------------------------------------

    def open_read(self, name: str, **options: Any) -> calls.ReadSessionAnswer:
        request = calls.CreateReadSession(table=self.table(name), **options)
        return self.call(request)

    def split(self, name: str, session_id: str, split: Any, **options: Any) -> pa.Table:
        request = calls.ReadRows(
            table=self.table(name), session_id=session_id, split=split, **options
        )
        return pa.ipc.open_stream(self.ok(request.encode()).content).read_all()

    def read(self, name: str, **options: Any) -> pa.Table:
        """Read all rows of a table."""
        options.setdefault("split_mode", SplitMode.ROW_OFFSET)
        session = self.open_read(name, **options)
        if session.split_mode is SplitMode.ROW_OFFSET:
            split = RowRangeSplit(0, session.record_count)
            return self.split(name, session.session_id, split)
        parts = [
            self.split(name, session.session_id, IndexSplit(i)) for i in range(session.splits_count)
        ]
        return pa.concat_tables(parts)

    def write(
        self, name: str, table: pa.Table, *, partition: str = "", overwrite: bool = False
    ) -> None:
        session = self.open_write(name, partition=partition, overwrite=overwrite)
        self.open_stream(name, session, "0")
        self.put(name, session, "0", table)
        self.close_stream(name, session, "0")
        self.commit(name, session)

    def open_write(self, name: str, *, partition: str = "", overwrite: bool = False) -> str:
        request = calls.CreateWriteSession(
            table=self.table(name), partition=PartitionSpec.of(partition), overwrite=overwrite
        )
        return self.call(request).session_id

    def open_stream(
        self, name: str, session: str, stream: str, version: int = 1, *, exactly_once: bool = False
    ) -> calls.WriteStreamAnswer:
        request = calls.CreateWriteStream(
            table=self.table(name),
            session_id=session,
            stream_id=stream,
            stream_version=version,
            exactly_once=exactly_once,
        )
        return self.call(request)

    def put(
        self,
        name: str,
        session: str,
        stream: str,
        table: pa.Table,
        version: int = 1,
        *,
        count: int | None = None,
        row_offset: int | None = None,
        token: str | None = None,
        body: bytes | None = None,
    ) -> calls.WriteRowsAnswer:
        request = calls.WriteRows(
            table=self.table(name),
            session_id=session,
            stream_id=stream,
            stream_version=version,
            count=table.num_rows if count is None else count,
            row_offset=row_offset,
            access_token=token,
        )
        return self.call(request, ipc(table) if body is None else body)

    def close_stream(self, name: str, session: str, stream: str, version: int = 1) -> None:
        request = calls.CloseWriteStream(
            table=self.table(name), session_id=session, stream_id=stream, stream_version=version
        )
        self.call(request)

    def commit(self, name: str, session: str, *streams: tuple[str, int]) -> None:
        request = calls.CommitWriteSession(
            table=self.table(name), session_id=session, streams=streams
        )
        self.call(request)

    def abort(self, name: str, session: str) -> None:
        self.call(calls.AbortWriteSession(table=self.table(name), session_id=session))

    # -- blobs --------------------------------------------------------------------------------

    def put_blob(
        self,
        name: str,
        session: str,
        stream: str,
        data: bytes,
        *,
        column_id: int,
        coding: Compression = Compression.NONE,
    ) -> calls.WriteBlobAnswer:
        request = calls.WriteBlob(
            table=self.table(name),
            session_id=session,
            stream_id=stream,
            stream_version=1,
            column_id=column_id,
            compression=coding,
        )
        return self.call(request, data)

    def put_blobs(
        self,
        name: str,
        session: str,
        stream: str,
        blobs: list[tuple[bytes, FrameHeader]],
        checksum: ChecksumKind = ChecksumKind.CRC32,
    ) -> calls.WriteBlobAnswer:
        request = calls.WriteBlobBatch(
            table=self.table(name), session_id=session, stream_id=stream, stream_version=1
        )
        body = b"".join(encode_frame(data, header, checksum=checksum) for data, header in blobs)
        return self.call(request, body)

    def blobs(
        self, references: list[BlobReference], coding: Compression = Compression.NONE
    ) -> list[tuple[bytes, str | None, str | None]]:
        request = calls.ReadBlobs(references=tuple(references), compression=coding)
        response = self.ok(request.encode(self.api_version))
        decoder = BlobBodyDecoder(response.headers.get("Content-Encoding"), len(references))
        body = response.raw.read(decode_content=False)
        found: list[tuple[bytes, str | None, str | None]] = []
        for event in [*decoder.feed(body), *decoder.feed_eof()]:
            if isinstance(event, BlobStart):
                start_event, data = event, bytearray()
            elif isinstance(event, BlobData):
                data += event.data
            elif isinstance(event, BlobEnd):
                found.append((bytes(data), start_event.content_type, start_event.custom_file_name))
        return found


_numbers = itertools.count()


def make_table(peer: Peer, definition: str) -> str:
    """Create a table with a new name; return the name."""
    name = f"t{int(time.time() * 1e6)}_{next(_numbers)}"
    if re.search(r"\bblob\b", definition):
        peer.make_blob_table(name, definition)
    else:
        peer.sql(f"CREATE TABLE {name} {definition};")
    return name


def _without_zones(rows: pa.Table) -> pa.Table:
    """Return rows without the zones of their columns, which are UTC whatever their name is."""
    for place, one in enumerate(rows.schema):
        if pa.types.is_timestamp(one.type) and one.type.tz:
            naive = one.with_type(pa.timestamp(one.type.unit))
            rows = rows.set_column(place, naive, rows.column(place).cast(naive.type))
    return rows
