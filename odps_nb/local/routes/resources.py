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
from odps_nb.local.routes.table import XML, Asked, At, StreamAnswer, page
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
        of, one = ["/projects/{project}/resources"], ["/projects/{project}/resources/{name}"]
        yield At(of, Right.QUERY, self._listed, accepts="name owner", is_list=True)
        new = "rIsPart rOpMerge"
        yield At(of, Right.WRITE, self._put, methods=["POST"], upload=True, accepts=new)
        yield At(one, Right.WRITE, self._set_owner, methods=["PUT"], keys=owner)
        yield At(one, Right.WRITE, self._put, methods=["PUT"], upload=True, accepts="rOpMerge")
        yield At(one, Right.QUERY, self._meta, keys=frozenset({"meta"}))
        yield At(one, Right.QUERY, self._meta, methods=["HEAD"])
        yield At(one, Right.READ, self._content, accepts="rOffset rSize")
        yield At(one, Right.WRITE, self._delete, methods=["DELETE"])
        of = ["/projects/{project}/registration/functions"]
        one = [f"{of[0]}/{{name}}"]
        yield At(of, Right.QUERY, self._functions, accepts="name owner", is_list=True)
        yield At(of, Right.WRITE, self._put_function, methods=["POST"])
        yield At(one, Right.WRITE, self._set_function_owner, methods=["PUT"], keys=owner)
        yield At(one, Right.WRITE, self._put_function, methods=["PUT"])
        yield At(one, Right.QUERY, self._function)
        yield At(one, Right.WRITE, self._delete_function, methods=["DELETE"])

    def _named(self, asked: Asked, name: str = "") -> Named:
        schema = asked.params.get("curr_schema")
        return self._store.named(asked.path["project"], schema, name or asked.path.get("name", ""))

    # -- resources ----------------------------------------------------------------------------

    def _listed(self, asked: Asked) -> Response:
        skip, most = page_range(asked)
        found = self._store.listed(
            self._named(asked),
            part=asked.params.get("name", ""),
            owner=asked.params.get("owner"),
            skip=skip,
            limit=most + 1,
        )
        marker = str(skip + most) if len(found) > most else ""
        return page("Resources", map(_listed_resource, found[:most]), marker=marker, most=most)

    def _put(self, asked: Asked) -> Response:
        """Create (POST) or replace (PUT) a resource, or merge its parts."""
        is_new, params = asked.wire.method == "POST", asked.params
        given = self._given(asked, is_part=params.get("rIsPart") == "true")
        body = None if given.kind == "table" else asked.upload
        if body is not None and params.get("rOpMerge") == "true":
            if body.stat().st_size > _MAX_NAMES:
                raise errors.invalid(f"the list of parts has more than {_MAX_NAMES} bytes")
            md5, _, names = body.read_text("utf-8", "replace").partition("|")
            size = _header(asked, "x-odps-resource-merge-total-bytes")
            parts = list(filter(None, names.split(",")))
            self._store.merge(given, parts, md5=md5, size=size, is_new=is_new)
        else:
            self._store.put(given, body, is_new=is_new)
        if not is_new:
            return Response()
        location = f"{asked.base}/api{asked.wire.path.removeprefix('/api')}/{given.name}"
        return Response(status_code=201, headers={"Location": location})

    def _given(self, asked: Asked, *, is_part: bool) -> Resource:
        """Return the resource that the headers describe."""
        named = self._named(asked, asked.path.get("name") or _header(asked, "x-odps-resource-name"))
        kind = _header(asked, "x-odps-resource-type").lower()
        source = _header(asked, "x-odps-copy-table-source")
        if kind not in (*_FILES, "table"):
            raise errors.invalid(
                f"the embedded service does not support resources of the type {kind!r}"
            )
        if kind == "table" and not source:
            raise errors.invalid("the header x-odps-copy-table-source names no table")
        if kind == "table" and "." not in source.partition(" partition(")[0]:
            # clients of both languages need the full name
            inside = () if named.schema == DEFAULT_SCHEMA else (named.schema,)
            source = ".".join((named.project, *inside, source))
        return Resource(
            **named._asdict(),
            kind=kind,
            comment=_header(asked, "x-odps-comment"),
            owner=asked.access_id,
            updator=asked.access_id,
            source=source,
            is_temp=_header(asked, "x-odps-resource-istemp").lower() == "true",
            is_part=is_part,
            size=0,
            md5="",
            pack=None,
            created=0.0,
            modified=0.0,
        )

    def _meta(self, asked: Asked) -> Response:
        return Response(headers=_facts(self._store.get(self._named(asked))))

    def _content(self, asked: Asked) -> StreamAnswer:
        """Return the bytes ``[rOffset, rOffset + rSize)``, and whether more follow."""
        found, file = self._store.open(self._named(asked))
        start = number(asked, "rOffset", 0)
        end = min(found.size, start + number(asked, "rSize", found.size))
        more = {"x-odps-resource-has-remaining": "true" if end < found.size else "false"}
        return StreamAnswer(
            chunks=_chunks(file, start, end), media_type=BYTES, headers=_facts(found) | more
        )

    def _set_owner(self, asked: Asked) -> Response:
        self._store.set_owner(self._named(asked), _header(asked, "x-odps-owner"))
        return Response()

    def _delete(self, asked: Asked) -> Response:
        self._store.delete(self._named(asked))
        return Response(status_code=204)

    # -- functions ----------------------------------------------------------------------------

    def _functions(self, asked: Asked) -> Response:
        skip, most = page_range(asked)
        found = self._store.functions(
            self._named(asked),
            prefix=asked.params.get("name", ""),
            owner=asked.params.get("owner"),
            skip=skip,
            limit=most + 1,
        )
        marker = str(skip + most) if len(found) > most else ""
        return page("Functions", map(_function, found[:most]), marker=marker, most=most)

    def _put_function(self, asked: Asked) -> Response:
        root = parse_xml(asked.wire.body or b"", "function")
        fields = {name: child_text(root, name) for name in _FIELDS}
        named = self._named(asked, child_text(root, "Alias"))
        is_new = asked.wire.method == "POST"
        given = RegisteredFunction(
            **named._asdict(),
            owner=asked.access_id,
            created=0.0,
            fields={name: text for name, text in fields.items() if text},
            resources=[(one.text or "").strip() for one in root.iterfind("Resources/ResourceName")],
        )
        self._store.put_function(given, is_new=is_new)
        return Response(status_code=201 if is_new else 200)

    def _function(self, asked: Asked) -> Response:
        body = DECLARATION + _function(self._store.function(self._named(asked)))
        return Response(body, media_type=XML)

    def _set_function_owner(self, asked: Asked) -> Response:
        self._store.set_function_owner(self._named(asked), _header(asked, "x-odps-owner"))
        return Response()

    def _delete_function(self, asked: Asked) -> Response:
        self._store.delete_function(self._named(asked))
        return Response(status_code=204)


