"""NumPy arrays: shape, type and first values, read from the header by hand.

Runs in the parser process. ``numpy.load`` is not used: nothing is unpickled, and only the first
values are touched.
"""

from __future__ import annotations

import contextlib
import io
import math
from typing import Any

import numpy as np

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.preview.parsers.depth import grey
from odps_nb.notebook.preview.parsers.picture import check_pixels, thumbnail
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.reasons import reason_of
from odps_nb.parsing.values import UnshowableError

_LONGEST = 200
_SMALLEST = 16  # rows and columns of what is drawn as a picture


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return shape, type and the first rows of the array, or of its first plane.

    With the option ``picture``: ``yes``, the bytes are a small copy of it as a picture, if it may
    be one and Pillow is installed.
    """
    size = Size(**options["size"])
    file = io.BytesIO(data)
    shape, fortran, dtype = _header(file)
    if dtype.hasobject:
        raise UnshowableError("holds Python objects, which are never unpickled")
    fact = f"{' × '.join(map(str, shape)) or 'scalar'} {dtype}"
    if options.get("picture") == "yes" and (
        made := _picture(data[file.tell() :], shape, dtype, size)
    ):
        return {"fact": fact[:_LONGEST], "rows": []}, made
    rows = _first_rows(data[file.tell() :], shape, dtype, size, fortran=fortran)
    return {"fact": fact[:_LONGEST], "rows": rows}, b""


def _picture(data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], size: Size) -> bytes | None:
    if min(shape[:2]) < _SMALLEST or math.prod(shape) != len(data):
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
    data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], size: Size, *, fortran: bool
) -> list[list[str]]:
    if 0 in shape or any(extent < 0 for extent in shape) or not dtype.itemsize:
        return []
    if len(shape) < 2:
        values = np.frombuffer(
            data, dtype, count=_count(data, dtype, math.prod(shape), size.columns)
        )
        return [[str(value)[:_LONGEST] for value in values]]
    if fortran:
        raise UnshowableError("in Fortran order: the first rows are spread over the file")
    width = shape[-1]
    # the first rows of the first plane lie at the start, whatever the number of dimensions
    count = _count(data, dtype, width * min(shape[-2], size.rows), size.rows * width)
    plane = np.frombuffer(data, dtype, count=count)
    return [
        [str(value)[:_LONGEST] for value in plane[at : at + min(width, size.columns + 1)]]
        for at in range(0, len(plane), width)
    ]


def _count(data: bytes, dtype: np.dtype[Any], there: int, wanted: int) -> int:
    return min(there, wanted, len(data) // dtype.itemsize)
