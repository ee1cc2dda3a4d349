"""The actors of a history, and the conditions that must hold at its end.

The rows of every scenario are `VALUES`. At the end of each history, including late and lost
requests, the rows are in the table once if an actor was told that they are; if an actor was told
that they are not, they are not. If the outcome was reported as unknown, the rows are there once, or
not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import open_write_session
from odps_nb.client.write.stream import WriteStream
from odps_nb.errors import OdpsNbError, StateError
from odps_nb.spark.source.stream_writer import commit_batch
from odps_nb.spark.writing.task import Written
from tests.model.client import TABLE, ModelLog, batch
from tests.model.explorer import Actor, Bounds, History

__all__ = ["SCENARIOS", "VALUES", "Scenario"]

VALUES = (1, 2)


@dataclass(frozen=True)
class Scenario:
    """Actors within bounds; ``verdict`` names what is wrong at the end, or is empty."""

    name: str
    prepare: Callable[[History], None]
    bounds: Bounds
    verdict: Callable[[History], str]


def write_stream(
    storage: StorageClient, session: WriteSessionRef, name: str, values: Sequence[int] = VALUES
) -> Written:
    """Write as a task does: its own stream, in two uploads, closed."""
    with WriteStream(storage, session, name, part_bytes=1).start() as stream:
        stream.write([batch(value) for value in values])
    return Written(stream=stream.close())


# -- one writer ---------------------------------------------------------------------------------


def one_writer(history: History) -> None:
    """The same as `Table.write`: session, stream, rows, close, commit; abort after an error."""

    def write() -> None:
        storage = history.client()
        with open_write_session(storage, TABLE) as session:
            write_stream(storage, session.ref, "0")
            session.commit([("0", 1)])

    history.add("writer", write)


def told(history: History) -> str:
    """Compare the table with the outcome that the writer was told."""
    writer, table = history.actors[0], tuple(history.service.table)
    return _against(writer, table)


def _against(writer: Actor, table: tuple[int, ...]) -> str:
    if table not in ((), VALUES):
        return f"the table holds {table}"
    if writer.error is None and table != VALUES:
        return "written, says the writer; nothing is there"
    if isinstance(writer.error, OdpsNbError) and table and not writer.error.in_doubt:
        return "not written, says the writer; it is there"
    return ""


# -- a job of Spark -----------------------------------------------------------------------------


@dataclass
class Job:
    """The data that a driver and its tasks share."""

    session: WriteSessionRef | None = None
    done: list[Written] = field(default_factory=list)


def attempt_name(number: int) -> str:
    """The name that `odps_nb.spark.writing.task.attempt_name` makes from Spark's ids: unique."""
    return f"000000-{number}"


def attempts_of_a_task(history: History) -> None:
    """Two attempts of one task (the first is presumed dead, but is not), then the commit."""
    job = Job()

    def attempt(number: int) -> Callable[[], None]:
        def write() -> None:
            assert job.session is not None
            job.done.append(write_stream(history.client(), job.session, attempt_name(number)))

        return write

    def drive() -> None:
        storage = history.client()
        with open_write_session(storage, TABLE) as session:
            job.session = session.ref
            tasks = [history.add(f"attempt {number}", attempt(number)) for number in (0, 1)]
            history.wait(lambda: job.done or all(one.is_over for one in tasks))
            if not job.done:
                raise StateError("no attempt succeeded")
            session.commit([job.done[0].stream])

    history.add("driver", drive)


def nothing_counted(history: History) -> None:
    """An attempt writes rows that the driver does not commit; the committed attempt has no rows."""
    job = Job()

    def write() -> None:
        assert job.session is not None
        job.done.append(write_stream(history.client(), job.session, attempt_name(0)))

    def drive() -> None:
        with open_write_session(history.client(), TABLE) as session:
            job.session = session.ref
            task = history.add("attempt 0", write)
            history.wait(lambda: task.is_over)
            session.commit([])

    history.add("driver", drive)


def empty(history: History) -> str:
    """Rows that were not committed are not visible."""
    return f"the table holds {history.service.table}" if history.service.table else ""


# -- a micro-batch ------------------------------------------------------------------------------


def _driver(history: History, files: dict[tuple[int, str], bytes]) -> Callable[[], None]:
    def drive() -> None:
        storage = history.client()
        session = open_write_session(storage, TABLE).ref
        written = write_stream(storage, session, "0")
        commit_batch(storage, ModelLog(history, files), 0, session, [written])

    return drive


def micro_batch(history: History) -> None:
    """A driver that may crash anywhere, and always a second one for the same batch."""
    drive = _driver(history, {})

    def restarted() -> None:
        history.wait(lambda: first.is_over)
        for _ in range(2):  # the number of restarts
            with contextlib.suppress(OdpsNbError):
                return drive()
        return drive()

    first = history.add("driver", drive, may_crash=True)
    history.add("driver after a restart", restarted)


def two_drivers(history: History) -> None:
    """The first driver is presumed dead, but is not: both write the batch at the same time."""
    drive = _driver(history, {})
    history.add("driver", drive)
    history.add("second driver", drive)


def once(history: History) -> str:
    """If the last driver succeeded, the rows are there once; otherwise at most once."""
    table = tuple(history.service.table)
    if table not in ((), VALUES):
        return f"the table holds {table}"
    if any(a.error is None for a in history.actors) and table != VALUES:
        return "written, says a driver; nothing is there"
    return ""


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("one writer", one_writer, Bounds(lost=3), told),
        Scenario("attempts of a task", attempts_of_a_task, Bounds(lost=1, switches=2), told),
        Scenario("nothing counted", nothing_counted, Bounds(lost=2), empty),
        Scenario("micro-batch", micro_batch, Bounds(lost=1, crashes=1, switches=0), once),
        Scenario("two drivers", two_drivers, Bounds(lost=1, switches=1), once),
    )
}
