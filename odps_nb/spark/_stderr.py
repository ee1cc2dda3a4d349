"""The JVM's one notice at its start, kept out of the notebook (floor 5).

Java writes it to file descriptor 2 before any logging of Spark's is up, and a notebook shows
what arrives there as a red box above the first result. All else is passed on, for as long as the
JVM lives: its errors are the only trace of a start that failed.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

__all__ = ["without_module_notice"]

_NOTICE = b"WARNING: Using incubator modules: "
_STDERR = 2


@contextlib.contextmanager
def without_module_notice() -> Iterator[None]:
    """Let processes started inside write to this process's stderr, but for that line.

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
        target=_pass_on, args=(reading, os.dup(outside)), name="odps_nb-jvm-stderr", daemon=True
    ).start()
    try:
        yield
    finally:
        os.dup2(outside, _STDERR)
        os.close(outside)


def _pass_on(reading: int, outside: int) -> None:
    with open(reading, "rb", buffering=0) as source, open(outside, "wb", buffering=0) as target:
        held = b""
        while chunk := source.read(1 << 16):
            *lines, held = (held + chunk).split(b"\n")
            kept = b"".join(line + b"\n" for line in lines if not line.startswith(_NOTICE))
            if not _NOTICE.startswith(held[: len(_NOTICE)]):  # cannot become the notice
                kept, held = kept + held, b""
            if kept:
                target.write(kept)
        if held:
            target.write(held)
