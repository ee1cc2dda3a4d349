"""Routes of resources and of registrations of functions.

The requests are those of pyodps (``odps/models/resource.py``) and of the Java SDK (``Resources``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import BinaryIO

from starlette.responses import Response

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.lists import number, page_range
from odps_nb.local.routes.table import XML, At, RequestContext, StreamAnswer, page
from odps_nb.local.service import Service
from odps_nb.local.store.catalog import DEFAULT_SCHEMA
from odps_nb.local.store.resources import CHUNK, Named, RegisteredFunction, Resource
from odps_nb.wire.calls import find_header
from odps_nb.wire.control.core import date_text
from odps_nb.wire.xml_text import DECLARATION, child_text, element, parse_xml

BYTES = "application/octet-stream"
_MAX_NAMES = 1 << 20
_FILES = ("file", "py", "jar", "archive")
# Elements of a function that the service stores as they are.
_FIELDS = (
    *("ClassType", "IsSqlFunction", "SqlDefinitionText"),
    *("IsEmbeddedFunction", "ProgramLanguage", "Code", "FileName"),
)


class ResourceRoutes:
    """Handles requests about resources and functions."""

    def __init__(self, service: Service) -> None:
        self._service, self._store = service, service.resources

    def rows(self) -> Iterator[At]:
        owner = frozenset({"updateowner"})
        of, item_paths = ["/projects/{project}/resources"], ["/projects/{project}/resources/{name}"]
        yield At(of, Right.QUERY, self._listed, accepts="name owner", is_list=True)
        new = "rIsPart rOpMerge"
        yield At(of, Right.WRITE, self._put, methods=["POST"], upload=True, accepts=new)
        yield At(item_paths, Right.WRITE, self._set_owner, methods=["PUT"], keys=owner)
        yield At(
            item_paths, Right.WRITE, self._put, methods=["PUT"], upload=True, accepts="rOpMerge"
        )
        yield At(item_paths, Right.QUERY, self._meta, keys=frozenset({"meta"}))
        yield At(item_paths, Right.QUERY, self._meta, methods=["HEAD"])
        yield At(item_paths, Right.READ, self._content, accepts="rOffset rSize")
        yield At(item_paths, Right.WRITE, self._delete, methods=["DELETE"])
        of = ["/projects/{project}/registration/functions"]
        item_paths = [f"{of[0]}/{{name}}"]
        yield At(of, Right.QUERY, self._functions, accepts="name owner", is_list=True)
        yield At(of, Right.WRITE, self._put_function, methods=["POST"])
        yield At(item_paths, Right.WRITE, self._set_function_owner, methods=["PUT"], keys=owner)
        yield At(item_paths, Right.WRITE, self._put_function, methods=["PUT"])
        yield At(item_paths, Right.QUERY, self._function)
        yield At(item_paths, Right.WRITE, self._delete_function, methods=["DELETE"])

    def _named(self, context: RequestContext, name: str = "") -> Named:
        schema = context.params.get("curr_schema")
        return self._store.named(
            context.path["project"], schema, name or context.path.get("name", "")
        )

    # -- resources ----------------------------------------------------------------------------

    def _listed(self, context: RequestContext) -> Response:
        skip, most = page_range(context)
        resources = self._store.listed(
            self._named(context),
            part=context.params.get("name", ""),
            owner=context.params.get("owner"),
            skip=skip,
            limit=most + 1,
        )
        marker = str(skip + most) if len(resources) > most else ""
        return page("Resources", map(_listed_resource, resources[:most]), marker=marker, most=most)

    def _put(self, context: RequestContext) -> Response:
        """Create (POST) or replace (PUT) a resource, or merge its parts."""
        is_new, params = context.wire.method == "POST", context.params
        resource = self._given(context, is_part=params.get("rIsPart") == "true")
        body = None if resource.kind == "table" else context.upload
        if body is not None and params.get("rOpMerge") == "true":
            if body.stat().st_size > _MAX_NAMES:
                raise errors.invalid(f"the list of parts has more than {_MAX_NAMES} bytes")
            md5, _, names = body.read_text("utf-8", "replace").partition("|")
            size = _header(context, "x-odps-resource-merge-total-bytes")
            parts = list(filter(None, names.split(",")))
            self._store.merge(resource, parts, md5=md5, size=size, is_new=is_new)
        else:
            self._store.put(resource, body, is_new=is_new)
        if not is_new:
            return Response()
        location = f"{context.base}/api{context.wire.path.removeprefix('/api')}/{resource.name}"
        return Response(status_code=201, headers={"Location": location})

    def _given(self, context: RequestContext, *, is_part: bool) -> Resource:
        """Return the resource that the headers describe."""
        named = self._named(
            context, context.path.get("name") or _header(context, "x-odps-resource-name")
        )
        kind = _header(context, "x-odps-resource-type").lower()
        source = _header(context, "x-odps-copy-table-source")
        if kind not in (*_FILES, "table"):
            raise errors.invalid(
                f"the embedded service does not support resources of the type {kind!r}"
            )
        if kind == "table" and not source:
            raise errors.invalid("the header x-odps-copy-table-source names no table")
        if kind == "table" and "." not in source.partition(" partition(")[0]:
            # the Python and Java clients need the full name
            inside = () if named.schema == DEFAULT_SCHEMA else (named.schema,)
            source = ".".join((named.project, *inside, source))
        return Resource(
            **named._asdict(),
            kind=kind,
            comment=_header(context, "x-odps-comment"),
            owner=context.access_id,
            updator=context.access_id,
            source=source,
            is_temp=_header(context, "x-odps-resource-istemp").lower() == "true",
            is_part=is_part,
            size=0,
            md5="",
            pack=None,
            created=0.0,
            modified=0.0,
        )

    def _meta(self, context: RequestContext) -> Response:
        return Response(headers=_facts(self._store.get(self._named(context))))

    def _content(self, context: RequestContext) -> StreamAnswer:
        """Return the bytes ``[rOffset, rOffset + rSize)``, and whether more follow."""
        resource, file = self._store.open(self._named(context))
        start = number(context, "rOffset", 0)
        end = min(resource.size, start + number(context, "rSize", resource.size))
        more = {"x-odps-resource-has-remaining": "true" if end < resource.size else "false"}
        return StreamAnswer(
            chunks=_chunks(file, start, end), media_type=BYTES, headers=_facts(resource) | more
        )

    def _set_owner(self, context: RequestContext) -> Response:
        self._store.set_owner(self._named(context), _header(context, "x-odps-owner"))
        return Response()

    def _delete(self, context: RequestContext) -> Response:
        self._store.delete(self._named(context))
        return Response(status_code=204)

    # -- functions ----------------------------------------------------------------------------

    def _functions(self, context: RequestContext) -> Response:
        skip, most = page_range(context)
        functions = self._store.functions(
            self._named(context),
            prefix=context.params.get("name", ""),
            owner=context.params.get("owner"),
            skip=skip,
            limit=most + 1,
        )
        marker = str(skip + most) if len(functions) > most else ""
        return page("Functions", map(_function, functions[:most]), marker=marker, most=most)

    def _put_function(self, context: RequestContext) -> Response:
        root = parse_xml(context.wire.body or b"", "function")
        fields = {name: child_text(root, name) for name in _FIELDS}
        named = self._named(context, child_text(root, "Alias"))
        is_new = context.wire.method == "POST"
        function = RegisteredFunction(
            **named._asdict(),
            owner=context.access_id,
            created=0.0,
            fields={name: text for name, text in fields.items() if text},
            resources=[
                (node.text or "").strip() for node in root.iterfind("Resources/ResourceName")
            ],
        )
        self._store.put_function(function, is_new=is_new)
        return Response(status_code=201 if is_new else 200)

    def _function(self, context: RequestContext) -> Response:
        body = DECLARATION + _function(self._store.function(self._named(context)))
        return Response(body, media_type=XML)

    def _set_function_owner(self, context: RequestContext) -> Response:
        self._store.set_function_owner(self._named(context), _header(context, "x-odps-owner"))
        return Response()

    def _delete_function(self, context: RequestContext) -> Response:
        self._store.delete_function(self._named(context))
        return Response(status_code=204)


def _listed_resource(resource: Resource) -> str:
    facts = {
        "SchemaName": resource.schema,
        "Name": resource.name,
        "Owner": resource.owner,
        "Comment": resource.comment,
        "ResourceType": resource.kind,
        "CreationTime": date_text(resource.created),
        "LastModifiedTime": date_text(resource.modified),
        "LastUpdator": resource.updator,
        "ResourceSize": str(resource.size),
    }
    if resource.source:
        facts["TableName"] = resource.source
    return element("Resource", (element(name, text) for name, text in facts.items()))


def _facts(resource: Resource) -> dict[str, str]:
    """Return the headers that describe a resource."""
    facts = {
        "schema-name": resource.schema,
        "x-odps-owner": resource.owner,
        "x-odps-resource-type": resource.kind,
        "x-odps-comment": resource.comment,
        "x-odps-updator": resource.updator,
        "x-odps-resource-size": str(resource.size),
        "x-odps-creation-time": date_text(resource.created),
        "Last-Modified": date_text(resource.modified),
        "x-odps-resource-istemp": "true" if resource.is_temp else "false",
    }
    optional = {"x-odps-copy-table-source": resource.source, "Content-MD5": resource.md5}
    return facts | {name: text for name, text in optional.items() if text}


def _function(function: RegisteredFunction) -> str:
    facts = {
        "SchemaName": function.schema,
        "Alias": function.name,
        "Owner": function.owner,
        "CreationTime": date_text(function.created),
        **function.fields,
    }
    names = (element("ResourceName", name) for name in function.resources)
    parts = [element(name, text) for name, text in facts.items()]
    return element("Function", [*parts, element("Resources", names)])


def _chunks(file: BinaryIO, start: int, end: int) -> Generator[bytes, None, None]:
    with file:
        file.seek(start)
        while (rest := end - file.tell()) > 0:
            yield file.read(min(CHUNK, rest))


def _header(context: RequestContext, name: str) -> str:
    return find_header(context.wire.headers, name) or ""
