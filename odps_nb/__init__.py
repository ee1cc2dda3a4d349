"""odps_nb: a Jupyter-oriented data access kit for MaxCompute (ODPS).

::

    import odps_nb
    odps = odps_nb.connect("local")
    odps.table("orders").read(limit=5).to_pandas()

Imports are lazy: ``import odps_nb`` does not load pandas, Arrow or any HTTP library, so notebooks
and Spark executors start fast and load only the modules they use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from odps_nb import errors

if TYPE_CHECKING:
    from odps_nb.access.blob import Blob, NewBlob
    from odps_nb.access.blobs.column import BlobColumn
    from odps_nb.access.connect import connect
    from odps_nb.access.connection import Connection
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.scan import Scan
    from odps_nb.access.sql import Result
    from odps_nb.access.table import Table
    from odps_nb.client.auth.accounts import AccessKey, BearerToken, CredentialProcess, StsToken
    from odps_nb.client.auth.profile import Profile
    from odps_nb.client.calls.progress import ProgressListener
    from odps_nb.client.options import ClientOptions
    from odps_nb.terms import Compression

__all__ = [
    "AccessKey",
    "BearerToken",
    "Blob",
    "BlobColumn",
    "ClientOptions",
    "Compression",
    "Connection",
    "CredentialProcess",
    "NewBlob",
    "Profile",
    "ProgressListener",
    "Receipt",
    "Result",
    "Scan",
    "StsToken",
    "Table",
    "__version__",
    "connect",
    "errors",
    "load_ipython_extension",
    "unload_ipython_extension",
]

__version__ = "0.1.0"

_LAZY = {
    "AccessKey": "odps_nb.client.auth.accounts",
    "BearerToken": "odps_nb.client.auth.accounts",
    "Blob": "odps_nb.access.blob",
    "BlobColumn": "odps_nb.access.blobs.column",
    "ClientOptions": "odps_nb.client.options",
    "Compression": "odps_nb.terms",
    "Connection": "odps_nb.access.connection",
    "CredentialProcess": "odps_nb.client.auth.accounts",
    "NewBlob": "odps_nb.access.blob",
    "Profile": "odps_nb.client.auth.profile",
    "ProgressListener": "odps_nb.client.calls.progress",
    "Receipt": "odps_nb.access.receipt",
    "Result": "odps_nb.access.sql",
    "Scan": "odps_nb.access.scan",
    "StsToken": "odps_nb.client.auth.accounts",
    "Table": "odps_nb.access.table",
    "connect": "odps_nb.access.connect",
}


# Packages loaded on first access, so ``odps_nb.spark.session()`` needs no separate import.
_PARTS = ("notebook", "spark", "stream_io", "torch", "types")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"odps_nb.{name}")
    try:
        module = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'odps_nb' has no attribute {name!r}") from None
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_PARTS})


def load_ipython_extension(ipython: Any) -> None:
    """Register the ``%odps`` magics (``%load_ext odps_nb``); print nothing."""
    from odps_nb.notebook.magics.magics import load

    load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Unregister the magics and stop everything they started (``%unload_ext odps_nb``)."""
    from odps_nb.notebook.magics.magics import unload

    unload(ipython)
