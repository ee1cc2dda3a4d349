"""Checks the cells of BLOB columns in data to write, before anything is sent."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.access.blob import Blob, NewBlob
from odps_nb.access.blobs.paths import BlobPath, map_blobs
from odps_nb.access.checks import is_missing
from odps_nb.access.writing.pictures import PNG, ImageFormat, encoded, is_array, is_picture, unfit
from odps_nb.client.blob.upload import MAX_BLOB
from odps_nb.convert.arrow_types import is_bytes, is_list
from odps_nb.convert.blob_columns.arrow_blob import is_reference
from odps_nb.convert.fitting.misfit import shorten
from odps_nb.errors import ConversionError, a_type
from odps_nb.formats.media_types import type_of_name
from odps_nb.schema import ArrayType, Column, MapType, OdpsType, StructType, TypeCode
from odps_nb.terms import BlobReference
from odps_nb.wire.type_text import format_type


@dataclass(frozen=True, slots=True)
class Content:
    """One blob to upload; ``size`` is in bytes, ``None`` if unknown before the blob is read."""

    data: Any  # bytes, a Path, or a binary file object
    mime_type: str | None
    file_name: str | None
    size: int | None
    close: Callable[[], None] | None = None


def cells_of(column: Any, rows: int) -> list[Any]:
    """Return a column's cells, with nulls as ``None`` and references as `BlobReference`."""
    if column is None:
        return [None] * rows
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        values: list[Any] = column.to_pylist()
        marked = is_reference(column.type)
    else:
        values, marked = list(column), column.dtype.name == "blob"
    if not marked:
        return values
    return [None if text is None else BlobReference.from_text(text) for text in values]


def check_cells(
    values: Sequence[Any], column: Column, *, first_row: int = 0, image_format: ImageFormat = PNG
) -> list[Any]:
    """Return the cells, with pandas' missing values as ``None``; raise for invalid content."""
    checked = []
    for offset, value in enumerate(values):
        cell = None if is_missing(value) else value
        row = first_row + offset
        if cell is None and not column.nullable:
            raise _misfit("a required value is missing", column.name, row, value)
        try:
            checked.append(map_blobs(cell, column.type, partial(_leaf, column, row, image_format)))
        except (TypeError, ValueError, AttributeError):
            type_name = format_type(column.type)
            raise _misfit(
                f"the value is not of type {type_name}", column.name, row, value
            ) from None
    return checked


def _leaf(column: Column, row: int, image_format: ImageFormat, leaf: Any, path: BlobPath) -> Any:
    if is_missing(leaf):
        return None
    _check_leaf(leaf, ".".join((column.name, *path)), row, image_format)
    return leaf


def _check_leaf(leaf: Any, path: str, row: int, image_format: ImageFormat) -> None:
    data = leaf.data if isinstance(leaf, NewBlob) else leaf
    if is_picture(data) or is_array(data):
        if (reason := unfit(data, image_format)) is not None:
            raise _misfit(reason[0], path, row, data, hint=reason[1])
        return
    if isinstance(data, str):
        raise _misfit(
            "a blob must be bytes or a Path, not a string", path, row, data, hint=_TEXT_HINT
        )
    if isinstance(data, Path):
        if not data.is_file():
            raise _misfit("the file does not exist", path, row, data, hint="check the path")
        if (size := data.stat().st_size) > MAX_BLOB:
            said = f"it has {size:,} bytes; the maximum for a BLOB is 5 GiB"
            raise _misfit(said, path, row, data, hint="split it across several rows")
        return
    if isinstance(data, (bytes, bytearray, memoryview, Blob, BlobReference)):
        return
    if not callable(getattr(data, "read", None)):
        raise _misfit(f"{a_type(type(data))} cannot be written as a blob", path, row, data)
    if isinstance(data, io.TextIOBase):
        raise _misfit("the file is in text mode", path, row, data, hint="open it with mode 'rb'")


_TEXT_HINT = (
    "pass bytes, pathlib.Path(…) for a file, text.encode() for the text itself, or "
    "odps.blob(reference) to copy a blob"
)


def _misfit(
    reason: str, path: str, row: int, value: Any, *, hint: str | None = None
) -> ConversionError:
    shown = "a picture" if is_picture(value) else "an array" if is_array(value) else shorten(value)
    return ConversionError(
        f"{path}[{row}] = {shown}: {reason}",
        column=path,
        source_type=type(value).__name__,
        target_type="blob",
        row=row,
        hint=hint or "pass bytes, a pathlib.Path, a picture, a binary file or odps_nb.NewBlob",
    )


def check_leaf_types(arrow: pa.DataType, column: Column) -> None:
    """Raise unless every BLOB leaf of an Arrow column is binary."""
    _check_type(arrow, column.type, column.name)


