"""`Blob`, `BlobColumn` and `NewBlob`: blobs as a Python user holds them.

A `Blob` is a handle: making one sends no request; its bytes are verified before they are returned.
``odps_nb.client.blob.many`` fetches them, ``odps_nb.notebook`` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from odps_nb.access.blobs.saving import file_name_for, save_stream
from odps_nb.access.checks import is_missing
from odps_nb.errors import ArgumentError, ConversionError, OdpsNbError, explain
from odps_nb.terms import BlobReference, format_bytes

if TYPE_CHECKING:
    import builtins

    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from PIL import Image

    from odps_nb.access.blobs.frames import FrameBlobs
    from odps_nb.access.connection import Connection
    from odps_nb.client.blob.head import BlobHead
    from odps_nb.client.blob.many import BlobFile
    from odps_nb.client.blob.seekable import SeekableBlob
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.calls.cancel import CancelToken
    from odps_nb.client.calls.progress import Progress
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.notebook.gallery.view import Gallery

_CHUNK = 1 << 20
_RECEIVE_BUFFER = 128 << 10  # while only a head is wanted
MAX_PIXELS = 40_000_000
"""Pixels of the largest picture that is decoded unless more are allowed; as for previews."""
MAX_BYTES = 1 << 30
"""Bytes of the largest blob that is converted unless more are allowed, also when unpacked."""
_HEAD = 1 << 16  # what is looked at to recognise a blob


def reference_of(value: str | bytes | BlobReference | Blob) -> BlobReference:
    """Return the reference in a value of a BLOB column or in a handle.

    Text and bytes are the base64 text that a read gives (``docs/protocol.md`` section 6.5); the raw
    bytes that an upload returns need `BlobReference.from_raw`.
    """
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

    `size`, `mime_type` and `file_name` cost one small request at their first use: they come at the
    head of a blob's stream, which is then closed.

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
        """The client of its connection, which another process opens at the first use."""
        source: Any = self._source
        storage: StorageClient = getattr(source, "storage", source)
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
        """Number of bytes."""
        return self._size if self._size is not None else self._fetch_head().size

    @property
    def mime_type(self) -> str:
        """The media type stated by the uploader; empty if none. Not verified."""
        return self._fetch_head().mime_type

    @property
    def file_name(self) -> str:
        """The file name stated by the uploader; empty if none. Not verified."""
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
            The reference names nothing.
        ChecksumError, TruncatedError
            The bytes arrived damaged or not all of them.
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
            Give a file that can seek, for zipfile, Pillow, pyarrow, PyAV and others. It fetches the
            blob from its first byte to the last one that is read, and at most 1 MiB more; what it
            fetched it keeps until it is closed, 8 MiB in memory, more in a temporary file without a
            name. **Reading the tail costs the whole blob**: the protocol has no ranges. Without it
            the file is read forward only, keeps nothing, and costs one request each time.
        cache
            With ``seek``: look for the blob on this machine's disk, and keep it there once all of
            it was read, so that opening it again costs no request. The folder is private to the
            user; the connection's setting ``blob_cache`` says how much it holds, or ``"off"``.

        Raises
        ------
        NotFoundError
            The reference names nothing.

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
        from odps_nb.client.blob.many import open_blob

        return open_blob(self._storage, self._reference, cancel=self._storage.operation())

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the blob to a file and return its path.

        The file is complete, or it does not appear. A folder as ``path`` gets a safe form of the
        blob's own name, with a number if that is taken.

        Raises
        ------
        ConfigError
            The file exists and ``overwrite`` is not set, or the folder does not exist.
        """
        target = Path(path).expanduser()
        into_folder = target.is_dir()
        if into_folder:
            target /= file_name_for(self.file_name, self.mime_type, self._reference.token)
        with self.open() as stream:
            chunks = iter(lambda: stream.read(_CHUNK), b"")
            saved, size = save_stream(
                chunks, target, overwrite=overwrite, number_if_taken=into_folder
            )
        self._size, self._verified = size, True
        return saved

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
            from odps_nb.client.blob.head import fetch_blob_head

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
        known = [
            repr(self._reference.token[:21] + ("…" if len(self._reference.token) > 21 else ""))
        ]
        known += [self._head.mime_type] if self._head and self._head.mime_type else []
        known += [format_bytes(self._size)] if self._size is not None else []
        return f"Blob({', '.join(known)}{', verified' if self._verified else ''})"

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, Any]:
        from odps_nb.notebook.preview.tile import mimebundle

        with closing(iter_glances([self])) as looked_at:
            return _shown(self, lambda: mimebundle(next(looked_at)))


