"""Decodes a REST request into its request value (the server's entry).

Only the requests of this package; a server has more (logs, previews, tunnels).
"""

from __future__ import annotations

import re

from odps_nb.terms import TableName
from odps_nb.wire.calls.core import Params, WireRequest, decode_partition, table_name
from odps_nb.wire.control.instances import (
    CancelInstance,
    GetInstance,
    GetInstanceResult,
    GetTaskStatus,
    SubmitSql,
)
from odps_nb.wire.control.projects import GetProject, GetTenant, GetTunnelEndpoint
from odps_nb.wire.control.tables import GetPartition, GetTable, ListPartitions, ListTables

ControlRequest = (
    GetProject
    | GetTenant
    | GetTunnelEndpoint
    | GetTable
    | ListTables
    | GetPartition
    | ListPartitions
    | SubmitSql
    | GetInstance
    | GetTaskStatus
    | GetInstanceResult
    | CancelInstance
)

_PROJECT = re.compile(r"/projects/([^/]+)(?:/schemas/([^/]+))?(/.*)?")
_TABLE = re.compile(r"/tables/([^/]+)")
_INSTANCE = re.compile(r"/instances/([\w-]{1,128})", re.ASCII)


def decode_control(wire: WireRequest) -> ControlRequest | None:
    """Return the request value, or ``None`` if this package has none for it.

    Raises `InvalidRequestError`: it is one of ours, but its name, partition or body is not valid.

    Parameters
    ----------
    wire
        Its path relative to the endpoint, decoded; its parameters decoded, bare ones with an
        empty value.
    """
    if wire.path == "/tenants" and wire.method == "GET":
        return GetTenant()
    match = _PROJECT.fullmatch(wire.path)
    if match is None:
        return None
    project, rest = match[1], match[3] or ""
    if wire.method == "GET":
        return _decode_get(wire, project, match[2], rest)
    if wire.method == "POST" and rest == "/instances":
        return SubmitSql.decode(wire, project=project)
    instance = _INSTANCE.fullmatch(rest)
    if wire.method == "PUT" and instance is not None:
        return CancelInstance(project=project, instance_id=instance[1])
    return None


def _decode_get(
    wire: WireRequest, project: str, schema: str | None, rest: str
) -> ControlRequest | None:
    params = Params(wire)
    schema = params.optional("curr_schema") or schema
    if rest == "":
        return GetProject(project=project)
    if rest == "/tunnel":
        return GetTunnelEndpoint(project=project, quota_name=params.optional("quotaName"))
    if rest == "/tables":
        return ListTables(
            project=project,
            schema=schema,
            prefix=params.optional("name") or "",
            marker=params.optional("marker") or "",
        )
    if (instance := _INSTANCE.fullmatch(rest)) is not None:
        return _decode_instance(params, project, instance[1])
    if (table := _TABLE.fullmatch(rest)) is not None:
        return _decode_table(params, table_name(project, schema, table[1]))
    return None


def _decode_instance(params: Params, project: str, instance_id: str) -> ControlRequest | None:
    if "taskstatus" in params:
        return GetTaskStatus(project=project, instance_id=instance_id)
    if "result" in params:
        return GetInstanceResult(project=project, instance_id=instance_id)
    if any(key in params for key in ("source", "data", "downloadid")):
        return None
    return GetInstance(project=project, instance_id=instance_id)


def _decode_table(params: Params, table: TableName) -> ControlRequest | None:
    partition = decode_partition(params.optional("partition") or "", quoted=True)
    if "partitions" in params:
        marker = params.optional("marker") or ""
        return ListPartitions(table=table, partition=partition, marker=marker)
    if any(key in params for key in ("data", "downloadid", "uploadid")):
        return None
    if len(partition):
        return GetPartition(table=table, partition=partition)
    return GetTable(table=table, extended="extended" in params)
