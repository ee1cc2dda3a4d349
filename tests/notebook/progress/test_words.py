from __future__ import annotations

import pytest

from odps_nb.client.calls.progress import Phase, ProgressSnapshot, ProgressTracker
from odps_nb.notebook.progress import words
from odps_nb.terms import count_of


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (3.21, "3.2 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (65, "1 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7380, "2 h 03 min"),
    ],
)
def test_durations_are_formatted_as_text(seconds, text):
    assert words.format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        *((0.0, "0 %"), (1e-9, "< 0.1 %"), (0.0099, "1 %"), (0.01, "1 %"), (0.025, "2.5 %")),
        *((0.0999, "10 %"), (0.125, "13 %"), (0.41, "41 %"), (0.9899, "99 %"), (0.996, "99.6 %")),
        *((0.9999, "> 99.9 %"), (1.0, "100 %")),
    ],
)
def test_percentages_are_zero_only_at_the_start_and_a_hundred_only_at_the_end(share, text):
    assert words.format_percent(share) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (1234, "blob", "1,234 blobs"),
        (2, "retry", "2 retries"),
        (6, "key", "6 keys"),
    ],
)
def test_counts_are_formatted_with_their_noun(count, noun, text):
    assert count_of(count, noun) == text


def figures(phase: Phase = Phase.READING, **facts) -> list[str]:
    return words.figures(ProgressSnapshot(operation="read", title="t", phase=phase, **facts))


def test_the_remaining_time_is_never_less_than_a_second():
    assert figures(rows=99, rows_total=100, elapsed=2.0)[-1] == "about 1 s left"


def test_the_noun_of_a_rate_is_singular_or_plural_as_needed():
    found = [figures(Phase.DONE, rows=rows, elapsed=1.0)[-1] for rows in (1, 2)]
    assert found == ["1 row/s", "2 rows/s"]


def test_rates_keep_three_digits():
    assert "1,230,000 rows/s" in figures(rows=1_234_567, elapsed=1.0)


def test_the_share_of_finished_tasks_is_used_if_no_other_total_is_known():
    with ProgressTracker("write", "t") as tracker:
        tracker.phase(Phase.WRITING)
        tracker.count_tasks(2, 8)
        assert words.ending(tracker.snapshot()) == "writing, 25 %"
        assert words.amounts(tracker.snapshot()) == ["2 of 8 tasks"]
        tracker.plan(rows_total=10)
        tracker.add(rows=5)
        assert tracker.snapshot().fraction == 0.5
        tracker.count_tasks(8, 8)
    assert words.amounts(tracker.snapshot())[:2] == ["5 of 10 rows", "8 tasks"]


def test_a_rate_below_one_row_a_second_is_not_shown():
    assert figures(Phase.DONE, rows=1, rows_total=1, elapsed=2.0) == ["1 row"]


def test_a_pause_is_reported_and_excluded_from_the_remaining_time():
    now = [0.0]
    tracker = ProgressTracker("read", "t", clock=lambda: now[0])
    tracker.plan(rows_total=100)
    tracker.phase(Phase.READING)
    shown = []
    for at, rows in ((1.0, 10), (2.0, 10), (11.0, 0), (12.0, 10)):
        now[0] = at
        tracker.add(rows=rows)
        shown.append(words.figures(tracker.snapshot())[1:])
    assert shown == [
        ["10 rows/s", "about 9.0 s left"],
        ["10 rows/s", "about 8.0 s left"],
        ["no progress for 9.0 s"],
        ["2 rows/s", "about 4.7 s left"],
    ]
    tracker.phase(Phase.COMMITTING)
    now[0] = 60.0
    assert not any("no progress" in text for text in words.figures(tracker.snapshot()))


def test_no_remaining_time_is_estimated_during_the_first_percent():
    snapshot = ProgressSnapshot(
        operation="read", title="t", phase=Phase.READING, rows=9, rows_total=2000, elapsed=9.0
    )
    assert snapshot.eta is None
