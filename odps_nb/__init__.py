"""odps_nb: a Jupyter-oriented data access kit for the MaxCompute (ODPS) Storage API.

::

    import odps_nb
    odps = odps_nb.connect("local")
    odps.table("orders").read(limit=5).to_pandas()

This face is lazy: importing it loads no pandas, no Arrow and no HTTP, so that a notebook opens
and a Spark executor starts without paying for what they do not use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from odps_nb import errors

if TYPE_CHECKING:
    from odps_nb._faces import connect
    from odps_nb.access.blob import NewBlob

__all__ = [
    "NewBlob",
    "__version__",
    "connect",
    "errors",
    "load_ipython_extension",
    "unload_ipython_extension",
]

__version__ = "0.1.0"

_LAZY = {
    "NewBlob": ("odps_nb.access.blob", "NewBlob"),
    "connect": ("odps_nb._faces", "connect"),
}


# Reached as attributes too, so that ``odps_nb.spark.session()`` needs no second import.
_PARTS = ("notebook", "spark", "stream_io")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"odps_nb.{name}")
    try:
        module, attribute = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'odps_nb' has no attribute {name!r}") from None
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_PARTS})


def load_ipython_extension(ipython: Any) -> None:
    """Add the ``%odps`` magics to a notebook (``%load_ext odps_nb``); silent and repeatable."""
    from odps_nb.notebook.magics import extension

    extension.load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Remove the magics and everything that was started for them (``%unload_ext odps_nb``)."""
    from odps_nb.notebook.magics import extension

    extension.unload(ipython)
