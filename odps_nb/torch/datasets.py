"""An IterableDataset and a resumable DataLoader; only this module imports torch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    default_collate,
    default_convert,
    get_worker_info,
)

from odps_nb.access.checks import check_count
from odps_nb.access.learning.epochs import Epochs
from odps_nb.access.learning.samples import AsBatches
from odps_nb.errors import ArgumentError, StateError


def place_in_group(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the passed rank and world size, else those of the process group, else 0 and 1."""
    if (rank is None) != (world_size is None):
        raise ArgumentError(
            "rank and world_size must be passed together",
            argument="rank",
            hint="pass both or neither",
        )
    rank, world_size = check_count("rank", rank, at_least=0), check_count("world_size", world_size)
    if rank is not None and world_size is not None:
        return rank, world_size
    group: Any = torch.distributed
    if group.is_available() and group.is_initialized():
        return int(group.get_rank()), int(group.get_world_size())
    return 0, 1


class RowDataset(IterableDataset[Any]):  # type: ignore[misc]  # torch is missing when types are checked
    """Rows of a read session in an epoch's order; created by ``odps_nb.torch``.

    Each worker of a DataLoader reads its own rows. `set_epoch` chooses the order. Workers receive
    no pickled keys: with the start methods ``spawn`` and ``forkserver`` they obtain keys from the
    environment (``ODPS_ACCESS_ID``, …), the profile file or the keyring.
    """

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        # Shared with all workers, even persistent ones: the epoch, and whether workers have read
        # rows.
        self._shared = torch.zeros(2, dtype=torch.int64).share_memory_()

    @property
    def session_id(self) -> str:
        """Session id; ``table.read(session_id=…)`` reads the same snapshot in another process."""
        return self._epochs.source.session.session_id

    @property
    def epoch(self) -> int:
        """Number of the epoch, which determines the order of the rows."""
        return int(self._shared[0])

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass; call this before each pass, as in DistributedSampler.

        If a state of this epoch was loaded, the pass resumes at the saved position. Otherwise, it
        begins at the first row.
        """
        self._epochs.set_epoch(epoch)
        self._shared[0], self._shared[1] = epoch, 0

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            return self._epochs.pass_over()
        self._epochs.set_epoch(self.epoch)
        self._shared[1] = 1
        return self._epochs.pass_over(info.id, info.num_workers)

    def state_dict(self) -> dict[str, Any]:
        """Return this process's position, as plain values for ``StatefulDataLoader``.

        Raises
        ------
        StateError
            Workers read the rows; call ``state_dict`` of the loader (`odps_nb.torch.loader`)
            instead.
        """
        if get_worker_info() is None and int(self._shared[1]):
            raise StateError(
                "the position is known only to the workers that read the rows",
                hint="use odps_nb.torch.loader(dataset, …) and its state_dict()",
            )
        return self._epochs.state_here()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume the next pass at a saved position; see `Loader.load_state_dict`."""
        self._load(state, None)

    def _load(self, state: Mapping[str, Any], workers: int | None) -> None:
        self._epochs.load(state, workers=workers)
        self._shared[0], self._shared[1] = self._epochs.epoch, 0

    def __repr__(self) -> str:
        source, part = self._epochs.source, ""
        if self._epochs.world_size > 1:
            part = f", rank {self._epochs.rank} of {self._epochs.world_size}"
        return f"RowDataset({source.session.table}, {source.rows:,} rows{part})"


class Loader(DataLoader[Any]):  # type: ignore[misc]
    """A DataLoader that records which rows it has returned; created by ``odps_nb.torch``.

    Each batch includes its worker's position. After `load_state_dict`, batches that were fetched
    but not returned are read again.
    """

    def __init__(
        self, dataset: RowDataset, *, collate_fn: Callable[[Any], Any] | None, **options: Any
    ) -> None:
        if options.get("persistent_workers"):
            raise ArgumentError(
                "persistent_workers cannot be used: such workers would ignore a loaded state",
                argument="persistent_workers",
                hint="omit it",
            )
        if collate_fn is None:
            alone = options.get("batch_size", 1) is None and options.get("batch_sampler") is None
            collate_fn = default_convert if alone else default_collate
        self._rows = dataset
        self._handed = _Handed(given={}, turn=0)
        super().__init__(dataset, collate_fn=_Placed(dataset, collate_fn), **options)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass; see `RowDataset.set_epoch`."""
        before = self._rows.epoch
        self._rows.set_epoch(epoch)
        if self._rows.epoch != before:
            self._handed = _Handed(given={}, turn=0)

    def __iter__(self) -> Any:
        begins = _Handed.before(self._rows._epochs)
        batches: Iterator[Any] = super().__iter__()  # starts workers, each with its own dataset
        self._rows._epochs.forget()
        self._handed = begins
        return begins.over(batches, max(1, self.num_workers))

    def __len__(self) -> int:
        workers, size, made = max(1, self.num_workers), self.batch_size, 0
        samples = self._rows._epochs.samples
        for worker in range(workers):
            rows = self._rows._epochs.rows_of(worker, workers)
            if rows is None:
                raise TypeError("the number of rows that match where= is unknown")
            if isinstance(samples, AsBatches):
                rows = -(-rows // samples.size)
            if size is not None:
                rows = rows // size if self.drop_last else -(-rows // size)
            made += rows
        return made

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's position after the last returned batch, as plain values."""
        handed, workers = self._handed, max(1, self.num_workers)
        return self._rows._epochs.state(handed.given, workers, handed.turn)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume the next pass at a saved position; no row is lost or repeated.

        The same read session is used until it expires; then a new session reads the same table.

        Raises
        ------
        ArgumentError
            `state` is invalid, or was saved with a different order, rank or worker count.
        ConflictError
            The session has expired, and the table's version or number of rows has changed.
        """
        self._rows._load(state, max(1, self.num_workers))
        self._handed = _Handed.before(self._rows._epochs)


@dataclass(slots=True)
class _Handed:
    """Number of rows that one pass has returned from each shard, and the next worker's number."""

    given: dict[int, int]
    turn: int

    @classmethod
    def before(cls, epochs: Epochs) -> _Handed:
        return cls(given=dict(epochs.begins), turn=epochs.turn)

    def over(self, batches: Iterator[Any], workers: int) -> Generator[Any, None, None]:
        for batch, shard, rows in batches:
            self.given[shard], self.turn = rows, (shard + 1) % workers
            yield batch


class _Placed:
    """A collate function that adds the position of the worker that read the samples."""

    def __init__(self, dataset: RowDataset, collate: Callable[[Any], Any]) -> None:
        self._dataset, self._collate = dataset, collate

    def __call__(self, samples: Any) -> tuple[Any, int, int]:
        given = self._dataset._epochs.given
        assert given is not None  # set when the first sample is read
        return self._collate(samples), given[0], given[1]
