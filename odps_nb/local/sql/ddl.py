"""Runs DDL statements; each is atomic."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.errors import NotFoundError
from odps_nb.local import errors
from odps_nb.local.duck import Duck
from odps_nb.local.rights import Right, Rights
from odps_nb.local.sql.parsing.statements import (
    AlterTable,
    ChangeColumn,
    ChangePartitions,
    ChangeSchema,
    DropTable,
    Name,
)
from odps_nb.local.store.catalog import Catalog
from odps_nb.local.store.snapshots import Snapshots
from odps_nb.local.store.tables import (
    CLUSTERED_BY,
    Partition,
    StoredTable,
    TableKind,
    check_decimals,
    check_properties,
)
from odps_nb.schema import Column, LengthType, OdpsType, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName

ZONE = "odps.sql.timezone"


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone, or raise 400 for an unknown name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise errors.semantic(
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
            raise errors.parse_failed(f"{'.'.join(name)} is not a valid table name")
        if len(name) == 2 and self.three_parts:
            table_name = TableName(project=self.project, schema=name[0], table=name[1])
        else:
            table_name = TableName.parse(".".join(name), project=self.project, schema=self.schema)
        self.rights.require(self.owner, table_name.project, right)
        return table_name

    def named(self, catalog: Catalog, name: Name, right: Right = Right.QUERY) -> StoredTable:
        """Return a table or view by its name as written in SQL; errors include advice."""
        table_name = self.table(name, right)
        try:
            return catalog.table(table_name)
        except NotFoundError as error:
            advice = self._advice(catalog, name, error.code)
            message = errors.with_advice(error.message, advice)
            raise NotFoundError(message, status=error.status, code=error.code) from None

    def _advice(self, catalog: Catalog, name: Name, code: str | None) -> str:
        if name[0].casefold() == "information_schema" and len(name) == 2:
            whole = f"SYSTEM_CATALOG.{'.'.join(name)}".upper()
            return f"write {whole}, and set odps.namespace.schema=true"
        if code == "NoSuchProject" and len(name) == 2:
            whole = f"{self.project}.{'.'.join(name)}"
            if name[0] in catalog.schemas(self.project):
                return f"write {whole}: a two-part name begins with a project, not a schema"
            return f"check the name; tables in schemas need the full name, such as {whole}"
        return ""


def changed_table(catalog: Catalog, place: Place, written: Name, *kinds: TableKind) -> StoredTable:
    """Return the object to change; raise 400 if its kind is not in ``kinds`` (default: table)."""
    table = place.named(catalog, written, Right.WRITE)
    if table.kind not in (kinds or ("table",)):
        expected = kinds[0] if kinds else "table"
        raise errors.semantic(f"{table.name} is a {table.kind}, not a {expected}")
    return table


class Definitions:
    """Runs DDL statements."""

    def __init__(self, catalog: Catalog, snapshots: Snapshots, duck: Duck) -> None:
        self._catalog, self._snapshots, self._duck = catalog, snapshots, duck

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
                kind: TableKind = "view" if statement.view else "table"
                table = changed_table(self._catalog, place, statement.name, kind)
                self._catalog.change_schema(table, *_changed_column(table, statement))
            case AlterTable(dropped=dropped) if dropped:
                table = changed_table(self._catalog, place, statement.name)
                self._catalog.change_schema(table, *_without(table, dropped))
            case AlterTable(added=added) if added:
                table = changed_table(self._catalog, place, statement.name)
                self._add_columns(statement, table, place.settings)
            case AlterTable():
                kind = "view" if statement.view else "table"
                table = changed_table(self._catalog, place, statement.name, kind)
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
        partitions: list[Partition] = []
        for spec in map(table.spec, statement.specs):
            covered = [
                partition
                for partition in self._catalog.partitions(table)
                if spec.covers(partition.spec)
            ]
            if not covered and not statement.lenient:
                raise errors.no_such_partition(spec, table.name)
            partitions += covered
        for condition in statement.conditions:
            partitions += [
                partition
                for partition in self._matching(table, condition)
                if partition not in partitions
            ]
        if statement.action == "touch":
            self._catalog.touch(table, partitions)
        elif statement.action == "drop":
            for partition in partitions:
                self._snapshots.drop_partition(table, partition)
        else:
            is_whole = not statement.specs and not statement.conditions
            specs = [PartitionSpec()] if is_whole else [partition.spec for partition in partitions]
            self._snapshots.publish(table, (), replace=specs)

    def _matching(self, table: StoredTable, condition: str) -> list[Partition]:
        """Return the partitions for which a condition on partition columns is true."""
        from odps_nb.local.reading.predicates import Predicate  # imports sqlglot

        keys = TableSchema(partition_columns=table.schema.partition_columns)
        predicate = Predicate.parse(condition, keys, self._duck)
        if not predicate.columns:
            raise errors.semantic("the condition in PARTITION (…) names no partition column")
        known = self._catalog.partitions(table)
        mask = predicate.keeps([partition.spec for partition in known], keys)
        return [partition for partition, is_kept in zip(known, mask, strict=True) if is_kept]

    def _add_columns(
        self, statement: AlterTable, table: StoredTable, settings: Mapping[str, str]
    ) -> None:
        known = table.schema.find if statement.lenient else lambda _name: None
        added = tuple(c for c in statement.added if known(c.name) is None)
        check_decimals(TableSchema(columns=added), settings)
        if added:
            schema = replace(table.schema, columns=(*table.schema.columns, *added))
            # use new names in the files, which may still contain dropped or renamed columns
            names = {c.name: f"{c.name}:{table.schema_version + 1}" for c in added}
            self._catalog.change_schema(table, schema, {**table.stored, **names})

    def _change_schema(self, statement: ChangeSchema, place: Place) -> None:
        name = statement.name[-1]
        project = statement.name[0] if len(statement.name) == 2 else place.project
        place.rights.require(place.owner, project, Right.WRITE)
        if not statement.drops:
            self._catalog.add_schema(
                project, name, comment=statement.comment, if_not_exists=statement.lenient
            )
        elif not statement.lenient or name in self._catalog.schemas(project):
            if statement.cascade and name in self._catalog.schemas(project):
                for table in self._catalog.tables(project, name):
                    self._snapshots.drop_table(table)
            self._catalog.drop_schema(project, name)

    def _drop(self, statement: DropTable, place: Place) -> None:
        name = place.table(statement.name, Right.WRITE)
        table = self._catalog.find_table(name)
        if table is None and statement.if_exists:
            return
        kinds: tuple[TableKind, ...] = (statement.kind,)
        if statement.kind == "view":  # dbt-maxcompute and pyodps also drop materialized views
            kinds += ("materialized view",)
        dropped = changed_table(self._catalog, place, statement.name, *kinds)
        self._snapshots.drop_table(dropped)

    def _add_partitions(self, statement: ChangePartitions, table: StoredTable) -> None:
        for spec in statement.specs:
            _, is_new = self._catalog.ensure_partition(table, spec)
            if not is_new and not statement.lenient:
                values = json.dumps([value for _, value in spec], ensure_ascii=False)
                raise errors.invalid(
                    "ODPS-0110061: Failed to run ddltask - AlreadyExistsException(message:"
                    f"Partition already exists, existed values: {values})",
                    code="ObjectAlreadyExists",
                )


def _changed_column(
    table: StoredTable, change: ChangeColumn
) -> tuple[TableSchema, Mapping[str, str]]:
    """Return the schema with a changed column, and the names in row files."""
    column = _found_column(table, change.column)
    definition = change.definition or column
    if definition.type != column.type and not _is_wider(definition.type, column.type):
        raise errors.lacks("changing the type of a column with CHANGE COLUMN", is_sure=True)
    name, stored = change.new_name or column.name, dict(table.stored)
    if name != column.name:
        _check_free(table, column, "renamed")
        stored[name] = stored.pop(column.name, column.name)
    comment = column.comment if change.comment is None else change.comment
    nullable = column.nullable or change.nullable
    new = replace(column, name=name, type=definition.type, comment=comment, nullable=nullable)

    def swap(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return tuple(new if item is column else item for item in columns)

    schema = table.schema
    changed = TableSchema(
        columns=swap(schema.columns), partition_columns=swap(schema.partition_columns)
    )
    return changed, stored


def _is_wider(new: OdpsType, old: OdpsType) -> bool:
    """Return whether the stored texts of a column remain valid with the new type."""
    if not isinstance(old, LengthType) or old.code is not TypeCode.VARCHAR:
        return False
    if isinstance(new, LengthType):
        return new.code is TypeCode.VARCHAR and new.length >= old.length
    return new.code is TypeCode.STRING


def _without(table: StoredTable, names: Sequence[str]) -> tuple[TableSchema, Mapping[str, str]]:
    """Return the schema without some columns, and the names in row files."""
    gone = [_found_column(table, name) for name in names]
    for column in gone:
        _check_free(table, column, "dropped")
    schema = replace(
        table.schema, columns=tuple(column for column in table.schema.columns if column not in gone)
    )
    dropped = {column.name for column in gone}
    return schema, {name: file for name, file in table.stored.items() if name not in dropped}


def _found_column(table: StoredTable, name: str) -> Column:
    column = table.schema.find(name)
    if column is None:
        raise errors.semantic(f"{table.name} has no column {name!r}")
    return column


def _check_free(table: StoredTable, column: Column, what: str) -> None:
    """Raise 400 if a key or the clustering of the table uses the column."""
    clustered = re.findall(r"[\w$]+", table.properties.get(CLUSTERED_BY, ""))
    used_names = [*table.key_columns, *table.partition_keys, *clustered]
    sources = map(table.schema.source_of, table.schema.partition_columns)
    used_names += [source.name for source in sources if source is not None]
    if column.name.casefold() in map(str.casefold, used_names):
        raise errors.semantic(
            f"the column {column.name!r} of {table.name} cannot be {what}: a primary key, the "
            "partitions or the clustering use it"
        )
