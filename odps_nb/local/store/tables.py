"""Dataclasses for tables and partitions, and their conversion to and from catalog rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from odps_nb.local import errors
from odps_nb.local.store.arrow_types import arrow_type, check_listable, constant
from odps_nb.schema import (
    Column,
    Generated,
    MapType,
    PrimitiveType,
    TableSchema,
    TypeCode,
    has_blob,
    types_in,
)
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.control import BLOB_TABLE_PROPERTIES, BLOB_TABLE_SETTINGS
from odps_nb.wire.control.table_limits import (
    decimal_settings,
    definition_problem,
    is_column_name,
    partition_value_problem,
)
from odps_nb.wire.schema_json import assign_column_ids, decode_flat, encode_flat

PRIMARY_KEY = "primary_key"
CLUSTERED_BY = "clustered_by"
VIEW, MATERIALIZED = "__view", "__materialized_view"
CDC_PROPERTY = "acid.cdc.mode.enable"
"""The property of tables whose changes can be read (vendor's page *Change data capture*)."""
PASSTHROUGH_PROPERTY = "cdc.insert.into.passthrough.enable"
_RETENTION = "cdc.data.retain.hours"
_HISTORY = "acid.data.retain.hours"
_DEFAULT_HOURS, _MAX_HOURS = 24, 168
OPERATION = Column(name="__operation", type=PrimitiveType(TypeCode.TINYINT))
"""The column with each row's operation (upsert or delete) in writes to primary-key tables."""
TableKind = Literal["table", "view", "materialized view"]
TABLE_TYPES: dict[TableKind, str] = {
    "table": "MANAGED_TABLE",
    "view": "VIRTUAL_VIEW",
    "materialized view": "MATERIALIZED_VIEW",
}
_TABLE_FIELDS = (
    *("table_id", "comment", "owner", "lifecycle", "schema_version", "version"),
    *("created", "altered", "modified"),
)
_PARTITION_FIELDS = ("partition_id", "created", "altered", "modified", "rows", "files")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view's query and column names, and the project and schema of unqualified table names.

    ``rewrites``: whether the materialized view was created without ``DISABLE REWRITE``.
    """

    text: str
    names: tuple[str, ...]
    project: str
    schema: str | None
    three_parts: bool
    rewrites: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """A table or view in the catalog. Times are epoch seconds.

    ``stored`` maps columns to their names in row files, where these differ: a file keeps the names
    that it was written with, and no name is used for two columns.
    """

    table_id: int
    name: TableName
    schema: TableSchema
    comment: str = ""
    owner: str = ""
    lifecycle: int = -1
    properties: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = 0
    version: int = 0
    created: float = 0.0
    altered: float = 0.0
    modified: float = 0.0

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Names of the primary key columns; empty for a table without one."""
        return tuple(name for name in self.properties.get(PRIMARY_KEY, "").split(",") if name)

    @property
    def view(self) -> View | None:
        """The definition of a view; ``None`` for a table."""
        text = self.properties.get(VIEW)
        return None if text is None else View(**json.loads(text))

    @property
    def materialized(self) -> View | None:
        """The definition of a materialized view, whose rows are stored; ``None`` for others."""
        text = self.properties.get(MATERIALIZED)
        return None if text is None else View(**json.loads(text))

    @property
    def kind(self) -> TableKind:
        """Whether this is a table, a view or a materialized view."""
        if self.view is not None:
            return "view"
        return "table" if self.materialized is None else "materialized view"

    @property
    def is_clustered(self) -> bool:
        """Whether the table was created with ``CLUSTERED BY``."""
        return CLUSTERED_BY in self.properties

    def lower_property(self, name: str) -> str:
        """Return a property in lower case, ``""`` if it is absent; names are case-insensitive."""
        values = (value for key, value in self.properties.items() if key.lower() == name)
        return next(values, "").lower()

    @property
    def is_append2(self) -> bool:
        """Whether the table is transactional or has the newer append format."""
        format_version = self.lower_property("table.format.version")
        return self.lower_property("transactional") == "true" or format_version == "2"

    @property
    def records_changes(self) -> bool:
        """Whether sessions can read the changes of this table."""
        return self.lower_property(CDC_PROPERTY) == "true"

    @property
    def hours_of_changes(self) -> int:
        """How many hours the service keeps the changes of this table."""
        return int(self.lower_property(_RETENTION) or _DEFAULT_HOURS)

    @property
    def hours_of_history(self) -> int:
        """How many hours the service keeps replaced rows; 0 for none."""
        hours = self.lower_property(_HISTORY) if self.is_append2 else ""
        return int(hours) if hours.isascii() and hours.isdigit() and len(hours) < 6 else 0

    @property
    def changes_pin(self) -> str:
        """The pseudo session id that pins the change log's files."""
        return f"changes-{self.table_id}"

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.schema.partition_columns)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Names of the partition columns, outermost first."""
        return tuple(column.name for column in self.schema.partition_columns)

    def spec(self, items: PartitionSpec, *, whole: bool = False) -> PartitionSpec:
        """Return the spec in key order, with the keys spelled as in the table.

        Raises 400 for an unknown or repeated key and, with ``whole``, for a missing key.
        """
        known = {key.casefold(): key for key in self.partition_keys}
        values: dict[str, str] = {}
        for key, value in items:
            name = known.get(key.casefold())
            if name is None or name in values:
                keys = ", ".join(self.partition_keys) or "(none)"
                raise errors.invalid(
                    f"{items} does not match the partition keys {keys} of {self.name.table}",
                    code="InvalidPartitionSpec",
                )
            values[name] = value
        if whole and len(values) < len(known):
            missing = next(key for key in self.partition_keys if key not in values)
            raise errors.invalid(
                f"the partition spec {str(items)!r} has no value for {missing!r}",
                code="InvalidPartitionSpec",
            )
        return PartitionSpec(tuple((k, values[k]) for k in self.partition_keys if k in values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition with its current row, byte and file counts."""

    partition_id: int
    spec: PartitionSpec
    created: float
    altered: float
    modified: float
    rows: int = 0
    raw_bytes: int = 0
    files: int = 0


