"""Collects the references of a BLOB column into a `BlobColumn`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from odps_nb.access.blob import Blob, BlobColumn
from odps_nb.access.blobs.frames import FrameBlobs
from odps_nb.access.blobs.paths import BlobPath, find_blob_path, walk_blobs
from odps_nb.errors import ArgumentError
from odps_nb.terms import BlobReference

if TYPE_CHECKING:
    from odps_nb.access.scan import Scan
    from odps_nb.access.table import Table

__all__ = ["gather_blobs"]

MAX_COUNTED = 10_000
"""Rows of which all references are counted, to tell of how many blobs these are the first."""


def gather_blobs(
    table: Table,
    column: str | None,
    limit: int | None,
    scan_of: Callable[[str], Scan],
    keep: Callable[[Blob], object] | None = None,
) -> BlobColumn:
    """Read references, split after split, until there are enough that are to be kept."""
    if limit is not None and limit < 0:
        raise ArgumentError(f"limit is {limit}; it must not be negative")
    path = find_blob_path(column, table.schema, table.name)
    blobs: list[Blob] = []
    summary = ""
    if limit != 0:
        # One split at a time for a few references: the first rows are usually enough.
        workers = None if limit is None else 1
        scan = scan_of(path[0])
        with closing(_references(scan, path, workers)) as references:
            made = (Blob(table.connection, BlobReference.from_text(one)) for one in references)
            blobs = list(islice(made if keep is None else filter(keep, made), limit))
            if len(blobs) == limit:
                summary = _summary(limit, references, scan.row_count, searched=keep is not None)
    name = ".".join(path)
    return BlobColumn(
        blobs,
        title=f"{table.name}.{name}",
        summary=summary,
        source=FrameBlobs(table.connection),
        name=name,
    )


def _summary(limit: int, rest: Iterator[str], rows: int | None, *, searched: bool) -> str:
    """Return what ``limit`` blobs are the first of; empty if they are all."""
    first = f"first {limit:,} blob{'' if limit == 1 else 's'}"
    if searched:  # the next one may be far away: it is not looked for
        return first
    if next(rest, None) is None:
        return ""
    if rows is None:
        return first
    if rows > MAX_COUNTED:
        return f"{first} of {rows:,} rows"
    return f"first {limit:,} of {limit + 1 + sum(1 for _ in rest):,} blobs"


def _references(scan: Scan, path: BlobPath, workers: int | None) -> Generator[str, None, None]:
    with closing(scan.batches(workers=workers)) as batches:
        for batch in batches:
            for cell in batch.column(0).to_pylist():
                yield from walk_blobs(cell, path[1:])
