"""One call whose request body is written piece by piece, whatever it holds."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from odps_nb.client.calls.responses import document
from odps_nb.errors import ConnectError
from odps_nb.http.transport import HttpResponse
from odps_nb.http.upload import Upload
from odps_nb.wire.calls import Call

T = TypeVar("T")


class CallUpload(Generic[T]):
    """A call whose request body is being written; leaving it without `finish` aborts.

    `write` takes any buffer of bytes and blocks while the server is slow; failures while sending,
    an early answer included, are raised by the next `write` or by `finish`.
    """

    def __init__(
        self,
        request: Call[T],
        upload: Upload,
        accepted: Callable[[HttpResponse], HttpResponse],
        unreached: Callable[[], None],
    ) -> None:
        self._request, self._upload, self._accepted = request, upload, accepted
        self._unreached = unreached
        self._answer: T | None = None

    @property
    def sent_bytes(self) -> int:
        """Bytes accepted for sending so far."""
        return self._upload.sent_bytes

    def write(self, data: Any) -> int:
        """Write all of ``data``; return its size in bytes."""
        return self._upload.write(data)

    def finish(self) -> T:
        """End the body and return the server's answer; the same one if called again.

        Raises
        ------
        TransportError
            No answer; if ``request_sent``, it is unknown whether the server acted.
        ServiceError
            The server refused the request.
        """
        if self._answer is None:
            with self._upload.finish() as response:
                body = document(self._accepted(response))
                self._answer = self._request.decode_answer(body, response.headers)
        return self._answer

    def abort(self) -> None:
        """Cut the body and close the connection. Idempotent."""
        self._upload.abort()

    def __enter__(self) -> CallUpload[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, ConnectError):
            self._unreached()
        self._upload.__exit__(kind, error, _)
