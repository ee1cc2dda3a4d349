"""A simulated world with a virtual clock, in which actors wait and are scheduled.

An actor is a greenlet that runs our code. Each thread of the client is also an actor. The world
replaces `tests.model.explorer.History`, so the scenarios of tests/model also run in it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from random import Random
from types import SimpleNamespace
from typing import Any

import greenlet

from odps_nb.client.parallel import fan_out
from odps_nb.client.read import keepalive
from odps_nb.errors import (
    BrokenStreamError,
    ConnectError,
    FramingError,
    OdpsNbError,
    RequestTimeoutError,
)
from odps_nb.wire.calls import GetReadSession, ReadRows, decode_error
from tests.model.explorer import Actor, Crash, shown
from tests.simulation.plan import Fault, Plan
from tests.simulation.service import READ_TIMEOUT, Body, Tables

__all__ = ["World"]

POLL = 2.0  # seconds between polls; the real code polls ten times a second
MOST_EVENTS = 3_000
_STATUS = {
    "429": (429, b'{"Code": "SlotExceeded", "Message": "too many requests"}'),
    "500": (500, b'{"Code": "InternalServerError", "Message": "try again"}'),
    "503": (503, b'{"Code": "ServiceUnavailable", "Message": "try again"}'),
}
_DO_IT = {"lost", "flip", "cut", "short"}  # no response, but the service executed the request
_OF_BODIES = {"cut", "short", "flip", "stalled"}


class World:
    """One history: ``story`` contains a line for each event, with its time."""

    def __init__(self, plan: Plan, client: Callable[[World], Any]) -> None:
        self.plan, self._client = plan, client
        self.chance = Random(plan.seed).random
        self.time = 0.0
        self.service = Tables(self.now)
        self.actors: list[Actor] = []
        self.crashing: set[str] = set()
        self.story: list[str] = []
        self.rows: list[int] = []  # rows that a reader received
        self.injected: list[str] = []  # kinds of the faults that occurred
        self.present: Actor | None = None
        self.is_stuck = False
        self.refreshes: list[tuple[float, bool]] = []  # time of each refresh, and its success
        self.returns: list[float] = []  # when the consumer requested more rows
        self._hub = greenlet.getcurrent()
        self._heap: list[tuple[float, int, Any, int]] = []
        self._order = itertools.count()
        self._tickets: dict[Actor, int] = {}
        self._exchanges = self._waits = 0

    # -- methods for actors -------------------------------------------------------------------

    def client(self) -> Any:
        """Return a client of this world's service."""
        return self._client(self)

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return self.time

    def add(self, name: str, function: Callable[[], Any], *, may_crash: bool = False) -> Actor:
        """Add an actor that takes part from now on."""
        actor = Actor(name)

        def run() -> None:
            try:
                function()
            except BaseException as error:  # noqa: BLE001  judged at the end
                actor.error = error

        actor.run = greenlet.greenlet(run, parent=self._hub)
        self.actors.append(actor)
        if may_crash:
            self.crashing.add(name)
        self.wake(actor, self.delay())
        return actor

    def wake(self, actor: Actor, seconds: float) -> None:
        """Schedule an actor after a number of seconds, or earlier if it is woken."""
        at = (self.time + seconds, next(self._order), actor, self._tickets.get(actor, 0))
        heapq.heappush(self._heap, at)

    def sleep(self, seconds: float) -> None:
        """Wait a number of seconds."""
        actor = self.me()
        self.wake(actor, seconds)
        self.stop()

    def stop(self) -> None:
        """Wait until another actor wakes the current one."""
        self._hub.switch()

    def me(self) -> Actor:
        """Return the running actor; crashed actors do nothing, not even clean up."""
        assert self.present is not None
        if self.present.died:
            raise Crash
        return self.present

    def wait(self, until: Callable[[], Any]) -> None:
        """Continue when the condition is true."""
        while not until():
            self.sleep(POLL)

    def delay(self) -> float:
        """Return the duration of the next wait."""
        self._waits += 1
        return self.plan.delay(self._waits)

    def step(self, function: Callable[[], Any]) -> Any:
        """Execute a local step; the machine may crash before it."""
        fault = self._next_fault()
        self.sleep(self.delay())
        if fault is not None and fault.kind == "dies" and self.me().name in self.crashing:
            self._die(shown(function))
        self.tell(shown(function))
        return function()

    def exchange(self, request: Any, timeout: float = READ_TIMEOUT) -> Any:
        """Send a request: return its response, its rejection, or the effect of a fault."""
        self.me()
        fault, says = self._next_fault(), shown(request)
        if isinstance(request, ReadRows):
            says += f" {request.split}"
        self.sleep(self.delay())
        name = self.me().name
        if fault is not None and (fault.kind != "dies" or name in self.crashing):
            self.injected.append(fault.kind)
        else:
            fault = None
        asked, had = self.time, False
        try:
            if fault is None:
                answer = self._answer(request, says)
            else:
                answer = self._fail(request, fault, says, timeout)
            had = True
            return answer
        finally:
            if isinstance(request, GetReadSession) and request.refresh:
                self.refreshes.append((asked, had))

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        name = self.present.name if self.present else "world"
        self.story.append(f"{self.time:9.3f} {name}: {line}")

    # -- faults -----------------------------------------------------------------------------

    def _next_fault(self) -> Fault | None:
        self._exchanges += 1
        return self.plan.faults.get(self._exchanges - 1)

    def _answer(self, request: Any, says: str, damage: Fault | None = None) -> Any:
        try:
            answer = self.service.answer(request)
        except OdpsNbError as error:
            self.tell(f"{says}: {error.code}")
            raise
        self.tell(says)
        if isinstance(request, ReadRows):
            return Body(self, answer, damage)
        return answer

    def _fail(self, request: Any, fault: Fault, says: str, timeout: float) -> Any:
        kind, early = fault.kind, fault.place < 0.5
        if kind in _OF_BODIES and isinstance(request, ReadRows):
            return self._answer(request, f"{says} [{kind} at {fault.place:.0%}]", fault)
        if kind == "expired":
            call = getattr(request, "call", request)
            call = getattr(call, "request", call)  # the request inside one of version 1
            ids = (getattr(call, name, None) for name in ("session_id", "upload_id"))
            self.service.forget(next(filter(None, ids), ""))
            return self._answer(request, f"{says} [expired]")
        if kind in {"late", "twice"}:
            self._later(request, says, fault.place * 300.0)
        if kind == "twice":
            return self._answer(request, says)
        if kind in _DO_IT or (kind in {"stalled", "500", "dies"} and early):
            self._answer(request, f"{says} [done, {kind}]")
        else:
            self.tell(f"{says} [not done, {kind}]")
        if kind == "dies":
            self._die(shown(request))
        if kind == "stalled":
            self.sleep(timeout)
        raise _error(kind)

    def _die(self, says: str) -> None:
        self.tell(f"dies at {says}")
        self.me().died = True
        raise Crash

    def _later(self, request: Any, says: str, seconds: float) -> None:
        def arrive() -> None:
            self.present = None
            try:
                self.service.answer(request)
                self.tell(f"late, without a hearer: {says}")
            except OdpsNbError as error:
                self.tell(f"late, refused ({error.code}): {says}")

        heapq.heappush(self._heap, (self.time + seconds, next(self._order), arrive, 0))

    # -- the run ----------------------------------------------------------------------------

    def play(self) -> None:
        """Run until no events are left."""
        with _threads_of(self):
            for _ in range(MOST_EVENTS):
                if not self._heap:
                    break
                time, _, who, ticket = heapq.heappop(self._heap)
                if isinstance(who, Actor):
                    if who.run.dead or ticket != self._tickets.get(who, 0):
                        continue
                    self._tickets[who] = ticket + 1
                    self.time, self.present = time, who
                    who.run.switch()
                else:
                    self.time = time
                    who()
            self.is_stuck = not all(actor.run.dead for actor in self.actors)


