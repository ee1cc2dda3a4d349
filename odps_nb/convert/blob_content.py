"""Converts a blob's bytes to a Python object: a picture, an array, text, or a table.

The caller passes the media type detected from the bytes; the uploader's media type is never used.
Sizes stated in the content are checked before parsing. `blob_conversion` runs the conversion in a
process with limited memory.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from odps_nb.arrow.validation import validate
from odps_nb.convert.pictures import (
    PICTURES,
    check_signs,
    icon_size,
    open_picture,
    register,
    tiff_form,
)
from odps_nb.convert.text_table import TableTextOptions, delimited_table, json_table
from odps_nb.convert.unreadable import check_encryption, check_unions
from odps_nb.convert.warning import warn
from odps_nb.convert.workbook import WORKBOOKS, sheet_table
from odps_nb.errors import ConversionError, LimitExceededError, MissingDependencyError
from odps_nb.parsing.delimited import BLANKS, HIVE
from odps_nb.parsing.encodings import SAMPLE, decode, decode_detected, detect, detect_after
from odps_nb.parsing.lengths import ends_early
from odps_nb.parsing.reasons import DAMAGED, ENDS_EARLY, is_failure, refusal_of
from odps_nb.terms import count_of, format_bytes
from odps_nb.wire.arrow_stream import DEFAULT_MAX_DECOMPRESSED, EndMarkerCheck

if TYPE_CHECKING:
    from PIL import Image

_ARRAY = "application/x-npy"
_PARQUET = "application/vnd.apache.parquet"
_ARROW_FILE = "application/vnd.apache.arrow.file"
_ARROW_STREAM = "application/vnd.apache.arrow.stream"
_JSON_LINES = "application/x-ndjson"
DELIMITED = {
    "text/csv": ",",
    "text/tab-separated-values": "\t",
    "text/x-hive": HIVE,
    "text/x-columns": BLANKS,
}
_ROWS = 1 << 14


def as_picture(data: bytes, mime: str, *, max_pixels: int) -> Image.Image:
    """Return the decoded Pillow image, or the first one if the file contains several."""
    check_picture(mime)
    from PIL import Image, UnidentifiedImageError

    with readable(mime, "picture", max_pixels), warnings.catch_warnings():
        # Pillow warns about harmless defects; other defects raise an error or are checked here
        warnings.simplefilter("ignore")
        try:
            if PICTURES[mime] == "ICO":  # check first, because Pillow decodes icons on opening
                _require_pixels(icon_size(data), max_pixels)
            picture = open_picture(data, mime)
            _require_pixels(picture.size, max_pixels)
            picture.load()
            check_signs(picture)
        except Image.DecompressionBombError as error:
            raise LimitExceededError(
                f"the picture has too many pixels for Pillow: {error}",
                limit=max_pixels,
                hint="if you trust the picture, increase PIL.Image.MAX_IMAGE_PIXELS as well",
            ) from None
        except UnidentifiedImageError as error:
            form = tiff_form(data) if PICTURES[mime] == "TIFF" else ""
            what = f"Pillow cannot decode {form}" if form else ""
            what = ENDS_EARLY if ends_early(data) else what
            raise _not_readable(mime, "picture", error, what) from error
    return picture


@contextlib.contextmanager
def readable(mime: str, wanted: str, limit: int) -> Iterator[None]:
    """Turn every exception of a parser into a typed error; third-party parsers may raise any.

    ``limit`` is the caller's ``max_bytes`` or ``max_pixels``.
    """
    try:
        yield
    except (ConversionError, LimitExceededError, MissingDependencyError):
        raise
    except MemoryError:
        raise LimitExceededError(
            "there is not enough memory to unpack the blob",
            limit=limit,
            hint="pass a larger max_bytes= or max_pixels= if you trust it, or read part of"
            " blob.open(seek=True)",
        ) from None
    except BaseException as error:
        if not is_failure(error):
            raise
        raise _not_readable(mime, wanted, error) from error


def check_picture(mime: str) -> None:
    """Check that ``mime`` is a picture type, and that Pillow is installed."""
    if mime not in PICTURES:
        known = (
            "use this method for PNG, JPEG, JPEG 2000, GIF, WebP, BMP, TIFF, AVIF, HEIC, ICO, PSD, "
            "PPM, QOI or DDS; for camera RAW, use rawpy.imread(blob.open(seek=True))"
        )
        raise _other_kind(mime, "picture", known)
    register()


def pixels_of(picture: Image.Image) -> np.ndarray[Any, Any]:
    """Return a decoded picture's pixels as an array; convert a palette to RGB or RGBA."""
    if picture.mode == "P":  # pixel values are indices into the palette
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    return np.asarray(picture)


