"""Through a network that breaks every third exchange: everything once, or a typed error.

The seed of a failing run is in its test id; ``ODPS_NB_CHAOS`` names how many runs of each kind
are made (10 by default).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest
from meddler import Meddler

from odps_nb.client.blob import iter_blobs, open_blob
from odps_nb.client.catalog import create_table
from odps_nb.client.profile import Profile
from odps_nb.client.read import ReadPlan, count_rows, iter_batches, open_read_session
from odps_nb.client.storage import StorageClient
from odps_nb.client.write import open_write_session
from odps_nb.errors import OdpsNbError
from odps_nb.http.retry import RetryPolicy
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import BlobReference, Compression, TableName

RUNS = int(os.environ.get("ODPS_NB_CHAOS", "10"))
SHARE = 0.3
ROWS = 3000
SCHEMA = TableSchema(
    columns=(
        Column(name="id", type=PrimitiveType(TypeCode.BIGINT)),
        Column(name="note", type=PrimitiveType(TypeCode.STRING)),
    )
)
ROW_TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "note": pa.array([None if n % 7 == 0 else f"row {n}" for n in range(ROWS)]),
    }
)
BLOBS = [random.Random(n).randbytes(n * n * 37) for n in range(40)]


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
    blob = Column(name="b", type=PrimitiveType(TypeCode.BLOB))
    create_table(steady, table, TableSchema(columns=(*SCHEMA.columns[:1], blob)))
    with open_write_session(steady, table) as session:
        with session.open_stream() as stream:
            made = stream.upload_blobs(
                [(data, f"x/{n}", None) for n, data in enumerate(BLOBS)],
                stream.schema.column_ids["b"],
            )
            ids, raws = pa.array(range(len(made)), pa.int64()), [ref.raw for ref in made]
            stream.write([pa.record_batch({"id": ids, "b": pa.array(raws, pa.binary())})])
        session.commit()
    return made


def meddled(meddler: Meddler, profile: Profile) -> StorageClient:
    settings = {
        **{key: value for key, value in profile.as_options().items() if key != "api_version"},
        "tunnel_endpoint": meddler.url,
    }
    return StorageClient(
        Profile(**settings),
        sleep=lambda seconds: None,
        read_timeout=10.0,
        retry=RetryPolicy(max_attempts=10, spread=0.0),
    )


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_read_through_trouble_gives_every_row_once(seed, profile, rows):
    chance = random.Random(seed)
    with (
        Meddler(profile.tunnel_endpoint, seed=seed, share=SHARE) as meddler,
        meddled(meddler, profile) as storage,
    ):
        session = open_read_session(
            storage,
            ReadPlan(
                table=rows,
                splits=chance.randint(1, 5),
                max_batch_rows=chance.choice([7, 100, 1000]),
                compression=chance.choice(list(Compression)),
            ),
        )
        batches = list(iter_batches(storage, session, workers=chance.randint(1, 4)))
    assert pa.Table.from_batches(batches).equals(ROW_TABLE)


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_write_through_trouble_is_whole_or_nothing(seed, profile, steady, new_name):
    chance = random.Random(seed)
    table = profile.table(new_name("chaos"))
    create_table(steady, table, SCHEMA)
    batches = ROW_TABLE.to_batches(max_chunksize=chance.choice([50, 500, 5000]))
    part = chance.choice([2000, 20_000, 1 << 20])
    with (
        Meddler(profile.tunnel_endpoint, seed=seed, share=SHARE) as meddler,
        meddled(meddler, profile) as storage,
    ):
        try:
            with open_write_session(storage, table, part_bytes=part) as session:
                with session.open_stream() as stream:
                    stream.write(batches, chance.choice(list(Compression)))
                session.commit()
            expected: tuple[int, ...] = (ROWS,)
        except OdpsNbError as error:
            unknown = any("unknown" in note for note in error.notes)
            expected = (0, ROWS) if unknown else (0,)
    assert count_rows(steady, ReadPlan(table=table)) in expected
    if expected == (ROWS,):
        session = open_read_session(steady, ReadPlan(table=table))
        assert pa.Table.from_batches(iter_batches(steady, session)).equals(ROW_TABLE)


@pytest.mark.parametrize("seed", range(RUNS))
def test_blobs_through_trouble_arrive_once_and_unharmed(seed, profile, references):
    chance = random.Random(seed)
    with (
        Meddler(profile.tunnel_endpoint, seed=seed, share=SHARE, flip=True) as meddler,
        meddled(meddler, profile) as storage,
    ):
        records = list(
            iter_blobs(
                storage,
                references,
                batch_count=chance.choice([2, 7, 100]),
                workers=chance.randint(1, 4),
                compression=chance.choice(list(Compression)),
            )
        )
        assert [record.data for record in records] == BLOBS
        assert [record.mime_type for record in records] == [f"x/{n}" for n in range(len(BLOBS))]
        assert all(record.verified for record in records)
        number = chance.randrange(len(BLOBS))
        with open_blob(storage, references[number]) as file:
            assert file.read() == BLOBS[number]


def test_the_meddler_meddles_and_a_client_without_patience_notices(profile, rows):
    seen: set[str] = set()
    failures = 0
    for seed in range(12):
        with (
            Meddler(profile.tunnel_endpoint, seed=seed, share=0.9, flip=True) as meddler,
            meddled(meddler, profile) as storage,
        ):
            storage.call = partial(storage.call, retry=RetryPolicy(max_attempts=1))
            try:
                open_read_session(storage, ReadPlan(table=rows))
            except OdpsNbError:
                failures += 1
            seen.update(meddler.done)
    assert failures > 3
    assert len(seen) > 3
