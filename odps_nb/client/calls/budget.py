"""Limits the time that a number of requests may take together, whatever the network does."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import RequestTimeoutError
from odps_nb.http.transport import HttpRequest, HttpResponse, RequestsTransport, Transport

S = TypeVar("S")
T = TypeVar("T")

_SHARE = 0.13
"""Share of a budget that is kept for the end, to cancel a query."""


class Budget:
    """The seconds that a number of requests may take together.

    A part of them is kept: the requests themselves must end earlier, and `extended` then allows one
    more, such as the cancellation of a query.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds: float = seconds
        self.kept: float = seconds * _SHARE
        self._end = self._until = time.monotonic() + seconds - self.kept
        self.token: CancelToken = CancelToken()
        """Cancels all requests, except those in a block of `extended`."""
        self.is_extended: bool = False

    @property
    def left(self) -> float:
        """Seconds until the limit of the current block, at least 0."""
        return max(0.0, self._until - time.monotonic())

    @property
    def rest(self) -> float:
        """Seconds until the end of the budget, at least 0."""
        return max(0.0, self._end - time.monotonic())

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Limit the requests of this block to ``seconds`` in total."""
        self._until = min(self._end, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._until = self._end

    @contextmanager
    def extended(self) -> Iterator[None]:
        """Allow requests for `kept` seconds, even after the end of the budget."""
        self._until, self.is_extended = time.monotonic() + self.kept, True
        try:
            yield
        finally:
            self._until, self.is_extended = self._end, False


class BudgetTransport:
    """A `Transport` that limits each request to the time that is left in a budget."""

    def __init__(self, budget: Budget, transport: Transport | None = None) -> None:
        self._budget = budget
        self._transport = RequestsTransport() if transport is None else transport

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; raise `RequestTimeoutError` if no time is left."""
        left = round(self._budget.left, 1)
        if left <= 0:
            raise RequestTimeoutError(
                "no time was left to send this request", url=request.url, request_sent=False
            )
        if not self._budget.is_extended:
            self._budget.token.watch(request.abort)
        limited = replace(
            request,
            connect_timeout=min(left, request.connect_timeout),
            read_timeout=min(left, request.read_timeout),
            document_timeout=min(left, request.document_timeout),
        )
        return self._transport.send(limited)

    def close(self) -> None:
        """Free all connections. Idempotent."""
        self._transport.close()


def within(budget: Budget, work: Iterable[T]) -> Iterator[T]:
    """Iterate over ``work``, which a daemon thread computes, until the budget ends.

    Raises `RequestTimeoutError` at the limit. Not even a host name that is never resolved, which
    cannot be interrupted, delays it.
    """
    results: queue.SimpleQueue[Future[T] | None] = queue.SimpleQueue()

    def compute() -> None:
        try:
            for one in work:
                results.put(_done(one))
        except BaseException as error:  # noqa: BLE001  raised in the other thread
            results.put(_done(error))
        results.put(None)

    thread = threading.Thread(target=compute, name="odps_nb-checks", daemon=True)
    thread.start()
    try:
        while True:
            try:
                found = results.get(timeout=budget.rest)
            except queue.Empty:
                seconds = f"the {budget.seconds:g} s for these requests have passed"
                raise RequestTimeoutError(seconds) from None
            if found is None:
                return
            yield found.result()
    finally:
        budget.token.cancel()
        thread.join(budget.kept)


def side_by_side(do: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Return ``do(item)`` for each item, computed in one daemon thread per item."""
    futures: list[Future[T]] = []
    for item in items:
        future: Future[T] = Future()
        futures.append(future)
        threading.Thread(
            target=_settle, args=(future, do, item), name="odps_nb-check", daemon=True
        ).start()
    return [future.result() for future in futures]


def _settle(future: Future[T], do: Callable[[S], T], item: S) -> None:
    try:
        future.set_result(do(item))
    except BaseException as error:  # noqa: BLE001  raised in the other thread
        future.set_exception(error)


def _done(value: T | BaseException) -> Future[T]:
    future: Future[T] = Future()
    if isinstance(value, BaseException):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future