def _listed_resource(found: Resource) -> str:
    facts = {
        "SchemaName": found.schema,
        "Name": found.name,
        "Owner": found.owner,
        "Comment": found.comment,
        "ResourceType": found.kind,
        "CreationTime": date_text(found.created),
        "LastModifiedTime": date_text(found.modified),
        "LastUpdator": found.updator,
        "ResourceSize": str(found.size),
    }
    if found.source:
        facts["TableName"] = found.source
    return element("Resource", (element(name, text) for name, text in facts.items()))


def _facts(found: Resource) -> dict[str, str]:
    """Return the headers that describe a resource."""
    facts = {
        "schema-name": found.schema,
        "x-odps-owner": found.owner,
        "x-odps-resource-type": found.kind,
        "x-odps-comment": found.comment,
        "x-odps-updator": found.updator,
        "x-odps-resource-size": str(found.size),
        "x-odps-creation-time": date_text(found.created),
        "Last-Modified": date_text(found.modified),
        "x-odps-resource-istemp": "true" if found.is_temp else "false",
    }
    optional = {"x-odps-copy-table-source": found.source, "Content-MD5": found.md5}
    return facts | {name: text for name, text in optional.items() if text}


def _function(found: RegisteredFunction) -> str:
    facts = {
        "SchemaName": found.schema,
        "Alias": found.name,
        "Owner": found.owner,
        "CreationTime": date_text(found.created),
        **found.fields,
    }
    names = (element("ResourceName", name) for name in found.resources)
    parts = [element(name, text) for name, text in facts.items()]
    return element("Function", [*parts, element("Resources", names)])


def _chunks(file: BinaryIO, start: int, end: int) -> Generator[bytes, None, None]:
    with file:
        file.seek(start)
        while (rest := end - file.tell()) > 0:
            yield file.read(min(CHUNK, rest))


def _header(asked: Asked, name: str) -> str:
    return find_header(asked.wire.headers, name) or ""
