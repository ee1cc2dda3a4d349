"""odps_nb.torch: rows and blobs of a table for a torch DataLoader, shuffled and resumable.

::

    import odps_nb.torch
    dataset = odps_nb.torch.rows(odps.table("orders").read(["quantity", "amount"]), seed=7)
    loader = odps_nb.torch.loader(dataset, batch_size=256, num_workers=2)
    for epoch in range(3):
        loader.set_epoch(epoch)
        for batch in loader: ...

Each worker of each rank reads its own row ranges of one session in a random order and shuffles them
in memory. The same seed and epoch give the same order, so an epoch resumes at the exact row.
``docs/learning-from-blobs.md`` is the guide. Importing this module needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odps_nb.access.learning.samples import Samples
    from odps_nb.access.learning.source import RowSource
    from odps_nb.access.scan import Scan
    from odps_nb.access.table import Table
    from odps_nb.torch.datasets import Loader, RowDataset

__all__ = ["blobs", "loader", "rows"]

_MIB = 2**20


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
    """Return the rows of a table or read as an IterableDataset: one dict of values per row.

    The read session is opened immediately. DECIMALs become floats, nulls ``None``, and a BLOB the
    text of its reference.

    Parameters
    ----------
    source
        ``odps.table(…)``, or a ``read`` of columns and partitions. The client applies ``where=``,
        so all rows are transferred.
    batch_size
        Number of rows to return at a time, as NumPy arrays by column, which a DataLoader with
        ``batch_size=None`` converts to tensors: several times faster. Text, times and nested values
        are lists. Nulls are NaN; a null in a column without NaN is a `ConversionError`.
    seed
        Seed of the order, combined with the epoch: 0 or more, less than 2**32.
    shuffle
        ``False``: each worker reads its rows in the order of the table.
    chunk_rows
        Consecutive rows that are fetched together; chunks are read in a random order.
    buffer_rows
        Rows that a worker shuffles in memory, from ``buffer_rows / chunk_rows`` chunks. For a table
        that is sorted by label, use smaller chunks and a larger buffer.
    read_ahead
        Maximum bytes that a worker fetches ahead, in addition to its buffer.
    even
        Give all workers of all ranks the same number of rows, for ranks that synchronise after each
        batch. Fewer rows than there are workers are skipped, different ones in each epoch.
    rank, world_size
        This rank and the number of ranks; by default those of torch.distributed if initialized.
        All ranks need the same session: pass ``table.read(…, session_id=…)`` with the
        `RowDataset.session_id` of the first rank.

    Raises
    ------
    MissingDependencyError
        torch is not installed.
    ArgumentError
        The read has ``limit``, ``max_bytes`` or changes, or an argument is invalid.
    """
    from odps_nb.access.learning.samples import AsBatches, AsRows

    def samples(_: RowSource) -> Samples:
        return AsRows() if batch_size is None else AsBatches(_count("batch_size", batch_size))

    return _dataset(
        source,
        samples,
        seed=seed,
        shuffle=shuffle,
        chunk_rows=chunk_rows,
        buffer_rows=buffer_rows,
        read_ahead=read_ahead,
        even=even,
        rank=rank,
        world_size=world_size,
    )


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
    """Return rows with the bytes of a BLOB column as an IterableDataset; see also `rows`.

    References are shuffled first; blobs are then fetched, many per request, and verified before
    ``decode`` is called.

    Parameters
    ----------
    source
        As for `rows`; its columns include the BLOB column.
    column
        The BLOB column; optional if there is only one.
    decode
        Called in the worker with the bytes of each blob; its result replaces them. A null stays
        ``None``. If workers are spawned, it must be defined at the top level of a module.
    max_blob_bytes
        Maximum size of a blob.
    read_ahead
        Maximum bytes of blobs that a worker fetches ahead.
    seed, shuffle, chunk_rows, buffer_rows, even, rank, world_size
        As for `rows`.

    Raises
    ------
    MissingDependencyError
        torch is not installed.
    NotFoundError
        No BLOB column has that name; the hint lists those that exist.
    ArgumentError
        As for `rows`; or the BLOB is nested in another column.
    """
    from odps_nb.access.learning.samples import WithBlobs, blob_column

    def samples(opened: RowSource) -> Samples:
        return WithBlobs(
            column=blob_column(column, opened.session.schema, opened.session.table),
            decode=decode,
            max_bytes=_count("read_ahead", read_ahead),
            max_blob=_count("max_blob_bytes", max_blob_bytes),
        )

    return _dataset(
        source,
        samples,
        seed=seed,
        shuffle=shuffle,
        chunk_rows=chunk_rows,
        buffer_rows=buffer_rows,
        read_ahead=read_ahead,
        even=even,
        rank=rank,
        world_size=world_size,
    )


def loader(
    dataset: RowDataset, *, collate_fn: Callable[[Any], Any] | None = None, **options: Any
) -> Loader:
    """Return a DataLoader whose ``state_dict()`` and ``load_state_dict()`` are exact to the row.

    The state counts the batches that were returned, however far ahead the workers are, and has
    only plain values, for ``torch.save`` or JSON.

    Parameters
    ----------
    dataset
        A dataset from `rows` or `blobs`.
    collate_fn, options
        As for ``torch.utils.data.DataLoader``: ``batch_size``, ``num_workers``, …; not
        ``persistent_workers``. Use a batch size of ``None`` with ``rows(batch_size=…)``.

    Raises
    ------
    MissingDependencyError
        torch is not installed.
    ArgumentError
        `dataset` is not from odps_nb, or an option does not work with a saved state.
    """
    _require_torch()
    from odps_nb.errors import ArgumentError
    from odps_nb.torch.datasets import Loader, RowDataset

    if not isinstance(dataset, RowDataset):
        raise ArgumentError(
            f"a {type(dataset).__name__} does not record its position",
            argument="dataset",
            hint="pass what odps_nb.torch.rows(…) or blobs(…) returned",
        )
    return Loader(dataset, collate_fn=collate_fn, **options)


def _dataset(
    source: Table | Scan,
    samples: Callable[[RowSource], Samples],
    *,
    seed: int,
    shuffle: bool,
    chunk_rows: int,
    buffer_rows: int,
    read_ahead: int,
    even: bool,
    rank: int | None,
    world_size: int | None,
) -> RowDataset:
    """Check the arguments, open the session, and return its rows; see `rows`."""
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
