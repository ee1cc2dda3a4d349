"""Parallel iterators: order, byte budget, and no leaked threads."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.parallel.fan_out import fan_out
from odps_nb.errors import CancelledError
from tests.support.threads import running


def jobs_of(lists):
    return [lambda token, items=items: iter(items) for items in lists]


@settings(max_examples=60)
@given(
    lists=st.lists(st.lists(st.integers(0, 50), max_size=6), max_size=9),
    workers=st.integers(1, 5),
    max_bytes=st.integers(0, 60),
    total_bytes=st.none() | st.integers(0, 300),
    ordered=st.booleans(),
)
def test_no_item_is_lost_or_repeated_and_the_order_is_preserved_on_request(
    lists, workers, max_bytes, total_bytes, ordered
):
    items = list(
        fan_out(
            jobs_of(lists),
            size=int,
            workers=workers,
            max_bytes=max_bytes,
            total_bytes=total_bytes,
            ordered=ordered,
        )
    )
    wanted = [item for some in lists for item in some]
    assert items == wanted if ordered else sorted(items) == sorted(wanted)


@pytest.mark.parametrize(
    ("budget", "taken", "made_at_most"),
    [
        # 5 items in the buffers, one with the consumer, one with each worker, and one that the
        # first unfinished job may add although the buffer is full
        ({"max_bytes": 50}, 1, 10),
        # 9 consumed, one waiting, one with each worker, one that the first unfinished job may add
        ({"total_bytes": 100}, 9, 14),
    ],
)
def test_a_budget_limits_buffered_or_buffered_and_consumed_bytes(budget, taken, made_at_most):
    made = []

    def job(token):
        for n in range(100):
            made.append(n)
            yield n

    items = fan_out([job] * 3, size=lambda item: 10, workers=3, **budget)
    for _ in range(taken):
        next(items)
    deadline = time.monotonic() + 10
    while len(made) < made_at_most - 1 and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert len(made) <= made_at_most
    items.close()


def test_in_an_ordered_fan_out_an_error_is_raised_after_the_items_of_earlier_jobs():
    failed = threading.Event()

    def good(token):
        failed.wait(10)
        yield 1
        yield 2

    def bad(token):
        failed.set()
        raise KeyError("bad")
        yield

    items = fan_out([good, bad], size=int, workers=2)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(KeyError, match="bad"):
        next(items)


def test_in_an_unordered_fan_out_an_error_is_raised_immediately():
    def endless(token):
        while not token.wait(0.01):
            pass
        yield 1

    def bad(token):
        raise KeyError("bad")
        yield

    with pytest.raises(KeyError, match="bad"):
        list(fan_out([endless, bad], size=int, workers=2, ordered=False))


def test_closing_cancels_the_jobs_and_joins_them():
    ended = []

    def job(token):
        try:
            yield 1
            token.wait(60)
            token.check()
        finally:
            ended.append(1)

    items = fan_out([job] * 3, size=int, workers=3)
    next(items)
    items.close()
    assert len(ended) == 3


@pytest.mark.parametrize("workers", [1, 3])
def test_a_cancelled_token_ends_the_iteration(workers):
    token = CancelToken()

    def job(inner):
        for n in range(1000):
            inner.check()
            yield n

    items = fan_out([job] * 3, size=int, workers=workers, cancel=token)
    assert next(items) == 0
    token.cancel()
    with pytest.raises(CancelledError):
        list(items)


def test_no_job_starts_after_a_cancellation():
    token = CancelToken()
    token.cancel()
    with pytest.raises(CancelledError):
        next(fan_out([lambda token: iter([1])], size=int, cancel=token))


@pytest.mark.parametrize("workers", [1, 2])
def test_closing_closes_the_iterators_of_the_jobs(workers):
    closed = []

    class Endless:
        def __iter__(self):
            return self

        def __next__(self):
            return 1

        def close(self):
            closed.append(self)

    items = fan_out([lambda token: Endless()] * 2, size=int, workers=workers, max_bytes=1)
    next(items)
    items.close()
    assert closed


def test_an_interrupt_in_the_consumer_ends_the_workers():
    def job(token):
        yield 1
        token.wait(60)

    def consume():
        for _ in fan_out([job] * 2, size=int, workers=2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert [t for t in running() if t.name.startswith("odps_nb-worker")] == []


def test_only_a_few_jobs_are_created_in_advance():
    taken = []

    def job(token):
        yield 1

    def many():
        for number in range(100_000):
            taken.append(number)
            yield job

    items = fan_out(many(), size=int, workers=4, max_bytes=2)
    assert next(items) == 1
    items.close()
    assert len(taken) < 20


def test_an_error_while_creating_a_job_is_raised_after_the_items_of_earlier_jobs():
    def jobs():
        for number in range(6):
            yield lambda token, number=number: iter([number])
        raise KeyError("no more")

    items = fan_out(jobs(), size=int, workers=2)
    assert [next(items) for _ in range(6)] == list(range(6))
    with pytest.raises(KeyError, match="no more"):
        next(items)


def test_if_no_more_threads_can_be_started_the_running_threads_continue(monkeypatch):
    start, started = threading.Thread.start, []

    def start_two(thread):
        if thread.name not in ("odps_nb-worker-0", "odps_nb-worker-1"):
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    lists = [[number] * 4 for number in range(100)]
    found = list(fan_out(jobs_of(lists), size=lambda _: 1, workers=6))
    assert found == [item for some in lists for item in some]
    assert len(started) == 2


def test_if_not_one_thread_can_be_started_the_error_is_raised(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        list(fan_out(jobs_of([[1], [2]]), size=int, workers=2))
