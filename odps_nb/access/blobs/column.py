"""`BlobColumn`: the blobs of one column, shown as a gallery in a notebook."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from odps_nb.access.blob import Blob, iter_inspected
from odps_nb.access.blobs.many import Fetch, References, iter_records, save_blobs, stream_blobs
from odps_nb.access.displayed import DisplayedLive
from odps_nb.access.saving import Folder
from odps_nb.errors import ArgumentError, a_type
from odps_nb.explained import expanded, explained
from odps_nb.terms import Compression, count_of, no_item

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.access.blobs.frames import FrameBlobs
    from odps_nb.client.blob.response import BlobHead
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.calls.cancel import CancelToken
    from odps_nb.client.calls.progress import Progress
    from odps_nb.notebook.gallery.view import Gallery
    from odps_nb.wire.frames import BlobRecord


def _nothing() -> Generator[Any, None, None]:
    yield from ()


@explained
class BlobColumn(DisplayedLive, Sequence[Blob]):
    """Blobs of one column in row order, without nulls; shown as a gallery in a notebook.

    In Jupyter, users can filter, sort, search, enlarge, save and select blobs (see `selected`).

    Examples
    --------
    >>> column = odps.table("media").blobs("content", limit=5)
    >>> column[1:3]
    BlobColumn(2 blobs of local.media.content)
    >>> [blob.file_name for blob in column[1:3]]
    ['mandelbrot.png', 'julia.webp']
    """

    def __init__(
        self,
        blobs: Iterable[Blob],
        *,
        title: str,
        summary: str = "",
        captions: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        source: FrameBlobs | None = None,
        name: str = "",
    ) -> None:
        self._blobs, self._title = tuple(blobs), title
        self._name = name or title
        self._captions = None if captions is None else tuple(captions)
        self._labels = None if labels is None else tuple(labels)
        self._source = source
        self._gallery: Gallery | None = None
        self._summary = summary or count_of(len(self._blobs), "blob")

    @property
    def title(self) -> str:
        """Table and column name, for a caption."""
        return self._title

    def caption(self, index: int) -> str:
        """Return the caption of a blob's tile: values of its row, or its position in the column."""
        if self._captions is None:
            return f"blob {index}"
        return self._captions[self._place(index)]

    @property
    def summary(self) -> str:
        """Number of blobs as text, e.g. ``first 24 of 47 blobs``."""
        return self._summary

    @property
    def selected(self) -> pd.Series[Any]:
        """The references of the blobs selected in the gallery, indexed by row.

        If the rows have no index, as with ``table.blobs``, the index is the position in this
        column. After ``found = blobs.selected``, use ``df.loc[found.index]`` or
        ``found.odps.save(folder)``.
        """
        positions: Sequence[int] = () if self._gallery is None else self._gallery.selection
        return self.pick(positions).references()

    def close(self) -> None:
        """Close the gallery, keep its static output, and clear `selected`. Idempotent.

        Displaying the column again creates a new gallery.
        """
        gallery, self._gallery = self._gallery, None
        if gallery is not None:
            gallery.close()

    def references(self) -> pd.Series[Any]:
        """Return the references as a Series with the dtype of a BLOB column."""
        from odps_nb.convert.blob_columns.blob_series import reference_series

        texts = [blob.reference.token for blob in self._blobs]
        index = range(len(texts)) if self._labels is None else self._labels
        return reference_series(texts, index, name=self._name, source=self._source)

    def fetch(
        self, *, compression: str | Compression | None = None, progress: Progress = None
    ) -> Generator[BlobRecord, None, None]:
        """Fetch the blobs in few requests and yield one verified record per blob, in order.

        A record has ``data``, ``mime_type`` and ``file_name``. Closing the iterator early closes
        its connections. For blobs that do not fit in memory, use `stream` or `save`.

        Parameters
        ----------
        compression
            Compression during transfer: ``"zstd"`` or ``"lz4"``. Default: none.
        progress
            As for `Table.read`.

        Raises
        ------
        NotFoundError, ChecksumError, TruncatedError
            A blob does not exist, or was still damaged after retries. A note on the error
            identifies the blob.

        Examples
        --------
        >>> column = odps.table("media").blobs("content", limit=2)
        >>> [len(record.data) for record in column.fetch()]
        [25861, 30674]
        """
        fetch = self._fetching(compression, progress)
        references = [blob.reference for blob in self._blobs]
        return _nothing() if fetch is None else iter_records(fetch, references)

    def stream(
        self, *, compression: str | Compression | None = None, progress: Progress = None
    ) -> Generator[StreamedBlob, None, None]:
        r"""Iterate over each distinct blob as a readable file, in bounded memory.

        Each item is a binary file (``read``, ``readinto``; no seeking) with ``size``,
        ``mime_type``, ``file_name``, ``reference`` and ``positions`` (where the blob occurs in the
        column). Advancing the iterator verifies the unread bytes of the current file and closes the
        file. The following blobs are fetched in advance. Parameters and errors are as for `fetch`.

        Examples
        --------
        >>> one, other = odps.table("media").blobs("content", limit=2)
        >>> for blob in odps.blobs([one, other, one]).stream():
        ...     print(blob.file_name, blob.positions, blob.read(4))
        mountains.jpg (0, 2) b'\xff\xd8\xff\xe0'
        mandelbrot.png (1,) b'\x89PNG'
        """
        fetch = self._fetching(compression, progress)
        references = References(self._blobs)
        return _nothing() if fetch is None else stream_blobs(fetch, references)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        file_name: Callable[[int, BlobHead], str | None] | None = None,
        overwrite: bool = False,
        compression: str | Compression | None = None,
        progress: Progress = None,
    ) -> list[Path]:
        """Save the blobs as files in a folder and return one path per blob, in order.

        Each distinct blob is fetched once, in bounded memory, and saved as one verified file. After
        an error or an interrupt, only complete files remain. For a column with nulls, use
        ``series.odps.save``, which returns one path or null per row.

        Parameters
        ----------
        folder
            A folder; it is created if only its last part is missing.
        file_name
            Function that receives the blob's position and its `BlobHead` (``size``, ``mime_type``,
            ``file_name``) and returns a file name, or ``None`` for the blob's own name. Names are
            made safe as in `Blob.save`. If a name is taken (ignoring case), a number is appended
            (``-2``).
        overwrite
            Replace existing files. Files saved by the same call never replace each other.
        compression, progress
            As for `fetch`.

        Raises
        ------
        ConfigError
            The folder cannot be created, no file can be created in it, or the disk is full.
        NotFoundError, ChecksumError, TruncatedError
            As for `fetch`.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = odps.table("media").blobs("content", limit=3).save(folder)
        ...     [path.name for path in paths]
        ['mountains.jpg', 'mandelbrot.png', 'julia.webp']
        """
        fetch, references = self._fetching(compression, progress), References(self._blobs)
        if fetch is None:
            Folder(expanded(folder))  # checks the folder
            return []
        paths = save_blobs(fetch, references, folder, file_name=file_name, overwrite=overwrite)
        return [path for path in paths if path is not None]

    def _fetching(self, compression: str | Compression | None, progress: Progress) -> Fetch | None:
        coding = Compression.of(compression)
        return Fetch(self._blobs[0]._storage, coding, progress) if self._blobs else None

    def _inspected(
        self, positions: Sequence[int], cancel: CancelToken | None = None
    ) -> Generator[StreamedBlob, None, None]:
        """Iterate over the blobs at these positions, with their heads and first bytes.

        Advancing the iterator closes the previous blob. Small blobs share a request; an error in
        one blob is raised only when that blob is read.
        """
        return iter_inspected([self._blobs[position] for position in positions], cancel)

    def pick(self, places: Sequence[int]) -> BlobColumn:
        """Return the blobs at these positions, in this order, with captions and labels."""
        known = range(len(self._blobs)) if self._labels is None else self._labels
        captions = self._captions
        places = [self._place(position) for position in places]
        return BlobColumn(
            [self._blobs[position] for position in places],
            title=self._title,
            captions=None if captions is None else [captions[position] for position in places],
            labels=[known[position] for position in places],
            source=self._source,
            name=self._name,
        )

    @overload
    def __getitem__(self, index: int) -> Blob: ...
    @overload
    def __getitem__(self, index: slice) -> BlobColumn: ...
    def __getitem__(self, index: int | slice) -> Blob | BlobColumn:
        if isinstance(index, slice):
            return self.pick(range(len(self._blobs))[index])
        return self._blobs[self._place(index)]

    def _place(self, index: int) -> int:
        try:
            position = operator.index(index)
        except TypeError:
            raise ArgumentError(
                f"{a_type(type(index))} is not the position of a blob",
                hint="pass a number or a slice, e.g. blobs[0] or blobs[:10]",
            ) from None
        if not -len(self) <= position < len(self):
            raise no_item("blob", position, len(self))
        return position

    def __len__(self) -> int:
        return len(self._blobs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_gallery": None}

    def __repr__(self) -> str:
        return f"BlobColumn({self._summary} of {self._title})"

    def _live_view(self) -> Gallery:
        if self._gallery is None:
            from odps_nb.notebook.gallery.view import Gallery

            self._gallery = Gallery(self, summary=self.summary)
        return self._gallery

    def _static_page(self) -> Mapping[str, str]:
        from odps_nb.notebook.gallery.page import mimebundle

        return mimebundle(self, summary=self.summary)
