"""Control plane requests and documents: tables, projects, SQL instances.

``docs/protocol.md`` section 9. Each request has ``encode`` and ``decode_answer``, each document
``encode`` and ``decode``. The embedded service calls `decode_control`. Paths are relative to the
endpoint and exclude the endpoint's path (``/api``).
"""

# ruff: noqa: F401
# mypy: implicit-reexport

from __future__ import annotations

import re

from odps_nb.terms import TableName
from odps_nb.wire.calls.core import Params, WireRequest, decode_partition, table_name
from odps_nb.wire.control.core import rest_request
from odps_nb.wire.control.cost import COST_TASK, SqlCost
from odps_nb.wire.control.instances import (
    SQL_TASK,
    CancelInstance,
    GetInstance,
    GetInstanceResult,
    GetInstanceSource,
    GetTaskStatus,
    InstanceResult,
    InstanceStatus,
    SubmitSql,
    SubmittedInstance,
    TaskResult,
    TaskState,
    query_error,
)
from odps_nb.wire.control.projects import (
    SQL_ZONE,
    GetProject,
    GetTenant,
    GetTunnelEndpoint,
    ListProjects,
    ListSchemas,
    ProjectInfo,
    TenantInfo,
    decode_tunnel_endpoint,
    encode_tunnel_endpoint,
)
from odps_nb.wire.control.tables import (
    BLOB_TABLE_PROPERTIES,
    BLOB_TABLE_SETTINGS,
    GetPartition,
    GetTable,
    GetTables,
    ListPartitions,
    ListTables,
    PartitionInfo,
    PartitionPage,
    TableInfo,
    TablePage,
)

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
    """Decode a control plane request; return ``None`` if the request is unknown.

    ``wire``: a request with decoded parameters and a decoded path relative to the endpoint; a
    parameter without ``=`` has an empty value.
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
