"""DICOM (medical pictures): the first frame as greys, and technical facts.

Runs in the parser process. What says who was examined, where and by whom is never returned.
"""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any, Final

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.preview.parsers.depth import grey
from odps_nb.notebook.preview.parsers.picture import check_pixels, thumbnail
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.reasons import reason_of
from odps_nb.parsing.values import UnshowableError

if TYPE_CHECKING:
    from PIL import Image

_LONGEST: Final = 80
_PLAIN: Final = ("Modality", "BodyPartExamined", "Manufacturer", "PhotometricInterpretation")

try:
    import numpy as np
    import pydicom
    from pydicom.errors import InvalidDicomError
    from pydicom.pixels.processing import apply_rescale, apply_voi_lut
    from pydicom.pixels.utils import pixel_array
except ImportError:  # said when a DICOM file is asked for
    pydicom = None  # type: ignore[assignment]


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return facts, names and values of the plain elements, and the first frame, encoded."""
    if pydicom is None:
        raise MissingDependencyError("DICOM needs pydicom", extra="previews")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that break the standard
        try:
            found = pydicom.dcmread(io.BytesIO(data))
        except (InvalidDicomError, EOFError, OSError, ValueError) as error:
            raise UnshowableError(f"not readable as DICOM: {reason_of(error)}") from None
        plain = [[name, str(found.get(name))[:_LONGEST]] for name in _PLAIN if found.get(name)]
        facts = [str(found.get("Modality") or "no modality")[:16]]
        rows, columns = int(found.get("Rows") or 0), int(found.get("Columns") or 0)
        if not rows or not columns or not found.get("PixelData"):
            return {"facts": facts, "plain": plain, "note": "no picture inside"}, b""
        frames = int(found.get("NumberOfFrames") or 1)
        facts += [f"{columns} × {rows}", *([f"{frames} frames"] if frames > 1 else [])]
        try:
            check_pixels(columns, rows)
            drawn = thumbnail(_frame(found), Size(**options["size"]))
        except Exception as error:  # noqa: BLE001 - decoders of pixels raise what they like
            return {"facts": facts, "plain": plain, "note": f"not drawn: {reason_of(error)}"}, b""
        return {"facts": facts, "plain": plain, "note": ""}, drawn


def _frame(found: pydicom.Dataset) -> Image.Image:
    """Return the first frame; greys from the window that the file asks for, else from all."""
    values = pixel_array(found, index=0)
    if values.ndim == 3:  # colours
        from PIL import Image

        return Image.fromarray(values.astype(np.uint8))
    scaled = apply_voi_lut(apply_rescale(values, found), found).astype(np.float32)
    drawn = grey(scaled)
    inverted = found.get("PhotometricInterpretation") == "MONOCHROME1"  # the smallest is white
    return drawn.point(lambda level: 255 - level) if inverted else drawn
