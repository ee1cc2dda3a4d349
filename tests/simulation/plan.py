"""The events of one history: generated from one seed, and reducible.

The faults and the delays are kept by number (of the exchange, of the wait), so that a plan with
some of them taken out is a plan again: that is how a failing one is shrunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

__all__ = ["KINDS", "LONGEST_DELAY", "Fault", "Plan", "shrunk"]

#: What may happen to an exchange. Where it carries no rows, ``cut`` and ``short`` lose its answer.
KINDS = (
    "refused",  # no connection
    "reset",  # before the service did it
    "lost",  # after the service did it
    "late",  # no answer, and the request arrives later
    "twice",  # the request arrives again, later
    "stalled",  # until the timeout; the service did it, or not
    "cut",  # within the body
    "short",  # a proxy ends the body early, and says that it is whole
    "flip",  # a byte of the answer
    "429",
    "500",  # the service did it, or not
    "503",
    "expired",  # the service forgets the session
    "dies",  # the process, where there is one that is started again
)
_WRITES = ("one writer", "attempts of a task", "nothing counted", "micro-batch", "two drivers")
_SCENARIOS = (*("read",) * len(_WRITES), *_WRITES)
LONGEST_DELAY = 15.0
_NUMBERS = 24  # exchanges that may have a fault, and waits that may be longer


@dataclass(frozen=True)
class Fault:
    """``place``, from 0 to 1: how far a body comes, how late, and whether the service did it."""

    kind: str
    place: float


@dataclass(frozen=True)
class Plan:
    """A scenario, its options, and what happens when; what has no delay takes a millisecond."""

    seed: int
    scenario: str
    splits: int
    workers: int
    is_ordered: bool
    is_narrow: bool  # one batch at a time may wait for the consumer
    limit: int | None
    tries: int  # of a call
    pause: float  # seconds that the consumer takes with a batch at least
    faults: dict[int, Fault]
    delays: dict[int, float]

    @classmethod
    def of(cls, seed: int, scenario: str = "") -> Plan:
        """Draw a plan; the same one for the same seed, everywhere. Any scenario, or this one."""
        rng = Random(seed)
        chance = rng.random
        drawn = _SCENARIOS[int(chance() * len(_SCENARIOS))]
        scenario = scenario or drawn
        first, apart = int(chance() * 12), int(chance() * 3)  # 0: wherever; 1: an outage
        faults = {
            first + each if apart == 1 else int(chance() * _NUMBERS): _fault(chance)
            for each in range(int(chance() * 6))
        }
        if scenario == "micro-batch" and chance() < 0.5:
            faults[int(chance() * 10)] = Fault("dies", chance())
        return cls(
            seed=seed,
            scenario=scenario,
            splits=1 + int(chance() * 4),
            workers=1 + int(chance() * 4),
            is_ordered=chance() < 0.6,
            is_narrow=chance() < 0.4,
            limit=1 + int(chance() * 12) if chance() < 0.15 else None,
            tries=7 if chance() < 0.5 else 2,
            pause=round(chance() * 45, 3) if chance() < 0.2 else 0.0,
            faults=dict(sorted(faults.items())),
            delays={number: round(chance() ** 4 * LONGEST_DELAY, 3) for number in range(_NUMBERS)},
        )

    def delay(self, number: int) -> float:
        """Seconds of a wait."""
        return self.delays.get(number % _NUMBERS, 0.001)


def _fault(chance: Callable[[], float]) -> Fault:
    return Fault(KINDS[int(chance() * len(KINDS))], chance())


def shrunk(plan: Plan, is_wrong: Callable[[Plan], bool]) -> Plan:
    """Take out faults and delays (delta debugging) until each that is left is needed."""
    items: list[tuple[str, int]] = [("faults", n) for n in plan.faults]
    items += [("delays", n) for n in plan.delays]
    size = max(1, len(items) // 2)
    while items:
        for start in range(0, len(items), size):
            fewer = items[:start] + items[start + size :]
            if is_wrong(_only(plan, fewer)):
                items = fewer
                break
        else:
            if size == 1:
                break
            size //= 2
    return _only(plan, items)


def _only(plan: Plan, items: list[tuple[str, int]]) -> Plan:
    return replace(
        plan,
        faults={n: fault for n, fault in plan.faults.items() if ("faults", n) in items},
        delays={n: delay for n, delay in plan.delays.items() if ("delays", n) in items},
    )
