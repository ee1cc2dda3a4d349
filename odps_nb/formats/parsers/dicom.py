"""DICOM (medical images): the first frame in grey, and technical facts.

Personal data (patient, place, physician) are never returned.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pydicom
from pydicom.pixels.processing import apply_color_lut, apply_rescale, apply_voi_lut
from pydicom.pixels.utils import pixel_array

from odps_nb.formats.parsers.depth import grey
from odps_nb.formats.parsers.picture import check_pixels, thumbnail
from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.reasons import reason_of

if TYPE_CHECKING:
    from PIL import Image

_PLAIN: Final = ("Modality", "BodyPartExamined", "Manufacturer", "PhotometricInterpretation")


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return facts and the first frame; without a frame, the elements in `_PLAIN` instead."""
    dataset = pydicom.dcmread(io.BytesIO(data))
    facts = [str(dataset.get("Modality") or "no modality")[:16]]
    rows, columns = int(dataset.get("Rows") or 0), int(dataset.get("Columns") or 0)
    note = "no picture inside"
    if rows and columns and dataset.get("PixelData"):
        frames = int(dataset.get("NumberOfFrames") or 1)
        facts += [f"{columns} × {rows}", *([f"{frames} frames"] if frames > 1 else [])]
        try:
            check_pixels(columns, rows)
            return answer(facts, thumbnail(_frame(dataset), Size(**options["size"])))
        except Exception as error:  # noqa: BLE001 - pixel decoders may raise anything
            note = f"not drawn: {reason_of(error)}"
    plain = [(name, dataset.get(name)) for name in _PLAIN if dataset.get(name)]
    return answer(facts, note=note, head=("element", "value"), rows=plain)


def _frame(dataset: pydicom.Dataset) -> Image.Image:
    """Return the first frame, with grey levels from the file's window or the full range."""
    values = pixel_array(dataset, index=0)
    if dataset.get("PhotometricInterpretation") == "PALETTE COLOR":
        values = apply_color_lut(values, dataset)
    if values.ndim == 3:  # colour
        from PIL import Image

        return Image.fromarray((values >> 8 * (values.itemsize - 1)).astype(np.uint8))
    scaled = apply_rescale(values, dataset)
    with contextlib.suppress(ValueError):  # some programs write a window of no width
        scaled = apply_voi_lut(scaled, dataset)
    drawn = grey(scaled.astype(np.float32))
    inverted = dataset.get("PhotometricInterpretation") == "MONOCHROME1"  # low values are white
    return drawn.point(lambda level: 255 - level) if inverted else drawn
