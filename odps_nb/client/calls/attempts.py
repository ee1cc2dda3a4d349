"""Counts the attempts of one call, waits between them, and reports them as progress.

A resumed stream uses one `Attempts` for opening and reading; arriving rows reset the count.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from odps_nb.client.calls.cancel import SHORT_WAIT, CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.errors import OdpsNbError, ThrottledError
from odps_nb.http.retry import RetryPolicy

T = TypeVar("T")

_log = logging.getLogger("odps_nb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Clock, sleep and random source; tests pass their own."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], object]
    chance: Callable[[], float] = random.random


@dataclass(slots=True, kw_only=True)
class Attempts:
    """The attempts of one logical call, made by one thread; begins with the first attempt.

    ``what`` names the call in notes, log lines and events. Everything that the call sends runs
    under ``scope``, so that `stop` reaches it after an interrupt.
    """

    what: str
    policy: RetryPolicy
    clock: Clock
    tracker: ProgressTracker | None = None
    cancel: CancelToken | None = None
    read_timeout: float | None = None
    receive_buffer: int | None = None
    patient: bool = False
    """Whether a 429 is retried until the deadline: giving up would lose what was done so far."""
    trace_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    index: int = 0
    """Number of the current attempt, from 0, counted over the whole call."""
    scope: CancelToken = field(init=False)
    _failed: int = 0
    _refused: int = 0
    """429s received while other splits progress: counted separately, bounded by the deadline."""
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self.scope = CancelToken(parent=self.cancel)
        self._began = self.clock.monotonic()

    def stop(self) -> None:
        """Shut down the sockets of this call: after an interrupt they may still be open."""
        self.scope.cancel()

    def __enter__(self) -> Attempts:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self.stop()

    def run(self, once: Callable[[], T], *, idempotent: bool) -> T:
        """Call ``once`` until it succeeds, or the policy gives up."""
        with self:
            while True:
                try:
                    return once()
                except OdpsNbError as error:
                    self.again(error, idempotent=idempotent)

    def progressed(self) -> None:
        """Reset the count, so that the next failure is the first."""
        self._failed = self._refused = 0
        self._began = self.clock.monotonic()

    def others_progressed(self) -> None:
        """Restore half of the attempts, as other calls of the job progress; waits stay long."""
        self._failed = min(self._failed, self.policy.max_attempts // 2)
        self._began = self.clock.monotonic()

    def again(
        self,
        error: OdpsNbError,
        *,
        idempotent: bool,
        resume: str | None = None,
        patient: bool = False,
    ) -> None:
        """Wait until the next attempt, or raise ``error`` with a note about the attempts.

        ``resume`` names where the next attempt resumes, if not at the beginning; ``patient`` has
        the meaning of the attribute, for this failure only.
        """
        patient = (patient or self.patient) and isinstance(error, ThrottledError)
        if patient:
            self._refused += 1
        else:
            self._failed += 1
        elapsed = self.clock.monotonic() - self._began
        delay = self.policy.decide(
            self._refused if patient else self._failed,
            error,
            idempotent=idempotent,
            elapsed=elapsed,
            chance=self.clock.chance(),
            patient=patient,
        )
        if self.cancel is not None:
            self.cancel.check()
        if delay is None:
            self.give_up(error, elapsed)
        self.index += 1
        place = f"resuming at {resume}" if resume else f"attempt {self._tries + 1}"
        line = f"{self.what}: {type(error).__name__}: {error}; {place} in {delay:.1f} s"
        _log.info("%s", line)
        if self.tracker is not None:
            (self.tracker.resumed if resume else self.tracker.retried)(line)
        self.pause(delay)

    def give_up(self, error: OdpsNbError, elapsed: float | None = None) -> NoReturn:
        """Raise ``error`` with a note that names the call, and its attempts if several."""
        tries = "" if self._tries < 2 else f", {self._tries} attempts"
        spent = "" if elapsed is None or not tries else f" in {elapsed:.1f} s"
        error.add_note(f"{self.what}{tries}{spent}")
        raise error

    @property
    def _tries(self) -> int:
        return self._failed + self._refused

    def pause(self, seconds: float) -> None:
        """Sleep in short slices; return at once when cancelled."""
        while seconds > 0:
            if self.cancel is not None:
                self.cancel.check()
            step = seconds if self.cancel is None else min(seconds, SHORT_WAIT)
            self.clock.sleep(step)
            seconds -= step
