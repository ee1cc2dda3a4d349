"""Serves the JupyterLab sidebar with projects, schemas, tables, columns and partitions as JSON.

The sidebar (in the repository's ``labextensions/``) makes the kernel evaluate `answer` as a user
expression, which executes no cell and defines no names. `answer` uses the magics' connection, never
opens one itself, and shares the table name cache with tab completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from odps_nb.errors import OdpsNbError, ServiceError, visible
from odps_nb.notebook.display.failures import error_lines
from odps_nb.notebook.magics.completion import MAX_NAMES
from odps_nb.notebook.magics.listing import each_table
from odps_nb.notebook.progress.operations import loaded_magics

if TYPE_CHECKING:
    from IPython.display import JSON

    from odps_nb.access.connection import Connection
    from odps_nb.notebook.magics.completion import NameCache
    from odps_nb.wire.control import TableInfo

DEFAULT_SCHEMA = "default"
MAX_TEXT = 300
MAX_PARTITIONS = 1_000


def answer(kind: str, path: Sequence[str] = (), *, fresh: bool = False) -> JSON:
    """Return the result of `children`, or the lines of an error as ``problem``.

    ``waiting`` is true if there is no connection yet. ``fresh`` requests the names from the service
    even if they are cached. The kind ``variable`` returns a new variable name; see `free_name`.
    """
    from IPython.display import JSON

    magics = loaded_magics()
    if kind == "variable" and magics is not None:
        content: dict[str, Any] = {"name": free_name({*path, *magics.shell.user_ns})}
    elif magics is None or magics.context.cache is None:
        first = "%load_ext odps_nb, then %odps connect" if magics is None else "%odps connect"
        problem = ["No connection yet.", f"Run {first}."]
        content = {"problem": problem, "waiting": True}
    else:
        context, names = magics.context, magics.context.cache
        try:
            content = children(context.connection, names, kind, path, fresh=fresh)
        except OdpsNbError as error:
            content = {"problem": error_lines(error), "waiting": False}
    return JSON(content)  # type: ignore[no-untyped-call]  # untyped in IPython


def children(
    connection: Connection,
    names: NameCache,
    kind: str,
    path: Sequence[str] = (),
    *,
    fresh: bool = False,
) -> dict[str, Any]:
    """List projects, a project's schemas, a schema's tables, or a table's columns or partitions.

    The result contains ``kind`` (``tables`` if a project has no schemas) and ``items``, and for
    tables also ``prefix`` (the text before each name) and ``more`` (whether the list is truncated).
    For columns, it also contains ``rows`` (``None`` if unknown) and ``partitioned``. The kind
    ``described`` returns the columns of each table in ``path``, or ``None`` for an unreadable
    table.
    """
    if kind == "projects":
        return _projects(connection)
    if kind == "schemas":
        return _schemas(connection, names, path[0], fresh=fresh)
    if kind == "tables":
        return _tables(connection, names, path[0], path[1], fresh=fresh)
    if kind == "partitions":
        return _partitions(connection, path[0])
    if kind == "described":
        pairs = zip(path, each_table(connection, path), strict=True)
        items = [info and _columns(names, table, info) for table, info in pairs]
        return {"kind": kind, "items": items}
    return _columns(names, path[0], connection.table(path[0]).info)


def free_name(taken: set[str], base: str = "df") -> str:
    """Return ``base``, or ``base`` with the smallest number that gives an unused name.

    >>> free_name({"df", "df2"})
    'df3'
    """
    if base not in taken:
        return base
    return next(name for n in count(2) if (name := f"{base}{n}") not in taken)


def _projects(connection: Connection) -> dict[str, Any]:
    """Return the visible projects, beginning with the connection's own project."""
    own = connection.profile.project
    try:
        others = [name for name in connection.projects() if name != own]
    except ServiceError as error:
        if not _is_refused(error):
            raise
        others = []
    return {"kind": "projects", "items": [own, *others[: MAX_NAMES - 1]], "current": own}


def _schemas(
    connection: Connection, names: NameCache, project: str, *, fresh: bool
) -> dict[str, Any]:
    from odps_nb.client.catalog import list_schemas

    try:
        schemas = list_schemas(connection._storage, project=project)
    except ServiceError as error:
        if not _is_refused(error):
            raise
        return _tables(connection, names, project, DEFAULT_SCHEMA, fresh=fresh)
    return {"kind": "schemas", "items": schemas[:MAX_NAMES]}


def _tables(
    connection: Connection, names: NameCache, project: str, schema: str, *, fresh: bool
) -> dict[str, Any]:
    from odps_nb.client.catalog import iter_table_names

    profile = connection.profile
    is_default = schema == DEFAULT_SCHEMA and profile.schema in (None, DEFAULT_SCHEMA)
    of = profile.schema if is_default else schema
    prefix = f"{project}." if is_default else f"{project}.{schema}."
    if project == profile.project and of == profile.schema:
        prefix = ""
    known = None if fresh else names.known("tables", prefix)
    if known is None:
        table_names = iter_table_names(connection._storage, project=project, schema=of)
        known = tuple(sorted(islice(table_names, MAX_NAMES)))
        names.remember("tables", prefix, known)
    return {
        "kind": "tables",
        "items": list(known),
        "prefix": prefix,
        "more": len(known) >= MAX_NAMES,
    }


def _columns(names: NameCache, table: str, info: TableInfo) -> dict[str, Any]:
    from odps_nb.wire.type_text import format_type

    schema, rows = info.schema, info.record_count
    names.remember("columns", table, schema.names)
    items = [
        {
            "name": column.name,
            "type": visible(format_type(column.type))[:MAX_TEXT],
            "comment": visible(column.comment)[:MAX_TEXT],
            "partition": column in schema.partition_columns,
        }
        for column in schema.all_columns
    ]
    return {
        "kind": "columns",
        "items": items,
        "rows": None if rows is None or rows < 0 or info.is_view else rows,
        "partitioned": bool(schema.partition_columns),
    }


def _partitions(connection: Connection, table: str) -> dict[str, Any]:
    from odps_nb.client.catalog import iter_partitions

    name = connection.profile.table(table)
    partitions = list(islice(iter_partitions(connection._storage, name), MAX_PARTITIONS + 1))
    items = [
        {"name": visible(str(partition.spec))[:MAX_TEXT], "rows": partition.record_count}
        for partition in partitions[:MAX_PARTITIONS]
    ]
    return {"kind": "partitions", "items": items, "more": len(partitions) > MAX_PARTITIONS}


def _is_refused(error: ServiceError) -> bool:
    """Whether the service refuses access to this list, rather than being busy or broken."""
    return error.status is not None and 400 <= error.status < 500 and error.status != 429
