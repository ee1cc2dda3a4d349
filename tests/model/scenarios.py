"""The actors of a history, and the conditions that must hold at its end.

The rows of every scenario are `VALUES`. At the end of each history, including late and lost
requests, the rows are in the table once if the client reported to an actor that the write
succeeded, and absent if it reported that the write failed. If it reported that the outcome is
unknown, the rows are stored once or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.transfer import TransferChoice
from odps_nb.client.write.base import WriteSession
from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import open_write_session, stream_of
from odps_nb.errors import NotFoundError, OdpsNbError, StateError
from odps_nb.http.retry import RetryPolicy
from odps_nb.spark.source.stream_writer import commit_batch
from odps_nb.spark.writing.task import Written
from odps_nb.terms import Transfer, TransferMode
from tests.model.client import TABLE, ModelLog, batch
from tests.model.explorer import Actor, Bounds, History

__all__ = ["SCENARIOS", "VALUES", "Scenario"]

VALUES = (1, 2)
_MISSING = NotFoundError("no such path", status=404, code="NoSuchObject")
_REFUSED = {
    Transfer.STORAGE: {},
    Transfer.STORAGE_V1: {Transfer.STORAGE: _MISSING},
    Transfer.TUNNEL: {Transfer.STORAGE: _MISSING, Transfer.STORAGE_V1: _MISSING},
}


@dataclass(frozen=True)
class Scenario:
    """Actors within bounds; ``verdict`` describes a wrong result at the end, or is empty.

    ``timed``: the model delays an effect that the embedded service has immediately.
    """

    name: str
    prepare: Callable[[History], None]
    bounds: Bounds
    verdict: Callable[[History], str]
    timed: bool = False


@dataclass(frozen=True)
class Way:
    """The service that transfers rows; ``slow``: commits and statements take a while.

    ``tries``: attempts of a request, if not the default.
    """

    service: Transfer = Transfer.STORAGE
    slow: bool = False
    tries: int | None = None

    def client(self, history: History) -> StorageClient:
        """Return a client that uses this service."""
        history.service.others.slow = self.slow
        storage: StorageClient = history.client()
        storage.transfer = TransferChoice(TransferMode.AUTO)
        storage.transfer._refusals.update(_REFUSED[self.service])
        if self.tries is not None:
            storage._retry = RetryPolicy(max_attempts=self.tries)
        return storage


BY_STORAGE = Way()
BY_TUNNEL = Way(Transfer.TUNNEL)
BY_VERSION_1 = Way(Transfer.STORAGE_V1)


def write_stream(
    storage: StorageClient, session: WriteSessionRef, name: str, values: Sequence[int] = VALUES
) -> Written:
    """Write like a task of Spark: open a stream, send two uploads, and close the stream."""
    with stream_of(storage, session, name, part_bytes=1).start() as stream:
        stream.write([batch(value) for value in values])
    return Written(stream=stream.close())


def shared_session(storage: StorageClient) -> WriteSession:
    """Open a session that several processes write to."""
    return open_write_session(storage, TABLE, shared=True)


# -- one writer ---------------------------------------------------------------------------------


def one_writer(history: History, way: Way = BY_STORAGE, *, shared: bool = False) -> None:
    """The same as `Table.write`: session, stream, rows, close, commit; abort after an error."""

    def write() -> None:
        storage = way.client(history)
        with open_write_session(storage, TABLE, shared=shared, part_bytes=1) as session:
            with session.open_stream("0") as stream:
                stream.write([batch(value) for value in VALUES])
            session.commit([("0", 1)])

    history.add("writer", write)


def second_version(history: History, way: Way = BY_STORAGE) -> None:
    """A writer whose stream fails writes all rows into a second version of the stream."""

    def write() -> None:
        storage = way.client(history)
        with open_write_session(storage, TABLE, part_bytes=1) as session:
            for version in (1, 2):
                try:
                    with session.open_stream("0", version) as stream:
                        stream.write([batch(value) for value in VALUES])
                    break
                except OdpsNbError:
                    if version == 2:
                        raise
            session.commit([("0", version)])

    history.add("writer", write)


def told(history: History) -> str:
    """Compare the table with the outcome that the client reported to the writer."""
    return _against(history.actors[0], rows_of(history))


def rows_of(history: History) -> tuple[int, ...]:
    """Return the rows of the table once the service has nothing left to do."""
    history.service.others.settle()
    return tuple(history.service.table)


def _against(writer: Actor, table: tuple[int, ...]) -> str:
    if table not in ((), VALUES):
        return f"the table holds {table}"
    if writer.error is None and table != VALUES:
        return "the writer reports success, but the table is empty"
    if isinstance(writer.error, OdpsNbError) and table and not writer.error.in_doubt:
        return "the writer reports failure, but the rows are in the table"
    if table and any("none of its rows" in note for note in getattr(writer.error, "notes", ())):
        return "a note says that no rows were written, but they are in the table"
    return ""


# -- a job of Spark -----------------------------------------------------------------------------


@dataclass
class Job:
    """The data that a driver and its tasks share."""

    session: WriteSessionRef | None = None
    done: list[Written] = field(default_factory=list)


def attempt_name(number: int) -> str:
    """Return a unique name, as `odps_nb.spark.writing.task.attempt_name` does with Spark's ids."""
    return f"000000-{number}"


