from __future__ import annotations

import io
import sys
import threading
import time

import pytest

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.notebook.progress.line import LineListener
from odps_nb.notebook.progress.operations import Options
from tests.support.threads import wait_until


class Terminal(io.StringIO):
    """A stream whose `isatty` returns true."""

    def isatty(self) -> bool:
        return True


def run(listener: LineListener, *, until=lambda: True) -> None:
    with ProgressTracker("read", "orders", listener=listener) as tracker:
        tracker.plan(rows_total=1000)
        tracker.add(rows=1000, wire_bytes=12_300)
        wait_until(until)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith(("odps-nb-flusher", "tqdm"))]


def test_a_terminal_shows_one_line_that_remains_after_the_operation():
    terminal = Terminal()
    run(LineListener(file=terminal, delay=0), until=terminal.getvalue)
    text = terminal.getvalue()
    last = text.rstrip("\n").split("\r")[-1]
    assert "read orders: done in" in last
    assert "12.3 kB transferred" in last
    assert text.count("\n") == 1
    assert threads() == []


def test_a_line_is_ended_even_if_its_last_update_is_late(monkeypatch):
    terminal, now = Terminal(), time.time
    with ProgressTracker("read", "t", listener=LineListener(file=terminal, delay=0)):
        wait_until(terminal.getvalue)
        monkeypatch.setattr(time, "time", lambda: now() + 3600)
    assert terminal.getvalue().endswith("\n")


def test_an_interrupt_ends_the_line_with_cancelled():
    terminal = Terminal()
    tracker = ProgressTracker("read", "t", listener=LineListener(file=terminal, delay=0))
    with pytest.raises(KeyboardInterrupt), tracker:  # noqa: PT012  # the test interrupts this wait
        tracker.plan(rows_total=100)
        tracker.add(rows=41)
        wait_until(terminal.getvalue)
        raise KeyboardInterrupt
    assert "read t: cancelled at 41 %" in terminal.getvalue()
    assert threads() == []


@pytest.mark.parametrize(
    ("file", "delay", "progress"),
    [(io.StringIO, 0, "auto"), (Terminal, 60, "auto"), (Terminal, 0, "none")],
    ids=["a log file", "what ends at once", "none"],
)
def test_no_line_is_shown_without_a_terminal_or_for_a_short_operation(file, delay, progress):
    terminal = file()
    run(LineListener(file=terminal, delay=delay, options=Options(progress=progress)))
    assert terminal.getvalue() == ""


def test_without_tqdm_no_line_is_shown_and_no_error_raised(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    terminal = Terminal()
    run(LineListener(file=terminal, delay=0))
    assert terminal.getvalue() == ""
    assert threads() == []
