"""Sends the requests of a history in the model to the embedded service, in the same order."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.read.session import open_read_session
from odps_nb.client.read.splits import iter_batches
from odps_nb.errors import OdpsNbError
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import TableName
from odps_nb.wire import calls
from tests.model.explorer import History, shown
from tests.model.service import Rows
from tests.support.service.raw_writes import ipc

__all__ = ["replay", "values_of"]

_ONCE = RetryPolicy(max_attempts=1)


def replay(history: History, storage: StorageClient, table: TableName) -> list[str]:
    """Send each request once; return the responses that differ from the model."""
    names: dict[str, str] = {}  # of sessions, there
    tokens: dict[tuple[str, str, int, str], str] = {}
    differences = []
    for request, expected in history.service.log:
        call = getattr(request, "call", request)
        there = _there(call, table, names, tokens)
        try:
            answer: Any = _send(storage, there, request)
            got = "done"
        except OdpsNbError as error:
            got = type(error).__name__
        if got != expected:
            differences.append(f"{shown(request)}: {expected} in the model, {got} by the service")
        elif got == "done" and isinstance(call, calls.CreateWriteSession):
            names[f"s{len(names)}"] = answer.session_id
        elif got == "done" and isinstance(call, (calls.CreateWriteStream, calls.GetWriteStream)):
            stream = (call.session_id, call.stream_id, call.stream_version)
            known = sum(1 for one in tokens if one[:3] == stream)
            tokens[(*stream, str(known + 1))] = answer.access_token
    return differences


def values_of(storage: StorageClient, table: TableName) -> list[int]:
    session = open_read_session(storage, ReadPlan(table=table))
    return [v for one in iter_batches(storage, session) for v in one.column("id").to_pylist()]


def _there(
    call: Any,
    table: TableName,
    names: dict[str, str],
    tokens: dict[tuple[str, str, int, str], str],
) -> Any:
    """Return the call with the service's own names."""
    changed: dict[str, Any] = {"table": table}
    for name in ("route_token", "table_id", "schema_version"):
        if hasattr(call, name):
            changed[name] = None
    if hasattr(call, "session_id"):
        changed["session_id"] = names.get(call.session_id, "unknown")
    if isinstance(call, calls.WriteRows):
        stream = (call.session_id, call.stream_id, call.stream_version)
        changed["access_token"] = tokens.get((*stream, str(call.access_token)))
    return dataclasses.replace(call, **changed)


def _send(storage: StorageClient, call: Any, request: Any) -> Any:
    if not isinstance(request, Rows):
        return storage.call(call, retry=_ONCE)
    with storage.upload(call) as upload:
        upload.write(ipc([pa.table({"id": pa.array(request.values, pa.int64())})]))
        return upload.finish()
