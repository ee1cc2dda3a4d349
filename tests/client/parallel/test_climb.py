"""More connections where more are faster, no more where they are not, and never out of order."""

from __future__ import annotations

import io
import re
import threading
from itertools import pairwise

import pyarrow as pa
import pytest

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.parallel.concurrency import FIRST_REST, LONGEST_REST, WINDOW, Pace
from odps_nb.client.parallel.fan_out import DEFAULT_WORKERS, fan_out
from odps_nb.client.read.splits import MOST_WORKERS, ReadSession, iter_batches, plan_ranges
from tests.support.sockets.scripted import SCHEMA, TABLE, Service, asked_split, ids, numbers

TICK = WINDOW / 4


class World:
    """A clock that a test moves, and a line that brings so much for so many lanes."""

    def __init__(self, lanes: int = 8, *, most: int = 16) -> None:
        self.now, self.lines = 0.0, []
        self.pace = Pace(lanes, most=most, clock=lambda: self.now, tell=self.lines.append)

    def bring(self, windows: int, rate) -> list[int]:
        """Let items come at ``rate(lanes)`` of them a tick; return the lanes after each."""
        seen = []
        for _ in range(windows * 4):
            lanes = self.pace.lanes
            for _ in range(lanes):
                self.pace.came(1000)
            self.now += TICK * lanes / rate(lanes)
            seen.append(self.pace.lanes)
        return seen


def test_lanes_are_added_as_long_as_each_brings_its_share():
    world = World()
    assert world.bring(12, lambda lanes: lanes)[-1] == 16
    assert world.lines[0] == "12 at a time instead of 8: more may be faster"


@pytest.mark.parametrize("enough", [1, 8])
def test_lanes_that_bring_nothing_are_taken_back_and_seldom_tried_again(enough):
    world = World()
    seen = world.bring(400, lambda lanes: min(lanes, enough))
    assert max(seen) == 12
    assert seen.count(8) > 0.9 * len(seen)
    assert world.lines[1] == "8 at a time instead of 12: more were no faster"


def test_a_line_that_is_full_on_the_way_up_keeps_what_paid():
    seen = World(most=32).bring(400, lambda lanes: min(lanes, 12))
    assert max(seen) == 18
    assert seen.count(12) > 0.9 * len(seen)


def test_a_line_that_gets_faster_later_is_found_out():
    world = World()
    world.bring(40, lambda lanes: 8)
    assert world.bring(LONGEST_REST + 8, lambda lanes: lanes)[-1] == 16


def test_a_consumer_that_is_slower_than_the_line_gets_no_more_lanes():
    world = World()
    for _ in range(300):
        world.bring(1, lambda lanes: lanes)
        world.pace.disturbed()
    assert world.lines == []


def test_a_pace_without_room_above_measures_nothing():
    pace = Pace(8, clock=lambda: pytest.fail("the clock was read"))
    for _ in range(1000):
        pace.came(1000)
    assert (pace.lanes, pace.most) == (8, 8)


def test_a_refusal_ends_a_try_and_puts_the_next_one_off():
    world = World()
    while world.pace.lanes == 8:
        world.bring(1, lambda lanes: lanes)
    world.pace.refused()
    assert world.pace.lanes == 11
    assert world.pace.starving
    assert set(world.bring(FIRST_REST - 1, lambda lanes: lanes)) == {11}
    assert not world.pace.starving
    assert world.bring(2 * FIRST_REST, lambda lanes: lanes)[-1] == 16


def test_lanes_that_were_refused_come_back_to_the_first_number_by_items_only():
    world = World()
    for _ in range(5):
        world.pace.refused()
    assert world.pace.lanes == 3
    for _ in range(5 * 8):
        world.pace.came(1000)
    assert world.pace.lanes == 8


def test_workers_join_for_lanes_that_are_added_and_all_items_come_in_order():
    pace, running, most = Pace(2, most=6, clock=iter(range(10**9)).__next__), set(), []

    def job(number):
        def run(token):
            for item in range(4):
                running.add(threading.get_ident())
                most.append(pace.lanes)
                yield 10 * number + item

        return run

    found = list(fan_out(map(job, range(400)), size=lambda _: 1, pace=pace))
    assert found == [10 * number + item for number in range(400) for item in range(4)]
    assert len(running) <= max(most) <= 6


def test_a_read_begins_with_all_its_first_lanes_at_once():
    everybody = threading.Barrier(8, timeout=20)

    def job(token):
        everybody.wait()
        yield 1

    assert list(fan_out([job] * 8, size=int, pace=Pace(8, most=16))) == [1] * 8


