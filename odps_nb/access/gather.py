"""Collects the references of a BLOB column into a `BlobColumn`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from odps_nb.access.blob import Blob, BlobColumn
from odps_nb.access.blob_paths import BlobPath, find_blob_path, walk_blobs
from odps_nb.errors import ArgumentError
from odps_nb.terms import BlobReference

if TYPE_CHECKING:
    from odps_nb.access.scan import Scan
    from odps_nb.access.table import Table

__all__ = ["gather_blobs"]


def gather_blobs(
    table: Table, column: str, limit: int | None, scan_of: Callable[[str], Scan]
) -> BlobColumn:
    """Read references, split after split, until there are enough."""
    if limit is not None and limit < 0:
        raise ArgumentError(f"limit is {limit}; it must not be negative")
    path = find_blob_path(column, table.schema, table.name)
    storage, faces = table.connection.storage, table.connection.faces
    blobs: list[Blob] = []
    if limit != 0:
        # One split at a time for a few references: the first rows are usually enough.
        workers = None if limit is None else 1
        with closing(_references(scan_of(path[0]), path, workers)) as references:
            found = islice(references, limit)
            blobs = [Blob(storage, BlobReference.from_text(one), faces=faces) for one in found]
    return BlobColumn(blobs, title=f"{table.name}.{'.'.join(path)}", faces=faces)


def _references(scan: Scan, path: BlobPath, workers: int | None) -> Generator[str, None, None]:
    with closing(scan.batches(workers=workers)) as batches:
        for batch in batches:
            for cell in batch.column(0).to_pylist():
                yield from walk_blobs(cell, path[1:])