def attempts_of_a_task(history: History, way: Way = BY_STORAGE) -> None:
    """Run two attempts of one task (the first only seems to be dead), then commit."""
    job = Job()

    def attempt(number: int) -> Callable[[], None]:
        def write() -> None:
            assert job.session is not None
            storage = way.client(history)
            job.done.append(write_stream(storage, job.session, attempt_name(number)))

        return write

    def drive() -> None:
        storage = way.client(history)
        with shared_session(storage) as session:
            job.session = session.ref
            tasks = [history.add(f"attempt {number}", attempt(number)) for number in (0, 1)]
            history.wait(lambda: job.done or all(one.is_over for one in tasks))
            if not job.done:
                raise StateError("no attempt succeeded")
            session.commit([job.done[0].stream])

    history.add("driver", drive)


def nothing_counted(history: History, way: Way = BY_STORAGE) -> None:
    """Let an attempt write rows that the driver does not commit; the committed attempt has none."""
    job = Job()

    def write() -> None:
        assert job.session is not None
        job.done.append(write_stream(way.client(history), job.session, attempt_name(0)))

    def drive() -> None:
        with shared_session(way.client(history)) as session:
            job.session = session.ref
            task = history.add("attempt 0", write)
            history.wait(lambda: task.is_over)
            session.commit([])

    history.add("driver", drive)


def empty(history: History) -> str:
    """Rows that were not committed are not visible."""
    rows = rows_of(history)
    return f"the table holds {rows}" if rows else ""


# -- a micro-batch ------------------------------------------------------------------------------


def _driver(history: History, files: dict[tuple[int, str], bytes], way: Way) -> Callable[[], None]:
    def drive() -> None:
        storage = way.client(history)
        session = shared_session(storage).ref
        written = write_stream(storage, session, "0")
        commit_batch(storage, ModelLog(history, files), 0, session, [written])

    return drive


def micro_batch(history: History, way: Way = BY_STORAGE, *, late: bool = False) -> None:
    """A driver that may crash anywhere, and always a second driver for the same batch.

    ``late``: the second driver starts after the lifecycle of staging tables.
    """
    drive = _driver(history, {}, way)

    def restarted() -> None:
        history.wait(lambda: first.is_over)
        if late:
            history.service.others.settle()
            history.service.others.expire_staging()
        for _ in range(2):  # the number of restarts
            with contextlib.suppress(OdpsNbError):
                return drive()
        return drive()

    first = history.add("driver", drive, may_crash=True)
    history.add("driver after a restart", restarted)


