"""Threads that are started while a user presses Ctrl-C."""

from __future__ import annotations

import signal
import threading

import pytest

from odps_nb.lifetime import start_thread


class Interrupted(threading.Thread):
    """A SIGINT interrupts its start before the thread runs."""

    def start(self) -> None:
        signal.raise_signal(signal.SIGINT)
        super().start()


def test_an_interrupt_during_a_start_is_raised_when_the_thread_runs() -> None:
    handler, ran = signal.getsignal(signal.SIGINT), threading.Event()
    thread = Interrupted(target=ran.set)
    with pytest.raises(KeyboardInterrupt):
        start_thread(thread)
    thread.join()
    assert ran.is_set()
    assert signal.getsignal(signal.SIGINT) is handler


def test_threads_can_be_started_from_other_threads() -> None:
    ran = threading.Event()
    inner = threading.Thread(target=ran.set)
    outer = threading.Thread(target=start_thread, args=(inner,))
    outer.start()
    outer.join()
    inner.join()
    assert ran.is_set()


def test_a_thread_starts_if_interrupts_are_ignored() -> None:
    ran, before = threading.Event(), signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        thread = threading.Thread(target=ran.set)
        start_thread(thread)
        thread.join()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert ran.is_set()
