"""The service without HTTP: expiry by the clock, garbage, snapshots compared with a plain model."""

from __future__ import annotations

import itertools
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odps_nb.errors import ConflictError, InvalidRequestError, SessionExpiredError
from odps_nb.local.routes.table import RequestContext
from odps_nb.local.routes.tunnel_bodies import uploaded
from odps_nb.local.service import Service, Settings
from odps_nb.local.store import arrow_cache
from odps_nb.local.store.folder import ROWS
from odps_nb.local.store.ledger import Ledger
from odps_nb.local.writing.ingest import Ingest
from odps_nb.local.writing.streams import StoredWriteSession
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import Compression, IndexSplit, PartitionSpec, TableName, WriteMode
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.calls import CreateReadSession, WireRequest
from odps_nb.wire.codings import encoder
from odps_nb.wire.type_text import parse_type
from tests.support.clocks import Clock

DAY = 24 * 3600.0
NAME = TableName(project="local", table="t")
SCHEMA = TableSchema(
    columns=(Column(name="a", type=parse_type("bigint")),),
    partition_columns=(Column(name="ds", type=parse_type("string")),),
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(root: Path, clock: Clock) -> Iterator[Service]:
    with Service(root, Settings(durable=False), clock=clock) as opened:
        opened.catalog.create_table(NAME, SCHEMA, owner="me")
        yield opened


@pytest.mark.parametrize("coding", ["deflate", "zstd", "x-odps-lz4-frame"])
def test_an_upload_that_decodes_to_more_than_the_limit_is_refused(root: Path, coding: str) -> None:
    pack = encoder({"zstd": "zstd"}.get(coding, "lz4"))
    zeros = bytes(64 << 20)
    body = zlib.compress(zeros) if coding == "deflate" else pack.feed(zeros) + pack.finish()
    with Service(root, Settings(durable=False, max_body=8 << 20)) as service:
        service.catalog.create_table(NAME, SCHEMA, owner="me")
        session, upload = begin(service, "ds=x"), root / "body"
        upload.write_bytes(body)
        wire = WireRequest(method="PUT", path="/", headers=(("Content-Encoding", coding),))
        context = RequestContext(wire=wire, access_id="me", upload=upload)
        tracemalloc.start()
        with pytest.raises(InvalidRequestError, match=f"decodes to more than {8 << 20} bytes"):
            next(uploaded(service, session, context))
        peak, _ = tracemalloc.get_traced_memory()[1], tracemalloc.stop()
        assert peak < 8 << 20
        assert not list(service.folder.work.glob("*.decoded"))


def batch(*values: int, ds: str | None = None) -> pa.RecordBatch:
    columns = {"a": pa.array(values, pa.int64())}
    if ds is not None:
        columns["ds"] = pa.array([ds] * len(values), pa.string())
    return pa.record_batch(columns)


def begin(service: Service, spec: str = "", *, overwrite: bool = False) -> StoredWriteSession:
    return service.write_sessions.create(
        NAME, PartitionSpec.of(spec), overwrite=overwrite, mode=WriteMode.BATCH
    )


def put(service: Service, session: StoredWriteSession, stream: str, rows: pa.RecordBatch) -> None:
    writes = service.write_sessions
    opened = writes.open_stream(session, stream, 1, exactly_once=False)
    writes.write(session, opened, [rows])
    writes.close_stream(session, stream, 1)


def write(service: Service, *values: int, ds: str = "x", overwrite: bool = False) -> None:
    session = begin(service, f"ds={ds}", overwrite=overwrite)
    put(service, session, "0", batch(*values))
    service.write_sessions.commit(session)


def rows(service: Service, session_id: str) -> list[tuple[int, str]]:
    session = service.read_sessions.get(NAME, session_id)
    found = []
    for index in range(len(session.ranges)):
        _, batches = service.read_sessions.rows(session, IndexSplit(index))
        found += [(row["a"], row["ds"]) for piece in batches for row in piece.to_pylist()]
    return found


def open_read(service: Service) -> str:
    return service.read_sessions.create(CreateReadSession(table=NAME)).session_id


def row_files(service: Service) -> set[str]:
    return {path.stem for path in service.folder.rows.iterdir()}


def test_a_read_session_ends_after_a_day_unless_refreshed(service: Service, clock: Clock) -> None:
    write(service, 1)
    left, kept = open_read(service), open_read(service)
    clock.now += DAY - 1
    service.read_sessions.get(NAME, kept, refresh=True)
    clock.now += 2
    with pytest.raises(SessionExpiredError):
        rows(service, left)
    assert rows(service, kept) == [(1, "x")]


def test_naming_partitions_takes_time_linear_in_their_number(service: Service) -> None:
    steps, database = [0], service.catalog._db._connection

    def steps_to_name(count: int) -> int:
        """Create partitions and a file in each, and count SQLite's steps to read all of them."""
        session = begin(service)
        names = [f"{number:04}" for number in range(count)]
        put(service, session, "0", pa.record_batch({"a": range(count), "ds": names}))
        service.write_sessions.commit(session)
        steps[0] = 0
        specs = tuple(PartitionSpec.of(f"ds={name}") for name in names)
        request = CreateReadSession(table=NAME, partitions=specs)
        assert service.read_sessions.create(request).size
        return steps[0]

    def step() -> None:
        steps[0] += 1

    database.set_progress_handler(step, 100)
    few = steps_to_name(50)
    assert steps_to_name(200) < 8 * few


def test_replaced_files_are_kept_while_a_session_reads_them(service: Service, clock: Clock) -> None:
    write(service, 1)
    before = row_files(service)
    reader = open_read(service)
    write(service, 2, overwrite=True)
    service.tidy()
    assert rows(service, reader) == [(1, "x")]
    assert before < row_files(service)
    clock.now += DAY + 1
    service.tidy()
    assert not before & row_files(service)


def test_an_open_write_session_is_aborted_after_a_day(service: Service, clock: Clock) -> None:
    session = begin(service, "ds=x")
    put(service, session, "0", batch(1))
    assert len(row_files(service)) == 1
    clock.now += DAY + 1
    service.tidy()
    assert row_files(service) == set()
    with pytest.raises(ConflictError):
        service.write_sessions.commit(session)


def test_an_aborted_session_leaves_no_files(service: Service) -> None:
    session = begin(service)
    put(service, session, "0", batch(1, ds="x"))
    service.write_sessions.abort(session)
    assert row_files(service) == set()


def test_streams_excluded_from_a_commit_leave_no_files(service: Service) -> None:
    session = begin(service, "ds=x")
    put(service, session, "0", batch(1))
    put(service, session, "1", batch(2))
    service.write_sessions.commit(session, [("1", 1)])
    assert rows(service, open_read(service)) == [(2, "x")]
    assert len(row_files(service)) == 1


def test_blobs_that_no_row_names_are_deleted_after_two_days(service: Service, clock: Clock) -> None:
    table = TableName(project="local", table="b")
    service.catalog.create_table(
        table, TableSchema(columns=(Column(name="b", type=parse_type("blob")),)), owner="me"
    )
    used, unused = (service.blobs.store_bytes(d, "local") for d in (b"a", b"b"))
    session = service.write_sessions.create(
        table, PartitionSpec(), overwrite=False, mode=WriteMode.BATCH
    )
    put(service, session, "0", pa.record_batch({"b": pa.array([used.reference.raw], pa.binary())}))
    service.write_sessions.commit(session)
    service.tidy()
    assert len(list(service.folder.blobs.iterdir())) == 2
    clock.now += 2 * DAY + 1
    service.tidy()
    assert [path.stem for path in service.folder.blobs.iterdir()] == [used.pack]
    found = b"".join(bytes(chunk) for chunk in service.blobs.body([used], Compression.NONE))
    assert found == encode_blocks(b"a")
    assert unused.pack != used.pack


def test_unfinished_files_are_deleted_at_the_next_start(root: Path, clock: Clock) -> None:
    with Service(root, Settings(durable=False), clock=clock) as first:
        first.catalog.create_table(NAME, SCHEMA, owner="me")
        write(first, 1)
        known = row_files(first)
        half = [f"{first.folder.run}{'f' * 24}.{kind}" for kind in ("parquet", "pack")]
        for name in half:
            first.folder.place_of(name).write_bytes(b"half a file")
        first.folder.work_file(".body").write_bytes(b"x")
        (first.folder.work / "notes.txt").write_text("not ours")
    with Service(root, Settings(durable=False), clock=clock) as second:
        assert row_files(second) == known
        assert list(second.folder.blobs.iterdir()) == []
        assert {path.name for path in (root / "unknown").iterdir()} == set(half)
        assert [path.name for path in second.folder.work.iterdir()] == ["notes.txt"]
        assert rows(second, open_read(second)) == [(1, "x")]


def _arriving(parts: Iterable[pa.RecordBatch | Exception]) -> Iterator[pa.RecordBatch]:
    """Yield batches as they arrive; raise an error where the upload breaks."""
    for part in parts:
        if isinstance(part, Exception):
            raise part
        yield part


def test_a_failed_upload_leaves_no_files(service: Service) -> None:
    session = begin(service)
    writes = service.write_sessions
    stream = writes.open_stream(session, "0", 1, exactly_once=False)
    for torn in ((batch(1, 2, ds="x"), InvalidRequestError("cut")), (batch(),)):
        with suppress(InvalidRequestError):
            writes.write(session, stream, _arriving(torn))
    writes.close_stream(session, "0", 1)
    writes.commit(session)
    assert row_files(service) == set()


def test_a_blob_that_is_being_committed_is_not_deleted(service: Service, clock: Clock) -> None:
    """Maintenance between the end of a row file and its record must not delete its blobs."""
    table = TableName(project="local", table="b")
    service.catalog.create_table(
        table, TableSchema(columns=(Column(name="b", type=parse_type("blob")),)), owner="me"
    )
    blob = service.blobs.store_bytes(b"a", "local")
    found = service.catalog.table(table)
    with Ingest(service.folder, found, PartitionSpec(), service.blobs) as ingest:
        ingest.write(pa.record_batch({"b": pa.array([blob.reference.raw], pa.binary())}))
        additions = ingest.finish()
    service.tidy()
    service.publisher.publish(found, additions)
    clock.now += 3 * DAY
    service.tidy()
    assert [path.stem for path in service.folder.blobs.iterdir()] == [blob.pack]


def test_deleting_failed_files_keeps_those_that_the_catalog_lists(service: Service) -> None:
    write(service, 1)
    with Ingest(service.folder, service.catalog.table(NAME), PartitionSpec(), service.blobs) as own:
        own.write(batch(2, ds="x"))
        (unlisted,) = own.finish()
    (listed,) = row_files(service) - {unlisted.file.name}
    Ledger(service.database, service.folder).give_up([listed + ROWS, unlisted.file.file_name])
    assert row_files(service) == {listed}
    assert rows(service, open_read(service)) == [(1, "x")]


def test_a_transaction_that_fails_deletes_no_file(service: Service) -> None:
    write(service, 1)
    (name,) = row_files(service)
    with suppress(KeyError), service.database.transaction():
        Ledger(service.database, service.folder).drop([name + ROWS])
        raise KeyError
    assert rows(service, open_read(service)) == [(1, "x")]


def test_a_write_that_creates_a_partition_does_not_change_it_before(root: Path) -> None:
    seconds = itertools.count(1_700_000_000.0)
    with Service(root, Settings(durable=False), clock=lambda: next(seconds)) as service:
        service.catalog.create_table(NAME, SCHEMA, owner="me")
        session = begin(service)
        put(service, session, "0", batch(1, ds="x"))
        service.write_sessions.commit(session)
        (found,) = service.catalog.partitions(service.catalog.table(NAME))
        assert found.created <= found.modified


def test_a_file_that_was_never_committed_is_set_aside_at_the_next_start(
    root: Path, clock: Clock
) -> None:
    with Service(root, Settings(durable=False), clock=clock) as first:
        first.catalog.create_table(NAME, SCHEMA, owner="me")
        with Ingest(first.folder, first.catalog.table(NAME), PartitionSpec(), first.blobs) as own:
            own.write(batch(1, ds="x"))
            (unlisted,) = own.finish()
    with Service(root, Settings(durable=False), clock=clock) as second:
        assert row_files(second) == set()
    assert [path.name for path in (root / "unknown").iterdir()] == [unlisted.file.file_name]


def test_rows_are_the_same_with_and_without_the_arrow_copy_of_a_file(service: Service) -> None:
    write(service, *range(100_000))
    reader = open_read(service)
    hot = list((service.folder.root / "hot").glob("*.arrow"))
    assert hot
    warm = rows(service, reader)
    for path in hot:
        service.folder.hot.drop(path.stem)
    assert rows(service, reader) == warm
    assert len(warm) == 100_000


def test_cached_files_are_deleted_after_an_unclean_shutdown(root: Path, clock: Clock) -> None:
    with Service(root, Settings(durable=False), clock=clock) as first:
        first.catalog.create_table(NAME, SCHEMA, owner="me")
        write(first, *range(100_000))
        assert list((root / "hot").glob("*.arrow"))
    with Service(root, Settings(durable=False), clock=clock):
        assert list((root / "hot").glob("*.arrow"))
    (root / "hot" / "clean").unlink()
    with Service(root, Settings(durable=False), clock=clock) as third:
        assert not list((root / "hot").glob("*.arrow"))
        assert len(rows(third, open_read(third))) == 100_000


def test_the_cache_of_row_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_cache, "MAPPED", arrow_cache.SMALLEST)
    unit, folder, work = arrow_cache.SMALLEST, tmp_path / "hot", tmp_path / "work"
    cache = arrow_cache.ArrowCache(folder, limit=3 * unit)

    def kept_after(name: str, size: int) -> list[str]:
        work.write_bytes(bytes(size))
        cache.admit(name, work)
        assert not work.exists()
        return sorted(path.stem for path in folder.iterdir())

    for name in "abc":
        kept_after(name, unit)
    assert cache.open("a") is not None
    assert kept_after("d", unit) == ["a", "c", "d"]
    assert kept_after("small", unit - 1) == kept_after("large", 4 * unit) == ["a", "c", "d"]
    assert cache.open("d") is not None
    assert len(cache._mapped) == 1
    (folder / "c.arrow").unlink()
    assert cache.open("c") is cache.open("b") is None


