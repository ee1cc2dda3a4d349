"""Workbooks (Excel, OpenDocument): the sheet names, and the first rows of the first sheet."""

from __future__ import annotations

from typing import Any, Final

import python_calamine  # noqa: F401  # loaded before the fork; the tile names it if it is missing

from odps_nb.convert.workbook import cell_text, open_workbook
from odps_nb.formats.shared import Size, answer
from odps_nb.terms import count_of, shorten

_SHEETS: Final = 50


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the sheet names, and the shape and first rows of the first sheet with cells."""
    size = Size(**options["size"])
    with open_workbook(data) as book:
        names = book.sheet_names
        facts = [count_of(len(names), "sheet")]
        sheets = map(book.get_sheet_by_index, range(min(len(names), _SHEETS)))
        sheet = next((sheet for sheet in sheets if sheet.height), None)
        if sheet is None:
            return answer(facts, lines=("no cells",))
        rows = sheet.to_python(nrows=size.rows + 1)
        facts.append(f"{count_of(sheet.height, 'row')} × {count_of(sheet.width, 'column')}")
    all_names = ", ".join(shorten(name, 40) for name in names[:8])
    heading = [shorten(sheet.name, 40), *([f"of {all_names}"] if len(names) > 1 else [])]
    head, *rest = [[cell_text(cell) for cell in row[: size.columns + 1]] for row in rows]
    return answer(facts, heading=heading, head=head, rows=rest)
