"""Silences warnings and an error log of pyspark that tell the user nothing new."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import warnings
from collections.abc import Iterable, Iterator

__all__ = [
    "leave_out_pandas_notice",
    "leave_out_query_log",
    "without_pandas_notice",
    "without_query_log",
    "without_refused_settings",
]

_NOTICE = "PySpark does not yet fully support pandas"
_QUERY_LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextlib.contextmanager
def without_pandas_notice() -> Iterator[None]:
    """Hide pyspark's notice about pandas 3 where only Arrow is used.

    pyspark 4 warns in every place that could take pandas. Our road has none.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NOTICE, category=FutureWarning)
        yield


def leave_out_pandas_notice() -> None:
    """Leave pyspark's notice about pandas 3 out of a person's own cells, too.

    It comes in red at each ``toPandas()``. The filter stands last: any that a person or another
    library has for it wins, and no other warning is hidden. (Python's "once" would not do: each
    ``catch_warnings`` of anybody makes it forget.)
    """
    warnings.filterwarnings("ignore", _NOTICE, category=FutureWarning, append=True)


def leave_out_query_log() -> None:
    """Leave the JSON of a failed query, which pyspark prints and also raises, out of all cells.

    It is the message of the exception with the stack of Java, some 17 KB of it in red. Only the
    handler is silenced that pyspark gives these logs by itself: what a person adds hears them.
    """
    from pyspark.logger import PySparkLogger

    for name in _QUERY_LOGS:
        for handler in PySparkLogger.getLogger(name).handlers[:1]:
            if type(handler) is logging.StreamHandler:
                handler.setLevel(logging.CRITICAL + 1)


@contextlib.contextmanager
def without_refused_settings(names: Iterable[str]) -> Iterator[None]:
    """Hide the warnings that a Connect server on this machine takes a setting only at its start.

    It has them: pyspark starts the server with them, and then sets each once more. Of settings
    that a person names the warning stays.
    """
    told = "|".join(map(re.escape, names))
    with warnings.catch_warnings():
        refused = rf"Failed to set ({told}) to Some\(.*CANNOT_MODIFY(_STATIC)?_CONFIG"
        warnings.filterwarnings("ignore", f"(?s:{refused})", category=UserWarning)
        yield


@contextlib.contextmanager
def without_query_log() -> Iterator[None]:
    """Keep pyspark from logging as JSON a query error that it also raises.

    Of what other threads do meanwhile, the log is kept.
    """
    from pyspark.logger import PySparkLogger

    # of pyspark's own class, which takes more arguments: whoever asks first decides it
    log, thread = PySparkLogger.getLogger(_QUERY_LOGS[0]), threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    log.addFilter(is_of_others)
    try:
        yield
    finally:
        log.removeFilter(is_of_others)
