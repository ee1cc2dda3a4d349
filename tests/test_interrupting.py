"""A SIGINT whose exception Python drops is sent again: tests/support/interrupting.py."""

from __future__ import annotations

import signal
import threading
import weakref

import pytest

from tests.support.interrupting import interrupts_repeated


class Thing:
    """An object that weak references can refer to."""


def dropped_interrupt() -> None:
    """Raise the KeyboardInterrupt of a SIGINT in a weak reference's callback."""
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    assert reference() is None


def test_a_dropped_interrupt_is_sent_again():
    def work() -> None:
        with interrupts_repeated():
            dropped_interrupt()
            never = threading.Event()
            # A signal just before a wait begins is handled after it, so each wait is short.
            while not never.wait(0.01):
                pass

    with pytest.raises(KeyboardInterrupt):
        work()


def test_a_dropped_interrupt_is_sent_again_before_the_block_ends():
    def work() -> None:
        with interrupts_repeated():
            dropped_interrupt()

    with pytest.raises(KeyboardInterrupt):
        work()
