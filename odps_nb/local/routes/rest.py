"""The control plane over HTTP: projects, tables, partitions, SQL instances.

``docs/protocol.md`` section 9. Requests are read by ``odps_nb.wire.control``; what only the stock
client asks for is answered here by path.
"""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odps_nb.local import faults
from odps_nb.local.routes.csv_text import csv_text
from odps_nb.local.server import asgi_io as edge
from odps_nb.local.server.rights import Right
from odps_nb.local.service import Service
from odps_nb.local.sql.ddl import Place
from odps_nb.local.sql.instances import FAILED, Instance
from odps_nb.local.sql.text import script_settings
from odps_nb.local.sql.times import ZONE
from odps_nb.local.store.tables import Table
from odps_nb.terms import TableName
from odps_nb.wire import control
from odps_nb.wire.calls import WireRequest
from odps_nb.wire.xml_text import DECLARATION, child_text, element, parse_xml

__all__ = ["RestRoutes"]

PATIENCE = 0.5
CSV_ROWS = 10_000
PAGE = 1000
PROPERTIES = {"odps.sql.type.system.odps2": "true", "odps.sql.decimal.odps2": "true"}
XML = "application/xml"
_ABOUT_PROJECTS = (control.GetTenant, control.GetProject, control.GetTunnelEndpoint)
_ABOUT_TABLES = (
    control.ListTables,
    control.GetTable,
    control.ListPartitions,
    control.GetPartition,
)
# What this service does not keep; a list of it is empty.
NOTHING_OF = {
    "/resources": ("Resources", "Resource"),
    "/registration/functions": ("Functions", "Function"),
    "/volumes": ("Volumes", "Volume"),
}
_PROJECT = re.compile(r"/projects/([^/]+)(/.*)?")
_SCHEMAS = re.compile(r"/projects/([^/]+)/schemas(?:/([^/]+))?")


