"""Reads a response body from the socket straight into the caller's buffer.

`http.client` and urllib3 make an extra copy of a chunked body. `http.client` also accepts a
negative chunk size, and its `readinto` accepts a body that ends before its Content-Length. This
reader reports the end of a body only if Content-Length or the last chunk proves it.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from http.client import HTTPResponse, IncompleteRead, LineTooLong
from io import BufferedReader
from typing import Any

from urllib3.exceptions import InvalidHeader

from odps_nb.errors import OversizeError
from odps_nb.http.waiting import SlicedReader

_BUFFER = 1 << 18
_MAX_LINE = 8192
_MAX_TRAILERS = 64
_MAX_HEADS = 10  # maximum heads per response, including "100 Continue"
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")


class _Head:
    """Reads a response head and keeps its last line, which is empty if the head is complete."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._heads = 0
        self.last = b""

    def readline(self, limit: int = -1) -> bytes:
        self.last = self._file.readline(limit)
        self._heads += self.last.startswith(b"HTTP/")
        if self._heads > _MAX_HEADS:
            raise OversizeError(
                "too many 1xx responses before the final one",
                limit=_MAX_HEADS,
                hint="check the proxies on the way to the service: one may send these responses",
            )
        return self.last

    def flush(self) -> None:
        """Do nothing; http.client calls this method when closing an interrupted response."""

    def close(self) -> None:
        self._file.close()


class BodyResponse(HTTPResponse):
    """An `http.client` response whose body is read only with `fill` and `some`."""

    length: int | None
    fp: Any = None  # a default, since `close` may run before http.client sets it
    _run = 0  # bytes left in the current chunk
    _in_chunk = False

    def __init__(self, sock: socket.socket, *args: Any, ahead: bytes = b"", **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        # http.client's own file object delays Ctrl-C, and its 8 KiB buffer needs two calls a chunk.
        self._source = SlicedReader(sock, ahead, hold=self.fp)
        self.fp = BufferedReader(self._source, _BUFFER)

    def begin(self) -> None:
        """Read the head; unlike http.client, raise if it is truncated."""
        file = self.fp
        head: Any = _Head(file)  # Any, because it has only the file methods that begin() calls
        try:
            self.fp = head
            super().begin()
        finally:
            if self.fp is head:
                self.fp = file
        if head.last not in (b"\r\n", b"\n"):
            raise IncompleteRead(head.last)
        if not self.chunked and self.length is None:
            self.length = self._stated_length()
        self.end_within(None)

    def _stated_length(self) -> int | None:
        """Return a Content-Length that http.client ignores: a number repeated by a proxy."""
        stated = {text.strip() for text in (self.headers["content-length"] or "").split(",")}
        if stated == {""}:
            return None
        if len(stated) == 1 and (text := stated.pop()).isascii() and text.isdigit():
            return int(text)
        raise InvalidHeader(f"Content-Length: {self.headers['content-length'][:80]}")

    def end_within(self, seconds: float | None) -> None:
        """Limit the time for the remaining response to ``seconds``; ``None``: no limit."""
        self._source.deadline = None if seconds is None else time.monotonic() + seconds

    @property
    def received(self) -> int:
        """Bytes received from the socket, including head and chunk framing."""
        return self._source.received

    @property
    def is_delimited(self) -> bool:
        """Whether HTTP itself marks where this body ends (Content-Length or chunks)."""
        return bool(self.chunked) or self.length is not None

    def available(self) -> int:
        """Return how many bytes can be read before the chunk or body ends; 0 at the end."""
        if self.fp is None:
            return 0
        if self.chunked:
            left = self._run or self._next_chunk()
        elif self.length is None:
            return sys.maxsize
        else:
            left = self.length
        if not left:
            self.close()
        return left

    def fill(self, view: memoryview) -> int:
        """Read until ``view`` is full or the body ends; return the number of bytes."""
        if view.format != "B":
            view = view.cast("B")
        done, size = 0, len(view)
        while done < size and (run := self.available()):
            count = self.fp.readinto(view[done : done + run] if done or run < size else view)
            if not self._count(count, run):
                break
            done += count
        return done

    def some(self, limit: int) -> bytes:
        """Return the bytes of one ``recv``, at most ``limit``; empty bytes at the end."""
        run = self.available()
        if not run:
            return b""
        data: bytes = self.fp.read1(min(limit, run))
        self._count(len(data), run)
        return data

    def _count(self, count: int, run: int) -> bool:
        if not count:
            if self.is_delimited:
                raise IncompleteRead(b"", run)
            self.close()
            return False
        if self.chunked:
            self._run -= count
        elif self.length is not None:
            self.length -= count
            if not self.length:
                self.close()
        return True

    def _next_chunk(self) -> int:
        if self._in_chunk and self._line() != b"\r\n":
            raise ValueError("a chunk does not end where its size requires")
        line = self._line()
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise ValueError(f"{line[:20]!r} is not a chunk size")
        self._run, self._in_chunk = int(match[1], 16), True
        if not self._run:
            self._skip_trailers()
        return self._run

    def _skip_trailers(self) -> None:
        for _ in range(_MAX_TRAILERS):
            if self._line() == b"\r\n":
                return
        raise LineTooLong("trailers")

    def _line(self) -> bytes:
        line: bytes = self.fp.readline(_MAX_LINE)
        if not line.endswith(b"\n"):
            raise IncompleteRead(line)
        return line
