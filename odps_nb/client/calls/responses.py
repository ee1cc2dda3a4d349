"""Checks the status and size of responses, including those to streamed uploads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from odps_nb.errors import FramingError, OdpsNbError, OversizeError, ServiceError
from odps_nb.http.retry import seconds_until_retry
from odps_nb.http.transport import HttpResponse
from odps_nb.http.upload import Upload
from odps_nb.wire.calls import decode_error
from odps_nb.wire.calls.errors import GZIP_MAGIC, MAX_RETRY_AFTER, find_refusal

T = TypeVar("T")

MAX_DOCUMENT = 1 << 28  # maximum bytes of a JSON or XML response
MAX_ERROR = 1 << 20
# Parts of error messages from services that do not support signature version 4. pyodps falls back
# to version 2 for the same messages (``docs/protocol.md`` section 2.3).
_NO_VERSION_4 = ("need ak v3 support", "accesskey acl denied", "odps-0410051", "invalid or missing")


def raise_for_status(response: HttpResponse, now: float) -> HttpResponse:
    """Return a successful response; for any other, raise the error that it reports.

    ``now`` is the response's arrival time, in seconds since the epoch.
    """
    if 200 <= response.status < 300:
        return response
    raise refusal(response, now)


def refusal(response: HttpResponse, now: float) -> ServiceError:
    """Close an unsuccessful response and return the error that it reports."""
    with response:
        response.end_in_time()
        body, sender = response.read(MAX_ERROR), str(response.host)
        error = decode_error(response.status, response.headers, body, sender)
    delay = seconds_until_retry(response.headers, now)
    if delay is not None:
        error.retry_after = min(delay, MAX_RETRY_AFTER)
    return error


def doubt_version_4(error: ServiceError) -> None:
    """Add a hint if an error suggests that the service does not support signature version 4."""
    if any(words in error.message.lower() for words in _NO_VERSION_4):
        error.hint = (
            "connect without region= to sign with version 2; this service may not support "
            "signature version 4"
        )


def document(response: HttpResponse) -> bytes:
    """Return the whole body of a JSON or XML response; raise if it is an error or a web page."""
    response.end_in_time()
    pieces: list[bytes] = []
    for piece in response.chunks():
        pieces.append(piece)
        if response.wire_bytes > MAX_DOCUMENT:
            raise OversizeError(
                "the JSON or XML response is too large",
                limit=MAX_DOCUMENT,
                actual=response.wire_bytes,
                request_id=response.request_id,
            )
    body = b"".join(pieces)
    if body[:2] == GZIP_MAGIC:
        raise FramingError(
            f"{response.host} sent a compressed document, which the client did not request",
            request_id=response.request_id,
            hint="check the proxies on the way to the service: one of them compresses responses",
        )
    if (error := find_refusal(response.headers, body, str(response.host))) is not None:
        raise error
    return body


class CallUpload(Generic[T]):
    """A call whose request body is being written; leaving the block before `finish` aborts it.

    `write` accepts any bytes-like object and blocks while the server is slow. If sending fails or
    a response arrives early, the next `write` or `finish` raises the error.
    """

    def __init__(
        self,
        upload: Upload,
        decode: Callable[[HttpResponse], T],
        failed: Callable[[OdpsNbError], None],
    ) -> None:
        self._upload, self._decode, self._failed = upload, decode, failed
        self._answer: T | None = None
        self.write: Callable[[Any], int] = upload.write
        self.abort: Callable[[], None] = upload.abort

    @property
    def sent_bytes(self) -> int:
        """Number of bytes accepted for sending so far."""
        return self._upload.sent_bytes

    def finish(self) -> T:
        """End the body and return the server's response; later calls return the same response."""
        if self._answer is None:
            with self._upload.finish() as response:
                self._answer = self._decode(response)
        return self._answer

    def __enter__(self) -> CallUpload[T]:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OdpsNbError):
            self._failed(error)
        self._upload.__exit__(kind, error, trace)
