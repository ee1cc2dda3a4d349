"""Routes of the Catalog API: projects, schemas, tables and partitions as JSON, and search.

Paths and members are those of the vendor's client ``pyodps_catalog`` 0.4.0. Lists return the
default view; other values of ``view``, and other objects of the API, are not supported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.lists import page_of
from odps_nb.local.routes.surface import Surface
from odps_nb.local.routes.table import ALL, At, RequestContext
from odps_nb.local.service import Service
from odps_nb.local.store.tables import TABLE_TYPES, Partition, StoredTable
from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    LengthType,
    MapType,
    OdpsType,
    StructType,
    TableSchema,
)
from odps_nb.terms import TableName
from odps_nb.wire._frame_parts import parse_json_object
from odps_nb.wire.type_text import format_type, parse_type

PREFIX = "/api/catalog/v1alpha"
PAGE = 100  # the largest page of a search; clients also use it for lists
_PROJECT = "/projects/{project}"
_SCHEMAS = f"{_PROJECT}/schemas"
_SCHEMA = f"{_SCHEMAS}/{{schema}}"
_TABLES = f"{_SCHEMA}/tables"
_TABLE = f"{_TABLES}/{{table}}"
_CHANGEABLE = {"mode", "description"}  # members of a column
_ORDERS: Mapping[str, Callable[[StoredTable], float]] = {
    "create_time": lambda table: table.created,
    "last_modified_time": lambda table: table.modified,
}


def catalog_routes(service: Service) -> Iterator[Route]:
    """Yield the routes of the Catalog API."""
    surface = _CatalogSurface(service, xml=False, strict=True)
    yield from surface.routes(CatalogRoutes(service).rows(), prefix=PREFIX)


class _CatalogSurface(Surface):
    """Writes errors in the form that pyodps (``errors.py``) and ``pyodps_catalog`` read."""

    def document(self, status: int, code: str, message: str, request_id: str) -> Response:
        reason = "NotFound" if status == 404 else code  # pyodps knows this reason by name
        content = {"code": code, "message": message, "reason": reason}
        return JSONResponse(content, status_code=status)


class CatalogRoutes:
    """Handles requests to the Catalog API."""

    def __init__(self, service: Service) -> None:
        self._service, self._catalog = service, service.catalog

    def rows(self) -> Iterator[At]:
        pages = "pageSize pageToken"
        yield At(["/projects"], None, self._projects, accepts=pages, is_list=True)
        yield At([_PROJECT], Right.QUERY, self._project, accepts="view")
        yield At([_SCHEMAS], Right.QUERY, self._schemas, accepts=pages, is_list=True)
        yield At([_SCHEMA], Right.QUERY, self._schema)
        yield At([_TABLES], Right.QUERY, self._tables, accepts=f"{pages} view", is_list=True)
        yield At([_TABLE], Right.QUERY, self._table)
        yield At([_TABLE], Right.WRITE, self._update, methods=["PUT"])
        partitions = [f"{_TABLE}/partitions"]
        yield At(partitions, Right.QUERY, self._partitions, accepts=f"{pages} view", is_list=True)
        filters = f"{pages} query orderBy"
        search = ["/namespaces/{namespace}:search"]
        yield At(search, None, self._search, methods=["POST"], accepts=filters, is_list=True)
        yield At(["/{path:path}"], None, self._unknown, methods=ALL)

    def _unknown(self, context: RequestContext) -> Response:
        raise errors.no_such(
            f"the embedded service has no {context.wire.method} {PREFIX}/{context.path['path']}"
        )

    # -- projects and schemas -----------------------------------------------------------------

    def _visible(self, context: RequestContext) -> list[str]:
        rights = self._service.rights
        return [
            name
            for name in self._catalog.projects()
            if rights.allows(context.access_id, name, Right.QUERY)
        ]

    def _projects(self, context: RequestContext) -> Response:
        return _page("projects", self._visible(context), self._project_facts, context)

    def _project(self, context: RequestContext) -> Response:
        _check_view(context)
        return JSONResponse(self._project_facts(context.path["project"]))

    def _project_facts(self, name: str) -> dict[str, Any]:
        owner, created = self._catalog.project(name)
        return {
            "name": f"projects/{name}",
            "projectId": name,
            "owner": owner,
            "createTime": _millis(created),
            "schemaEnabled": self._catalog.has_schemas(name),
        }

    def _schemas(self, context: RequestContext) -> Response:
        project = context.path["project"]
        names = list(self._catalog.schemas(project))
        return _page("schemas", names, lambda name: self._schema_facts(project, name), context)

    def _schema(self, context: RequestContext) -> Response:
        project, name = context.path["project"], context.path["schema"]
        if name not in self._catalog.schemas(project):
            raise errors.no_such_schema(name)
        return JSONResponse(self._schema_facts(project, name))

    def _schema_facts(self, project: str, name: str) -> dict[str, Any]:
        path = f"projects/{project}/schemas/{name}"
        comment = self._catalog.schemas(project)[name].comment
        facts = {"name": path, "schemaName": name, "owner": self._service.owner}
        return {**facts, "description": comment, "type": "DEFAULT"}

    # -- tables -------------------------------------------------------------------------------

    def _tables(self, context: RequestContext) -> Response:
        _check_view(context)
        tables = self._catalog.tables(context.path["project"], context.path["schema"])
        return _page("tables", tables, _table_head, context)

    def _named(self, context: RequestContext) -> StoredTable:
        project, schema, table = (context.path[key] for key in ("project", "schema", "table"))
        return self._catalog.table(TableName(project=project, schema=schema, table=table))

    def _table(self, context: RequestContext) -> Response:
        return JSONResponse(self._table_facts(self._named(context)))

    def _table_facts(self, table: StoredTable) -> dict[str, Any]:
        fields = [_field(column) for column in table.schema.all_columns]
        facts = _table_head(table) | {
            "etag": _etag(table),
            "description": table.comment,
            "tableSchema": {"fields": fields},
            "createTime": _millis(table.created),
            "lastModifiedTime": _millis(table.modified),
            "labels": {},
        }
        if keys := [column.name for column in table.schema.partition_columns]:
            facts["partitionDefinition"] = {"partitionedColumns": [{"field": k} for k in keys]}
        if table.key_columns:
            facts["tableConstraints"] = {"primaryKey": {"fields": list(table.key_columns)}}
        if table.lifecycle > 0:
            key = "partitionExpirationDays" if keys else "expirationDays"
            facts["expirationOptions"] = {key: table.lifecycle}
        if table.view is None:
            size = sum(segment.raw_bytes for segment in self._service.snapshots.visible(table))
            facts["numCurrentStorageBytes"] = str(size)
        return facts

    def _update(self, context: RequestContext) -> Response:
        """Set comments and lifecycle, append columns, and drop NOT NULL, as the body requests."""
        table, body = self._named(context), parse_json_object(context.wire.body or b"", "table")
        if table.view is not None:
            raise errors.invalid(f"{table.name} is a view, not a table")
        if body.get("etag", _etag(table)) != _etag(table):
            message = f"the table {table.name} has changed since it was read"
            raise errors.conflict(message, "EtagMismatch")
        now = self._table_facts(table)
        for key in body.keys() - {"etag", "description", "tableSchema", "expirationOptions"}:
            # clients send back all members that they have read; times and sizes may be outdated
            if not key.endswith(("Time", "Bytes")) and (body[key] or None) != (
                now.get(key) or None
            ):
                raise errors.invalid(f"the embedded service cannot change {key!r} of a table")
        schema = _changed(table.schema, (body.get("tableSchema") or {}).get("fields") or [])
        days = list((body.get("expirationOptions") or {}).values())
        lifecycle = (int(days[0]) or -1) if days else None
        if schema != table.schema:
            table = self._catalog.change_schema(table, schema)
        self._catalog.alter_table(table, comment=body.get("description"), lifecycle=lifecycle)
        return JSONResponse(self._table_facts(self._named(context)))

    def _partitions(self, context: RequestContext) -> Response:
        _check_view(context)
        return _page(
            "partitions", self._catalog.partitions(self._named(context)), _partition, context
        )

    # -- search -------------------------------------------------------------------------------

    def _search(self, context: RequestContext) -> Response:
        """Return the tables that satisfy all terms of the query, including ``type=TABLE``."""
        terms = [term.strip() for term in context.params.get("query", "").split(",")]
        parsed = [re.fullmatch(r"(name|description):(.*)|(type|project)=(.+)", t) for t in terms]
        if unknown := [term for term, match in zip(terms, parsed, strict=True) if match is None]:
            raise errors.invalid(f"the embedded service does not support the term {unknown[0]!r}")
        matches = [match for match in parsed if match is not None]
        filters = {match[1] or match[3]: match[2] if match[1] else match[4] for match in matches}
        kind = filters.get("type")
        if kind != "TABLE":
            raise errors.invalid(f"the embedded service searches type=TABLE, not type={kind}")
        among = filters.get("project", "").strip("()").split("|") if "project" in filters else None
        tables = [
            table
            for project in self._visible(context)
            if among is None or project in among
            for schema in self._catalog.schemas(project)
            for table in self._catalog.tables(project, schema)
            if filters.get("name", "").casefold() in table.name.table.casefold()
            and filters.get("description", "").casefold() in table.comment.casefold()
        ]
        order = context.params.get("orderBy") or "default"
        key, _, direction = order.partition(" ")
        if order != "default":
            if key not in _ORDERS or direction not in ("", "asc", "desc"):
                raise errors.invalid(f"orderBy {order!r} must be {' or '.join(_ORDERS)}, asc|desc")
            tables.sort(key=_ORDERS[key], reverse=direction == "desc")
        return _page("entries", tables, _entry, context)


def _page(
    kind: str, items: Sequence[Any], facts: Callable[[Any], dict[str, Any]], context: RequestContext
) -> Response:
    """Return the page that ``pageSize`` and ``pageToken`` select."""
    page = page_of(items, context, start="pageToken", most="pageSize", page=PAGE)
    document: dict[str, Any] = {kind: [facts(item) for item in page.items]}
    return JSONResponse(document | ({"nextPageToken": page.marker} if page.marker else {}))


def _check_view(context: RequestContext) -> None:
    if (view := context.params.get("view", "BASIC")) != "BASIC":
        raise errors.invalid(f"the embedded service supports only the view BASIC, not {view!r}")


def _millis(seconds: float) -> str:
    return str(int(seconds * 1000))


def _etag(table: StoredTable) -> str:
    text = json.dumps([table.table_id, table.schema_version, table.altered, table.comment])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _table_head(table: StoredTable) -> dict[str, Any]:
    name = table.name
    return {
        "name": f"projects/{name.project}/schemas/{name.schema or 'default'}/tables/{name.table}",
        "projectId": name.project,
        "schemaName": name.schema or "default",
        "tableName": name.table,
        "type": "VIEW" if table.kind == "view" else TABLE_TYPES[table.kind],
    }


def _entry(table: StoredTable) -> dict[str, Any]:
    return {
        "name": _table_head(table)["name"],
        "displayName": table.name.table,
        "type": "TABLE",
        "description": table.comment,
        "createTime": _millis(table.created),
        "lastModifiedTime": _millis(table.modified),
    }


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "spec": str(partition.spec),
        "createTime": _millis(partition.created),
        "lastModifiedTime": _millis(partition.modified),
        "numStorageBytes": str(partition.raw_bytes),
    }


def _field(column: Column) -> dict[str, Any]:
    mode = "NULLABLE" if column.nullable else "REQUIRED"
    return _typed(column.name, column.type) | {"mode": mode, "description": column.comment}


def _typed(name: str, type_: OdpsType) -> dict[str, Any]:
    """Return name and type of a field; members of nested types are fields, too."""
    field: dict[str, Any] = {
        "fieldName": name,
        "sqlTypeDefinition": format_type(type_),
        "typeCategory": type_.code.name,
    }
    match type_:
        case DecimalType(precision=int()):
            field |= {"precision": str(type_.precision), "scale": str(type_.scale or 0)}
        case LengthType():
            field["maxLength"] = str(type_.length)
        case ArrayType():
            field["fields"] = [_typed("element", type_.element)]
        case MapType():
            field["fields"] = [_typed("key", type_.key), _typed("value", type_.value)]
        case StructType():
            field["fields"] = [_typed(member.name, member.type) for member in type_.fields]
    return field


def _without_empty(field: dict[str, Any]) -> dict[str, Any]:
    """Return a field without empty members, such as a list ``fields`` that clients add."""
    members = {key: value for key, value in field.items() if value not in (None, "", [], {})}
    if "fields" in members:
        members["fields"] = [_without_empty(nested) for nested in members["fields"]]
    return members


def _changed(schema: TableSchema, fields: Sequence[dict[str, Any]]) -> TableSchema:
    """Return a schema with the comments, modes and appended columns of a table's document."""
    columns = list(schema.all_columns)
    existing, added = fields[: len(columns)], fields[len(columns) :]
    if [field.get("fieldName") for field in existing] != [column.name for column in columns]:
        raise errors.invalid("columns can only be appended, not removed, renamed or moved")
    for index, (column, field) in enumerate(zip(columns, existing, strict=True)):
        fixed = {k: v for k, v in _without_empty(field).items() if k not in _CHANGEABLE}
        if fixed != _typed(column.name, column.type):
            raise errors.invalid(f"only comment and mode of {column.name!r} can be changed")
        nullable = field.get("mode") != "REQUIRED"
        if column.nullable and not nullable:
            raise errors.invalid(f"the column {column.name!r} cannot become NOT NULL")
        comment = field.get("description") or ""
        columns[index] = replace(column, nullable=nullable, comment=comment)
    if any(field.get("mode") == "REQUIRED" for field in added):
        raise errors.invalid("an appended column cannot be NOT NULL")
    appended = [
        Column(
            name=str(field.get("fieldName")),
            type=parse_type(str(field.get("sqlTypeDefinition"))),
            comment=field.get("description") or "",
        )
        for field in added
    ]
    data = len(schema.columns)
    return replace(
        schema, columns=(*columns[:data], *appended), partition_columns=tuple(columns[data:])
    )
