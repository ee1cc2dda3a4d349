"""`Epochs`: iterates over a source's samples, epoch by epoch, and saves its position.

A *shard* is the part of an epoch that one worker of one rank reads. A saved state contains the
number of rows that each shard has returned.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from odps_nb.access.checks import check_count
from odps_nb.access.learning.order import SEEDS, EpochOrder, slice_of
from odps_nb.access.learning.samples import Samples
from odps_nb.access.learning.source import RowSource
from odps_nb.errors import ArgumentError, ConflictError

FORMAT = 1
_AFRESH = "omit the state to begin a new epoch"


class Epochs:
    """The samples of one rank, epoch by epoch.

    A pickle contains no access keys; see `RowSource`. With ``even``, all shards have the same
    number of rows; the few rows left over, which differ between epochs, are dropped.
    """

    def __init__(
        self,
        source: RowSource,
        samples: Samples,
        order: EpochOrder,
        *,
        rank: int = 0,
        world_size: int = 1,
        even: bool = False,
    ) -> None:
        if not 0 <= rank < world_size:
            raise ArgumentError(
                f"rank is {rank}; it must be at least 0 and less than world_size={world_size}",
                argument="rank",
            )
        if even and source.filter is not None:
            raise ArgumentError(
                "even= cannot be combined with where=: the number of matching rows is unknown",
                argument="even",
                hint="write the matching rows to another table, e.g. with odps.sql, and read that",
            )
        self.source: RowSource = source
        self.samples: Samples = samples
        self._order = order
        self.rank: int = rank
        self.world_size: int = world_size
        self._even = even
        self.epoch: int = 0
        self.begins: dict[int, int] = {}
        """The row at which the next pass over the epoch begins, by shard; 0 if not listed."""
        self._workers: int | None = None  # number of workers in the loaded state
        self.turn: int = 0
        """The shard of this rank that the first worker reads in the next pass over the rows."""
        self.given: tuple[int, int, int] | None = None
        """The shard read in this process, its rows returned so far, and the worker count."""

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the row order; clear a loaded state of another epoch."""
        new_epoch = check_count("epoch", epoch, at_least=0) or 0
        if new_epoch >= SEEDS:
            raise ArgumentError(f"epoch is {epoch}; it must be less than 2**32", argument="epoch")
        if new_epoch != self.epoch:
            self.epoch = new_epoch
            self.forget()

    def forget(self) -> None:
        """Clear the loaded state, so that the next pass begins at the first row."""
        self.begins, self._workers, self.turn, self.given = {}, None, 0, None

    def rows_of(self, worker: int, workers: int) -> int | None:
        """Return a worker's number of rows in an epoch; ``None`` if there is a filter."""
        if self.source.filter is not None:
            return None
        low, high = self._slice(self._shard(worker, workers), workers)
        return high - low

    def pass_over(self, worker: int = 0, workers: int = 1) -> Generator[Any, None, None]:
        """Iterate over a worker's samples from the loaded position, and clear that position."""
        if self._workers is not None:
            _require_workers(self._workers, workers)
        # A DataLoader starts with its first worker, which must read the next shard.
        shard = self._shard((worker + self.turn) % workers, workers)
        begin = self.begins.get(shard, 0)
        self.forget()
        self.given = (shard, begin, workers)
        return self._from(shard, begin, workers)

    def _from(self, shard: int, begin: int, workers: int) -> Generator[Any, None, None]:
        low, high = self._slice(shard, workers)
        at, size = low + begin, self._order.window_rows
        with self.source.client() as storage:
            windows = self.source.windows(
                storage, self._order, epoch=self.epoch, low=low, high=high, at=at
            )
            samples: Any = self.samples.make(storage, windows, begin % size)
            with closing(windows), closing(samples):
                for position, sample in samples:
                    self.given = (shard, position - low, workers)
                    yield sample

    def _shard(self, worker: int, workers: int) -> int:
        return self.rank * workers + worker

    def _slice(self, shard: int, workers: int) -> tuple[int, int]:
        shards = self.world_size * workers
        return slice_of(self.source.rows, shard, shards, even=self._even)

    # -- states -------------------------------------------------------------------------------

    def state(self, given: Mapping[int, int], workers: int, turn: int = 0) -> dict[str, Any]:
        """Return a JSON-serializable state: the row count of each shard, and the next worker."""
        session = self.source.session
        return {
            "format": FORMAT,
            "epoch": self.epoch,
            "given": {str(shard): rows for shard, rows in sorted(given.items())},
            "workers": workers,
            "turn": turn,
            "session_id": session.session_id,
            "version": session.latest_version,
            "rows": self.source.rows,
            "order": self._facts(),
        }

    def state_here(self) -> dict[str, Any]:
        """Return the state of the single shard read in this process."""
        if self.given is None:
            return self.state(self.begins, self._workers or 1, self.turn)
        shard, rows, workers = self.given
        return self.state({shard: rows}, workers)

    def load(self, state: Mapping[str, Any], *, workers: int | None = None) -> None:
        """Resume from a saved state; raise if its rows, order, workers or ranks do not match.

        In the process that opened the connection, the state's session is reused unless it has
        expired. In other processes, the rows come from this object's session. ``workers`` is
        ``None`` if unknown.
        """
        saved = _Saved.parse(state)
        if workers is not None:
            _require_workers(saved.workers, workers)
        wrong = [
            f"{name} was {saved.order.get(name)!r} and is now {value!r}"
            for name, value in self._facts().items()
            if saved.order.get(name) != value
        ]
        if wrong:
            differences = ", ".join(wrong)
            raise ArgumentError(
                f"the state was saved with other settings: {differences}", hint=_AFRESH
            )
        shards = range(self.rank * saved.workers, (self.rank + 1) * saved.workers)
        for shard, rows in saved.given.items():
            count = self.world_size * saved.workers
            low, high = slice_of(saved.rows, shard, count, even=self._even)
            if shard not in shards or not 0 <= rows <= high - low:
                raise _no_state()
        self.source = self._source_of(saved)
        self._order = replace(self._order, rows=saved.rows)
        self.epoch, self.begins, self.given = saved.epoch, dict(saved.given), None
        self._workers, self.turn = saved.workers, saved.turn

    def _source_of(self, saved: _Saved) -> RowSource:
        """Return a source for the state's session or a new session; raise if the rows changed."""
        source = self.source
        if source.scan is not None:
            session_id = saved.session_id
            source = source.scan._row_source(read_ahead=source.read_ahead, session_id=session_id)
        session = source.session
        if session.session_id == saved.session_id:
            if saved.rows != source.rows:
                raise _no_state()
            return source
        changed = []
        if saved.rows != source.rows:
            changed.append(f"the number of rows was {saved.rows} and is now {source.rows}")
        if not source.partitions and len({saved.version, session.latest_version} - {0}) > 1:
            changed.append(f"the version was {saved.version} and is now {session.latest_version}")
        if changed:
            raise ConflictError(
                f"{session.table} has changed since the state was saved: " + "; ".join(changed),
                code="TableChanged",
                hint=f"{_AFRESH}; this epoch cannot be resumed",
            )
        return source

    def _facts(self) -> dict[str, Any]:
        """Return the parameters that, together with the epoch, determine the order of rows."""
        order, source = self._order, self.source
        return {
            "table": str(source.session.table),
            "partitions": list(source.partitions),
            "where": None if source.filter is None else source.filter.text,
            "seed": order.seed,
            "shuffle": order.shuffle,
            "chunk_rows": order.chunk_rows,
            "buffer_rows": order.window_rows,
            "rank": self.rank,
            "world_size": self.world_size,
            "even": self._even,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    """A parsed state; see `Epochs.state`."""

    epoch: int
    workers: int
    turn: int
    version: int
    rows: int
    session_id: str
    order: Mapping[str, Any]
    given: Mapping[int, int]

    @classmethod
    def parse(cls, state: Mapping[str, Any]) -> _Saved:
        """Parse a state, checking everything that does not depend on the rows."""
        names = ("epoch", "workers", "turn", "version", "rows")
        try:
            saved = cls(
                **{name: int(state[name]) for name in names},
                session_id=str(state["session_id"]),
                order=dict(state["order"]),
                given={int(shard): int(rows) for shard, rows in state["given"].items()},
            )
            known = state["format"] == FORMAT
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _no_state() from None
        if not (known and 0 <= saved.epoch < SEEDS and 0 <= saved.turn < saved.workers):
            raise _no_state()
        return saved


def _require_workers(saved: int, here: int) -> None:
    if saved != here:
        raise ArgumentError(
            f"the state was saved with num_workers={saved}, but num_workers is {here}",
            hint=f"use the same number (0 is the same as 1), or {_AFRESH}",
        )


def _no_state() -> ArgumentError:
    return ArgumentError(
        "this is not a state from odps_nb.torch",
        argument="state",
        hint="pass the unchanged result of state_dict()",
    )
