"""Silences a warning and an error log of pyspark that tell the user nothing new."""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator

__all__ = ["leave_out_pandas_notice", "without_pandas_notice", "without_query_log"]

_NOTICE = "PySpark does not yet fully support pandas"


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


@contextlib.contextmanager
def without_query_log() -> Iterator[None]:
    """Keep pyspark from logging as JSON a query error that it also raises.

    Of what other threads do meanwhile, the log is kept.
    """
    from pyspark.logger import PySparkLogger

    # of pyspark's own class, which takes more arguments: whoever asks first decides it
    log, thread = PySparkLogger.getLogger("SQLQueryContextLogger"), threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    log.addFilter(is_of_others)
    try:
        yield
    finally:
        log.removeFilter(is_of_others)
