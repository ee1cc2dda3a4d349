"""Ships functions to executors where odps_nb may not be installed.

Spark unpickles a task's function before anything of ours runs, so a missing package ends in a
long Java story around ``No module named 'odps_nb'``. What is shipped is therefore a function that
needs nothing of ours, with ours inside as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from odps_nb import __version__

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["shipped"]

Batches = Callable[["Iterable[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]


def shipped(function: Batches, *, name: str | None = None) -> Batches:
    """Wrap a function for ``mapInArrow``, to raise a clear error where ours cannot be loaded.

    ``name`` is what plans show of it, by default its own name.
    """
    from pyspark import cloudpickle

    payload: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]  # no types there
    version = __version__

    # No name of this module may be used below: this function is pickled with its values.
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle
        import socket
        import sys

        try:
            inside = pickle.loads(payload)  # noqa: S301  pickled by the driver, like all of this
        except (ImportError, AttributeError) as error:
            found = getattr(sys.modules.get("odps_nb"), "__version__", None)
            there = f"odps_nb {found} is there" if found else "odps_nb is not installed there"
            kind = type("MissingDependencyError", (Exception,), {"__module__": "odps_nb.errors"})
            raise kind(
                f"the Python of an executor cannot run this: {there}, and {version} in the "
                f"notebook\nwhere: {sys.executable} on {socket.gethostname()}: {error}\n"
                f"to do: pip install odps-nb=={version} for that Python on every executor, or set "
                "PYSPARK_PYTHON to one that has it and start the session again"
            ) from None
        yield from inside(batches)

    run.__name__ = name or function.__name__  # plans show it
    return run