def _picture(data: bytes, mime: str, max_pixels: int, *, trusted: bool) -> Image.Image:
    from odps_nb.convert import blob_content, blob_conversion

    convert = blob_content.as_picture if trusted else blob_conversion.picture
    return convert(data, mime, max_pixels=max_pixels)


class BlobColumn(Sequence[Blob]):
    """Blobs of one column, in row order without nulls: a gallery in a notebook.

    In Jupyter they can be filtered, sorted, searched, selected, enlarged and saved there; what is
    selected is `selected`.

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
        plural = "" if len(self._blobs) == 1 else "s"
        self._summary = summary or f"{len(self._blobs):,} blob{plural}"

    @property
    def title(self) -> str:
        """Table and column, for a caption."""
        return self._title

    def caption(self, index: int) -> str:
        """Return what a tile says besides what the blob is: its row, or its number here."""
        return f"blob {index}" if self._captions is None else self._captions[index]

    @property
    def summary(self) -> str:
        """How many these are of how many, e.g. ``first 24 of 47 blobs``."""
        return self._summary

    @property
    def selected(self) -> pd.Series[Any]:
        """The references of the blobs that are selected in its gallery, by the index of their rows.

        Without an index, as of ``table.blobs``, by their numbers here. ``df.loc[found.index]`` are
        the rows, ``found.odps.save(folder)`` saves the blobs.

        Examples
        --------
        >>> odps.table("media").blobs("content", limit=5).selected.tolist()
        []
        """
        places: Sequence[int] = () if self._gallery is None else self._gallery.selection
        return self.pick(places).references()

    def close(self) -> None:
        """Close its gallery, and free what that holds; the static page stays. Idempotent.

        What is selected there is forgotten: take `selected` before. Displayed again, the column
        makes a new gallery.
        """
        gallery, self._gallery = self._gallery, None
        if gallery is not None:
            gallery.close()

    def references(self) -> pd.Series[Any]:
        """Return the references as a Series, as a read gives them.

        Examples
        --------
        >>> odps.table("media").blobs("content", limit=2).references().odps.size().tolist()
        [25861, 138014]
        """
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
        """Save the blobs as files of a folder, replacing none; see `Connection.save_blobs`.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = odps.table("media").blobs("content", limit=2).save(folder)
        ...     [path.name for path in saved]
        ['mountains.jpg', 'mandelbrot.png']
        """
        from odps_nb.access.blobs.many import Fetch, References, save_blobs

        if not self._blobs:
            return []
        fetch = Fetch(storage=self._blobs[0]._storage, progress=progress)
        wanted = References(self._blobs)
        return save_blobs(fetch, wanted, folder, file_name=file_name, overwrite=False)

    def glances(
        self, places: Sequence[int], cancel: CancelToken | None = None
    ) -> Generator[StreamedBlob, None, None]:
        """Iterate over the blobs at some places, to look at their heads and first bytes.

        Taking the next one leaves the one before. Several come in one request where they are
        small; what is wrong with one is raised by that one alone.

        Examples
        --------
        >>> column = odps.table("media").blobs("content", limit=5)
        >>> [glance.open().read(4) for glance in column.glances([0, 1])]
        [b'\\xff\\xd8\\xff\\xe0', b'\\x89PNG']
        """
        return iter_glances([self._blobs[place] for place in places], cancel)

    def pick(self, places: Sequence[int]) -> BlobColumn:
        """Return the blobs at some places, in that order, with what is known of their rows."""
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
        from odps_nb.notebook.gallery.view import mimebundle

        return _shown(self, lambda: mimebundle(self, summary=self.summary))


def iter_glances(
    blobs: Sequence[Blob], cancel: CancelToken | None = None
) -> Generator[StreamedBlob, None, None]:
    """Iterate over blobs to look at; taking the next one leaves the one before.

    Several come in one request where they are small. The handles learn the heads.
    """
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


def _shown(thing: object, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what a notebook shows; an error becomes three lines instead of a traceback."""
    try:
        return make()
    except OdpsNbError as error:
        return {"text/plain": "\n".join([repr(thing), *explain(error)])}


@dataclass(frozen=True, slots=True, repr=False)
class NewBlob:
    """A blob to be written, with the type and name that readers will be told.

    Parameters
    ----------
    data
        Bytes, a path, a file object opened in binary mode (read to its end), or a picture of PIL
        or an array of numpy, encoded as ``image_format`` of `Table.write` says.
    mime_type
        E.g. ``image/png``; guessed from the name where there is one.
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
