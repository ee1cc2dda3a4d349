"""Keeps known harmless output of the JVM out of the notebook.

A notebook shows whatever arrives at file descriptor 2 as a red box. Two harmless messages are
dropped: Java's notice at its start, before Spark configures logging, and the traceback of a
Python worker whose remaining rows are not needed, after every ``show()`` and ``limit``. All else
passes through for as long as the JVM lives: its errors are the only trace of a failed start.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator

__all__ = ["NoiseFilter", "without_noise"]

_NOTICE = b"WARNING: Using incubator modules: "
_BEGIN = b"Traceback (most recent call last):"
# The daemon's own frames and nothing else: a pipe that broke in anybody's code is trouble.
_FRAME = re.compile(rb'  File "[^"]*pyspark[/\\]daemon\.py", line \d+, in \w+|    .*')
_END = b"BrokenPipeError: "
_MAX_LINES = 20
_STDERR = 2


class NoiseFilter:
    """Drops known noise from a stream of bytes; never cuts a line."""

    def __init__(self) -> None:
        self._rest = b""  # a line that has no end yet
        self._held: list[bytes] = []  # lines of what may be the traceback of a worker

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes and return those that may be shown."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        shown = b"".join(self._sift(line) for line in lines)
        if not self._held and not self._may_be_noise(self._rest):
            shown, self._rest = shown + self._rest, b""
        return shown

    def feed_eof(self) -> bytes:
        """Return the bytes still held back."""
        held = b"".join(line + b"\n" for line in self._held) + self._rest
        self._held, self._rest = [], b""
        return held

    def _sift(self, line: bytes) -> bytes:
        bare = line.rstrip(b"\r")
        if self._held:
            if bare.startswith(_END) and len(self._held) > 1:
                self._held = []
                return b""
            if _FRAME.fullmatch(bare) and len(self._held) < _MAX_LINES:
                self._held.append(line)
                return b""
            released = b"".join(one + b"\n" for one in self._held)
            self._held = []
            return released + self._sift(line)
        if bare == _BEGIN:
            self._held = [line]
            return b""
        return b"" if line.startswith(_NOTICE) else line + b"\n"

    def _may_be_noise(self, start: bytes) -> bool:
        return any(
            noise.startswith(start[: len(noise)]) and start != b"" for noise in (_NOTICE, _BEGIN)
        )


@contextlib.contextmanager
def without_noise() -> Iterator[None]:
    """Filter known noise out of what processes started inside write to stderr.

    They keep the write end; the thread that passes their lines on ends with the last of them.
    """
    try:
        outside = os.dup(_STDERR)
    except OSError:  # no stderr at all: nothing to keep clean
        yield
        return
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(
        target=_pass_on, args=(reading, os.dup(outside)), name="spark-stderr", daemon=True
    ).start()
    try:
        yield
    finally:
        os.dup2(outside, _STDERR)
        os.close(outside)


def _pass_on(reading: int, outside: int) -> None:
    with open(reading, "rb", buffering=0) as source, open(outside, "wb", buffering=0) as target:
        noise = NoiseFilter()
        while chunk := source.read(1 << 16):
            if shown := noise.feed(chunk):
                target.write(shown)
        if shown := noise.feed_eof():
            target.write(shown)
