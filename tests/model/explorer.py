"""Runs our own client code in all orders of events: scheduling, lost responses, crashes.

Actors are greenlets. Each actor stops when it sends a request; the explorer then chooses the
outcome: a response, no response (and the request may arrive later, or never), or the actor crashes.
A run is a list of choices. The next run repeats them up to the last choice that has an untried
alternative, so all of them are explored (stateless depth-first search).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import greenlet

from odps_nb.errors import BrokenStreamError, OdpsNbError
from tests.model.service import Service

_SHOWN = ("session_id", "stream_id", "stream_version", "row_offset", "streams")
_SHOWN += ("upload_id", "block", "block_number", "attempt_number", "messages", "instance_id")
_STREAMS = re.compile(r"in \(.*?\)")

__all__ = ["Bounds", "Choices", "Crash", "History", "explore"]


class Crash(BaseException):
    """The process of an actor has crashed; it executes nothing more."""


@dataclass(frozen=True)
class Bounds:
    """The maximum number of faults in one run."""

    lost: int = 1  # requests without a response
    crashes: int = 0
    switches: int = 2  # switches to another actor although the current one could run


class Choices:
    """The choices of one run: those of ``prefix``, then always the first alternative."""

    def __init__(self, prefix: list[int]) -> None:
        self._prefix = prefix
        self.taken: list[tuple[int, int]] = []

    def choose(self, count: int) -> int:
        if count == 1:
            return 0
        place = len(self.taken)
        chosen = self._prefix[place] if place < len(self._prefix) else 0
        self.taken.append((chosen, count))
        return chosen

    def next_prefix(self) -> list[int] | None:
        """Return the prefix of the next run; ``None`` if all were explored."""
        taken = list(self.taken)
        while taken:
            chosen, count = taken.pop()
            if chosen + 1 < count:
                return [*(one for one, _ in taken), chosen + 1]
        return None


@dataclass
class Sent:
    """The event that an actor waits for: a response, a ``step``, or a condition (``until``)."""

    request: Any = None
    step: Callable[[], Any] | None = None
    until: Callable[[], Any] | None = None


@dataclass(eq=False)
class Actor:
    """An actor that runs our code; ``error`` is the error with which it ended, if any."""

    name: str
    run: Any = None  # a greenlet
    waits: Sent | None = None
    error: BaseException | None = None
    died: bool = False

    @property
    def is_over(self) -> bool:
        return self.died or bool(self.run.dead)

    @property
    def is_ready(self) -> bool:
        if self.is_over:
            return False
        return self.waits is None or self.waits.until is None or bool(self.waits.until())


@dataclass
class History:
    """One run: the service, the actors, and a line for each event."""

    choices: Choices
    bounds: Bounds
    service: Service = field(default_factory=Service)
    actors: list[Actor] = field(default_factory=list)
    late: list[Any] = field(default_factory=list)  # requests that may still arrive
    story: list[str] = field(default_factory=list)
    lost: int = 0
    crashes: int = 0
    switches: int = 0
    present: Actor | None = None
    crashing: set[str] = field(default_factory=set)  # actors that may crash
    _scheduler: Any = field(default_factory=greenlet.getcurrent)

    def add(self, name: str, function: Callable[[], Any], *, may_crash: bool = False) -> Actor:
        """Add an actor to the running history."""

        def run() -> None:
            try:
                function()
            except (OdpsNbError, Crash) as error:
                actor.error = error

        actor = Actor(name)
        actor.run = greenlet.greenlet(run, parent=self._scheduler)
        self.actors.append(actor)
        if may_crash:
            self.crashing.add(name)
        return actor

    # -- methods for actors -----------------------------------------------------------------------

    def client(self) -> Any:
        """Return a client of this history's service."""
        from tests.model.client import ModelStorage

        return ModelStorage(self)

    def exchange(self, request: Any) -> Any:
        """Send a request: return its response, or raise its rejection or a `BrokenStreamError`."""
        return self._stop(Sent(request=request))

    def step(self, function: Callable[[], Any]) -> Any:
        """Execute a local step; the machine may crash before it."""
        return self._stop(Sent(step=function))

    def wait(self, until: Callable[[], Any]) -> None:
        """Continue when the condition is true."""
        self._stop(Sent(until=until))

    def _stop(self, sent: Sent) -> Any:
        if self.present is not None and self.present.died:
            raise Crash  # a crashed actor does not clean up
        return self._scheduler.switch(sent)

    # -- the run --------------------------------------------------------------------------------

    def play(self) -> None:
        """Run until every actor has ended and no late request is needed."""
        while True:
            ready = self._ready()
            assert ready or all(one.is_over for one in self.actors), (
                "all actors wait for each other"
            )
            options = [*ready, *self.late] if ready else [None, *self.late]
            chosen = options[self.choices.choose(len(options))]
            if chosen is None:  # all late requests have arrived
                return
            if isinstance(chosen, Actor):
                self._advance(chosen)
            else:
                self._arrive(chosen)

    def _ready(self) -> list[Actor]:
        """Return the actors that can run, the current one first."""
        ready = [actor for actor in self.actors if actor.is_ready]
        if self.present not in ready:
            return ready
        if self.switches == self.bounds.switches:
            return [self.present]
        return [self.present, *(actor for actor in ready if actor is not self.present)]

    def _arrive(self, request: Any) -> None:
        self.late.remove(request)
        try:
            self.service.answer(request)
            self.story.append(f"late, without a hearer: {shown(request)}")
        except OdpsNbError as error:
            self.story.append(f"late, refused ({error.code}): {shown(request)}")

    def _advance(self, actor: Actor) -> None:
        if self.present is not None and self.present is not actor and self.present.is_ready:
            self.switches += 1
        self.present = actor
        sent = actor.waits
        if sent is None or sent.until is not None:
            actor.waits = actor.run.switch()
            return
        outcomes = ["answered"]
        if sent.request is not None and self.lost < self.bounds.lost:
            outcomes.append("lost")
        if actor.name in self.crashing and self.crashes < self.bounds.crashes:
            outcomes.append("dies")
        outcome = outcomes[self.choices.choose(len(outcomes))]
        if outcome == "answered":
            actor.waits = self._answered(actor, sent)
            return
        if sent.request is not None:
            self.late.append(sent.request)
        if outcome == "lost":
            self.lost += 1
            self.story.append(f"{actor.name}: {shown(sent.request)}: no answer")
            actor.waits = actor.run.throw(BrokenStreamError("no answer", request_sent=True))
        else:
            self.crashes += 1
            self.story.append(f"{actor.name}: dies at {shown(sent.request or sent.step)}")
            actor.died = True
            actor.run.throw(Crash())

    def _answered(self, actor: Actor, sent: Sent) -> Any:
        if sent.step is not None:
            self.story.append(f"{actor.name}: {shown(sent.step)}")
            return actor.run.switch(sent.step())
        try:
            answer = self.service.answer(sent.request)
        except OdpsNbError as error:
            self.story.append(f"{actor.name}: {shown(sent.request)}: {error.code}")
            return actor.run.throw(error)
        self.story.append(f"{actor.name}: {shown(sent.request)}")
        return actor.run.switch(answer)


def explore(
    bounds: Bounds, prepare: Callable[[History], None], limit: int | None = None
) -> Iterator[History]:
    """Yield every history of the actors that ``prepare`` starts; ``limit`` is for tests."""
    prefix: list[int] | None = []
    for _ in itertools.count() if limit is None else range(limit):
        if prefix is None:
            return
        history = History(Choices(prefix), bounds)
        prepare(history)
        history.play()
        yield history
        prefix = history.choices.next_prefix()


def shown(thing: Any) -> str:
    """Return a request in the terms of the protocol."""
    if callable(thing):
        return getattr(thing, "says", getattr(thing, "__name__", "step"))
    call = getattr(thing, "call", thing)
    call = getattr(call, "request", call)  # the request inside one of version 1
    parts = [type(call).__name__]
    parts += [
        f"{name}={getattr(call, name)}"
        for name in _SHOWN
        if getattr(call, name, None) not in (None, ())
    ]
    if sql := getattr(call, "sql", ""):
        parts.append(" ".join([*sql.split()[:2], *_STREAMS.findall(sql)]))
    if hasattr(thing, "values"):
        parts.append(f"values={list(thing.values)}")
    return " ".join(parts)
