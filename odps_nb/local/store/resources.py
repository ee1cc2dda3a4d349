"""Stores resources (files, and names of tables) and the registrations of functions.

The content of a resource is one pack file. A client uploads a large file in parts, which are
resources of their own until a request merges them.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from odps_nb.local import errors
from odps_nb.local.store.catalog import DEFAULT_SCHEMA, Catalog
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import PACK, DataFolder
from odps_nb.local.store.ledger import Ledger

CHUNK = 1 << 20
# Maximum bytes of a resource, from the manual.
MAX_SIZE = 2048 << 20
# Parts that were not merged within this time are deleted.
PART_AGE = 48 * 3600.0
_NAME = re.compile(r"[^\s/]{1,255}")
_PLACE = " project = ? AND schema = ? AND "


class Named(NamedTuple):
    """The name of a resource or function."""

    project: str
    schema: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource; ``source`` is the table of a TABLE resource. Fields match the catalog's columns.

    Times are epoch seconds. ``pack`` is ``None`` if the resource is not a file.
    """

    project: str
    schema: str
    name: str
    kind: str
    comment: str
    owner: str
    updator: str
    source: str
    is_temp: bool
    is_part: bool
    size: int
    md5: str
    pack: str | None
    created: float
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredFunction:
    """A registered function: its ``fields`` by XML name, and the names of its resources."""

    project: str
    schema: str
    name: str
    owner: str
    created: float
    fields: Mapping[str, str]
    resources: Sequence[str]


