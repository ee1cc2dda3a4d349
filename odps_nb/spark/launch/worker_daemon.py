"""Starts PySpark's worker daemon with what our tasks import already imported.

The daemon forks each Python worker, which saves each new one 0.6 s of imports. `session` names it
by ``spark.python.daemon.module`` where driver and executors share this machine.
"""

from __future__ import annotations

import gc
import importlib
import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon

#: What tasks of ours import, some of it at their first row only: pyarrow takes pandas then.
LOADED = (
    "pandas",
    "pyspark.worker",
    "odps_nb.client.read.session",
    "odps_nb.client.read.splits",
    "odps_nb.convert.references",
    "odps_nb.spark.blobs.api",
    "odps_nb.spark.reading.dataframe",
    "odps_nb.spark.source.data_source",
    "odps_nb.spark.writing.dataframe",
)


def _print_error() -> None:
    """Print the error that ends a worker, unless Spark did not want its remaining rows."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # the collection after every task need not walk over what is imported
    # Only the daemon's own use of it, in its own process.
    shown = SimpleNamespace(print_exc=_print_error, format_exc=traceback.format_exc)
    vars(daemon)["traceback"] = shown
    daemon.manager()
