"""Request bodies that are written piece by piece into a bounded pipe and sent by a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from odps_nb.errors import CancelledError, ServiceError, StateError
from odps_nb.http.transport import HttpRequest, HttpResponse, Transport
from odps_nb.http.waiting import Abort
from odps_nb.lifetime import Home, end_at_exit, start_thread

_WAIT = 0.1  # maximum delay of Ctrl-C in seconds
_PIECE = 1 << 18  # bytes in one chunk on the wire
_PENDING = 1 << 22  # maximum bytes waiting in the pipe


class _Pipe:
    """A bounded queue of chunks from the writer to the sending thread; either side can end it.

    A waiting writer is woken when the pipe is half empty. Waking it for each chunk would take
    processor time from a peer on the same machine.
    """

    def __init__(self, limit: int) -> None:
        self.abort: Abort  # stops the request that reads from the pipe
        # for `with`, because Condition.__enter__ keeps the lock if Ctrl-C interrupts it
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._chunks: deque[bytes] = deque()
        self._limit = limit
        self._size = 0
        self._complete = False
        self._abandoned = False

    def put(self, chunk: bytes) -> None:
        """Wait for room and add a chunk; drop it if the reader has stopped reading."""
        with self._lock:
            if self._size >= self._limit:
                while self._size > self._limit // 2 and not self._abandoned:
                    self._changed.wait(_WAIT)
            if self._abandoned:
                return
            self._chunks.append(chunk)
            self._size += len(chunk)
            if len(self._chunks) == 1:
                self._changed.notify_all()

    def complete(self) -> None:
        """Mark the end of the body: no chunks follow."""
        with self._lock:
            self._complete = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """End the pipe, from either side, and drop the remaining chunks."""
        with self._lock:
            self._abandoned = True
            self._chunks.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._take()) is not None:
            yield chunk

    def _take(self) -> bytes | None:
        with self._lock:
            while not self._chunks:
                if self.abort.stopped:
                    raise CancelledError("the request was stopped")
                if self._complete:
                    return None
                self._changed.wait(_WAIT)
            chunk = self._chunks.popleft()
            self._size -= len(chunk)
            if self._size <= self._limit // 2:
                self._changed.notify_all()
            return chunk


def refuse_early(response: HttpResponse) -> Exception:
    """Return the error for a response that arrived before the request was complete."""
    with response:
        return ServiceError(
            f"the server responded with {response.status} before the request ended",
            status=response.status,
            request_id=response.request_id,
        )


class Upload:
    """A request whose body is being written; `finish` returns its response.

    Leaving a ``with`` block without `finish` aborts the request, and the server sees a truncated
    body. Use it from one thread; only `abort` and `end` are thread-safe. `write` blocks while
    ``pending`` bytes wait to be sent. ``reject`` converts an early response into the error that
    `write` raises.
    """

    def __init__(
        self,
        transport: Transport,
        request_factory: Callable[[Iterator[bytes]], HttpRequest],
        *,
        pending: int = _PENDING,
        reject: Callable[[HttpResponse], Exception] = refuse_early,
    ) -> None:
        self._transport, self._reject = transport, reject
        self._pipe = _Pipe(pending)
        self._request = request_factory(iter(self._pipe))
        self._pipe.abort = self._request.abort
        self._buffer = bytearray()
        self._response: HttpResponse | None = None
        self._error: BaseException | None = None
        self._finished = False
        self._aborted = False
        self.sent_bytes: int = 0
        self._home = Home()
        end_at_exit(self)
        self._thread = threading.Thread(target=self._run, name="odps_nb-upload", daemon=True)
        try:
            start_thread(self._thread)
        except BaseException:
            # If Ctrl-C arrives during the start, end the thread, which would otherwise wait for a
            # body.
            self.end()
            raise

    def write(self, data: Any) -> int:
        """Write all of ``data`` (any bytes-like object), waiting while the peer is slow."""
        self._home.require("this upload")
        if self._finished or self._aborted:
            raise StateError("the upload has ended", hint="open another one")
        self._raise_if_over()
        if type(data) is bytes and _PIECE // 2 <= len(data) <= _PIECE:
            self._flush()
            self._put(data)  # not copied, because copies would slow down large files
            return len(data)
        view = memoryview(data).cast("B")
        at = 0
        if self._buffer:
            at = min(len(view), _PIECE - len(self._buffer))
            self._buffer += view[:at]
            if len(self._buffer) == _PIECE:
                self._flush()
        while len(view) - at >= _PIECE:
            self._put(bytes(view[at : at + _PIECE]))
            at += _PIECE
        self._buffer += view[at:]
        return len(view)

    def finish(self) -> HttpResponse:
        """End the body and return the response; later calls return the same response."""
        self._home.require("this upload")
        if self._aborted:
            raise StateError("the upload was aborted")
        if not self._finished:
            self._raise_if_over()
            self._flush()
            self._finished = True
            self._pipe.complete()
        self._join()
        if self._error is not None:
            raise self._error
        assert self._response is not None  # the thread has ended without an error
        if self._response.early:
            self._error = self._reject(self._response)
            raise self._error
        return self._response

    def abort(self) -> None:
        """Truncate the body, close the connection and end the sending thread. Idempotent."""
        self._aborted = self._aborted or not self._finished
        if not self._home.is_here:
            return
        self.end()
        if threading.current_thread() is not self._thread:
            self._join()
        if self._response is not None:
            self._response.close()

    def end(self) -> None:
        """Stop sending, without waiting. Thread-safe and idempotent."""
        self._request.abort.stop()
        self._pipe.abandon()

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None or not self._finished:
            self.abort()

    def _flush(self) -> None:
        if self._buffer:
            chunk = bytes(self._buffer)
            self._buffer.clear()
            self._put(chunk)

    def _put(self, chunk: bytes) -> None:
        self.sent_bytes += len(chunk)
        self._pipe.put(chunk)  # after an error, the next `write` or `finish` raises it

    def _raise_if_over(self) -> None:
        if self._thread.is_alive():
            return
        if self._error is None and self._response is not None:
            self._error = self._reject(self._response)
        if self._error is not None:
            raise self._error

    def _join(self) -> None:
        while self._thread.is_alive():
            self._thread.join(_WAIT)

    def _run(self) -> None:
        try:
            self._response = self._transport.send(self._request)
        except BaseException as error:  # noqa: BLE001  any error is passed on to the writer
            self._error = error
        finally:
            self._pipe.abandon()
