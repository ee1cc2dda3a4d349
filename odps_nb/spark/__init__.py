"""odps_nb.spark: ODPS tables and blobs as Spark DataFrames.

::

    import odps_nb.spark
    spark = odps_nb.spark.session()
    frame = odps_nb.spark.read(spark, odps, "orders", partitions=["ds=2024-01-01"])

Functions are imported on first use, so importing this package needs neither pyspark nor Java.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from odps_nb.spark.versions import pyspark_version

if TYPE_CHECKING:
    from odps_nb.spark.blobs.api import NEW_BLOB, blob_map, with_blobs
    from odps_nb.spark.launch.session_factory import session
    from odps_nb.spark.pushdown.query import explain_sql, sql
    from odps_nb.spark.reading.dataframe import read
    from odps_nb.spark.source.attached import attach
    from odps_nb.spark.source.registering import options, register
    from odps_nb.spark.writing.dataframe import write

__all__ = [
    "NEW_BLOB",
    "attach",
    "blob_map",
    "explain_sql",
    "options",
    "read",
    "register",
    "session",
    "sql",
    "with_blobs",
    "write",
]

_MODULES = {
    "odps_nb.spark.blobs.api": ("NEW_BLOB", "blob_map", "with_blobs"),
    "odps_nb.spark.launch.session_factory": ("session",),
    "odps_nb.spark.pushdown.query": ("explain_sql", "sql"),
    "odps_nb.spark.reading.dataframe": ("read",),
    "odps_nb.spark.source.attached": ("attach",),
    "odps_nb.spark.source.registering": ("options", "register"),
    "odps_nb.spark.writing.dataframe": ("write",),
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    try:
        module = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'odps_nb.spark' has no attribute {name!r}") from None
    try:
        value = getattr(importlib.import_module(module), name)
    except ImportError:
        pyspark_version()  # raises if it is missing
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
