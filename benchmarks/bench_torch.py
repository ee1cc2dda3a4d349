"""Compares the loader of ``odps_nb.torch`` with plain loops that create tensors.

The loops read the table in order, in a few large requests; the loader reads shuffled chunks. All
return batches of 512 rows as tensors of the same numbers. The peer, pyodps' `maxstorage`, reads one
split after another. torch itself causes most of the cost of two workers; a loader of generated
batches measures that part.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

import odps_nb
import odps_nb.torch
from benchmarks._measure import Case, Goal, compare, header, summary
from benchmarks.bench_tables import TABLE, pyodps_client
from odps_nb.errors import MissingDependencyError, explain

COLUMNS = ["id", "quantity"]
DAYS = ["ds=2024-01-01", "ds=2024-01-02"]
SIZE = 512

Batches = Iterator[dict[str, Any]]


def tensors(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Convert Arrow batches to tensors of 512 rows."""
    import torch

    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) < SIZE:
            continue
        table = pa.Table.from_batches(held)
        whole = table.num_rows // SIZE * SIZE
        for low in range(0, whole, SIZE):
            yield {
                name: torch.from_numpy(table[name].slice(low, SIZE).to_numpy().copy())
                for name in COLUMNS
            }
        held = table.slice(whole).to_batches()
    if rest := pa.Table.from_batches(held) if held else None:
        yield {name: torch.from_numpy(rest[name].to_numpy().copy()) for name in COLUMNS}


def consume(batches: Batches) -> tuple[int, int]:
    """Do minimal work with each row: count the rows and sum one column."""
    rows = total = 0
    for batch in batches:
        rows += len(batch["id"])
        total += int(batch["quantity"].sum())
    return rows, total


def made_up(rows: int) -> tuple[int, int]:
    """Pass generated batches through two workers of torch's DataLoader, without reading a table."""
    import numpy as np
    from torch.utils.data import DataLoader, IterableDataset

    class Numbers(IterableDataset):  # type: ignore[type-arg, misc]
        def __iter__(self) -> Iterator[dict[str, Any]]:
            for _ in range(rows // SIZE // 2):
                yield {name: np.arange(SIZE) for name in COLUMNS}

    return consume(iter(DataLoader(Numbers(), batch_size=None, num_workers=2)))


def main() -> int:
    """Run the benchmark; print ratios of medians. Without torch, say what to install."""
    with odps_nb.connect("local") as odps:
        scan, client = odps.table(TABLE).read(COLUMNS, partitions=DAYS), pyodps_client(odps)
        header(f"{scan.row_count:,} rows × 2 columns as tensors, batches of {SIZE}, loopback HTTP")
        # workers that are not forked read their keys from here
        os.environ["ODPS_ACCESS_ID"] = odps.profile.access_id or ""
        os.environ["ODPS_ACCESS_KEY"] = odps.profile.as_options()["access_key"]

        def ours(workers: int, *, batches: bool = True) -> tuple[int, int]:
            dataset = odps_nb.torch.rows(scan, batch_size=SIZE if batches else None)
            size = None if batches else SIZE
            return consume(odps_nb.torch.loader(dataset, batch_size=size, num_workers=workers))

        def theirs() -> tuple[int, int]:
            session = client.create_table_read_session(TABLE, partitions=DAYS, columns=COLUMNS)

            def batches() -> Iterator[pa.RecordBatch]:
                for split in session.splits:
                    with session.open_arrow_reader(split, max_batch_rows=20_000) as reader:
                        yield from reader

            return consume(tensors(batches()))

        def plain() -> tuple[int, int]:
            return consume(tensors(scan.batches(progress=False)))

        try:
            if not ours(0) == ours(2) == ours(0, batches=False) == plain() == theirs():
                raise SystemExit("bench: the cases returned different rows")
        except MissingDependencyError as error:
            print("  left out: " + ", ".join(explain(error)))
            return 0
        count = plain()[0]
        compare(
            "one epoch in this process",
            Case("loader, shuffled", lambda: ours(0)),
            Case("loader, shuffled, a dict per row", lambda: ours(0, batches=False)),
            Case("plain loop over scan.batches()", plain),
            Case("plain loop over pyodps", theirs),
            rounds=3,
            count=count,
            goals=[Goal("loader, shuffled, a dict per row", 2)],
        )
        compare(
            "one epoch by two workers, with their start",
            Case("loader, shuffled", lambda: ours(2)),
            Case("torch's DataLoader, of batches made up", lambda: made_up(count)),
            rounds=3,
            count=count,
            goals=[Goal("torch's DataLoader, of batches made up", 0.8)],
        )
    return summary()


if __name__ == "__main__":
    raise SystemExit(main())
