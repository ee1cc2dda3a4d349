"""Runs SQL statements on the catalog: DDL in `ddl`, queries in `queries`.

A query sees only a snapshot of the tables and nothing else on this machine. The rows that a
statement writes become visible atomically.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from odps_nb.errors import CancelledError, InvalidRequestError, NotFoundError
from odps_nb.local import errors
from odps_nb.local.duck import Duck
from odps_nb.local.reading.plan import find_column
from odps_nb.local.rights import Right
from odps_nb.local.sql.ddl import Definitions, Place, changed_table
from odps_nb.local.sql.information import InformationSchema
from odps_nb.local.sql.inserted import (
    changed_rows,
    check_insert,
    chosen_rows,
    converted,
    insert_target,
)
from odps_nb.local.sql.parsing.changes import rows_of, rows_of_merge
from odps_nb.local.sql.parsing.statements import (
    ChangeRows,
    CloneTable,
    CreateMaterialized,
    CreateTable,
    CreateView,
    Explain,
    Insert,
    Inserts,
    Merge,
    Name,
    Rebuild,
    SelectStatement,
    Show,
    Statement,
)
from odps_nb.local.sql.queries import QueryRun, QueryRunner
from odps_nb.local.sql.refusals import refusal
from odps_nb.local.sql.results import (
    ResultRows,
    explained,
    output_of,
    stored_rows,
    text_rows,
    typed_rows,
)
from odps_nb.local.sql.shown import ShowRunner
from odps_nb.local.store.blobs import BlobStore
from odps_nb.local.store.catalog import DEFAULT_SCHEMA, Catalog
from odps_nb.local.store.folder import DataFolder, new_id
from odps_nb.local.store.snapshots import Addition, Segment, Snapshots
from odps_nb.local.store.tables import (
    MATERIALIZED,
    VIEW,
    StoredTable,
    TableKind,
    View,
    check_types,
)
from odps_nb.local.writing.ingest import Ingest, with_generated
from odps_nb.local.writing.upserts import Publisher
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName, covered
from odps_nb.wire.control import SqlCost

if TYPE_CHECKING:  # `query` imports sqlglot, which only queries need
    from odps_nb.local.sql.moments import PastVersion
    from odps_nb.local.sql.query import TranslatedQuery

_PLACE = re.compile(r"\[\d+,\d+\]")


@dataclass(slots=True)
class Stopper:
    """Stops a running statement from another thread."""

    stopped: bool = False
    _run: QueryRun | None = None

    def watch(self, run: QueryRun) -> None:
        """Register the query to interrupt when stopped."""
        self._run = run
        self.check()

    def release(self) -> None:
        """Unregister the query, which has ended."""
        self._run = None

    def stop(self) -> None:
        """Interrupt the running query."""
        self.stopped = True
        if (run := self._run) is not None:
            run.interrupt()

    def check(self) -> None:
        """Raise `CancelledError` if stopped."""
        if self.stopped:
            raise CancelledError("the query was cancelled")


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a statement: its context, its stopper, and resources to close afterwards.

    ``outputs``: the number of changed rows and of written bytes, by table.
    """

    place: Place
    stopper: Stopper
    stack: ExitStack
    outputs: dict[str, list[int]] = field(default_factory=dict)

    def changed(self, name: TableName, rows: int, additions: Sequence[Addition]) -> None:
        """Count rows that the statement changed."""
        shown = replace(name, schema=None) if name.schema == DEFAULT_SCHEMA else name
        self.outputs[str(shown)] = [rows, sum(addition.file.disk_bytes for addition in additions)]


