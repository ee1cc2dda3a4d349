"""Silences redundant messages from pyspark and Java, and pyspark's log of query errors."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from odps_nb.spark.versions import query_loggers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTICE = "PySpark does not yet fully support pandas"
_JAVA = b"WARNING: Using incubator modules: "
_TRACEBACK = b"Traceback (most recent call last):\n"
_FRAME = re.compile(rb'  File "[^"]*pyspark[/\\]daemon\.py", line \d+, in (manager|worker)\n')
_BROKEN = b"BrokenPipeError: [Errno 32] Broken pipe\n"
_STDERR = 2


@contextlib.contextmanager
def without_pandas_notice() -> Iterator[None]:
    """Hide pyspark's notice about pandas 3 while running code that uses only Arrow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NOTICE, category=FutureWarning)
        yield


@contextlib.contextmanager
def without_harmless_lines() -> Iterator[None]:
    """Hide two messages on stderr, which a notebook shows as red boxes.

    They are Java's notice about incubator modules, and the error of a Python process that Spark
    ends because it has been idle for a minute. A JVM started inside the block keeps the pipe as its
    stderr; all other lines pass through the pipe unchanged.
    """
    try:
        outside = os.dup(_STDERR)
    except OSError:  # no stderr: nothing to filter
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
    with open(reading, "rb") as source, open(outside, "wb", buffering=0) as target:
        for line in _shown(source):
            target.write(line)


def _shown(lines: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []  # of tracebacks; several processes may print theirs at the same time
    for line in lines:
        if line == _TRACEBACK or (held and line.startswith(b"  ")):
            held.append(line)
        elif line == _BROKEN and held and _is_of_daemon(held):
            held.remove(_TRACEBACK)
            if _TRACEBACK not in held:
                held.clear()
        elif not line.startswith(_JAVA):
            yield from held
            held.clear()
            yield line
    yield from held


def _is_of_daemon(traceback: Iterable[bytes]) -> bool:
    frames = [line for line in traceback if line.startswith(b"  File ")]
    return bool(frames) and all(map(_FRAME.match, frames))


def be_quiet(spark: SparkSession) -> None:
    """Hide pyspark's notice about pandas 3 and its JSON logs of failed queries until ``stop()``.

    The filter is appended, so that any other filter for the notice takes precedence. Only the log
    handler that pyspark adds is silenced.
    """
    before, stop = list(warnings.filters), spark.stop
    warnings.filterwarnings("ignore", _NOTICE, category=FutureWarning, append=True)
    added = [warning_filter for warning_filter in warnings.filters if warning_filter not in before]
    handlers = [handler for log in query_loggers() for handler in log.handlers[:1]]
    levels = {
        handler: handler.level for handler in handlers if type(handler) is logging.StreamHandler
    }
    for handler in levels:
        handler.setLevel(logging.CRITICAL + 1)

    def stop_and_undo() -> None:
        vars(spark).pop("stop", None)
        for warning_filter in added:
            with contextlib.suppress(ValueError):  # the filters have been reset
                warnings.filters.remove(warning_filter)  # type: ignore[attr-defined]  # actually a list
        for handler, level in levels.items():
            handler.setLevel(level)
        stop()

    vars(spark)["stop"] = stop_and_undo


@contextlib.contextmanager
def without_refused_settings(names: Iterable[str]) -> Iterator[None]:
    """Hide warnings about settings that a Connect server applied at startup and cannot change."""
    pattern = "|".join(map(re.escape, names))
    with warnings.catch_warnings():
        refused = rf"Failed to set ({pattern}) to Some\(.*CANNOT_MODIFY(_STATIC)?_CONFIG"
        warnings.filterwarnings("ignore", f"(?s:{refused})", category=UserWarning)
        yield


@contextlib.contextmanager
def without_query_log() -> Iterator[None]:
    """Suppress, in this thread only, pyspark's JSON log of query errors, which are also raised."""
    thread = threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    with contextlib.ExitStack() as undo:
        for log in query_loggers():
            log.addFilter(is_of_others)
            undo.callback(log.removeFilter, is_of_others)
        yield
