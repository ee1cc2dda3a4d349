"""The methods of a `Connection` that read blobs by their references: one, many, as files.

``odps_nb.client`` fetches blobs; ``odps_nb.access.blobs.many`` passes them on to memory, files or
functions.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from odps_nb.client.calls.progress import Progress, listener_of
from odps_nb.terms import BlobReference, Compression

if TYPE_CHECKING:
    from odps_nb.access.blob import Blob, BlobColumn
    from odps_nb.access.blobs.frames import FrameBlobs
    from odps_nb.access.blobs.many import Fetch, Reference
    from odps_nb.access.connection import Connection
    from odps_nb.access.faces import Faces
    from odps_nb.client.blob.head import BlobHead
    from odps_nb.client.blob.many import BlobRecord
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.calls.storage import StorageClient

__all__ = ["ByReference"]


class ByReference:
    """The methods of a `Connection` that read blobs by their references."""

    @property
    @abstractmethod
    def storage(self) -> StorageClient:
        """The Storage API client of the connection."""

    @property
    @abstractmethod
    def faces(self) -> Faces:
        """Functions of higher floors: progress, pictures, Spark."""

    def blob(self, reference: str | bytes | BlobReference) -> Blob:
        """Return the handle of a blob; no request is sent until its bytes are read.

        Parameters
        ----------
        reference
            A value of a BLOB column as it was read.
        """
        from odps_nb.access.blob import Blob, reference_of

        self.storage  # noqa: B018  # raises if the connection is closed
        return Blob(cast("Connection", self), reference_of(reference), faces=self.faces)

    def blobs(
        self,
        references: Iterable[Reference],
        *,
        compression: str | Compression | None = None,
        progress: Progress = None,
    ) -> Iterator[BlobRecord]:
        """Fetch many blobs in few requests: one record per reference, in order, verified.

        Leaving the iterator early closes its connection. For blobs that do not fit into memory use
        `save_blobs` and `each_blob`; to look at them, `gallery`.

        Raises
        ------
        ArgumentError
            A value is no reference; nothing was sent.
        ChecksumError, TruncatedError
            Bytes were damaged or are missing.
        """
        from odps_nb.access.blobs.many import iter_records

        return iter_records(self._fetch(compression, progress), references)

    def gallery(
        self,
        frame: Any,
        column: str,
        *,
        caption: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> BlobColumn:
        """Return the blobs of a frame's column as a gallery, each under its row.

        Displayed in Jupyter it can be filtered, sorted, searched and selected from, however many
        there are (`BlobColumn.selected`); the notebook keeps the first 64 tiles. Blobs are read
        when they are looked at.

        Parameters
        ----------
        frame
            A pandas or polars DataFrame or an Arrow table: filtered, sorted, joined, from a file.
        column
            The column with references; rows without a blob are left out.
        caption
            Columns whose values stand on the tiles, beside the index of the row.
        limit
            Blobs at most.

        Raises
        ------
        NotFoundError
            The frame has no such column.
        ArgumentError
            A value is no reference.

        Examples
        --------
        >>> media = odps.table("media").read(["content", "declared"]).to_pandas()
        >>> pictures = media[media["declared"] == "image/png"]
        >>> odps.gallery(pictures, "content", caption="declared", limit=2)
        BlobColumn(2 blobs of content)
        """
        from odps_nb.access.blobs.frames import frame_gallery

        return frame_gallery(cast("Connection", self), frame, column, caption, limit)

    def _frame_blobs(self) -> FrameBlobs:
        """Return what ``series.odps`` fetches blobs with, for a column without a connection."""
        from odps_nb.access.blobs.frames import FrameBlobs

        return FrameBlobs(cast("Connection", self))

    def save_blobs(
        self,
        references: Iterable[Reference | None],
        folder: str | os.PathLike[str],
        *,
        file_name: Callable[[int, BlobHead], str | None] | None = None,
        overwrite: bool = False,
        compression: str | Compression | None = None,
        progress: Progress = None,
    ) -> list[Path | None]:
        """Save many blobs as files of a folder: one path per reference, in order.

        Each distinct reference is fetched once and becomes one file, verified and whole, or none.
        Memory holds a bounded part of it, however large the blobs are. After an error or an
        interrupt the complete files stay.

        Parameters
        ----------
        references
            Values of a BLOB column (a list, a Series, an Arrow array) or a `BlobColumn`. A null
            has no file: its path is ``None``, so that the result fits beside the column.
        folder
            An existing folder; no file is ever made outside of it.
        file_name
            Called with the position of the reference and what is known of the blob (``size``,
            ``mime_type``, ``file_name``); returns a file name, or ``None`` for the one
            that the blob states. Both are made safe as `Blob.save` does, and numbered (``-2``)
            when taken, also where they only differ in case.
        overwrite
            Replace files that were there before. Files of the same call never replace each other.
        compression
            ``"zstd"`` or ``"lz4"`` on the way.

        Raises
        ------
        ArgumentError
            A value is no reference; nothing was sent.
        ConfigError
            The folder does not exist, or no file can be made there.
        NotFoundError, ChecksumError, TruncatedError
            A blob is not there, or stayed damaged; a note says which one.

        Examples
        --------
        >>> import tempfile
        >>> media = odps.table("media").head(3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     media["file"] = odps.save_blobs(media["content"], folder)
        ...     [path.name for path in media["file"]]
        ['mountains.jpg', 'mandelbrot.png', 'julia.webp']
        """
        from odps_nb.access.blobs.many import References, save_blobs

        fetch = self._fetch(compression, progress)
        return save_blobs(
            fetch, References(references), folder, file_name=file_name, overwrite=overwrite
        )

    def each_blob(
        self,
        references: Iterable[Reference | None],
        fn: Callable[[StreamedBlob], object],
        *,
        compression: str | Compression | None = None,
        progress: Progress = None,
    ) -> int:
        r"""Call a function with each blob in turn, as a readable file; return how many.

        Blobs come in the order of their first place in ``references``, each distinct one once:
        ``blob.positions`` lists its positions. Nulls are left out. Meanwhile the next ones are
        fetched, into a bounded part of memory, however large they are.

        Parameters
        ----------
        references
            As for `save_blobs`.
        fn
            Runs in this thread. The blob is a binary file (``read``, ``readinto``; no seeking)
            with ``size``, ``mime_type``, ``file_name`` and ``reference``, and is closed
            when the function returns; what was not read is passed over. What the function
            raises ends the call.

        Raises
        ------
        ArgumentError, NotFoundError, ChecksumError, TruncatedError
            As for `save_blobs`, also if the function has kept the error to itself.

        Examples
        --------
        >>> def show(blob):
        ...     print(blob.file_name, blob.positions, blob.read(4))
        >>> one, other = odps.table("media").blobs("content", limit=2)
        >>> odps.each_blob([one, other, one], show)
        mountains.jpg (0, 2) b'\xff\xd8\xff\xe0'
        mandelbrot.png (1,) b'\x89PNG'
        2
        """
        from odps_nb.access.blobs.many import References, each_blob

        return each_blob(self._fetch(compression, progress), References(references), fn)

    def _fetch(self, compression: str | Compression | None, progress: Progress) -> Fetch:
        from odps_nb.access.blobs.many import Fetch

        return Fetch(
            storage=self.storage,
            compression=Compression.of(compression),
            listener=lambda: listener_of(progress, default=self.faces.listener),
        )
