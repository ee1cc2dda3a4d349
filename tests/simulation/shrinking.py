"""Finds failing seeds, and makes of one the fewest faults and delays that still fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.simulation.scenarios import SCENARIOS, History, simulate
from tests.simulation.world import Plan

__all__ = ["fewest", "first_failure", "plan_of", "shrunk", "story"]

T = TypeVar("T")


def plan_of(seed: int) -> Plan:
    """Return the plan of a seed; scenarios take turns."""
    names = list(SCENARIOS)
    return Plan.of(names[seed % len(names)], seed // len(names))


def first_failure(plans: Iterable[Plan]) -> History | None:
    return next((one for plan in plans if (one := simulate(plan)).verdict), None)


def shrunk(history: History) -> History:
    """Return a history that fails for as little as possible."""
    plan = history.plan

    def fails(candidate: Plan) -> bool:
        return bool(simulate(candidate).verdict)

    delays = fewest(plan.delays, lambda some: fails(replace(plan, delays=some)))
    plan = replace(plan, delays=delays)
    while (less := next(filter(fails, _with_one_less(plan)), None)) is not None:
        plan = less
    delays = fewest(plan.delays, lambda some: fails(replace(plan, delays=some)))
    return simulate(replace(plan, delays=delays))


def _with_one_less(plan: Plan) -> Iterator[Plan]:
    """Yield plans without one fault.

    A fault costs requests, so that those behind it meet the same exchange only if they move.
    """
    for place in range(len(plan.faults)):
        before, after = plan.faults[:place], plan.faults[place + 1 :]
        for moved in range(4):
            yield replace(plan, faults=(*before, *((n - moved, kind) for n, kind in after)))


def fewest(items: tuple[T, ...], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Leave out what is not needed to fail, halves first (delta debugging)."""
    size = len(items)
    while size:
        size = min(size, len(items))
        start = 0
        while start < len(items):
            rest = items[:start] + items[start + size :]
            if fails(rest):
                items = rest
            else:
                start += size
        size //= 2
    return items


def story(history: History) -> str:
    """Tell a history for a person."""
    plan = history.plan
    faults = ", ".join(f"{fault} at exchange {n}" for n, fault in plan.faults) or "no fault"
    head = f"{plan.scenario}, seed {plan.seed}: {history.verdict or 'nothing is wrong'}\n{faults}"
    return "\n".join([head, *history.log])
