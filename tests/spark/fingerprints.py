"""The process-wide state that all libraries share, as a value; and a job that compares it."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def fingerprint() -> dict[str, str]:
    """Return the state that libraries share: attributes of modules, filters, handlers, files."""
    found = {
        "warnings.filters": repr(warnings.filters),
        "gc": repr((gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks))),
        "excepthooks": repr((sys.excepthook, sys.unraisablehook, threading.excepthook)),
        "root logger": repr((logging.root.level, logging.root.handlers)),
    }
    for number in signal.valid_signals():
        found[f"signal {int(number)}"] = repr(signal.getsignal(number))
    for descriptor in (1, 2):
        status = os.fstat(descriptor)
        found[f"file {descriptor}"] = repr((status.st_dev, status.st_ino))
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and not name.startswith("odps_nb"):
            found[f"logger {name}"] = repr((logger.level, logger.handlers, logger.filters))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("pyspark", "pandas"):
            found |= {f"{name}.{key}": str(id(value)) for key, value in _public(module)}
    return found


def _public(module: Any) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(module).items()):
        if name.startswith("_"):
            continue
        if not hasattr(value, "__path__"):  # importing a submodule sets it
            yield name, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            for key, member in list(vars(value).items()):
                # PySpark 3.5 itself replaces RDD.toDF for each object of a session
                if not key.startswith("_") and key != "toDF":
                    yield f"{name}.{key}", member


def changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the state that was changed or removed."""
    return sorted(key for key, value in before.items() if after.get(key) != value)


def around_read(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Read all rows in the worker that runs this; yield the state that changed there."""
    import pandas  # noqa: F401
    import pyarrow as pa
    import pyspark.sql  # noqa: F401

    before = fingerprint()
    rows = sum(batch.num_rows for batch in batches)
    told = json.dumps([rows, changes(before, fingerprint())])
    yield pa.RecordBatch.from_pydict({"told": [told]})


def main() -> None:
    """Print the state that each use of odps_nb changes in this process and in a Spark worker."""
    import pandas  # noqa: F401
    import requests  # noqa: F401  # like pandas and urllib3, it adds filters when it is imported
    from IPython.core.interactiveshell import InteractiveShell
    from pyspark.sql import SparkSession  # its modules are compared even if it does not start

    shell = InteractiveShell.instance()
    with_spark = sys.argv[1:] != ["load_ext"]
    if with_spark:
        # A Spark session as a cluster's notebook provides it, not configured by odps_nb.
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    told: dict[str, list[str]] = {}
    before = fingerprint()

    told["import"] = changes(before, fingerprint())
    shell.run_line_magic("load_ext", "odps_nb")
    told["load_ext"] = changes(before, fingerprint())
    if with_spark:
        use_spark(spark, before, told)
    print(json.dumps(told))


def use_spark(spark: SparkSession, before: dict[str, str], told: dict[str, list[str]]) -> None:
    """Add the state that uses of odps_nb with Spark have changed."""
    from pyspark.sql.types import StructType

    import odps_nb.spark
    from odps_nb.spark.tasks.shipping import map_in_arrow
    from odps_nb.spark.versions import DATA_SOURCES, pyspark_version

    odps = odps_nb.connect()
    with_sources = pyspark_version() >= DATA_SOURCES
    if with_sources:
        odps_nb.spark.register(spark, odps, progress=False)
    told["register"] = changes(before, fingerprint())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = odps_nb.spark.read(spark, odps, "media", columns=["id"]).filter("true").count()
        assert not with_sources or rows == spark.read.format("odps").load("media").count()
    told["read"] = changes(before, fingerprint())
    frame = odps_nb.spark.read(spark, odps, "media", columns=["id"], splits=1)
    schema = StructType().add("told", "string")
    (row,) = map_in_arrow(frame, around_read, schema).collect()
    there, told["a worker that reads"] = json.loads(row.told)
    assert there == rows
    spark.stop()


if __name__ == "__main__":
    main()
