"""`StreamReader` reads the body of a response as a file-like object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odps_nb.errors import TruncatedError
from odps_nb.stream_io.base import ByteReader, Status, close_raw, status_of
from odps_nb.wire.calls.core import REQUEST_ID, find_header
from odps_nb.wire.calls.errors import decode_error

_AT_ONCE = 1 << 20
_ERROR_BODY = 1 << 20


class StreamReader(ByteReader):
    """A response body as a file-like object; raises if it is shorter than its Content-Length.

    Parameters
    ----------
    response_or_opener
        A response with ``read(n)`` (`odps_nb.http.transport.HttpResponse`, or one from requests).
        It may also be a function without arguments that fetches a response; the function is called
        when the response is first needed.

    Raises
    ------
    ServiceError
        Raised by any read: the response is an error from the server.
    TransportError
        The connection broke or timed out.
    TruncatedError
        The body ends before its Content-Length.

    Examples
    --------
    >>> import io
    >>> from odps_nb.stream_io import StreamReader
    >>> with StreamReader(io.BytesIO(b"bytes of an answer")) as reader:
    ...     reader.read(5), reader.read()
    (b'bytes', b' of an answer')
    """

    def __init__(self, response_or_opener: Any) -> None:
        is_answer = hasattr(response_or_opener, "read") or hasattr(response_or_opener, "raw")
        self._answer: Any = response_or_opener if is_answer else None
        self._opener: Callable[[], Any] | None = None if is_answer else response_or_opener
        self._body: Any = None
        self._length: int | None = None
        self._taken = 0

    @property
    def status(self) -> int | None:
        """HTTP status of the response; ``None`` if it has none. Sends the request if needed."""
        return status_of(self._opened())

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the response. Sends the request if needed."""
        return getattr(self._opened(), "headers", None) or {}

    @property
    def request_id(self) -> str | None:
        """The server's id for this request; ``None`` until the response has arrived."""
        return find_header(getattr(self._answer, "headers", None) or {}, REQUEST_ID)

    def read(self, nbytes: int | None = -1) -> bytes:
        """Return ``nbytes`` bytes (default: all that remain); fewer only at the end of the body."""
        wanted = -1 if nbytes is None else nbytes
        parts = [self.read1(wanted)]
        while parts[-1] and (wanted := wanted - (len(parts[-1]) if wanted > 0 else 0)):
            parts.append(self.read1(wanted))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read1(self, size: int = -1) -> bytes:
        """Read once; return at most ``size`` bytes, or empty bytes at the end."""
        self._opened()
        if not size:
            return b""
        wanted = size if size > 0 else _AT_ONCE
        data: bytes = self._guarded(self._taken_by, self._body.read, wanted)
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer``, or stop at the end of the body; return the number of bytes read."""
        self._opened()
        if not hasattr(self._body, "readinto"):
            return super().readinto(buffer)
        view, done = memoryview(buffer).cast("B"), 0
        while done < len(view) and (
            count := self._guarded(self._taken_by, self._body.readinto, view[done:])
        ):
            done += count
        return done

    def _opened(self) -> Any:
        self._check_usable()
        if self._answer is None and self._opener is not None:
            self._answer = self._opener()  # after an error, the function may be called again
        return self._guarded(self._checked)

    def _checked(self) -> Any:
        answer = self._answer
        if self._body is None:
            self._body = answer if hasattr(answer, "read") else answer.raw
            status, headers = status_of(answer) or 200, getattr(answer, "headers", None) or {}
            if not 200 <= status < 300:
                raise decode_error(status, headers, self._body.read(_ERROR_BODY))
            length = find_header(headers, "content-length")
            if length is not None and find_header(headers, "transfer-encoding") is None:
                self._length = int(length)
        return answer

    def _taken_by(self, step: Callable[[Any], Any], argument: Any) -> Any:
        result = step(argument)
        count = len(result) if isinstance(result, bytes) else result or 0
        self._taken += count
        self._ended = not count
        if self._ended and self._length is not None and self._taken < self._length:
            raise TruncatedError(
                f"the body ends after {self._taken} of {self._length} bytes",
                offset=self._taken,
                expected=self._length,
                actual=self._taken,
                request_id=self.request_id,
                hint="fetch it again",
            )
        return result

    def get_status(self) -> Status:
        """Return the state: `Status.OK` once the body has been read to its verified end."""
        return self._status()

    def get_request_id(self) -> str | None:
        """Return `request_id`."""
        return self.request_id

    def abort(self) -> None:
        """Make a blocked read end soon; may be called from any thread. Later reads raise."""
        stop = getattr(self._answer, "abort", None)
        if stop is not None:
            stop()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if not self._closed:
            self._closed = True
            close_raw(self._answer)
