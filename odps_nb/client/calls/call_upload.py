"""One call whose request body is written piece by piece, whatever it holds."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from odps_nb.errors import ConnectError
from odps_nb.http.transport import HttpResponse
from odps_nb.http.upload import Upload

T = TypeVar("T")


class CallUpload(Generic[T]):
    """A call whose request body is being written; leaving it without `finish` aborts.

    `write` takes any buffer of bytes and blocks while the server is slow; failures while sending,
    an early response included, are raised by the next `write` or by `finish`.
    """

    def __init__(
        self, upload: Upload, decode: Callable[[HttpResponse], T], unreached: Callable[[], None]
    ) -> None:
        self._upload, self._decode, self._unreached = upload, decode, unreached
        self._answer: T | None = None
        self.write: Callable[[Any], int] = upload.write
        self.abort: Callable[[], None] = upload.abort

    @property
    def sent_bytes(self) -> int:
        """Bytes accepted for sending so far."""
        return self._upload.sent_bytes

    def finish(self) -> T:
        """End the body and return the server's answer; the same one if called again."""
        if self._answer is None:
            with self._upload.finish() as response:
                self._answer = self._decode(response)
        return self._answer

    def __enter__(self) -> CallUpload[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, ConnectError):
            self._unreached()
        self._upload.__exit__(kind, error, _)
