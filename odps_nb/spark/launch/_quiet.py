"""Silences a warning and an error log of pyspark that tell the user nothing new."""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator

__all__ = ["without_pandas_notice", "without_query_log"]


@contextlib.contextmanager
def without_pandas_notice() -> Iterator[None]:
    """Hide pyspark's notice about pandas 3 where only Arrow is used.

    pyspark 4 warns in every place that could take pandas. Our road has none; where a person
    does use pandas (``toPandas``), pyspark still says it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "PySpark does not yet fully support pandas", category=FutureWarning
        )
        yield


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
