"""`Blob` and `NewBlob`: a stored blob, and a blob to write.

A `Blob` is a handle. Creating one sends no request; the bytes are verified before they are
returned. ``odps_nb.client.blob.many`` fetches blobs, and ``odps_nb.notebook`` displays them.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from odps_nb.access.checks import is_missing
from odps_nb.access.displayed import Displayed
from odps_nb.access.saving import Folder, file_name_for, save_stream
from odps_nb.errors import ArgumentError, ConversionError, OdpsNbError, a_type
from odps_nb.explained import expanded, explained, explained_init
from odps_nb.formats.kind import UNKNOWN
from odps_nb.formats.registry import sniff
from odps_nb.terms import BlobReference, format_bytes, shorten

if TYPE_CHECKING:
    import builtins

    import numpy as np
    import pyarrow as pa
    from PIL import Image

    from odps_nb.access.connection import Connection
    from odps_nb.client.blob.file import BlobFile
    from odps_nb.client.blob.response import BlobHead
    from odps_nb.client.blob.seekable import SeekableBlob
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.calls.cancel import CancelToken
    from odps_nb.client.calls.storage import StorageClient

_CHUNK = 1 << 20
_RECEIVE_BUFFER = 128 << 10  # bytes; small, for requests that need only the head
MAX_PIXELS = 40_000_000
"""Default maximum number of pixels when decoding a picture; previews have the same limit."""
MAX_BYTES = 1 << 30
"""Default maximum size in bytes of a blob to convert, before and after decompression."""
_HEAD = 1 << 16  # bytes used to detect the file format


def reference_of(value: str | bytes | BlobReference | Blob) -> BlobReference:
    """Return the reference in a handle or in a value of a BLOB column (base64 text or bytes)."""
    if isinstance(value, BlobReference):
        return value
    if isinstance(value, Blob):
        return value.reference
    if not isinstance(value, (str, bytes)):  # e.g. a null: None, NaN, pd.NA
        kind = type(value).__name__
        raise ArgumentError(
            f"{a_type(kind)} is not a blob reference",
            hint="drop the rows without a blob, e.g. with column.dropna()"
            if is_missing(value)
            else f"pass one value of the column, not {a_type(kind)}",
        )
    return BlobReference.from_text(value)


@explained
class Blob(Displayed):
    """A handle to one blob; created by ``odps.blob(reference)``.

    The first use of `size`, `mime_type` or `file_name` fetches all three in one small request.

    Examples
    --------
    >>> photo = odps.table("media").blobs("content", limit=1)[0]
    >>> photo.mime_type, photo.file_name
    ('image/jpeg', 'mountains.jpg')
    >>> len(photo.bytes()) == photo.size, photo.verified
    (True, True)
    """

    def __init__(self, storage: StorageClient | Connection, reference: BlobReference) -> None:
        self._source, self._reference = storage, reference
        self._size: int | None = None
        self._head: BlobHead | None = None
        self._verified = False

    @property
    def _storage(self) -> StorageClient:
        source: Any = self._source
        storage: StorageClient = getattr(source, "_storage", source)
        return storage

    @property
    def reference(self) -> BlobReference:
        """The reference that identifies the blob."""
        return self._reference

    @property
    def verified(self) -> bool:
        """Whether the whole blob was read through this handle and its checksums matched."""
        return self._verified

    @property
    def size(self) -> int:
        """Size in bytes; if it is not known yet, the first use sends one request."""
        return self._size if self._size is not None else self._fetch_head().size

    @property
    def mime_type(self) -> str:
        """The media type stated by the uploader; the first use sends one request.

        Empty if the uploader stated none. The value is not verified.
        """
        return self._fetch_head().mime_type

    @property
    def file_name(self) -> str:
        """The file name stated by the uploader; the first use sends one request.

        Empty if the uploader stated none. The value is not verified.
        """
        return self._fetch_head().file_name

    @property
    def head(self) -> BlobHead | None:
        """Size, type and name if already known, otherwise ``None``; sends no request."""
        return self._head

    def bytes(self) -> bytes:
        """Fetch the whole blob into memory; each call sends one request.

        Raises
        ------
        NotFoundError
            The blob does not exist.
        ChecksumError, TruncatedError
            The bytes were damaged or incomplete.
        """
        with self.open() as stream:
            data = stream.read()
        self._size, self._verified = len(data), True
        return data

    @overload
    def open(self, *, seek: Literal[False] = False) -> BlobFile: ...
    @overload
    def open(self, *, seek: Literal[True], cache: bool = True) -> SeekableBlob: ...
    def open(self, *, seek: bool = False, cache: bool = True) -> BlobFile | SeekableBlob:
        """Open the blob as a binary file of verified bytes; the caller closes it.

        Parameters
        ----------
        seek
            Return a seekable file, for zipfile, Pillow, pyarrow, PyAV and others. It fetches the
            blob from the start to the last byte read, plus at most 1 MiB. It keeps these bytes
            until it is closed: up to 8 MiB in memory, more in a temporary file. **Reading the end
            fetches the whole blob**, because the protocol has no byte ranges. ``False``: return a
            forward-only file.
        cache
            Use the disk cache; only with ``seek``. A blob that was read completely is then reopened
            without a request, unless it is larger than a quarter of the cache or the disk is almost
            full. Only the user can read the cache folder. ``blob_cache`` of `odps_nb.connect` sets
            the size of the cache, or disables it (``"off"``).

        Raises
        ------
        NotFoundError
            The blob does not exist.

        Examples
        --------
        >>> import zipfile
        >>> archive = odps.table("media").blobs("content", where="name = 'bundle.zip'")[0]
        >>> with archive.open(seek=True) as file, zipfile.ZipFile(file) as opened:
        ...     len(opened.namelist()), file.verified
        (5, True)
        """
        if seek:
            from odps_nb.client.blob.seekable import open_seekable

            blob_cache = self._storage.blob_cache if cache else None
            return open_seekable(
                self._storage, self._reference, cache=blob_cache, ask_size=self._ask_size
            )
        from odps_nb.client.blob.file import open_blob

        return open_blob(self._storage, self._reference, cancel=self._storage.operation())

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the blob to a file and return its path.

        The file is written completely or not at all. If ``path`` is a folder, the file name is
        a safe form of the blob's name. If a file with that name exists, a number is appended to the
        name; with ``overwrite``, the old file is replaced.

        Raises
        ------
        ConfigError
            The file exists and ``overwrite`` is not set, the folder does not exist, or the disk is
            full.
        """
        target = expanded(path)
        name = ""
        if os.path.isdir(target):  # noqa: PTH112  does not raise for a long name
            name = file_name_for(self.file_name, self.mime_type, self._reference.token)
        with self.open() as stream:
            chunks = iter(lambda: stream.read(_CHUNK), b"")
            if name:
                saved = Folder(target, overwrite=overwrite).save(chunks, name)
            else:
                saved = save_stream(chunks, target, overwrite=overwrite)
        self._size, self._verified = saved.stat().st_size, True
        return saved

    def to_pil(
        self, *, max_pixels: int = MAX_PIXELS, max_bytes: int = MAX_BYTES, trusted: bool = False
    ) -> Image.Image:
        """Decode a picture, or the first frame of an animation, as a ``PIL.Image.Image``.

        The format is detected from the bytes, not from the stated media type. The bytes are decoded
        in a separate process with limited memory and time, so a malicious file cannot crash this
        process. Pixel values are not changed; ``info`` contains the colour space (``icc_profile``,
        ``gamma``, ``srgb``, ``chromaticity``). Like `to_numpy`, `to_text` and `to_table`, this
        method sends one request, or none if the blob is cached; see `open`.

        Parameters
        ----------
        max_pixels, max_bytes
            Maximum number of pixels in the picture, and maximum size of the blob in bytes.
        trusted
            Decode in this process, which is faster for many small pictures; only for trusted files.

        Raises
        ------
        ConversionError
            The bytes are not a picture, or the decoder cannot read them.
        LimitExceededError
            The picture or blob exceeds ``max_pixels`` or ``max_bytes``; nothing was decoded.
        MissingDependencyError
            Pillow is not installed.
        """
        with self._named():
            data = self._content(max_bytes)
            return _picture(data, self._recognise(data), max_pixels, trusted=trusted)

    def to_numpy(
        self, *, max_pixels: int = MAX_PIXELS, max_bytes: int = MAX_BYTES, trusted: bool = False
    ) -> np.ndarray[Any, Any]:
        """Return the pixels of a picture, or the array in an ``.npy`` file.

        The array of a picture has the shape (height, width) or (height, width, channels), as
        decoded by Pillow: usually 8-bit RGB. Pickled arrays are not loaded. Parameters and errors
        are as for `to_pil`.

        Examples
        --------
        >>> pixels = odps.table("media").blobs("content", limit=1)[0].to_numpy()
        >>> pixels.shape[2], pixels.dtype
        (3, dtype('uint8'))
        """
        from odps_nb.convert.blob_content import as_array, pixels_of
        from odps_nb.convert.pictures import PICTURES

        with self._named():
            data = self._content(max_bytes)
            mime = self._recognise(data)
            if mime in PICTURES:
                return pixels_of(_picture(data, mime, max_pixels, trusted=trusted))
            return as_array(data, mime)

    def to_text(self, *, encoding: str | None = None, max_bytes: int = MAX_BYTES) -> str:
        """Decode the blob as text, keeping its line endings.

        Parameters
        ----------
        encoding
            Name of the encoding. Default: the encoding that the text declares (byte order mark,
            XML, HTML, ``coding:``), then UTF-8, then the guess of ``charset-normalizer``. A few
            bytes that are invalid in this encoding are replaced by U+FFFD, with a warning.
        max_bytes
            Maximum size of the blob in bytes.

        Raises
        ------
        ConversionError, LimitExceededError
            The bytes are not text in that encoding, or exceed ``max_bytes``.
        """
        from odps_nb.convert.blob_content import as_text

        with self._named():
            return as_text(self._content(max_bytes), encoding)

    def to_table(
        self,
        *,
        encoding: str | None = None,
        separator: str | None = None,
        header: bool | None = None,
        names: Sequence[str] | None = None,
        ragged: bool = False,
        sheet: str | int | None = None,
        max_bytes: int = MAX_BYTES,
        trusted: bool = False,
    ) -> pa.Table:
        """Parse Parquet, Arrow (file or stream), CSV, TSV, JSON lines or a workbook into a table.

        The first line of CSV and TSV names the columns, whose types are inferred; blank lines and
        comments (``#``) are skipped. A Hive text file has fields separated by ``\\x01``, no column
        names, and ``\\N`` for null. The file is parsed in a separate process, as in `to_pil`.

        Parameters
        ----------
        encoding
            Encoding of text; see `to_text`.
        separator
            Field separator; ``" "`` stands for any number of blanks. Default: a tab, ``,``, ``;``
            or ``|``, detected from the lines in the first 64 KiB.
        header
            Whether the first line names the columns. Default: true, unless ``names`` is given or
            the text is a Hive text. Columns without names are called ``f0``, ``f1``, ….
        names
            Column names, one for each field. With ``header=True``, they replace the first line.
        ragged
            Accept lines with fewer or more fields than the first line. Missing fields are empty;
            extra fields become columns ``f3``, ``f4``, …. By default, such a line raises an error.
        sheet
            Name or number of the sheet in a workbook (Excel, OpenDocument; extra ``previews``).
            Default: the first sheet, 0. A column with values of different types becomes text.
        max_bytes
            Maximum size in bytes of the blob, and of its decompressed rows.
        trusted
            Parse in this process; only for trusted files.

        Raises
        ------
        ConversionError
            The bytes are not a table in one of these formats, or the parser cannot read them.
        LimitExceededError
            The blob or its rows exceed ``max_bytes``.

        Examples
        --------
        >>> parquet = odps.table("media").blobs("content", where="name = 'weather.parquet'")[0]
        >>> parquet.to_table().num_columns
        5
        """
        from odps_nb.convert import blob_content, blob_conversion

        if separator and (len(separator) > 1 or not separator.isascii() or separator in '\r\n"'):
            raise ArgumentError(
                f"separator is {separator!r}; it must be one ASCII character",
                argument="separator",
                hint="pass e.g. separator=';', or ' ' for any number of blanks",
            )
        with self._named():
            data = self._content(max_bytes)
            mime, name = self._recognise(data), ""
            if mime == UNKNOWN and encoding is not None:  # e.g. short UTF-16 without a mark
                data, encoding = blob_content.as_text(data, encoding).encode(), "utf-8"
                mime = self._recognise(data)
            if mime.startswith("text/") and mime not in blob_content.DELIMITED:
                name = self.file_name  # an extension such as .csv decides if the text is ambiguous
                mime = self._recognise(data, name)
            convert = blob_content.as_table if trusted else blob_conversion.table
            return convert(
                data,
                mime,
                max_bytes=max_bytes,
                encoding=encoding,
                separator=separator,
                header=header,
                names=None if names is None else list(names),
                ragged=ragged,
                file_name=name,
                sheet=sheet,
            )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the blob's name, or else its reference, as a note to an error."""
        try:
            yield
        except OdpsNbError as error:
            name = self._head.file_name if self._head else ""
            error.add_note(f"the blob is {shorten(name or self._reference.token, 80)!r}")
            raise

    def _content(self, max_bytes: int) -> builtins.bytes:
        from odps_nb.client.blob.seekable import read_whole

        cache = self._storage.blob_cache
        data = read_whole(self._storage, self._reference, cache=cache, max_bytes=max_bytes)
        self._size, self._verified = len(data), True
        return data

    def _recognise(self, data: builtins.bytes, name: str = "") -> str:
        return sniff(data[:_HEAD], len(data), name).mime

    def _ask_size(self) -> int:
        if self._size is not None:
            return self._size
        return self._fetch_head(receive_buffer=_RECEIVE_BUFFER).size

    def _fetch_head(self, *, receive_buffer: int | None = None) -> BlobHead:
        if self._head is None:
            from odps_nb.client.blob.response import fetch_blob_head

            storage, token = self._storage, self._storage.operation()
            return self._learn(
                fetch_blob_head(
                    storage, self._reference, cancel=token, receive_buffer=receive_buffer
                )
            )
        return self._head

    def _learn(self, head: BlobHead) -> BlobHead:
        self._head, self._size = head, head.size
        return head

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blob) and other._reference == self._reference

    def __hash__(self) -> int:
        return hash(self._reference)

    def __repr__(self) -> str:
        known = [repr(shorten(self._reference.token, 22))]
        known += [self._head.mime_type] if self._head and self._head.mime_type else []
        known += [format_bytes(self._size)] if self._size is not None else []
        return f"Blob({', '.join(known)}{', verified' if self._verified else ''})"

    def _static_page(self) -> Mapping[str, str]:
        from odps_nb.notebook.preview.tile import mimebundle

        with closing(iter_inspected([self])) as looked_at:
            return mimebundle(next(looked_at))


