"""The jobs that run while one exchange is broken, and the conditions that must hold afterwards.

A job creates a place (a table) with a client without faults, runs with a client that has faults,
and is checked with the first client. A returned result is compared; after an error, the data that
the job would have changed must be unchanged. Most jobs run once for each transfer service.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.access.connection import Connection
from odps_nb.client.blob import many
from odps_nb.client.catalog import fetch_table
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.read.splits import iter_batches
from odps_nb.client.reading import open_read_session
from odps_nb.client.write.session import commit_write, open_write_session
from odps_nb.client.write.staging import LIFECYCLE_DAYS, STEM
from odps_nb.errors import OdpsNbError
from odps_nb.spark.reading.task import ReadTask, read_split
from odps_nb.spark.source.commit_log import CommitLog
from odps_nb.spark.source.stream_writer import commit_batch
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.writing.dataframe import write_target
from odps_nb.spark.writing.task import WriteTask, Written, write_partition
from odps_nb.terms import BlobReference, TransferMode

__all__ = ["JOBS", "PAIR_JOBS", "Job", "Way", "World"]


class Way(Enum):
    """The services of an account, and those that its client may use.

    With ``VERSION_1`` and ``NO_STORAGE``, the client finds out which services are missing.
    """

    STORAGE = ("", "storage,storage-v1,tunnel", TransferMode.AUTO)
    TUNNEL = (" by the tunnel", "storage,storage-v1,tunnel", TransferMode.TUNNEL)
    VERSION_1 = (" by version 1", "storage-v1,tunnel", TransferMode.AUTO)
    NO_STORAGE = (" without the Storage API", "tunnel", TransferMode.AUTO)

    def __init__(self, label: str, services: str, transfer: TransferMode) -> None:
        self.label, self.services, self.transfer = label, services, transfer


ROWS = 600
LONG_ROWS = 6000  # more than the service sends in one batch, in several checksummed chunks
PART = 4000  # maximum bytes of an upload if a write has several
NUMBERS = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "note": [None if n % 7 == 0 else f"row {n}" for n in range(ROWS)],
    }
)
LONG = pa.table(
    {
        "id": pa.array(range(LONG_ROWS), pa.int64()),
        "note": [f"row {n} of {LONG_ROWS}" for n in range(LONG_ROWS)],
    }
)
BEFORE = pa.table({"id": pa.array([-2, -1], pa.int64()), "note": ["old", None]})
OLDER = pa.table({"id": pa.array([-3], pa.int64()), "note": ["older"]})
BLOBS = [bytes(n % 251 for n in range(size)) for size in (0, 1, 4096, 20_000)]
CREATED = "id bigint, note string"

_numbers = itertools.count()


@dataclass
class World:
    """A connection without faults, the tables that all jobs read, and a folder for the run."""

    steady: Connection
    folder: Path
    way: Way = Way.STORAGE
    rows: str = ""
    long: str = ""
    days: str = ""
    references: list[BlobReference] = field(default_factory=list)

    def furnish(self) -> None:
        """Create the tables that are only read."""
        self.rows, self.long = self.table(CREATED), self.table(CREATED)
        self.steady.table(self.rows).write(NUMBERS, progress=False)
        self.steady.table(self.long).write(LONG, progress=False)
        self.days = self.table(CREATED, partitioned_by="ds string")
        self.steady.table(self.days).write(DAYS, progress=False)
        if self.way is not Way.STORAGE:
            return
        blobs = self.table("id bigint, b blob")
        self.steady.table(blobs).write(blob_rows(), progress=False)
        found = self.steady.table(blobs).read().to_arrow()
        self.references = [BlobReference.from_text(text) for text in found["b"].to_pylist()]

    def name(self) -> str:
        return f"sweep_{next(_numbers)}"

    def table(self, columns: str, **options: Any) -> str:
        name = self.name()
        self.steady.create_table(name, columns, **options)
        return name

    def found(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table in the order of their ids."""
        rows = self.steady.table(name).read(progress=False).to_arrow().to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    def clear_staging(self) -> list[str]:
        """Drop the staging tables that a run left; return their names.

        Each table must have a lifecycle, so that the service would drop it.
        """
        names = self.steady.tables(f"{STEM}*")
        for name in names:
            table = self.steady.table(name).name
            assert fetch_table(self.steady._storage, table).lifecycle == LIFECYCLE_DAYS, name
            self.steady.drop_table(name)
        return names


