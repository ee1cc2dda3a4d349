"""Requests and documents of the control plane: tables, projects, SQL instances.

``docs/protocol.md`` section 9. Each request has ``encode`` and ``decode_answer``, each document
``encode`` and ``decode``, and `decode_control` is the server's entry. Paths are relative to the
endpoint, whose own path (``/api``) they do not contain.
"""

# ruff: noqa: F401
# mypy: implicit-reexport

from odps_nb.wire.control.core import XML_TYPE, project_path, rest_request, table_path
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
    GetProject,
    GetTenant,
    GetTunnelEndpoint,
    ListProjects,
    ListSchemas,
    NamePage,
    ProjectInfo,
    TenantInfo,
    decode_tunnel_endpoint,
    encode_tunnel_endpoint,
)
from odps_nb.wire.control.routing import ControlRequest, decode_control
from odps_nb.wire.control.tables import (
    BLOB_TABLE_PROPERTIES,
    BLOB_TABLE_SETTINGS,
    GetPartition,
    GetTable,
    ListPartitions,
    ListTables,
    PartitionInfo,
    PartitionPage,
    TableInfo,
    TablePage,
)
