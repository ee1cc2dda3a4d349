"""NumPy arrays: shape, type and first values. Avoids ``numpy.load``, which may unpickle objects."""

from __future__ import annotations

import contextlib
import io
import math
from typing import Any

import numpy as np

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.parsers.depth import grey
from odps_nb.formats.parsers.picture import check_pixels, thumbnail
from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.reasons import ENDS_EARLY, reason_of
from odps_nb.parsing.values import UnshowableError

_SMALLEST = 16  # minimum rows and columns of a picture


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return shape, type and first rows (of the first plane, if there are several planes).

    If Pillow is installed, a complete array that looks like a picture is returned as a thumbnail.
    """
    size = Size(**options["size"])
    file = io.BytesIO(data)
    shape, fortran, dtype = _header(file)
    if dtype.hasobject:
        raise UnshowableError("it holds Python objects, which are never unpickled")
    facts = (f"{' × '.join(map(str, shape)) or 'scalar'} {dtype}",)
    values = data[file.tell() :]
    if options["whole"] and not fortran and (picture := _picture(values, shape, dtype, size)):
        return answer(facts, picture)
    count = math.prod(shape) * dtype.itemsize
    ends_early = f"{ENDS_EARLY}; the first values are shown"
    note = ends_early if options["length"] - file.tell() < count else ""
    if fortran and len(shape) > 1 and count:
        if len(values) != count:
            return answer(facts, lines=["Fortran order: the first rows are spread across the file"])
        values = np.frombuffer(values, dtype).reshape(shape, order="F").tobytes()
    rows = _first_rows(values, shape, dtype, size)
    head = [f"[{number}]" for number in range(max(map(len, rows)))] if rows else ["empty"]
    return answer(facts, head=head, rows=rows, note=note)


def _picture(data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], size: Size) -> bytes | None:
    """Return an array of grey levels, booleans, RGB or RGBA as a picture, else ``None``."""
    if dtype.str not in ("|u1", "|b1") or shape[2:] not in ((), (3,), (4,)):
        return None
    if len(shape) < 2 or min(shape[:2]) < _SMALLEST or math.prod(shape) != len(data):
        return None
    with contextlib.suppress(ImportError, MissingDependencyError):
        check_pixels(shape[1], shape[0])
        values = np.frombuffer(data, dtype).reshape(shape)
        if len(shape) == 2:
            return thumbnail(grey(values.astype(np.uint8)), size)
        from PIL import Image

        return thumbnail(Image.fromarray(values.astype(np.uint8)), size)
    return None


def _header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        return np.lib.format.read_array_header_2_0(file)
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        raise UnshowableError(f"no NumPy header: {reason_of(error)}") from None


def _first_rows(
    data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], size: Size
) -> list[list[str]]:
    if 0 in shape or any(extent < 0 for extent in shape) or not dtype.itemsize:
        return []
    if len(shape) < 2:
        values = np.frombuffer(
            data, dtype, count=_count(data, dtype, math.prod(shape), size.columns)
        )
        return [[str(value) for value in values]]
    width = shape[-1]
    # the first rows of the first plane are at the start, for any number of dimensions
    count = _count(data, dtype, width * min(shape[-2], size.rows), size.rows * width)
    plane = np.frombuffer(data, dtype, count=count)
    return [
        [str(value) for value in plane[at : at + min(width, size.columns + 1)]]
        for at in range(0, len(plane), width)
    ]


def _count(data: bytes, dtype: np.dtype[Any], there: int, wanted: int) -> int:
    return min(there, wanted, len(data) // dtype.itemsize)
