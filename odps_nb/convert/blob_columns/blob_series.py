"""``series.odps``: methods for a blob column in pandas and polars.

The methods use the connection that read the column. Importing this module registers the accessor in
pandas; `register_polars` registers it in polars.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pandas as pd
from pandas.api.extensions import register_series_accessor

from odps_nb.convert.blob_columns.blob_array import BlobArray, BlobDtype
from odps_nb.convert.loaded import loaded
from odps_nb.errors import StateError


class BlobSeries:
    """The ``series.odps`` accessor of a blob column.

    Pass ``connection`` only if the column has none, as in polars, or if the column comes from a
    file or another process.

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
        """Return each blob's size in bytes; send one small request per unknown size."""
        heads = self._source(connection).heads(self._references(), progress)
        return self._like([head and head.size for head in heads], "Int64")

    def mime(self, *, connection: Any = None, progress: Any = None) -> Any:
        """Return the media types set by uploaders (may be empty); send requests as `size` does."""
        heads = self._source(connection).heads(self._references(), progress)
        return self._like([head and head.mime_type for head in heads], "str")

    def thumbnails(self, limit: int = 24, *, connection: Any = None) -> Any:
        """Return a gallery of the first ``limit`` blobs; displaying it fetches the blobs.

        ``odps.blobs(df, column, caption=…)`` shows other columns in the tiles.
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
        """Save each blob as a file in a folder; return the paths, aligned with the column.

        The path of a null is ``None``. The options are those of `BlobColumn.save`.
        """
        paths = self._source(connection).save(self._references(), folder, options)
        if self._index() is None:
            return self._like([path and str(path) for path in paths], None)
        return self._like(paths, "object")

    def stream(self, *, connection: Any = None, **options: Any) -> Any:
        """Yield each distinct blob as a file, like `BlobColumn.stream`."""
        return self._source(connection).stream(self._references(), **options)

    # -- inside -------------------------------------------------------------------------------

    def _source(self, connection: Any) -> Any:
        """Return the `odps_nb.access.blobs.frames.FrameBlobs` that fetches the blobs."""
        own = getattr(getattr(self._series, "dtype", None), "source", None)
        if connection is not None:
            return connection._frame_blobs()
        if own is None or own.connection is None:
            raise StateError(
                "this column has no connection for fetching its blobs",
                hint="pass the connection: .odps.size(connection=odps)",
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
    """Return references as a blob column; ``source`` is as in `BlobDtype`."""
    values = BlobArray._from_sequence(references, dtype=BlobDtype(source))
    return pd.Series(values, index=pd.Index(list(index)), name=name)


def register_polars() -> None:
    """Register the accessor in polars, if polars is loaded."""
    polars = loaded("polars")
    if polars is not None and not hasattr(polars.Series, "odps"):
        polars.api.register_series_namespace("odps")(BlobSeries)


if not hasattr(pd.Series, "odps"):  # this module may have been loaded before
    register_series_accessor("odps")(BlobSeries)
