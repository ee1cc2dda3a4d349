"""Shared parts of the stream classes: status, state checks, and access to responses."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Self

from odps_nb.errors import StateError

_TRUSTED_SIZE = 64 << 20  # allocate up to this size at once, and more only as bytes arrive
_STEP = 1 << 20


class Status(str, Enum):
    """State of a stream: running, or one of the final states.

    A member equals the SDK's member with the same name. The SDK's `INIT` and `WAIT` also exist
    here, but are never returned.

    Examples
    --------
    >>> Status.RUNNING.value
    'RUNNING'
    """

    INIT = "INIT"
    OK = "OK"
    WAIT = "WAIT"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Enum) and type(other).__name__ == "Status":
            return self.name == other.name
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def status_of(answer: Any) -> int | None:
    """Return the HTTP status of a response, which may come from this package or from requests."""
    status: int | None = getattr(answer, "status", None)
    return status if status is not None else getattr(answer, "status_code", None)


def read_response(answer: Any) -> tuple[int, Mapping[str, str], bytes]:
    """Return a response's status, headers and body, and close it."""
    body = answer.read() if hasattr(answer, "read") else answer.content
    close_raw(answer)
    return status_of(answer) or 200, getattr(answer, "headers", None) or {}, body


def close_raw(raw: Any) -> None:
    """Call ``raw.close()`` if the method exists."""
    close = getattr(raw, "close", None)
    if close is not None:
        close()


class _Filler(io.RawIOBase):
    def __init__(self, fill: Callable[[memoryview], int]) -> None:
        self._fill = fill

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        return self._fill(memoryview(buffer)[:_STEP])


def read_into_new(fill: Callable[[memoryview], int], size: int) -> bytes:
    """Return up to ``size`` bytes; call ``fill`` for 1 MiB at a time until it returns 0."""
    if size <= _TRUSTED_SIZE:
        # A BufferedReader allocates bytes without zeroing them and fills them in place.
        return io.BufferedReader(_Filler(fill), 1).read(size)
    sink, buffer = io.BytesIO(), memoryview(bytearray(_STEP))
    while size and (count := fill(buffer[:size])):
        sink.write(buffer[:count])
        size -= count
    return sink.getvalue()


class Guarded:
    """A reader that raises `StateError` after it was closed or one of its steps failed."""

    _name = "stream"
    _failed = _ended = _closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self: Any, *_: object) -> None:
        self.close()

    def _status(self) -> Status:
        if self._failed:
            return Status.FAILED
        if self._ended:
            return Status.OK
        return Status.CANCELLED if self._closed else Status.RUNNING

    def _check_usable(self) -> None:
        if self._closed:
            raise StateError(f"the {self._name} is closed", hint="read from it before closing it")
        if self._failed:
            raise StateError(
                f"the {self._name} has already failed; data after a damaged part cannot be decoded",
                hint="open it again",
            )

    def _guarded(self, step: Callable[..., Any], *arguments: Any) -> Any:
        self._check_usable()
        self._failed = True  # reset if the step succeeds
        result = step(*arguments)
        self._failed = False
        return result


class ByteReader(Guarded, io.BufferedIOBase):
    """A file-like object that raises `StateError` after it was closed or a read failed."""

    def readable(self) -> bool:
        """Whether the stream is open."""
        return not self._closed
