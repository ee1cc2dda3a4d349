"""What tests of the coordinator share: jobs in place of a Spark, a listener, raw reports."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from odps_nb.client.calls.progress import Phase
from odps_nb.spark.progress.jobs import Jobs, Outcome
from odps_nb.spark.progress.messages import Hello, Report, ReportTo, encode
from odps_nb.spark.progress.totals import TrackedActivity
from odps_nb.terms import IndexSplit
from tests.support.spark import watched
from tests.support.spark.watched import WITHIN


class SomeJobs(Jobs):
    """Jobs whose stages run for as long as the test says, in place of a Spark."""

    def __init__(self) -> None:
        self.active: set[int] = set()
        self.cancelled: list[int] = []
        self.ended = Outcome.SUCCEEDED
        self.gone = False
        self.running: set[str] = set()
        self.asked = threading.Semaphore(0)

    @property
    def stopped(self) -> bool:
        return self.gone

    def active_stages(self) -> frozenset[int]:
        return frozenset(self.active)

    def active_jobs(self, known: object = ()) -> dict[int, frozenset[int]]:
        return {}

    def outcome(self, jobs: object, stages: object) -> Outcome:
        return self.ended

    def executing(self, execution: str) -> bool:
        self.asked.release()
        return execution in self.running

    def cancel_stages(self, stages: Iterator[int]) -> None:
        self.cancelled += stages
        self.active -= set(self.cancelled)


class Listener(watched.Listener):
    """One that an activity makes for each of its runs: always the same."""

    def __init__(self) -> None:
        super().__init__()
        self.on_cancel: Callable[[], None] | None = None

    def __call__(self, *, on_cancel: Callable[[], None] | None = None) -> Listener:
        self.on_cancel = on_cancel
        return self


def read_activity(listener: Listener, count: int = 2) -> TrackedActivity:
    return TrackedActivity(
        operation="read",
        title="t",
        phase=Phase.READING,
        parts=tuple(IndexSplit(n) for n in range(count)),
        listener=listener,
    )


def hello(to: ReportTo, part: int = 0, *, stage: int = 5, tags: tuple[str, ...] = ()) -> Hello:
    return Hello(
        activity=to.activity,
        execution="1",
        tags=tags,
        stage=stage,
        partition=part,
        attempt=part,
        part=part,
    )


@contextlib.contextmanager
def connected(to: ReportTo, *lines: bytes) -> Iterator[socket.socket]:
    with socket.create_connection((to.host, to.port), WITHIN) as link:
        link.sendall(b"".join(lines))
        yield link


def is_refused(link: socket.socket) -> bool:
    """Whether the driver ends the connection without a word."""
    with contextlib.suppress(ConnectionError):
        return link.recv(10) == b""
    return True


def hello_line(to: ReportTo, part: int = 0, **others: Any) -> bytes:
    return encode(hello(to, part, **others), to.token)


def figures(rows: int, *, done: bool = False) -> bytes:
    return encode(Report(rows=rows, done=done))
