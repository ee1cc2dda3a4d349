"""Starts PySpark's worker daemon with the modules of our tasks already imported.

The daemon forks the Python workers, so each of them saves 0.6 s of imports. `session` sets
``spark.python.daemon.module`` to this module if driver and executors run on this machine.
"""

from __future__ import annotations

import gc
import importlib
import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon

from odps_nb.spark.versions import DATA_SOURCES, pyspark_version

#: Modules that our tasks import; pyarrow imports some, such as pandas, only at the first row.
LOADED = (
    "pandas",
    "pyspark.worker",
    "odps_nb.client.read.session",
    "odps_nb.client.read.splits",
    "odps_nb.client.write.staging",
    "odps_nb.convert.references",
    "odps_nb.spark.blobs.api",
    "odps_nb.spark.reading.dataframe",
    "odps_nb.spark.writing.dataframe",
    *(["odps_nb.spark.source.data_source"] if pyspark_version() >= DATA_SOURCES else []),
)


def _print_error() -> None:
    """Print the error that ends a worker, unless Spark stopped reading the rows early."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # exclude the imported modules from the garbage collection after each task
    # The daemon prints errors with `traceback`; replace it in the daemon's module only.
    shown = SimpleNamespace(print_exc=_print_error, format_exc=traceback.format_exc)
    vars(daemon)["traceback"] = shown
    daemon.manager()
