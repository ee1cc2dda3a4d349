"""Virtual time, and threads that are greenlets: what runs next follows from a `Plan` alone.

Modules of the client that start threads get `Threads` in place of ``threading``. A task gives way
where a thread would wait: for a condition, a thread, a sleep, an answer.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from unittest.mock import patch

import greenlet

from odps_nb.client.calls import attempts
from odps_nb.client.parallel import fan_out
from odps_nb.client.read import keepalive
from odps_nb.http import upload

__all__ = ["FAULTS", "Crash", "Plan", "Task", "World", "greenlets_for_threads"]

FAULTS = (
    *("refused", "reset", "lost", "late", "stalled", "twice", "cut", "short", "flipped"),
    *("429", "500", "503", "500 though done", "expired", "clock", "restart"),
)
EXCHANGES = 14  # among which faults and delays are drawn
POLL = 5.0  # seconds between two looks of a thread that waits; 0.1 outside
STEPS = 100_000


class Crash(BaseException):
    """The process of this task is gone."""


@dataclass(frozen=True)
class Plan:
    """All that decides a history: faults and delays, by the number of the exchange."""

    scenario: str
    seed: int
    faults: tuple[tuple[int, str], ...] = ()
    delays: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, scenario: str, seed: int) -> Plan:
        chance = random.Random(f"{scenario} {seed}")
        places = sorted(chance.sample(range(EXCHANGES), chance.choice((0, 1, 1, 2, 3, 5))))
        if chance.random() < 0.3:  # an outage: one exchange after another
            start = chance.randrange(EXCHANGES)
            places = sorted({*places, *range(start, start + chance.randint(2, 8))})
        slow = sorted(chance.sample(range(EXCHANGES), 8))
        return cls(
            scenario,
            seed,
            tuple((place, chance.choice(FAULTS)) for place in places),
            tuple((place, round(chance.expovariate(0.3), 2)) for place in slow),
        )


@dataclass(eq=False)
class Task:
    """A thread of a process of the client."""

    name: str
    process: int
    run: Any = None
    turn: int = 0  # a wake-up for an earlier turn is stale
    error: BaseException | None = None
    joined_by: list[Task] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return bool(self.run.dead)


@dataclass
class World:
    """One history: tasks, the time, and a line for each thing that happened."""

    plan: Plan
    now: float = 0.0
    skew: float = 0.0  # of the wall clock
    log: list[str] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    process: int = 0  # that lives; those before it are dead
    _agenda: list[Any] = field(default_factory=list)
    _count: int = 0
    _hub: Any = field(default_factory=greenlet.getcurrent)
    present: Task | None = None

    def __post_init__(self) -> None:
        self.chance = random.Random(self.plan.seed)

    def spawn(self, name: str, function: Callable[[], Any]) -> Task:
        """Begin a task of the present process."""

        def run() -> None:
            try:
                function()
            except Crash as error:
                task.error = error
            except Exception as error:  # noqa: BLE001  the verdict judges it
                task.error = error
            for one in task.joined_by:
                self.wake(one)

        task = Task(name, self.process)
        task.run = greenlet.greenlet(run, parent=self._hub)
        self.tasks.append(task)
        self.wake(task)
        return task

    def later(self, seconds: float, function: Callable[[], Any]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (self.now + seconds, self._count, function))

    def wake(self, task: Task, seconds: float = 0.0) -> None:
        turn = task.turn
        self.later(seconds, lambda: self._go_on(task, turn))

    def wait(self, seconds: float | None) -> None:
        """Give way until `wake`, or so long."""
        task = self.present
        assert task is not None
        self.require_alive(task)
        if seconds is not None:
            self.wake(task, seconds)
        self._hub.switch()
        self.require_alive(task)

    def join(self, task: Task) -> None:
        """Give way until a task is over."""
        if not task.is_over:
            assert self.present is not None
            task.joined_by.append(self.present)
            self.wait(None)

    def sleep(self, seconds: float) -> None:
        self.wait(max(0.0, seconds))

    def require_alive(self, task: Task) -> None:
        if task.process != self.process:
            raise Crash

    def step(self, function: Callable[[], Any]) -> Any:
        """Do something on the client's own disk."""
        self.sleep(0.001)
        self.tell(getattr(function, "says", "step"))
        return function()

    def restart(self) -> None:
        """End the client's process; what it would have done next is not done."""
        self.tell("its process dies")
        self.process += 1

    def tell(self, line: str) -> None:
        who = "" if self.present is None else f"{self.present.name}: "
        self.log.append(f"{self.now:8.3f}  {who}{line}")

    def play(self) -> None:
        for _ in range(STEPS):
            if not self._agenda:
                break
            self.now, _, function = heapq.heappop(self._agenda)
            function()
            self.present = None
        alive, self.process = self.process, -1
        for task in self.tasks:  # those of dead processes unwind now
            if not task.is_over and task.process == alive:
                task.error = AssertionError("never ends")
                stuck = task.error
            else:
                stuck = None
            while not task.is_over:
                self._resume(task)
            task.error = stuck or task.error
        self.process = alive

    def _go_on(self, task: Task, turn: int) -> None:
        if turn == task.turn and not task.is_over:
            task.turn += 1
            self._resume(task)

    def _resume(self, task: Task) -> None:
        self.present = task
        task.run.switch()

    def clock(self) -> float:
        return 1.7e9 + self.now + self.skew


class Thread:
    """A `threading.Thread` of the world that plays."""

    world: World

    def __init__(self, *, target: Callable[[], Any], name: str, daemon: bool) -> None:
        self._target, self.name = target, name.removeprefix("odps_nb-")
        self._task: Any = None

    def start(self) -> None:
        self._task = self.world.spawn(self.name, self._target)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_over

    def join(self, timeout: float | None = None) -> None:
        if self.is_alive():
            self.world.join(self._task)


class Condition:
    """A `threading.Condition`: tasks give way only in `wait`, so it needs no lock."""

    def __init__(self) -> None:
        self._waiting: list[Task] = []

    def __enter__(self) -> Condition:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def wait(self, timeout: float | None = None) -> None:
        task = Thread.world.present
        assert task is not None
        self._waiting.append(task)
        Thread.world.wait(None if timeout is None else POLL)
        if task in self._waiting:
            self._waiting.remove(task)

    def wait_for(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        if not ready():
            self.wait(timeout)
        return ready()

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            Thread.world.wake(task)


class Threads:
    """What the client uses of ``threading``."""

    Thread, Condition, Lock = Thread, Condition, Lock

    @staticmethod
    def current_thread() -> Any:
        return Thread.world.present


@contextmanager
def greenlets_for_threads() -> Iterator[None]:
    """Let lanes, uploads and keepalives be greenlets of the world that plays."""
    with patch.object(attempts, "SHORT_WAIT", POLL):
        patches: list[Any] = [
            patch.object(m, "threading", Threads) for m in (fan_out, keepalive, upload)
        ]
        patches += [
            patch.object(m, "start_thread", Thread.start) for m in (fan_out, keepalive, upload)
        ]
        for one in patches:
            one.start()
        try:
            yield
        finally:
            for one in patches:
                one.stop()
