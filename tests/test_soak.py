"""A short soak of real processes for a few rounds, and a test that it detects growth."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.soak import work
from benchmarks.soak.__main__ import report, soak
from benchmarks.soak.judge import BOUNDS, grown, table


def test_growth_above_the_limit_is_reported() -> None:
    steady = [{"round": n, "at": n, "kernel widgets": 3, "kernel uss bytes": 1e8} for n in range(9)]
    assert grown(steady) == []
    leaking = [{**one, "kernel widgets": one["round"]} for one in steady]
    assert grown(leaking) == ["kernel widgets: 4 → 7, more than 0 of growth"]
    more = BOUNDS["kernel uss bytes"] / 3 + 1
    leaking = [{**one, "kernel uss bytes": 1e8 + more * one["round"]} for one in steady]
    assert [one.split(":")[0] for one in grown(leaking)] == ["kernel uss bytes"]
    assert "| kernel widgets | 3 | 3 | 3 | 0 |" in table(steady)


def test_growth_while_caches_fill_is_not_reported() -> None:
    risen = [{"round": n, "kernel python objects": min(n, 3) * 1e6} for n in range(9)]
    assert grown(risen) == []


def test_too_few_measurements_give_no_verdict() -> None:
    with pytest.raises(ValueError, match="divided into thirds"):
        grown([{"round": 1}, {"round": 2}])


@pytest.mark.nightly
@pytest.mark.kernel
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_twelve_soak_rounds_show_no_growth() -> None:
    done = Counter[str]()
    jobs = {**work.DONE_BY, work.spark_anew: 100}  # grows only in the first round
    taken = list(soak(minutes=0, rounds=12, done=done, jobs=jobs))
    assert done == {job.__name__: (12 + every - 1) // every for job, every in jobs.items()}
    # the memory of the service and of the JVM stabilises only after some forty rounds: `make soak`
    # checks it
    assert [one for one in report(taken, done, 0) if " uss bytes: " not in one] == []


@pytest.mark.nightly
@pytest.mark.kernel
def test_unclosed_views_are_reported_as_growth() -> None:
    def forgotten(front: work.Front, _: int) -> None:
        front.run("display(odps.table('media').blobs('content', limit=2))")

    taken = list(soak(minutes=0, rounds=6, done=Counter(), jobs={forgotten: 1}))
    assert "kernel widgets" in {one.split(":")[0] for one in grown(taken)}
