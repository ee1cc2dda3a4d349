"""The catalog of projects, schemas, tables and partitions.

Table names are case-insensitive, and stored in lower case (``TablesTest`` of the Java SDK).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

from odps_nb.errors import InvalidRequestError
from odps_nb.local import errors
from odps_nb.local.store.database import RECORDED, Database
from odps_nb.local.store.tables import (
    PRIMARY_KEY,
    VIEW,
    Partition,
    StoredTable,
    View,
    check_columns,
    check_values,
    definition_text,
    partition_of_row,
    spec_text,
    table_of_row,
)
from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.control.table_limits import is_table_name

DEFAULT_SCHEMA = "default"
# The files are summed before the join, so that the time is linear in the number of partitions.
_PARTITIONS = (
    "SELECT p.*, COALESCE(f.rows, 0) AS rows, COALESCE(f.bytes, 0) AS bytes,"
    " COALESCE(f.files, 0) AS files FROM partitions p LEFT JOIN"
    " (SELECT partition_id, SUM(rows) AS rows, SUM(raw_bytes) AS bytes, COUNT(*) AS files"
    " FROM files WHERE table_id = ? AND removed IS NULL GROUP BY partition_id) f"
    " ON f.partition_id = p.partition_id WHERE p.table_id = ?"
)


class SchemaFacts(NamedTuple):
    """The creation time of a schema in epoch seconds, and its comment."""

    created: float
    comment: str


class Catalog:
    """Reads and changes projects, schemas, tables and partitions."""

    def __init__(
        self, database: Database, clock: Callable[[], float], *, schemas: bool = False
    ) -> None:
        self._db, self._clock, self._schemas = database, clock, schemas

    # -- projects and schemas -----------------------------------------------------------------

    def add_project(self, name: str, *, owner: str) -> None:
        """Create a project and its default schema if they do not exist."""
        now = self._clock()
        with self._db.transaction() as db:
            db.execute("INSERT OR IGNORE INTO projects VALUES (?, ?, ?)", (name, owner, now))
            db.execute(
                "INSERT OR IGNORE INTO schemas VALUES (?, ?, ?, '')", (name, DEFAULT_SCHEMA, now)
            )

    def projects(self) -> tuple[str, ...]:
        """Return the names of all projects."""
        return tuple(r["name"] for r in self._db.rows("SELECT name FROM projects ORDER BY name"))

    def project(self, name: str) -> tuple[str, float]:
        """Return a project's owner and creation time, or raise `NotFoundError` if it is unknown."""
        row = self._db.row("SELECT owner, created FROM projects WHERE name = ?", name)
        if row is None:
            raise errors.no_such_project(name)
        return row["owner"], row["created"]

    def schemas(self, project: str) -> dict[str, SchemaFacts]:
        """Return the schemas of a project by name."""
        self.project(project)
        query = "SELECT name, created, comment FROM schemas WHERE project = ? ORDER BY name"
        return {r["name"]: SchemaFacts(*tuple(r)[1:]) for r in self._db.rows(query, project)}

    def has_schemas(self, project: str) -> bool:
        """Return whether the schema feature is on, or a schema other than ``default`` exists.

        Here, ``CREATE SCHEMA`` turns the feature on; in the real service, it must be on already.
        """
        return list(self.schemas(project)) != [DEFAULT_SCHEMA] or self._schemas

    def add_schema(
        self, project: str, name: str, *, comment: str = "", if_not_exists: bool = False
    ) -> None:
        """Create a schema."""
        with self._db.transaction() as db:
            if name in self.schemas(project):
                if if_not_exists:
                    return
                raise errors.invalid(  # the number that aliyun/dbt-maxcompute looks for
                    "ODPS-0110061: Failed to run ddltask - AlreadyExistsException(message:"
                    f"the schema {name!r} already exists)",
                    code="ObjectAlreadyExists",
                )
            facts = (project, name, self._clock(), comment)
            db.execute("INSERT INTO schemas VALUES (?, ?, ?, ?)", facts)

    def drop_schema(self, project: str, name: str) -> None:
        """Drop an empty schema."""
        with self._db.transaction() as db:
            if name not in self.schemas(project):
                raise errors.no_such_schema(name)
            if name == DEFAULT_SCHEMA:
                raise errors.invalid("the schema 'default' cannot be dropped")
            if self.tables(project, name):
                raise errors.invalid_state(f"the schema {name!r} still contains tables")
            query = (
                "SELECT 1 FROM resources WHERE project = ?1 AND schema = ?2"
                " UNION ALL SELECT 1 FROM functions WHERE project = ?1 AND schema = ?2"
            )
            if db.execute(query, (project, name)).fetchone():
                raise errors.invalid_state(
                    f"the schema {name!r} still contains resources or functions"
                )
            db.execute("DELETE FROM schemas WHERE project = ? AND name = ?", (project, name))

    # -- tables -------------------------------------------------------------------------------

    def create_table(
        self,
        name: TableName,
        schema: TableSchema,
        *,
        owner: str,
        comment: str = "",
        lifecycle: int = -1,
        properties: Mapping[str, str] | None = None,
        stored: Mapping[str, str] | None = None,
        fill: Callable[[StoredTable], object] | None = None,
    ) -> StoredTable:
        """Create a table, filled by ``fill``; raise 400 ``ObjectAlreadyExists`` if it exists."""
        _check_table_name(name.table)
        name = replace(name, table=name.table.lower())
        check_columns(schema, comment)
        now = self._clock()
        # an empty primary-key table has version 1 (live tests of the C++ client: TestIncremental…)
        first = 1 if PRIMARY_KEY in (properties or {}) else 0
        with self._db.transaction() as db:
            self._check_schema(name)
            self.require_free(name)
            db.execute(
                "INSERT INTO tables (project, schema, name, name_key, comment, owner, lifecycle,"
                " definition, properties, schema_version, version, created, altered, modified)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)",
                (
                    *(name.project, name.schema or DEFAULT_SCHEMA),
                    *(name.table, name.table.casefold(), comment, owner, lifecycle),
                    *(definition_text(schema, stored or {}), json.dumps(dict(properties or {}))),
                    *(first, now, now, now),
                ),
            )
            table = self.table(name)
            if first:
                db.execute("INSERT INTO versions VALUES (?, ?, ?)", (table.table_id, first, now))
                self._db.mark(table.table_id, first, RECORDED)
            if fill is not None:
                fill(table)
            return table

    def require_free(self, name: TableName) -> None:
        """Raise 400 ``ObjectAlreadyExists`` if a table or view has this name."""
        if self.find_table(name) is not None:
            raise errors.invalid(
                "ODPS-0110061: Failed to run ddltask - Table or view already exists - "
                f"table {name} is already existing",
                code="ObjectAlreadyExists",
            )

    def find_table(self, name: TableName) -> StoredTable | None:
        """Return the table, or ``None`` if it does not exist."""
        row = self._db.row(
            "SELECT * FROM tables WHERE project = ? AND schema = ? AND name_key = ?",
            name.project,
            name.schema or DEFAULT_SCHEMA,
            name.table.casefold(),
        )
        return None if row is None else table_of_row(row)

    def table(self, name: TableName) -> StoredTable:
        """Return a table, or raise `NotFoundError` if the table, schema or project is unknown."""
        table = self.find_table(name)
        if table is None:
            self._check_schema(name)
            raise errors.no_such_table(name)
        return table

    def stored_table(self, name: TableName, *, writes: bool = False) -> StoredTable:
        """Return a table that stores rows, or raise 405 for a view (``docs/protocol.md`` 8.6).

        With ``writes``, also raise 405 for a materialized view.
        """
        table = self.table(name)
        message = ""
        if table.kind == "view":
            message = f"{name} is a view, which stores no rows; read it with SQL"
        elif writes and table.kind != "table":
            message = f"{name} is a {table.kind}, which only REBUILD changes"
        if message:
            raise InvalidRequestError(message, status=405, code="MethodNotAllowed")
        return table

    def put_view(
        self,
        name: TableName,
        schema: TableSchema,
        *,
        owner: str,
        comment: str,
        view: View,
        replaces: bool,
    ) -> None:
        """Create a view. With ``replaces``, replace an existing view of that name."""
        with self._db.transaction():
            existing = self.find_table(name)
            if replaces and existing is not None and existing.view is not None:
                self.forget_table(existing)
            properties = {VIEW: json.dumps(asdict(view))}
            self.create_table(name, schema, owner=owner, comment=comment, properties=properties)

    def table_by_id(self, table_id: int) -> StoredTable:
        """Return a table by its id, or raise `NotFoundError` if it was dropped."""
        row = self._db.row("SELECT * FROM tables WHERE table_id = ?", table_id)
        if row is None:
            raise errors.no_such_table(f"with id {table_id}")
        return table_of_row(row)

    def tables(
        self, project: str, schema: str | None = None, *, prefix: str = ""
    ) -> tuple[StoredTable, ...]:
        """Return the tables of a schema whose names begin with ``prefix``, sorted by name."""
        self._check_schema(TableName(project=project, schema=schema, table="_"))
        rows = self._db.rows(
            "SELECT * FROM tables WHERE project = ? AND schema = ? ORDER BY name_key",
            project,
            schema or DEFAULT_SCHEMA,
        )
        return tuple(table_of_row(r) for r in rows if r["name_key"].startswith(prefix.casefold()))

    def forget_table(self, table: StoredTable) -> None:
        """Remove a table and its partitions from the catalog; ``snapshots`` removes its files."""
        with self._db.transaction() as db:
            for kind in ("partitions", "versions", "version_marks", "tables"):
                db.execute(f"DELETE FROM {kind} WHERE table_id = ?", (table.table_id,))

    def change_schema(
        self, table: StoredTable, schema: TableSchema, stored: Mapping[str, str] | None = None
    ) -> StoredTable:
        """Set a table's schema and the names in its row files; increment the schema version."""
        check_columns(schema)
        with self._db.transaction() as db:
            db.execute(
                "UPDATE tables SET definition = ?, schema_version = schema_version + 1, altered = ?"
                " WHERE table_id = ?",
                (
                    definition_text(schema, table.stored if stored is None else stored),
                    *(self._clock(), table.table_id),
                ),
            )
            return self.table_by_id(table.table_id)

    def alter_table(
        self,
        table: StoredTable,
        *,
        name: str | None = None,
        comment: str | None = None,
        lifecycle: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Change a table's name, comment, lifecycle or properties. ``None`` keeps a value."""
        if name is not None:
            _check_table_name(name)
        named = replace(table.name, table=(name or table.name.table).lower())
        try:
            self._db.run(
                "UPDATE tables SET name = ?, name_key = ?, comment = ?, lifecycle = ?,"
                " properties = ?, altered = ? WHERE table_id = ?",
                named.table,
                named.table.casefold(),
                table.comment if comment is None else comment,
                table.lifecycle if lifecycle is None else lifecycle,
                json.dumps({**table.properties, **(properties or {})}),
                self._clock(),
                table.table_id,
            )
        except sqlite3.IntegrityError:
            raise errors.invalid(
                f"the table {named} already exists", code="ObjectAlreadyExists"
            ) from None

    def touch(self, table: StoredTable, partitions: Sequence[Partition] = ()) -> None:
        """Set the last-change time of ``partitions`` (or of the table if there are none) to now."""
        now = self._clock()
        with self._db.transaction() as db:
            if not partitions:
                db.execute(
                    "UPDATE tables SET altered = ?, modified = ? WHERE table_id = ?",
                    (now, now, table.table_id),
                )
            db.executemany(
                "UPDATE partitions SET altered = ?, modified = ? WHERE partition_id = ?",
                [(now, now, partition.partition_id) for partition in partitions],
            )

    # -- partitions ---------------------------------------------------------------------------

    def partitions(self, table: StoredTable) -> tuple[Partition, ...]:
        """Return the partitions, sorted by value, with their row, byte and file counts."""
        rows = self._db.rows(_PARTITIONS, table.table_id, table.table_id)
        partitions = [partition_of_row(table, row) for row in rows]
        return tuple(sorted(partitions, key=lambda p: tuple(v for _, v in p.spec)))

    def partition(self, table: StoredTable, spec: PartitionSpec) -> Partition:
        """Return one partition by its full spec, or raise `NotFoundError` if it is missing."""
        spec = table.spec(spec, whole=True)
        ids = table.table_id, table.table_id
        row = self._db.row(f"{_PARTITIONS} AND p.spec = ?", *ids, spec_text(spec))
        if row is None:
            raise errors.no_such_partition(spec, table.name)
        return partition_of_row(table, row)

    def ensure_partition(self, table: StoredTable, spec: PartitionSpec) -> tuple[int, bool]:
        """Create a partition if it is missing; return its id and whether it was created."""
        spec = check_values(table, table.spec(spec, whole=True))
        now, text = self._clock(), spec_text(spec)
        with self._db.transaction() as db:
            row = db.execute(
                "SELECT partition_id FROM partitions WHERE table_id = ? AND spec = ?",
                (table.table_id, text),
            ).fetchone()
            if row is not None:
                return int(row[0]), False
            cursor = db.execute(
                "INSERT INTO partitions (table_id, spec, created, altered, modified)"
                " VALUES (?, ?, ?, ?, ?)",
                (table.table_id, text, now, now, now),
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid, True

    def rename_partition(
        self, table: StoredTable, partition: Partition, spec: PartitionSpec
    ) -> None:
        """Change a partition's values, or raise 400 if a partition with these values exists."""
        text = spec_text(check_values(table, table.spec(spec, whole=True)))
        change = "UPDATE partitions SET spec = ?, altered = ? WHERE partition_id = ?"
        try:
            self._db.run(change, text, self._clock(), partition.partition_id)
        except sqlite3.IntegrityError:
            raise errors.invalid(
                f"the partition {spec} of {table.name} already exists", code="ObjectAlreadyExists"
            ) from None

    def forget_partition(self, partition: Partition) -> None:
        """Remove a partition from the catalog; ``snapshots`` removes its files."""
        self._db.run("DELETE FROM partitions WHERE partition_id = ?", partition.partition_id)

    def _check_schema(self, name: TableName) -> None:
        if (name.schema or DEFAULT_SCHEMA) not in self.schemas(name.project):
            raise errors.no_such_schema(name.schema)


def _check_table_name(name: str) -> None:
    if not is_table_name(name):
        raise errors.invalid(f"{name!r} is not a valid table name")
