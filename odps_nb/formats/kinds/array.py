"""NumPy arrays: shape, type and first values, or a picture if the array looks like one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from odps_nb.formats.kind import MIB, Format, Head, Kind
from odps_nb.formats.parsing import draw_parsed

_START: Final = b"\x93NUMPY"
_NPY = Format("application/x-npy", "NumPy", aliases=("application/x-numpy",))
_DRAWN: Final = 8 * MIB
# headers of 8-bit RGB or RGBA arrays, and of 2-D arrays of 8-bit values or booleans
_PICTURE: Final = re.compile(
    rb"(?=.*'descr': '\|[ub]1')(?=.*'fortran_order': False)"
    rb".*'shape': \((\d{2,5}), (\d{2,5})(?:, [34])?\)"
)


def _recognise(head: Head) -> Format | None:
    if not head.data.startswith(_START):
        return None
    return replace(_NPY, limit=_DRAWN) if _PICTURE.search(head.data[:256]) else _NPY


KIND = Kind(name="array", formats=(_NPY,), draw=draw_parsed, recognise=_recognise)
