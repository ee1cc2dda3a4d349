"""Opens workbooks (Excel, OpenDocument), and converts a sheet to a table.

Files with a stated decompressed size above `MAX_UNPACKED` are not decompressed. Values are those
saved in the file: formulas are not computed, and links are not followed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odps_nb.errors import ConversionError, MissingDependencyError
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import format_bytes, shorten

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

#: Media types of workbooks.
WORKBOOKS: Final = (
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.ms-excel",
)
#: Maximum decompressed bytes of a workbook.
MAX_UNPACKED: Final = 128 << 20
#: Maximum cells of a sheet's bounding rectangle; the library stores a value for each cell.
MAX_CELLS: Final = 40_000_000
_EXACT: Final = 2.0**53  # larger whole numbers are not exact
_CELL: Final = re.compile(rb"\br\s*=\s*[\"']([A-Za-z]{1,3})(\d{1,7})[\"']")
_BEGIN: Final = b"\x09\x08\x10\x00\x00\x06\x05\x00"  # first bytes of the workbook's global part
_FILE_PASS: Final = 0x2F


def sheet_table(
    data: bytes, sheet: str | int, *, header: bool, names: Sequence[str] | None
) -> pa.Table:
    """Return the rows of a sheet, given by its name or number; blank cells are nulls."""
    with open_workbook(data) as book:
        known = book.sheet_names
        if sheet not in known and not (isinstance(sheet, int) and 0 <= sheet < len(known)):
            raise ConversionError(
                f"the workbook has no sheet {sheet!r}",
                target_type="table",
                hint=f"its sheets are {', '.join(shorten(repr(name), 40) for name in known[:20])}",
            )
        index = sheet if isinstance(sheet, int) else known.index(sheet)
        rows = book.get_sheet_by_index(index).to_python()
    width = len(rows[0]) if rows else 0
    first = rows.pop(0) if header and rows else [""] * width
    if names is not None and len(names) != width:
        raise ConversionError(
            f"names= has {len(names):,} names, but the sheet has {width:,} columns",
            target_type="table",
            hint="pass one name for each column",
        )
    called = names or [cell_text(cell) or f"f{at}" for at, cell in enumerate(first)]
    columns = zip(*rows, strict=True) if rows else [()] * width
    return pa.Table.from_arrays([_column(cells) for cells in columns], names=list(called))


def open_workbook(data: bytes) -> CalamineWorkbook:
    """Open a workbook after checks of its size and encryption; the caller closes it."""
    try:
        import python_calamine
    except ImportError:
        raise MissingDependencyError(
            "reading workbooks needs python-calamine", extra="previews"
        ) from None
    if data.startswith(b"PK"):  # otherwise a compound file, which is not compressed
        _check(data)
    if _is_locked(data):
        raise UnshowableError("password-protected: not decoded here")
    return python_calamine.load_workbook(io.BytesIO(data))


def cell_text(value: object) -> str:
    """Return a cell as text; whole numbers have no ``.0``, as in Excel."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return str(value)


def _column(cells: Sequence[Any]) -> pa.Array:
    """Return the cells of a column; text if they have different types."""
    values = [None if cell == "" else cell for cell in cells]
    kinds = {type(value) for value in values} - {type(None)}
    if kinds and kinds <= {int, float}:
        numbers = pa.array(values, pa.float64())
        with contextlib.suppress(pa.ArrowInvalid):  # if all numbers are whole
            return numbers.cast(pa.int64())
        return numbers
    if kinds == {dt.date, dt.datetime}:
        midnight = dt.time()
        return pa.array(
            [
                dt.datetime.combine(value, midnight) if type(value) is dt.date else value
                for value in values
            ]
        )
    if len(kinds) > 1:
        return pa.array([None if value is None else cell_text(value) for value in values])
    return pa.array(values)


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
        numbers = [_place(column) for column in columns]
        if numbers and (max(numbers) - min(numbers) + 1) * (max(rows) - min(rows) + 1) > MAX_CELLS:
            raise ValueError("its cells are too far apart")


def _place(letters: bytes) -> int:
    """Return a column's number: A is 1, Z is 26, AA is 27."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + letter - 64
    return number


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
