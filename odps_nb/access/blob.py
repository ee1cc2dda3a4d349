"""`Blob` and `NewBlob`: one blob that is stored, and one to be written.

A `Blob` is a handle: making one sends no request; its bytes are verified before they are returned.
``odps_nb.client.blob.many`` fetches them, ``odps_nb.notebook`` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from odps_nb.access.checks import is_missing
from odps_nb.access.saving import Folder, file_name_for, save_stream
from odps_nb.errors import ArgumentError, ConversionError, OdpsNbError, explain
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
_RECEIVE_BUFFER = 128 << 10  # while only a head is wanted
MAX_PIXELS = 40_000_000
"""Default maximum of pixels of a picture to decode; as for previews."""
MAX_BYTES = 1 << 30
"""Default maximum of bytes of a blob to convert, also when unpacked."""
_HEAD = 1 << 16  # bytes from which a blob is recognised


def reference_of(value: str | bytes | BlobReference | Blob) -> BlobReference:
    """Return the reference in a value of a BLOB column (base64 text or bytes) or in a handle."""
    if isinstance(value, BlobReference):
        return value
    if isinstance(value, Blob):
        return value.reference
    if not isinstance(value, (str, bytes)):  # a null cell: None, NaN, pd.NA
        kind = type(value).__name__
        raise ArgumentError(
            f"a {kind} is not a blob reference",
            hint="leave out the rows without a blob, e.g. by column.dropna()"
            if is_missing(value)
            else f"pass one value of the column, not a {kind}",
        )
    return BlobReference.from_text(value)


class Blob:
    """Handle of one blob; made by ``odps.blob(reference)``.

    `size`, `mime_type` and `file_name` cost one small request together, at the first use.

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
        """The token that names the blob."""
        return self._reference

    @property
    def verified(self) -> bool:
        """Whether all its bytes were read through this handle and their checksums matched."""
        return self._verified

    @property
    def size(self) -> int:
        """Number of bytes; one request at the first use, unless it is known already."""
        return self._size if self._size is not None else self._fetch_head().size

    @property
    def mime_type(self) -> str:
        """The media type stated by the uploader; one request at the first use.

        Empty if there is none. Not verified.
        """
        return self._fetch_head().mime_type

    @property
    def file_name(self) -> str:
        """The file name stated by the uploader; one request at the first use.

        Empty if there is none. Not verified.
        """
        return self._fetch_head().file_name

    @property
    def head(self) -> BlobHead | None:
        """Size, type and name as one value if they are known already; sends no request."""
        return self._head

    def bytes(self) -> bytes:
        """Fetch the whole blob into memory; each call is one request.

        Raises
        ------
        NotFoundError
            There is no such blob.
        ChecksumError, TruncatedError
            The bytes arrived damaged or incomplete.
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
        """Open the blob as a binary file, verified and in bounded memory; the caller closes it.

        Parameters
        ----------
        seek
            Return a file that can seek, for zipfile, Pillow, pyarrow, PyAV and others. It fetches
            the blob from its first byte to the last one that is read, and at most 1 MiB more, and
            keeps that until it is closed: 8 MiB in memory, more in a temporary file. **Reading the
            tail costs the whole blob**: the protocol has no ranges. Without it the file is
            forward-only.
        cache
            With ``seek``: use the cache on this machine's disk, so that opening a blob again costs
            no request once all of it was read. The folder is private to the user; the setting
            ``blob_cache`` of the connection is its size, or ``"off"``.

        Raises
        ------
        NotFoundError
            There is no such blob.

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

            kept = self._storage.blob_cache if cache else None
            return open_seekable(
                self._storage, self._reference, cache=kept, ask_size=self._ask_size
            )
        from odps_nb.client.blob.file import open_blob

        return open_blob(self._storage, self._reference, cancel=self._storage.operation())

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the blob to a file and return its path.

        The file is complete, or not created. In a folder it gets a safe form of the blob's own
        name. If that is taken, a number is added, or with ``overwrite`` the file is replaced.

        Raises
        ------
        ConfigError
            The file exists and ``overwrite`` is not set, or the folder does not exist.
        """
        target = Path(path).expanduser()
        name = ""
        if target.is_dir():
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
        """Return a picture as a decoded ``PIL.Image.Image``; of a moving one the first frame.

        The format is recognised from the bytes, not from the stated media type. They are decoded in
        a separate process, bounded in memory and time, so that a malicious file cannot crash yours.
        Pixels are as in the file; ``info`` has their colour space (``icc_profile``, ``gamma``,
        ``srgb``, ``chromaticity``). Like `to_numpy`, `to_text` and `to_table` it costs one request,
        or none if the blob is cached; see `open`.

        Parameters
        ----------
        max_pixels, max_bytes
            Maximum pixels of the picture, and bytes of the blob.
        trusted
            Decode it in this process: faster for many small pictures, for files of your own.

        Raises
        ------
        ConversionError
            The bytes are no picture, or the decoder cannot read it.
        LimitExceededError
            The picture has more pixels, or the blob more bytes; nothing was decoded.
        MissingDependencyError
            Pillow is not installed.
        """
        data = self._content(max_bytes)
        return _picture(data, self._recognise(data), max_pixels, trusted=trusted)

    def to_numpy(
        self, *, max_pixels: int = MAX_PIXELS, max_bytes: int = MAX_BYTES, trusted: bool = False
    ) -> np.ndarray[Any, Any]:
        """Return the pixels of a picture, or the array of an ``.npy`` file.

        A picture has the shape (height, width), or (height, width, channels), as Pillow decodes it:
        mostly 8 bits, red first. Nothing is unpickled. Parameters and errors are those of `to_pil`.

        Examples
        --------
        >>> pixels = odps.table("media").blobs("content", limit=1)[0].to_numpy()
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
            Name of the encoding. Default: the one that the text states (byte order mark, XML, HTML,
            ``coding:``), else UTF-8, else a guess of ``charset-normalizer``.
        max_bytes
            Maximum bytes of the blob.

        Raises
        ------
        ConversionError, LimitExceededError
            The bytes are no text of that encoding, or too many.
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
        comments (``#``) are skipped. A text of Hive, whose fields end with ``\\x01``, has no names
        and ``\\N`` for null. Parsed in a separate process, as in `to_pil`.

        Parameters
        ----------
        encoding
            Of a text; see `to_text`.
        separator
            The character between fields. Default: a tab, ``,``, ``;`` or ``|``, by the first lines.
        ragged
            Accept lines with fewer or more fields than the first one: missing fields are empty,
            further ones get columns ``f3``, ``f4``, …. Otherwise such a line is an error, since the
            text may be truncated.
        max_bytes
            Maximum bytes of the blob, and of its unpacked rows.
        trusted
            Parse it in this process: for files of your own.

        Raises
        ------
        ConversionError
            The bytes are no such table, or the parser cannot read it.
        LimitExceededError
            The blob or its rows exceed ``max_bytes``.

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
            data, mime, max_bytes=max_bytes, encoding=encoding, separator=separator, ragged=ragged
        )

    def _content(self, max_bytes: int) -> builtins.bytes:
        from odps_nb.client.blob.seekable import read_whole

        cache = self._storage.blob_cache
        data = read_whole(self._storage, self._reference, cache=cache, max_bytes=max_bytes)
        self._size, self._verified = len(data), True
        return data

    def _recognise(self, data: builtins.bytes) -> str:
        from odps_nb.notebook.preview.registry import media_type

        return media_type(data[:_HEAD], len(data), "")

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

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, Any]:
        from odps_nb.notebook.preview.tile import mimebundle

        with closing(iter_glances([self])) as looked_at:
            return shown_or_error(self, lambda: mimebundle(next(looked_at)))


