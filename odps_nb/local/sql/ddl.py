"""Runs DDL statements; each is atomic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.errors import NotFoundError
from odps_nb.local import faults
from odps_nb.local.rights import Right, Rights
from odps_nb.local.sql.statements import (
    AlterTable,
    ChangeColumn,
    ChangePartitions,
    ChangeSchema,
    DropTable,
    Name,
)
from odps_nb.local.store.catalog import Catalog
from odps_nb.local.store.snapshots import Snapshots
from odps_nb.local.store.tables import Partition, StoredTable, check_decimals, check_properties
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import PartitionSpec, TableName

ZONE = "odps.sql.timezone"


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone, or raise 400 for an unknown name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise faults.semantic(
            f"there is no time zone {name!r}", advice="use a name such as Asia/Shanghai"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The context of a statement. With ``far``, text is parsed as TIMESTAMP in microseconds."""

    project: str
    schema: str | None = None
    owner: str = ""
    three_parts: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    rights: Rights = field(default_factory=Rights)
    timezone: str = "UTC"
    far: bool = False

    def table(self, name: Name, right: Right = Right.QUERY) -> TableName:
        """Resolve a name as written in SQL, or raise 403 if the key lacks the right."""
        if len(name) > 3:
            raise faults.parse_failed(f"{'.'.join(name)} is not a valid table name")
        if len(name) == 2 and self.three_parts:
            found = TableName(project=self.project, schema=name[0], table=name[1])
        else:
            found = TableName.parse(".".join(name), project=self.project, schema=self.schema)
        self.rights.require(self.owner, found.project, right)
        return found

    def named(self, catalog: Catalog, name: Name, right: Right = Right.QUERY) -> StoredTable:
        """Return a table or view by its name as written in SQL; errors include advice."""
        wanted = self.table(name, right)
        try:
            return catalog.table(wanted)
        except NotFoundError as error:
            advice = self._advice(catalog, name, error.code)
            message = faults.with_advice(error.message, advice)
            raise NotFoundError(message, status=error.status, code=error.code) from None

    def _advice(self, catalog: Catalog, name: Name, code: str | None) -> str:
        if code == "NoSuchProject" and len(name) == 2:
            whole = f"{self.project}.{'.'.join(name)}"
            if name[0] in catalog.schemas(self.project):
                return f"write {whole}: a two-part name begins with a project, not a schema"
            return f"check the name; tables in schemas need the full name, such as {whole}"
        return ""


def changed_table(
    catalog: Catalog, place: Place, written: Name, *, view: bool = False
) -> StoredTable:
    """Return the table (with ``view``, the view) to change; raise 400 for any other object."""
    found = place.named(catalog, written, Right.WRITE)
    if (found.view is not None) != view:
        kinds = "a table, not a view" if view else "a view, not a table"
        raise faults.semantic(f"{found.name} is {kinds}")
    return found


class Definitions:
    """Runs DDL statements."""

    def __init__(self, catalog: Catalog, snapshots: Snapshots) -> None:
        self._catalog, self._snapshots = catalog, snapshots

    def change(self, statement: Any, place: Place) -> None:
        """Run a DDL statement."""
        match statement:
            case ChangeSchema():
                self._change_schema(statement, place)
            case DropTable():
                self._drop(statement, place)
            case ChangePartitions():
                self._change_partitions(
                    statement, changed_table(self._catalog, place, statement.name)
                )
            case ChangeColumn():
                table = changed_table(self._catalog, place, statement.name)
                self._catalog.change_schema(table, _changed_column(table, statement))
            case AlterTable(added=added) if added:
                table = changed_table(self._catalog, place, statement.name)
                self._add_columns(statement, table, place.settings)
            case AlterTable():
                table = changed_table(self._catalog, place, statement.name, view=statement.view)
                check_properties(dict(statement.properties))
                self._catalog.alter_table(
                    table,
                    name=statement.new_name,
                    comment=statement.comment,
                    lifecycle=statement.lifecycle,
                    properties=dict(statement.properties),
                )

    def _change_partitions(self, statement: ChangePartitions, table: StoredTable) -> None:
        if statement.action == "add":
            self._add_partitions(statement, table)
            return
        if statement.action == "rename":
            old = self._catalog.partition(table, statement.specs[0])
            self._catalog.rename_partition(table, old, statement.specs[1])
            return
        found: list[Partition] = []
        for spec in map(table.spec, statement.specs):
            covered = [one for one in self._catalog.partitions(table) if spec.covers(one.spec)]
            if not covered and not statement.lenient:
                raise faults.no_such_partition(spec, table.name)
            found += covered
        if statement.action == "touch":
            self._catalog.touch(table, found)
        elif statement.action == "drop":
            for partition in found:
                self._snapshots.drop_partition(table, partition)
        else:
            specs = [table.spec(spec) for spec in statement.specs] or [PartitionSpec()]
            self._snapshots.publish(table, (), replace=specs)

    def _add_columns(
        self, statement: AlterTable, table: StoredTable, settings: Mapping[str, str]
    ) -> None:
        known = table.schema.find if statement.lenient else lambda _name: None
        added = tuple(c for c in statement.added if known(c.name) is None)
        check_decimals(TableSchema(columns=added), settings)
        if added:
            schema = replace(table.schema, columns=(*table.schema.columns, *added))
            self._catalog.change_schema(table, schema)

    def _change_schema(self, statement: ChangeSchema, place: Place) -> None:
        name = statement.name[-1]
        project = statement.name[0] if len(statement.name) == 2 else place.project
        place.rights.require(place.owner, project, Right.WRITE)
        if not statement.drops:
            self._catalog.add_schema(project, name, if_not_exists=statement.lenient)
        elif not statement.lenient or name in self._catalog.schemas(project):
            self._catalog.drop_schema(project, name)

    def _drop(self, statement: DropTable, place: Place) -> None:
        name = place.table(statement.name, Right.WRITE)
        table = self._catalog.find_table(name)
        if table is None and statement.if_exists:
            return
        found = changed_table(self._catalog, place, statement.name, view=statement.view)
        self._snapshots.drop_table(found)

    def _add_partitions(self, statement: ChangePartitions, table: StoredTable) -> None:
        for spec in statement.specs:
            _, made = self._catalog.ensure_partition(table, spec)
            if not made and not statement.lenient:
                values = json.dumps([value for _, value in spec], ensure_ascii=False)
                raise faults.invalid(
                    "ODPS-0110061: Failed to run ddltask - AlreadyExistsException(message:"
                    f"Partition already exists, existed values: {values})",
                    code="ObjectAlreadyExists",
                )


def _changed_column(table: StoredTable, change: ChangeColumn) -> TableSchema:
    """Return the schema with a changed column comment, or with the column made nullable."""
    column = table.schema.find(change.column)
    if column is None:
        raise faults.semantic(f"{table.name} has no column {change.column!r}")
    said = change.said or column
    if said.type != column.type:
        raise faults.lacks("changing the type of a column with CHANGE COLUMN", is_sure=True)
    comment = column.comment if change.comment is None else change.comment
    new = replace(column, comment=comment, nullable=column.nullable or change.nullable)

    def swap(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return tuple(new if one is column else one for one in columns)

    schema = table.schema
    return TableSchema(
        columns=swap(schema.columns), partition_columns=swap(schema.partition_columns)
    )