# -- over sockets -----------------------------------------------------------------------------

SPLITS, BATCHES = 120, 6
ROWS = SPLITS * BATCHES
SESSION = ReadSession(
    table=TABLE, session_id="s", schema=SCHEMA, splits=plan_ranges(ROWS, SPLITS), row_count=ROWS
)


class Line:
    """A line that carries one batch of every open connection in a tick of its own clock.

    ``at_once`` is how many batches a tick has room for; more connections make it longer. The
    next tick waits until everybody who may read does, and until the rows of the last one are
    with the consumer: no second of ours counts.
    """

    def __init__(self, at_once: int) -> None:
        self.now, self.at_once, self.tracker = 0.0, at_once, ProgressTracker("read", "t")
        self.got: list[int] = []
        self._changed = threading.Condition()
        self._open = self._begun = self._waiting = self._ticks = self._sent = 0
        self._over = False

    def serve(self, line, seen) -> None:
        with self._changed:
            self._open, self._begun = self._open + 1, self._begun + 1
        split = asked_split(seen)
        messages = one_by_one(split)
        line.send(line.headline(**{"Content-Length": str(sum(map(len, messages)))}))
        for message in messages[:-1]:
            self._await_tick()
            line.send(message)
        with self._changed:
            self._open -= 1
            self._changed.notify_all()
        line.send(messages[-1])

    def _await_tick(self) -> None:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            mine = self._ticks
            assert self._changed.wait_for(lambda: self._over or self._ticks > mine, 20)

    def tick_until_over(self) -> None:
        with self._changed:
            while not self._over:
                if not self._is_still():
                    self._changed.wait(0.005)
                    continue
                self.now += TICK * max(1.0, self._waiting / self.at_once)
                self._sent += self._waiting
                self._waiting, self._ticks = 0, self._ticks + 1
                self._changed.notify_all()

    def _is_still(self) -> bool:
        wanted = self._lanes() if self._begun < SPLITS else self._open
        return 0 < self._waiting >= wanted and len(self.got) == self._sent

    def _lanes(self) -> int:
        events = self.tracker.snapshot().events
        found = re.search(r"(\d+) at a time", events[-1]) if events else None
        return int(found[1]) if found else DEFAULT_WORKERS

    def read(self, **facts) -> Service:
        """Read all of it; return the service with what it saw."""
        with (
            Service(ReadRows=[self.serve]) as service,
            service.client(monotonic=lambda: self.now) as storage,
        ):
            ticking = threading.Thread(target=self.tick_until_over)
            ticking.start()
            try:
                batches = iter_batches(
                    storage, SESSION, ordered=False, tracker=self.tracker, **facts
                )
                for batch in batches:
                    self.got += ids([batch])
            finally:
                with self._changed:
                    self._over = True
                    self._changed.notify_all()
                ticking.join()
        assert sorted(self.got) == list(range(ROWS))
        return service


def one_by_one(split) -> list[bytes]:
    """Return the messages of a split, a row in each, and last what ends the stream."""
    sink, ends = io.BytesIO(), [0]
    table = numbers(split.offset, split.offset + split.count)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1):
            writer.write_batch(batch)
            ends.append(sink.tell())
    return [sink.getvalue()[low:high] for low, high in pairwise([*ends, sink.tell()])]


def test_connections_that_are_slow_each_are_joined_by_more():
    line = Line(at_once=1000)
    assert line.read().connections == MOST_WORKERS
    assert [event.split(":")[1] for event in line.tracker.snapshot().events] == [
        " 12 at a time instead of 8",
        " 16 at a time instead of 12",
    ]


def test_a_line_that_is_full_is_not_given_all_the_connections_there_may_be():
    line = Line(at_once=8)
    assert line.read().connections == 12
    assert [event.split(":")[1] for event in line.tracker.snapshot().events][:2] == [
        " 12 at a time instead of 8",
        " 8 at a time instead of 12",
    ]


@pytest.mark.parametrize("asked", [{"workers": 3}, {"workers": 8}, {"read_ahead": 2**20}])
def test_nobody_gets_more_connections_than_asked_for_or_than_there_is_room_for(asked):
    line = Line(at_once=1000)
    wanted = asked.get("workers", DEFAULT_WORKERS)
    line._lanes = lambda: wanted
    assert line.read(**asked).connections == wanted
    assert line.tracker.snapshot().events == ()