def as_array(data: bytes, mime: str) -> np.ndarray[Any, Any]:
    """Return the array in an ``.npy`` file; NumPy parses it in Python without unpickling."""
    if mime != _ARRAY:
        hint = "use this method for pictures and .npy; for .npz, numpy.load(blob.open(seek=True))"
        raise _other_kind(mime, "array", hint)
    with readable(mime, "array", len(data)):
        return _npy(data)


def as_text(data: bytes, encoding: str | None) -> str:
    """Decode text; without ``encoding``, `odps_nb.parsing.encodings` detects it."""
    return _decoded(data, encoding)[0]


def _decoded(data: bytes, encoding: str | None) -> tuple[str, str]:
    """Return the text, and the name of its encoding.

    If the encoding was detected, warn of a few invalid bytes, which become U+FFFD.
    """
    detected = None if encoding else detect(data)
    if not encoding and detected is None and b"\0" in data:
        raise _no_text("the blob is binary")
    # fall back to UTF-8, which keeps control characters and whose error states the byte position
    stated = encoding or (detected.name if detected else "utf-8")
    try:
        return data.decode(stated), stated
    except (LookupError, ValueError) as error:
        if isinstance(error, UnicodeError):
            start = error.start if isinstance(error, UnicodeDecodeError) else 0
            if not encoding:
                after = detect_after(data, start) if start else None
                name = after.name if after else stated
                with contextlib.suppress(UnicodeDecodeError):
                    text, invalid = decode_detected(data, name)
                    if invalid:
                        warn(_INVALID.format(count_of(invalid, "invalid byte"), name))
                    return text, name
            at = f" from byte {start} on" if isinstance(error, UnicodeDecodeError) else ""
            raise _no_text(f"the blob is not valid {stated}{at}") from None
        raise ConversionError(
            str(error), target_type="text", hint="pass the name of an encoding, e.g. 'gb18030'"
        ) from None


def as_table(
    data: bytes,
    mime: str,
    *,
    max_bytes: int,
    encoding: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    ragged: bool = False,
    file_name: str = "",
    sheet: str | int | None = None,
) -> pa.Table:
    """Return the rows of a file in one of the formats of `odps_nb.access.blob.Blob.to_table`."""
    is_binary = mime in (_PARQUET, _ARROW_FILE, _ARROW_STREAM)
    if (is_binary and names is not None) or (
        separator is not None and (is_binary or mime in WORKBOOKS)
    ):
        raise _other_kind(mime, "delimited file", "omit separator= and names=")
    if mime in WORKBOOKS:
        has_header = names is None if header is None else header
        with readable(mime, "table", max_bytes):
            rows = sheet_table(data, 0 if sheet is None else sheet, header=has_header, names=names)
            _require_unpacked(rows.nbytes, max_bytes)
            return rows
    if sheet is not None:
        raise _other_kind(mime, "workbook", "omit sheet=")
    options = TableTextOptions(
        separator=separator, header=header, names=names, ragged=ragged, file_name=file_name
    )
    is_text = mime in DELIMITED or separator is not None or names is not None
    if not is_binary and mime != _JSON_LINES and not is_text:
        raise _other_kind(mime, "table", _NO_TABLE if mime.startswith("text/") else _TABLES)
    with readable(mime, "table", max_bytes):
        if is_text:
            text, name = _decoded(data, encoding)
            head = text
            if len(data) > SAMPLE:
                head = text[: len(decode(data[:SAMPLE], name, whole=False, errors="replace"))]
            bom = text[:1] == "\ufeff"
            default = DELIMITED.get(mime, ",")
            rows = delimited_table(text[bom:], head[bom:], default, options)
        elif mime == _JSON_LINES:
            rows = json_table(as_text(data, encoding).removeprefix("\ufeff"))
        else:
            return _parquet(data, max_bytes) if mime == _PARQUET else _ipc(data, max_bytes)
        _require_unpacked(rows.nbytes, max_bytes)
        return rows


_INVALID = (
    "the text has {} in its detected encoding, {}; invalid bytes become U+FFFD (�). Pass "
    "encoding= if the text has another encoding"
)
_TABLES = (
    "use this method for Parquet, Arrow, CSV, TSV, JSON lines and workbooks; for other formats, "
    "read blob.open(seek=True) with another library"
)
_NO_TABLE = (
    "pass separator= (' ' for any number of blanks), and ragged=True if its lines have different "
    "numbers of fields"
)


