"""Routes of projects and schemas, and empty lists for unsupported kinds of objects."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import Response

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.lists import page_of
from odps_nb.local.routes.table import ALL, XML, At, RequestContext, To, listing, reply
from odps_nb.local.service import Service
from odps_nb.terms import TableName
from odps_nb.wire import control
from odps_nb.wire.control.core import date_text
from odps_nb.wire.xml_text import DECLARATION, child_text, element, parse_xml

PROPERTIES = {"odps.sql.type.system.odps2": "true", "odps.sql.decimal.odps2": "true"}
# Object kinds that this service does not support; their lists are empty.
NOTHING_OF = {
    "/volumes": ("Volumes", "Volume"),
}
_PROJECT = "/projects/{project}"
_SCHEMA = "/projects/{project}/schemas/{schema}"


class ProjectRoutes:
    """Handles requests about projects and schemas."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def rows(self) -> Iterator[At | To]:
        yield To(control.GetTenant, None, self._tenant)
        yield To(control.GetProject, Right.QUERY, self._project, accepts="extended")
        yield To(control.GetTunnelEndpoint, Right.QUERY, self._tunnel, accepts="service")
        yield At(["/projects"], None, self._projects, accepts="name owner", is_list=True)
        # pyodps (``get_catalog_host``) and the vendor's MCP server request the catalog's endpoint
        for host in ("/logview/host", "/catalogapi"):
            yield At([host], None, self._host, methods=ALL)
        yield At([f"{_PROJECT}/logs"], Right.QUERY, lambda _: Response(), methods=ALL)
        yield At([_PROJECT + rest for rest in NOTHING_OF], Right.QUERY, self._nothing)
        quotas = "version project region"
        yield At(["/quotas"], None, self._quotas, accepts=quotas, is_list=True)
        schemas = [f"{_PROJECT}/schemas"]
        yield At(schemas, Right.QUERY, self._schemas, accepts="name owner", is_list=True)
        yield At(schemas, Right.WRITE, self._add_schema, methods=["POST"])
        yield At([_SCHEMA], Right.QUERY, self._schema)
        yield At([_SCHEMA], Right.WRITE, self._drop_schema, methods=["DELETE"])

    def _tenant(self, _call: control.GetTenant, _context: RequestContext) -> Response:
        has_schemas = "true" if self._service.settings.schemas else "false"
        parameters = {"odps.namespace.schema": has_schemas}
        info = control.TenantInfo(name="local", tenant_id="1", parameters=parameters)
        return reply(info.encode())

    def _project(self, call: control.GetProject, context: RequestContext) -> Response:
        owner, created = self._service.catalog.project(call.project)
        has_schemas = "true" if self._service.catalog.has_schemas(call.project) else "false"
        properties = PROPERTIES | {"odps.schema.model.enabled": has_schemas}
        if (zone := self._service.settings.forms.project_zone) != "none":
            properties[control.SQL_ZONE] = zone
        info = control.ProjectInfo(
            name=call.project, owner=owner, created_at=created, properties=properties
        )
        return reply(info.encode_extended() if "extended" in context.params else info.encode())

    def _tunnel(self, call: control.GetTunnelEndpoint, context: RequestContext) -> Response:
        self._service.catalog.project(call.project)
        return reply(control.encode_tunnel_endpoint(context.base.partition("://")[2]))

    def _projects(self, context: RequestContext) -> Response:
        rights, catalog = self._service.rights, self._service.catalog
        shown = [
            name
            for name in catalog.projects()
            if rights.allows(context.access_id, name, Right.QUERY)
            and _matches(context, name, catalog.project(name)[0])
        ]
        page = page_of(shown, context)
        return listing("Projects", "Project", page.items, marker=page.marker, most=page.most)

    def _host(self, context: RequestContext) -> Response:
        return Response(context.base, media_type="text/plain")

    def _quotas(self, _context: RequestContext) -> Response:
        return listing("Quotas", "Quota", ())  # the service does not limit by quotas

    def _nothing(self, context: RequestContext) -> Response:
        project = context.path["project"]
        self._service.catalog.project(project)
        if schema := context.params.get("curr_schema"):
            self._check_schema(project, schema)
        rest = context.wire.path.partition(_PROJECT.format(project=project))[2]
        return listing(*NOTHING_OF[rest], ())

    # -- schemas ------------------------------------------------------------------------------

    def _schemas(self, context: RequestContext) -> Response:
        project, catalog = context.path["project"], self._service.catalog
        if not catalog.has_schemas(project):
            # After this error, pyodps sends SHOW SCHEMAS. Other clients check for the text of the
            # message (aliyun/dbt-maxcompute, "is not 3-tier model project").
            message = f"Project {project} is not 3-tier model project."
            raise errors.invalid(message, code="InvalidParameter")
        owner = self._service.owner
        shown = [name for name in catalog.schemas(project) if _matches(context, name, owner)]
        page = page_of(shown, context)
        return listing("Schemas", "Schema", page.items, marker=page.marker, most=page.most)

    def _add_schema(self, context: RequestContext) -> Response:
        root = parse_xml(context.wire.body or b"", "schema")
        name, comment = child_text(root, "Name"), child_text(root, "Comment")
        valid = TableName(project=name, table=name).project  # an invalid name raises 400
        self._service.catalog.add_schema(
            context.path["project"],
            valid,
            comment=comment,
            if_not_exists=child_text(root, "IfNotExists") == "true",
        )
        return Response(status_code=201)

    def _check_schema(self, project: str, name: str) -> None:
        if name not in self._service.catalog.schemas(project):
            raise errors.no_such_schema(name)

    def _drop_schema(self, context: RequestContext) -> Response:
        self._service.catalog.drop_schema(context.path["project"], context.path["schema"])
        return Response(status_code=204)

    def _schema(self, context: RequestContext) -> Response:
        project, name = context.path["project"], context.path["schema"]
        self._check_schema(project, name)
        schema, owner = self._service.catalog.schemas(project)[name], self._service.owner
        info = control.ProjectInfo(name=name, owner=owner, created_at=schema.created)
        facts = {
            "Name": name,
            "Project": project,
            "Owner": owner,
            "Comment": schema.comment,
            "Type": "MANAGED",  # pyodps, ``SchemaType``; the Go and Java SDKs read it as text
            "CreateTime": date_text(schema.created),
            "ModifiedTime": date_text(schema.created),
        }
        body = DECLARATION + element("Schema", [element(*fact) for fact in facts.items()])
        return Response(body, headers=info.encode()[1], media_type=XML)


def _matches(context: RequestContext, name: str, owner: str) -> bool:
    """Return whether an object satisfies the filters ``name`` (a prefix) and ``owner``."""
    prefix, owner_filter = context.params.get("name", ""), context.params.get("owner") or owner
    return name.casefold().startswith(prefix.casefold()) and owner_filter == owner