def _error(kind: str) -> OdpsNbError:
    """Return the client's error or response for a fault."""
    if kind in _STATUS:
        status, body = _STATUS[kind]
        return decode_error(status, {}, body)
    if kind == "stalled":
        return RequestTimeoutError("the peer sends nothing", request_sent=True)
    if kind == "refused":
        return ConnectError("refused", request_sent=False)
    if kind == "flip":
        return FramingError("the answer is not JSON")
    return BrokenStreamError("no answer", request_sent=True)


# -- in place of threads ------------------------------------------------------------------------


class _Condition:
    """A condition variable of the world: no other actor runs until the current one waits."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: list[Actor] = []

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def wait(self, timeout: float) -> None:
        me = self._world.me()
        self._waiting.append(me)
        self._world.sleep(POLL)

    def wait_for(self, is_so: Callable[[], bool], timeout: float) -> bool:
        self.wait(timeout)
        return is_so()

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self._world.wake(actor, self._world.delay() / 1000.0)


class _Thread:
    def __init__(self, world: World, target: Callable[[], Any], name: str, daemon: bool) -> None:
        self._world, self._target, self._name = world, target, name
        self._actor: Actor | None = None

    def start(self) -> None:
        self._actor = self._world.add(self._name.removeprefix("odps_nb-"), self._target)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.is_over

    def join(self, timeout: float) -> None:
        self._world.sleep(POLL)


@contextmanager
def _threads_of(world: World) -> Iterator[None]:
    """Make the client's modules start actors of this world instead of threads."""
    modules: tuple[Any, ...] = (fan_out, keepalive)
    real = [(one, one.threading, one.start_thread) for one in modules]
    stand_in = SimpleNamespace(
        RLock=nullcontext,  # actors run one at a time
        Condition=lambda _: _Condition(world),
        Lock=keepalive.threading.Lock,
        Thread=lambda **given: _Thread(world, **given),
    )
    for one in modules:
        one.threading, one.start_thread = stand_in, _Thread.start
    try:
        yield
    finally:
        for one, threading, start in real:
            one.threading, one.start_thread = threading, start
