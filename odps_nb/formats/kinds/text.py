"""Plain text: the first lines."""

from __future__ import annotations

from odps_nb.formats.drawing import Drawing, Excerpt, source_box
from odps_nb.formats.kind import TEXTS, Format, Head, Kind, text_of
from odps_nb.formats.shared import Size
from odps_nb.terms import count_of

_TEXT = Format("text/plain", "text")


def _recognise(head: Head) -> Format:
    return _TEXT


def draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw the first lines, escaped; suitable for every kind of text."""
    text = text_of(excerpt, format)
    html = source_box(text, size, label=f"text of {name}")
    fact = count_of(len(text.splitlines()), "line") if excerpt.whole else "first lines"
    return Drawing(html=html, facts=(fact,))


KIND = Kind(
    name="text",
    formats=(_TEXT,),
    draw=draw,
    recognise=_recognise,
    precedence=TEXTS + 99,  # the fallback for text
)