@dataclass(frozen=True)
class Job:
    """``make`` creates a place, ``run`` runs there, and ``look`` returns the stored data.

    ``changed`` is the data after a complete run, ``unchanged`` the data without a run. A job that
    only reads has ``result`` instead of all three.
    """

    name: str
    run: Callable[[Connection, World, Any], Any]
    make: Callable[[World], Any] = lambda world: None
    result: Any = None
    look: Callable[[World, Any], Any] | None = None
    changed: Any = None
    unchanged: Any = None
    left: Any = None  # data that a failed run may leave if its error says so
    files: bool = False  # writes files on this machine
    shared: bool = False  # after an error, another process ends the session
    ways: tuple[Way, ...] = (Way.STORAGE, Way.TUNNEL)
    way: Way = Way.STORAGE

    @property
    def reads(self) -> bool:
        return self.look is None


def blob_rows() -> pa.Table:
    return pa.table({"id": pa.array(range(len(BLOBS)), pa.int64()), "b": pa.array(BLOBS)})


def sorted_rows(*tables: pa.Table) -> list[dict[str, Any]]:
    return sorted(itertools.chain(*(t.to_pylist() for t in tables)), key=lambda row: row["id"])


def ids(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch.column("id").to_pylist()]


# -- reading ------------------------------------------------------------------------------------


def read_session(
    odps: Connection,
    world: World,
    place: Any,
    *,
    ordered: bool,
    workers: int | None,
    splits: int = 3,
    long: bool = False,
) -> list[int]:
    name, batch = (world.long, 2000) if long else (world.rows, 90)
    plan = ReadPlan(table=odps.profile.table(name), splits=splits, max_batch_rows=batch)
    session = open_read_session(odps._storage, plan)
    found = ids(iter_batches(odps._storage, session, ordered=ordered, workers=workers))
    return found if ordered else sorted(found)


def read_here(odps: Connection, world: World, place: Any) -> list[int]:
    """Read a service on this machine by one connection."""
    odps._storage.quickest = 0.0
    return read_session(odps, world, place, ordered=True, workers=None)


def read_table(odps: Connection, world: World, place: Any, **options: Any) -> list[int]:
    return ids(odps.table(world.rows).read(progress=False, **options).to_arrow().to_batches())


def read_partitions(odps: Connection, world: World, place: Any) -> list[int]:
    where = "ds = '0' or ds = '2'"
    found = odps.table(world.days).read(progress=False, where=where, columns=["id", "ds"])
    rows = found.to_arrow().to_pylist()
    assert all(row["ds"] == str(row["id"] % 3) for row in rows)
    return sorted(row["id"] for row in rows)


def read_sql(odps: Connection, world: World, place: Any) -> list[int]:
    query = f"select id from {world.rows} where id < 100 order by id limit 1000"
    return ids(odps.sql(query, progress=False).to_arrow().to_batches())


def read_as_spark_does(odps: Connection, world: World, place: Any) -> list[int]:
    plan = ReadPlan(table=odps.profile.table(world.rows), splits=2, max_batch_rows=200)
    session = open_read_session(odps._storage, plan)
    task = ReadTask.of(TaskProfile.of(odps._storage), session)
    return [
        one for n in range(len(session.splits)) for one in ids(read_split(task, n, NUMBERS.schema))
    ]


def blobs_down(odps: Connection, world: World, place: Any) -> list[bytes]:
    with mock.patch.object(many, "BATCH_COUNT", 2):
        return [one.data for one in many.iter_blobs(odps._storage, world.references)]


def blobs_into_files(odps: Connection, world: World, folder: Path) -> list[bytes]:
    texts = [reference.token for reference in world.references]
    paths = odps.blobs(pa.chunked_array([texts])).save(folder, progress=False)
    return [Path(one).read_bytes() for one in paths]


# -- writing ------------------------------------------------------------------------------------


def with_rows(world: World) -> str:
    name = world.table(CREATED)
    world.steady.table(name).write(BEFORE, progress=False)
    return name


def by_day(world: World) -> str:
    name = world.table(CREATED, partitioned_by="ds string")
    world.steady.table(name).write(BEFORE, partition="ds=1", progress=False)
    return name


def by_days(world: World) -> str:
    name = world.table(CREATED, partitioned_by="ds string")
    world.steady.table(name).write(BEFORE, partition="ds=2", progress=False)
    world.steady.table(name).write(OLDER, partition="ds=1", progress=False)
    return name


def with_key(world: World) -> str:
    name = world.table(CREATED, primary_key="id")
    world.steady.table(name).upsert(BEFORE, progress=False)
    return name


DAYS = NUMBERS.append_column("ds", pa.array([str(n % 3) for n in range(ROWS)]))
UPSERTED = pa.table({"id": pa.array([-1, 5], pa.int64()), "note": ["new", "newer"]})


