"""DICOM (medical pictures): the first frame, and facts that say nothing of a person."""

from __future__ import annotations

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, picture_box, table_of
from odps_nb.notebook.preview.kind import FIRST, MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.terms import shorten

_DICOM = Format(mime="application/dicom", label="DICOM", aliases=("image/dicom-rle",))


def _recognise(head: Head) -> Format | None:
    # 128 bytes of anything, the mark, and the first element of the group 0002 (PS3.10, 7.1)
    return _DICOM if head.data.startswith(b"DICM\x02\x00", 128) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    parsed = parse("dicom", excerpt.all_data, size)
    facts = tuple(shorten(fact, 40) for fact in parsed.texts("facts"))
    if parsed.data:
        html = picture_box(parsed.data, size, alt=f"{name}, {' '.join(facts)}")
    else:
        html = table_of(
            ("element", "value"), parsed.rows("plain"), size, label=f"elements of {name}"
        )
    return Drawing(html=html, facts=facts, note=parsed.text("note"))


KIND = Kind(
    name="dicom",
    formats=(_DICOM,),
    draw=_draw,
    recognise=_recognise,
    precedence=FIRST,  # the 128 bytes before its mark may be the header of a TIFF
    limit=16 * MIB,
)
