"""DICOM (medical images): the first frame, and technical facts without personal data."""

from __future__ import annotations

from odps_nb.formats.kind import FIRST, MIB, Format, Head, Kind
from odps_nb.formats.parsing import draw_parsed

_DICOM = Format("application/dicom", "DICOM", aliases=("image/dicom-rle",))


def _recognise(head: Head) -> Format | None:
    # 128 arbitrary bytes, the signature, and the first element of group 0002 (PS3.10, 7.1)
    return _DICOM if head.data.startswith(b"DICM\x02\x00", 128) else None


KIND = Kind(
    name="dicom",
    formats=(_DICOM,),
    draw=draw_parsed,
    recognise=_recognise,
    precedence=FIRST,  # before images: the bytes before the signature may be a TIFF header
    whole=True,
    limit=16 * MIB,
)
