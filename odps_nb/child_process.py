"""Child processes that can be killed at any time, and the messages sent over their pipes.

A message is ``u32 length of JSON · u64 length of data · JSON · data``. This module has few imports
because it is loaded by processes that parse untrusted bytes or run the embedded service's queries.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import IO, Any, Final

LENGTHS: Final = struct.Struct(">IQ")
# programs need these to find their libraries; other variables may contain keys
_ALWAYS: Final = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
OF_PYTHON: Final = ("PYTHON*", "VIRTUAL_ENV", "TMPDIR", "TZ", "LANG", "LC_*", "COV_*", "COVERAGE_*")
"""Patterns for `passed_on`: the variables that configure Python, its locale and its time zone."""


def passed_on(*patterns: str) -> dict[str, str]:
    """Return the matching environment variables; the others may be secrets."""
    allowed = (*_ALWAYS, *patterns)
    return {
        k: v for k, v in os.environ.items() if any(fnmatchcase(k, pattern) for pattern in allowed)
    }


def pack(found: Mapping[str, Any], data: bytes | memoryview = b"") -> bytes:
    """Return the bytes of one message."""
    text = json.dumps(found).encode()
    return b"".join((LENGTHS.pack(len(text), len(data)), text, data))


def unpack(source: IO[bytes], limit: int = sys.maxsize) -> tuple[dict[str, Any], bytes]:
    """Read one message.

    Raise `EOFError` if the other process has ended, and `ValueError` or `RecursionError` if the
    message is invalid or exceeds ``limit`` bytes.
    """
    length, size = LENGTHS.unpack(_exactly(source, LENGTHS.size))
    if length + size > limit:
        raise ValueError("answer too long")
    message = json.loads(_exactly(source, length))
    data = _exactly(source, size)
    if not isinstance(message, dict):
        raise ValueError("invalid answer")
    return message, data


def _exactly(source: IO[bytes], count: int) -> bytes:
    data = source.read(count)
    if len(data) < count:
        raise EOFError("the process has ended")
    return data


class Child(subprocess.Popen[bytes]):
    """A child process in its own session, so Ctrl-C does not reach it."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, quiet: bool = False
    ) -> None:
        super().__init__(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            env=environment,
            start_new_session=True,
        )
        assert self.stdin is not None
        assert self.stdout is not None
        self.pipes = self.stdin, self.stdout

    def send(self, found: Mapping[str, Any], data: bytes = b"") -> None:
        """Send one message; raise `BrokenPipeError` if the process has ended."""
        self.pipes[0].write(pack(found, data))
        self.pipes[0].flush()

    def receive(self, limit: int) -> tuple[dict[str, Any], bytes]:
        """Return the next message; raise the same errors as `unpack`."""
        return unpack(self.pipes[1], limit)

    def kill(self) -> None:
        """Kill the process and its forks; a waiting `receive` then raises `EOFError`."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if hasattr(os, "killpg"):
                    os.killpg(self.pid, signal.SIGKILL)
                else:
                    super().kill()

    def end(self) -> int:
        """Kill the process and close its pipes; return its exit status. Idempotent."""
        self.kill()
        code = self.wait()
        for pipe in self.pipes:
            with contextlib.suppress(OSError):  # closing fails if data could not be sent
                pipe.close()
        return code

    def forget(self) -> None:
        """Close a forked process's copy of the pipes; only the parent may control the child."""
        for pipe in self.pipes:
            # Bypass the buffer, whose lock another thread may have held at the fork.
            pipe.raw.close()  # type: ignore[attr-defined]
        self.returncode = 0  # only the parent can wait for the child


class IdleTimer:
    """Calls a function after a period of inactivity. Callers must hold a lock for every call."""

    def __init__(self, seconds: float, end: Callable[[], object]) -> None:
        self.seconds, self._end = seconds, end
        self.timer: threading.Timer | None = None

    def start(self) -> None:
        """Start or restart the countdown."""
        self.stop()
        self.timer = threading.Timer(self.seconds, self._end)
        self.timer.daemon = True
        self.timer.start()

    def stop(self) -> None:
        """Stop the countdown."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


# -- in the child ---------------------------------------------------------------------------------


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("this process runs without pandas", name=fullname)


def hide_pandas() -> None:
    """Make imports of pandas fail; otherwise pyarrow would load it, which takes half a second."""
    sys.meta_path.insert(0, _WithoutPandas())


def die_first() -> None:
    """Make the system kill this process before its parent when memory runs out."""
    with contextlib.suppress(OSError):  # only Linux supports it
        Path("/proc/self/oom_score_adj").write_text("1000")
