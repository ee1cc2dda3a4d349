"""Requests shared by many questions: sessions, ranges, streams.

Each function sends one request unless its docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from odps_nb.probe.asking import CODINGS, Answer, Asker, ipc_bytes
from odps_nb.probe.question import CannotTell
from odps_nb.terms import TableName

ROW_OFFSET: Mapping[str, object] = {"SplitMode": "RowOffset", "SplitNumber": 0}
SIZE: Mapping[str, object] = {
    "SplitMode": "Size",
    "SplitUnit": "ByteSize",
    "SplitNumber": 256 * 2**20,
    "CrossPartition": True,
}
STREAM = "s0"
WRITES = (
    "TableCreateWriteSession, TableCreateWriteStream, TableWrite, TableCloseWriteStream,"
    " TableCommitWriteSession"
)
"""The actions of a write from its session to its commit."""


def open_session(
    asker: Asker, table: TableName, *, may_deny: bool = False, **body: object
) -> Answer:
    """Create a read session and wait for it; split by rows unless ``SplitOptions`` are given."""
    said = {"SplitOptions": dict(ROW_OFFSET), **body}
    answer = asker.send("TableCreateReadSession", table, body=said, may_deny=may_deny)
    session = {"SessionId": answer.members.get("SessionId")}
    return asker.ready(answer, lambda: asker.send("TableGetReadSession", table, session).need())


def columns_of(members: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Return name, type and whether it is a partition column, for each column of a session."""
    schema = members.get("DataSchema") or {}
    found = []
    for key, partition in (("DataColumns", False), ("PartitionColumns", True)):
        for one in schema.get(key) or []:
            found.append((str(one.get("Name")), str(one.get("Type")).upper(), partition))
    if not found:
        raise CannotTell("the session names no columns")
    return found


def counted_session(asker: Asker, table: TableName, **body: Any) -> tuple[str, int]:
    """Open a read session by rows; return its id and number of rows."""
    members = open_session(asker, table, **body).need().members
    return str(members.get("SessionId")), int(members.get("RecordCount", -1))


def count(asker: Asker, table: TableName, **body: Any) -> int:
    """Return the current number of rows of a table."""
    return counted_session(asker, table, **body)[1]


def read(
    asker: Asker,
    table: TableName,
    session: str,
    place: Mapping[str, object],
    *,
    coding: str = CODINGS,
    kind: str = "rows",
    may_fail: bool = False,
    **body: Any,
) -> Answer:
    """Read a split; ``place`` has Index, or Offset and Count."""
    params = {"SessionId": session, **place}
    headers = {"Accept-Encoding": coding}
    return asker.send(
        "TableRead", table, params, body, headers=headers, kind=kind, may_fail=may_fail
    )


def read_all(asker: Asker, table: TableName, **body: Any) -> pa.Table:
    """Read all rows of a small table; one request to open, one to read where there are rows."""
    session, rows = counted_session(asker, table, **body)
    if rows <= 0:
        raise CannotTell("the table has no rows")
    return read(asker, table, session, {"Offset": 0, "Count": rows}).table()


def open_write(asker: Asker, table: TableName, partition: str = "", **flags: str) -> str:
    """Begin a write session; return its id."""
    body = {"PartialPartitionSpec": partition, "Flags": flags}
    members = asker.send("TableCreateWriteSession", table, body=body).need().members
    return str(members.get("SessionId"))


def new_stream(
    asker: Asker,
    table: TableName,
    session: str,
    stream: str = STREAM,
    *,
    version: int = 1,
    **body: object,
) -> Answer:
    """Open a stream of a write session."""
    said = {"StreamId": stream, "StreamVersion": version, **body}
    return asker.send("TableCreateWriteStream", table, {"SessionId": session}, said)


def put(
    asker: Asker,
    table: TableName,
    session: str,
    rows: pa.Table,
    *,
    stream: str = STREAM,
    version: int = 1,
    claimed: int | None = None,
    token: str | None = None,
    offset: int | None = None,
) -> Answer:
    """Upload rows; ``claimed`` is the ``Count`` to send, if not the true one."""
    params: dict[str, object] = {
        "SessionId": session,
        "StreamId": stream,
        "StreamVersion": version,
        "Count": rows.num_rows if claimed is None else claimed,
    }
    if offset is not None:
        params["RowOffset"] = offset
    headers = {"x-odps-max-storage-write-access-token": token}
    data = ipc_bytes(rows)
    return asker.send(
        "TableWrite", table, params, data=data, headers=headers, may_deny=token is not None
    )


def close_stream(
    asker: Asker, table: TableName, session: str, stream: str = STREAM, *, version: int = 1
) -> Answer:
    """Close a complete stream."""
    body = {"SessionId": session, "StreamId": stream, "StreamVersion": version}
    return asker.send("TableCloseWriteStream", table, {"SessionId": session}, body)


def commit(
    asker: Asker, table: TableName, session: str, streams: Mapping[str, int] | None = None
) -> Answer:
    """Commit the named streams; without names, those that the service chooses."""
    body: dict[str, object] = {}
    if streams:
        body = {"StreamIds": list(streams), "StreamVersions": list(streams.values())}
    return asker.send("TableCommitWriteSession", table, {"SessionId": session}, body)


def load(
    asker: Asker, table: TableName, rows: pa.Table, partition: str = "", **flags: str
) -> Answer:
    """Write rows and commit them: five requests."""
    session = open_write(asker, table, partition, **flags)
    new_stream(asker, table, session).need()
    put(asker, table, session, rows).need()
    close_stream(asker, table, session).need()
    return commit(asker, table, session, {STREAM: 1}).need()
