"""Each job with each fault at its first exchange, its second, … until there are none left.

Possible outcomes: the correct result; a typed error, and nothing is changed; or a typed error that
says that the commit may have succeeded, and then all or nothing is changed. ``make sweep`` writes
the outcomes to ``docs/results/single-faults.md``.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import OdpsNbError
from tests.sweep.jobs import JOBS, Job, World
from tests.sweep.notes import note
from tests.sweep.outcomes import ENDED, FAULTS, REFUSED, RIGHT, UNKNOWN, Fault
from tests.sweep.profiles import troubled
from tests.sweep.proxy import BreaksOne
from tests.sweep.surroundings import Surroundings

NOTES = os.environ.get("ODPS_NB_SWEEP")  # tests cannot see ODPS_ variables
#: An interrupt may arrive between the creation of a socket's file and the `try` of http.client; the
#: garbage collector closes it then.
_LEFT = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
#: The runs in `make test`; the others are nightly.
IN_GATE = {
    ("append", "reset after"),
    ("read in parallel", "cut"),
    ("upsert", "500 after"),
    ("insert by SQL", "reset after"),
}


def cases() -> Iterator[Any]:
    for job, fault in itertools.product(JOBS, FAULTS):
        if fault.files_only and not job.files:
            continue
        marks = [] if (job.name, fault.name) in IN_GATE else [pytest.mark.nightly]
        marks += [_LEFT] if fault.interrupts else []
        yield pytest.param(job, fault, id=f"{job.name}-{fault.name}", marks=marks)


@pytest.mark.gate(2)
@pytest.mark.usefixtures("repeated_interrupts")
@pytest.mark.parametrize(("job", "fault"), list(cases()))
def test_one_fault_anywhere_loses_nothing_and_doubles_nothing(
    job: Job, fault: Fault, world: World
) -> None:
    ends: Counter[str] = Counter()
    for number in itertools.count():
        for place in itertools.count():
            end, proxy, where = run(job, fault, number, place, world)
            if proxy.struck:
                ends[end] += 1
            if place + 1 >= proxy.places:
                break
        if not proxy.struck:
            assert end == RIGHT, f"nobody troubled {where}"
            break
    assert sum(ends.values()) > 0
    if NOTES:
        note(NOTES, job.name, fault.name, ends)


def run(
    job: Job, fault: Fault, number: int, place: int, world: World
) -> tuple[str, BreaksOne, str]:
    """Run a job once with one broken exchange; return its outcome, and the proxy."""
    at, error, result = job.make(world), None, None
    with Surroundings(fault.silence) as around:
        target = world.steady.profile.tunnel_endpoint
        with BreaksOne(target, fault.name, number, place, around) as proxy:
            with Connection(troubled(world.steady.profile, proxy.url)) as odps:
                try:
                    result = job.run(odps, world, at)
                except OdpsNbError as caught:
                    error = caught
                except OSError as caught:  # for a user's file, as Python raises it
                    assert fault.files_only
                    error = caught
                except KeyboardInterrupt as caught:
                    assert fault.interrupts
                    error = caught
            around.mend()
    where = f"{job.name}, {fault.name} at {number} ({proxy.broken}), place {place}: {error!r}"
    may_fail = fault.may_fail(document=proxy.document)
    return judged(job, fault, world, at, error, result, where, may_fail), proxy, where


def judged(
    job: Job,
    fault: Fault,
    world: World,
    at: Any,
    error: BaseException | None,
    result: Any,
    where: str,
    may_fail: bool,
) -> str:
    if job.reads:
        assert error is not None or result == job.result, where
    else:
        there = job.look(world, at)
        if error is None:
            assert there == job.changed, where
        elif there != job.unchanged:
            assert there in (job.changed, job.left), where
            said = fault.interrupts or error.in_doubt or (there == job.left and left_is_said(error))
            assert said, f"{where} does not say that it may be there"
            return ENDED if fault.interrupts else UNKNOWN
    if error is None:
        return RIGHT
    assert may_fail, f"{where}: this should have been mended"
    return ENDED if fault.interrupts else REFUSED


def left_is_said(error: OdpsNbError) -> bool:
    return any("the new table" in note for note in error.notes)
