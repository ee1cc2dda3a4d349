"""The views of the tenant-level Information Schema (``SYSTEM_CATALOG.INFORMATION_SCHEMA``).

A query receives the rows that a view has when the query starts. The names, types and columns are
those of the vendor's manual (*Tenant-level Information Schema*) and of aliyun/alibabacloud-aiops-
skills (``alibabacloud-odps-information-schema``). Columns about features that the embedded service
lacks, such as storage tiers and costs, are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.sql.ddl import Place
from odps_nb.local.sql.duck_types import StoredRows
from odps_nb.local.sql.parsing.statements import Name
from odps_nb.local.store.arrow_types import arrow_schema
from odps_nb.local.store.catalog import Catalog
from odps_nb.local.store.database import Database
from odps_nb.local.store.snapshots import Snapshots
from odps_nb.local.store.tables import TABLE_TYPES, StoredTable
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import TableName
from odps_nb.wire.type_text import format_type

PROJECT, SCHEMA = "system_catalog", "information_schema"
Row = dict[str, Any]

# The columns of each view; those without a type are STRING.
_VIEWS = {
    "catalogs": "catalog_name status create_time:datetime owner_id owner_name settings region",
    "schemas": "schema_catalog schema_name owner_id owner_name create_time:datetime"
    " last_modified_time:datetime schema_type comment",
    "tables": "table_catalog table_schema table_name table_type is_partitioned:boolean owner_id"
    " owner_name create_time:datetime last_modified_time:datetime last_access_time:datetime"
    " data_length:bigint table_comment lifecycle:bigint lifecycle_enabled:boolean"
    " is_archived:boolean table_exstore_type storage_tier cluster_type number_buckets:bigint"
    " view_original_text has_primary_key:boolean is_transactional:boolean is_delta_table:boolean"
    " table_storage table_format",
    "columns": "table_catalog table_schema table_name column_name ordinal_position:bigint"
    " column_default is_nullable:boolean data_type column_comment is_partition_key:boolean"
    " is_primary_key:boolean",
    "partitions": "table_catalog table_schema table_name partition_name create_time:datetime"
    " last_modified_time:datetime last_access_time:datetime data_length:bigint is_archived:boolean"
    " is_exstore:boolean storage_tier cluster_type number_buckets:bigint lifecycle_enabled:boolean",
    "tasks_history": "task_catalog task_name task_type inst_id status owner_id owner_name result"
    " priority:bigint submit_time:datetime start_time:datetime end_time:datetime"
    " input_records:bigint output_records:bigint input_bytes:bigint"
    " lowfrequency_storage_input_bytes:bigint longterm_storage_input_bytes:bigint"
    " oss_input_bytes:bigint tablestore_input_bytes:bigint output_bytes:bigint input_tables"
    " output_tables operation_text signature quota_name complexity:double cost_cpu:double"
    " cost_mem:double cost_indicators settings ext_platform_id ext_node_id ext_bizdate ext_task_id"
    " ext_dagtype ext_node_name ext_node_onduty ext_node_priority:bigint ext_node_cyctype"
    " ext_subtask_id ds",
}
# Views of the real service that the embedded service does not have.
_OTHERS = (
    *("catalog_privileges", "column_label_grants", "column_labels", "column_privileges"),
    *("foreign_servers", "installed_packages", "package_objects", "package_privileges"),
    *("partition_access_info", "quota_usage", "resource_privileges", "resources", "roles"),
    *("table_access_info", "table_label_grants", "table_labels", "table_privileges", "tasks"),
    *("tunnels_history", "udf_privileges", "udf_resources", "udfs", "user_roles", "users"),
    "volumes",
)


class InformationSchema:
    """Finds the views by name and lists their rows."""

    def __init__(self, database: Database, catalog: Catalog, snapshots: Snapshots) -> None:
        self._db, self._catalog, self._snapshots = database, catalog, snapshots
        self._rows: dict[str, Callable[[str], Iterator[Row]]] = {
            "catalogs": self._catalogs,
            "schemas": self._schemas,
            "tables": self._tables,
            "columns": self._columns,
            "partitions": self._partitions,
            "tasks_history": self._tasks,
        }

    def find(self, name: Name, place: Place) -> StoredTable | None:
        """Return a view as a table; ``None`` if no view has this name."""
        parts = tuple(part.casefold() for part in name)
        if parts[:2] != (PROJECT, SCHEMA) or len(parts) != 3:
            return None
        shown, view = ".".join(name).upper(), parts[2]
        if not place.three_parts:
            text = errors.no_such_table(".".join(name)).message
            advice = "set odps.namespace.schema=true"
            raise errors.no_such(errors.with_advice(text, advice), code="NoSuchTable")
        if view in _OTHERS:
            raise errors.lacks(shown, is_sure=True)
        if view not in _VIEWS:
            raise errors.no_such_table(shown)
        number = list(_VIEWS).index(view) + 1
        named = TableName(project=PROJECT, schema=SCHEMA, table=view)
        return StoredTable(table_id=-number, name=named, schema=_schema(view))

    def rows(self, table: StoredTable, place: Place) -> StoredRows | None:
        """Return the rows of a view that a key may see; ``None`` for any other table."""
        if table.table_id > 0:
            return None
        allows, schema = place.rights.allows, arrow_schema(table.schema)
        rows = [
            row
            for project in self._catalog.projects()
            if allows(place.owner, project, Right.QUERY)
            for row in self._rows[table.name.table](project)
        ]
        return StoredRows(schema=schema, files=(), held=pa.Table.from_pylist(rows, schema=schema))

    def _catalogs(self, project: str) -> Iterator[Row]:
        owner, created = self._catalog.project(project)
        facts = {"catalog_name": project, "status": "Allowed", "create_time": _time(created)}
        yield {**facts, "owner_name": owner}

    def _schemas(self, project: str) -> Iterator[Row]:
        owner, _ = self._catalog.project(project)
        for name, schema in self._catalog.schemas(project).items():
            at = _time(schema.created)
            facts = {"schema_catalog": project, "schema_name": name, "owner_name": owner}
            times = {"create_time": at, "last_modified_time": at}
            yield {**facts, **times, "schema_type": "MANAGED", "comment": schema.comment}

    def _all(self, project: str) -> Iterator[tuple[StoredTable, Row]]:
        """Yield each table of a project, with a row of its project, schema and table name."""
        has_schemas = self._catalog.has_schemas(project)
        for schema in self._catalog.schemas(project):
            for table in self._catalog.tables(project, schema):
                shown = schema if has_schemas else None
                named = {"table_catalog": project, "table_schema": shown}
                yield table, {**named, "table_name": table.name.table}

    def _tables(self, project: str) -> Iterator[Row]:
        for table, named in self._all(project):
            is_transactional = table.lower_property("transactional") == "true"
            sizes = [segment.raw_bytes for segment in self._snapshots.visible(table)]
            view = table.view or table.materialized
            yield {
                **named,
                "table_type": TABLE_TYPES[table.kind],
                "is_partitioned": table.is_partitioned,
                "owner_name": table.owner,
                "create_time": _time(table.created),
                "last_modified_time": _time(table.modified),
                "data_length": None if table.is_partitioned else sum(sizes),
                "table_comment": table.comment,
                "lifecycle": table.lifecycle if table.lifecycle > 0 else None,
                "lifecycle_enabled": table.lifecycle > 0,
                "view_original_text": None if view is None else view.text,
                "has_primary_key": bool(table.key_columns),
                "is_transactional": is_transactional or bool(table.key_columns),
                "is_delta_table": bool(table.key_columns),
            }

    def _columns(self, project: str) -> Iterator[Row]:
        for table, named in self._all(project):
            partition_keys = {column.name for column in table.schema.partition_columns}
            for number, column in enumerate(table.schema.all_columns, 1):
                yield {
                    **named,
                    "column_name": column.name,
                    "ordinal_position": number,
                    "is_nullable": column.nullable,
                    "data_type": format_type(column.type),
                    "column_comment": column.comment,
                    "is_partition_key": column.name in partition_keys,
                    "is_primary_key": column.name in table.key_columns,
                }

    def _partitions(self, project: str) -> Iterator[Row]:
        for table, named in self._all(project):
            for partition in self._catalog.partitions(table):
                yield {
                    **named,
                    "partition_name": str(partition.spec).replace(",", "/"),
                    "create_time": _time(partition.created),
                    "last_modified_time": _time(partition.modified),
                    "data_length": partition.raw_bytes,
                    "lifecycle_enabled": table.lifecycle > 0,
                }

    def _tasks(self, project: str) -> Iterator[Row]:
        ended = "SELECT * FROM instances WHERE project = ? AND ended IS NOT NULL ORDER BY created"
        for row in self._db.rows(ended, project):
            status = row["status"]
            at = datetime.fromtimestamp(row["ended"], _CHINA)
            yield {
                "task_catalog": project,
                "task_name": row["task"],
                "task_type": "SQL",
                "inst_id": row["instance_id"],
                "status": "Terminated" if status == "Success" else status,
                "owner_name": row["owner"],
                "result": row["message"] if status == "Failed" else None,
                "submit_time": _time(row["created"]),
                "start_time": _time(row["created"]),
                "end_time": _time(row["ended"]),
                "output_records": row["rows"],
                "operation_text": row["query"],
                "ds": at.strftime("%Y%m%d"),
            }


_CHINA = timezone(timedelta(hours=8))  # the time zone of the days in ``ds``


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _schema(view: str) -> TableSchema:
    named = (entry.partition(":") for entry in _VIEWS[view].split())
    return TableSchema(
        columns=tuple(
            Column(name=name, type=PrimitiveType(TypeCode[(code or "string").upper()]))
            for name, _, code in named
        )
    )
