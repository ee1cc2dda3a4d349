"""A throttling service gets fewer connections, and all rows still arrive in order."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.parallel.fan_out import (
    DEFAULT_WORKERS,
    ITEMS_PER_STEP,
    AdaptiveConcurrency,
    fan_out,
)
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.sizes import READ_WORKERS
from odps_nb.client.read.splits import iter_batches
from odps_nb.errors import CancelledError, ThrottledError
from odps_nb.http.retry import RetryPolicy
from tests.support.clocks import Clock
from tests.support.sockets.scripted import (
    SCHEMA,
    TABLE,
    Service,
    asked_split,
    fail,
    hang_up,
    ids,
    ipc,
    numbers,
)

SPLITS, BATCHES, WORKERS = 12, 60, 6
ROWS = SPLITS * BATCHES
SESSION = ReadSession(
    table=TABLE, session_id="s", schema=SCHEMA, splits=plan_ranges(ROWS, SPLITS), row_count=ROWS
)


class TwoAtATime:
    """A step that serves two splits at a time, batch by batch, and rejects any others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.serving = self.most = self.refused = self.admitted = 0

    def __call__(self, line, seen) -> None:
        with self._lock:
            split = asked_split(seen)
            admitted = self.serving < 2
            self.serving += admitted
            self.admitted += admitted
            self.refused += not admitted
            self.most = max(self.most, self.serving)
        if not admitted:
            fail(429, "SlotExceeded")(line, seen)
            return
        try:
            body = ipc(numbers(split.offset, split.offset + split.count), rows=1)
            line.send(line.headline(**{"Content-Length": str(len(body))}))
            step = len(body) // BATCHES
            for at in range(0, len(body), step):
                line.send(body[at : at + step])
                time.sleep(0.002)
        finally:
            with self._lock:
                self.serving -= 1


@pytest.mark.parametrize("ordered", [True, False])
def test_throttled_splits_wait_while_other_splits_receive_rows(ordered):
    narrow, tracker = TwoAtATime(), ProgressTracker("read", "t")

    def sleep(seconds: float) -> None:
        """Wait for more batches than workers, so that the consumer has received one of them."""
        enough, until = tracker.snapshot().rows + WORKERS + 1, time.monotonic() + 10
        while time.monotonic() < until:
            rows = tracker.snapshot().rows
            if rows >= enough or rows == narrow.admitted * BATCHES:  # no split is being served
                return
            time.sleep(0.001)

    with (
        Service(ReadRows=[narrow]) as service,
        service.client(sleep=sleep, retry=RetryPolicy(max_attempts=6, spread=0.0)) as storage,
    ):
        # Six rejections would end a split if no other split received rows in the meantime.
        got = ids(iter_batches(storage, SESSION, ordered=ordered, workers=WORKERS, tracker=tracker))
    assert (got if ordered else sorted(got)) == list(range(ROWS))
    assert narrow.most == 2
    assert narrow.refused > 4


