"""Runs SQL statements on the catalogue: DDL directly, queries in DuckDB (world local).

A query sees the tables as they are when it starts and nothing else of this machine. What it
writes becomes visible at once, or not at all.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from odps_nb.errors import CancelledError
from odps_nb.local import faults, sql_text
from odps_nb.local.arrow_types import arrow_schema, arrow_type
from odps_nb.local.blobs import BlobStore
from odps_nb.local.catalog import Catalog, Table
from odps_nb.local.constants import constant
from odps_nb.local.duck import open_duck
from odps_nb.local.duck_types import duck_type, result_array, result_type
from odps_nb.local.folder import Folder, new_id
from odps_nb.local.ingest import Ingest
from odps_nb.local.snapshots import Segment, Snapshots
from odps_nb.local.sql_query import TranslatedQuery, translate
from odps_nb.schema import Column, OdpsType, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import format_type

__all__ = ["Place", "Rows", "SqlRunner", "Stopper"]

BATCH_ROWS = 64 * 1024
STRING = PrimitiveType(TypeCode.STRING)
_SHOWN = (sql_text.ShowTables, sql_text.ShowPartitions, sql_text.Describe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where names without project or schema belong, and who asks."""

    project: str
    schema: str | None = None
    owner: str = ""
    three_parts: bool = False

    def table(self, name: sql_text.Name) -> TableName:
        """Read a name as written in SQL."""
        if len(name) > 3:
            raise faults.parse_failed(f"{'.'.join(name)} is no table name")
        if len(name) == 2 and self.three_parts:
            return TableName(project=self.project, schema=name[0], table=name[1])
        return TableName.parse(".".join(name), project=self.project, schema=self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of a query, made while they are taken."""

    schema: TableSchema
    batches: Iterator[pa.RecordBatch]


@dataclass(slots=True)
class Stopper:
    """Stops a running statement from another thread."""

    stopped: bool = False
    _connections: list[Any] = field(default_factory=list)

    def watch(self, connection: Any) -> None:
        """Interrupt this connection when told to stop."""
        self._connections.append(connection)
        self.check()

    def release(self, connection: Any) -> None:
        """Forget a connection that is done."""
        self._connections.remove(connection)

    def stop(self) -> None:
        """Stop now."""
        self.stopped = True
        for connection in list(self._connections):
            connection.interrupt()

    def check(self) -> None:
        """Raise when told to stop."""
        if self.stopped:
            raise CancelledError("the query was cancelled")


class SqlRunner:
    """Runs statements; each call does one and is done when its rows are taken."""

    def __init__(
        self, catalog: Catalog, snapshots: Snapshots, blobs: BlobStore, folder: Folder
    ) -> None:
        self._catalog, self._snapshots = catalog, snapshots
        self._blobs, self._folder = blobs, folder

    def run(
        self, statement: sql_text.Statement, place: Place, stopper: Stopper, stack: ExitStack
    ) -> Rows | None:
        """Run a statement; a query gives rows, which are valid until ``stack`` is closed."""
        if isinstance(statement, sql_text.Query):
            return self._query(statement.text, place, stopper, stack)
        if isinstance(statement, _SHOWN):
            return self._show(statement, place)
        if isinstance(statement, sql_text.Insert):
            self._insert(statement, place, stopper, stack)
        elif isinstance(statement, sql_text.CreateTable):
            self._create(statement, place, stopper, stack)
        elif isinstance(statement, (sql_text.CreateSchema, sql_text.DropSchema)):
            self._change_schema(statement, place)
        elif isinstance(statement, sql_text.DropTable):
            self._drop(statement, place)
        else:
            self._change(statement, self._catalog.table(place.table(statement.name)))
        return None

    # -- queries ------------------------------------------------------------------------------

    def _query(self, text: str, place: Place, stopper: Stopper, stack: ExitStack) -> Rows:
        connection, query = self._open(text, place, stopper, stack)
        return _typed_rows(connection, query, self._stored_types(query, place))

    def _open(
        self, text: str, place: Place, stopper: Stopper, stack: ExitStack
    ) -> tuple[Any, TranslatedQuery]:
        query = translate(text, exists=lambda name: self._catalog.table(place.table(name)))
        connection = open_duck(threads=2, macros=query.macros)
        stack.callback(connection.close)
        stopper.watch(connection)
        stack.callback(stopper.release, connection)
        pin = new_id()
        stack.callback(self._snapshots.unpin, pin)
        for ours, name in query.tables.items():
            table = self._catalog.table(place.table(name))
            segments = self._snapshots.visible(table)
            self._snapshots.pin(pin, segments)
            connection.register(ours, _dataset(self._folder, table, segments))
        return connection, query

    def _stored_types(self, query: TranslatedQuery, place: Place) -> dict[str, OdpsType]:
        """Types of columns that a result may hold as they are, where the name says which."""
        found: dict[str, OdpsType | None] = {}
        for name in query.tables.values():
            for column in self._catalog.table(place.table(name)).schema:
                key = column.name.casefold()
                same = found.setdefault(key, column.type)
                if same != column.type:
                    found[key] = None
        return {key: odps for key, odps in found.items() if odps is not None}

    # -- writing ------------------------------------------------------------------------------

    def _insert(
        self, statement: sql_text.Insert, place: Place, stopper: Stopper, stack: ExitStack
    ) -> None:
        table = self._catalog.table(place.table(statement.name))
        spec, columns = _insert_target(table, statement)
        connection, query = self._open(statement.query, place, stopper, stack)
        casts = ", ".join(
            f"CAST(c{i} AS {duck_type(column.type)}) AS c{i}" for i, column in enumerate(columns)
        )
        names = ", ".join(f"c{i}" for i in range(len(columns)))
        relation = _sql(connection, query.sql)
        if len(relation.columns) != len(columns):
            raise faults.invalid(
                f"ODPS-0130071: the query gives {len(relation.columns)} columns, "
                f"the table takes {len(columns)}"
            )
        wrapped = f"SELECT {casts} FROM ({query.sql}) AS q({names})"
        with Ingest(self._folder, table, spec, self._blobs) as ingest:
            for batch in _batches(_sql(connection, wrapped)):
                stopper.check()
                arrays = [
                    result_array(array, column.type)
                    for array, column in zip(batch.columns, columns, strict=True)
                ]
                ingest.write(pa.record_batch(arrays, names=[c.name for c in columns]))
            additions = ingest.finish()
        stopper.check()
        replace: list[PartitionSpec] | None = None
        if statement.overwrite:
            dynamic = table.is_partitioned and len(spec) < len(table.partition_keys)
            replace = [a.spec for a in additions] if dynamic else [spec]
        if table.is_partitioned and len(spec) == len(table.partition_keys):
            self._catalog.ensure_partition(table, spec)
        self._snapshots.publish(table, additions, replace=replace)

    def _create(
        self, statement: sql_text.CreateTable, place: Place, stopper: Stopper, stack: ExitStack
    ) -> None:
        name = place.table(statement.name)
        if statement.if_not_exists and self._catalog.find_table(name) is not None:
            return
        rows = None
        schema = statement.schema
        if statement.like is not None:
            schema = self._catalog.table(place.table(statement.like)).schema
        elif statement.query is not None:
            rows = self._query(statement.query, place, stopper, stack)
            schema = rows.schema
        assert schema is not None
        table = self._catalog.create_table(
            name,
            schema,
            owner=place.owner,
            comment=statement.comment,
            lifecycle=statement.lifecycle,
            properties=dict(statement.properties),
        )
        if rows is None:
            return
        try:
            with Ingest(self._folder, table, PartitionSpec(), self._blobs) as ingest:
                for batch in rows.batches:
                    stopper.check()
                    ingest.write(batch)
                additions = ingest.finish()
            self._snapshots.publish(table, additions)
        except BaseException:
            self._snapshots.drop_table(table)
            raise

    def _change(self, statement: Any, table: Table) -> None:
        match statement:
            case sql_text.Truncate():
                specs = [table.spec(s) for s in statement.specs] or [PartitionSpec()]
                self._snapshots.publish(table, (), replace=specs)
            case sql_text.AddPartitions():
                self._add_partitions(statement, table)
            case sql_text.DropPartitions():
                self._drop_partitions(statement, table)
            case sql_text.AlterTable():
                self._catalog.alter_table(
                    table,
                    name=statement.new_name,
                    comment=statement.comment,
                    lifecycle=statement.lifecycle,
                    properties=dict(statement.properties),
                )
            case sql_text.AddColumns():
                schema = TableSchema(
                    columns=(*table.schema.columns, *statement.columns),
                    partition_columns=table.schema.partition_columns,
                )
                self._catalog.change_schema(table, schema)

    def _change_schema(
        self, statement: sql_text.CreateSchema | sql_text.DropSchema, place: Place
    ) -> None:
        project, name = _schema_name(statement.name, place)
        if isinstance(statement, sql_text.CreateSchema):
            self._catalog.add_schema(project, name, if_not_exists=statement.if_not_exists)
        elif not statement.if_exists or name in self._catalog.schemas(project):
            self._catalog.drop_schema(project, name)

    def _drop(self, statement: sql_text.DropTable, place: Place) -> None:
        name = place.table(statement.name)
        table = self._catalog.find_table(name)
        if table is None and statement.if_exists:
            return
        self._snapshots.drop_table(table or self._catalog.table(name))

    def _add_partitions(self, statement: sql_text.AddPartitions, table: Table) -> None:
        for spec in statement.specs:
            _, made = self._catalog.ensure_partition(table, spec)
            if not made and not statement.if_not_exists:
                raise faults.invalid(
                    f"ODPS-0110061: the partition {spec} exists", code="ObjectAlreadyExists"
                )

    def _drop_partitions(self, statement: sql_text.DropPartitions, table: Table) -> None:
        for spec in statement.specs:
            wanted = table.spec(spec)
            found = [p for p in self._catalog.partitions(table) if wanted.covers(p.spec)]
            if not found and not statement.if_exists:
                raise faults.no_such_partition(spec, table.name)
            for partition in found:
                self._snapshots.drop_partition(table, partition)

    # -- looking ------------------------------------------------------------------------------

    def _show(self, statement: Any, place: Place) -> Rows:
        if isinstance(statement, sql_text.ShowTables):
            project, schema = place.project, place.schema
            if statement.scope:
                project, schema = _scope(statement.scope, place)
            names = [t.name.table for t in self._catalog.tables(project, schema)]
            return _text_rows(
                ("table_name",), [(n,) for n in names if fnmatch.fnmatch(n, statement.pattern)]
            )
        table = self._catalog.table(place.table(statement.name))
        if isinstance(statement, sql_text.ShowPartitions):
            specs = [str(p.spec).replace(",", "/") for p in self._catalog.partitions(table)]
            return _text_rows(("partition",), [(spec,) for spec in specs])
        return _text_rows(
            ("name", "type", "comment"),
            [(c.name, format_type(c.type), c.comment) for c in table.schema],
        )


def _insert_target(
    table: Table, statement: sql_text.Insert
) -> tuple[PartitionSpec, tuple[Column, ...]]:
    """Return the fixed partition keys and the columns that the query feeds, in order."""
    fixed = tuple((k, v) for k, v in statement.partition if v is not None)
    spec = table.spec(PartitionSpec(fixed))
    table.spec(PartitionSpec(tuple((k, v or "") for k, v in statement.partition)))
    given = {key for key, _ in spec}
    dynamic = tuple(c for c in table.schema.partition_columns if c.name not in given)
    columns = table.schema.columns
    if statement.columns:
        found = [table.schema.find(name) for name in statement.columns]
        if None in found:
            missing = statement.columns[found.index(None)]
            raise faults.invalid(f"ODPS-0130071: the table has no column {missing!r}")
        columns = tuple(c for c in found if c is not None and c not in dynamic)
    return spec, (*columns, *dynamic)


def _schema_name(name: sql_text.Name, place: Place) -> tuple[str, str]:
    return (name[0], name[1]) if len(name) == 2 else (place.project, name[-1])


def _scope(name: sql_text.Name, place: Place) -> tuple[str, str | None]:
    if len(name) == 2:
        return name[0], name[1]
    return (place.project, name[0]) if place.three_parts else (name[0], None)


def _dataset(folder: Folder, table: Table, segments: Sequence[Segment]) -> ds.Dataset:
    """Return the visible rows of a table as an Arrow dataset with its partition columns."""
    schema = arrow_schema(table.schema)
    schema = pa.schema([field.with_nullable(True) for field in schema])
    if not segments:
        return ds.dataset(schema.empty_table())
    files, here = ds.ParquetFileFormat(), fs.LocalFileSystem()
    types = {c.name: arrow_type(c.type) for c in table.schema.partition_columns}
    fragments = []
    for segment in segments:
        condition: Any = None
        for key, value in segment.spec:
            one = ds.field(key) == constant(value, types[key], key)
            condition = one if condition is None else condition & one
        path = str(folder.row_file(segment.name))
        fragments.append(files.make_fragment(path, here, partition_expression=condition))
    return ds.FileSystemDataset(fragments, schema, files, here)


def _sql(connection: Any, query: str) -> Any:
    with _duck_errors():
        return connection.sql(query)


def _batches(relation: Any) -> Iterator[pa.RecordBatch]:
    with _duck_errors():
        for batch in relation.to_arrow_reader(BATCH_ROWS):
            if batch.num_rows:
                yield batch


@contextmanager
def _duck_errors() -> Iterator[None]:
    """Turn what DuckDB (or Arrow, which carries its errors) raises into errors of ours."""
    import duckdb

    try:
        yield
    except duckdb.InterruptException:
        raise CancelledError("the query was cancelled") from None
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if "INTERRUPT" in str(error).upper():
            raise CancelledError("the query was cancelled") from None
        raise _failed(error) from None


def _failed(error: Exception) -> Exception:
    first = str(error).strip().splitlines()[0]
    if first.startswith(("Parser Error", "Binder Error", "Catalog Error")):
        return faults.parse_failed(f"Semantic analysis exception - {first}")
    return faults.invalid(f"ODPS-0121095: {first}")


def _typed_rows(connection: Any, query: TranslatedQuery, stored: dict[str, OdpsType]) -> Rows:
    relation = _sql(connection, query.sql)
    with _duck_errors():
        empty = connection.sql(f"SELECT * FROM ({query.sql}) LIMIT 0").to_arrow_table()
    columns = []
    names: set[str] = set()
    for index, (name, spelled) in enumerate(zip(relation.columns, relation.types, strict=True)):
        arrow = empty.schema.field(index).type
        odps = result_type(str(spelled), arrow)
        source = name if query.plain_columns is None else query.plain_columns[index]
        kept = stored.get((source or "").casefold())
        if kept is not None and duck_type(kept) == _plain_spelling(str(spelled)):
            odps = kept
        shown = name
        while shown.casefold() in names:
            shown = f"{shown}_{index}"
        names.add(shown.casefold())
        columns.append(Column(name=shown, type=odps))
    schema = TableSchema(columns=tuple(columns))
    target = arrow_schema(schema.columns)

    def typed() -> Iterator[pa.RecordBatch]:
        for batch in _batches(relation):
            arrays = [
                result_array(array, column.type)
                for array, column in zip(batch.columns, columns, strict=True)
            ]
            yield pa.record_batch(arrays, schema=target)

    return Rows(schema=schema, batches=typed())


def _plain_spelling(spelled: str) -> str:
    """DuckDB writes ``DECIMAL(18,2)``, our casts ``DECIMAL(18, 2)``."""
    return spelled.replace(",", ", ").replace(",  ", ", ")


def _text_rows(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> Rows:
    schema = TableSchema(columns=tuple(Column(name=name, type=STRING) for name in names))
    arrays = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(names))]
    batch = pa.record_batch(arrays, schema=arrow_schema(schema.columns))
    return Rows(schema=schema, batches=iter([batch] if rows else []))
