"""Fetches many blobs into memory, into a folder, or as a sequence of file objects."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.blob import Blob, reference_of
from odps_nb.access.checks import is_missing
from odps_nb.access.progress import listener_of
from odps_nb.access.saving import Folder, file_name_for, safe_name
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker
from odps_nb.errors import ArgumentError, a_type
from odps_nb.explained import expanded
from odps_nb.terms import BlobReference, Compression

if TYPE_CHECKING:
    from odps_nb.client.blob.response import BlobHead
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.wire.frames import BlobRecord

Reference = str | bytes | BlobReference | Blob


@dataclass(frozen=True, slots=True)
class Fetch:
    """The connection, content coding and progress display of a fetch."""

    storage: StorageClient
    compression: Compression = Compression.NONE
    progress: Progress = None

    def tracker(self, count: int) -> ProgressTracker:
        """Return the progress tracker of one job."""
        tracker = ProgressTracker("blobs", f"{count} blobs", listener=listener_of(self.progress))
        tracker.plan(items_total=count)
        tracker.phase(Phase.FETCHING)
        return tracker


class References:
    """References from a list, a pandas or Arrow column, or a `BlobColumn`."""

    def __init__(self, values: Iterable[Reference | None]) -> None:
        self.positions: dict[BlobReference, list[int]] = {}
        """All positions of each distinct reference, ordered by the first position."""
        self.total: int = 0
        for value in plain_values(values):
            if not is_missing(value):
                self.positions.setdefault(reference_of(value), []).append(self.total)
            self.total += 1


def plain_values(values: Iterable[Any]) -> Iterable[Any]:
    """Return a column, converting an Arrow array to Python values; raise if it is not a column."""
    import pyarrow as pa

    kind = type(values).__name__
    no_list = isinstance(values, (str, bytes)) or not isinstance(values, Iterable)
    if no_list or kind == "DataFrame" or isinstance(values, pa.Table):
        raise ArgumentError(
            f"{a_type(kind)} is not a column of blob references",
            argument="references",
            hint="pass a list of references"
            if no_list
            else "pass the name of the BLOB column as well: odps.blobs(frame, 'content')",
        )
    return values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else values


def iter_records(
    fetch: Fetch, wanted: Sequence[BlobReference]
) -> Generator[BlobRecord, None, None]:
    """Iterate over one record per reference, in order; see `BlobColumn.fetch`."""
    from odps_nb.client.blob.many import iter_blobs

    with fetch.tracker(len(wanted)) as tracker:
        yield from iter_blobs(
            fetch.storage,
            wanted,
            compression=fetch.compression,
            framed=True,
            tracker=tracker,
            cancel=fetch.storage.operation(),
        )


def save_blobs(
    fetch: Fetch,
    references: References,
    folder: str | os.PathLike[str],
    *,
    file_name: Callable[[int, BlobHead], str | None] | None = None,
    overwrite: bool = False,
) -> list[Path | None]:
    """Write each distinct blob to a separate file; see `BlobColumn.save`."""
    target = Folder(expanded(folder), overwrite=overwrite)
    paths: list[Path | None] = [None] * references.total

    with (
        fetch.tracker(len(references.positions)) as tracker,
        contextlib.closing(_files(fetch, references, tracker)) as blobs,
    ):
        for blob in blobs:
            try:
                saved = target.save(blob.pieces(), _name_of(blob, file_name))
            except Exception as error:
                _note_place(error, blob.positions[0])
                raise
            for position in blob.positions:
                paths[position] = saved
    return paths


def _name_of(blob: StreamedBlob, name: Callable[[int, BlobHead], str | None] | None) -> str:
    chosen = None if name is None else name(blob.positions[0], blob.head)
    if chosen is not None and not isinstance(chosen, str):
        raise ArgumentError(
            f"file_name= returned {a_type(type(chosen))}, not a file name",
            argument="file_name",
            hint="return a string, or None for the name stored with the blob",
        )
    safe = safe_name(chosen or "")
    return safe or file_name_for(blob.file_name, blob.mime_type, blob.reference.token)


def stream_blobs(fetch: Fetch, references: References) -> Generator[StreamedBlob, None, None]:
    """Iterate over each distinct blob as a file; see `BlobColumn.stream`."""
    with (
        fetch.tracker(len(references.positions)) as tracker,
        contextlib.closing(_files(fetch, references, tracker)) as blobs,
    ):
        yield from blobs


def _files(
    fetch: Fetch, references: References, tracker: ProgressTracker
) -> Generator[StreamedBlob, None, None]:
    from odps_nb.client.blob.streamed import iter_streamed_blobs

    return iter_streamed_blobs(
        fetch.storage,
        references.positions,
        compression=fetch.compression,
        tracker=tracker,
        cancel=fetch.storage.operation(),
    )


def _note_place(error: BaseException, position: int) -> None:
    """Add a note with the blob's position to an exception, unless it already has one."""
    from odps_nb.client.blob.batch import place_note

    note = place_note(position)
    if not any(existing.startswith(note) for existing in getattr(error, "__notes__", ())):
        error.add_note(note)
