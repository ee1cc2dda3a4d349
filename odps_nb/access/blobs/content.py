"""The methods of a `Blob` that turn its bytes into a picture, an array, text or a table.

``odps_nb.convert.blob_content`` converts, in the parser process where it runs parsers in native
code; how bytes are recognised is one of the `Faces`.
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

    def to_pil(
        self,
        *,
        max_pixels: int = MAX_PIXELS,
        max_bytes: int = MAX_BYTES,
        trusted: bool = False,
    ) -> Image.Image:
        """Return a picture as a decoded ``PIL.Image.Image``; of a moving one the first frame.

        What the bytes are is recognised from them, never from the stated media type. They are
        decoded in a process aside, which is bounded in memory and time: a file that was made to
        crash a decoder does not end yours. Pixels are as the file has them; what colours they mean
        is in ``info``: ``icc_profile``, ``gamma``, ``srgb``, ``chromaticity``. Needs Pillow. Like
        `to_numpy`, `to_text` and `to_table` it costs one request, or none if the blob is cached;
        see `open`.

        Parameters
        ----------
        max_pixels, max_bytes
            Pixels of the picture, and bytes of the blob, that are accepted.
        trusted
            Decode it in this process: faster for many small pictures, for files that you made.

        Raises
        ------
        ConversionError
            The bytes are no picture, one that was damaged before its upload, or one that stopped
            the decoder.
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
        data = self._content(max_bytes)
        return _picture(data, self._recognise(data), max_pixels, trusted=trusted)

    def to_numpy(
        self,
        *,
        max_pixels: int = MAX_PIXELS,
        max_bytes: int = MAX_BYTES,
        trusted: bool = False,
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
        from odps_nb.convert.blob_content import as_array, pixels_of
        from odps_nb.convert.pictures import PICTURES

        data = self._content(max_bytes)
        mime = self._recognise(data)
        if mime in PICTURES:
            return pixels_of(_picture(data, mime, max_pixels, trusted=trusted))
        return as_array(data, mime)

    def to_text(self, *, encoding: str | None = None, max_bytes: int = MAX_BYTES) -> str:
        """Return a text; line ends stay as they are.

        Parameters
        ----------
        encoding
            Name of the encoding. By default the one that the text states (byte order mark, XML,
            HTML, ``coding:``), else UTF-8, else one guessed by ``charset-normalizer``.
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

    def to_table(
        self,
        *,
        encoding: str | None = None,
        separator: str | None = None,
        ragged: bool = False,
        max_bytes: int = MAX_BYTES,
        trusted: bool = False,
    ) -> pa.Table:
        """Return the rows of a Parquet, Arrow (file or stream), CSV or TSV file.

        The first line of CSV and TSV names the columns, whose types are inferred; blank lines and
        comments (lines that begin with ``#``) are left out. A text of Hive, whose fields end with
        ``\\x01``, has no names and ``\\N`` for null. The file is read in a process aside, as in
        `to_pil`.

        Parameters
        ----------
        encoding
            Of a text; see `to_text`.
        separator
            The character between the fields of a text; by default a tab, ``,``, ``;`` or ``|``, as
            the first lines tell.
        ragged
            Accept lines with fewer or more fields than the first one: missing fields are empty, and
            further ones get columns ``f3``, ``f4``, … by their place. By default such a line is an
            error: the text may be cut.
        max_bytes
            Bytes that are accepted: of the blob, and of its rows when unpacked.
        trusted
            Read it in this process: for files that you made.

        Raises
        ------
        ConversionError
            The bytes are no table of these, one that was damaged before its upload, or one that
            stopped the parser.
        LimitExceededError
            There is more of it.

        Examples
        --------
        >>> parquet = odps.table("media").blobs("content", where="name = 'weather.parquet'")[0]
        >>> parquet.to_table().num_columns
        5
        """
        from odps_nb.convert import blob_content, blob_conversion

        data = self._content(max_bytes)
        convert = blob_content.as_table if trusted else blob_conversion.table
        mime = self._recognise(data)
        return convert(
            data,
            mime,
            max_bytes=max_bytes,
            encoding=encoding,
            separator=separator,
            ragged=ragged,
        )


def _picture(data: bytes, mime: str, max_pixels: int, *, trusted: bool) -> Image.Image:
    from odps_nb.convert import blob_content, blob_conversion

    convert = blob_content.as_picture if trusted else blob_conversion.picture
    return convert(data, mime, max_pixels=max_pixels)