class SqlRunner:
    """Runs one statement per call. The statement ends when its rows have been consumed."""

    def __init__(
        self,
        catalog: Catalog,
        snapshots: Snapshots,
        publisher: Publisher,
        blobs: BlobStore,
        folder: DataFolder,
        queries: QueryRunner,
        duck: Duck,
        information: InformationSchema,
        *,
        strict: bool = False,
    ) -> None:
        self._catalog, self._snapshots, self._publisher = catalog, snapshots, publisher
        self._blobs, self._folder, self._queries = blobs, folder, queries
        self._definitions = Definitions(catalog, snapshots, duck)
        self._shown = ShowRunner(catalog, snapshots)
        self._information = information
        self._strict = strict

    def run(self, statement: Statement, job: Job) -> ResultRows | None:
        """Run a statement. The rows of a query are valid until the job's stack is closed."""
        match statement:
            case SelectStatement():
                return typed_rows(*self._open(statement.text, job))
            case Explain(text="", output=True):
                return text_rows(("output",), [("nothing to explain",)])
            case Explain():
                opened = self._open(statement.text, job)
                return output_of(*opened) if statement.output else explained(*opened)
            case Show():
                return self._shown.rows(statement, job.place)
            case _:
                self._change(statement, job)
        return None

    def _change(self, statement: Statement, job: Job) -> None:
        match statement:
            case Insert():
                self._insert((statement,), job)
            case Inserts():
                self._insert(statement.inserts, job)
            case ChangeRows() | Merge():
                self._change_rows(statement, job)
            case CreateTable():
                self._create(statement, job)
            case CreateView():
                self._create_view(statement, job)
            case CreateMaterialized():
                self._create_materialized(statement, job)
            case Rebuild():
                self._rebuild(statement, job)
            case CloneTable():
                self._clone(statement, job.place)
            case _:
                with self._publisher.together():
                    self._definitions.change(statement, job.place)

    def cost(self, statements: Sequence[Statement], place: Place) -> SqlCost:
        """Return the cost of a job without running it."""
        from odps_nb.local.sql.cost import estimate

        return estimate(statements, partial(self._find, place), self._snapshots.visible)

    def _find(self, place: Place, name: Name, view: StoredTable | None = None) -> StoredTable:
        """Return a table or view. Names in a view are resolved as when the view was created."""
        at = place
        if view is not None and (of := view.view) is not None:
            at = replace(place, project=of.project, schema=of.schema, three_parts=of.three_parts)
        return self._information.find(name, at) or at.named(self._catalog, name)

    def _latest(self, table: StoredTable) -> str | None:
        """Return the greatest value of the first partition column among partitions with rows."""
        if not table.is_partitioned:
            advice = "pass a partitioned table to MAX_PT"
            raise errors.semantic(f"{table.name} has no partitions", advice=advice)
        segments = self._snapshots.visible(table)
        return max((segment.spec.items[0][1] for segment in segments if segment.rows), default=None)

    def _open(
        self,
        text: str,
        job: Job,
        *,
        inside: tuple[int, ...] = (),
        into: tuple[TypeCode, ...] = (),
        exact: bool = False,
    ) -> tuple[QueryRun, TranslatedQuery]:
        """Open a query on a snapshot of its tables. The keyword arguments are as in `translate`."""
        from odps_nb.local.sql.cost import check_query
        from odps_nb.local.sql.query import translate

        place, find = job.place, partial(self._find, job.place)
        check_query(text, find, place.settings, strict=self._strict)
        query = translate(
            text,
            find=find,
            latest=self._latest,
            timezone=place.timezone,
            far=place.far,
            inside=inside,
            into=into,
            exact=exact,
            settings=place.settings,
        )
        pin = new_id()
        job.stack.callback(self._snapshots.unpin, pin)
        tables = {}
        for ours, table in query.tables.items():
            segments = self._segments(table, query.moments.get(ours))
            self._snapshots.pin(pin, segments)
            rows = self._information.rows(table, place)
            tables[ours] = rows or stored_rows(self._folder, table, segments)
        explain = partial(refusal, names=query.names)
        run = job.stack.enter_context(self._queries.run(tables, explain))
        job.stopper.watch(run)
        job.stack.callback(job.stopper.release)
        return run, query

    def _segments(self, table: StoredTable, moment: PastVersion | None) -> tuple[Segment, ...]:
        """Return the files of a table now, or at a past version or time."""
        if moment is None:
            return self._snapshots.visible(table)
        if table.table_id < 0:
            raise errors.lacks("AS OF a view", is_sure=False)
        version = moment.version
        if version is None:
            version = self._snapshots.version_at(table, moment.at)
        return self._snapshots.as_of(table, version)

    def _insert(self, statements: Sequence[Insert], job: Job) -> None:
        """Run INSERTs, and publish their rows together."""
        with ExitStack() as stack:
            ready = []
            for statement in statements:
                with ExitStack() as own:  # closes the query and its process
                    ready.append(self._inserted(statement, replace(job, stack=own), stack))
            job.stopper.check()
            _check_apart([ingest for ingest, _ in ready])
            finished = [(publish, ingest.finish()) for ingest, publish in ready]
            with self._publisher.together():
                for publish, additions in finished:
                    publish(additions)

    def _inserted(
        self, statement: Insert, job: Job, stack: ExitStack
    ) -> tuple[Ingest, Callable[[list[Addition]], None]]:
        """Write the rows of an INSERT; return them, and a function that publishes them."""
        table = changed_table(self._catalog, job.place, statement.name)
        check_insert(table, statement)
        target = insert_target(table, statement)
        into = tuple(column.type.code for column in target.filled(statement.choices))
        run, query = self._open(statement.query, job, into=into, exact=bool(statement.choices))
        described = run.describe(query.sql)
        target, spec = target.matching(len(described.columns)), target.spec
        filled = target.filled(statement.choices)
        sql = converted(described, query, filled, job.place, numbered=bool(statement.choices))
        ingest = Ingest(self._folder, table, spec, self._blobs, one_unit=True)
        stack.enter_context(ingest)
        changed = 0
        for batch in run.batches(sql):
            job.stopper.check()
            changed += changed_rows(batch, statement.kept)
            for rows in chosen_rows(batch, target.columns, statement.choices):
                ingest.write(with_generated(rows, table, spec))

        def publish(additions: list[Addition]) -> None:
            is_static = table.is_partitioned and len(spec) == len(table.partition_keys)
            replaced: list[PartitionSpec] | None = None
            if statement.rewrites:
                replaced = [PartitionSpec()]
            elif statement.overwrite:
                is_dynamic = table.is_partitioned and not is_static
                replaced = [a.spec for a in additions] if is_dynamic else [spec]
            if is_static:
                self._catalog.ensure_partition(table, spec)
            # a statement that changes rows must fail if the table has changed since it was read
            changes = statement.rewrites or statement.has_operations
            since = table.version if changes else None
            self._publisher.publish(table, additions, replace=replaced, since=since, one_unit=True)
            job.changed(table.name, changed, additions)

        return ingest, publish

    def _change_rows(self, statement: ChangeRows | Merge, job: Job) -> None:
        table = changed_table(self._catalog, job.place, statement.name)
        if isinstance(statement, Merge):
            insert = rows_of_merge(statement, table)
        else:
            insert = rows_of(statement, table)
        try:
            self._insert((insert,), job)
        except (InvalidRequestError, NotFoundError) as error:
            # the error's position refers to the generated query, not to the statement
            message = _PLACE.sub("[1,1]", error.message, count=1)
            raise type(error)(message, status=error.status, code=error.code) from None

    def _create(self, statement: CreateTable, job: Job) -> None:
        place = job.place
        name = place.table(statement.name, Right.WRITE)
        if statement.if_not_exists and self._catalog.find_table(name) is not None:
            return
        rows = None
        schema, properties = statement.schema, dict(statement.properties)
        if statement.like is not None:
            like = place.named(self._catalog, statement.like)
            schema = like.schema
            properties = _own_properties(like)
        elif statement.query is not None:
            if not statement.or_replace:
                self._catalog.require_free(name)  # fail before any rows are written
            run, query = self._open(statement.query, job)
            _check_unique(run.describe(query.sql).columns)
            rows = typed_rows(run, query)
            schema = rows.schema
        assert schema is not None
        if statement.like is None:
            check_types(schema, properties, place.settings)
        fill = None
        if rows is not None:
            planned = StoredTable(table_id=0, name=name, schema=schema, properties=properties)
            none = PartitionSpec()
            with Ingest(self._folder, planned, none, self._blobs, one_unit=True) as ingest:
                for batch in rows.batches:
                    job.stopper.check()
                    ingest.write(batch)
                additions = ingest.finish()
                fill = partial(self._publisher.publish, additions=additions, one_unit=True)
                job.changed(name, sum(addition.file.rows for addition in additions), additions)
        with self._publisher.together():
            if statement.or_replace and self._catalog.find_table(name) is not None:
                self._snapshots.drop_table(changed_table(self._catalog, place, statement.name))
            self._catalog.create_table(
                name,
                schema,
                owner=place.owner,
                comment=statement.comment,
                lifecycle=statement.lifecycle,
                properties=properties,
                fill=fill,
            )

    def _create_view(self, statement: CreateView, job: Job) -> None:
        place = job.place
        name = place.table(statement.name, Right.WRITE)
        known = self._catalog.find_table(name)
        if known is not None and statement.if_not_exists:
            return
        inside = () if known is None else (known.table_id,)
        run, query = self._open(statement.query, job, inside=inside)
        columns = _columns_of_view(statement, typed_rows(run, query).schema.columns)
        view = View(
            text=statement.query,
            names=run.describe(query.sql).columns,
            project=place.project,
            schema=place.schema,
            three_parts=place.three_parts,
        )
        self._catalog.put_view(
            name,
            TableSchema(columns=columns),
            owner=place.owner,
            comment=statement.comment,
            view=view,
            replaces=statement.or_replace,
        )

    def _create_materialized(self, statement: CreateMaterialized, job: Job) -> None:
        place, view = job.place, statement.view
        name = place.table(view.name, Right.WRITE)
        if view.if_not_exists and self._catalog.find_table(name) is not None:
            return
        run, query = self._open(view.query, job)
        columns = _columns_of_view(view, typed_rows(run, query).schema.columns)
        schema = TableSchema(columns=columns)
        keys = tuple(find_column(schema, key) for key in statement.partitions)
        schema = TableSchema(
            columns=tuple(c for c in columns if c not in keys), partition_columns=keys
        )
        definition = View(
            text=view.query,
            names=tuple(column.name for column in columns),
            project=place.project,
            schema=place.schema,
            three_parts=place.three_parts,
            rewrites=statement.rewrites,
        )
        table = self._catalog.create_table(
            name,
            schema,
            owner=place.owner,
            comment=view.comment,
            lifecycle=statement.lifecycle,
            properties=dict(statement.properties) | {MATERIALIZED: json.dumps(asdict(definition))},
        )
        if not statement.deferred:
            try:
                self._fill(table, typed_rows(run, query), definition, job)
            except BaseException:
                self._snapshots.drop_table(table)
                raise

    def _rebuild(self, statement: Rebuild, job: Job) -> None:
        kind: TableKind = "materialized view"
        table = changed_table(self._catalog, job.place, statement.name, kind)
        view = table.materialized
        assert view is not None
        place = replace(
            job.place, project=view.project, schema=view.schema, three_parts=view.three_parts
        )
        rows = typed_rows(*self._open(view.text, replace(job, place=place)))
        self._fill(table, rows, view, job)

    def _fill(self, table: StoredTable, rows: ResultRows, view: View, job: Job) -> None:
        """Replace the rows of a materialized view."""
        with Ingest(self._folder, table, PartitionSpec(), self._blobs, one_unit=True) as ingest:
            for batch in rows.batches:
                job.stopper.check()
                ingest.write(batch.rename_columns(list(view.names)))
            additions = ingest.finish()
        self._publisher.publish(table, additions, replace=[PartitionSpec()], one_unit=True)

    def _clone(self, statement: CloneTable, place: Place) -> None:
        source = place.named(self._catalog, statement.source)
        if source.kind != "table":
            raise errors.semantic(f"{source.name} is a {source.kind}, not a table")
        specs = [source.spec(spec) for spec in statement.specs]

        def fill(table: StoredTable) -> None:
            chosen = covered(specs)
            for partition in self._catalog.partitions(source):
                if not specs or chosen(partition.spec):
                    self._catalog.ensure_partition(table, partition.spec)
            self._publisher.copy(source, table, specs)

        self._catalog.create_table(
            place.table(statement.name, Right.WRITE),
            source.schema,
            owner=place.owner,
            comment=source.comment,
            lifecycle=source.lifecycle,
            properties=source.properties,
            stored=source.stored,
            fill=fill,
        )


