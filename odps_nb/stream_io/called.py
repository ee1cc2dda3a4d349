"""Uploads that call a user's function with the request body as its argument.

``lambda body: requests.post(url, data=body)`` reads a whole body, but a writer receives the body
piece by piece. So the function runs in a thread and reads the writer's pieces from a pipe.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

from odps_nb.errors import BrokenStreamError, ServiceError
from odps_nb.http.transport import HttpRequest
from odps_nb.http.upload import Upload
from odps_nb.stream_io.base import close_raw, read_response
from odps_nb.wire.calls.core import REQUEST_ID, find_header
from odps_nb.wire.calls.errors import decode_error


def opener_of(function: Callable[..., Any]) -> Callable[[], Any]:
    """Return a function that begins an upload; a ``function`` with a parameter runs in a thread."""
    try:
        inspect.signature(function).bind()
    except TypeError:
        return lambda: CalledUpload(function)
    except ValueError:  # the signature is unknown, as for some C functions
        return function
    return function


class _Calls:
    """A transport that sends a request by calling the function with the request's body."""

    def __init__(self, function: Callable[[Iterator[bytes]], Any]) -> None:
        self._function, self._is_whole = function, False

    def send(self, request: HttpRequest) -> Any:
        assert isinstance(request.body, Iterable)
        answer = self._function(self._watched(request.body))
        if answer is None:
            raise BrokenStreamError(
                "the upload function returned no response",
                hint="return the response, e.g. that of requests.post",
            )
        early, close = not self._is_whole, partial(close_raw, answer)
        return SimpleNamespace(answer=answer, early=early, close=close)

    def _watched(self, body: Iterable[Any]) -> Iterator[bytes]:
        yield from body
        self._is_whole = True

    def close(self) -> None:
        """Do nothing, because there are no connections to close."""


def _refuse_early(response: Any) -> Exception:
    status, headers, body = read_response(response.answer)
    if status != 200:
        return decode_error(status, headers, body)
    return ServiceError(
        "the server responded before the request ended",
        status=status,
        request_id=find_header(headers, REQUEST_ID),
    )


class CalledUpload(Upload):
    """An upload that calls ``function(body)``; `finish` returns the function's return value.

    If the function raises, `write` or `finish` raises the same error. After `abort`, reading the
    body raises an error in the function; `abort` does not wait until the function returns.
    """

    def __init__(self, function: Callable[[Iterator[bytes]], Any]) -> None:
        super().__init__(
            _Calls(function),
            lambda body: HttpRequest(method="POST", url="", body=body),
            reject=_refuse_early,
        )

    def finish(self) -> Any:
        """End the body and return the function's return value."""
        response: Any = super().finish()
        return response.answer

    def abort(self) -> None:
        """Abort the body. Idempotent."""
        if self._home.is_here:
            self._aborted = self._aborted or not self._finished
            self.end()
