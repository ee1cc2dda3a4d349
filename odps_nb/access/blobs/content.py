"""The methods of a `Blob` that turn its bytes into a picture, an array, text or a table.

``odps_nb.convert.blob_content`` converts; how bytes are recognised is one of the `Faces`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from PIL import Image

__all__ = ["MAX_BYTES", "MAX_PIXELS", "BlobContent"]

MAX_PIXELS = 40_000_000
"""Pixels of the largest picture that is decoded unless more are allowed; as for previews."""
MAX_BYTES = 1 << 30
"""Bytes of the largest blob that is converted unless more are allowed, also when unpacked."""


class BlobContent:
    """The methods of a `Blob` that convert its bytes."""

    @abstractmethod
    def _content(self, max_bytes: int) -> bytes:
        """Return all bytes; raise if there are more than ``max_bytes``."""

    @abstractmethod
    def _recognise(self, data: bytes) -> str:
        """Return the media type that the bytes themselves tell."""

    def to_pil(self, *, max_pixels: int = MAX_PIXELS, max_bytes: int = MAX_BYTES) -> Image.Image:
        """Return a picture as a decoded ``PIL.Image.Image``; of a moving one the first frame.

        What the bytes are is recognised from them, never from the stated media type. They are
        decoded in this process. Needs Pillow. Like `to_numpy`, `to_text` and `to_table` it costs
        one request, or none if the blob is cached; see `open`.

        Parameters
        ----------
        max_pixels, max_bytes
            Pixels of the picture, and bytes of the blob, that are accepted.

        Raises
        ------
        ConversionError
            The bytes are no picture, or one that was damaged before its upload.
        LimitExceededError
            The picture has more pixels, or the blob more bytes; nothing was decoded.
        MissingDependencyError
            Pillow is not installed.

        Examples
        --------
        >>> photo = odps.table("media").blobs("content", limit=1)[0]
        >>> photo.to_pil().format
        'JPEG'
        """
        from odps_nb.convert.blob_content import as_picture

        data = self._content(max_bytes)
        return as_picture(data, self._recognise(data), max_pixels=max_pixels)

    def to_numpy(
        self, *, max_pixels: int = MAX_PIXELS, max_bytes: int = MAX_BYTES
    ) -> np.ndarray[Any, Any]:
        """Return the pixels of a picture, or the array of an ``.npy`` file.

        A picture has the shape (height, width), or (height, width, channels), as Pillow decodes it:
        mostly 8 bits, red first. Nothing is unpickled. Parameters and errors are those of `to_pil`.

        Examples
        --------
        >>> photo = odps.table("media").blobs("content", limit=1)[0]
        >>> pixels = photo.to_numpy()
        >>> pixels.shape[2], pixels.dtype
        (3, dtype('uint8'))
        """
        from odps_nb.convert.blob_content import as_array

        data = self._content(max_bytes)
        return as_array(data, self._recognise(data), max_pixels=max_pixels)

    def to_text(self, *, encoding: str | None = None, max_bytes: int = MAX_BYTES) -> str:
        """Return a text; line ends stay as they are.

        Parameters
        ----------
        encoding
            Name of the encoding; by default the one of its byte order mark, else UTF-8.
        max_bytes
            Bytes of the blob that are accepted.

        Raises
        ------
        ConversionError
            The bytes are no text of that encoding.
        LimitExceededError
            The blob has more bytes.
        """
        from odps_nb.convert.blob_content import as_text

        return as_text(self._content(max_bytes), encoding)

    def to_table(self, *, max_bytes: int = MAX_BYTES) -> pa.Table:
        """Return the rows of a Parquet, Arrow (file or stream), CSV or TSV file.

        The first line of CSV and TSV names the columns, whose types are inferred.

        Parameters
        ----------
        max_bytes
            Bytes that are accepted: of the blob, and of its rows when unpacked.

        Raises
        ------
        ConversionError
            The bytes are no table of these, or one that was damaged before its upload.
        LimitExceededError
            There is more of it.

        Examples
        --------
        >>> parquet = odps.table("media").blobs("content", where="name = 'weather.parquet'")[0]
        >>> parquet.to_table().num_columns
        5
        """
        from odps_nb.convert.blob_content import as_table

        data = self._content(max_bytes)
        return as_table(data, self._recognise(data), max_bytes=max_bytes)
