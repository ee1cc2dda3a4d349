"""Workbooks (Excel, OpenDocument): the first rows as a table, and the sheet names."""

from __future__ import annotations

import re
from typing import Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt
from odps_nb.notebook.preview.kind import MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import draw_parsed
from odps_nb.notebook.preview.shared import Size
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
_PACKAGE: Final = "EncryptedPackage\0".encode("utf-16-le")  # a stream name in a compound file
_COMPOUND: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# stream names in a compound file, and the first record of a workbook, usually at byte 512
_BOOKS: Final = ("Workbook\0".encode("utf-16-le"), "Book\0".encode("utf-16-le"))
_BEGINS: Final = (b"\x09\x08\x10\x00\x00\x06\x05\x00", b"\x09\x08\x08\x00\x00\x05\x05\x00")


def _recognise(head: Head) -> Format | None:
    data = head.data
    if data.startswith(_COMPOUND):
        is_book = data.startswith(_BEGINS, 512) or any(name in data for name in _BOOKS)
        if is_book:
            return _OLD
        return _LOCKED if _PACKAGE in data else None
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