def _picture(data: bytes, mime: str, max_pixels: int, *, trusted: bool) -> Image.Image:
    from odps_nb.convert import blob_content, blob_conversion

    convert = blob_content.as_picture if trusted else blob_conversion.picture
    return convert(data, mime, max_pixels=max_pixels)


def iter_glances(
    blobs: Sequence[Blob], cancel: CancelToken | None = None
) -> Generator[StreamedBlob, None, None]:
    """Iterate over blobs to look at; the handles learn the heads; see `BlobColumn._glances`."""
    from odps_nb.client.blob import streamed

    if not blobs:
        return
    references = [blob.reference for blob in blobs]
    found = streamed.iter_glances(blobs[0]._storage, references, cancel=cancel)
    with closing(found):
        for blob, glance in zip(blobs, found, strict=True):
            try:
                yield glance
            finally:
                if glance.known is not None:
                    blob._learn(glance.known)


def shown_or_error(thing: object, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what a notebook shows, an error as three lines instead of a traceback."""
    try:
        return make()
    except OdpsNbError as error:
        return {"text/plain": "\n".join([repr(thing), *explain(error)])}


@dataclass(frozen=True, slots=True, repr=False)
class NewBlob:
    """A blob to be written, with its media type and file name.

    Parameters
    ----------
    data
        Bytes, a path, a binary file object (read to its end), or a PIL picture or numpy array,
        encoded as ``image_format`` of `Table.write` says.
    mime_type
        E.g. ``image/png``. Default: guessed from the name.
    file_name
        E.g. ``cat.png``; taken from a path. Stored by API version 3 only.

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
                "a blob needs bytes or a Path, not a string",
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