def _check_type(arrow: pa.DataType, odps: OdpsType, path: str) -> None:
    if pt.is_dictionary(arrow):
        arrow = arrow.value_type
    if pt.is_null(arrow) or (odps.code is TypeCode.BLOB and is_reference(arrow)):
        return
    if isinstance(odps, ArrayType) and is_list(arrow):
        _check_type(arrow.value_type, odps.element, f"{path}.element")
    elif isinstance(odps, MapType) and pt.is_map(arrow):
        _check_type(arrow.key_type, odps.key, f"{path}.key")
        _check_type(arrow.item_type, odps.value, f"{path}.value")
    elif isinstance(odps, StructType) and pt.is_struct(arrow):
        types = {member.name: member.type for member in odps.fields}
        for index in range(arrow.num_fields):
            inner = arrow.field(index)
            if inner.name in types:
                _check_type(inner.type, types[inner.name], f"{path}.{inner.name}")
    elif isinstance(odps, (ArrayType, MapType, StructType)) or (
        odps.code is TypeCode.BLOB and not is_bytes(arrow)
    ):
        raise ConversionError(
            f"{path}: Arrow {arrow} does not fit {format_type(odps)}",
            column=path,
            source_type=str(arrow),
            target_type=format_type(odps),
            hint="pass binary content; to copy blobs, pass to_pandas() of the rows, or "
            "odps.blob(reference) for each reference",
        )


def sizes_of(cells: Iterable[Any]) -> int | None:
    """Return the total bytes of checked cells; ``None`` if any size is unknown."""
    size = 0
    for cell in cells:
        data = cell.data if isinstance(cell, NewBlob) else cell
        if isinstance(data, (bytes, bytearray, memoryview)):
            size += len(data)
        elif isinstance(data, Path):
            with contextlib.suppress(OSError):  # the upload will raise the error
                size += data.stat().st_size
        elif data is not None:
            return None
    return size


def content_of(
    leaf: Any, copy: Callable[[BlobReference], Blob], image_format: ImageFormat = PNG
) -> Content:
    """Return the content to upload for a checked leaf; ``copy`` converts references to handles."""
    if isinstance(leaf, BlobReference):
        leaf = copy(leaf)
    if isinstance(leaf, Blob):
        stream = leaf.open()
        return Content(stream, leaf.mime_type, leaf.file_name, leaf.size, stream.close)
    blob = leaf if isinstance(leaf, NewBlob) else NewBlob(leaf)
    data, name = blob.data, blob.file_name
    size: int | None = None
    if is_picture(data) or is_array(data):
        return _picture(blob, image_format)
    if isinstance(data, Path):
        name = name or data.name
        with contextlib.suppress(OSError):  # the upload will raise the error
            size = data.stat().st_size
    elif isinstance(data, (bytes, bytearray, memoryview)):
        data = bytes(data)
        size = len(data)
    else:
        size = _size_left(data)
    guessed = type_of_name(name) if name else None
    _require_unicode(name, blob.mime_type)
    return Content(data, blob.mime_type or guessed, name, size)


def _require_unicode(*texts: str | None) -> None:
    """Raise for a name that cannot be sent, such as the name of a file that is not valid UTF-8."""
    for text in texts:
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise ConversionError(
                f"{text!r} is not valid Unicode text",
                source_type="str",
                target_type="blob",
                hint="pass odps_nb.NewBlob(…, file_name=…, mime_type=…) with valid text",
            ) from None


def _size_left(file: Any) -> int | None:
    """Return the bytes after a file's position, ``None`` if unknown; raise at the file's end.

    A file is at its end if it was just written, or if a previous row has the same file.
    """
    if not getattr(file, "seekable", lambda: hasattr(file, "seek"))():
        return None
    start = file.tell()
    file.seek(0, io.SEEK_END)
    end = file.tell()
    file.seek(start)
    if 0 < end <= start:
        raise ConversionError(
            f"{a_type(type(file))} is at its end (byte {start:,}), so the blob would be empty",
            source_type=type(file).__name__,
            target_type="blob",
            hint="call seek(0) before the write; pass bytes if several rows have the same content",
        )
    return int(end - start)


def _picture(blob: NewBlob, image_format: ImageFormat) -> Content:
    try:
        data, name = encoded(blob.data, image_format)
    except (OSError, ValueError, SyntaxError) as error:  # Pillow has no common error class
        raise ConversionError(
            f"the picture cannot be encoded as {image_format.name.upper()}: {error}",
            source_type=type(blob.data).__name__,
            target_type="blob",
            hint="call picture.load() to check whether the source file is damaged",
        ) from error
    return Content(data, blob.mime_type or image_format.mime, blob.file_name or name, len(data))