# -- formats ------------------------------------------------------------------------------------


def _npy(data: bytes) -> np.ndarray[Any, Any]:
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    long = version != (1, 0)
    read = np.lib.format.read_array_header_2_0 if long else np.lib.format.read_array_header_1_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ConversionError(
            "the array holds Python objects, which are never unpickled",
            source_type=str(dtype),
            target_type="array",
            hint="save it again with a numeric or text dtype",
        )
    # check first: NumPy allocates the declared size, and zero-size elements cost time as well
    if (
        min(shape, default=0) < 0
        or not dtype.itemsize
        or math.prod(shape) * dtype.itemsize != len(data) - file.tell()
    ):
        raise ValueError(f"the shape {shape} and the type {dtype} do not fit the bytes that follow")
    file.seek(0)
    array: np.ndarray[Any, Any] = np.load(file, allow_pickle=False)
    return array


def _parquet(data: bytes, max_bytes: int) -> pa.Table:
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as file:
        check_encryption(data, file.metadata)
        groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
        promised = [
            group.column(at).total_uncompressed_size
            for group in groups
            for at in range(group.num_columns)
        ]
        _require_unpacked(sum(promised) if min(promised, default=0) >= 0 else -1, max_bytes)
        return _collected(file.iter_batches(batch_size=_ROWS), file.schema_arrow, max_bytes)


def _ipc(data: bytes, max_bytes: int) -> pa.Table:
    stream = memoryview(data)
    if data.startswith(b"ARROW1"):  # layout: padded magic, stream, footer, footer size, magic
        footer = int.from_bytes(stream[-10:-6], "little", signed=True)
        if footer < 0 or bytes(stream[-6:]) != b"ARROW1":
            raise ValueError("the file is truncated")
        stream = stream[8 : len(data) - 10 - footer]
    check = EndMarkerCheck(max_decompressed=min(max_bytes, DEFAULT_MAX_DECOMPRESSED))
    check.feed(stream)
    check.require()
    with pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(stream))) as reader:
        return _collected(reader, reader.schema, max_bytes)


def _collected(batches: Iterable[pa.RecordBatch], schema: pa.Schema, max_bytes: int) -> pa.Table:
    check_unions(schema)
    collected, held = [], 0
    for batch in batches:
        validate(batch)
        for column in batch.columns:  # do not count dictionaries, which batches share
            held += (column.indices if pa.types.is_dictionary(column.type) else column).nbytes
        _require_unpacked(held, max_bytes)
        collected.append(batch)
    return pa.Table.from_batches(collected, collected[0].schema if collected else schema)


# -- errors ---------------------------------------------------------------------------------------


def _require_pixels(size: tuple[int, int], limit: int) -> None:
    width, height = size
    if width * height > limit:
        raise LimitExceededError(
            f"the picture has {width} × {height} pixels; the maximum is {limit:,} pixels",
            limit=limit,
            actual=width * height,
            hint="pass a larger max_pixels= if you trust the picture",
        )


def _require_unpacked(size: int, limit: int) -> None:
    if not 0 <= size <= limit:
        raise LimitExceededError(
            f"the unpacked blob is larger than {format_bytes(limit)}",
            limit=limit,
            actual=max(size, 0),
            hint="pass a larger max_bytes= if you trust it, or read part of blob.open(seek=True)",
        )


def _other_kind(mime: str, expected: str, hint: str) -> ConversionError:
    return ConversionError(
        f"the blob is not {'an' if expected == 'array' else 'a'} {expected}: its content is {mime}",
        source_type=mime,
        target_type=expected,
        hint=f"{hint}; blob.bytes() returns the raw bytes",
    )


def _not_readable(
    mime: str, expected: str, error: BaseException, reason: str = ""
) -> ConversionError:
    reason = reason or refusal_of(error).removeprefix("not decoded here: ")
    hint = "read blob.open(seek=True) with another library"
    if reason.startswith(DAMAGED):
        hint = "upload the file again: its checksums match, so it was damaged before the upload"
    return ConversionError(
        f"the blob begins like {mime} but cannot be read: {reason}",
        source_type=mime,
        target_type=expected,
        hint=hint,
    )


def _no_text(what: str) -> ConversionError:
    return ConversionError(
        what,
        source_type="bytes",
        target_type="text",
        hint="pass its encoding, e.g. encoding='gb18030', or use blob.bytes()",
    )
