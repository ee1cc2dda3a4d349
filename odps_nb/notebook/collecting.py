"""Rows into a DataFrame or an Arrow table, with a budget where one was set (floor 5)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from odps_nb.client.progress import ProgressListener, silent
from odps_nb.errors import LimitExceededError
from odps_nb.terms import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Rows", "collect", "within"]


class Rows(Protocol):
    """What a scan of a table and the result of a query have in common."""

    def batches(self, *, progress: ProgressListener | None = None) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows; leaving early stops the read."""

    def to_arrow(self, *, progress: ProgressListener | None = None) -> pa.Table:
        """Read all rows."""

    def to_pandas(self, *, progress: ProgressListener | None = None) -> Any:
        """Read all rows."""

    def to_spark(self, spark: Any) -> Any:
        """Return a DataFrame of Spark."""

    def cancel(self) -> None:
        """Stop what is being read, from any thread."""


def collect(
    rows: Rows, kind: str, *, listener: ProgressListener, max_bytes: int | None = None
) -> Any:
    """Read all rows as ``"pandas"`` or ``"arrow"``.

    Raises
    ------
    LimitExceededError
        More than ``max_bytes`` of Arrow data arrived; the read is stopped by then.
    """
    if max_bytes is None:
        take = rows.to_pandas if kind == "pandas" else rows.to_arrow
        return take(progress=listener)
    batches = list(within(rows.batches(progress=listener), max_bytes))
    if not batches:  # only the rows themselves know their columns then
        return collect(rows, kind, listener=silent)
    if kind == "arrow":
        import pyarrow as pa

        return pa.Table.from_batches(batches)
    from odps_nb.convert.pandas_frame import to_pandas

    return to_pandas(iter(batches), schema=batches[0].schema)


def within(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Pass batches on until they are more than ``max_bytes``."""
    total = 0
    with closing(batches):  # type: ignore[type-var]  # they come from a generator
        for batch in batches:
            total += batch.nbytes
            if total > max_bytes:
                _stop(batches, _too_much(total, max_bytes))
            yield batch


def _stop(batches: Iterator[pa.RecordBatch], error: LimitExceededError) -> NoReturn:
    """Raise inside of the read, so that its card says that it failed, and why."""
    if isinstance(batches, Generator):
        batches.throw(error)
    raise error


def _too_much(total: int, max_bytes: int) -> LimitExceededError:
    return LimitExceededError(
        f"the rows need more than {format_bytes(max_bytes)}",
        limit=max_bytes,
        actual=total,
        hint="take fewer columns (-c), partitions (-p) or rows (-n), or raise --max-bytes",
    )
