"""Ships functions to executors where odps_nb may be missing, and chains them in one worker.

The shipped wrapper does not import odps_nb and contains our function as bytes, so that a missing
package raises a clear error. Spark runs each ``mapInArrow`` in a separate Python worker, and passes
the rows between workers through the JVM. Therefore, consecutive steps of this package are chained
in one worker.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from odps_nb import __version__
from odps_nb.spark.launch._quiet import without_pandas_notice

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Batches = Callable[["Iterable[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]
Step = Callable[["Iterable[pa.RecordBatch]"], "Generator[pa.RecordBatch, None, None]"]
_KEPT = "_odps_nb_made"


class _Made(NamedTuple):
    """How a DataFrame was created: its source DataFrame, the function, and a name for plans."""

    of: DataFrame
    step: Step
    name: str


def map_in_arrow(
    df: DataFrame, step: Step, schema: StructType, *, name: str | None = None
) -> DataFrame:
    """Return ``df.mapInArrow``, chained with the step that created `df` unless `df` is cached.

    ``name`` is the name shown in plans; default: the function's name.
    """
    made, name = vars(df).get(_KEPT), name or step.__name__
    if isinstance(made, _Made) and not df.is_cached:
        df, step = made.of, _one_after_another(made.step, step)
        name = f"{made.name}, {name}"
    with without_pandas_notice():
        mapped = df.mapInArrow(shipped(step, name=name), schema)
    vars(mapped)[_KEPT] = _Made(df, step, name)
    return mapped


def _one_after_another(first: Step, second: Step) -> Step:
    def both(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        with contextlib.closing(first(batches)) as between:
            yield from second(between)

    return both


def shipped(function: Batches, *, name: str | None = None) -> Batches:
    """Wrap a function for ``mapInArrow``; it raises a clear error if odps_nb cannot be loaded."""
    load, payload = _loader(), _pickled(function)

    # Do not use names of this module below: the function is pickled by value.
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from load(payload)(batches)

    run.__name__ = name or function.__name__  # plans show it
    return run


class Shipped:
    """Base class of objects sent to executors; unpickling raises the same error as `shipped`."""

    def __reduce_ex__(self, _: object) -> tuple[Any, ...]:
        """Return nested pickled bytes: only the inner bytes need odps_nb to be unpickled."""
        make, arguments, state = cast("tuple[Any, ...]", super().__reduce_ex__(2))[:3]
        inner = _pickled(_Call(_restored, make, arguments, state))
        return pickle.loads, (_pickled(_Call(_loader(), inner)),)


class _Call:
    """A function call; unpickling this object makes the call and returns its result."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.made = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.made


def _restored(make: Callable[..., object], arguments: Sequence[object], state: Any) -> object:
    made = make(*arguments)
    vars(made).update(state or {})
    return made


def _pickled(value: object) -> bytes:
    from pyspark import cloudpickle

    made: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]  # no types there
    return made


def _loader() -> Callable[[bytes], Any]:
    version = __version__

    # Do not use names of this module below: the function is pickled by value.
    def load(payload: bytes) -> Any:
        import pickle
        import socket
        import sys

        try:
            return pickle.loads(payload)  # noqa: S301  pickled by the driver
        except (ImportError, AttributeError) as error:
            found = getattr(sys.modules.get("odps_nb"), "__version__", None)
            there = f"it has odps_nb {found}" if found else "odps_nb is not installed there"
            kind = type("MissingDependencyError", (Exception,), {"__module__": "odps_nb.errors"})
            raise kind(
                f"the Python of an executor cannot run this task: {there}, but the notebook has "
                f"{version}\nwhere: {sys.executable} on {socket.gethostname()}: {error}\n"
                f"to do: pip install odps-nb=={version} for that Python on every executor, set "
                "PYSPARK_PYTHON to a Python that has it, or send the package with the job "
                "(docs/spark-clusters.md), and restart the session"
            ) from None

    return load
