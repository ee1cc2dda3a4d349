"""The events of one history: generated from one seed, and reducible.

Faults and delays are stored by number (of the exchange or wait), so a plan without some of them is
also a valid plan. This is how a failing plan is shrunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

__all__ = ["KINDS", "LONGEST_DELAY", "Fault", "Plan", "shrunk"]

#: Possible faults of an exchange. If it transfers no rows, ``cut`` and ``short`` lose the response.
KINDS = (
    "refused",  # no connection
    "reset",  # connection lost before the service executed the request
    "lost",  # connection lost after the service executed the request
    "late",  # no response, and the request arrives later
    "twice",  # the request arrives again, later
    "stalled",  # silence until the time-out; the service may have executed the request
    "cut",  # connection lost within the body
    "short",  # a proxy ends the body early, and declares it complete
    "flip",  # one byte of the response is changed
    "429",
    "500",  # the service may have executed the request
    "503",
    "expired",  # the service forgets the session
    "dies",  # the process crashes, if the scenario restarts it
)
_WRITES = ("one writer", "attempts of a task", "nothing counted", "micro-batch", "two drivers")
_OTHERS = (
    *("tunnel", "slow tunnel", "version 1", "slow version 1", "staging", "slow staging"),
    *("staged attempts", "nothing staged", "staged micro-batch", "slow micro-batch"),
    *("late micro-batch", "two staged drivers"),
)
_SCENARIOS = (*("read",) * 10, *_WRITES, *_OTHERS)
LONGEST_DELAY = 15.0
_NUMBERS = 24  # exchanges that may have a fault, and waits that may be longer


@dataclass(frozen=True)
class Fault:
    """``place``, from 0 to 1: the position of a break, the delay, or whether the request ran."""

    kind: str
    place: float


@dataclass(frozen=True)
class Plan:
    """A scenario, its options, its faults and delays; by default, a step takes a millisecond."""

    seed: int
    scenario: str
    splits: int
    workers: int
    is_ordered: bool
    is_narrow: bool  # only one batch at a time may wait for the consumer
    limit: int | None
    tries: int  # attempts of a call
    pause: float  # minimum seconds per batch for the consumer
    faults: dict[int, Fault]
    delays: dict[int, float]

    @classmethod
    def of(cls, seed: int, scenario: str = "") -> Plan:
        """Draw a plan of a scenario, by default of any; a seed always gives the same plan."""
        rng = Random(seed)
        chance = rng.random
        drawn = _SCENARIOS[int(chance() * len(_SCENARIOS))]
        scenario = scenario or drawn
        first, apart = int(chance() * 12), int(chance() * 3)  # 0: at any exchange; 1: an outage
        faults = {
            first + each if apart == 1 else int(chance() * _NUMBERS): _fault(chance)
            for each in range(int(chance() * 6))
        }
        if scenario.endswith("micro-batch") and chance() < 0.5:
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
    """Remove faults and delays (delta debugging) until each remaining one is needed."""
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
