"""Workbooks (Excel, OpenDocument): the first rows as a table, and the sheet names."""

from __future__ import annotations

import re
from typing import Final

from odps_nb.formats import compound
from odps_nb.formats.drawing import Drawing, Excerpt
from odps_nb.formats.kind import MIB, Format, Head, Kind
from odps_nb.formats.parsing import draw_parsed
from odps_nb.formats.shared import Size
from odps_nb.parsing.values import UnshowableError

_MAIN = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_EXCEL = Format(
    _MAIN,
    "Excel",
    aliases=("application/vnd.ms-excel", "application/zip", "application/vnd.ms-excel.sheet"),
)
_CALC = Format(
    "application/vnd.oasis.opendocument.spreadsheet",
    "OpenDocument sheet",
    aliases=("application/zip",),
)
# the local ZIP header of a file, with 26 bytes between its signature and its name; the first match
# decides, because a presentation may contain an uncompressed workbook
_PART = re.compile(
    rb"PK\x03\x04.{26}/?(?:(xl)[/\\][\w/\\. -]{1,80}?\.(?:xml|bin|rels)|(?:word|ppt)[/\\])",
    re.DOTALL | re.IGNORECASE,
)
_CALC_PART = re.compile(
    rb"PK\x03\x04.{26}mimetype.{0,64}?" + re.escape(_CALC.mime.encode()) + rb"(?!-)", re.DOTALL
)


_OLD = Format(
    "application/vnd.ms-excel",
    "Excel 97",
    aliases=("application/msexcel", "application/x-msexcel", "application/x-excel"),
)
_LOCKED = Format(
    "application/encrypted",
    "Office with a password",
    aliases=(  # types of the same files without a password (ZIP or compound files)
        "application/zip",
        *(_MAIN, "application/vnd.ms-excel", "application/msword", "application/vnd.ms-powerpoint"),
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
)
# streams of compound files; a document may also contain a workbook
_STREAMS: Final = {
    **dict.fromkeys(("Workbook", "Book"), _OLD),
    "EncryptedPackage": _LOCKED,
    **dict.fromkeys(("WordDocument", "PowerPoint Document", "Quill", "VisioDocument")),
}


def _recognise(head: Head) -> Format | None:
    data = head.data
    if data.startswith(compound.SIGNATURE):
        return _STREAMS.get(compound.main_stream(data, frozenset(_STREAMS)))
    if not data.startswith(b"PK\x03\x04"):
        return None
    # OpenDocument states its type in an uncompressed file, usually the first one
    if _CALC_PART.search(data):
        return _CALC
    part = _PART.search(data)
    return _EXCEL if part and part[1] else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if format.mime == _LOCKED.mime:
        raise UnshowableError("password-protected: not decoded here")
    return draw_parsed(excerpt, format, size, name=name)


KIND = Kind(
    name="workbook",
    formats=(_EXCEL, _CALC, _OLD, _LOCKED),
    draw=_draw,
    whole=True,
    recognise=_recognise,
    limit=8 * MIB,
)
