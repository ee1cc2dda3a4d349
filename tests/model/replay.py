"""Sends the requests of a history in the model to the embedded service, in the same order."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.calls.version_1 import OverVersion1
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.read.splits import iter_batches
from odps_nb.client.reading import open_read_session
from odps_nb.client.sql.definitions import quoted
from odps_nb.errors import OdpsNbError
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import TableName
from odps_nb.wire import calls, control
from odps_nb.wire.tunnel.calls import UploadBlock
from odps_nb.wire.tunnel.chunks import encode_chunks
from tests.model.client import PROFILE
from tests.model.explorer import History, shown
from tests.model.service import Rows
from tests.model.tunnel import TARGET
from tests.support.arrow_bodies import ipc

__all__ = ["replay", "values_of"]

_IDS = ("session_id", "upload_id", "instance_id")
_NAMED = (*_IDS, "commit_message")
_ONCE = RetryPolicy(max_attempts=1)


def replay(history: History, storage: StorageClient, table: TableName) -> list[str]:
    """Send each request once; return the responses that differ from the model."""
    names: dict[str, str] = {}  # ids of sessions, instances and messages in the service
    tokens: dict[tuple[str, str, int, str], str] = {}
    differences = []
    for request, expected, in_model in history.service.log:
        call = getattr(request, "call", request)
        there = _there(call, table, names, tokens)
        try:
            answer: Any = _send(storage, there, request)
            got = "done"
        except OdpsNbError as error:
            got = type(error).__name__
        if got != expected:
            differences.append(f"{shown(request)}: {expected} in the model, {got} by the service")
        elif got == "done":
            for name in _NAMED:
                if one := getattr(in_model, name, None):
                    names[one] = getattr(answer, name)
        if got == "done" and isinstance(call, (calls.CreateWriteStream, calls.GetWriteStream)):
            stream = (call.session_id, call.stream_id, call.stream_version)
            known = sum(1 for one in tokens if one[:3] == stream)
            tokens[(*stream, str(known + 1))] = answer.access_token
    return differences


def values_of(storage: StorageClient, table: TableName) -> list[int]:
    session = open_read_session(storage, ReadPlan(table=table))
    batches = iter_batches(storage, session)
    return sorted(v for one in batches for v in one.column("id").to_pylist())


def _there(
    call: Any,
    table: TableName,
    names: dict[str, str],
    tokens: dict[tuple[str, str, int, str], str],
) -> Any:
    """Return the call with the service's own names."""
    if isinstance(call, OverVersion1):
        return OverVersion1(_there(call.request, table, names, tokens))
    changed = _targets(call, table)
    for name in ("route_token", "table_id", "schema_version"):
        if hasattr(call, name):
            changed[name] = None
    for name in _IDS:
        if hasattr(call, name):
            changed[name] = names.get(getattr(call, name), "unknown")
    if hasattr(call, "messages"):
        changed["messages"] = tuple(names.get(one, one) for one in call.messages)
    if isinstance(call, calls.WriteRows):
        stream = (call.session_id, call.stream_id, call.stream_version)
        changed["access_token"] = tokens.get((*stream, str(call.access_token)))
    return dataclasses.replace(call, **changed)


def _targets(call: Any, table: TableName) -> dict[str, Any]:
    """Return the fields of a call that name tables, with those of the service."""
    changed: dict[str, Any] = {}
    if hasattr(call, "table"):
        changed["table"] = table
    if hasattr(call, "of"):
        staged = call.of.table.table != TARGET
        name = dataclasses.replace(table, table=call.of.table.table) if staged else table
        changed["of"] = dataclasses.replace(call.of, table=name)
    if hasattr(call, "project"):
        changed["project"] = table.project
    if isinstance(call, control.SubmitSql):
        sql = call.sql.replace(f"`{PROFILE.project}`.`{TARGET}`", quoted(table))
        changed["sql"] = sql.replace(f"`{PROFILE.project}`.", f"`{table.project}`.")
    return changed


def _send(storage: StorageClient, call: Any, request: Any) -> Any:
    if call.__class__.__module__.startswith(control.__name__):
        answer = storage.control(call)
        while isinstance(answer, control.InstanceStatus) and not answer.is_over:
            answer = storage.control(call)  # the model has already ended the instance
        return answer
    if not isinstance(request, Rows):
        return storage.call(call, retry=_ONCE)
    rows = pa.record_batch({"id": pa.array(request.values, pa.int64())})
    with storage.upload(call) as upload:
        if isinstance(call, UploadBlock):
            upload.write(b"".join(encode_chunks(iter([rows.serialize()]))))
        else:
            upload.write(ipc(rows))
        return upload.finish()