class Resources:
    """Stores resources and functions. Names of functions are case-insensitive."""

    def __init__(
        self,
        database: Database,
        catalog: Catalog,
        folder: DataFolder,
        clock: Callable[[], float],
    ) -> None:
        self._db, self._catalog, self._folder, self._clock = database, catalog, folder, clock
        self._ledger = Ledger(database, folder)

    def named(self, project: str, schema: str | None, name: str = "") -> Named:
        """Return the name of an object, or raise 404 if its schema does not exist."""
        schema = schema or DEFAULT_SCHEMA
        if schema not in self._catalog.schemas(project):
            raise errors.no_such_schema(schema)
        return Named(project, schema, name)

    # -- resources ----------------------------------------------------------------------------

    def get(self, named: Named) -> Resource:
        """Return a resource, or raise 404."""
        row = self._db.row(f"SELECT * FROM resources WHERE {_PLACE} name = ?", *named)
        if row is None:
            raise errors.no_such(f"the resource {named.name!r} does not exist")
        return _resource(row)

    def listed(
        self, named: Named, *, part: str, owner: str | None, skip: int, limit: int
    ) -> list[Resource]:
        """Return resources whose names contain ``part``, sorted by name; omit parts of uploads."""
        rows = self._db.rows(
            f"SELECT * FROM resources WHERE {_PLACE} NOT is_part AND instr(name, ?) > 0"
            " AND (?4 IS NULL OR owner = ?4) ORDER BY name LIMIT ? OFFSET ?",
            *(*named[:2], part, owner, limit, skip),
        )
        return [_resource(row) for row in rows]

    def open(self, named: Named) -> tuple[Resource, BinaryIO]:
        """Return a resource and its opened content."""
        with self._db.transaction():  # its file is deleted only after a later commit
            resource = self.get(named)
            if resource.pack is None:
                raise errors.invalid(f"the resource {named.name!r} is a table; read the table")
            return resource, self._folder.blob_pack(resource.pack).open("rb")

    def put(self, resource: Resource, body: Path | None, *, is_new: bool) -> None:
        """Store a resource, taking ownership of its content. ``is_new``: it must not exist.

        A part replaces an earlier part of the same name (aliyun-odps-java-sdk, ``Params``).
        """
        _check_name(resource.name)
        resource = replace(resource, created=self._clock(), modified=self._clock())
        if body is not None:
            md5, size = _md5_of(body), body.stat().st_size
            if size > MAX_SIZE:
                raise errors.invalid(f"a resource has at most {MAX_SIZE} bytes, not {size}")
            pack = self._folder.publish_data(body, self._folder.blob_pack)
            resource = replace(resource, size=size, md5=md5, pack=pack)
        self._keep(resource, is_new=is_new and not resource.is_part)

    def merge(
        self, resource: Resource, names: Sequence[str], *, md5: str, size: str, is_new: bool
    ) -> None:
        """Store the named parts as one resource, and delete the parts."""
        parts = [Named(resource.project, resource.schema, name) for name in names]
        work = self._folder.work_file(".merged")
        try:
            with work.open("xb") as merged:
                for part in parts:
                    stored, file = self.open(part)
                    with file:
                        if not stored.is_part:
                            raise errors.invalid(f"the resource {part.name!r} is not a part")
                        while chunk := file.read(CHUNK):
                            merged.write(chunk)
            if str(work.stat().st_size) != size or _md5_of(work) != md5.lower():
                raise errors.invalid("the parts differ from the announced size or MD5")
            self.put(resource, work, is_new=is_new)
        finally:
            work.unlink(missing_ok=True)
        self._drop(parts)

    def set_owner(self, named: Named, owner: str) -> None:
        """Change the owner of a resource."""
        self.get(named)
        self._db.run(f"UPDATE resources SET owner = ? WHERE {_PLACE} name = ?", owner, *named)

    def delete(self, named: Named) -> None:
        """Delete a resource, or raise 404."""
        self.get(named)
        self._drop([named])

    def collect(self) -> None:
        """Delete old parts."""
        oldest = self._clock() - PART_AGE
        rows = self._db.rows("SELECT * FROM resources WHERE is_part AND modified < ?", oldest)
        self._drop([Named(row["project"], row["schema"], row["name"]) for row in rows])

    def _keep(self, resource: Resource, *, is_new: bool) -> None:
        named = Named(resource.project, resource.schema, resource.name)
        try:
            with self._db.transaction() as db:
                if not resource.is_part:
                    resource = self._succeeding(resource, is_new=is_new)
                self._drop([named])
                marks = ", ".join("?" * len(fields(Resource)))
                db.execute(f"INSERT INTO resources VALUES ({marks})", astuple(resource))
        except BaseException:
            if resource.pack is not None:
                self._ledger.give_up([resource.pack + PACK])
            raise

    def _succeeding(self, resource: Resource, *, is_new: bool) -> Resource:
        """Return a resource with the owner of the one that it replaces."""
        named = Named(resource.project, resource.schema, resource.name)
        if not is_new:
            old = self.get(named)
            if old.kind != resource.kind:
                raise errors.invalid(
                    f"the resource {resource.name!r} has the type {old.kind}, not {resource.kind}"
                )
            return replace(resource, owner=old.owner, created=old.created)
        if self._db.row(f"SELECT 1 FROM resources WHERE {_PLACE} name = ?", *named):
            raise _exists("resource", resource.name)
        return resource

    def _drop(self, names: Iterable[Named]) -> None:
        with self._db.transaction() as db:
            for named in names:
                rows = db.execute(
                    f"DELETE FROM resources WHERE {_PLACE} name = ? RETURNING pack", named
                ).fetchall()
                self._ledger.drop([row["pack"] + PACK for row in rows if row["pack"]])

    # -- functions ----------------------------------------------------------------------------

    def function(self, named: Named) -> RegisteredFunction:
        """Return a function, or raise 404."""
        row = self._function_row(named)
        if row is None:
            raise errors.no_such(f"the function {named.name!r} does not exist")
        return _function(row)

    def has_function(self, named: Named) -> bool:
        """Return whether a function is registered."""
        return self._function_row(named) is not None

    def functions(
        self, named: Named, *, prefix: str, owner: str | None, skip: int, limit: int
    ) -> list[RegisteredFunction]:
        """Return the functions whose names start with ``prefix``, sorted by name."""
        rows = self._db.rows(
            f"SELECT * FROM functions WHERE {_PLACE} instr(name_key, ?) = 1"
            " AND (?4 IS NULL OR owner = ?4) ORDER BY name_key LIMIT ? OFFSET ?",
            *(*named[:2], prefix.casefold(), owner, limit, skip),
        )
        return [_function(row) for row in rows]

    def put_function(self, function: RegisteredFunction, *, is_new: bool) -> None:
        """Store a function, which must not exist if ``is_new``, and must exist otherwise."""
        _check_name(function.name)
        named = Named(function.project, function.schema, function.name)
        for resource in function.resources:
            self.get(self._resource_of(named, resource))
        with self._db.transaction() as db:
            if is_new and self.has_function(named):
                raise _exists("function", function.name)
            old = None if is_new else self.function(named)
            db.execute(
                "INSERT OR REPLACE INTO functions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(function.project, function.schema, function.name.casefold(), function.name),
                    *((old.owner, old.created) if old else (function.owner, self._clock())),
                    *(json.dumps(dict(function.fields)), json.dumps(list(function.resources))),
                ),
            )

    def set_function_owner(self, named: Named, owner: str) -> None:
        """Change the owner of a function."""
        self.function(named)
        where = (*named[:2], named.name.casefold())
        self._db.run(f"UPDATE functions SET owner = ? WHERE {_PLACE} name_key = ?", owner, *where)

    def delete_function(self, named: Named) -> None:
        """Delete a function, or raise 404."""
        self.function(named)
        where = (*named[:2], named.name.casefold())
        self._db.run(f"DELETE FROM functions WHERE {_PLACE} name_key = ?", *where)

    def _function_row(self, named: Named) -> sqlite3.Row | None:
        where = (*named[:2], named.name.casefold())
        return self._db.row(f"SELECT * FROM functions WHERE {_PLACE} name_key = ?", *where)

    def _resource_of(self, function: Named, text: str) -> Named:
        """Parse the name of a resource, such as ``n`` or ``p/schemas/s/resources/n``."""
        match text.split("/"):
            case [name]:
                return function._replace(name=name)
            case [project, "resources", name]:
                return self.named(project, None, name)
            case [project, "schemas", schema, "resources", name]:
                return self.named(project, schema, name)
        raise errors.invalid(f"{text!r} is not the name of a resource")


def _resource(row: sqlite3.Row) -> Resource:
    return Resource(**dict(row))


def _function(row: sqlite3.Row) -> RegisteredFunction:
    values = dict(row)
    del values["name_key"]
    values |= {key: json.loads(values[key]) for key in ("fields", "resources")}
    return RegisteredFunction(**values)


def _exists(kind: str, name: str) -> Exception:
    return errors.invalid(f"the {kind} {name!r} already exists", code="ObjectAlreadyExists")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise errors.invalid(f"{name[:300]!r} is not a valid name")


def _md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
