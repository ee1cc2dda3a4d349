"""Lists and describes projects, tables and partitions (``docs/protocol.md`` section 9.1)."""

from __future__ import annotations

import itertools
import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from odps_nb.errors import (
    FramingError,
    InvalidRequestError,
    NotFoundError,
    OdpsNbError,
    ProtocolError,
    ServerFaultError,
    ServiceError,
    ThrottledError,
)
from odps_nb.schema import TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName, did_you_mean, is_name
from odps_nb.wire.control import (
    GetPartition,
    GetTable,
    GetTables,
    ListPartitions,
    ListProjects,
    ListSchemas,
    ListTables,
    PartitionInfo,
    TableInfo,
)

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

_log = logging.getLogger("odps_nb")
_WILD = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"([0-9]{1,18})")
_MAX_SUGGESTED_FROM = 2000


def _pages(storage: StorageClient, request: Any) -> Iterator[Any]:
    """Yield the pages of a list; raise at a repeated marker, which would never end."""
    seen = set()
    while True:
        page = storage.control(request)
        yield page
        if not page.marker:
            return
        if page.marker in seen:
            raise FramingError(
                f"the service sent the same page twice in its response to {type(request).__name__}",
                hint="check for a proxy that caches responses: the rest of the list is missing",
            )
        seen.add(page.marker)
        request = replace(request, marker=page.marker)


def _names(
    storage: StorageClient, request: ListTables | ListProjects | ListSchemas
) -> Iterator[str]:
    """Iterate over the valid names; an invalid one could inject code into a generated cell."""
    for page in _pages(storage, request):
        for name in page.names:
            if is_name(name):
                yield name
            else:
                _log.warning(
                    "ignoring %r in a list returned by the service: not a valid name", name[:200]
                )


def iter_table_names(
    storage: StorageClient,
    *,
    prefix: str = "",
    project: str | None = None,
    schema: str | None = None,
) -> Iterator[str]:
    """Iterate over table names, page by page, in the server's order.

    By default, lists the profile's project and schema.
    """
    profile = storage.profile
    request = ListTables(
        project=project or profile.project,
        schema=schema if project else profile.schema,
        prefix=prefix,
    )
    return _names(storage, request)


def list_tables(storage: StorageClient, pattern: str | None = None) -> list[str]:
    """Return the sorted names of matching tables; ``*``, ``?`` and ``[…]`` work as in globs.

    Case is ignored, as in all table names. Sends one request per thousand tables.
    """
    return _matching(pattern, lambda prefix: iter_table_names(storage, prefix=prefix))


def list_projects(storage: StorageClient, pattern: str | None = None) -> list[str]:
    """Return the sorted names of matching projects that the access key may list.

    Sends one request per page (pyodps: ``Projects.iterate``).
    """
    return _matching(pattern, lambda prefix: _names(storage, ListProjects(prefix=prefix)))


def list_schemas(
    storage: StorageClient, pattern: str | None = None, *, project: str | None = None
) -> list[str]:
    """Return the sorted names of a project's matching schemas (pyodps: ``Schemas.iterate``)."""
    of = project or storage.profile.project
    return _matching(
        pattern, lambda prefix: _names(storage, ListSchemas(project=of, prefix=prefix))
    )


def _matching(pattern: str | None, names: Callable[[str], Iterator[str]]) -> list[str]:
    if pattern is None:
        return sorted(names(""))
    folded = pattern.casefold()
    candidates = names(_WILD.split(folded, maxsplit=1)[0])
    return sorted(name for name in candidates if fnmatchcase(name.casefold(), folded))


def table_exists(
    storage: StorageClient, table: TableName, partition: PartitionSpec | None = None
) -> bool:
    """Return whether a table or partition exists; raise if the project does not exist."""
    try:
        if partition is None:
            storage.control(GetTable(table=table))
        else:
            storage.control(GetPartition(table=table, partition=partition))
    except NotFoundError as error:
        if error.code not in _ABSENT:  # the project is missing, or a proxy responded
            raise
        return False
    return True


_ABSENT = ("NoSuchTable", "NoSuchObject", "NoSuchPartition", "NoSuchSchema")


def fetch_table(storage: StorageClient, table: TableName) -> TableInfo:
    """Return a table's metadata; if the table is missing, the error suggests similar names."""
    try:
        return storage.control(GetTable(table=table))
    except NotFoundError as error:
        suggest_tables(storage, table, error)
        error.add_note(f"table {table}")
        raise


def fetch_tables(storage: StorageClient, tables: Sequence[TableName]) -> list[TableInfo | None]:
    """Return the metadata of at most 100 tables of one project; ``None`` for an unreadable table.

    Sends one request, or more if a table was dropped or cannot be read.
    """
    try:
        if len(tables) == 1:
            return [storage.control(GetTable(table=tables[0]))]
        return list(storage.control(GetTables(tables=tuple(tables)))) if tables else []
    except (ServerFaultError, ThrottledError):  # requests for fewer tables would fail, too
        raise
    except (ServiceError, ProtocolError):  # the service names one unreadable table of a request
        if len(tables) == 1:
            return [None]
    middle = len(tables) // 2
    return [*fetch_tables(storage, tables[:middle]), *fetch_tables(storage, tables[middle:])]


