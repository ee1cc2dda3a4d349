"""Jupyter notebooks: the cells as text; outputs are counted, never rendered."""

from __future__ import annotations

import re
from typing import Any

from odps_nb.formats.drawing import Drawing, Excerpt
from odps_nb.formats.kind import MIB, TEXTS, Format, Head, Kind, load_json, text_of
from odps_nb.formats.kinds import text
from odps_nb.formats.shared import Size
from odps_nb.html import LINE, MONO, MUTED, SMALL, Html, element, scroller
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, shorten

_NOTEBOOK = Format(
    "application/x-ipynb+json", "notebook", aliases=("application/json", "text/plain")
)
# Jupyter writes keys in alphabetical order: "cells" first
_START = re.compile(
    r'\s*\{\s*"(?:cells"\s*:\s*\[\s*(?:\]|\{\s*"(?:attachments|cell_type|id|source)")|nbformat)'
)
_CELL = 2_000


def _recognise(head: Head) -> Format | None:
    return _NOTEBOOK if _START.match(head.text) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    document = load_json(text_of(excerpt, format))
    try:
        # version 3 has its cells in worksheets
        parts = [document] if "cells" in document else document["worksheets"]
        cells = [cell for part in parts for cell in part["cells"] if isinstance(cell, dict)]
    except (KeyError, TypeError):
        raise UnshowableError("no list of cells") from None
    shown = cells[: size.lines]
    body = element("div", *map(_cell, shown), style="padding:8px 10px")
    language = _language(document)
    outputs = sum(len(_list(cell.get("outputs"))) for cell in cells)
    facts = [count_of(len(cells), "cell"), count_of(outputs, "output")]
    return Drawing(
        html=scroller("div", body, label=f"cells of {name}", style=size.box),
        facts=(*([shorten(language, 20)] if language else []), *facts),
        note="the first cells" if len(shown) < len(cells) else "",
    )


def _cell(cell: dict[str, Any]) -> Html:
    source = cell.get("source", cell.get("input"))  # "input" in version 3
    lines = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
    code = cell.get("cell_type") == "code"
    outputs = len(_list(cell.get("outputs")))
    inner = element(
        "pre",
        shorten(lines, _CELL),
        attributes={"dir": "auto"},
        style="margin:0;white-space:pre-wrap;overflow-wrap:anywhere;background:none;color:inherit;"
        + (MONO if code else SMALL + ";font-family:inherit"),
    )
    below = element("div", count_of(outputs, "output"), style=f"{MUTED};{SMALL}") if outputs else ""
    edge = "border-left:3px solid #3b82f6" if code else f"border-left:{LINE}"
    return element("div", inner, below, style=f"margin:0 0 8px 0;padding:2px 0 2px 8px;{edge}")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _language(document: dict[str, Any]) -> str:
    held: Any = document.get("metadata")
    for key in ("kernelspec", "language"):
        held = held.get(key) if isinstance(held, dict) else None
    return held if isinstance(held, str) else ""


KIND = Kind(
    name="notebook",
    formats=(_NOTEBOOK,),
    draw=_draw,
    fallback=text.draw,
    recognise=_recognise,
    whole=True,
    precedence=TEXTS + 14,  # tried before JSON, which would also match
    limit=2 * MIB,
)
