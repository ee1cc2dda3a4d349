"""odps_nb.torch: a table's rows and blobs for a PyTorch DataLoader, shuffled and resumable.

::

    import odps_nb.torch
    dataset = odps_nb.torch.rows(odps.table("orders").read(["quantity", "amount"]), seed=7)
    loader = odps_nb.torch.loader(dataset, batch_size=256, num_workers=2)
    for epoch in range(3):
        loader.set_epoch(epoch)
        for batch in loader: ...

Each worker of each rank reads its own row ranges of one session in a random order, and shuffles the
rows in memory. The same seed and epoch give the same order, so an epoch can be resumed at the next
unread row. See ``docs/learning-from-blobs.md``. Importing this module does not require torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odps_nb.explained import explained

if TYPE_CHECKING:
    from odps_nb.access.learning.samples import Samples
    from odps_nb.access.learning.source import RowSource
    from odps_nb.access.scan import Scan
    from odps_nb.access.table import Table
    from odps_nb.torch.datasets import Loader, RowDataset

__all__ = ["blobs", "loader", "rows"]

_MIB = 2**20


@explained
def rows(
    source: Table | Scan,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    shuffle: bool = True,
    chunk_rows: int = 16_384,
    buffer_rows: int = 131_072,
    read_ahead: int = 64 * _MIB,
    even: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
) -> RowDataset:
    """Return the rows of a table or scan as an IterableDataset: one dict of values per row.

    The read session is opened immediately. DECIMALs become floats, nulls become ``None``, and BLOBs
    become their references as text.

    Parameters
    ----------
    source
        ``odps.table(…)``, or ``odps.table(…).read(…)`` with columns and partitions. The client
        evaluates ``where=``, so all rows are transferred.
    batch_size
        Number of rows to return at a time, as one NumPy array per column. A DataLoader with
        ``batch_size=None`` converts these arrays to tensors, several times faster than it converts
        rows. Text, times and nested values are returned as lists. A null becomes NaN, or raises a
        `ConversionError` if the column's type has no NaN.
    seed
        Seed for the order, from 0 to 2**32 - 1; combined with the epoch's number.
    shuffle
        ``False``: each worker reads its rows in the table's order.
    chunk_rows
        Number of consecutive rows to fetch together; chunks are read in a random order.
    buffer_rows
        Maximum number of rows that a worker shuffles in memory. The rows come from ``buffer_rows /
        chunk_rows`` chunks, so use smaller chunks and a larger buffer for a table sorted by label.
    read_ahead
        Maximum bytes that a worker fetches ahead, in addition to its buffer.
    even
        Give all workers of all ranks the same number of rows, for ranks that synchronise after each
        batch. Each epoch skips a few rows, fewer than the total number of workers.
    rank, world_size
        The rank of this process, and the number of ranks. Default: the values of torch.distributed,
        if initialized. All ranks need the same session: pass ``table.read(…, session_id=…)`` with
        the `RowDataset.session_id` of the first rank.

    Raises
    ------
    MissingDependencyError
        torch is not installed.
    ArgumentError
        The scan has a ``limit`` or ``max_bytes`` or reads changes, or an argument is invalid.
    """
    given = locals()
    from odps_nb.access.learning.samples import AsBatches, AsRows

    def samples(_: RowSource) -> Samples:
        return AsRows() if batch_size is None else AsBatches(_count("batch_size", batch_size))

    return _dataset(samples, **given)


@explained
def blobs(
    source: Table | Scan,
    column: str | None = None,
    *,
    decode: Callable[[bytes], Any] | None = None,
    max_blob_bytes: int = 256 * _MIB,
    seed: int = 0,
    shuffle: bool = True,
    chunk_rows: int = 1_024,
    buffer_rows: int = 8_192,
    read_ahead: int = 64 * _MIB,
    even: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
) -> RowDataset:
    """Return rows with a BLOB column's bytes as an IterableDataset; see also `rows`.

    References are shuffled first. Then blobs are fetched, many per request, and verified before
    ``decode`` is called.

    Parameters
    ----------
    source
        As for `rows`; the columns must include the BLOB column.
    column
        Name of the BLOB column; optional if there is only one.
    decode
        Function that the worker calls with each blob's bytes; its result replaces the bytes. Nulls
        stay ``None``. If workers are spawned, define the function at the top level of a module.
    max_blob_bytes
        Maximum size of a blob in bytes.
    read_ahead
        Maximum bytes of blobs that a worker fetches ahead.
    seed, shuffle, chunk_rows, buffer_rows, even, rank, world_size
        As for `rows`.

    Raises
    ------
    MissingDependencyError
        torch is not installed.
    NotFoundError
        No BLOB column has that name; the hint lists the BLOB columns.
    ArgumentError
        As for `rows`; also raised if the BLOB is nested in another column.
    """
    given = locals()
    from odps_nb.access.learning.samples import WithBlobs, blob_column

    def samples(opened: RowSource) -> Samples:
        return WithBlobs(
            column=blob_column(column, opened.session.schema, opened.session.table),
            decode=decode,
            max_bytes=_count("read_ahead", read_ahead),
            max_blob=_count("max_blob_bytes", max_blob_bytes),
        )

    return _dataset(samples, **given)


@explained
def loader(
    dataset: RowDataset, *, collate_fn: Callable[[Any], Any] | None = None, **options: Any
) -> Loader:
    """Return a DataLoader that resumes from a saved ``state_dict()`` at the exact row.

    The state counts only batches that were returned, not those that workers fetched ahead. As it
    contains only plain values, ``torch.save`` and JSON can store the state.

    Parameters
    ----------
    dataset
        A dataset from `rows` or `blobs`.
    collate_fn, options
        As for ``torch.utils.data.DataLoader``: ``batch_size``, ``num_workers``, …, but not
        ``persistent_workers``. For a dataset from ``rows(batch_size=…)``, pass ``batch_size=None``.

    Raises
    ------
    MissingDependencyError
        torch is not installed.
    ArgumentError
        `dataset` is not from odps_nb, or an option does not work with a saved state.
    """
    _require_torch()
    from odps_nb.errors import ArgumentError, a_type
    from odps_nb.torch.datasets import Loader, RowDataset

    if not isinstance(dataset, RowDataset):
        raise ArgumentError(
            f"{a_type(type(dataset))} is not a dataset of odps_nb.torch",
            argument="dataset",
            hint="pass the result of odps_nb.torch.rows(…) or odps_nb.torch.blobs(…)",
        )
    return Loader(dataset, collate_fn=collate_fn, **options)


def _dataset(
    samples: Callable[[RowSource], Samples],
    *,
    source: Table | Scan,
    seed: int,
    shuffle: bool,
    chunk_rows: int,
    buffer_rows: int,
    read_ahead: int,
    even: bool,
    rank: int | None,
    world_size: int | None,
    **_: object,  # options that only `samples` uses
) -> RowDataset:
    """Check the arguments, open the session and return its dataset; see `rows`."""
    _require_torch()
    from odps_nb.access.learning.epochs import Epochs
    from odps_nb.access.learning.order import EpochOrder
    from odps_nb.torch.datasets import RowDataset, place_in_group

    rank, world_size = place_in_group(rank, world_size)
    opened = source._whole()._row_source(read_ahead=_count("read_ahead", read_ahead))
    order = EpochOrder(
        rows=opened.rows,
        chunk_rows=_count("chunk_rows", chunk_rows),
        window_rows=_count("buffer_rows", buffer_rows),
        seed=_count("seed", seed, at_least=0),
        shuffle=shuffle,
    )
    made = samples(opened)
    return RowDataset(Epochs(opened, made, order, rank=rank, world_size=world_size, even=even))


def _count(name: str, value: int, *, at_least: int = 1) -> int:
    from odps_nb.access.checks import check_count
    from odps_nb.errors import ArgumentError

    found = check_count(name, value, at_least=at_least)
    if found is None:
        raise ArgumentError(f"{name} is None; it must be a whole number", argument=name)
    return found


def _require_torch() -> None:
    from odps_nb.access.checks import require

    require("torch")
