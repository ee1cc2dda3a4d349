"""Counts one call's attempts, waits between them, and reports them as progress.

A resumable stream uses one `Attempts` for opening and reading; arriving rows reset its count.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from odps_nb.client.calls.cancel import SHORT_WAIT, CancelToken
from odps_nb.client.calls.new_tables import CreatedTable
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.errors import ConfigError, OdpsNbError, ProtocolError, ServiceError, ThrottledError
from odps_nb.http.hosts import Host
from odps_nb.http.retry import RetryPolicy
from odps_nb.wire.calls.hints import keys_expired

T = TypeVar("T")

_log = logging.getLogger("odps_nb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A clock, sleep function and random source, which tests can replace."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], object]
    chance: Callable[[], float] = random.random


@dataclass(slots=True, kw_only=True)
class Attempts:
    """The attempts of one call, made by one thread; created just before the first attempt.

    ``what`` names the call in notes, log lines and events. The call's requests use ``scope`` as
    their cancel token, so that `stop` reaches them after an interrupt.
    """

    what: str
    policy: RetryPolicy
    clock: Clock
    tracker: ProgressTracker | None = None
    cancel: CancelToken | None = None
    read_timeout: float | None = None
    receive_buffer: int | None = None
    patient: bool = False
    """Whether to retry a 429 until the deadline, because giving up would lose earlier progress."""
    trace_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    index: int = 0
    """Index of the current attempt, counted from 0 over the whole call."""
    new_table: CreatedTable | None = None
    """The table of the last request, if the connection has just created it."""
    service: str = ""
    """Endpoint of the last request."""
    host: Host | None = None
    """The host of the current attempt, which is named in notes on errors."""
    redact: Callable[[OdpsNbError], object] = lambda _: None
    """Hides the client's keys in an error."""
    renew: Callable[[], bool] = field(default=lambda: False, repr=False)
    """Fetches new keys if those of the last request have expired; returns whether there are any."""
    scope: CancelToken = field(init=False)
    _failed: int = 0
    _renewed: bool = False
    _refused: int = 0
    """Number of 429s since the last progress that are retried until the deadline."""
    _began: float = field(init=False)
    _attempt_began: float = field(init=False)

    def __post_init__(self) -> None:
        self.scope = CancelToken(parent=self.cancel)
        self._began = self._attempt_began = self.clock.monotonic()

    def stop(self) -> None:
        """Shut down the sockets of this call, which may still be open after an interrupt."""
        self.scope.cancel()

    def __enter__(self) -> Attempts:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self.stop()

    def run(self, once: Callable[[], T], *, idempotent: bool) -> T:
        """Call ``once`` until it succeeds or the retry policy gives up."""
        with self:
            while True:
                try:
                    return once()
                except OdpsNbError as error:
                    self.again(error, idempotent=idempotent)

    def progressed(self) -> None:
        """Reset the counts, so that the next failure counts as the first."""
        self._failed, self._refused, self._renewed = 0, 0, False
        self._began = self.clock.monotonic()

    def others_progressed(self) -> None:
        """Restore half of the attempts, because other calls make progress; keep the delays."""
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
        """Wait for the next attempt, or raise ``error`` with a note about the attempts.

        ``resume`` describes where the next attempt resumes, if not at the beginning. ``patient``
        has the same effect as the attribute, but only for this failure.
        """
        self.redact(error)
        if self.waited_for_new_table(error) or self._has_new_keys(error):
            return
        patient = (patient or self.patient) and isinstance(error, ThrottledError)
        if patient:
            self._refused += 1
        else:
            self._failed += 1
        now = self.clock.monotonic()
        elapsed = now - self._began
        delay = self.policy.decide(
            self._refused if patient else self._failed,
            error,
            idempotent=idempotent,
            elapsed=elapsed,
            chance=self.clock.chance(),
            patient=patient,
            took=now - self._attempt_began,
        )
        if self.cancel is not None:
            self.cancel.check()
        if delay is None:
            self.give_up(error, elapsed)
        self.index += 1
        next_step = f"resuming at {resume}" if resume else f"attempt {self._tries + 1}"
        self._announce(error, f"{next_step} in {delay:.1f} s", resumes=bool(resume))
        self.pause(delay)
        self._attempt_began = self.clock.monotonic()

    def waited_for_new_table(self, error: OdpsNbError, left: float | None = None) -> bool:
        """Wait if a new table may be missing temporarily; return whether to send again.

        ``left``: the seconds that the caller may still wait.
        """
        if self.new_table is None or self.policy.max_attempts < 2:
            return False
        seconds = self.new_table.pause(error, self.service)
        if seconds is None or (left is not None and left <= seconds):
            self.new_table.explain(error, self.service)
            return False
        self.index += 1
        self._announce(error, f"the table is new; retrying in {seconds:.1f} s")
        self.pause(seconds)
        return True

    def _has_new_keys(self, error: OdpsNbError) -> bool:
        """Return whether to send again with other keys; at most once without progress (pyodps)."""
        if self._renewed or self.policy.max_attempts < 2 or not keys_expired(error):
            return False
        try:
            self._renewed = self.renew()
        except ConfigError as second:
            error.add_note(f"new keys could not be fetched: {second}")
        if self._renewed:
            self.index += 1
            self._announce(error, "retrying with new keys")
        return self._renewed

    def _announce(self, error: OdpsNbError, then: str, *, resumes: bool = False) -> None:
        line = f"{self.what}: {type(error).__name__}: {error}; {then}"
        _log.info("%s", line)
        if self.tracker is not None:
            self.tracker.noted(line, resumes=resumes, retries=not resumes)

    def give_up(self, error: OdpsNbError, elapsed: float | None = None) -> NoReturn:
        """Raise ``error`` with a note on the call and, after a retry, its number of attempts."""
        self.redact(error)
        tries = "" if self._tries < 2 else f", {self._tries} attempts"
        spent = "" if elapsed is None or not tries else f" in {elapsed:.1f} s"
        error.add_note(f"{self.what}{self._place(error)}{tries}{spent}")
        raise error

    def _place(self, error: OdpsNbError) -> str:
        """Return the host that sent the faulty response, unless the error names it."""
        if self.host is None or not isinstance(error, (ServiceError, ProtocolError)):
            return ""
        return "" if self.host.place in error.message else f" at {self.host.named}"

    @property
    def _tries(self) -> int:
        return self._failed + self._refused

    def pause(self, seconds: float) -> None:
        """Sleep in short slices; raise as soon as the call is cancelled."""
        while seconds > 0:
            if self.cancel is not None:
                self.cancel.check()
            step = seconds if self.cancel is None else min(seconds, SHORT_WAIT)
            self.clock.sleep(step)
            seconds -= step
