"""CSV and TSV: the first rows as a table."""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import replace
from typing import Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, count_of, table_of
from odps_nb.notebook.preview.kind import TEXTS, Format, Head, Kind, text_of
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError

__all__ = ["KIND"]

_CSV = Format(
    mime="text/csv",
    label="CSV",
    aliases=("application/csv", "application/vnd.ms-excel", "text/plain"),
)
_TSV = Format(
    mime="text/tab-separated-values", label="TSV", aliases=("text/tsv", "text/csv", "text/plain")
)
_HIVE = Format(mime="text/x-hive", label="text of Hive", aliases=("text/csv", "text/plain"))
_CHARACTERS_TO_JUDGE: Final = 16_384
_LINES_TO_JUDGE: Final = 20


def _recognise(head: Head) -> Format | None:
    lines = head.text[:_CHARACTERS_TO_JUDGE].splitlines()[: _LINES_TO_JUDGE + 1]
    whole = head.whole and len(head.text) <= _CHARACTERS_TO_JUDGE
    if not whole or len(lines) > _LINES_TO_JUDGE:
        lines = lines[:-1]  # the last one may be cut
    lines = [line for line in lines if line.strip()]
    if "\x01" in head.text:  # no other text has it, see `odps_nb.parsing.encodings`
        return replace(_HIVE, delimiter="\x01")
    for format, delimiter in ((_TSV, "\t"), (_CSV, ","), (_CSV, ";")):
        if _is_table(lines, delimiter):
            return replace(format, delimiter=delimiter)
    return None


def _is_table(lines: list[str], delimiter: str) -> bool:
    """Whether the lines have the same number of cells: two columns need three rows to convince."""
    try:
        widths = {len(row) for row in csv.reader(lines, delimiter=delimiter)}
    except csv.Error:
        return False
    if len(widths) != 1:
        return False
    width = widths.pop()
    return width >= 2 and len(lines) >= (3 if width == 2 else 2)


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    text = text_of(excerpt, format)
    if not excerpt.whole:
        text = text[: text.rfind("\n") + 1] or text  # the last line may be cut
    try:
        lines = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=format.delimiter,
            quoting=csv.QUOTE_NONE if format.mime == _HIVE.mime else csv.QUOTE_MINIMAL,
        )
        rows = filter(None, lines)  # as `to_table`, which passes over lines without anything
        head, *body = itertools.islice(rows, size.rows + 1)  # the first line names the columns
        if format.mime == _HIVE.mime:  # it is a row
            head, body = [f"f{place}" for place in range(len(head))], [head, *body]
        left = sum(1 for _ in rows)
    except (csv.Error, ValueError) as error:
        raise UnshowableError(f"not {format.label}: {error}") from None
    count = count_of(len(body) + left, "row") if excerpt.whole else "first rows"
    facts = (f"{count} × {count_of(len(head), 'column')}",)
    return Drawing(html=table_of(head, body, size, label=f"first rows of {name}"), facts=facts)


KIND = Kind(
    name="table",
    formats=(_CSV, _TSV, _HIVE),
    draw=_draw,
    recognise=_recognise,
    precedence=TEXTS + 30,
)
