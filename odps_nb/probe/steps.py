"""Requests that many questions share: read sessions, ranges, uploads.

Tables are passed by kind, as in `Question.needs`. Each function sends one request unless its
docstring states another number.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from odps_nb.probe.asking import Asker, Response
from odps_nb.probe.question import CannotTell
from odps_nb.wire.calls.core import HTTP_CODINGS
from odps_nb.wire.schema_json import WriteSchema, decode_nested

ROW_OFFSET: Mapping[str, object] = {"SplitMode": "RowOffset", "SplitNumber": 0}
SIZE: Mapping[str, object] = {
    "SplitMode": "Size",
    "SplitUnit": "ByteSize",
    "SplitNumber": 256 * 2**20,
    "CrossPartition": True,
}
STREAM = "s0"


def open_session(asker: Asker, table: str, *, may_deny: bool = False, **body: object) -> Response:
    """Create a read session and wait for it; split by rows unless ``SplitOptions`` is set."""
    request_body = {"SplitOptions": ROW_OFFSET, **body}
    response = asker.send("TableCreateReadSession", table, body=request_body, may_deny=may_deny)
    session = {"SessionId": response.members.get("SessionId")}
    return asker.ready(response, lambda: asker.send("TableGetReadSession", table, session).need())


def columns_of(members: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of each column in a session, data columns first."""
    schema = members.get("DataSchema") or {}
    listed = [*(schema.get("DataColumns") or []), *(schema.get("PartitionColumns") or [])]
    if not listed:
        raise CannotTell("the session has no columns")
    return {str(column.get("Name")): str(column.get("Type")).upper() for column in listed}


def counted_session(asker: Asker, table: str, **body: Any) -> tuple[str, int]:
    """Open a read session split by rows; return its id and row count."""
    members = open_session(asker, table, **body).need().members
    return str(members.get("SessionId")), int(members.get("RecordCount", -1))


def count(asker: Asker, table: str, **body: Any) -> int:
    """Return a table's current number of rows."""
    return counted_session(asker, table, **body)[1]


def read(
    asker: Asker,
    table: str,
    session: str,
    split: Mapping[str, object] | tuple[int, int],
    *,
    may_fail: bool = False,
    **body: Any,
) -> Response:
    """Read a split, or a row range passed as (offset, count)."""
    if isinstance(split, tuple):
        split = {"Offset": split[0], "Count": split[1]}
    headers = {"Accept-Encoding": ",".join(HTTP_CODINGS.values())}
    params = {"SessionId": session, **split}
    return asker.send(
        "TableRead", table, params, body, headers=headers, kind="rows", may_fail=may_fail
    )


def read_all(asker: Asker, table: str, **body: Any) -> pa.Table:
    """Read all rows of a small table with two requests."""
    session, rows = counted_session(asker, table, **body)
    if rows <= 0:
        raise CannotTell("the table has no rows")
    return read(asker, table, session, (0, rows)).table()


class ProbeUpload:
    """Opens a write session on a table and sends the requests for its streams."""

    def __init__(self, asker: Asker, table: str, partition: str = "", **flags: str) -> None:
        self._asker, self._table = asker, table
        body = {"PartialPartitionSpec": partition, "Flags": flags}
        response = asker.send("TableCreateWriteSession", table, body=body).need()
        self.session = str(response.members.get("SessionId"))

    def send(
        self,
        action: str,
        params: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        **more: Any,
    ) -> Response:
        """Send one request for the session."""
        params = {"SessionId": self.session, **(params or {})}
        return self._asker.send(action, self._table, params, body, **more)

    def open(self, stream: str = STREAM, **body: object) -> Response:
        """Open a stream."""
        request_body = {"StreamId": stream, "StreamVersion": 1, **body}
        return self.send("TableCreateWriteStream", body=request_body)

    def put(
        self,
        rows: pa.Table,
        *,
        stream: str = STREAM,
        token: str | None = None,
        offset: int | None = None,
    ) -> Response:
        """Send rows."""
        params: dict[str, object] = {"StreamId": stream, "StreamVersion": 1}
        params["Count"] = rows.num_rows
        if offset is not None:
            params["RowOffset"] = offset
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write(rows)
        return self.send(
            "TableWrite",
            params,
            data=sink.getvalue(),
            headers={"x-odps-max-storage-write-access-token": token},
            may_deny=token is not None,
        )

    def close(self, stream: str = STREAM) -> None:
        """Close a complete stream."""
        body = {"SessionId": self.session, "StreamId": stream, "StreamVersion": 1}
        self.send("TableCloseWriteStream", body=body).need()

    def commit(self, *streams: str) -> Response:
        """Commit the named streams; without names, the service chooses the streams."""
        named = {"StreamIds": streams, "StreamVersions": [1] * len(streams)} if streams else {}
        return self.send("TableCommitWriteSession", body=named)

    def finish(self) -> None:
        """Close the stream and commit the session, with two requests."""
        self.close()
        self.commit(STREAM).need()

    def schema(self) -> WriteSchema:
        """Return the write schema that the service expects."""
        members = self.send("TableGetWriteSchema").need().members
        return decode_nested(members.get("TableSchema") or {})


def written(
    asker: Asker, table: str, rows: pa.Table, partition: str = "", **flags: str
) -> ProbeUpload:
    """Upload rows in one stream and close the stream, with four requests."""
    upload = ProbeUpload(asker, table, partition, **flags)
    upload.open().need()
    upload.put(rows).need()
    upload.close()
    return upload


def load(asker: Asker, table: str, rows: pa.Table, partition: str = "", **flags: str) -> None:
    """Write rows and commit them, with five requests."""
    written(asker, table, rows, partition, **flags).commit(STREAM).need()
