"""Runs many iterators concurrently and merges their items into one iterator.

Worker threads start jobs in order and put their items into queues, one per job. The total size of
the queued items is limited. To prevent a deadlock at the limit, the queue that the consumer is
reading may always receive one more item.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from odps_nb.client.calls.cancel import SHORT_WAIT, CancelToken
from odps_nb.lifetime import Home, end_at_exit, start_thread

DEFAULT_MAX_BYTES = 256 * 2**20
DEFAULT_WORKERS = 8
ITEMS_PER_STEP = 8
"""Number of items without a 429 after which one more job may run."""

T = TypeVar("T")
Job = Callable[[CancelToken], Iterator[T]]


class AdaptiveConcurrency:
    """A thread-safe limit on concurrent jobs, between 1 and its initial value ``most``.

    Each 429 lowers the limit by one; `ITEMS_PER_STEP` items without a 429 raise it by one. Running
    jobs are not stopped. ``tell`` is called with a line of text at each change.

    Examples
    --------
    >>> concurrency = AdaptiveConcurrency(4)
    >>> concurrency.refused()
    >>> concurrency.refused()
    >>> concurrency.limit
    2
    >>> for _ in range(ITEMS_PER_STEP):
    ...     concurrency.record()
    >>> concurrency.limit
    3
    """

    def __init__(self, most: int, *, tell: Callable[[str], None] = lambda line: None) -> None:
        self._lock = threading.Lock()
        self._tell = tell
        self._since = 0  # number of items since the limit changed
        self.most: int = max(1, most)
        self.limit: int = self.most
        """Number of jobs that may currently run."""
        self.items: int = 0
        """Number of items that have arrived, from all jobs."""
        self.starving: bool = False
        """Whether the service has throttled a job and no item has arrived since then."""

    def refused(self) -> None:
        """Lower the limit by one, because the service throttled a request."""
        with self._lock:
            self.starving, self._since = True, 0
            self._change(self.limit - 1, "the service responded with 429 (too many requests)")

    def record(self) -> None:
        """Count an item; after enough items without a 429, raise the limit by one."""
        with self._lock:
            self.items += 1
            self._since += 1
            self.starving = False
            if self._since >= ITEMS_PER_STEP and self.limit < self.most:
                self._since = 0
                self._change(self.limit + 1, "no throttling recently")

    def _change(self, limit: int, why: str) -> None:
        limit, before = max(1, min(self.most, limit)), self.limit
        if limit != before:
            self.limit = limit
            self._tell(f"{limit} concurrent requests instead of {before}: {why}")


def fan_out(
    jobs: Iterable[Job[T]],
    *,
    size: Callable[[T], int],
    workers: int | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    total_bytes: int | None = None,
    ordered: bool = True,
    concurrency: AdaptiveConcurrency | None = None,
    cancel: CancelToken | None = None,
) -> Generator[T, None, None]:
    """Iterate over the items of all jobs; leaving the iterator stops and joins the workers.

    Parameters
    ----------
    jobs
        Each job is called in a worker thread with this call's cancel token and returns an iterator.
        Jobs are taken from ``jobs`` in order, a few in advance. If an iterator has a method
        ``rest()``, it is called about ten times a second while an item waits for space in its
        queue, e.g. as a keepalive.
    size
        Function that returns an item's size in bytes.
    workers
        Number of concurrent jobs; by default the limit of ``concurrency``, or 8. With 1, all jobs
        run in the caller's thread.
    max_bytes
        Maximum total bytes of the items to buffer for the consumer.
    total_bytes
        Total bytes that the consumer will need; no more than this is read ahead.
    ordered
        Whether to return items job by job, or as they arrive (in order within each job).
    """
    if workers is None:
        workers = DEFAULT_WORKERS if concurrency is None else concurrency.most
    pending = iter(jobs)
    first = list(itertools.islice(pending, max(1, workers)))
    pending = itertools.chain(first, pending)
    if len(first) <= 1:
        return _one_by_one(pending, cancel or CancelToken())
    left = sys.maxsize if total_bytes is None else total_bytes
    token = CancelToken(parent=cancel)
    concurrency = concurrency or AdaptiveConcurrency(len(first))
    return _side_by_side(
        _Round(pending, size, max_bytes, left, concurrency, ordered, token), len(first)
    )


def _one_by_one(jobs: Iterator[Job[T]], cancel: CancelToken) -> Generator[T, None, None]:
    home = Home()
    for job in jobs:
        cancel.check()
        items = job(cancel)
        try:
            for item in items:
                yield item
                home.require("this iteration")
        finally:
            _close(items)


def _close(items: Iterator[T]) -> None:
    close = getattr(items, "close", None)  # iterators other than generators may lack this method
    if close is not None:
        close()


def _side_by_side(work: _Round[T], most: int) -> Generator[T, None, None]:
    launching: threading.Thread | None = None
    try:
        work.threads = [
            threading.Thread(target=work.run, name=f"odps_nb-worker-{number}", daemon=True)
            for number in range(most)
        ]
        for number, launching in enumerate(work.threads):
            try:
                start_thread(launching)
            except RuntimeError:  # too many threads exist; continue with those already started
                if number == 0:
                    raise
                break
        launching = None
        while (item := work.take()) is not None:
            yield item[0]
    finally:
        threads = work.close()
        if launching is not None:
            _await_launch(launching)
        for thread in threads:
            while thread.is_alive():
                thread.join(SHORT_WAIT)


def _await_launch(thread: threading.Thread) -> None:
    """After an interrupted ``start``, wait until it is known whether the thread runs."""
    for _ in range(30):
        known = thread.ident is not None
        time.sleep(0.01)  # a registered thread may not be alive yet
        if known:
            return


@dataclass(slots=True)
class _Queue(Generic[T]):
    """Items that a job has produced and that the consumer has not received yet."""

    items: deque[tuple[T, int]] = field(default_factory=deque)
    done: bool = False
    error: BaseException | None = None


class _Round(Generic[T]):
    """State shared by the workers and the consumer, guarded by one condition variable."""

    def __init__(
        self,
        jobs: Iterator[Job[T]],
        size: Callable[[T], int],
        max_waiting: int,
        left: int,
        concurrency: AdaptiveConcurrency,
        ordered: bool,  # noqa: FBT001  internal, passed once
        token: CancelToken,
    ) -> None:
        self._jobs, self._size = jobs, size
        self._max_waiting, self._left = max_waiting, left
        self._waiting = 0  # total bytes of the items in the queues
        self._concurrency, self._ordered, self._token = concurrency, ordered, token
        # for `with`, because Condition.__enter__ keeps the lock if Ctrl-C interrupts it
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self.threads: list[threading.Thread] = []
        self._queues: dict[int, _Queue[T]] = {}
        self._next = 0  # number of the next job to start
        self._running = 0
        self._head = 0  # number of the queue to read next, if ordered
        self._stopped = False
        self._job = next(jobs, None)  # the next job to start
        self._home = Home()
        token.watch(self)
        end_at_exit(self)

    # -- workers ------------------------------------------------------------------------------

    def run(self) -> None:
        """Run one job after another until none is left."""
        while (started := self._start_one()) is not None:
            number, queue, job = started
            error: BaseException | None = None
            try:
                self._work(number, queue, job)
            except BaseException as caught:  # noqa: BLE001  the consumer raises it
                error = caught
            self._end_one(queue, error)

    def _start_one(self) -> tuple[int, _Queue[T], Job[T]] | None:
        with self._lock:
            # Jobs start in order, so the consumer never waits for a job that cannot start.
            while self._job is not None and self._running >= self._concurrency.limit:
                self._changed.wait(SHORT_WAIT)
            job = self._job
            if job is None:
                return None
            self._running += 1
            number, self._next = self._next, self._next + 1
            queue = self._queues[number] = _Queue()
            self._job = self._job_after(number)
            return number, queue, job

    def _job_after(self, number: int) -> Job[T] | None:
        try:
            return next(self._jobs, None)
        except Exception as error:  # noqa: BLE001  the consumer raises it, in order
            self._queues[number + 1] = _Queue(done=True, error=error)
            return None

    def _work(self, number: int, queue: _Queue[T], job: Job[T]) -> None:
        items = job(self._token)
        try:
            for item in items:
                if not self._put(number, queue, item, items):
                    return
        finally:
            _close(items)

    def _put(self, number: int, queue: _Queue[T], item: T, items: Iterator[T]) -> bool:
        size = self._size(item)
        while not self._place(number, queue, item, size):
            if self._stopped:
                return False
            rest = getattr(items, "rest", None)  # periodic work while an item waits
            if rest is not None:
                rest()
        return True

    def _place(self, number: int, queue: _Queue[T], item: T, size: int) -> bool:
        """Add an item to its queue; return ``False`` if there is no room after a short wait."""

        def has_room() -> bool:
            return self._stopped or self._has_room(number, queue, size)

        with self._lock:
            if not has_room():
                self._changed.wait_for(has_room, SHORT_WAIT)
            if self._stopped or not has_room():
                return False
            queue.items.append((item, size))
            self._waiting += size
            self._concurrency.record()
            self._changed.notify_all()
            return True

    def _has_room(self, number: int, queue: _Queue[T], size: int) -> bool:
        if not self._waiting or self._waiting + size <= min(self._max_waiting, self._left):
            return True
        return self._ordered and number == self._head and not queue.items

    def _end_one(self, queue: _Queue[T], error: BaseException | None) -> None:
        with self._lock:
            queue.done, queue.error = True, error
            self._running -= 1
            if error is not None:
                self._job = None  # no more jobs are needed
            self._changed.notify_all()

    # -- the consumer -------------------------------------------------------------------------

    def take(self) -> tuple[T] | None:
        """Return the next item in a one-item tuple, or ``None`` after the last."""
        self._home.require("this iteration")
        with self._lock:
            while True:
                self._token.check()
                queue = self._head_queue() if self._ordered else self._any_queue()
                if queue is not None:
                    item, size = queue.items.popleft()
                    self._waiting -= size
                    self._left -= size  # bytes that the consumer still needs
                    self._changed.notify_all()
                    return (item,)
                if self._job is None and not self._queues:
                    return None
                self._changed.wait(SHORT_WAIT)

    def _head_queue(self) -> _Queue[T] | None:
        while (queue := self._queues.get(self._head)) is not None and not queue.items:
            if queue.error is not None:
                raise queue.error
            if not queue.done:
                return None
            del self._queues[self._head]
            self._head += 1
            self._changed.notify_all()  # the worker of the next queue may now exceed the limit
        return queue

    def _any_queue(self) -> _Queue[T] | None:
        for number, queue in list(self._queues.items()):
            if queue.error is not None:
                raise queue.error
            if queue.done and not queue.items:
                del self._queues[number]
        return next((queue for queue in self._queues.values() if queue.items), None)

    def close(self) -> list[threading.Thread]:
        """Stop all jobs; return the worker threads, which the caller joins."""
        if not self._home.is_here:
            return []  # the threads belong to the parent process
        self.end()
        return self.threads

    def end(self) -> None:
        """Stop all workers; called by the consumer, by a token, or at exit. Idempotent."""
        self._token.cancel()  # cancel first; otherwise the consumer would see a normal end
        self.stop()

    def stop(self) -> None:
        """Make all workers end soon, and drop the items that were not consumed."""
        with self._lock:
            self._stopped, self._job = True, None
            for queue in self._queues.values():
                queue.items.clear()
            self._changed.notify_all()
