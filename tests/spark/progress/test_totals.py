"""What reports add up to: each part once, whoever reads it how often."""

from __future__ import annotations

import dataclasses
from typing import Any

from odps_nb.client.calls.progress import Phase, ProgressSnapshot, ProgressTracker
from odps_nb.spark.progress.messages import Hello, Report
from odps_nb.spark.progress.totals import MAX_LABELS, Totals, TrackedActivity
from odps_nb.spark.reading.split_list import SplitList
from odps_nb.terms import IndexSplit

FOUR = TrackedActivity(
    operation="read", title="t", phase=Phase.READING, parts=SplitList(4, 400), rows_total=400
)


def hello(part: int, attempt: int, *, stage: int = 5, partition: int | None = None) -> Hello:
    return Hello(
        activity=1,
        execution="1",
        tags=(),
        stage=stage,
        partition=part if partition is None else partition,
        attempt=attempt,
        part=part,
    )


class Told:
    """A run and short words for what tasks say to it."""

    def __init__(self, activity: TrackedActivity = FOUR, **options: Any) -> None:
        self.activity = activity
        self.tracker = ProgressTracker(activity.operation, activity.title)
        self.totals = Totals(self.tracker, **options)

    def say(self, one: Hello, rows: int, *, done: bool = False, **more: Any) -> bool:
        told = self.totals.open(self.activity, one)
        if told:
            report = Report(rows=rows, wire_bytes=10 * rows, done=done, **more)
            self.totals.add(self.activity, one, report)
        return told

    @property
    def seen(self) -> ProgressSnapshot:
        return self.tracker.snapshot()


def test_figures_are_totals_and_the_splits_are_known_at_once() -> None:
    told = Told()
    told.say(hello(0, 7), 40)
    told.say(hello(0, 7), 60)
    told.say(hello(2, 8), 100, done=True)
    assert (told.seen.rows, told.seen.rows_total, told.seen.wire_bytes) == (160, 400, 1600)
    assert [split.rows for split in told.seen.splits] == [60, 0, 100, 0]
    assert [split.done for split in told.seen.splits] == [False, False, True, False]
    assert (told.totals.parts_done, told.totals.parts_planned) == (1, 4)


def test_a_second_attempt_counts_once_it_is_further_and_rows_never_go_back() -> None:
    told = Told()
    seen = []
    for attempt, rows in ((7, 50), (9, 0), (9, 49), (9, 51), (9, 80), (7, 60)):
        told.say(hello(1, attempt), rows)
        seen.append(told.seen.rows)
    assert seen == [50, 50, 50, 51, 80, 80]
    assert told.seen.wire_bytes == 800


def test_of_speculative_twins_the_first_to_finish_counts_for_good() -> None:
    told = Told()
    told.say(hello(1, 7), 90)
    told.say(hello(1, 8), 100, done=True)
    told.say(hello(1, 7), 100, done=True, retries=3)
    told.say(hello(1, 9), 100)
    assert (told.seen.rows, told.seen.retries, told.totals.parts_done) == (100, 0, 1)


def test_the_winner_is_not_the_furthest_but_the_one_that_proved_its_part() -> None:
    told = Told(dataclasses.replace(FOUR, parts=(IndexSplit(0),), rows_total=None))
    told.say(hello(0, 7), 500)
    told.say(hello(0, 8), 480, done=True)
    assert (told.seen.rows, told.seen.wire_bytes) == (480, 4800)


def test_a_source_that_is_read_twice_counts_twice() -> None:
    told = Told()
    for part in range(4):
        told.say(hello(part, part), 100, done=True)
    for part in range(4):
        told.say(hello(part, 10 + part, stage=6), 50)
    assert (told.seen.rows, told.seen.rows_total) == (600, 800)
    assert told.seen.splits[4].label == "rows 0…100, pass 2"
    assert (told.totals.parts_done, told.totals.parts_planned) == (4, 8)


def test_rounds_of_a_limit_are_one_pass() -> None:
    told = Told()
    told.say(hello(0, 1, stage=5), 100, done=True)
    told.say(hello(1, 2, stage=6), 100, done=True)
    assert told.seen.rows_total == 400


def test_a_part_that_cannot_be_is_refused() -> None:
    assert not Told().say(hello(4, 1), 10**9)
    told = Told()
    assert told.say(hello(3, 1), 1)
    assert told.seen.rows == 1


def test_many_splits_share_labels_and_all_must_be_done() -> None:
    count = 2 * MAX_LABELS
    told = Told(dataclasses.replace(FOUR, parts=SplitList(count, count), rows_total=count))
    told.say(hello(0, 1), 1, done=True)
    first = told.seen.splits[0]
    assert (len(told.seen.splits), first.label, first.done) == (
        MAX_LABELS,
        f"splits 1 to 2 of {count}",
        False,
    )
    told.say(hello(1, 2), 1, done=True)
    assert told.seen.splits[0].done
    for part in range(2, count):
        told.say(hello(part, part + 1), 1, done=True)
    assert (told.seen.rows, told.seen.fraction) == (count, 1.0)
    assert all(split.done for split in told.seen.splits)


def test_parts_nobody_planned_appear_when_they_begin() -> None:
    told = Told(TrackedActivity(operation="blobs", title="of pic", phase=Phase.FETCHING))
    told.say(hello(3, 1), 0, items=2)
    told.say(hello(0, 2), 0, items=5, done=True)
    assert [split.label for split in told.seen.splits] == ["task 3", "task 0"]
    assert (told.seen.items, told.seen.rows_total) == (7, None)


def test_several_sources_in_one_watched_action_are_told_apart() -> None:
    told, other = Told(several=True), dataclasses.replace(FOUR, title="u")
    told.say(hello(0, 1), 10)
    told.totals.open(other, hello(0, 2))
    told.totals.add(other, hello(0, 2), Report(rows=5))
    assert (told.seen.rows, told.seen.rows_total) == (15, 800)
    assert {split.label for split in told.seen.splits} >= {"t rows 0…100", "u rows 0…100"}


def test_events_and_request_ids_are_kept_once() -> None:
    told = Told()
    one = hello(0, 1)
    told.totals.open(FOUR, one)
    for _ in range(3):
        told.totals.add(FOUR, one, Report(event="again", request="A1"))
    assert (told.seen.events, told.seen.request_ids) == (("again",), ("A1",))
