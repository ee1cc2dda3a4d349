"""Targets for the client's parsers of responses: HTTP bodies, JSON and XML documents, errors."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any

from odps_nb.client.sql.query import excerpt
from odps_nb.errors import OdpsNbError, ServiceError
from odps_nb.http.body import BodyResponse
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire import calls, control

# the errors that the transport expects from a connection; it also translates all others
_BROKEN = (HTTPException, ValueError, OSError, OdpsNbError)
_LARGEST = 1 << 16
_LONGEST_MESSAGE = 8000

_TABLE, _PARTITION = TableName(project="p", table="t"), PartitionSpec.of("ds=x")
_DOCUMENTS: tuple[Callable[[bytes, Mapping[str, str]], Any], ...] = (
    calls.ReadSessionAnswer.decode,
    calls.WriteSessionAnswer.decode,
    calls.WriteSessionStateAnswer.decode,
    calls.WriteSchemaAnswer.decode,
    calls.WriteStreamAnswer.decode,
    calls.WriteRowsAnswer.decode,
    calls.WriteBlobAnswer.decode,
    calls.InstanceSessionAnswer.decode,
    calls.EmptyAnswer.decode,
    control.GetProject(project="p").decode_answer,
    control.GetTunnelEndpoint(project="p").decode_answer,
    control.GetTable(table=_TABLE).decode_answer,
    control.ListTables(project="p").decode_answer,
    control.GetPartition(table=_TABLE, partition=_PARTITION).decode_answer,
    control.ListPartitions(table=_TABLE).decode_answer,
    control.ListProjects().decode_answer,
    control.ListSchemas(project="p").decode_answer,
    control.GetInstance(project="p", instance_id="i").decode_answer,
    control.GetInstanceResult(project="p", instance_id="i").decode_answer,
    lambda body, _: control.SqlCost.decode(body.decode("utf-8", "replace")),
    lambda body, _: control.decode_tunnel_endpoint(body, endpoint="https://example.com/api"),
)
DOCUMENTS = len(_DOCUMENTS)


def documents(data: bytes) -> None:
    """Any document is decoded or raises a typed error with a message of bounded length."""
    decode = _DOCUMENTS[data[0] % DOCUMENTS if data else 0]
    try:
        repr(decode(data[1:], {}))
    except OdpsNbError as error:
        assert len(str(error)) < _LONGEST_MESSAGE


def errors(data: bytes) -> None:
    """Any unsuccessful response becomes a `ServiceError`; its code survives encoding."""
    status = 200 + int.from_bytes(data[:2], "big") % 400
    headers = {"Retry-After": data[2:12].decode("latin-1")}
    found = calls.decode_error(status, headers, data[2:])
    assert isinstance(found, ServiceError)
    assert len(str(found)) < _LONGEST_MESSAGE
    excerpt("select id\nfrm orders", found.message)
    again = calls.decode_error(
        status, {}, calls.encode_error_json(found.code or "C", found.message, "id")
    )
    assert again.code == (found.code or "C")


def _read(stream: bytes, take: Callable[[BodyResponse], bytes]) -> Any:
    """Return status and body of a response sent by a peer; ``None`` if the response is invalid."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(stream)  # never blocks, because inputs fit into the socket buffer
        theirs.shutdown(socket.SHUT_WR)
        try:
            with contextlib.closing(BodyResponse(ours, method="GET")) as answer:
                answer.begin()
                return answer.status, take(answer)
        except _BROKEN:
            return None


def _by_pieces(answer: BodyResponse) -> bytes:
    return b"".join(iter(lambda: answer.some(7), b""))


def _at_once(answer: BodyResponse) -> bytes:
    room = bytearray(_LARGEST)
    return bytes(room[: answer.fill(memoryview(room))])


def http_answer(data: bytes) -> None:
    """Any bytes are a complete response or are rejected, whatever the size of the reads."""
    assert _read(data, _by_pieces) == _read(data, _at_once)


TARGETS = (documents, errors, http_answer)