def half(line, seen) -> None:
    """Send the first rows of a split, then disconnect."""
    split = asked_split(seen)
    body = ipc(numbers(split.offset, split.offset + split.count), rows=1)
    line.send(line.headline(**{"Content-Length": str(len(body))}) + body[: len(body) // 2])
    raise ConnectionError


def serve(line, seen) -> None:
    split = asked_split(seen)
    line.answer(ipc(numbers(split.offset, split.offset + split.count), rows=1))


def throttled_after(first, *then):
    """Read two splits; the first breaks and is rejected from then on."""
    clock = Clock()
    refusals, steps = [0], iter(then)

    def step(line, seen) -> None:
        split = asked_split(seen)
        if split.offset >= ROWS // 2:
            serve(line, seen)
        elif split.offset == 0:
            first(line, seen)
        else:
            refusals[0] += 1
            next(steps, serve)(line, seen)

    return clock, refusals, step


@pytest.mark.parametrize("workers", [1, 2])
def test_a_throttled_read_that_received_rows_retries_until_the_deadline(workers):
    refused = fail(429, "SlotExceeded", **{"Retry-After": "7"})
    clock, refusals, step = throttled_after(half, *[refused] * 30)
    halves = replace(SESSION, splits=plan_ranges(ROWS, 2))
    policy = RetryPolicy(max_attempts=3, deadline=600.0, spread=0.0)
    with (
        Service(ReadRows=[step]) as service,
        service.client(retry=policy, sleep=clock.sleep, monotonic=lambda: clock.now) as storage,
    ):
        # The second split has no buffer space, and no other rows arrive that would restart it.
        got = ids(iter_batches(storage, halves, workers=workers, read_ahead=1))
    assert got == list(range(ROWS))
    assert refusals[0] == 31
    assert clock.now >= 30 * 7


def test_an_error_at_the_deadline_states_the_waiting_time():
    refused = fail(429, "SlotExceeded")
    clock, refusals, step = throttled_after(half, *[refused] * 10_000)
    halves = replace(SESSION, splits=plan_ranges(ROWS, 2))
    policy = RetryPolicy(max_attempts=3, deadline=100.0, cap=5.0, spread=0.0)
    with (
        Service(ReadRows=[step]) as service,
        service.client(retry=policy, sleep=clock.sleep, monotonic=lambda: clock.now) as storage,
        pytest.raises(ThrottledError) as caught,
    ):
        list(iter_batches(storage, halves, workers=2, read_ahead=1))
    assert 15 < refusals[0] < 40
    (note,) = (note for note in caught.value.__notes__ if "attempts" in note)
    assert 90 < float(note.split(" in ")[-1].removesuffix(" s")) <= 100


def test_throttled_attempts_do_not_count_as_failures_of_a_broken_split():
    refused = fail(429, "SlotExceeded")
    clock, refusals, step = throttled_after(half, *[refused] * 20, hang_up, refused)
    halves = replace(SESSION, splits=plan_ranges(ROWS, 2))
    policy = RetryPolicy(max_attempts=3, deadline=600.0, spread=0.0)
    with (
        Service(ReadRows=[step]) as service,
        service.client(retry=policy, sleep=clock.sleep, monotonic=lambda: clock.now) as storage,
    ):
        assert ids(iter_batches(storage, halves, workers=2)) == list(range(ROWS))
    assert refusals[0] == 23


def test_splits_that_wait_for_the_consumer_free_their_connections_for_throttled_splits():
    """The service serves one split at a time; the first one resumes after the other one."""
    taken, full = threading.Lock(), threading.Event()
    refused = fail(429, "SlotExceeded")

    def step(line, seen) -> None:
        split = asked_split(seen)
        if split.offset == 0 and not full.wait(10):
            raise AssertionError("the other split was not requested")
        if not taken.acquire(blocking=False):
            refused(line, seen)
            return
        try:
            body = ipc(numbers(split.offset, split.offset + split.count), rows=1)
            line.send(line.headline(**{"Content-Length": str(len(body))}))
            if split.offset < ROWS // 2 or full.is_set():
                line.send(body)
                return
            line.send(body[: len(body) // 2])
            full.set()
            assert line.wait_closed()  # the service can now serve the other split
            raise ConnectionError
        finally:
            taken.release()

    halves, tracker = replace(SESSION, splits=plan_ranges(ROWS, 2)), ProgressTracker("read", "t")
    with Service(ReadRows=[step]) as service, service.client(sleep=time.sleep) as storage:
        got = ids(iter_batches(storage, halves, workers=2, read_ahead=1, tracker=tracker))
    assert got == list(range(ROWS))
    assert any("closed its connection" in event for event in tracker.snapshot().events)


@pytest.mark.parametrize(("attempts", "workers", "most"), [(3, None, 3 * SPLITS), (1, 1, 1)])
def test_a_service_that_throttles_all_requests_soon_raises_an_error(attempts, workers, most):
    with (
        Service(ReadRows=[fail(429, "SlotExceeded")]) as service,
        service.client(retry=RetryPolicy(max_attempts=attempts)) as storage,
        pytest.raises(ThrottledError),
    ):
        list(iter_batches(storage, SESSION, workers=workers))
    assert len(service.calls["ReadRows"]) <= most


@settings(max_examples=40)
@given(
    lists=st.lists(st.lists(st.integers(0, 50), max_size=6), max_size=9),
    haste=st.sets(st.integers(0, 50)),
    workers=st.integers(1, 5),
    max_bytes=st.integers(0, 60),
    ordered=st.booleans(),
)
def test_changing_concurrency_changes_neither_order_nor_items(
    lists, haste, workers, max_bytes, ordered
):
    concurrency = AdaptiveConcurrency(workers)

    def job(items):
        def run(token):
            for item in items:
                if item in haste:
                    concurrency.refused()
                yield item

        return run

    found = list(
        fan_out(
            [job(items) for items in lists],
            size=int,
            workers=workers,
            max_bytes=max_bytes,
            ordered=ordered,
            concurrency=concurrency,
        )
    )
    wanted = [item for some in lists for item in some]
    assert found == wanted if ordered else sorted(found) == sorted(wanted)


def test_at_most_one_job_per_worker_runs_at_a_time():
    concurrency, running, most = AdaptiveConcurrency(4), [], []
    for _ in range(9):
        concurrency.refused()

    def job(token):
        running.append(1)
        most.append(len(running))
        yield 1
        running.pop()

    # too few items to add a worker
    assert list(fan_out([job] * (ITEMS_PER_STEP - 1), size=int, workers=4, concurrency=concurrency))
    assert max(most) == 1


def test_a_thread_that_waits_for_a_worker_is_stopped_immediately():
    concurrency, token = AdaptiveConcurrency(3), CancelToken()
    for _ in range(3):
        concurrency.refused()

    def job(inner):
        yield 1
        inner.wait(60)
        inner.check()

    items = fan_out([job] * 3, size=int, workers=3, concurrency=concurrency, cancel=token)
    assert next(items) == 1
    token.cancel()
    with pytest.raises(CancelledError):  # otherwise it would wait forever
        list(items)


def test_concurrency_falls_to_one_and_rises_to_the_maximum():
    concurrency = AdaptiveConcurrency(3)
    for _ in range(5):
        concurrency.refused()
    assert concurrency.limit == 1
    for _ in range(10 * ITEMS_PER_STEP):
        concurrency.record()
    assert (concurrency.limit, concurrency.items) == (3, 10 * ITEMS_PER_STEP)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [({}, READ_WORKERS), ({"workers": 3}, 3), ({"read_ahead": 2**20}, DEFAULT_WORKERS)],
    ids=["by default", "requested", "small buffer"],
)
def test_a_read_starts_all_its_workers_and_never_more(asked, wanted):
    everybody = threading.Barrier(wanted, timeout=20)
    begun = itertools.count(1)

    def serve_when_all_are_here(line, seen) -> None:
        if next(begun) <= wanted:
            everybody.wait()
        split = asked_split(seen)
        line.answer(ipc(numbers(split.offset, split.offset + split.count)))

    with Service(ReadRows=[serve_when_all_are_here]) as service, service.client() as storage:
        session = replace(SESSION, splits=plan_ranges(ROWS, 3 * READ_WORKERS))
        batches = iter_batches(storage, session, ordered=False, **asked)
        assert sorted(ids(batches)) == list(range(ROWS))
    assert service.connections == wanted
