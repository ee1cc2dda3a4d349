"""Through a network that breaks every third exchange: everything once, or a typed error.

The seed of a failing run is in its test id, with the trouble that it went through;
``ODPS_NB_CHAOS`` names how many runs of each kind are made (10 by default). ``make chaos`` is the
long form.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pytest

from odps_nb.client.auth.profile import Profile
from odps_nb.client.blob.many import iter_blobs, open_blob
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import create_table
from odps_nb.client.options import ClientOptions
from odps_nb.client.read.splits import ReadPlan, iter_batches, open_read_session
from odps_nb.client.write.session import WriteSession, open_write_session
from odps_nb.errors import OdpsNbError, SessionExpiredError
from odps_nb.http.retry import RetryPolicy
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import BlobReference, Compression, TableName
from tests.support.sockets.chaos_tally import KEY, ChaosTally
from tests.support.sockets.meddler import ALL_FAULTS, COMMIT_LOST, FAULTS, SESSION_FAULTS, Meddler

RUNS = int(os.environ.get("ODPS_NB_CHAOS", "10"))
SHARE = 0.3
SILENCE = 0.5  # seconds that a run bears in which somebody stalls
ROWS = 3000
SCHEMA = TableSchema(
    columns=(
        Column(name="id", type=PrimitiveType(TypeCode.BIGINT)),
        Column(name="note", type=PrimitiveType(TypeCode.STRING)),
    )
)
BLOB_SCHEMA = TableSchema(
    columns=(*SCHEMA.columns[:1], Column(name="b", type=PrimitiveType(TypeCode.BLOB)))
)
ROW_TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "note": pa.array([None if n % 7 == 0 else f"row {n}" for n in range(ROWS)]),
    }
)
BLOBS = [random.Random(n).randbytes(n * n * 37) for n in range(40)]
Note = Callable[[str, object], None]


def seeds(*troubles: str) -> pytest.MarkDecorator:
    """Give the runs of one kind: each trouble in its turn, then all of them together."""
    turns = (*troubles, "mixed")
    runs = [
        pytest.param(seed, turns[seed % len(turns)], id=f"{seed}-{turns[seed % len(turns)]}")
        for seed in range(RUNS)
    ]
    return pytest.mark.parametrize(("seed", "trouble"), runs)


@pytest.fixture(scope="module")
def steady(profile: Profile) -> Iterator[StorageClient]:
    """A client that nobody meddles with."""
    with StorageClient(profile) as storage:
        yield storage


@pytest.fixture(scope="module")
def rows(steady: StorageClient, profile: Profile) -> TableName:
    """A table with `ROW_TABLE` in it."""
    table = profile.table(f"chaos_rows_{os.getpid()}")
    create_table(steady, table, SCHEMA)
    with open_write_session(steady, table) as session:
        with session.open_stream() as stream:
            stream.write(ROW_TABLE.to_batches())
        session.commit()
    return table


@pytest.fixture(scope="module")
def references(steady: StorageClient, profile: Profile) -> list[BlobReference]:
    """References to `BLOBS`."""
    table = profile.table(f"chaos_blobs_{os.getpid()}")
    create_table(steady, table, BLOB_SCHEMA)
    with open_write_session(steady, table) as session:
        return write_blobs(session, BLOBS, Compression.NONE)


def write_blobs(
    session: WriteSession, blobs: list[bytes], compression: Compression
) -> list[BlobReference]:
    """Write one row per blob, and commit."""
    with session.open_stream() as stream:
        items = [(data, f"x/{n}", None) for n, data in enumerate(blobs)]
        column = stream.schema.column_ids["b"]
        made = stream.upload_blobs(items, column, compression=compression)
        ids, raws = pa.array(range(len(made)), pa.int64()), [ref.raw for ref in made]
        stream.write([pa.record_batch({"id": ids, "b": pa.array(raws, pa.binary())})])
    session.commit()
    return made


class Trouble:
    """One run: a meddler, a client behind it, and what is told of it."""

    def __init__(
        self, profile: Profile, seed: int, kind: str, name: str, faults: tuple[str, ...]
    ) -> None:
        self._profile, self._seed, self._kind, self._name = profile, seed, kind, name
        self._faults = faults if name == "mixed" else (name,)
        self.error: OdpsNbError | None = None

    def __enter__(self) -> Trouble:
        share = 0.8 if self._faults == (COMMIT_LOST,) else SHARE
        self.meddler = Meddler(
            self._profile.tunnel_endpoint, seed=self._seed, share=share, faults=self._faults
        )
        patience = {"stall", "drip", COMMIT_LOST} & set(self._faults)
        self.storage = meddled(self.meddler, self._profile, SILENCE if patience else 10.0)
        return self

    def __exit__(self, kind: object, error: object, _: object) -> bool:
        """Keep a typed error for the test to judge."""
        self.storage.close()
        self.meddler.close()
        self.error = error if isinstance(error, OdpsNbError) else None
        return self.error is not None

    def tell(self, note: Note) -> None:
        """Leave for the tally what this run came to."""
        error = None if self.error is None else type(self.error).__name__
        note(KEY, [self._kind, self._name, error, dict(self.meddler.struck)])

    def require_reason(self) -> None:
        """What only reads is always mended, unless its session is over."""
        if self.error is not None and not (
            self.meddler.struck["expire"] and isinstance(self.error, SessionExpiredError)
        ):
            raise self.error

    @property
    def is_in_doubt(self) -> bool:
        """Whether the client said that it cannot know whether the commit was done."""
        return any("unknown" in note for note in self.error.notes)


def meddled(meddler: Meddler, profile: Profile, read_timeout: float = 10.0) -> StorageClient:
    settings = {
        **{key: value for key, value in profile.as_options().items() if key != "api_version"},
        "tunnel_endpoint": meddler.url,
    }
    return StorageClient(
        Profile(**settings),
        sleep=lambda seconds: None,
        options=ClientOptions(read_timeout=read_timeout),
        retry=RetryPolicy(max_attempts=20, spread=0.0),
    )


@seeds(*FAULTS, *SESSION_FAULTS)
def test_a_read_through_trouble_gives_every_row_once(seed, trouble, profile, rows, record_property):
    chance = random.Random(seed)
    batches = None
    with Trouble(profile, seed, "read", trouble, (*FAULTS, *SESSION_FAULTS)) as run:
        plan = ReadPlan(
            table=rows,
            splits=chance.randint(1, 5),
            max_batch_rows=chance.choice([7, 100, 1000]),
            compression=chance.choice(list(Compression)),
        )
        session = open_read_session(run.storage, plan)
        batches = list(iter_batches(run.storage, session, workers=chance.randint(1, 4)))
    run.tell(record_property)
    run.require_reason()
    assert run.error is not None or pa.Table.from_batches(batches).equals(ROW_TABLE)


@seeds(*ALL_FAULTS)
def test_a_write_through_trouble_is_whole_or_nothing(
    seed, trouble, profile, steady, new_name, record_property
):
    chance = random.Random(seed)
    table = profile.table(new_name("chaos"))
    create_table(steady, table, SCHEMA)
    batches = ROW_TABLE.to_batches(max_chunksize=chance.choice([50, 500, 5000]))
    part = chance.choice([2000, 20_000, 1 << 20])
    with (
        Trouble(profile, seed, "write", trouble, ALL_FAULTS) as run,
        open_write_session(run.storage, table, part_bytes=part) as session,
    ):
        with session.open_stream() as stream:
            stream.write(batches, chance.choice(list(Compression)))
        session.commit()
    run.tell(record_property)
    if require_all_or_nothing(run, steady, table, ROWS):
        session = open_read_session(steady, ReadPlan(table=table))
        assert pa.Table.from_batches(iter_batches(steady, session)).equals(ROW_TABLE)


@seeds(*ALL_FAULTS)
def test_blobs_written_through_trouble_are_whole_or_nothing(
    seed, trouble, profile, steady, new_name, record_property
):
    chance = random.Random(seed)
    table = profile.table(new_name("chaos"))
    create_table(steady, table, BLOB_SCHEMA)
    first = chance.randrange(len(BLOBS))
    blobs = BLOBS[first : first + chance.randint(1, 8)]
    with (
        Trouble(profile, seed, "blob write", trouble, ALL_FAULTS) as run,
        open_write_session(run.storage, table) as session,
    ):
        write_blobs(session, blobs, chance.choice(list(Compression)))
    run.tell(record_property)
    if require_all_or_nothing(run, steady, table, len(blobs)):
        read = open_read_session(steady, ReadPlan(table=table))
        whole = pa.Table.from_batches(iter_batches(steady, read))
        made = [BlobReference.from_text(text) for text in whole.column("b").to_pylist()]
        assert whole.column("id").to_pylist() == list(range(len(blobs)))
        assert [record.data for record in iter_blobs(steady, made)] == blobs


def require_all_or_nothing(
    run: Trouble, steady: StorageClient, table: TableName, rows: int
) -> bool:
    """Require what the client said of its commit; return whether the rows are there."""
    read = open_read_session(steady, ReadPlan(table=table))
    found = sum(batch.num_rows for batch in iter_batches(steady, read))
    if run.error is None:
        assert found == rows
    else:
        assert found in ((0, rows) if run.is_in_doubt else (0,))
    return found > 0


@seeds(*FAULTS)
def test_blobs_through_trouble_arrive_once_and_unharmed(
    seed, trouble, profile, references, record_property
):
    chance = random.Random(seed)
    number = chance.randrange(len(BLOBS))
    with Trouble(profile, seed, "blob read", trouble, FAULTS) as run:
        records = list(
            iter_blobs(
                run.storage,
                references,
                batch_count=chance.choice([2, 7, 100]),
                workers=chance.randint(1, 4),
                compression=chance.choice(list(Compression)),
            )
        )
        with open_blob(run.storage, references[number]) as file:
            assert file.read() == BLOBS[number]
    run.tell(record_property)
    run.require_reason()
    assert [record.data for record in records] == BLOBS
    assert [record.mime_type for record in records] == [f"x/{n}" for n in range(len(BLOBS))]
    assert all(record.verified for record in records)


def test_the_meddler_meddles_and_a_client_without_patience_notices(profile, rows):
    seen: set[str] = set()
    failures = 0
    for seed in range(12):
        with (
            Meddler(profile.tunnel_endpoint, seed=seed, share=0.9) as meddler,
            meddled(meddler, profile, SILENCE) as storage,
        ):
            storage.call = partial(storage.call, retry=RetryPolicy(max_attempts=1))
            try:
                open_read_session(storage, ReadPlan(table=rows))
            except OdpsNbError:
                failures += 1
            seen.update(meddler.struck)
    assert failures > 3
    assert len(seen) > 3


class Report:
    """What pytest tells of one run."""

    when = "call"

    def __init__(self, seed: int, error: str | None, *, passed: bool) -> None:
        self.user_properties = [(KEY, ["read", "cut", error, {"cut": 2}])]
        self.passed, self.failed = passed, not passed
        self.nodeid = f"tests/client/test_chaos.py::test_a_read[{seed}-cut]@test_chaos.py"


def test_a_tally_counts_runs_and_says_how_to_replay_what_failed():
    tally = ChaosTally()
    ends = [(None, True), (None, True), ("SessionExpiredError", True), (None, False)]
    for seed, (error, passed) in enumerate(ends):
        tally.pytest_runtest_logreport(Report(seed, error, passed=passed))
    shown = tally.lines()
    assert [line.split() for line in shown if line.startswith(("read", "all"))] == [
        ["read", "cut", "2", "1", "1"],
        ["all", "2", "1", "1"],
    ]
    assert "8 cut" in "".join(shown)
    assert shown[-1].startswith("replay: ODPS_NB_CHAOS=")
    assert shown[-1].endswith("-m pytest 'tests/client/test_chaos.py::test_a_read[3-cut]'")
