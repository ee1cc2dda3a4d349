"""Runs each job with each fault at its first, second, … and last exchange.

Possible outcomes: the correct result; a typed error, and nothing is changed; or a typed error that
says that the commit may have succeeded, and then all or nothing is changed. ``make sweep`` writes
the outcomes to ``docs/results/single-faults.md``.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import OdpsNbError
from tests.sweep.conftest import Worlds
from tests.sweep.jobs import JOBS, Job, World
from tests.sweep.notes import note
from tests.sweep.outcomes import ENDED, FAULTS, REFUSED, RIGHT, UNKNOWN, Fault
from tests.sweep.profiles import with_faults
from tests.sweep.proxy import BreaksOne
from tests.sweep.surroundings import Surroundings

NOTES = os.environ.get("ODPS_NB_SWEEP")  # tests cannot see ODPS_ variables
#: An interrupt may arrive between the creation of a socket's file and the `try` of http.client, or
#: between the `open` of a partial file (which is deleted) and its `with`; the garbage collector
#: closes it then.
_LEFT = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning",
    r"ignore:unclosed file .*\.odps-nb-:ResourceWarning",
)
#: The runs in `make test`; the others are nightly.
IN_GATE = {
    ("append", "reset after"),
    ("read in parallel", "cut"),
    ("upsert", "500 after"),
    ("insert by SQL", "reset after"),
    ("read many batches by the tunnel", "flipped"),
    ("append by the tunnel", "reset after"),
    ("dynamic partitions by the tunnel", "500 after"),
}


def cases() -> Iterator[Any]:
    for job, fault in itertools.product(JOBS, FAULTS):
        if fault.files_only and not job.files:
            continue
        marks = [] if (job.name, fault.name) in IN_GATE else [pytest.mark.nightly]
        marks += [_LEFT] if fault.interrupts else []
        yield pytest.param(job, fault, id=f"{job.name}-{fault.name}", marks=marks)


@pytest.mark.gate(4)
@pytest.mark.usefixtures("repeated_interrupts")
@pytest.mark.parametrize(("job", "fault"), list(cases()))
def test_one_fault_anywhere_loses_and_repeats_no_data(
    job: Job, fault: Fault, worlds: Worlds
) -> None:
    world = worlds(job.way)
    ends: Counter[str] = Counter()
    for number in itertools.count():
        for place in itertools.count():
            end, proxy, where = run(job, fault, number, place, world)
            if proxy.injected:
                ends[end] += 1
            if place + 1 >= proxy.places:
                break
        if not proxy.injected:
            assert end == RIGHT, f"no fault occurred in {where}"
            break
    assert sum(ends.values()) > 0
    if NOTES:
        note(NOTES, job.name, fault.name, ends)


def run(
    job: Job,
    fault: Fault,
    number: int,
    place: int,
    world: World,
    then: tuple[Fault, int] | None = None,
) -> tuple[str, BreaksOne, str]:
    """Run a job once with one broken exchange, or two; return its outcome, and the proxy."""
    at, error, result = job.make(world), None, None
    injected = [(fault, number), *([then] if then else [])]
    silence = next((one.silence for one, _ in injected if one.silence), None)
    options = world.steady.profile.client_options
    with Surroundings(silence, options) as around, logged() as log:
        target = world.steady.profile.tunnel_endpoint
        again = then and (then[0].name, then[1])
        with BreaksOne(target, fault.name, number, place, around, then=again) as proxy:
            with Connection(with_faults(world.steady.profile, proxy.url)) as odps:
                try:
                    result = job.run(odps, world, at)
                except OdpsNbError as caught:
                    error = caught
                except OSError as caught:  # Python's own error for a user's file
                    assert fault.files_only
                    error = caught
                except KeyboardInterrupt as caught:
                    assert fault.interrupts
                    error = caught
            around.mend()
    broken = [(proxy.broken, proxy.injected), (proxy.broken_again, proxy.injected_again)]
    faults = list(zip(injected, broken, strict=False))
    named = [f"{one.name} at {number} ({request})" for (one, number), (request, _) in faults]
    where = f"{job.name}, {', '.join(named)}, place {place}: {error!r}"
    may_fail = any(
        one.may_fail(document=proxy.document) for (one, _), (_, occurred) in faults if occurred
    )
    end = judged(job, fault, world, at, error, result, where, may_fail)
    check_staging(job, fault, world, error, log, where)
    return end, proxy, where


@contextmanager
def logged() -> Iterator[list[str]]:
    """Collect the warnings that the client logs."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("odps_nb")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def check_staging(
    job: Job,
    fault: Fault,
    world: World,
    error: BaseException | None,
    log: list[str],
    where: str,
) -> None:
    """Check that no staging table is left unless the client reported it or was interrupted."""
    left = world.clear_staging()
    notes = getattr(error, "notes", ())
    said = any("could not be" in line for line in log) or any("remains for" in it for it in notes)
    elsewhere = job.shared and error is not None
    assert not left or said or fault.interrupts or elsewhere, f"{where} leaves {left}"


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
            notes = getattr(error, "notes", ())
            denied = any("none of its rows" in note for note in notes)
            assert there != job.changed or not denied, f"{where}: {notes}"
            assert there in (job.changed, job.left), where
            left = there == job.left and any("the new table" in note for note in notes)
            said = fault.interrupts or error.in_doubt or left
            assert said, f"{where} does not say that the data may be stored"
            return ENDED if fault.interrupts else UNKNOWN
    if error is None:
        return RIGHT
    assert may_fail, f"{where}: the client should have recovered"
    return ENDED if fault.interrupts else REFUSED
