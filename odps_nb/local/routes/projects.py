"""Routes of projects and schemas, and empty lists for unsupported kinds of objects."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import Response

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.lists import page_of
from odps_nb.local.routes.table import ALL, XML, Asked, At, To, listing, reply
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

    def _tenant(self, _call: control.GetTenant, _asked: Asked) -> Response:
        has_schemas = "true" if self._service.settings.schemas else "false"
        parameters = {"odps.namespace.schema": has_schemas}
        info = control.TenantInfo(name="local", tenant_id="1", parameters=parameters)
        return reply(info.encode())

    def _project(self, call: control.GetProject, asked: Asked) -> Response:
        owner, created = self._service.catalog.project(call.project)
        has_schemas = "true" if self._service.catalog.has_schemas(call.project) else "false"
        properties = PROPERTIES | {"odps.schema.model.enabled": has_schemas}
        if (zone := self._service.settings.forms.project_zone) != "none":
            properties[control.SQL_ZONE] = zone
        info = control.ProjectInfo(
            name=call.project, owner=owner, created_at=created, properties=properties
        )
        return reply(info.encode_extended() if "extended" in asked.params else info.encode())

    def _tunnel(self, call: control.GetTunnelEndpoint, asked: Asked) -> Response:
        self._service.catalog.project(call.project)
        return reply(control.encode_tunnel_endpoint(asked.base.partition("://")[2]))

    def _projects(self, asked: Asked) -> Response:
        rights, catalog = self._service.rights, self._service.catalog
        shown = [
            name
            for name in catalog.projects()
            if rights.allows(asked.access_id, name, Right.QUERY)
            and _matches(asked, name, catalog.project(name)[0])
        ]
        found = page_of(shown, asked)
        return listing("Projects", "Project", found.items, marker=found.marker, most=found.most)

    def _host(self, asked: Asked) -> Response:
        return Response(asked.base, media_type="text/plain")

    def _quotas(self, _asked: Asked) -> Response:
        return listing("Quotas", "Quota", ())  # the service does not limit by quotas

    def _nothing(self, asked: Asked) -> Response:
        project = asked.path["project"]
        self._service.catalog.project(project)
        if schema := asked.params.get("curr_schema"):
            self._check_schema(project, schema)
        rest = asked.wire.path.partition(_PROJECT.format(project=project))[2]
        return listing(*NOTHING_OF[rest], ())

    # -- schemas ------------------------------------------------------------------------------

    def _schemas(self, asked: Asked) -> Response:
        project, catalog = asked.path["project"], self._service.catalog
        if not catalog.has_schemas(project):
            # pyodps then sends SHOW SCHEMAS; the text is that of its InternalServerErrors, which
            # other clients look for (aliyun/dbt-maxcompute, "is not 3-tier model project")
            message = f"Project {project} is not 3-tier model project."
            raise errors.invalid(message, code="InvalidParameter")
        owner = self._service.owner
        shown = [name for name in catalog.schemas(project) if _matches(asked, name, owner)]
        found = page_of(shown, asked)
        return listing("Schemas", "Schema", found.items, marker=found.marker, most=found.most)

    def _add_schema(self, asked: Asked) -> Response:
        root = parse_xml(asked.wire.body or b"", "schema")
        name, comment = child_text(root, "Name"), child_text(root, "Comment")
        valid = TableName(project=name, table=name).project  # an invalid name raises 400
        self._service.catalog.add_schema(
            asked.path["project"],
            valid,
            comment=comment,
            if_not_exists=child_text(root, "IfNotExists") == "true",
        )
        return Response(status_code=201)

    def _check_schema(self, project: str, name: str) -> None:
        if name not in self._service.catalog.schemas(project):
            raise errors.no_such_schema(name)

    def _drop_schema(self, asked: Asked) -> Response:
        self._service.catalog.drop_schema(asked.path["project"], asked.path["schema"])
        return Response(status_code=204)

    def _schema(self, asked: Asked) -> Response:
        project, name = asked.path["project"], asked.path["schema"]
        self._check_schema(project, name)
        found, owner = self._service.catalog.schemas(project)[name], self._service.owner
        info = control.ProjectInfo(name=name, owner=owner, created_at=found.created)
        facts = {
            "Name": name,
            "Project": project,
            "Owner": owner,
            "Comment": found.comment,
            "Type": "MANAGED",  # pyodps, ``SchemaType``; the Go and Java SDKs read it as text
            "CreateTime": date_text(found.created),
            "ModifiedTime": date_text(found.created),
        }
        body = DECLARATION + element("Schema", [element(*fact) for fact in facts.items()])
        return Response(body, headers=info.encode()[1], media_type=XML)


def _matches(asked: Asked, name: str, owner: str) -> bool:
    """Return whether an object satisfies the filters ``name`` (a prefix) and ``owner``."""
    prefix, wanted = asked.params.get("name", ""), asked.params.get("owner") or owner
    return name.casefold().startswith(prefix.casefold()) and wanted == owner
