"""Tables and partitions: lists, metadata, and DDL through SQL instances.

``docs/protocol.md`` sections 9.1 to 9.3.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol, TypeVar

from odps_nb.client.sql.definitions import TableOptions, create_table_sql, quoted, settings_of
from odps_nb.errors import NotFoundError, OdpsNbError
from odps_nb.schema import TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName, is_name
from odps_nb.wire.calls import Scope, WireRequest
from odps_nb.wire.control import (
    GetPartition,
    GetTable,
    ListPartitions,
    ListProjects,
    ListSchemas,
    ListTables,
    PartitionInfo,
    TableInfo,
)

if TYPE_CHECKING:
    from odps_nb.client.calls.cancel import CancelToken
    from odps_nb.client.calls.progress import ProgressTracker
    from odps_nb.client.calls.storage import StorageClient

_log = logging.getLogger("odps_nb")
_WILD = re.compile(r"[*?\[]")
_MAX_SUGGESTED_FROM = 2000
_NEW_TYPES = {"odps.sql.type.system.odps2": "true", "odps.sql.decimal.odps2": "true"}

A = TypeVar("A", covariant=True)


class ControlCall(Protocol[A]):
    """A request value of the control plane."""

    @property
    def idempotent(self) -> bool:
        """Whether the request may be sent twice without harm."""

    def encode(self, *, scope: Scope = ...) -> WireRequest:
        """Encode the request."""

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> A:
        """Decode the response."""


def control_call(
    storage: StorageClient,
    request: ControlCall[A],
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> A:
    """Send a request of the control plane and return its answer value."""
    profile = storage.profile
    scope = Scope(curr_project=profile.project, curr_schema=profile.schema)
    headers, body = storage.rest(
        request.encode(scope=scope),
        tracker=tracker,
        cancel=cancel,
        idempotent=request.idempotent,
    )
    return request.decode_answer(body, headers)


# -- looking ----------------------------------------------------------------------------------


def iter_table_names(
    storage: StorageClient,
    *,
    prefix: str = "",
    project: str | None = None,
    schema: str | None = None,
) -> Iterator[str]:
    """Iterate over the names of the tables, page by page, in the server's order.

    Those of the profile's project and schema, or of this ``project`` and ``schema``.
    """
    profile = storage.profile
    marker, seen = "", set()
    while True:
        page = control_call(
            storage,
            ListTables(
                project=project or profile.project,
                schema=schema if project else profile.schema,
                prefix=prefix,
                marker=marker,
            ),
        )
        yield from _valid(page.names)
        marker = page.marker
        if not marker or marker in seen:  # a repeated marker would never end
            return
        seen.add(marker)


def list_tables(storage: StorageClient, pattern: str | None = None) -> list[str]:
    """Return the names that match, sorted; ``*``, ``?`` and ``[…]`` as in file names.

    Case does not matter, as it does not in table names. Costs a request for a thousand tables.
    """
    return _matching(pattern, lambda prefix: iter_table_names(storage, prefix=prefix))


def list_projects(storage: StorageClient, pattern: str | None = None) -> list[str]:
    """Return the names of the projects that match and that the access key may list, sorted.

    Costs a request for each page of them (pyodps: ``Projects.iterate``).
    """
    return _matching(pattern, lambda prefix: _names(storage, ListProjects(prefix=prefix)))


def list_schemas(
    storage: StorageClient, pattern: str | None = None, *, project: str | None = None
) -> list[str]:
    """Return the names of a project's schemas that match, sorted (pyodps: ``Schemas.iterate``)."""
    of = project or storage.profile.project
    return _matching(
        pattern, lambda prefix: _names(storage, ListSchemas(project=of, prefix=prefix))
    )


def _names(storage: StorageClient, request: ListProjects | ListSchemas) -> Iterator[str]:
    seen = set()
    while True:
        page = control_call(storage, request)
        yield from _valid(page.names)
        if not page.marker or page.marker in seen:  # a repeated marker would never end
            return
        seen.add(page.marker)
        request = replace(request, marker=page.marker)


def _valid(names: Iterable[str]) -> Iterator[str]:
    """Yield the valid names; an invalid one could run as code after insertion into a cell."""
    for name in names:
        if is_name(name):
            yield name
        else:
            _log.warning("a list of the service has %r, which is no name: left out", name[:200])


def _matching(pattern: str | None, names: Callable[[str], Iterator[str]]) -> list[str]:
    if pattern is None:
        return sorted(names(""))
    folded = pattern.casefold()
    found = names(_WILD.split(folded, maxsplit=1)[0])
    return sorted(name for name in found if fnmatchcase(name.casefold(), folded))


def table_exists(
    storage: StorageClient, table: TableName, partition: PartitionSpec | None = None
) -> bool:
    """Return whether a table, or a partition of it, exists; one request.

    Raises
    ------
    NotFoundError
        The project does not exist.
    """
    try:
        if partition is None:
            control_call(storage, GetTable(table=table))
        else:
            control_call(storage, GetPartition(table=table, partition=partition))
    except NotFoundError as error:
        if error.code == "NoSuchProject":
            raise
        return False
    return True


