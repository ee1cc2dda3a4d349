"""Routes of tables and partitions (``docs/protocol.md`` section 9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.csv_text import csv_text
from odps_nb.local.routes.lists import page_of
from odps_nb.local.routes.table import XML, Asked, At, To, listing, reply
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

    def _tables(self, call: control.ListTables, asked: Asked) -> Response:
        owner, kind = asked.params.get("owner"), asked.params.get("type")
        if kind and kind not in _KNOWN_TYPES:
            raise errors.invalid(f"{kind!r} is not a table type: {', '.join(_KNOWN_TYPES)}")
        tables = [
            one
            for one in self._service.catalog.tables(call.project, call.schema, prefix=call.prefix)
            if owner in (None, "", one.owner) and kind in (None, "", TABLE_TYPES[one.kind])
        ]
        found = page_of(tables, asked)
        page = control.TablePage(
            names=tuple(t.name.table for t in found.items),
            owners={t.name.table: t.owner for t in found.items},
            types={t.name.table: TABLE_TYPES[t.kind] for t in found.items},
            comments={t.name.table: t.comment for t in found.items if "extended" in asked.params},
            marker=found.marker,
        )
        return reply(page.encode(found.most))

    def _table(self, call: control.GetTable, _asked: Asked) -> Response:
        info = self._info(call.table)
        return reply(info.encode_extended() if call.extended else info.encode())

    def _several(self, asked: Asked) -> Response:
        """Return the tables that a body names, or raise for the first that is missing."""
        items = parse_xml(asked.wire.body or b"", "list of tables").findall("Table")
        if len(items) > MOST_NAMES:
            raise errors.invalid(f"{len(items)} tables are named; the maximum is {MOST_NAMES}")
        found = []
        for item in items:
            project = child_text(item, "Project") or asked.path["project"]
            self._service.rights.require(asked.access_id, project, Right.QUERY)
            schema = child_text(item, "Schema") or asked.params.get("curr_schema")
            table = child_text(item, "Name").lower()  # `TablesTest` of the Java SDK
            name = TableName(project=project, schema=schema or None, table=table)
            found.append(self._info(name).element())
        return Response(DECLARATION + element("Tables", found), media_type=XML)

    def _info(self, asked: TableName) -> control.TableInfo:
        table = self._service.catalog.table(asked)
        segments = self._service.snapshots.visible(table)
        view, kept = table.view, table.materialized
        name = replace(table.name, table=asked.table)  # pyodps adopts the spelling
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
            view_text=definition.text if (definition := view or kept) is not None else "",
            is_materialized=kept is not None,
            rewrites=kept is not None and kept.rewrites,
            properties=_reserved(table),
            primary_key=table.key_columns,
        )

    def _partitions(self, call: control.ListPartitions, asked: Asked) -> Response:
        if asked.params.get("name"):
            raise errors.invalid("the parameter 'name' of a list of partitions must be empty")
        table = self._service.catalog.table(call.table)
        wanted = table.spec(call.partition)
        found = [p for p in self._service.catalog.partitions(table) if wanted.covers(p.spec)]
        if "name" in asked.params:
            # the Java and Go SDKs request only the names, and no second page of them
            names = ("/".join(f"{k}={v}" for k, v in one.spec) for one in found)
            return listing("Partitions", "Partition", names, most=len(found))
        shown = page_of(found[::-1] if "reverse" in asked.params else found, asked)
        page = control.PartitionPage(
            partitions=tuple(control.PartitionInfo(**_facts(one)) for one in shown.items),
            marker=shown.marker,
        )
        return reply(page.encode(shown.most))

    def _partition(self, call: control.GetPartition, asked: Asked) -> Response:
        table = self._service.catalog.table(call.table)
        found = self._service.catalog.partition(table, call.partition)
        info = control.PartitionInfo(
            **_facts(found),
            ddl_at=int(found.altered),
            files=found.files,
            lifecycle=table.lifecycle,  # that of the table (Java SDK, `PartitionTest`)
        )
        return reply(info.encode_extended() if "extended" in asked.params else info.encode())

    def _head(self, asked: Asked) -> Response:
        """Handle ``table.head``: return the first rows as CSV."""
        params = asked.params
        schema = params.get("schema_name") or params.get("curr_schema") or None
        named, lines = params.get("partition"), params.get("linenum", "")
        request = Preview(
            table=TableName(
                project=asked.path["project"], schema=schema, table=asked.path["table"]
            ),
            limit=int(lines) or HEAD_ROWS if lines.isdigit() else HEAD_ROWS,
            partition=decode_partition(named, quoted=True) if named else None,
            columns=tuple(c for c in params.get("cols", "").split(",") if c),
        )
        arrow, batches = self._service.read_sessions.preview(request, must_exist=True)
        text = csv_text(arrow, list(batches)).encode("utf-8", "surrogateescape")
        return Response(text, media_type="text/csv")


def _facts(found: Partition) -> dict[str, Any]:
    return {
        "spec": found.spec,
        "created_at": int(found.created),
        "modified_at": int(found.modified),
        "record_count": found.rows,
        "size": found.raw_bytes,
    }


def _reserved(table: StoredTable) -> dict[str, str]:
    """Return the properties that clients read, under their names in the extended document."""
    known = {k: v for k, v in table.properties.items() if k not in (VIEW, MATERIALIZED)}
    known["schema_version"] = str(table.schema_version)
    if "transactional" in known or table.key_columns:
        known["Transactional"] = known.get("transactional", "true")
    return known
