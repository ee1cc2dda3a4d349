"""``series.odps``: what a column of blobs can do, in pandas and polars.

Five methods over the connection that the column was read with. Those of pandas are registered when
this is imported, those of polars by `register_polars`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
from pandas.api.extensions import register_series_accessor

from odps_nb.convert.blob_columns.blob_array import BlobArray, BlobDtype
from odps_nb.errors import StateError


class BlobSeries:
    """What ``series.odps`` is, for a column of blob references.

    ``connection`` is needed only where the column does not know its own: in polars, and in a
    column that comes from a file or from another process.

    Examples
    --------
    >>> media = odps.table("media").read(["id", "content"], limit=3).to_pandas()
    >>> media["content"].odps.size().tolist()
    [25861, 30674, 22238]
    >>> media["content"].odps.mime().tolist()
    ['image/jpeg', 'image/png', 'image/webp']
    """

    def __init__(self, series: Any) -> None:
        self._series = series

    def size(self, *, connection: Any = None, progress: Any = None) -> Any:
        """Return the bytes of each blob; one small request for each that is not known yet."""
        heads = self._source(connection).heads(self._references(), progress)
        return self._like([head and head.size for head in heads], "Int64")

    def mime(self, *, connection: Any = None, progress: Any = None) -> Any:
        """Return the media type that the uploader stated, as `size` does; empty if none."""
        heads = self._source(connection).heads(self._references(), progress)
        return self._like([head and head.mime_type for head in heads], "str")

    def thumbnails(self, limit: int = 24, *, connection: Any = None) -> Any:
        """Return the first blobs as a gallery, which reads them when it is shown.

        ``odps.blobs(df, column, caption=…)`` adds other columns to the tiles.
        """
        index = self._index()
        labels = list(range(len(self._series)) if index is None else index)
        title = str(self._series.name or "blobs")
        return self._source(connection).gallery(self._references(), labels, limit, title)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        connection: Any = None,
        **options: Any,
    ) -> Any:
        """Save each blob as a file of a folder; return the paths beside the column.

        The path of a null is ``None``. The options are those of `BlobColumn.save`.
        """
        paths = self._source(connection).save(self._references(), folder, options)
        if self._index() is None:
            return self._like([path and str(path) for path in paths], None)
        return self._like(paths, "object")

    def stream(self, *, connection: Any = None, **options: Any) -> Any:
        """Iterate over each distinct blob as a file, as `BlobColumn.stream` does."""
        return self._source(connection).stream(self._references(), **options)

    # -- inside -------------------------------------------------------------------------------

    def _source(self, connection: Any) -> Any:
        """Return the `odps_nb.access.blobs.frames.FrameBlobs` that fetches the blobs."""
        own = getattr(getattr(self._series, "dtype", None), "source", None)
        if connection is not None:
            return connection._frame_blobs()
        if own is None or own.connection is None:
            raise StateError(
                "this column does not know over which connection its blobs are fetched",
                hint="pass it: .odps.size(connection=odps)",
            )
        return own

    def _references(self) -> Sequence[Any]:
        return list(self._series.to_list())

    def _index(self) -> Any:
        return self._series.index if isinstance(self._series, pd.Series) else None

    def _like(self, values: list[Any], dtype: str | None) -> Any:
        if isinstance(self._series, pd.Series):
            name: Any = self._series.name
            return pd.Series(values, index=self._series.index, dtype=dtype, name=name)
        return type(self._series)(self._series.name, values)

    def __repr__(self) -> str:
        return "<blobs of a column: size, mime, thumbnails, save, stream>"


def reference_series(
    references: Sequence[str], index: Sequence[Any], *, name: str, source: Any
) -> pd.Series[Any]:
    """Return references as a column of blobs; ``source`` as of `BlobDtype`."""
    values = BlobArray._from_sequence(references, dtype=BlobDtype(source))
    return pd.Series(values, index=pd.Index(list(index)), name=name)


def register_polars() -> None:
    """Add the methods to columns of polars, if it is loaded."""
    polars = sys.modules.get("polars")
    if polars is not None and not hasattr(polars.Series, "odps"):
        polars.api.register_series_namespace("odps")(BlobSeries)


if not hasattr(pd.Series, "odps"):  # this module may be loaded a second time
    register_series_accessor("odps")(BlobSeries)
