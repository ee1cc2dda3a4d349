"""Immutable dataclasses for SQL statements. Names are kept as written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from odps_nb.local.store.tables import TableKind
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import PartitionSpec

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectStatement:
    """A SELECT (or VALUES, or WITH …)."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN of a query or, with ``output``, EXPLAIN OUTPUT (``text`` is empty if not a query)."""

    text: str
    output: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE; ``query`` for CREATE TABLE … AS, ``like`` for CREATE TABLE … LIKE."""

    name: Name
    schema: TableSchema | None = None
    if_not_exists: bool = False
    comment: str = ""
    lifecycle: int = -1
    properties: tuple[tuple[str, str], ...] = ()
    query: str | None = None
    like: Name | None = None
    or_replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW … AS; ``columns`` are (name, comment) pairs, or empty."""

    name: Name
    query: str
    columns: tuple[tuple[str, str], ...] = ()
    comment: str = ""
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMaterialized:
    """CREATE MATERIALIZED VIEW … AS; ``partitions`` are columns of the query.

    ``deferred``: the query does not run before the first REBUILD.
    """

    view: CreateView
    partitions: tuple[str, ...] = ()
    lifecycle: int = -1
    properties: tuple[tuple[str, str], ...] = ()
    deferred: bool = False
    rewrites: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """ALTER MATERIALIZED VIEW … REBUILD."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneTable:
    """CLONE TABLE … [PARTITION (…)] TO …; without ``specs``, all rows are copied."""

    source: Name
    specs: tuple[PartitionSpec, ...]
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """DROP TABLE, DROP VIEW or DROP MATERIALIZED VIEW, according to ``kind``."""

    name: Name
    kind: TableKind
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePartitions:
    """TRUNCATE TABLE, or ALTER TABLE … ADD, DROP, TOUCH, PARTITION … RENAME TO PARTITION ….

    ``conditions`` select further partitions to truncate or drop.
    """

    action: Literal["truncate", "add", "drop", "touch", "rename"]
    name: Name
    specs: tuple[PartitionSpec, ...] = ()
    conditions: tuple[str, ...] = ()
    lenient: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE … RENAME TO, SET …, ADD COLUMNS or DROP COLUMNS.

    A field that is ``None`` changes nothing.
    """

    name: Name
    new_name: str | None = None
    comment: str | None = None
    lifecycle: int | None = None
    properties: tuple[tuple[str, str], ...] = ()
    added: tuple[Column, ...] = ()
    dropped: tuple[str, ...] = ()
    lenient: bool = False
    view: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn:
    """ALTER TABLE (or VIEW) … CHANGE [COLUMN] …; ``definition`` is the new one as written."""

    name: Name
    column: str
    new_name: str | None = None
    definition: Column | None = None
    comment: str | None = None
    nullable: bool = False
    view: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO/OVERWRITE …; a partition key without a value is dynamic.

    ``has_operations``: the last column of a row is the operation (upsert or delete).
    ``rewrites``: the rows replace all rows that the table had when the statement began.
    ``choices``: the last column of the query is an index into ``choices``. A choice lists the
    positions of a row's values among the other columns (``None``: null). Rows with a null index
    are omitted. Without ``choices``, the rows of the query are inserted unchanged. Rows with the
    index ``kept`` are rewritten unchanged; all others, even omitted ones, count as changed.
    """

    name: Name
    overwrite: bool
    query: str
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: tuple[str, ...] = ()
    has_operations: bool = False
    rewrites: bool = False
    choices: tuple[tuple[int | None, ...], ...] = ()
    kept: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserts:
    """FROM … INSERT … INSERT …: all inserts see the same rows, and are published together."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRows:
    """UPDATE … SET column = expression WHERE …, or (without ``values``) DELETE FROM … WHERE …."""

    name: Name
    alias: str = ""
    values: tuple[tuple[str, str], ...] = ()
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch of MERGE: WHEN [NOT] MATCHED [AND condition] THEN …; a DELETE has no ``values``."""

    matched: bool
    values: tuple[tuple[str, str], ...] = ()
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """MERGE INTO …; ``source`` is a table name or ``( query )``, as written."""

    name: Name
    alias: str
    source: str
    source_alias: str
    condition: str
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """SHOW TABLES, SCHEMAS, PARTITIONS or CREATE TABLE; ``what`` is ``columns`` for DESC."""

    what: str
    name: Name = ()
    pattern: str = "*"
    within: PartitionSpec | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSchema:
    """CREATE SCHEMA [IF NOT EXISTS] … [COMMENT], or DROP SCHEMA [IF EXISTS] … [CASCADE]."""

    name: Name
    drops: bool
    lenient: bool
    cascade: bool = False
    comment: str = ""


Statement = (
    SelectStatement
    | Explain
    | CreateTable
    | CreateView
    | CreateMaterialized
    | Rebuild
    | CloneTable
    | DropTable
    | ChangePartitions
    | AlterTable
    | ChangeColumn
    | Insert
    | Inserts
    | ChangeRows
    | Merge
    | Show
    | ChangeSchema
)
