from __future__ import annotations

import re
import sys
import threading
import time
from html.parser import HTMLParser

import pytest

from odps_nb.client.calls.progress import (
    MAX_EVENTS,
    ItemProgress,
    Phase,
    ProgressSnapshot,
    ProgressTracker,
    SplitProgress,
)
from odps_nb.notebook.progress.cards import MAX_BARS, CardListener, card_html, card_text
from odps_nb.notebook.progress.operations import Options
from tests.support.threads import wait_until

MARKUP = "<img src=x onerror=alert(1)>&\"'"


def snapshot(**facts) -> ProgressSnapshot:
    return ProgressSnapshot(
        **{"operation": "read", "title": "orders", "phase": Phase.READING, **facts}
    )


def splits(count: int, **facts) -> tuple[SplitProgress, ...]:
    return tuple(SplitProgress(label=f"split {i}", **facts) for i in range(count))


class Page(HTMLParser):
    """Counts tags, and checks that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "br":
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def bars(self) -> list[dict]:
        return [attributes for tag, attributes in self.tags if tag == "progress"]


@pytest.mark.parametrize("phase", list(Phase))
def test_the_card_of_every_phase_is_self_contained_well_formed_html(phase):
    text = card_html(snapshot(phase=phase, rows=5, rows_total=10, splits=splits(3), message="m"))
    page = Page(text)
    assert page.tags[0] == ("div", {"role": "status", "style": page.tags[0][1]["style"]})
    assert {tag for tag, _ in page.tags} <= {"div", "b", "progress", "details", "summary", "br"}
    assert not re.search(r"script|href|src=|url\(|on\w+=", text)
    assert all(bar["aria-label"] for bar in page.bars())


def test_a_large_file_has_its_own_bar_during_the_upload():
    file = ItemProgress(name=MARKUP, size=2_000_000_000, sent=500_000_000)
    facts = {"item_bytes": 600_000_000, "bytes_total": 3_000_000_000, "moving": (file,)}
    text = card_html(snapshot(phase=Phase.UPLOADING, **facts))
    page = Page(text)
    assert [bar["value"] for bar in page.bars()] == ["20", "25"]
    assert page.bars()[1]["aria-label"] == MARKUP
    assert "500.0 MB of 2.0 GB" in text
    assert "<img" not in text
    ended = card_html(snapshot(phase=Phase.DONE, item_bytes=1, bytes_total=1))
    assert len(Page(ended).bars()) == 1


def test_a_running_card_escapes_text():
    text = card_html(
        snapshot(
            title=MARKUP,
            message=MARKUP,
            session_id=MARKUP,
            request_ids=(MARKUP,),
            events=(MARKUP,),
            splits=tuple(SplitProgress(label=MARKUP + str(i)) for i in range(3)),
        )
    )
    assert "<img" not in text
    assert text.count("&lt;img src=x onerror=alert(1)&gt;") >= 5
    Page(text)


def test_the_final_card_escapes_text():
    text = card_html(
        snapshot(phase=Phase.FAILED, message=MARKUP, session_id=MARKUP, events=(MARKUP,))
    )
    assert "<img" not in text
    Page(text)


def test_a_running_card_has_a_bar_per_split():
    page = Page(card_html(snapshot(rows=5, rows_total=30, splits=splits(3, rows=1, rows_total=10))))
    assert len(page.bars()) == 1 + 3
    assert page.bars()[1] == {
        "aria-label": "split 0",
        "max": "100",
        "value": "10",
        "style": page.bars()[1]["style"],
    }


@pytest.mark.parametrize("count", [MAX_BARS, MAX_BARS + 1, 250, 10_000])
def test_many_splits_share_sixteen_bars(count):
    text = card_html(snapshot(rows=1, rows_total=10 * count, splits=splits(count, rows_total=10)))
    assert len(Page(text).bars()) == 1 + MAX_BARS
    assert len(text) < 6000


def test_a_group_of_splits_shows_its_own_share():
    done = splits(32, rows=10, rows_total=10, done=True)[:16] + splits(32, rows_total=10)[16:]
    values = [bar["value"] for bar in Page(card_html(snapshot(rows=1, splits=done))).bars()[1:]]
    assert values == ["100"] * 8 + ["0.5"] * 8


def test_a_bar_without_a_total_is_indeterminate():
    page = Page(card_html(snapshot(phase=Phase.CREATING)))
    (bar,) = (attributes for _, attributes in page.tags if attributes.get("role") == "progressbar")
    assert bar["aria-label"] == "read orders"
    assert "aria-valuenow" not in bar
    # a <progress> without a value would move even after the end of the kernel
    assert page.bars() == []


def test_a_card_shows_the_time_of_its_last_update_after_the_kernel_has_ended():
    for made in (card_html, card_text):
        text = made(snapshot(started_at=1_700_000_000.0, elapsed=61.0))
        assert re.search(r"started 2023-11-1[45] \d\d:\d\d:\d\d · as of \d\d:\d\d:\d\d", text)
        assert "started" not in made(snapshot(phase=Phase.DONE, started_at=1_700_000_000.0))


def test_a_bar_without_a_total_moves_with_each_update():
    bars = [
        re.search(r"margin-left:(\d+)%", card_html(snapshot(elapsed=at)))[1] for at in (0.2, 0.4)
    ]
    assert bars[0] != bars[1]


@pytest.mark.parametrize("phase", [p for p in Phase if p.is_final])
@pytest.mark.parametrize("rows", [0, 1, 999, 1000])
@pytest.mark.parametrize("total", [None, 1000, 1_000_000])
def test_a_final_card_never_shows_0_percent(phase, rows, total):
    final = snapshot(phase=phase, rows=rows, rows_total=total, elapsed=2.0)
    for text in (card_html(final), card_text(final)):
        assert not re.search(r"\b0 %", text)
    for bar in Page(card_html(final)).bars():
        assert float(bar["value"]) > 0


def test_a_final_card_shows_the_outcome():
    cancelled = snapshot(phase=Phase.CANCELLED, rows=410, rows_total=1000)
    assert card_text(cancelled).startswith("read orders: cancelled at 41 %")
    assert "cancelled at 41 %" in card_html(cancelled)
    failed = snapshot(phase=Phase.FAILED, rows=12_345, message="BrokenStreamError: gone")
    assert "failed after 12,345 rows" in card_text(failed)
    assert "BrokenStreamError: gone" in card_text(failed)
    assert card_text(snapshot(phase=Phase.DONE, elapsed=3.21)) == "read orders: done in 3.2 s"


def test_the_final_card_of_a_large_read_is_about_one_kilobyte():
    final = snapshot(
        phase=Phase.DONE,
        rows=2_000_000_000,
        rows_total=2_000_000_000,
        wire_bytes=10**12,
        decoded_bytes=10**12,
        verified_bytes=10**12,
        splits=splits(5000, done=True),
        elapsed=3600.0,
        retries=3,
        resumes=2,
        session_id="2026112023435670ad1a0b03d2f1ab" * 2,
        request_ids=("2026112023435670ad1a0b03d2f1ab",) * 4,
        events=("retry 1 of split 3 after BrokenStreamError at row 12,345",) * 20,
    )
    assert len(card_html(final)) < 1500
    assert len(card_text(final)) < 700


def test_the_first_event_is_shown_beside_the_latest_events():
    why = "transferred by the tunnel, because the Storage API refused: " + "x" * 500
    with ProgressTracker("read", "orders") as tracker:
        tracker.noted(why)
        for number in range(MAX_EVENTS + 5):
            tracker.noted(f"retry {number}")
    events = tracker.snapshot().events
    latest = [f"retry {number}" for number in range(6, MAX_EVENTS + 5)]
    assert events == (why, *latest)
    folded = card_html(tracker.snapshot()).partition("<details")[2]
    assert "<br>".join((why, *latest[-4:])) in folded
    assert folded.count("retry ") == 4


def test_the_ids_of_a_read_by_the_tunnel_are_truncated():
    ids = "tunnel:" + ",".join(["2026112023435670ad1a0b03d2f1ab"] * 1000)
    for made in (card_html, card_text):
        for phase in (Phase.READING, Phase.DONE):
            text = made(snapshot(phase=phase, session_id=ids, request_ids=("r1",)))
            assert "session tunnel:20261120" in text
            assert len(text) < 1500


def test_a_card_shows_one_size_and_the_others_in_its_details():
    final = snapshot(
        phase=Phase.DONE, wire_bytes=1_000_000, decoded_bytes=2_000_000, complete_bytes=2_000_000
    )
    shown, _, folded = card_html(final).partition("<details")
    assert shown.count(" MB") == 1
    assert "<summary>sizes</summary>1.0 MB transferred · 2.0 MB decoded · 2.0 MB complete" in folded
    assert card_text(final).count(" MB") == 1
    assert card_html(snapshot(decoded_bytes=2_000_000)).count(" MB") == 1


def test_a_card_shows_rows_bytes_rate_remaining_time_and_retries():
    text = card_text(
        snapshot(
            rows=250_000,
            rows_total=1_000_000,
            wire_bytes=12_300_000,
            decoded_bytes=45_600_000,
            verified_bytes=44_000_000,
            elapsed=2.0,
            retries=2,
            resumes=1,
            session_id="s1",
            request_ids=("r1", "r2"),
        )
    )
    assert text == (
        "read orders: reading, 25 %\n"
        "  250,000 of 1,000,000 rows · 12.3 MB · "
        "125,000 rows/s · about 6.0 s left · 2 retries · 1 resume\n"
        "  session s1 · requests r1, r2"
    )


def bundles(shown) -> list[tuple[bool, str, dict]]:
    return [(m["update"], m["transient"]["display_id"], m["data"]) for m in shown]


def test_a_short_operation_shows_no_card_and_leaves_no_thread(shown):
    with ProgressTracker("read", "orders", listener=CardListener(delay=60)) as tracker:
        tracker.add(rows=1)
    assert shown == []
    assert not [t for t in threading.enumerate() if t.name == "odps-nb-flusher"]


def test_a_long_operation_reported_only_at_its_end_has_a_card(shown):
    """The progress of a Spark action with one task is unknown until the task has finished."""
    with ProgressTracker("read", "orders", listener=CardListener(delay=60), elapsed=61) as tracker:
        tracker.add(rows=1)
    assert [update for update, _, _ in bundles(shown)] == [False, True]
    assert bundles(shown)[-1][2]["text/plain"].startswith("read orders: done in 1 min")


def test_a_card_keeps_one_display_id(shown):
    with ProgressTracker("read", "orders", listener=CardListener(delay=0)) as tracker:
        tracker.plan(rows_total=10)
        wait_until(lambda: len(shown) >= 2)
        tracker.add(rows=10)
    first, *rest = bundles(shown)
    assert first[0] is False
    assert all(update for update, _, _ in rest)
    assert len({display_id for _, display_id, _ in bundles(shown)}) == 1
    assert set(first[2]) == {"text/html", "text/plain"}
    assert rest[-1][2]["text/plain"].startswith("read orders: done in")
    assert not [t for t in threading.enumerate() if t.name == "odps-nb-flusher"]


def test_operations_in_a_loop_share_one_card_with_their_totals(shell, shown):
    def ids():
        return {display_id for _, display_id, _ in bundles(shown)}

    for delay in (0, 60, 0):  # the second operation ends before it would get a card
        before = len(shown)
        with ProgressTracker("read", "orders", listener=CardListener(delay=delay)) as tracker:
            tracker.add(rows=10, wire_bytes=2000)
            wait_until(lambda n=before, due=not delay: len(shown) > n or not due)
        assert len(ids()) == 1
    assert "after 2 other read operations in this cell: 20 rows, 4.0 kB in" in str(shown[-1])
    with ProgressTracker("read", "customers", listener=CardListener(delay=0)):
        wait_until(lambda: len(ids()) == 2)
    card_of_error(CardListener(delay=0), shown)
    assert len(ids()) == 2  # the last card of the loop shows the failure
    shell.run_cell("1;")
    with ProgressTracker("read", "orders", listener=CardListener(delay=0)):
        wait_until(lambda: len(ids()) == 3)
    shell.run_cell("1;")


def test_in_colab_the_main_thread_draws_the_first_and_last_state(shown, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    monkeypatch.setattr(CardListener, "_run", lambda *_: None)  # only this thread draws
    with ProgressTracker("read", "orders", listener=CardListener()):
        assert len(shown) == 1
    assert "read orders: done" in shown[-1]["data"]["text/plain"]


def test_an_interrupt_leaves_a_card_that_says_cancelled(shown):
    tracker = ProgressTracker("read", "orders", listener=CardListener(delay=0))
    with pytest.raises(KeyboardInterrupt), tracker:  # noqa: PT012  # the test interrupts this wait
        tracker.plan(rows_total=100)
        tracker.add(rows=41)
        wait_until(lambda: shown)
        raise KeyboardInterrupt
    assert "cancelled at 41 %" in shown[-1]["data"]["text/html"]
    assert not [t for t in threading.enumerate() if t.name == "odps-nb-flusher"]


def test_a_hundred_thousand_updates_send_five_messages_a_second(shown):
    began = time.monotonic()
    with ProgressTracker("read", "orders", listener=CardListener(delay=0)) as tracker:
        for _ in range(100_000):
            tracker.add(rows=1)
        wait_until(lambda: len(shown) >= 3)
    assert len(shown) <= 2 + (time.monotonic() - began) * 5 + 1


def test_a_card_can_be_displayed_before_the_operation_starts(shown):
    listener = CardListener()
    listener.place("read", "orders")
    assert len(shown) == 1
    with ProgressTracker("read", "orders", listener=listener):
        pass
    assert shown[-1]["update"] is True
    assert shown[-1]["data"]["text/plain"].startswith("read orders: done")


def test_an_operation_that_ended_between_cells_is_shown_in_the_next_cell(shell, shown):
    listener = CardListener()
    listener.place("read", "orders")
    with ProgressTracker("read", "orders", listener=listener):
        pass
    before = len(shown)
    shell.run_cell("1;")
    (again,) = shown[before:]
    assert (again["update"], again["transient"]) == (True, shown[0]["transient"])
    assert again["data"]["text/plain"].startswith("read orders: done")
    shell.run_cell("2;")
    assert len(shown) == before + 1


def card_of_error(listener: CardListener, shown) -> str:
    tracker = ProgressTracker("read", "orders", listener=listener)
    with pytest.raises(ValueError, match="told below"), tracker:  # noqa: PT012  # a card must show
        wait_until(lambda: shown)
        raise ValueError("told below")
    return shown[-1]["data"]["text/plain"]


def test_the_error_of_a_cell_is_reported_once(shown):
    text = card_of_error(CardListener(delay=0), shown)
    assert "ValueError" in text
    assert "told below" not in text


def test_a_background_card_shows_its_error(shown):
    listener = CardListener()
    listener.place("read", "orders")
    assert "ValueError: told below" in card_of_error(listener, shown)


def test_a_background_card_has_a_button_that_cancels_and_disappears(shown):
    from ipywidgets.widgets import widget

    pressed = threading.Event()
    listener = CardListener(on_cancel=pressed.set)
    listener.place("read", "orders")
    view = "application/vnd.jupyter.widget-view+json"
    (shown_button,) = (m for m in shown if view in m["data"])
    assert shown_button["data"]["text/plain"] == ""
    button = widget._instances[shown_button["data"][view]["model_id"]]
    button._handle_custom_msg({"do": "cancel"}, [])  # the message of its script
    assert pressed.is_set()
    with ProgressTracker("read", "orders", listener=listener):
        pass
    assert shown[-1]["data"] == {"text/plain": ""}
    assert shown[-1]["transient"] == shown_button["transient"]


def test_in_text_mode_a_card_has_no_html(shown):
    listener = CardListener(options=Options(progress="text"), delay=0)
    with ProgressTracker("read", "orders", listener=listener):
        wait_until(lambda: shown)
    assert all(set(m["data"]) == {"text/plain"} for m in shown)


def test_with_progress_none_no_card_is_shown(shown):
    listener = CardListener(options=Options(progress="none"), delay=0)
    with ProgressTracker("read", "orders", listener=listener):
        pass
    assert shown == []