class Transactions(RuleBasedStateMachine):
    """Sessions, streams, commits, aborts and reads compared with a model of a few dictionaries."""

    make: Callable[[], Service]

    def __init__(self) -> None:
        super().__init__()
        self.service = self.make()
        self.visible: dict[str, list[int]] = {}
        self.writers: list[tuple[StoredWriteSession, str, dict[str, list[int]]]] = []
        self.readers: list[tuple[str, list[tuple[int, str]]]] = []
        self.next = 0

    def teardown(self) -> None:
        self.service.close()

    def expected(self) -> list[tuple[int, str]]:
        return [(v, ds) for ds in sorted(self.visible) for v in self.visible[ds]]

    @rule(ds=st.sampled_from("abc"), overwrite=st.booleans())
    def begin(self, ds: str, overwrite: bool) -> None:
        self.writers.append((begin(self.service, f"ds={ds}", overwrite=overwrite), ds, {}))

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), stream=st.sampled_from("012"), count=st.integers(1, 3))
    def put(self, data: st.DataObject, stream: str, count: int) -> None:
        session, _, streams = data.draw(st.sampled_from(self.writers))
        values = list(range(self.next, self.next + count))
        self.next += count
        writes = self.service.write_sessions
        opened = writes.open_stream(session, stream, 1, exactly_once=False)
        if not opened.is_open:
            with pytest.raises(ConflictError):
                writes.write(session, opened, [batch(*values)])
            return
        writes.write(session, opened, [batch(*values)])
        streams.setdefault(stream, []).extend(values)

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), commit=st.booleans(), leave_open=st.booleans())
    def finish(self, data: st.DataObject, commit: bool, leave_open: bool) -> None:
        index = data.draw(st.integers(0, len(self.writers) - 1))
        session, ds, streams = self.writers.pop(index)
        writes = self.service.write_sessions
        if not commit:
            writes.abort(session)
            with pytest.raises(ConflictError):
                writes.commit(session)
            return
        if leave_open and streams:
            streams.pop(min(streams))
        for stream in streams:
            writes.close_stream(session, stream, 1)
        writes.commit(session)
        writes.commit(session)
        added = [v for stream in sorted(streams) for v in streams[stream]]
        kept = [] if session.overwrite else self.visible.get(ds, [])
        self.visible[ds] = kept + added

    @rule()
    def open_reader(self) -> None:
        self.readers.append((open_read(self.service), self.expected()))

    @rule()
    def tidy(self) -> None:
        self.service.tidy()

    @rule()
    def restart(self) -> None:
        """The folder contains no file that the catalog does not list."""
        ledger = Ledger(self.service.database, self.service.folder)
        assert self.service.folder.data_files() == ledger.known()
        root, clock = self.service.folder.root, self.service.clock
        self.service.close()
        self.service = Service(root, Settings(durable=False), clock=clock)

    @invariant()
    def readers_see_their_snapshot(self) -> None:
        for session_id, expected in self.readers[-3:]:
            assert rows(self.service, session_id) == expected

    @invariant()
    def a_new_reader_sees_what_is_committed(self) -> None:
        assert rows(self.service, open_read(self.service)) == self.expected()


@pytest.mark.parametrize("examples", [6, pytest.param(30, marks=pytest.mark.nightly)])
def test_transactions_match_the_model(
    tmp_path_factory: pytest.TempPathFactory, examples: int
) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    def make() -> Service:
        service = Service(tmp_path_factory.mktemp("model"), Settings(durable=False), clock=Clock())
        service.catalog.create_table(NAME, SCHEMA, owner="me")
        return service

    machine = type("Machine", (Transactions,), {"make": staticmethod(make)})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=25)
    )


def test_touch_sets_only_the_times_of_the_named_objects(service: Service, clock: Clock) -> None:
    def times() -> dict[str, float]:
        table = service.catalog.stored_table(NAME)
        found = {str(one.spec): one.modified for one in service.catalog.partitions(table)}
        return {**found, "table": table.modified}

    for value in ("x", "y"):
        write(service, 1, ds=value)
    before = times()
    clock.now += 100
    table = service.catalog.stored_table(NAME)
    service.catalog.touch(table, [service.catalog.partition(table, PartitionSpec.of("ds=x"))])
    assert times() == {**before, "ds=x": clock.now}
    clock.now += 100
    service.catalog.touch(table)
    assert times() == {**before, "ds=x": clock.now - 100, "table": clock.now}
