"""The actors in a simulated history, and the conditions that must hold at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odps_nb.client.calls.attempts import Clock
from odps_nb.client.read.keepalive import ASK_AGAIN_AFTER
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.read.splits import iter_batches
from odps_nb.client.reading import open_read_session
from odps_nb.errors import OdpsNbError, SessionExpiredError, StateError
from odps_nb.http.retry import RetryPolicy
from tests.model import scenarios as model
from tests.model.client import PROFILE, TABLE, Statements, Upload
from tests.model.explorer import Crash
from tests.simulation.plan import LONGEST_DELAY, Plan
from tests.simulation.service import EXPIRY, READ_TIMEOUT, ROWS
from tests.simulation.world import World

__all__ = ["Storage", "run_plan", "story", "verdict"]

#: Transient faults, which must have no effect if there are fewer of them than attempts.
_PASS_BY = {
    "read": {"refused", "reset", "lost", "late", "twice", "stalled", "cut", "short", "429", "500"}
    | {"503"},
    "one writer": {"refused", "reset", "429", "503"},
}
_WRITES: dict[str, tuple[Callable[[Any], None], Callable[[Any], str]]] = {
    # several faults may also end the last restart with an error
    name: (one.prepare, model.once if one.verdict is model.recovers else one.verdict)
    for name, one in model.SCENARIOS.items()
}


class _NoTransport:
    """Sends nothing: calls are passed to the world's service."""

    def close(self) -> None:
        """Do nothing."""


class Storage(Statements):
    """`StorageClient` with its own retries, with the clock and sleep of a world, without HTTP."""

    def __init__(self, world: World) -> None:
        super().__init__(
            PROFILE,
            transport=_NoTransport(),  # type: ignore[arg-type]
            retry=RetryPolicy(max_attempts=world.plan.tries),
            clock=world.now,
        )
        self._clock = Clock(monotonic=world.now, sleep=world.sleep, chance=world.chance)
        self.history = self._world = world

    def call(self, request: Any, *, retry: RetryPolicy | None = None, **given: Any) -> Any:
        timeout = given.pop("read_timeout", None) or READ_TIMEOUT
        patient = given.pop("patient", False)
        attempts = self.attempts(type(request).__name__, **given)
        attempts.policy, attempts.patient = retry or attempts.policy, patient
        while True:
            try:
                return self._world.exchange(request, timeout)
            except OdpsNbError as error:
                attempts.again(error, idempotent=request.idempotent)

    def open(self, request: Any, **_: Any) -> Any:
        return self._world.exchange(request)

    def upload(self, request: Any, **_: Any) -> Any:
        return _Uploading(self._world, request)


class _Uploading(Upload):
    def __enter__(self) -> _Uploading:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def run_plan(plan: Plan) -> World:
    """Run the history of a plan."""
    world = World(plan, Storage)
    if plan.scenario == "read":
        world.add("reader", lambda: _read(world))
    else:
        _WRITES[plan.scenario][0](world)
    world.play()
    return world


def _read(world: World) -> None:
    """Read as `Scan.batches` does; the consumer pauses after each batch."""
    plan, storage = world.plan, world.client()
    session = open_read_session(
        storage, ReadPlan(table=TABLE, splits=plan.splits, limit=plan.limit, max_batch_rows=2)
    )
    batches = iter_batches(
        storage,
        session,
        workers=plan.workers,
        ordered=plan.is_ordered,
        read_ahead=32 if plan.is_narrow else None,
    )
    for batch in batches:
        found = batch.column(0).to_pylist()
        world.tell(f"has {found}")
        world.rows += found
        world.sleep(plan.pause + world.delay())  # at most a minute, which `SessionKeeper` tolerates
        world.returns.append(world.now())


# -- conditions that must hold ------------------------------------------------------------------


def verdict(world: World) -> str:
    """Return a description of a wrong result at the end of a history; empty if it is right."""
    if world.is_stuck:
        return "the history never ends"
    for actor in world.actors:
        if not isinstance(actor.error, (OdpsNbError, StateError, Crash, type(None))):
            return f"{actor.name} ends with {actor.error!r}, which is not an error of odps_nb"
    plan = world.plan
    wrong = _wrong_rows(world) if plan.scenario == "read" else _WRITES[plan.scenario][1](world)
    if wrong:
        return wrong
    error, passing = world.actors[0].error, _PASS_BY.get(plan.scenario)
    if isinstance(error, SessionExpiredError) and _could_not_refresh(world):
        return ""
    few = len(world.injected) < min(plan.tries, 4)
    if error and few and passing and passing.issuperset(world.injected):
        return f"transient faults end the history: {error!r}"
    return ""


def _could_not_refresh(world: World) -> bool:
    """Whether a refresh failed and the consumer returned too late for another attempt.

    A single worker tries again when the consumer returns, after ten seconds at the earliest, and a
    request may take some time.
    """
    last = max((at for at, had in world.refreshes if had), default=0.0)
    failed = [at for at, had in world.refreshes if not had and at > last]
    again, expired = min(failed, default=0.0) + ASK_AGAIN_AFTER, last + EXPIRY
    return bool(failed) and not any(again < at < expired - LONGEST_DELAY for at in world.returns)


def _wrong_rows(world: World) -> str:
    plan, found, error = world.plan, world.rows, world.actors[0].error
    count = ROWS if plan.limit is None else min(ROWS, plan.limit)
    if error is None and len(found) != count:
        return f"{len(found)} rows of {count}, but no error"
    if "flip" in world.injected:
        return ""  # rows have no checksum, so a changed byte of a value looks like a value
    if len(set(found)) < len(found) or not set(found) <= set(range(ROWS)):
        return f"repeated or invalid rows: {found}"
    if plan.is_ordered and found != list(range(len(found))):
        return f"rows out of order: {found}"
    return ""


def story(world: World) -> str:
    """Describe a history in words."""
    plan = world.plan
    said = verdict(world) or "nothing is wrong"
    options = f"seed {plan.seed}, {plan.scenario}"
    if plan.scenario == "read":
        options += f", {plan.splits} splits, {plan.workers} workers"
        options += ", ordered" if plan.is_ordered else ", as they come"
    lines = world.story
    if len(lines) > 40:
        lines = [*lines[:20], f"({len(lines) - 30} more)", *lines[-10:]]
    return "\n  ".join([f"{options}: {said}", *lines])
