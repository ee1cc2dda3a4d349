"""CSV, TSV and similar formats: the first rows as a table."""

from __future__ import annotations

import itertools
from pathlib import PurePath
from typing import Final

from odps_nb.formats.drawing import Drawing, Excerpt, table_of
from odps_nb.formats.kind import TEXTS, Format, Head, Kind, text_of
from odps_nb.formats.kinds import code
from odps_nb.formats.kinds import text as plain
from odps_nb.formats.shared import Size
from odps_nb.parsing.delimited import (
    BLANKS,
    HIVE,
    form_of,
    lines_of,
    may_be_row,
    open_quote,
    unevenness,
)
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

_CSV = Format(
    "text/csv", "CSV", aliases=("application/csv", "application/vnd.ms-excel", "text/plain")
)
_TSV = Format("text/tab-separated-values", "TSV", aliases=("text/tsv", "text/csv", "text/plain"))
_HIVE = Format("text/x-hive", "text of Hive", aliases=("text/csv", "text/plain"))
_COLUMNS = Format("text/x-columns", "text in columns", aliases=("text/csv", "text/plain"))
_SEPARATED: Final = {"\t": _TSV, HIVE: _HIVE, BLANKS: _COLUMNS}


def _recognise(head: Head) -> Format | None:
    if head.text.startswith("#!") or PurePath(head.name.lower()).suffix in code.ENDINGS:
        return None  # the text is a program, perhaps with a table in it
    form = form_of(head.text, whole=head.whole, file_name=head.name)
    return None if form is None else _SEPARATED.get(form.separator, _CSV)


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    text = text_of(excerpt, format)
    form = form_of(text, whole=excerpt.whole, file_name=name)
    if form is None:  # unlikely, because recognition accepted this text
        raise UnshowableError(f"not valid {format.label}")
    if not excerpt.whole:
        text = text[: text.rfind("\n") + 1] or text  # the last line may be incomplete
    lines = list(lines_of(text, form))
    width, note = max((len(row) for _, row in lines), default=0), ""
    head, body = list(lines[0][1]), [row for _, row in itertools.islice(lines, 1, size.rows + 1)]
    count = len(lines) - 1
    if form.separator == HIVE:  # no header line
        head, body, count = [], [row for _, row in lines[: size.rows]], count + 1
    elif excerpt.whole and (number := open_quote(text, form)):
        note = f"truncated or damaged: the quoted field that begins in line {number:,} has no end"
    elif uneven := [(number, len(row)) for number, row in lines if len(row) != len(head)]:
        note = f"{unevenness(*uneven[0], len(head))}: to_table(ragged=True) pads or adds columns"
    elif body and may_be_row(head, body[0]):
        note = "the first line may be a row: to_table(header=False) reads it as one"
    head += [f"f{index}" for index in range(len(head), width)]
    rows = [row + [""] * (width - len(row)) for row in body]
    counted = count_of(count, "row") if excerpt.whole else "first rows"
    facts = (f"{counted} × {count_of(width, 'column')}",)
    html = table_of(head, rows, size, label=f"first rows of {name}")
    return Drawing(html=html, facts=facts, note=note)


KIND = Kind(
    name="table",
    formats=(_CSV, _TSV, _HIVE, _COLUMNS),
    draw=_draw,
    fallback=plain.draw,
    recognise=_recognise,
    precedence=TEXTS + 30,
)
