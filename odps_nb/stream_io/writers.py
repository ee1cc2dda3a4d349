"""`StreamWriter` and `BlobStreamWriter` send request bodies of table writes and blob uploads."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from odps_nb.errors import ChecksumError, ConversionError, FramingError, StateError
from odps_nb.stream_io.base import Status, read_response
from odps_nb.stream_io.called import opener_of
from odps_nb.terms import BlobReference, Compression
from odps_nb.wire.calls import WriteBlobAnswer, WriteRowsAnswer
from odps_nb.wire.calls.core import REQUEST_ID, find_header
from odps_nb.wire.calls.errors import decode_error
from odps_nb.wire.codings import encoder

Result = TypeVar("Result")


def _plain(data: Any) -> bytes:
    try:
        return memoryview(data).tobytes()
    except TypeError:
        name, is_text = type(data).__name__, isinstance(data, str)
        raise ConversionError(
            f"a stream accepts bytes, not {name}",
            source_type=name,
            target_type="bytes",
            hint="write(text.encode())" if is_text else "pass bytes or a bytes-like object",
        ) from None


class Finishing:
    """A writer as a context manager; exiting calls `finish`, or `abort` after an error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self: Any, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif self.writable():
            self.finish()

    def close(self: Any) -> None:
        """Abort, unless the writer is finished. Idempotent."""
        self.abort()


