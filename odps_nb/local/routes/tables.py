"""Routes of tables and partitions (``docs/protocol.md`` section 9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.csv_text import csv_text
from odps_nb.local.routes.lists import number, page_of
from odps_nb.local.routes.table import XML, At, RequestContext, To, listing, reply
from odps_nb.local.service import Service
from odps_nb.local.store.tables import MATERIALIZED, TABLE_TYPES, VIEW, Partition, StoredTable
from odps_nb.terms import TableName
from odps_nb.wire import control
from odps_nb.wire.calls import Preview, decode_partition
from odps_nb.wire.xml_text import DECLARATION, child_text, element, parse_xml

HEAD_ROWS = 10_000
MOST_NAMES = 100  # maximum items of one request (Go and Java SDK)
_KNOWN_TYPES = (*TABLE_TYPES.values(), "EXTERNAL_TABLE", "OBJECT_TABLE")  # pyodps, ``Table.Type``


class TableRoutes:
    """Handles requests about tables."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def rows(self) -> Iterator[At | To]:
        filters = "name owner type extended"
        yield To(control.ListTables, Right.QUERY, self._tables, accepts=filters, is_list=True)
        yield To(control.GetTable, Right.QUERY, self._table, accepts="extended partition")
        filters = "partitions partition reverse name"
        yield To(
            control.ListPartitions, Right.QUERY, self._partitions, accepts=filters, is_list=True
        )
        yield To(control.GetPartition, Right.QUERY, self._partition, accepts="extended")
        table, keys = ["/projects/{project}/tables/{table}"], frozenset({"data"})
        yield At(table, Right.READ, self._head, keys=keys)
        several, keys = ["/projects/{project}/tables"], frozenset({"query"})
        yield At(several, Right.QUERY, self._several, methods=["POST"], keys=keys)

    def _tables(self, call: control.ListTables, context: RequestContext) -> Response:
        owner, kind = context.params.get("owner"), context.params.get("type")
        if kind and kind not in _KNOWN_TYPES:
            raise errors.invalid(f"{kind!r} is not a table type: {', '.join(_KNOWN_TYPES)}")
        tables = [
            table
            for table in self._service.catalog.tables(call.project, call.schema, prefix=call.prefix)
            if owner in (None, "", table.owner) and kind in (None, "", TABLE_TYPES[table.kind])
        ]
        shown = page_of(tables, context)
        page = control.TablePage(
            names=tuple(t.name.table for t in shown.items),
            owners={t.name.table: t.owner for t in shown.items},
            types={t.name.table: TABLE_TYPES[t.kind] for t in shown.items},
            comments={t.name.table: t.comment for t in shown.items if "extended" in context.params},
            marker=shown.marker,
        )
        return reply(page.encode(shown.most))

    def _table(self, call: control.GetTable, _context: RequestContext) -> Response:
        info = self._info(call.table)
        return reply(info.encode_extended() if call.extended else info.encode())

    def _several(self, context: RequestContext) -> Response:
        """Return the tables that a body names, or raise for the first that is missing."""
        items = parse_xml(context.wire.body or b"", "list of tables").findall("Table")
        if len(items) > MOST_NAMES:
            raise errors.invalid(f"{len(items)} tables are named; the maximum is {MOST_NAMES}")
        elements = []
        for item in items:
            project = child_text(item, "Project") or context.path["project"]
            self._service.rights.require(context.access_id, project, Right.QUERY)
            schema = child_text(item, "Schema") or context.params.get("curr_schema")
            table = child_text(item, "Name").lower()  # `TablesTest` of the Java SDK
            name = TableName(project=project, schema=schema or None, table=table)
            elements.append(self._info(name).element())
        return Response(DECLARATION + element("Tables", elements), media_type=XML)

    def _info(self, requested: TableName) -> control.TableInfo:
        table = self._service.catalog.table(requested)
        segments = self._service.snapshots.visible(table)
        view, materialized = table.view, table.materialized
        name = replace(table.name, table=requested.table)  # pyodps uses the returned spelling
        if not self._service.catalog.has_schemas(table.name.project):
            name = replace(name, schema=None)
        return control.TableInfo(
            name=name,
            schema=table.schema,
            table_id=str(table.table_id),
            owner=table.owner,
            comment=table.comment,
            created_at=int(table.created),
            modified_at=int(table.modified),
            ddl_at=int(table.altered),
            lifecycle=table.lifecycle,
            size=sum(s.raw_bytes for s in segments),
            record_count=sum(s.rows for s in segments) if view is None else None,
            is_view=view is not None,
            view_text=definition.text if (definition := view or materialized) is not None else "",
            is_materialized=materialized is not None,
            rewrites=materialized is not None and materialized.rewrites,
            properties=_reserved(table),
            primary_key=table.key_columns,
        )

    def _partitions(self, call: control.ListPartitions, context: RequestContext) -> Response:
        if context.params.get("name"):
            raise errors.invalid("the parameter 'name' of a list of partitions must be empty")
        table = self._service.catalog.table(call.table)
        spec = table.spec(call.partition)
        partitions = [p for p in self._service.catalog.partitions(table) if spec.covers(p.spec)]
        if "name" in context.params:
            # the Java and Go SDKs request only the names, and no second page of them
            names = ("/".join(f"{k}={v}" for k, v in partition.spec) for partition in partitions)
            return listing("Partitions", "Partition", names, most=len(partitions))
        shown = page_of(partitions[::-1] if "reverse" in context.params else partitions, context)
        page = control.PartitionPage(
            partitions=tuple(
                control.PartitionInfo(**_facts(partition)) for partition in shown.items
            ),
            marker=shown.marker,
        )
        return reply(page.encode(shown.most))

    def _partition(self, call: control.GetPartition, context: RequestContext) -> Response:
        table = self._service.catalog.table(call.table)
        partition = self._service.catalog.partition(table, call.partition)
        info = control.PartitionInfo(
            **_facts(partition),
            ddl_at=int(partition.altered),
            files=partition.files,
            lifecycle=table.lifecycle,  # that of the table (Java SDK, `PartitionTest`)
        )
        return reply(info.encode_extended() if "extended" in context.params else info.encode())

    def _head(self, context: RequestContext) -> Response:
        """Handle ``table.head``: return the first rows as CSV."""
        params = context.params
        schema = params.get("schema_name") or params.get("curr_schema") or None
        named = params.get("partition")
        request = Preview(
            table=TableName(
                project=context.path["project"], schema=schema, table=context.path["table"]
            ),
            limit=number(context, "linenum", 0) or HEAD_ROWS,
            partition=decode_partition(named, quoted=True) if named else None,
            columns=tuple(c for c in params.get("cols", "").split(",") if c),
        )
        arrow, batches = self._service.read_sessions.preview(request, must_exist=True)
        text = csv_text(arrow, list(batches)).encode("utf-8", "surrogateescape")
        return Response(text, media_type="text/csv")


def _facts(partition: Partition) -> dict[str, Any]:
    return {
        "spec": partition.spec,
        "created_at": int(partition.created),
        "modified_at": int(partition.modified),
        "record_count": partition.rows,
        "size": partition.raw_bytes,
    }


def _reserved(table: StoredTable) -> dict[str, str]:
    """Return the properties that clients read, under their names in the extended document."""
    known = {k: v for k, v in table.properties.items() if k not in (VIEW, MATERIALIZED)}
    known["schema_version"] = str(table.schema_version)
    if "transactional" in known or table.key_columns:
        known["Transactional"] = known.get("transactional", "true")
    return known
