"""Creates, finds, reads and expires read sessions.

A session is a catalog row that contains a plan. It pins the files that it reads, so its table can
be changed or dropped in the meantime. See ``docs/protocol.md`` sections 3.1 to 3.4 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import pyarrow as pa

from odps_nb.local import errors
from odps_nb.local.duck import Duck
from odps_nb.local.forms import Forms
from odps_nb.local.reading.increments import (
    MODES,
    Changed,
    Interval,
    bucket_ranges,
    changed_rows,
    with_system_columns,
)
from odps_nb.local.reading.plan import (
    OpenReadSession,
    ReadRules,
    cut_ranges,
    echoed,
    find_column,
    output_schema,
    parse_filter,
    prune,
    scan_plan,
    seek,
    session_of_text,
    session_text,
)
from odps_nb.local.reading.scans import ScanFile, ScanPlan, scan
from odps_nb.local.store.catalog import Catalog
from odps_nb.local.store.changes import ChangeLog
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import DataFolder, new_id
from odps_nb.local.store.row_files import FAR
from odps_nb.local.store.snapshots import Segment, Snapshots
from odps_nb.local.store.tables import CDC_PROPERTY, StoredTable
from odps_nb.terms import IndexSplit, PartitionSpec, Split, SplitMode, TableName, TimeUnit
from odps_nb.wire.calls.read import CreateReadSession, Preview

LIFETIME = 24 * 3600.0
CACHED = 256
PREVIEW_ROWS = 10_000


class ReadSessions:
    """The read sessions of the service."""

    def __init__(
        self,
        database: Database,
        catalog: Catalog,
        snapshots: Snapshots,
        folder: DataFolder,
        duck: Duck,
        clock: Callable[[], float],
        rules: ReadRules,
        forms: Forms,
    ) -> None:
        self._db, self._catalog, self._snapshots = database, catalog, snapshots
        self._folder, self._duck, self._clock = folder, duck, clock
        self._rules, self._forms = rules, forms
        self._loaded = lru_cache(CACHED)(self._load)  # saves catalog queries

    def create(self, request: CreateReadSession) -> OpenReadSession:
        """Create a session: a snapshot of the visible rows, divided into splits."""
        session_id = new_id()
        with self._db.transaction():
            table = self._catalog.stored_table(request.table)
            self._rules.check_split(table, request, self._forms)
            table, segments, changed = self._taken(session_id, table, request)
        try:
            session = self._planned(session_id, table, segments, request, changed)
            self._db.run(
                "INSERT INTO read_sessions VALUES (?, ?, ?, ?, ?)",
                session_id,
                table.table_id,
                self._clock(),
                session.expires,
                session_text(session),
            )
        except BaseException:
            self._snapshots.unpin(session_id)
            raise
        return session

    def get(self, name: TableName, session_id: str, *, refresh: bool = False) -> OpenReadSession:
        """Return a session of a table, or raise 404 if it is unknown or expired."""
        session = self._loaded(session_id)
        if session.expires <= self._clock():
            raise errors.expired(session_id)
        expected = (session.table.project, session.table.table.casefold())
        if (name.project, name.table.casefold()) != expected:
            raise errors.no_such_session(session_id)
        if refresh:
            session = replace(session, expires=self._clock() + LIFETIME)
            self._db.run(
                "UPDATE read_sessions SET expires = ? WHERE session_id = ?",
                session.expires,
                session_id,
            )
            self._loaded.cache_clear()
        return session

    def rows(
        self,
        session: OpenReadSession,
        split: Split,
        *,
        columns: Sequence[str] = (),
        skip: int = 0,
        unordered: bool = False,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return a split's schema and batches; if ``unordered``, columns are in plan order."""
        plan = session.plan
        selected = tuple(find_column(session.schema, name) for name in columns) or plan.columns
        if unordered:
            selected = tuple(column for column in plan.columns if column in selected)
        start, stop, skip, take = self._window(session, split, skip)
        batches = scan(self._folder, plan, start, stop, columns=selected, skip=skip)
        batches = self._forms.shaped(batches, selected)
        return plan.schema(selected), batches if take is None else _first(batches, take)

    def preview(
        self, request: Preview, *, must_exist: bool = False
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the first rows of a table or partition; a limit of 0 means all rows."""
        table = self._catalog.stored_table(request.table)
        specs = [] if request.partition is None else [table.spec(request.partition)]
        if must_exist and specs:
            self._must_exist(table, specs)
        segments = self._snapshots.visible(table, specs)
        chosen = tuple(find_column(table.schema, name) for name in request.columns)
        plan = scan_plan(table, segments, chosen or tuple(table.schema.all_columns))
        if any(segment.name.endswith(FAR) for segment in segments):
            plan = replace(plan, timestamp_unit=TimeUnit.MICRO)  # previews do not request a unit
        stop = sum(s.rows for s in segments)
        limit = PREVIEW_ROWS if request.limit is None else request.limit
        stop = min(limit, stop) if limit > 0 else stop
        # read immediately, because a preview does not pin its files
        batches = list(self._forms.shaped(scan(self._folder, plan, 0, stop), plan.columns))
        return plan.schema(), iter(batches)

    def expire(self, session_id: str) -> None:
        """Expire a session immediately and unpin its files."""
        with self._db.transaction() as db:
            db.execute("UPDATE read_sessions SET expires = 0 WHERE session_id = ?", (session_id,))
            self._snapshots.unpin(session_id)
        self._loaded.cache_clear()

    def forget_expired(self) -> None:
        """Delete expired sessions and their pins."""
        gone = self._db.rows(
            "SELECT session_id FROM read_sessions WHERE expires <= ?", self._clock()
        )
        for row in gone:
            with self._db.transaction() as db:
                db.execute("DELETE FROM read_sessions WHERE session_id = ?", (row["session_id"],))
                self._snapshots.unpin(row["session_id"])

    def _taken(
        self, session_id: str, table: StoredTable, request: CreateReadSession
    ) -> tuple[StoredTable, tuple[Segment, ...], tuple[Changed, ...] | None]:
        """Pin the files to read. For an incremental read of changes, write the files first."""
        specs = [table.spec(spec) for spec in request.partitions]
        self._must_exist(table, specs)
        if not request.incremental_read:
            segments = self._snapshots.visible(table, specs)
            self._snapshots.pin(session_id, segments)
            return table, segments, None
        options, version_at = request.incremental_options or {}, self._snapshots.version_at
        interval = Interval.of(options, table, partial(version_at, table))
        if not table.key_columns or interval.mode not in MODES:
            segments = self._snapshots.added_since(
                table, interval.after, interval.upto, specs, appends_only=interval.mode == "append"
            )
            self._snapshots.pin(session_id, segments)
            return table, segments, None
        if interval.mode == "cdc" and not table.records_changes:
            raise errors.invalid(
                f"{table.name} does not record changes: its property {CDC_PROPERTY} is not true"
            )
        log = ChangeLog(self._db, self._folder)
        changed = tuple(changed_rows(self._folder, log, table, interval, specs))
        table = replace(table, schema=with_system_columns(table.schema))
        own = [(change.spec, change.file) for change in changed]
        return table, self._snapshots.pin_own(session_id, table, own), changed

    def _must_exist(self, table: StoredTable, specs: Sequence[PartitionSpec]) -> None:
        known = (
            [dict(partition.spec) for partition in self._catalog.partitions(table)] if specs else []
        )
        held: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for spec in specs:
            keys = tuple(key for key, _ in spec)
            if keys not in held:
                held[keys] = {tuple(partition[key] for key in keys) for partition in known}
            if tuple(value for _, value in spec) not in held[keys]:
                raise errors.no_such_partition(spec, table.name)

    def _planned(
        self,
        session_id: str,
        table: StoredTable,
        segments: tuple[Segment, ...],
        request: CreateReadSession,
        changed: tuple[Changed, ...] | None = None,
    ) -> OpenReadSession:
        output = output_schema(table, request)
        if changed is not None:
            output = with_system_columns(output)
        text = request.filter_predicate
        predicate = parse_filter(text, table.schema, self._duck, fallback=request.filter_fallback)
        by_rows = request.split_mode is SplitMode.ROW_OFFSET
        if not by_rows or self._rules.kept_ranges:
            segments = prune(table, segments, predicate)
        plan = replace(
            scan_plan(table, segments, output.all_columns),
            timestamp_unit=request.timestamp_unit,
            datetime_unit=request.datetime_unit,
            predicate=predicate,
            block_rows=self._rules.block_rows(table),
        )
        if by_rows and self._rules.kept_ranges and predicate is not None:
            plan = replace(plan, files=tuple(self._counted(plan)))
        ranges, buckets = cut_ranges(segments, request), tuple[int, ...]()
        if request.split_mode is SplitMode.BUCKET:
            buckets = tuple(range(len(ranges)))
            if changed is not None:
                ranges, buckets = bucket_ranges(changed, segments)
        return OpenReadSession(
            session_id=session_id,
            table=table.name,
            schema=output,
            plan=plan,
            mode=request.split_mode,
            ranges=tuple(ranges),
            rows=sum(s.rows for s in segments),
            size=sum(s.raw_bytes for s in segments),
            expires=self._clock() + LIFETIME,
            predicate_text=text if predicate is not None else "",
            version=table.version,
            increment=echoed(request),
            buckets=buckets,
        )

    def _counted(self, plan: ScanPlan) -> Iterator[ScanFile]:
        """Yield each file with the number of rows that the filter keeps."""
        for file in plan.files:
            batches = scan(self._folder, replace(plan, files=(file,)), 0, file.rows, columns=())
            yield replace(file, kept=sum(batch.num_rows for batch in batches))

    def _window(
        self, session: OpenReadSession, split: Split, skip: int
    ) -> tuple[int, int, int, int | None]:
        """Return a row range, the number of filtered rows to skip, and the maximum row count."""
        if isinstance(split, IndexSplit):
            if session.mode is SplitMode.ROW_OFFSET or not 0 <= split.index < len(session.ranges):
                count = len(session.ranges)
                raise errors.invalid(f"there is no split {split.index}; the session has {count}")
            start, stop = session.ranges[split.index]
            return start, stop, skip, None
        if session.plan.predicate is not None and session.mode is not SplitMode.ROW_OFFSET:
            raise errors.invalid(
                "row ranges of a session with a filter require SplitMode RowOffset"
            )
        total = session.rows if session.record_count is None else session.record_count
        if split.offset > total:
            raise errors.invalid(
                f"Offset is {split.offset}, but the session has {total} rows",
                code="InvalidRowRange",
            )
        if not session.counts_kept:
            return split.offset, min(split.offset + split.count, total), skip, None
        start, before = seek(session.plan.files, split.offset)
        return start, session.rows, split.offset - before + skip, max(0, split.count - skip)

    def _load(self, session_id: str) -> OpenReadSession:
        row = self._db.row("SELECT * FROM read_sessions WHERE session_id = ?", session_id)
        if row is None:
            raise errors.no_such_session(session_id)
        try:
            return session_of_text(session_id, row["plan"], row["expires"], self._duck)
        except (KeyError, ValueError):  # another version of the service wrote the session
            raise errors.expired(session_id) from None


def _first(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if rows <= 0:
            return
        yield batch.slice(0, rows)
        rows -= batch.num_rows