def _check_apart(ingests: Sequence[Ingest]) -> None:
    """Raise 400 if two INSERTs write to one partition (vendor's page *MULTI INSERT*)."""
    known: set[tuple[int, PartitionSpec]] = set()
    for ingest in ingests:
        if known & ingest.destinations:
            raise errors.semantic(
                "two INSERTs of one statement write to the same table or partition",
                advice="write one INSERT of a UNION ALL, or separate statements",
            )
        known |= ingest.destinations


def _columns_of_view(statement: CreateView, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of a query with the names and comments that a view gives them."""
    if not statement.columns:
        return columns
    if len(columns) != len(statement.columns):
        raise errors.semantic(
            f"the query returns {len(columns)} columns, but the view lists {len(statement.columns)}"
        )
    return tuple(
        replace(column, name=name, comment=comment)
        for column, (name, comment) in zip(columns, statement.columns, strict=True)
    )


def _check_unique(names: Sequence[str]) -> None:
    """Raise 400 if a query returns two columns of the same name."""
    known: set[str] = set()
    for name in names:
        if name.casefold() in known:
            raise errors.semantic(
                f"the query returns two columns {name!r}", advice="rename one of them with AS"
            )
        known.add(name.casefold())


def _own_properties(table: StoredTable) -> dict[str, str]:
    """Return the properties that CREATE TABLE … LIKE copies."""
    return {k: v for k, v in table.properties.items() if k not in (VIEW, MATERIALIZED)}
