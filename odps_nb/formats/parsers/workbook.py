"""Workbooks (Excel, OpenDocument): the sheet names, and the first rows of the first sheet.

Files with a stated decompressed size above `MAX_UNPACKED` are not decompressed. Values are those
saved in the file: formulas are not computed, and links are not followed.
"""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
import zlib
from typing import Any, Final

import python_calamine

from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, format_bytes, shorten

#: Maximum decompressed bytes of a workbook.
MAX_UNPACKED: Final = 128 << 20
#: Maximum cells of a sheet's bounding rectangle; the library stores a value for each cell.
MAX_CELLS: Final = 40_000_000
_CELL: Final = re.compile(rb"\br\s*=\s*[\"']([A-Za-z]{1,3})(\d{1,7})[\"']")
_SHEETS: Final = 50
_BEGIN: Final = b"\x09\x08\x10\x00\x00\x06\x05\x00"  # first bytes of the workbook's global part
_FILE_PASS: Final = 0x2F


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the sheet names, and the shape and first rows of the first sheet with cells."""
    size = Size(**options["size"])
    if data.startswith(b"PK"):  # otherwise a compound file, which is not compressed
        _check(data)
    if _is_locked(data):
        raise UnshowableError("password-protected: not decoded here")
    with python_calamine.load_workbook(io.BytesIO(data)) as book:
        names = book.sheet_names
        facts = [count_of(len(names), "sheet")]
        sheets = map(book.get_sheet_by_index, range(min(len(names), _SHEETS)))
        sheet = next((sheet for sheet in sheets if sheet.height), None)
        if sheet is None:
            return answer(facts, lines=("no cells",))
        rows = sheet.to_python(nrows=size.rows + 1)
        facts.append(f"{count_of(sheet.height, 'row')} × {count_of(sheet.width, 'column')}")
    others = ", ".join(shorten(name, 40) for name in names[:8])
    heading = [shorten(sheet.name, 40), *([f"of {others}"] if len(names) > 1 else [])]
    head, *rest = [_texts(row[: size.columns + 1]) for row in rows]
    return answer(facts, heading=heading, head=head, rows=rest)


def _check(data: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        unpacked = sum(info.file_size for info in archive.infolist())
        if unpacked > MAX_UNPACKED:
            raise UnshowableError(f"would expand to {format_bytes(unpacked)}: not decompressed")
        _check_extents(archive)


def _check_extents(archive: zipfile.ZipFile) -> None:
    """Refuse an Excel sheet whose bounding rectangle is too large.

    For OpenDocument sheets, the library itself limits the number of repeated cells.
    """
    for info in archive.infolist():
        if not info.filename.endswith(".xml") or info.flag_bits & 1:
            continue
        text = archive.read(info)
        if b"sheetData" not in text:
            continue
        columns, rows = set(), set()
        for column, row in _CELL.findall(text):
            columns.add(column)
            rows.add(int(row))
        places = [_place(column) for column in columns]
        if places and (max(places) - min(places) + 1) * (max(rows) - min(rows) + 1) > MAX_CELLS:
            raise ValueError("its cells are too far apart")


def _place(letters: bytes) -> int:
    """Return a column's number: A is 1, Z is 26, AA is 27."""
    place = 0
    for letter in letters.upper():
        place = place * 26 + letter - 64
    return place


def _is_locked(data: bytes) -> bool:
    """Whether the cells are encrypted, which the library would report as an unknown format.

    See OpenDocument 1.3, part 2, 4.8, and the record FilePass of Excel 97 ([MS-XLS] 2.4.117).
    """
    if data.startswith(b"PK"):
        no_manifest = contextlib.suppress(KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)
        with no_manifest, zipfile.ZipFile(io.BytesIO(data)) as archive:
            return b":encryption-data" in archive.read("META-INF/manifest.xml")
        return False
    at = max(0, data.find(_BEGIN))
    for _ in range(3):  # FilePass is first, or follows a write-protection record
        kind, length = int.from_bytes(data[at : at + 2], "little"), data[at + 2 : at + 4]
        if kind == _FILE_PASS:
            return True
        at += 4 + int.from_bytes(length, "little")
    return False


def _texts(values: list[Any]) -> list[str]:
    """Return the cells as strings; whole numbers have no ``.0``, as in Excel."""
    return [
        str(int(value) if isinstance(value, float) and value.is_integer() else value)
        for value in values
    ]