def write(odps: Connection, world: World, name: str, data: Any = NUMBERS, **options: Any) -> None:
    odps.table(name).write(data, progress=False, **options)


def write_in_parts(odps: Connection, world: World, name: str) -> None:
    table = odps.profile.table(name)
    with open_write_session(odps._storage, table, part_bytes=PART) as session:
        for number in ("0", "1"):
            half = NUMBERS.slice(int(number) * ROWS // 2, ROWS // 2)
            with session.open_stream(number) as stream:
                stream.write(half.to_batches(max_chunksize=100))
        session.commit()


def delete(odps: Connection, world: World, name: str) -> None:
    odps.table(name).delete(BEFORE.select(["id"]).slice(1), progress=False)


def write_made(odps: Connection, world: World, name: str) -> None:
    odps.table(name).write(NUMBERS, create=True, progress=False)


def generated(world: World, name: str) -> list[dict[str, Any]] | None:
    return world.found(name) if world.steady.tables(name) else None


def upsert(odps: Connection, world: World, name: str) -> None:
    odps.table(name).upsert(UPSERTED, progress=False)


def insert(odps: Connection, world: World, name: str) -> None:
    odps.sql(f"insert into {name} select * from {world.rows}", progress=False)


def write_as_spark_does(odps: Connection, world: World, name: str) -> None:
    """Write by two tasks with two attempts each, then commit once, as Spark does after an error."""
    target, overwrite = write_target(odps._storage, odps.profile.table(name), None, overwrite=False)
    with open_write_session(
        odps._storage, target.table, overwrite=overwrite, shared=True
    ) as session:
        task = WriteTask(profile=TaskProfile.of(odps._storage), session=session.ref, target=target)
        done = [_attempt(task, number) for number in (0, 1)]
        session.commit([one.stream for one in done])


def _attempt(task: WriteTask, number: int) -> Written:
    half = NUMBERS.slice(number * ROWS // 2, ROWS // 2).to_batches()
    for attempt in (0, 1):
        try:
            written = write_partition(task, half, f"{number:06d}-{number * 2 + attempt}")
            assert written is not None
            return written
        except OdpsNbError:
            if attempt:
                raise
    raise AssertionError("the job does not reach this line")


@dataclass(frozen=True)
class Stream:
    """A table, and the checkpoint of the query that writes into it."""

    table: str
    checkpoint: Path


def stream(world: World) -> Stream:
    checkpoint = world.folder / world.name()
    (checkpoint / "offsets").mkdir(parents=True)
    for name in ("metadata", "offsets/0"):
        (checkpoint / name).write_bytes(b"v1")
    return Stream(world.table(CREATED), checkpoint)


def micro_batch(odps: Connection, world: World, place: Stream) -> None:
    table = odps.profile.table(place.table)
    session = open_write_session(odps._storage, table, shared=True).ref
    target, _ = write_target(odps._storage, table, None, overwrite=False)
    task = WriteTask(profile=TaskProfile.of(odps._storage), session=session, target=target)
    commit_batch(odps._storage, CommitLog(str(place.checkpoint)), 0, session, [_attempt(task, 0)])


def after_restart(world: World, place: Stream) -> list[dict[str, Any]]:
    """Return the data after a restart of the query, which Spark does after any error."""
    micro_batch(world.steady, world, place)
    return world.found(place.table)


def folder_of(world: World) -> Path:
    folder = world.folder / world.name()
    folder.mkdir()
    return folder


def commit_of_others(odps: Connection, world: World, name: str) -> None:
    """Commit rows that tasks wrote in other processes, as a driver does."""
    table = odps.profile.table(name)
    session = open_write_session(world.steady._storage, table, shared=True)
    with session.open_stream() as one:
        one.write(NUMBERS.to_batches())
    commit_write(odps._storage, session.ref, [one.close()])


HALF = NUMBERS.slice(0, ROWS // 2)
ALL: Sequence[int] = list(range(ROWS))
_NAMED = (Way.STORAGE, Way.TUNNEL, Way.VERSION_1)
_EACH_WAY = tuple(Way)
_ONLY_STORAGE = (Way.STORAGE,)
_read = partial(Job, result=ALL, ways=_NAMED)
_appended = partial(
    Job,
    make=with_rows,
    look=World.found,
    changed=sorted_rows(BEFORE, NUMBERS),
    unchanged=sorted_rows(BEFORE),
)


def _of_day(table: pa.Table, day: str) -> pa.Table:
    return table.append_column("ds", pa.array([day] * table.num_rows))


_EACH = (
    _read("read in order", partial(read_session, ordered=True, workers=1)),
    _read("read in parallel", partial(read_session, ordered=True, workers=3)),
    Job("read in arrival order", partial(read_session, ordered=False, workers=3), result=ALL),
    Job("read over one connection", read_here, result=ALL),
    _read(
        "read many batches",
        partial(read_session, ordered=True, workers=1, splits=1, long=True),
        result=list(range(LONG_ROWS)),
    ),
    _read("read a table", read_table, ways=_EACH_WAY),
    _read("read partitions", read_partitions, result=[n for n in ALL if n % 3 != 1]),
    _read("read filtered", partial(read_table, where="id >= 590"), result=ALL[590:]),
    _read("read limited", partial(read_table, limit=150), result=ALL[:150]),
    _read(
        "read by SQL",
        read_sql,
        result=ALL[:100],
        ways=(Way.STORAGE, Way.TUNNEL, Way.NO_STORAGE),
    ),
    _read("read in a Spark task", read_as_spark_does),
    Job("blobs down", blobs_down, result=BLOBS, ways=_ONLY_STORAGE),
    Job(
        "blobs into files",
        blobs_into_files,
        make=folder_of,
        result=BLOBS,
        files=True,
        ways=_ONLY_STORAGE,
    ),
    _appended("append", write, ways=_EACH_WAY),
    _appended("append in parts", write_in_parts, ways=_NAMED),
    _appended("append in Spark tasks", write_as_spark_does),
    _appended("commit of streams", commit_of_others, shared=True),
    _appended("insert by SQL", insert, ways=_ONLY_STORAGE),
    Job(
        "create and write",
        write_made,
        make=World.name,
        look=generated,
        changed=sorted_rows(NUMBERS),
        unchanged=None,
        left=[],
    ),
    Job(
        "overwrite",
        partial(write, overwrite=True),
        make=with_rows,
        look=World.found,
        changed=sorted_rows(NUMBERS),
        unchanged=sorted_rows(BEFORE),
        ways=_NAMED,
    ),
    Job(
        "append to a partition",
        partial(write, partition="ds=1"),
        make=by_day,
        look=World.found,
        changed=sorted_rows(_of_day(BEFORE, "1"), _of_day(NUMBERS, "1")),
        unchanged=sorted_rows(_of_day(BEFORE, "1")),
        ways=_NAMED,
    ),
    Job(
        "dynamic partitions",
        partial(write, data=DAYS),
        make=by_day,
        look=World.found,
        changed=sorted_rows(_of_day(BEFORE, "1"), DAYS),
        unchanged=sorted_rows(_of_day(BEFORE, "1")),
        ways=_EACH_WAY,
    ),
    Job(
        "overwrite partitions",
        partial(write, data=DAYS.filter(pc.equal(DAYS["ds"], "1")), overwrite="partitions"),
        make=by_days,
        look=World.found,
        changed=sorted_rows(_of_day(BEFORE, "2"), DAYS.filter(pc.equal(DAYS["ds"], "1"))),
        unchanged=sorted_rows(_of_day(BEFORE, "2"), _of_day(OLDER, "1")),
    ),
    Job(
        "upsert",
        upsert,
        make=with_key,
        look=World.found,
        changed=sorted_rows(BEFORE.slice(0, 1), UPSERTED),
        unchanged=sorted_rows(BEFORE),
    ),
    Job(
        "delete",
        delete,
        make=with_key,
        look=World.found,
        changed=sorted_rows(BEFORE.slice(0, 1)),
        unchanged=sorted_rows(BEFORE),
    ),
    Job(
        "blobs up",
        partial(write, data=blob_rows()),
        make=lambda world: world.table("id bigint, b blob"),
        look=lambda world, name: [
            one.data
            for one in many.iter_blobs(
                world.steady._storage,
                [BlobReference.from_text(row["b"]) for row in world.found(name)],
            )
        ],
        changed=BLOBS,
        unchanged=[],
        ways=_ONLY_STORAGE,
    ),
    Job(
        "streaming micro-batch",
        micro_batch,
        make=stream,
        look=after_restart,
        changed=sorted_rows(HALF),
        unchanged=sorted_rows(HALF),  # after the restart, the rows are stored once
        files=True,
        shared=True,
    ),
)

#: Each job, once for each of its ``ways``.
JOBS = tuple(
    replace(job, way=way, name=job.name + way.label)
    for way in Way
    for job in _EACH
    if way in job.ways
)

#: The jobs that are also run with two faults.
PAIR_JOBS = tuple(
    job
    for job in JOBS
    if job.name
    in (
        "read in order",
        "append",
        "blobs up",
        "append by the tunnel",
        "commit of streams by the tunnel",
    )
)
