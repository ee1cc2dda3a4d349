"""Two faults in one run: one at exchange N, and another, or the same, at a later exchange M.

Only some jobs run with two faults, and only with faults that interact in a client: the second fault
breaks the recovery from the first. The possible outcomes are those of a single fault. If a job must
survive each of two faults alone, it must survive both together. `make sweep` writes the outcomes to
``docs/results/single-faults.md``.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter

import pytest

from tests.sweep.conftest import Worlds
from tests.sweep.jobs import PAIR_JOBS, Job
from tests.sweep.notes import note
from tests.sweep.outcomes import PAIRED, RIGHT, Fault, pair_name
from tests.sweep.test_single_faults import run

NOTES = os.environ.get("ODPS_NB_SWEEP")  # tests cannot see ODPS_ variables
pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("repeated_interrupts")]


@pytest.mark.parametrize("second", PAIRED, ids=lambda one: one.name)
@pytest.mark.parametrize("first", PAIRED, ids=lambda one: one.name)
@pytest.mark.parametrize("job", PAIR_JOBS, ids=lambda one: one.name)
def test_two_faults_anywhere_lose_and_repeat_no_data(
    job: Job, first: Fault, second: Fault, worlds: Worlds
) -> None:
    world = worlds(job.way)
    ends: Counter[str] = Counter()
    for number in itertools.count():
        for later in itertools.count(number + 1):
            end, proxy, where = run(job, first, number, -1, world, (second, later))
            if not proxy.injected_again:
                break
            ends[end] += 1
        if not proxy.injected:
            assert end == RIGHT, f"no fault occurred in {where}"
            break
    # if the first fault always ends the job, no later exchange can break
    assert sum(ends.values()) > 0 or not first.mended
    if NOTES:
        note(NOTES, job.name, pair_name(first, second), ends)
