"""A read session is refreshed on time, once for all readers."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import contextmanager

import pytest

from odps_nb.client.parallel.fan_out import fan_out
from odps_nb.client.read import keepalive
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.splits import iter_batches, iter_split
from odps_nb.errors import SessionExpiredError
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import RowRangeSplit, SessionStatus
from odps_nb.wire.calls import ReadSessionAnswer
from tests.support.clocks import Clock
from tests.support.sockets.scripted import (
    SCHEMA,
    TABLE,
    Service,
    asked_split,
    fail,
    give,
    hang_up,
    ids,
    ipc,
    numbers,
    raw,
)
from tests.support.threads import running

NOW = 1_000_000_000.0
HOUR = 3600.0
ROWS = 100


def session_until(seconds: float, splits: int = 4) -> ReadSession:
    return ReadSession(
        table=TABLE,
        session_id="s",
        schema=SCHEMA,
        splits=plan_ranges(ROWS, splits),
        row_count=ROWS,
        expires_at=NOW + seconds,
        route_token="old",
    )


def refreshed(seconds: float, **facts):
    return give(ReadSessionAnswer(session_id="s", schema=SCHEMA, expires_at=NOW + seconds, **facts))


def serve(line, seen) -> None:
    split = asked_split(seen)
    line.answer(ipc(numbers(split.offset, split.offset + split.count), rows=5))


@contextmanager
def refreshing(refreshes, **facts):
    """A service that responds to requests for the session with these steps, and its client."""
    with (
        Service(ReadRows=[serve], GetReadSession=refreshes) as service,
        service.client(**{"clock": Clock(NOW), **facts}) as storage,
    ):
        yield service, storage


def serve_half(line, seen) -> None:
    split = asked_split(seen)
    body = ipc(numbers(split.offset, split.offset + split.count), rows=5)
    line.send(line.headline(**{"Content-Length": str(len(body))}) + body[: len(body) // 2])
    raise ConnectionError


def test_a_read_does_not_refresh_a_session_with_enough_time_left():
    with Service(ReadRows=[serve]) as service, service.client(clock=Clock(NOW)) as storage:
        assert ids(iter_batches(storage, session_until(24 * HOUR))) == list(range(ROWS))
    assert "GetReadSession" not in service.calls


def test_concurrent_splits_share_one_refresh():
    """Evidence 175: a long read keeps its session alive (TorchEasyRec refreshes every 600 s)."""
    with refreshing([refreshed(24 * HOUR)]) as (service, storage):
        got = ids(iter_batches(storage, session_until(30.0, splits=20), workers=4))
    assert got == list(range(ROWS))
    assert [call.refresh for call in service.calls["GetReadSession"]] == [True]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_slow_consumer_keeps_the_session_alive(workers):
    clock, changed = Clock(NOW), threading.Condition()
    until = [NOW + 2 * HOUR]
    last = ROWS // 4  # rows of the last split

    def put_off(line, seen) -> None:
        refreshed(clock.now - NOW + 2 * HOUR)(line, seen)
        with changed:
            until.append(clock.now + 2 * HOUR)
            changed.notify()

    with refreshing([put_off], clock=clock) as (_, storage):
        batches = iter_batches(storage, session_until(2 * HOUR), workers=workers, read_ahead=1)
        got = []
        for batch in batches:
            got += ids([batch])
            if len(got) > ROWS - last:  # the rest may be buffered and need no session
                continue
            with changed:  # wait for a refresh if at most 30 minutes are left
                assert changed.wait_for(lambda: until[-1] - clock.now > 0.5 * HOUR, 10)
            while any(thread.name == "odps_nb-keeper" for thread in threading.enumerate()):
                time.sleep(0.001)  # the keeper thread must not see the new time
            clock.now += 0.5 * HOUR
    assert got == list(range(ROWS))
    assert len(until) > 3


def test_later_requests_use_the_newest_route_token():
    clock = Clock(NOW)
    with (
        Service(
            ReadRows=[serve_half, serve],
            GetReadSession=[refreshed(9 * HOUR, route_token="new")],
        ) as service,
        service.client(clock=clock) as storage,
    ):
        batches = iter_split(storage, session_until(2 * HOUR), RowRangeSplit(0, 80))
        first = ids(itertools.islice(batches, 1))
        clock.now += 1.5 * HOUR
        rest = ids(batches)
    assert first + rest == list(range(80))
    assert [call.route_token for call in service.calls["ReadRows"]] == ["old", "new"]


@pytest.mark.parametrize(
    "trouble",
    [
        fail(400, "InvalidParameter"),
        fail(503, "ServiceUnavailable"),
        hang_up,
        raw(b"{}"),
        refreshed(9 * HOUR, status=SessionStatus.EXPIRED),
        give(ReadSessionAnswer(session_id="another", schema=SCHEMA)),
    ],
    ids=["refused", "503", "broken", "invalid", "expired", "another"],
)
def test_a_failed_refresh_does_not_end_a_read_and_is_retried_later(trouble):
    clock = Clock(NOW)
    with refreshing([trouble], clock=clock) as (service, storage):
        batches = iter_split(storage, session_until(2 * HOUR), RowRangeSplit(0, 80))
        first = ids(itertools.islice(batches, 1))
        clock.now += 1.2 * HOUR
        rest = ids(batches)
    assert first + rest == list(range(80))
    assert len(service.calls["GetReadSession"]) == 1


@pytest.mark.parametrize(
    ("trouble", "times"),
    [
        (fail(503, "ServiceUnavailable"), 3),
        (hang_up, 3),
        (fail(400, "InvalidParameter"), 1),
        (refreshed(9 * HOUR, status=SessionStatus.EXPIRED), 1),
    ],
    ids=["503", "broken", "refused", "expired"],
)
def test_a_refresh_in_the_last_minute_is_attempted_three_times(trouble, times):
    """There may be no later chance: a slow consumer may return after the expiry."""
    with refreshing([trouble]) as (service, storage):
        assert ids(iter_batches(storage, session_until(30.0))) == list(range(ROWS))
    assert len(service.calls["GetReadSession"]) == times


def test_after_a_late_refresh_the_next_one_has_its_full_interval():
    clock = Clock(NOW)
    steps = [fail(503, "ServiceUnavailable"), refreshed(2 * HOUR), fail(503, "ServiceUnavailable")]
    with refreshing(steps, clock=clock) as (service, storage):
        batches = iter_split(storage, session_until(30.0), RowRangeSplit(0, 80))
        first = ids(itertools.islice(batches, 3))
        assert len(service.calls["GetReadSession"]) == 2
        clock.now += 1.2 * HOUR  # the new session has 48 minutes left
        assert first + ids(batches) == list(range(80))
    assert len(service.calls["GetReadSession"]) == 3


def test_a_refresh_that_fails_is_tried_again_later():
    clock = Clock(NOW)
    steps = [fail(503, "ServiceUnavailable"), refreshed(9 * HOUR)]
    with refreshing(steps, clock=clock) as (service, storage):
        for _ in iter_split(storage, session_until(50.0), RowRangeSplit(0, 80)):
            clock.now += 4.0
    assert len(service.calls["GetReadSession"]) == 2


def test_a_session_that_is_not_extended_is_not_refreshed_constantly():
    with refreshing([refreshed(30.0)]) as (service, storage):
        assert ids(iter_batches(storage, session_until(30.0, splits=20))) == list(range(ROWS))
    assert len(service.calls["GetReadSession"]) == 1


def test_without_a_thread_for_a_refresh_a_reading_thread_sends_it(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with refreshing([refreshed(9 * HOUR)]) as (service, storage):
        keeper = keepalive.SessionKeeper(storage, session_until(30.0), tracker=None)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            keeper.keep_aside()
        keeper.keep(None)
        keeper.close()
    assert len(service.calls["GetReadSession"]) == 1


def test_a_read_of_an_expired_session_raises_an_error():
    with (
        Service(
            ReadRows=[fail(404, "NoSuchSession")], GetReadSession=[fail(404, "NoSuchSession")]
        ) as service,
        service.client(clock=Clock(NOW)) as storage,
        pytest.raises(SessionExpiredError),
    ):
        list(iter_batches(storage, session_until(-5.0)))


def test_a_refresh_in_another_thread_blocks_no_thread():
    rows_came = threading.Event()

    def slow(line, seen) -> None:
        assert rows_came.wait(10)
        refreshed(9 * HOUR)(line, seen)

    with refreshing([slow], retry=RetryPolicy(max_attempts=1)) as (_, storage):
        batches = iter_batches(storage, session_until(30.0), workers=2, ordered=False)
        got = ids(itertools.islice(batches, 1))
        rows_came.set()
        got += ids(batches)
    assert sorted(got) == list(range(ROWS))


def put_off_by(clock: Clock, came: threading.Event):
    def step(line, seen) -> None:
        refreshed(clock.now - NOW + 2 * HOUR)(line, seen)
        came.set()

    return step


@pytest.mark.parametrize("ordered", [True, False])
def test_a_session_is_kept_alive_while_the_consumer_is_idle(ordered):
    clock, came = Clock(NOW), threading.Event()
    with refreshing([put_off_by(clock, came)], clock=clock) as (service, storage):
        batches = iter_batches(
            storage, session_until(2 * HOUR), workers=3, read_ahead=1, ordered=ordered
        )
        got = ids([next(batches)])
        for _ in range(2):
            came.clear()
            while not came.wait(0.2):  # hours without a batch
                clock.now += 0.5 * HOUR
                assert clock.now < NOW + 100 * HOUR
        got += ids(batches)
    assert sorted(got) == list(range(ROWS))
    assert len(service.calls["GetReadSession"]) >= 2


def test_a_hanging_refresh_blocks_neither_received_rows_nor_the_end_of_a_read(monkeypatch):
    monkeypatch.setattr(keepalive, "_TIMEOUT", 60.0)
    clock, asked, left = Clock(NOW), threading.Event(), threading.Event()

    def hang(line, seen) -> None:
        asked.set()
        line.wait_closed(60)
        left.set()
        raise ConnectionError

    with refreshing([hang], clock=clock, read_timeout=60.0) as (_, storage):
        session = session_until(2 * HOUR, splits=3)
        batches = iter_batches(storage, session, workers=3, read_ahead=1)
        got = ids([next(batches)])
        clock.now += 1.5 * HOUR
        assert asked.wait(10)
        got += ids(itertools.islice(batches, 10))
        assert got == list(range(53))
        assert not left.is_set()
        closing = threading.Thread(target=batches.close)
        closing.start()
        closing.join(20)  # a third of the time-out of the refresh
        assert not closing.is_alive()
        assert "odps_nb-keeper" not in [thread.name for thread in running()]


def test_a_waiting_consumer_does_not_refresh_a_session_with_enough_time_left():
    with Service(ReadRows=[serve]) as service, service.client(clock=Clock(NOW)) as storage:
        rested = threading.Event()
        rows = PausingRows(iter_split(storage, session_until(24 * HOUR), RowRangeSplit(0, 80)))
        rows.after(3, rested.set)
        items = fan_out([lambda token: rows, lambda token: iter(())], size=len, max_bytes=0)
        got = ids([next(items)])
        assert rested.wait(10)
        got += ids(items)
    assert got == list(range(80))
    assert "GetReadSession" not in service.calls


class PausingRows:
    """Forwards all calls, and calls a function at one of the reader's pauses."""

    def __init__(self, rows) -> None:
        self.rows, self.rests = rows, itertools.count(1)
        self.close = rows.close

    def after(self, count: int, call) -> None:
        self.count, self.call = count, call

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.rows)

    def rest(self) -> None:
        self.rows.rest()
        if next(self.rests) == self.count:
            self.call()
