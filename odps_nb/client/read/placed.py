"""Reads the rows of a condition so that a later read can begin at any of them.

Rows of a condition have no numbers. Their place is the split and the row of the split, as the
service counts it when a broken stream resumes (``docs/protocol.md`` section 3.3).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.parallel.fan_out import AdaptiveConcurrency, Job, fan_out
from odps_nb.client.read.keepalive import SessionKeeper
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.sizes import batch_bytes, batch_rows
from odps_nb.client.read.splits import SplitRows, iter_split


@dataclass(frozen=True, slots=True)
class Place:
    """Where a batch begins: the number of its split, and a row of it before the filter."""

    split: int = 0
    row: int = 0


START = Place()
Placed = tuple[Place, pa.RecordBatch]


def iter_placed(
    storage: StorageClient,
    session: ReadSession,
    begin: Place = START,
    *,
    workers: int,
    read_ahead: int,
    cancel: CancelToken | None = None,
) -> Generator[Placed, None, None]:
    """Iterate over all rows from a place on, each batch with its own place.

    Nothing before the place is read: neither the splits before its split, nor the rows before its
    row. The limit of the session is ignored.
    """
    cancel = storage.operation(cancel)
    keeper = SessionKeeper(storage, session, tracker=None, cancel=cancel)
    concurrency = AdaptiveConcurrency(min(workers, len(session.splits) - begin.split))

    def job(number: int) -> Job[Placed]:
        def rows(token: CancelToken) -> Iterator[Placed]:
            split = iter_split(
                storage,
                session,
                session.splits[number],
                skip_rows=begin.row if number == begin.split else 0,
                max_batch_bytes=batch_bytes(read_ahead, concurrency.most),
                max_batch_rows=batch_rows(session, read_ahead, concurrency.most),
                cancel=token,
                keeper=keeper,
                concurrency=concurrency,
            )
            return _PlacedRows(split, number)

        return rows

    found = fan_out(
        (job(number) for number in range(begin.split, len(session.splits))),
        size=lambda placed: int(placed[1].nbytes),
        max_bytes=read_ahead // 2,
        concurrency=concurrency,
        cancel=cancel,
    )
    with closing(keeper), closing(found):
        yield from found


class _PlacedRows:
    """Batches of one split with their places; rests and closes as the split does."""

    def __init__(self, rows: SplitRows, split: int) -> None:
        self._rows, self._split = rows, split

    def __iter__(self) -> Iterator[Placed]:
        return self

    def __next__(self) -> Placed:
        batch = next(self._rows)
        return Place(self._split, self._rows.row), batch

    def rest(self) -> None:
        """Do the periodic work of the split while a batch of it waits."""
        self._rows.rest()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._rows.close()
