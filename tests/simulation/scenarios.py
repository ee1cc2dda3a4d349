"""What the client does in a simulated world, and what must be true when all is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.splits import ReadPlan, iter_batches, open_read_session
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import OdpsNbError, StateError
from odps_nb.http.retry import RetryPolicy
from odps_nb.spark.source.stream_writer import commit_batch
from odps_nb.terms import IndexSplit
from tests.model.client import _PROFILE, TABLE, ModelLog
from tests.model.scenarios import write_stream
from tests.simulation.network import SPLITS, Network, SimulatedService
from tests.simulation.world import Crash, Plan, Task, Thread, World

__all__ = ["SCENARIOS", "History", "simulate"]

VALUES = tuple(range(24))
HALVES = {"0": (1,), "1": (2,)}
WRITTEN = (1, 2)


@dataclass
class History:
    """What a plan came to; ``verdict`` says what is wrong, or nothing."""

    plan: Plan
    log: list[str]
    verdict: str


class Scene:
    """One client, one service, one world."""

    def __init__(self, plan: Plan) -> None:
        self.world = Thread.world = World(plan)
        self.service = SimulatedService(world=self.world)
        self.network = Network(self.world, self.service)
        self.got: list[int] = []
        self.files: dict[tuple[int, str], bytes] = {}
        self.by_size = plan.seed % 2 == 1
        self.main: Task | None = None

    def storage(self) -> StorageClient:
        world = self.world
        client = StorageClient(
            _PROFILE,
            transport=self.network,
            retry=RetryPolicy(max_attempts=3, connect_attempts=2),
            clock=world.clock,
            monotonic=lambda: world.now,
            sleep=world.sleep,
            read_timeout=5.0,
        )
        client._clock = replace(client._clock, chance=world.chance.random)
        return client

    # -- what the client does ----------------------------------------------------------------

    def read(self) -> None:
        storage = self.storage()
        session = open_read_session(storage, ReadPlan(table=TABLE, splits=SPLITS))
        if self.by_size:  # splits that do not state their rows
            splits = tuple(IndexSplit(n) for n in range(SPLITS))
            session = replace(session, splits=splits, row_count=None)
        session = replace(session, max_batch_rows=3)
        for batch in iter_batches(storage, session, workers=SPLITS):
            self.got += batch.column("id").to_pylist()
            if self.world.plan.seed % 16 == 3:
                self.world.sleep(100)  # a slow consumer: the session must be kept alive

    def write(self) -> None:
        storage, done = self.storage(), []
        with open_write_session(storage, TABLE) as session:

            def lane(name: str) -> Callable[[], None]:
                return lambda: done.append(
                    write_stream(storage, session.ref, name, HALVES[name]).stream
                )

            lanes = [self.world.spawn(f"lane {name}", lane(name)) for name in HALVES]
            for one in lanes:
                self.world.join(one)
                if one.error is not None:
                    raise one.error
            session.commit(done)

    def micro_batch(self) -> None:
        storage = self.storage()
        session = open_write_session(storage, TABLE).ref
        written = write_stream(storage, session, "0", WRITTEN)
        log: Any = ModelLog(self.world, self.files)  # type: ignore[arg-type]  # of a history: step
        commit_batch(storage, log, 0, session, [written])

    # -- what must be true -------------------------------------------------------------------

    def read_verdict(self, error: BaseException | None) -> str:
        if error is not None and not self.world.plan.faults:
            return f"nothing was wrong, but: {error!r}"
        if error is None and tuple(self.got) != VALUES:
            return f"read, says the client; rows {self.got}"
        return ""

    def write_verdict(self, error: BaseException | None) -> str:
        table = tuple(sorted(self.service.table))
        if table not in ((), WRITTEN):
            return f"the table holds {table}"
        if error is None and not table:
            return "written, says the client; nothing is there"
        if error is not None and table and not getattr(error, "in_doubt", False):
            return "not written, says the client; it is there"
        return ""

    def batch_verdict(self, error: BaseException | None) -> str:
        table = tuple(sorted(self.service.table))
        if table not in ((), WRITTEN):
            return f"the table holds {table}"
        return "written, says a driver; nothing is there" if error is None and not table else ""

    def play(self, do: Callable[[], None], judge: Callable[[Any], str]) -> str:
        world, batch = self.world, do == self.micro_batch
        if do == self.read:
            self.service.table = list(VALUES)
        mains: list[Task] = []

        def again() -> None:
            mains.append(world.spawn(f"client {len(mains) + 1}", do))
            watch()

        def watch() -> None:
            task = mains[-1]
            gone = task.process != world.process
            if batch and len(mains) < 3 and (gone or (task.is_over and task.error is not None)):
                world.process += not gone
                again()  # somebody starts it again
            elif not task.is_over and not gone:
                world.later(1.0, watch)

        again()
        world.play()
        for task in world.tasks:
            if task.error is not None and not isinstance(
                task.error, (OdpsNbError, StateError, Crash)
            ):
                return f"{task.name}: {task.error!r}"
        return judge(mains[-1].error)


SCENARIOS: dict[str, Callable[[Scene], str]] = {
    "read": lambda scene: scene.play(scene.read, scene.read_verdict),
    "write": lambda scene: scene.play(scene.write, scene.write_verdict),
    "micro-batch": lambda scene: scene.play(scene.micro_batch, scene.batch_verdict),
}


def simulate(plan: Plan) -> History:
    """Play a plan to its end."""
    scene = Scene(plan)
    verdict = SCENARIOS[plan.scenario](scene)
    return History(plan, scene.world.log, verdict)
