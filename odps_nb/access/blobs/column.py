"""`BlobColumn`: the blobs of one column, a gallery in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from odps_nb.access.blob import Blob, iter_glances, shown_or_error
from odps_nb.access.blobs.many import Fetch, References, save_blobs
from odps_nb.terms import count_of

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.access.blobs.frames import FrameBlobs
    from odps_nb.client.blob.head import BlobHead
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.calls.cancel import CancelToken
    from odps_nb.client.calls.progress import Progress
    from odps_nb.notebook.gallery.view import Gallery


class BlobColumn(Sequence[Blob]):
    """Blobs of one column, in row order without nulls: a gallery in a notebook.

    In Jupyter the user filters, sorts, searches, enlarges, saves and selects them (`selected`).

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
        """Table and column, for a caption."""
        return self._title

    def caption(self, index: int) -> str:
        """Return the caption of a tile: its row, or its number here."""
        return f"blob {index}" if self._captions is None else self._captions[index]

    @property
    def summary(self) -> str:
        """Number of the blobs, e.g. ``first 24 of 47 blobs``."""
        return self._summary

    @property
    def selected(self) -> pd.Series[Any]:
        """The references of the blobs selected in the gallery, by the index of their rows.

        Without an index, as of ``table.blobs``, by their numbers here. ``df.loc[found.index]`` are
        the rows, ``found.odps.save(folder)`` saves the blobs.
        """
        places: Sequence[int] = () if self._gallery is None else self._gallery.selection
        return self.pick(places).references()

    def close(self) -> None:
        """Close the gallery and forget what is `selected`; the static page stays. Idempotent.

        Displayed again, the column makes a new gallery.
        """
        gallery, self._gallery = self._gallery, None
        if gallery is not None:
            gallery.close()

    def references(self) -> pd.Series[Any]:
        """Return the references as a Series, as a read gives them."""
        from odps_nb.convert.blob_columns.blob_series import reference_series

        texts = [blob.reference.token for blob in self._blobs]
        index = range(len(texts)) if self._labels is None else self._labels
        return reference_series(texts, index, name=self._name, source=self._source)

    def save(
        self,
        folder: str | Path,
        *,
        file_name: Callable[[int, BlobHead], str | None] | None = None,
        progress: Progress = None,
    ) -> list[Path | None]:
        """Save the blobs as files of a folder, replacing none; see `Connection.save_blobs`."""
        if not self._blobs:
            return []
        fetch = Fetch(storage=self._blobs[0]._storage, progress=progress)
        wanted = References(self._blobs)
        return save_blobs(fetch, wanted, folder, file_name=file_name, overwrite=False)

    def _glances(
        self, places: Sequence[int], cancel: CancelToken | None = None
    ) -> Generator[StreamedBlob, None, None]:
        """Iterate over the blobs at some places, with their heads and first bytes.

        Taking the next one closes the one before. Several small ones come in one request; an error
        of one is raised by that one alone.
        """
        return iter_glances([self._blobs[place] for place in places], cancel)

    def pick(self, places: Sequence[int]) -> BlobColumn:
        """Return the blobs at some places, in that order, with captions and labels."""
        known = range(len(self._blobs)) if self._labels is None else self._labels
        captions = self._captions
        return BlobColumn(
            [self._blobs[place] for place in places],
            title=self._title,
            captions=None if captions is None else [captions[place] for place in places],
            labels=[known[place] for place in places],
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
        return self._blobs[index]

    def __len__(self) -> int:
        return len(self._blobs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_gallery": None}

    def __repr__(self) -> str:
        return f"BlobColumn({self._summary} of {self._title})"

    def _ipython_display_(self) -> None:
        if self._gallery is None:
            from odps_nb.notebook.gallery.view import Gallery

            self._gallery = Gallery(self, summary=self.summary)
        self._gallery._ipython_display_()  # NotImplementedError: no notebook, IPython asks below

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, Any]:
        from odps_nb.notebook.gallery.page import mimebundle

        return shown_or_error(self, lambda: mimebundle(self, summary=self.summary))