def fetch_primary_key(storage: StorageClient, table: TableName) -> tuple[str, ...]:
    """Return a table's primary key columns, empty if it has none; sends one request."""
    return storage.control(GetTable(table=table, extended=True)).primary_key


def suggest_tables(storage: StorageClient, table: TableName, error: NotFoundError) -> None:
    """Add similar table names to an error's hint; sends one request."""
    profile = storage.profile
    if error.code == "NoSuchProject" and table.schema is None and table.project != profile.project:
        full = f"{profile.project}.{table.project}.{table.table}"
        error.hint = f"write {full} if {table.project} is a schema; {error.hint}"
    if error.code != "NoSuchTable":
        return
    listed = _listed_tables(storage, table)
    if table.table.casefold() in (name.casefold() for name in listed):
        error.hint = (
            f"try again in a minute: the project lists {table.table}, but this service does not "
            "find it"
        )
    else:
        before = profile._short_name(table).removesuffix(table.table)
        if meant := did_you_mean(table.table, listed, f"{before}{{}}"):
            error.hint = meant.rstrip()


def suggest_partitions(
    storage: StorageClient,
    table: TableName,
    specs: Sequence[PartitionSpec],
    error: NotFoundError,
) -> None:
    """Suggest the existing partitions nearest to the missing one in the error's hint."""
    if error.code != "NoSuchPartition":
        return
    partitions = iter_partitions(storage, table)
    try:
        known = [info.spec for info in itertools.islice(partitions, _MAX_SUGGESTED_FROM)]
    except OdpsNbError:  # the caller raises the original error, without suggestions
        return
    missing = next((spec for spec in specs if not any(map(spec.covers, known))), None)
    if missing is not None:
        near = _nearest(missing, known)
        verb = "is" if len(near) == 1 else "are"
        hint = f"the nearest partition{'s' * (len(near) > 1)} {verb} {' and '.join(near)}"
        error.hint = hint if near else "the table has no partitions; write rows first"


def _nearest(missing: PartitionSpec, known: Sequence[PartitionSpec]) -> list[str]:
    """Return the partition that differs only in leading zeros, or the nearest partitions."""
    keys = [key for key, _ in missing]
    same_level = ({key: dict(spec).get(key, "") for key in keys} for spec in known)
    names = {
        ",".join(f"{key}={value}" for key, value in level_values.items())
        for level_values in same_level
    }
    ordered, sort_key = sorted(names, key=_numbers_apart), _numbers_apart(str(missing))
    at = bisect_left(ordered, sort_key, key=_numbers_apart)
    if (
        at < len(ordered) and _numbers_apart(ordered[at]) == sort_key
    ):  # e.g. 2024-01-02 for 2024-1-2
        return ordered[at : at + 1]
    return ordered[max(0, at - 1) : at + 1]


def _numbers_apart(text: str) -> list[str | int]:
    return [int(part) if n % 2 else part for n, part in enumerate(_NUMBER.split(text))]


def explain_refused_write(
    storage: StorageClient, table: TableName, error: InvalidRequestError
) -> None:
    """Raise if a write was refused because the table is a view, an external or an object table."""
    try:
        info = storage.control(GetTable(table=table))
    except OdpsNbError:  # the caller raises the original error
        return
    if info.kind:
        raise InvalidRequestError(
            f"{table} is {info.kind}, to which rows cannot be uploaded",
            code="InvalidTable",
            status=error.status,
            request_id=error.request_id,
            hint="write to another table"
            + (", or use odps.sql('insert into …')" if "external" in info.kind else ""),
        ) from error


def json_columns(schema: TableSchema, columns: Sequence[str]) -> list[str]:
    """Return the JSON columns among ``columns`` (empty: all columns)."""
    folded = {name.casefold() for name in columns}
    return [
        column.name
        for column in schema.columns
        if column.type.code is TypeCode.JSON and (not folded or column.name.casefold() in folded)
    ]


def _listed_tables(storage: StorageClient, table: TableName) -> list[str]:
    names = iter_table_names(storage, project=table.project, schema=table.schema)
    try:
        return list(itertools.islice(names, _MAX_SUGGESTED_FROM))
    except OdpsNbError:  # the caller raises the original error, without suggestions
        return []


def iter_partitions(
    storage: StorageClient, table: TableName, *under: PartitionSpec
) -> Iterator[PartitionInfo]:
    """Iterate over a table's partitions, or only those ``under`` partial specs, page by page."""
    for spec in under or (PartitionSpec(),):
        for page in _pages(storage, ListPartitions(table=table, partition=spec)):
            yield from (info for info in page.partitions if spec.covers(info.spec))
