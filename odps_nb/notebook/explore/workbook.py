"""Writes rows as an Excel workbook with XlsxWriter, one row in memory at a time.

Excel keeps numbers as 64-bit floats and knows no time zones. Integers and decimals of more than 15
digits, and times with a zone or with more than milliseconds, are therefore written as text, as
displayed. A DOUBLE is rounded to 16 digits.
"""

from __future__ import annotations

import datetime
import math
import sys
import tempfile
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.access.checks import require
from odps_nb.notebook.explore.values.cells import cell_texts, kind_of
from odps_nb.schema import Column

MAX_ROWS = 1_048_575
"""Maximum number of rows of a sheet below the header."""
MAX_TEXT = 32_767
"""Maximum number of characters of a cell, in UTF-16; an emoji counts as two."""
_DIGITS = 15
_EPOCH = datetime.date(1900, 1, 1)


class WorkbookWriter:
    """A workbook with one sheet of rows, written to ``sink`` when the context ends."""

    def __init__(self, sink: BinaryIO, columns: list[Column]) -> None:
        self._columns, self._row = columns, 0
        self.shortened = 0
        """Number of texts that were truncated to `MAX_TEXT`."""
        self._folder = tempfile.TemporaryDirectory(prefix="odps-nb-")
        options = {"constant_memory": True, "tmpdir": self._folder.name}
        self._book = require("xlsxwriter").Workbook(sink, options)
        self._sheet = self._book.add_worksheet()
        bold, day, time = (
            self._book.add_format(properties)
            for properties in (
                {"bold": True},
                {"num_format": "yyyy-mm-dd"},
                {"num_format": "yyyy-mm-dd hh:mm:ss.000"},
            )
        )
        self._day, self._time = day, time
        for n, column in enumerate(columns):
            self._text(n, column.name, bold)
            wide = 24 if kind_of(column) in ("INSTANT", "CLOCK") else 12
            self._sheet.set_column(n, n, min(40, max(wide, len(column.name) + 4)))

    def __enter__(self) -> WorkbookWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._sheet.freeze_panes(1, 0)
                self._sheet.autofilter(0, 0, self._row, len(self._columns) - 1)
                self._book.close()
        finally:
            self._folder.cleanup()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows below the header; values that CSV cannot represent must be text already."""
        arrays = [_plain(array, of) for array, of in zip(batch.columns, self._columns, strict=True)]
        for row in zip(*(array.to_pylist() for array in arrays), strict=True):
            self._row += 1
            for n, value in enumerate(row):
                if value is not None:
                    self._cell(n, value)

    def _cell(self, n: int, value: object) -> None:
        if isinstance(value, bool):
            self._sheet.write_boolean(self._row, n, value)
        elif isinstance(value, datetime.date) and _is_excel_day(value):
            style = self._time if isinstance(value, datetime.datetime) else self._day
            self._sheet.write_datetime(self._row, n, value, style)
        elif isinstance(value, (int, float, Decimal)) and _fits(value):
            self._sheet.write_number(self._row, n, value)
        else:
            self._text(n, f"{value:f}" if isinstance(value, Decimal) else str(value))

    def _text(self, n: int, text: str, style: Any = None) -> None:
        if 2 * len(text) > MAX_TEXT and len(units := text.encode("utf-16-le")) > 2 * MAX_TEXT:
            self.shortened += 1
            text = units[: 2 * MAX_TEXT].decode("utf-16-le", "ignore")
        self._sheet.write_string(self._row, n, text, style)  # never a formula or a link


def _is_excel_day(value: datetime.date) -> bool:
    """Whether Excel can store the day; on its first day, XlsxWriter would store only the time."""
    if isinstance(value, datetime.datetime):
        return value.date() > _EPOCH
    return value >= _EPOCH


def _fits(number: float | Decimal) -> bool:
    if isinstance(number, float):
        return math.isfinite(number)
    digits = Decimal(number).as_tuple().digits  # `normalize` would round to 28 digits
    return len("".join(map(str, digits)).rstrip("0")) <= _DIGITS


def _plain(array: pa.Array, column: Column) -> pa.Array:
    """Return an array whose Python values `WorkbookWriter` can write."""
    if pt.is_float32(array.type):  # 0.1, not the double 0.10000000149011612
        return array.cast(pa.string()).cast(pa.float64())
    if not pt.is_timestamp(array.type):
        return array
    if array.type.tz is None:
        try:
            return array.cast(pa.timestamp("ms")).cast(pa.timestamp("us"))
        except pa.ArrowInvalid:  # finer than milliseconds
            pass
    return pa.array(cell_texts(array, column, sys.maxsize), pa.string())
