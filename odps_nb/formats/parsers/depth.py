"""Numeric rasters, such as elevations or measurements, stretched to 8-bit grey.

Pixels without data are transparent: NaN, the no-data value in GDAL's TIFF tag, and values that are
clearly markers.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from odps_nb.errors import MissingDependencyError
from odps_nb.parsing.values import UnshowableError

if TYPE_CHECKING:
    from PIL import Image

_NODATA: Final = 42113  # GDAL's TIFF tag
_HUGE: Final = 1e20
"""Larger than any measurement; netCDF marks missing data with 1e20 or 9.97e36."""


def stretched(image: Image.Image) -> tuple[Image.Image, tuple[str, ...]]:
    """Convert a one-band raster to L or LA; the facts state the values drawn as black and white."""
    values = np.asarray(image)
    hidden = ~np.isfinite(values)
    marks = ["NaN"] if hidden.any() else []
    for mark in _marks(image, values[~hidden]):
        hidden |= values == mark
        marks.append(f"{mark:.6g}")
    valid = values[~hidden]
    if not valid.size:
        raise UnshowableError(f"no pixel has data: all are {' or '.join(marks)}")
    low, high = float(valid.min()), float(valid.max())
    converted = grey(values, low, high)
    facts = [f"{low:.6g} to {high:.6g}"]
    if marks:
        converted.putalpha(grey(~hidden, 0, 1))
        facts.append(f"no data: {', '.join(marks)}")
    return converted, tuple(facts)


def _marks(image: Image.Image, values: np.ndarray[Any, Any]) -> list[float]:
    """Return the no-data values: the one stated in the file, else those that look like markers.

    A value looks like a marker if it occurs several times, is negative or huge, and if included
    would leave less than half of the scale for all other values.
    """
    stated = getattr(image, "tag_v2", {}).get(_NODATA)
    if stated is not None:
        with contextlib.suppress(ValueError):  # stored as text: "-9999", "nan"
            mark = float(str(stated).strip("\0 "))
            return [mark] if (values == mark).any() else []
    marks = []
    for is_top in (False, True):
        if not values.size:
            break
        mark = float(values.max() if is_top else values.min())
        rest = values[values != mark]
        if (abs(mark) < _HUGE and (is_top or mark >= 0)) or not 0 < rest.size < values.size - 1:
            continue
        low, high = float(rest.min()), float(rest.max())
        if 0 < high - low < (mark - high if is_top else low - mark):
            marks.append(mark)
            values = rest
    return marks


def grey(values: Any, low: float | None = None, high: float | None = None) -> Image.Image:
    """Convert a 2-D array to grey levels; ``low`` is black, ``high`` is white.

    By default, these are the minimum and the maximum. NaN is black.
    """
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError("pictures need Pillow", extra="notebook") from None
    low = float(np.nanmin(values)) if low is None else low
    high = float(np.nanmax(values)) if high is None else high
    scaled = np.subtract(values, low, dtype=np.float64)
    scaled *= 255 / ((high - low) or 1.0)
    np.clip(scaled, 0, 255, out=scaled)
    return Image.fromarray(np.nan_to_num(scaled, copy=False).astype(np.uint8))