def fetch_table(
    storage: StorageClient, table: TableName, *, tracker: ProgressTracker | None = None
) -> TableInfo:
    """Return the metadata of a table.

    Raises
    ------
    NotFoundError
        There is none; the hint names tables with a similar name, which costs one more request.
    """
    try:
        return control_call(storage, GetTable(table=table), tracker=tracker)
    except NotFoundError as error:
        suggest_tables(storage, table, error)
        error.add_note(f"table {table}")
        raise


def fetch_primary_key(storage: StorageClient, table: TableName) -> tuple[str, ...]:
    """Return the columns of a table's primary key; empty for one without. One request."""
    return control_call(storage, GetTable(table=table, extended=True)).primary_key


def suggest_tables(storage: StorageClient, table: TableName, error: NotFoundError) -> None:
    """Add tables with a similar name to the hint of an error; costs one request."""
    if error.code == "NoSuchTable" and (close := _similar_tables(storage, table)):
        error.hint = f"did you mean {' or '.join(close)}?"


def explain_refused_table(
    storage: StorageClient,
    table: TableName,
    error: OdpsNbError,
    *,
    columns: Sequence[str] = (),
    writes: bool = False,
) -> None:
    """Say in the hint of a refusal what the Storage API does not read; costs one request.

    That are views, external tables and JSON columns (``docs/protocol.md`` section 3.1).

    Parameters
    ----------
    columns
        Those that were wanted, empty for all.
    writes
        Whether it was a write that was refused.
    """
    try:
        info = control_call(storage, GetTable(table=table))
    except OdpsNbError:  # the refusal is the error to show
        return
    if not (info.is_view or info.is_external):
        texts = [] if writes else _json_columns(info.schema, columns)
        if texts:
            error.add_note(f"JSON in {table}: {', '.join(texts)}")
            error.hint = "the Storage API does not read JSON: name the other columns, or use SQL"
        return
    kind = "a view" if info.is_view else "an external table"
    error.add_note(f"{table} is {kind}")
    if writes:
        error.hint = "the Storage API does not write to it; name a table that holds its rows itself"
    else:
        error.hint = f"read it by SQL: odps.sql('select * from {table}')"


def _json_columns(schema: TableSchema, columns: Sequence[str]) -> list[str]:
    wanted = {name.casefold() for name in columns}
    return [
        column.name
        for column in schema.columns
        if column.type.code is TypeCode.JSON and (not wanted or column.name.casefold() in wanted)
    ]


def _similar_tables(storage: StorageClient, table: TableName) -> list[str]:
    names: list[str] = []
    try:
        for name in iter_table_names(storage, project=table.project, schema=table.schema):
            names.append(name)
            if len(names) >= _MAX_SUGGESTED_FROM:
                break
    except OdpsNbError:  # a suggestion is a courtesy: the first error is the one to show
        return []
    return difflib.get_close_matches(table.table, names, n=3)


def iter_partitions(
    storage: StorageClient, table: TableName, *, under: PartitionSpec | None = None
) -> Iterator[PartitionInfo]:
    """Iterate over the partitions of a table, page by page; ``under`` a partial spec if given."""
    under = under or PartitionSpec()
    marker, seen = "", set()
    while True:
        page = control_call(storage, ListPartitions(table=table, partition=under, marker=marker))
        yield from (one for one in page.partitions if under.covers(one.spec))
        marker = page.marker
        if not marker or marker in seen:
            return
        seen.add(marker)


# -- making and dropping ----------------------------------------------------------------------


def create_table(
    storage: StorageClient,
    table: TableName,
    schema: TableSchema,
    options: TableOptions = TableOptions(),  # noqa: B008  a frozen value
) -> None:
    """Create a table through a SQL instance and wait until it exists.

    Raises
    ------
    ConflictError
        A table of that name exists.
    ArgumentError
        The definition is invalid; nothing is sent.
    """
    from odps_nb.client.sql.query import run_sql

    sql = create_table_sql(table, schema, options)
    settings = table_settings(table) | settings_of(schema)
    run_sql(storage, sql, name="SQLCreateTableTask", settings=settings)


def drop_table(storage: StorageClient, table: TableName, *, if_exists: bool = False) -> None:
    """Drop a table with its rows.

    Raises
    ------
    NotFoundError
        There is none, and ``if_exists`` is not set.
    """
    from odps_nb.client.sql.query import run_sql

    sql = drop_table_sql(table, if_exists=if_exists)
    run_sql(storage, sql, name="SQLDropTableTask", settings=table_settings(table))


def drop_table_sql(table: TableName, *, if_exists: bool = False) -> str:
    """Return the ``DROP TABLE`` text."""
    return f"drop table {'if exists ' if if_exists else ''}{quoted(table)};"


def table_settings(table: TableName) -> dict[str, str]:
    """Return the settings of a SQL job that defines or changes a table."""
    if table.schema is None:
        return dict(_NEW_TYPES)
    return _NEW_TYPES | schema_settings(table.schema)


def schema_settings(schema: str) -> dict[str, str]:
    """Return the settings of a SQL job inside a schema (``docs/protocol.md`` section 9.2)."""
    return {
        "odps.sql.allow.namespace.schema": "true",
        "odps.namespace.schema": "true",
        "odps.default.schema": schema,
    }