class _Writer(Finishing, Generic[Result]):
    """Base class of the writers, with ``write``, ``finish`` and ``abort``."""

    def __init__(self, upload_or_opener: Any) -> None:
        is_upload = hasattr(upload_or_opener, "write")
        self._upload: Any = upload_or_opener if is_upload else None
        self._opener = None if is_upload else opener_of(upload_or_opener)
        self._state = Status.RUNNING
        self._result: Result | None = None
        self._request_id: str | None = None

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Send ``data``, waiting while the peer is slow; return the number of bytes.

        Raises
        ------
        ServiceError
            The server refused the request before it was complete.
        ConversionError
            ``data`` is text or another type that is not bytes-like.
        StateError
            The writer was finished or aborted, or it failed.
        """
        self._check_open()
        plain = data if isinstance(data, bytes) else _plain(data)
        self._guarded(self._send, plain)
        return len(plain)

    def finish(self) -> Result:
        """End the body and return the server's response; later calls return the same one.

        Raises
        ------
        ServiceError
            The server rejected the request.
        TransportError
            No response arrived, so it is unknown whether the server acted on the request.
        """
        if self._result is None:
            self._check_open()
            self._result = self._guarded(self._end)
            self._state = Status.OK
        return self._result

    def abort(self) -> None:
        """Abort the request; the server stores nothing. Idempotent; no effect after `finish`."""
        if self._state is Status.RUNNING:
            self._state = Status.CANCELLED
            if self._upload is not None:
                self._upload.abort()

    def writable(self) -> bool:
        """Whether `write` may be called."""
        return self._state is Status.RUNNING

    @property
    def closed(self) -> bool:
        """Whether the writer no longer accepts data."""
        return not self.writable()

    def flush(self) -> None:
        """Do nothing, because `write` sends immediately."""

    @property
    def request_id(self) -> str | None:
        """The server's id for this request; ``None`` until the response has arrived."""
        return self._request_id

    def get_request_id(self) -> str | None:
        """Return `request_id`."""
        return self._request_id

    def get_status(self) -> Status:
        """Return the state: `Status.OK` once the server has confirmed the write."""
        return self._state

    def _check_open(self) -> None:
        if self._state is not Status.RUNNING:
            problem = f"the writer no longer accepts data (status: {self._state.value.lower()})"
            raise StateError(problem, hint="open another writer")

    def _opened(self) -> Any:
        if self._upload is None:
            assert self._opener is not None
            self._upload = self._opener()
        return self._upload

    def _guarded(self, step: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except BaseException:
            self._state = Status.FAILED
            if self._upload is not None:
                self._upload.abort()
            raise

    def _answer(self) -> tuple[bytes, Mapping[str, str]]:
        answer = self._opened().finish()
        self._request_id = find_header(answer.headers, REQUEST_ID)
        status, headers, body = read_response(answer)
        if status != 200:
            raise decode_error(status, headers, body)
        return body, headers

    @abstractmethod
    def _send(self, data: bytes) -> None: ...

    @abstractmethod
    def _end(self) -> Result: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The server's response to a write of rows; absent fields are ``None``.

    Unpacks like the SDK's result: ``commit_message, success = writer.finish()``, where ``success``
    is always true, because a failed write raises.

    Examples
    --------
    >>> nothing_more = dict.fromkeys(
    ...     ["exactly_once_row_offset", "staging_id", "request_id", "route_token"]
    ... )
    >>> result = WriteResult(commit_message="1", warning_message="", **nothing_more)
    >>> commit_message, success = result
    >>> commit_message, success
    ('1', True)
    """

    commit_message: str
    exactly_once_row_offset: int | None
    staging_id: str | None
    warning_message: str
    request_id: str | None
    route_token: str | None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.commit_message, True))

    def __getitem__(self, at: Any) -> Any:
        return (self.commit_message, True)[at]


class StreamWriter(_Writer[WriteResult]):
    """The request body of a table write; `finish` returns the server's response or raises.

    Leaving a ``with`` block calls `finish`, or `abort` after an error.

    Parameters
    ----------
    upload_or_opener
        An upload in progress (`odps_nb.http.upload.Upload` or any object with ``write``, ``finish``
        and ``abort``), or a function without arguments that begins one. It may also be a function
        that takes the body and returns the response, such as ``lambda body: requests.post(url,
        data=body)``; it is called in a separate thread.

    Examples
    --------
    >>> from odps_nb.stream_io import StreamWriter
    >>> class Server:  # stands for a connection
    ...     status, headers = 200, {"x-odps-request-id": "r1"}
    ...     def write(self, data): pass
    ...     def finish(self): return self
    ...     def abort(self): pass
    ...     def read(self): return b'{"CommitMessage": "m", "StagingId": "5"}'
    >>> with StreamWriter(Server()) as writer:
    ...     writer.write(b"bytes of an Arrow stream")
    24
    >>> writer.finish().staging_id, writer.request_id
    ('5', 'r1')
    """

    def _send(self, data: bytes) -> None:
        self._opened().write(data)

    def _end(self) -> WriteResult:
        body, headers = self._answer()
        answer = WriteRowsAnswer.decode(body, headers)
        return WriteResult(
            commit_message=answer.commit_message,
            exactly_once_row_offset=answer.row_offset,
            staging_id=answer.staging_id,
            warning_message=answer.warning,
            request_id=self._request_id,
            route_token=answer.route_token,
        )

    def get_write_stream_response(self) -> WriteResult | None:
        """Return the result of `finish`; ``None`` before `finish`."""
        return self._result

    def get_route_token(self) -> str | None:
        """Return the response's route token; ``None`` before `finish`, or if it has none."""
        return None if self._result is None else self._result.route_token


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlobResult:
    """A stored blob: its reference, its size in bytes and its MD5 (lower-case hex)."""

    reference: BlobReference
    size: int
    md5: str
    warning_message: str
    request_id: str | None

    @property
    def blob_reference(self) -> str:
        """The reference as text. To write it to a BLOB column, use ``reference.raw``."""
        return self.reference.token


class BlobStreamWriter(_Writer[WriteBlobResult]):
    """The request body of a blob upload; verifies the size and MD5 that the server returns.

    Leaving a ``with`` block calls `finish`, or `abort` after an error.

    Parameters
    ----------
    upload_or_opener
        As for `StreamWriter`. The request must declare the same compression.
    compression
        Coding of the body: ``None``, ``"zstd"`` or ``"lz4"``.

    Raises
    ------
    ChecksumError
        Raised by `finish`: the stored bytes differ from those sent.

    Examples
    --------
    >>> from odps_nb.stream_io import BlobStreamWriter
    >>> class Server:  # stands for a connection
    ...     status, headers = 200, {}
    ...     def write(self, data): pass
    ...     def finish(self): return self
    ...     def abort(self): pass
    ...     def read(self): return b'{"BlobReference": "/wByZWYw", "Size": 11}'
    >>> writer = BlobStreamWriter(Server(), compression="zstd")
    >>> writer.write(b"hello world")
    11
    >>> writer.finish().reference
    BlobReference('/wByZWYw')
    """

    def __init__(self, upload_or_opener: Any, compression: str | Compression | None = None) -> None:
        super().__init__(upload_or_opener)
        self._encoder = encoder(compression)
        self._digest = hashlib.md5(usedforsecurity=False)
        self._size = 0

    def _send(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)
        self._forward(self._encoder.feed(data))

    def _forward(self, coded: bytes) -> None:
        if coded:
            self._opened().write(coded)

    def _end(self) -> WriteBlobResult:
        self._forward(self._encoder.finish())
        body, headers = self._answer()
        answer = WriteBlobAnswer.decode(body, headers)
        if len(answer.references) != 1:
            raise FramingError(
                f"the response to an upload has {len(answer.references)} references instead of one",
                request_id=self._request_id,
            )
        md5 = self._digest.hexdigest()
        pairs: dict[str, Any] = {
            "size": (self._size, answer.size),
            "MD5": (md5, answer.md5 or None),
        }
        for what, (sent, found) in pairs.items():
            if found is not None and found != sent:
                raise ChecksumError(
                    f"the server stored a blob with {what} {found}, but {what} {sent} was sent",
                    expected=sent,
                    actual=found,
                    request_id=self._request_id,
                    hint="upload it again",
                )
        return WriteBlobResult(
            reference=answer.references[0],
            size=self._size,
            md5=md5,
            warning_message=answer.warning,
            request_id=self._request_id,
        )
