"""Starts PySpark's worker daemon with the modules of our tasks already imported.

The daemon forks the Python workers, so each of them saves 0.6 s of imports. `session` sets
``spark.python.daemon.module`` to this module if the driver and the executors run on this machine.

Only `main` imports pyspark, after `leave_archives` has set the folder to import it from.
"""

from __future__ import annotations

import gc
import importlib
import sys
import traceback
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace

from odps_nb.spark.versions import DATA_SOURCES, pyspark_version

_DATA_SOURCE = "odps_nb.spark.source.data_source"
_LOADED = (
    "pandas",
    "pyspark.worker",
    "odps_nb.client.read.session",
    "odps_nb.client.read.splits",
    "odps_nb.client.write.staging",
    "odps_nb.convert.references",
    "odps_nb.spark.blobs.api",
    "odps_nb.spark.reading.dataframe",
    "odps_nb.spark.writing.dataframe",
)


def modules() -> tuple[str, ...]:
    """Return the modules that our tasks import, even those that pyarrow would import later."""
    return (*_LOADED, _DATA_SOURCE) if pyspark_version() >= DATA_SOURCES else _LOADED


def leave_archives() -> None:
    """Import pyspark from its folder, not from the archives that Spark puts first on the path.

    Before 4.2, PySpark reads the list of files in each archive again for each task, which takes 60
    to 80 ms of CPU time. The path changes only if the archives belong to the installed pyspark.
    """
    for archive in [Path(entry) for entry in sys.path if Path(entry).name == "pyspark.zip"]:
        folders = archive.parent, archive.parents[2] / "jars"  # Spark also adds a jar to the path
        ours = [entry for entry in sys.path if Path(entry).parent in folders]
        path = [entry for entry in sys.path if entry not in ours]
        spec = PathFinder.find_spec("pyspark", path)
        same = spec is not None and spec.origin == str(archive.parents[2] / "__init__.py")
        if same and PathFinder.find_spec("py4j", path):
            sys.path[:] = path
            for entry in ours:
                sys.path_importer_cache.pop(entry, None)


def _print_error() -> None:
    """Print the error that ends a worker, unless Spark stopped reading the rows early."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


def main() -> None:
    """Run the daemon until Spark closes its standard input."""
    leave_archives()
    from pyspark import daemon

    for name in modules():
        importlib.import_module(name)
    gc.freeze()  # exclude the imported modules from the garbage collection after each task
    # The daemon prints errors with `traceback`; replace it in the daemon's module only.
    shown = SimpleNamespace(print_exc=_print_error, format_exc=traceback.format_exc)
    vars(daemon)["traceback"] = shown
    daemon.manager()


if __name__ == "__main__":
    main()