def two_drivers(history: History, way: Way = BY_STORAGE) -> None:
    """The first driver only seems to be dead: both drivers write the batch at the same time."""
    drive = _driver(history, {}, way)
    history.add("driver", drive)
    history.add("second driver", drive)


def once(history: History) -> str:
    """If any driver succeeded, the rows are stored once; otherwise at most once."""
    table = rows_of(history)
    if table not in ((), VALUES):
        return f"the table holds {table}"
    if any(a.error is None for a in history.actors) and table != VALUES:
        return "a driver reports success, but the table is empty"
    return ""


def recovers(history: History) -> str:
    """Like `once`, and the last restart succeeds or raises `StateError` for the user to decide."""
    last = history.actors[-1].error
    if not isinstance(last, (type(None), StateError)):
        return f"the last restart ends with {last!r}"
    return once(history)


_SLOW_TUNNEL = replace(BY_TUNNEL, slow=True)
_SLOW_VERSION_1 = replace(BY_VERSION_1, slow=True)
_STAGED = partial(one_writer, shared=True)
_LATE = partial(micro_batch, way=BY_TUNNEL, late=True)
_SECOND_VERSION = partial(second_version, way=replace(BY_TUNNEL, tries=1))
_HASTY_STAGED = partial(_STAGED, way=replace(BY_TUNNEL, tries=1))
_HASTY = partial(micro_batch, way=replace(_SLOW_TUNNEL, tries=1))
# these scenarios have many requests, so tests/simulation tests them with several faults
_CRASH = Bounds(lost=0, crashes=1, switches=0)
_ZOMBIE = Bounds(lost=0, switches=2)
_OTHERS = (
    Scenario("tunnel", partial(one_writer, way=BY_TUNNEL), Bounds(lost=3), told),
    Scenario(
        "slow tunnel", partial(one_writer, way=_SLOW_TUNNEL), Bounds(lost=3), told, timed=True
    ),
    Scenario("second version", _SECOND_VERSION, Bounds(lost=2), told),
    Scenario("version 1", partial(one_writer, way=BY_VERSION_1), Bounds(lost=3), told),
    Scenario(
        "slow version 1", partial(one_writer, way=_SLOW_VERSION_1), Bounds(lost=3), told, timed=True
    ),
    Scenario("staging", partial(_STAGED, way=BY_TUNNEL), Bounds(lost=2), told),
    Scenario("slow staging", partial(_STAGED, way=_SLOW_TUNNEL), Bounds(lost=2), told, timed=True),
    Scenario("hasty staging", _HASTY_STAGED, Bounds(lost=2), told),
    Scenario("staged attempts", partial(attempts_of_a_task, way=BY_TUNNEL), _ZOMBIE, told),
    Scenario("nothing staged", partial(nothing_counted, way=BY_TUNNEL), Bounds(lost=2), empty),
    Scenario("staged micro-batch", partial(micro_batch, way=BY_TUNNEL), _CRASH, recovers),
    Scenario(
        "slow micro-batch", partial(micro_batch, way=_SLOW_TUNNEL), _CRASH, recovers, timed=True
    ),
    Scenario("hasty micro-batch", _HASTY, _CRASH, recovers, timed=True),
    Scenario("late micro-batch", _LATE, _CRASH, once, timed=True),
    Scenario("two staged drivers", partial(two_drivers, way=BY_TUNNEL), _ZOMBIE, once),
)

SCENARIOS = {
    one.name: one
    for one in (
        Scenario("one writer", one_writer, Bounds(lost=3), told),
        Scenario("attempts of a task", attempts_of_a_task, Bounds(lost=1, switches=2), told),
        Scenario("nothing counted", nothing_counted, Bounds(lost=2), empty),
        Scenario("micro-batch", micro_batch, Bounds(lost=1, crashes=1, switches=0), once),
        Scenario("two drivers", two_drivers, Bounds(lost=1, switches=1), once),
        *_OTHERS,
    )
}