class RestRoutes:
    """Handles everything below ``/api`` that is not the Storage API."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def handle(self, request: Request, wire: WireRequest, access_id: str) -> Response:
        """Answer one request; errors travel up to become documents."""
        path = wire.path.removeprefix("/api")
        body = await edge.body_bytes(request)
        wire = replace(wire, path=path, body=body)
        return await edge.run(self._service.workers, self._answer, wire, access_id, request)

    def _answer(self, wire: WireRequest, access_id: str, request: Request) -> Response:
        if (schema := _SCHEMAS.fullmatch(wire.path)) is not None:
            return self._schemas(wire, schema[1], schema[2])
        call = control.decode_control(wire)
        if call is None:
            return self._other(wire, access_id, request)
        if isinstance(call, _ABOUT_PROJECTS):
            return self._about_project(call, wire, request)
        if isinstance(call, _ABOUT_TABLES):
            return self._about_table(call)
        if isinstance(call, control.SubmitSql):
            return self._submit(call, wire, access_id, request)
        if isinstance(call, control.CancelInstance):
            self._service.instances.cancel(call.project, call.instance_id)
            return Response(status_code=200)
        return self._instance(call, wire)

    def _about_project(self, call: Any, wire: WireRequest, request: Request) -> Response:
        if isinstance(call, control.GetTenant):
            return self._tenant()
        if isinstance(call, control.GetProject):
            return self._project(call.project, extended="extended" in dict(wire.params))
        self._service.catalog.project(call.project)
        return _reply(control.encode_tunnel_endpoint(request.url.netloc))

    def _about_table(self, call: Any) -> Response:
        if isinstance(call, control.ListTables):
            return self._tables(call)
        if isinstance(call, control.GetTable):
            return self._table(call)
        if isinstance(call, control.ListPartitions):
            return self._partitions(call)
        return self._partition(call)

    # -- projects -----------------------------------------------------------------------------

    def _tenant(self) -> Response:
        schemas = "true" if self._service.settings.schemas else "false"
        return _reply(
            control.TenantInfo(
                name="local", tenant_id="1", parameters={"odps.namespace.schema": schemas}
            ).encode()
        )

    def _project(self, name: str, *, extended: bool) -> Response:
        owner, created = self._service.catalog.project(name)
        schemas = "true" if self._service.settings.schemas else "false"
        info = control.ProjectInfo(
            name=name,
            owner=owner,
            created_at=created,
            properties=PROPERTIES | {"odps.schema.model.enabled": schemas},
        )
        return _reply(info.encode_extended() if extended else info.encode())

    def _other(self, wire: WireRequest, access_id: str, request: Request) -> Response:
        if wire.path == "/logview/host":
            return Response(f"{request.url.scheme}://{request.url.netloc}", media_type="text/plain")
        if wire.path == "/projects" and wire.method == "GET":
            rights, all_of = self._service.rights, self._service.catalog.projects()
            shown = [name for name in all_of if rights.allows(access_id, name, Right.READ)]
            return _list("Projects", "Project", shown)
        match = _PROJECT.fullmatch(wire.path)
        rest = (match[2] or "") if match else ""
        params = dict(wire.params)
        if match and rest == "/logs":
            return Response(status_code=200)
        if match and rest == "/authorization" and "sign_bearer_token" in params:
            # for links to pages that this service does not have: it opens nothing here
            body = element("Authorization", (element("Result", _base64(match[1])),))
            return Response(DECLARATION + body, media_type=XML)
        if match and rest in NOTHING_OF and wire.method == "GET":
            self._service.catalog.project(match[1])
            return _list(*NOTHING_OF[rest], ())
        if match and rest == "/instances" and wire.method == "GET":
            return _list("Instances", "Instance", self._service.instances.listed(match[1]))
        if match and rest.startswith("/instances/") and "source" in params:
            found = self._service.instances.get(match[1], rest.removeprefix("/instances/"))
            return Response(found.source or element("Job", ""), media_type=XML)
        if match and rest.startswith("/tables/") and "data" in params:
            return self._head(match[1], rest.removeprefix("/tables/"), params)
        raise faults.no_such(f"there is nothing at {wire.path}")

    def _schemas(self, wire: WireRequest, project: str, name: str | None) -> Response:
        catalog = self._service.catalog
        if name is None and wire.method == "GET":
            return _list("Schemas", "Schema", catalog.schemas(project))
        if name is None:
            root = parse_xml(wire.body or b"", "schema")
            catalog.add_schema(project, _valid(child_text(root, "Name")))
            return Response(status_code=201)
        if wire.method == "DELETE":
            catalog.drop_schema(project, name)
            return Response(status_code=204)
        if name not in catalog.schemas(project):
            raise faults.no_such(f"the schema {name!r} does not exist")
        info = control.ProjectInfo(name=name, owner=self._service.owner, created_at=0)
        body = DECLARATION + element("Schema", (element("Name", name),))
        return Response(body, headers=info.encode()[1], media_type=XML)

    # -- tables -------------------------------------------------------------------------------

    def _tables(self, call: control.ListTables) -> Response:
        tables = self._service.catalog.tables(call.project, call.schema, prefix=call.prefix)
        start = int(call.marker) if call.marker.isdigit() else 0
        shown = tables[start : start + PAGE]
        page = control.TablePage(
            names=tuple(t.name.table for t in shown),
            owners={t.name.table: t.owner for t in shown},
            marker=str(start + PAGE) if len(tables) > start + PAGE else "",
        )
        return _reply(page.encode())

    def _table(self, call: control.GetTable) -> Response:
        table = self._service.catalog.table(call.table)
        segments = self._service.snapshots.visible(table)
        info = control.TableInfo(
            # the name as it was asked for: the stock client takes it over
            name=replace(table.name, table=call.table.table),
            schema=table.schema,
            table_id=str(table.table_id),
            owner=table.owner,
            comment=table.comment,
            created_at=int(table.created),
            modified_at=int(table.modified),
            ddl_at=int(table.altered),
            lifecycle=table.lifecycle,
            size=sum(s.raw_bytes for s in segments),
            record_count=sum(s.rows for s in segments),
            properties=_reserved(table),
            primary_key=table.key_columns,
        )
        return _reply(info.encode_extended() if call.extended else info.encode())

    def _partitions(self, call: control.ListPartitions) -> Response:
        table = self._service.catalog.table(call.table)
        wanted = table.spec(call.partition)
        found = [p for p in self._service.catalog.partitions(table) if wanted.covers(p.spec)]
        start = int(call.marker) if call.marker.isdigit() else 0
        page = control.PartitionPage(
            partitions=tuple(
                control.PartitionInfo(
                    spec=p.spec,
                    created_at=int(p.created),
                    modified_at=int(p.modified),
                    record_count=p.rows,
                    size=p.raw_bytes,
                )
                for p in found[start : start + PAGE]
            ),
            marker=str(start + PAGE) if len(found) > start + PAGE else "",
        )
        return _reply(page.encode())

    def _partition(self, call: control.GetPartition) -> Response:
        table = self._service.catalog.table(call.table)
        found = self._service.catalog.partition(table, call.partition)
        info = control.PartitionInfo(
            spec=found.spec,
            created_at=int(found.created),
            modified_at=int(found.modified),
            record_count=found.rows,
            size=found.raw_bytes,
        )
        return _reply(info.encode())

    def _head(self, project: str, name: str, params: dict[str, str]) -> Response:
        """Answer ``table.head``: the first rows as CSV."""
        from odps_nb.wire.calls import Preview, decode_partition

        schema = params.get("schema_name") or params.get("curr_schema") or None
        named, asked = params.get("partition"), params.get("linenum", "")
        request = Preview(
            table=TableName(project=project, schema=schema, table=name),
            limit=int(asked) or CSV_ROWS if asked.isdigit() else CSV_ROWS,
            partition=decode_partition(named, quoted=True) if named else None,
            columns=tuple(c for c in params.get("cols", "").split(",") if c),
        )
        arrow, batches = self._service.read_sessions.preview(request, must_exist=True)
        return Response(csv_text(arrow, list(batches)), media_type="text/csv")

    # -- instances ----------------------------------------------------------------------------

    def _submit(
        self, call: control.SubmitSql, wire: WireRequest, access_id: str, request: Request
    ) -> Response:
        self._service.catalog.project(call.project)
        settings = {**call.settings, **script_settings(call.sql)}
        schema = settings.get("odps.default.schema") or dict(wire.params).get("curr_schema")
        place = Place(
            project=call.project,
            schema=schema or None,
            owner=access_id,
            three_parts=settings.get("odps.namespace.schema", "").lower() == "true",
            settings=settings,
            rights=self._service.rights,
            timezone=settings.get(ZONE) or "UTC",
        )
        source = (wire.body or b"").decode("utf-8", "replace")
        job = re.search(r"<Job>.*</Job>", source, re.DOTALL)
        instance = self._service.instances.submit(
            place, call.sql, task=call.name, source=job[0] if job else "", patience=PATIENCE
        )
        location = (
            f"{request.url.scheme}://{request.url.netloc}/api/projects/{call.project}/instances"
        )
        result = self._result(instance) if instance.is_over else None
        content, headers = control.SubmittedInstance(
            instance_id=instance.instance_id, result=result
        ).encode(location=location)
        return Response(content, status_code=200 if result else 201, headers=headers)

    def _instance(self, call: control.ControlRequest, wire: WireRequest) -> Response:
        assert isinstance(
            call, (control.GetInstance, control.GetTaskStatus, control.GetInstanceResult)
        )
        instances = self._service.instances
        if "instancestatus" in dict(wire.params):
            instances.wait(call.instance_id, 5 * PATIENCE)
        found = instances.get(call.project, call.instance_id)
        if isinstance(call, control.GetInstanceResult):
            return _reply(self._result(found).encode())
        tasks: tuple[control.TaskState, ...] = ()
        if isinstance(call, control.GetTaskStatus):
            tasks = (
                control.TaskState(
                    name=found.task,
                    status=found.status,
                    started_at=found.created,
                    ended_at=found.ended,
                ),
            )
        status = control.InstanceStatus(
            status="Terminated" if found.is_over else "Running",
            tasks=tasks,
            owner=found.owner,
            started_at=found.created,
            ended_at=found.ended,
        )
        return _reply(status.encode())

    def _result(self, instance: Instance) -> control.InstanceResult:
        text, kind = "", "csv"
        if instance.status == FAILED:
            text, kind = instance.message, "text"
        elif instance.schema.columns:
            schema, batches = self._service.instances.rows(instance, 0, CSV_ROWS)
            if instance.is_query or len(schema) > 1:
                text = csv_text(schema, list(batches))
            else:  # SHOW …: one name a line
                names = (name for batch in batches for name in batch.column(0).to_pylist())
                text, kind = "".join(f"{name}\n" for name in names), "text"
        task = control.TaskResult(
            name=instance.task, status=instance.status, text=text, format=kind
        )
        status = "Terminated" if instance.is_over else "Running"
        return control.InstanceResult(tasks=(task,), status=status)


def _reserved(table: Table) -> dict[str, str]:
    """Properties as the extended document spells those that clients know."""
    known = dict(table.properties)
    if "transactional" in known or table.key_columns:
        known["Transactional"] = known.get("transactional", "true")
    return known


def _valid(name: str) -> str:
    """Return a name that can be one; 400 otherwise."""
    return TableName(project=name, table=name).project


def _base64(text: str) -> str:
    """Write text as base64."""
    return base64.b64encode(text.encode()).decode()


def _list(outer: str, inner: str, names: object) -> Response:
    items = [element(inner, (element("Name", str(name)),)) for name in names]  # type: ignore[attr-defined]
    body = DECLARATION + element(
        outer, (element("Marker", ""), element("MaxItems", str(PAGE)), *items)
    )
    return Response(body, media_type=XML)


def _reply(encoded: tuple[bytes, dict[str, str]]) -> Response:
    content, headers = encoded
    if not any(name.lower() == "content-type" for name in headers):
        headers = {**headers, "Content-Type": XML}
    return Response(content, headers=headers)
