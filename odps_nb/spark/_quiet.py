"""One warning of pyspark's that says nothing here (floor 5)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

__all__ = ["without_pandas_notice"]


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