def check_values(table: StoredTable, spec: PartitionSpec) -> PartitionSpec:
    """Check and return a spec, or raise 400 if a value is invalid for its key's type."""
    columns = {column.name: column for column in table.schema.partition_columns}
    for key, value in spec:
        check_listable(value, key)
        constant(value, columns[key].type, key)
        if problem := partition_value_problem(columns[key], value):
            raise errors.invalid(problem, code="InvalidPartitionSpec")
    return spec


def check_columns(schema: TableSchema, comment: str = "") -> None:
    """Raise 400 if the columns or the comment are invalid for a table."""
    if not schema.columns:
        raise errors.invalid("a table needs at least one column")
    seen: set[str] = set()
    for column in schema.all_columns:
        if column.name.casefold() in seen:
            raise errors.invalid(f"the column name {column.name!r} is used twice")
        seen.add(column.name.casefold())
        arrow_type(column.type)
        inner = types_in(column.type)  # keys must be comparable, but blobs are not
        if any(isinstance(nested, MapType) and has_blob(nested.key) for nested in inner):
            raise errors.invalid(f"the column {column.name!r} has a MAP whose key contains a BLOB")
        if not is_column_name(column.name):
            raise errors.invalid(f"{column.name!r} is not a valid column name")
    if problem := definition_problem(schema, comment):
        raise errors.invalid(problem)


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise 400 if the retention period for changes is invalid."""
    for key, value in properties.items():
        hours = int(value) if value.isascii() and value.isdigit() and len(value) <= 3 else 0
        if key.lower() == _RETENTION and not 1 <= hours <= _MAX_HOURS:
            raise errors.semantic(
                f"the property {key} is {value!r}; it must be a number from 1 to {_MAX_HOURS}"
            )


def check_types(
    schema: TableSchema, properties: Mapping[str, str], settings: Mapping[str, str]
) -> None:
    """Raise 400 if a BLOB or wide DECIMAL column lacks the required properties or settings."""
    check_columns(schema)
    check_properties(properties)
    check_decimals(schema, settings)
    if not any(has_blob(column.type) for column in schema.columns):
        return
    required = dict(BLOB_TABLE_SETTINGS)
    del required["odps.sql.type.system.odps2"]
    missing = _lacking(required, settings) + [
        f"TBLPROPERTIES ('{k}'='{v}')"
        for k, v in BLOB_TABLE_PROPERTIES.items()
        if properties.get(k, "").lower() != v
    ]
    if missing:
        raise errors.semantic("only Append Delta tables support BLOB; add: " + ", ".join(missing))


def check_decimals(schema: TableSchema, settings: Mapping[str, str]) -> None:
    """Raise 400 if a wide DECIMAL column lacks the required settings."""
    if lacking := _lacking(decimal_settings(schema), settings):
        raise errors.semantic(
            "DECIMAL has at most 38 digits, 18 of them after the point; for more, "
            "add: " + ", ".join(lacking)
        )


def _lacking(required: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    return [f"SET {k}={v}" for k, v in required.items() if settings.get(k, "").lower() != v]


def definition_text(schema: TableSchema, stored: Mapping[str, str]) -> str:
    """Serialise the columns, and their names in row files, for the catalog."""
    generated = {c.name: asdict(c.generated) for c in schema.partition_columns if c.generated}
    members = encode_flat(schema) | {"Generated": generated, "Stored": dict(stored)}
    return json.dumps(members, ensure_ascii=False)


def _schema_of(members: Mapping[str, Any]) -> TableSchema:
    schema, generated = decode_flat(members), members.get("Generated", {})
    keys = tuple(
        replace(key, generated=Generated(**generated[key.name])) if key.name in generated else key
        for key in schema.partition_columns
    )
    return assign_column_ids(replace(schema, partition_columns=keys))


def table_of_row(row: sqlite3.Row) -> StoredTable:
    """Return a table from its row in the catalog."""
    definition = json.loads(row["definition"])
    return StoredTable(
        name=TableName(project=row["project"], schema=row["schema"], table=row["name"]),
        schema=_schema_of(definition),
        stored=definition.get("Stored", {}),
        properties=json.loads(row["properties"]),
        **{key: row[key] for key in _TABLE_FIELDS},
    )


def partition_of_row(table: StoredTable, row: sqlite3.Row) -> Partition:
    """Return a partition from its row in the catalog."""
    return Partition(
        spec=spec_of_text(table, row["spec"]),
        raw_bytes=row["bytes"],
        **{key: row[key] for key in _PARTITION_FIELDS},
    )


def spec_text(spec: PartitionSpec) -> str:
    """Serialise partition values for the catalog."""
    return json.dumps([value for _, value in spec], ensure_ascii=False)


def spec_of_text(table: StoredTable, text: str | None) -> PartitionSpec:
    """Parse partition values from the catalog; empty for an unpartitioned table."""
    if text is None:
        return PartitionSpec()
    return PartitionSpec(tuple(zip(table.partition_keys, json.loads(text), strict=True)))
