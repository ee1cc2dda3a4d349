"""Tables: the first rows of CSV and TSV, and the markup that all tabular kinds share."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Sequence
from typing import Final

from odps_nb.notebook.display.html import LINE, SMALL, Html, element, scroller
from odps_nb.notebook.preview.kinds.drawing import Drawing, Excerpt, Size, UnshowableError, clip
from odps_nb.notebook.preview.kinds.text import text_of
from odps_nb.notebook.preview.media_types import Kind

__all__ = ["draw", "grid_of"]

_CELL: Final = 60


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw the first rows; the first line is taken for the names of the columns."""
    text = text_of(excerpt, kind)
    if not excerpt.whole:
        text = text[: text.rfind("\n") + 1] or text  # the last line may be cut
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=kind.delimiter)
        head, *body = itertools.islice(rows, size.rows + 1)
        left = sum(1 for _ in rows)
    except (csv.Error, ValueError) as error:
        raise UnshowableError(f"not {kind.label}: {error}") from None
    count = f"{len(body) + left:,} rows" if excerpt.whole else "first rows"
    facts = (f"{count} × {len(head)} columns",)
    return Drawing(html=grid_of(head, body, size, label=f"first rows of {name}"), facts=facts)


def grid_of(head: Sequence[str], rows: Sequence[Sequence[str]], size: Size, *, label: str) -> Html:
    """Return a table of texts, cut to the columns and the cell width that fit."""
    shown = head[: size.columns]
    more = len(head) > len(shown)
    cell = (
        f"padding:2px 8px;border-bottom:{LINE};white-space:nowrap;text-align:left;background:none"
    )
    names = [
        element("th", clip(text, _CELL), attributes={"scope": "col"}, style=cell) for text in shown
    ]
    lines = [
        element(
            "tr",
            *(
                element("td", clip(text, _CELL), attributes={"dir": "auto"}, style=cell)
                for text in row[: len(shown)]
            ),
            *([element("td", "…", style=cell)] if more else []),
        )
        for row in rows
    ]
    table = element(
        "table",
        element(
            "thead", element("tr", *names, *([element("th", "…", style=cell)] if more else []))
        ),
        element("tbody", *lines),
        style=f"border-collapse:collapse;margin:0;{SMALL}",
    )
    return scroller("div", table, label=label, style=size.box)
