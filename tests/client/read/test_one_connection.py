"""A service on this machine is read over one connection, all others over several."""

from __future__ import annotations

from typing import Any

import pytest

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import HERE_SECONDS
from odps_nb.client.read.resume import rows_of
from odps_nb.client.read.splits import iter_batches
from tests.support.sockets.read_sessions import ROWS, SESSION, cut_rows, serve_rows
from tests.support.sockets.scripted import Service, ids


def test_each_split_takes_one_request_and_the_requests_are_in_order() -> None:
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        storage.quickest = 0.0
        assert ids(iter_batches(storage, SESSION)) == list(range(ROWS))
        assert [str(one.split) for one in service.calls["ReadRows"]] == [
            str(split) for split in SESSION.splits
        ]


def test_broken_splits_resume_at_the_exact_row() -> None:
    with Service(ReadRows=[cut_rows(0.6), cut_rows(0.9), serve_rows]) as service:
        service.storage.quickest = 0.0
        assert ids(iter_batches(service.storage, SESSION)) == list(range(ROWS))


@pytest.mark.parametrize("faults", [[], [cut_rows(0.3), cut_rows(0.9)]])
def test_adjacent_ranges_can_be_read_by_one_request(faults: list[Any]) -> None:
    with Service(ReadRows=[*faults, serve_rows]) as service, service.client() as storage:
        storage.quickest = 0.0
        with ProgressTracker("read", "t") as tracker:
            for split in SESSION.splits:
                tracker.plan_split(str(split), rows=rows_of(split))
            assert ids(iter_batches(storage, SESSION, join=True, tracker=tracker)) == [*range(ROWS)]
        assert len(service.calls["ReadRows"]) == 1 + len(faults)
        (split,) = tracker.snapshot().splits
        assert (split.rows, split.rows_total, split.done) == (ROWS, ROWS, True)


def test_ranges_of_a_remote_service_are_read_by_separate_requests() -> None:
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        storage.quickest = HERE_SECONDS
        assert sorted(ids(iter_batches(storage, SESSION, join=True))) == [*range(ROWS)]
        assert len(service.calls["ReadRows"]) >= len(SESSION.splits)


@pytest.mark.parametrize(("seconds", "here"), [(0.0, True), (HERE_SECONDS, False)])
def test_a_slow_service_on_loopback_is_not_local(seconds: float, here: bool) -> None:
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        storage.quickest = seconds
        assert storage.is_here is here