def _picture(data: bytes, mime: str, max_pixels: int, *, trusted: bool) -> Image.Image:
    from odps_nb.convert import blob_content, blob_conversion

    convert = blob_content.as_picture if trusted else blob_conversion.picture
    return convert(data, mime, max_pixels=max_pixels)


def iter_inspected(
    blobs: Sequence[Blob], cancel: CancelToken | None = None
) -> Generator[StreamedBlob, None, None]:
    """Iterate over blobs for previews, and cache their heads; see `BlobColumn._inspected`."""
    from odps_nb.client.blob import streamed

    if not blobs:
        return
    references = [blob.reference for blob in blobs]
    opened = streamed.iter_inspected(blobs[0]._storage, references, cancel=cancel)
    with closing(opened):
        for blob, opened_blob in zip(blobs, opened, strict=True):
            try:
                yield opened_blob
            finally:
                if opened_blob.known is not None:
                    blob._learn(opened_blob.known)


@explained_init
@dataclass(frozen=True, slots=True, repr=False)
class NewBlob:
    """A blob to write, with its media type and file name.

    Parameters
    ----------
    data
        Bytes, a path, a binary file object (read from its position to its end), a PIL image or a
        NumPy array. Images and arrays are encoded in the ``image_format`` of `Table.write`.
    mime_type
        Media type, e.g. ``image/png``. Default: guessed from the file name.
    file_name
        File name, e.g. ``cat.png``. Default: the name in the path. Sent in both API versions; the
        vendor's clients send it only in version 3.

    Examples
    --------
    >>> import pandas as pd
    >>> table = odps.create_table("doc_new_blob", "id bigint, content blob")
    >>> note = NewBlob(b"remember the milk", mime_type="text/plain")
    >>> table.write(pd.DataFrame({"id": [1], "content": [note]})).rows
    1
    >>> odps.drop_table("doc_new_blob")
    """

    data: bytes | bytearray | memoryview | Path | BinaryIO | Image.Image | np.ndarray[Any, Any]
    mime_type: str | None = None
    file_name: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.data, str):
            raise ConversionError(
                "a blob must be bytes or a Path, not a string",
                source_type="str",
                target_type="blob",
                hint="pass pathlib.Path(…) for a file, or text.encode() for the text itself",
            )

    def __repr__(self) -> str:
        data = self.data
        if isinstance(data, (bytes, bytearray, memoryview)):
            shown = f"<{format_bytes(len(data))}>"
        else:
            kind = "file" if hasattr(data, "read") else type(data).__name__
            shown = repr(str(data)) if isinstance(data, Path) else f"<{kind}>"
        more = [f"{k}={v!r}" for k in ("mime_type", "file_name") if (v := getattr(self, k))]
        return f"NewBlob({', '.join([shown, *more])})"
