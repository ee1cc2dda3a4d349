"""Archives: a list of the names inside."""

from __future__ import annotations

from odps_nb.notebook.display.html import SMALL, Html, element, scroller
from odps_nb.notebook.preview.kinds.drawing import (
    Drawing,
    Excerpt,
    Size,
    UnshowableError,
    clip,
    count_of,
)
from odps_nb.notebook.preview.kinds.text import source_box, text_of
from odps_nb.notebook.preview.media_types import Kind
from odps_nb.notebook.preview.parsing import Parsed, parse
from odps_nb.notebook.preview.sniff import sniff
from odps_nb.terms import format_bytes

__all__ = ["draw"]


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw the names and sizes of the files inside, or the first lines of a packed text.

    Raises
    ------
    UnshowableError
        When the archive is too large, cut or corrupt.
    """
    if kind.label in ("ZIP", "NumPy archive") and not excerpt.whole:
        raise UnshowableError("too large to look inside")
    whole = "yes" if excerpt.whole else "no"
    parsed = parse("archive", excerpt.data, size, label=kind.label, whole=whole)
    if "count" in parsed.found:
        fact = count_of(parsed.number("count"), "file")
        return Drawing(html=_list(parsed, size, label=name), facts=(fact,))
    if "tar" in parsed.found:
        all_there = parsed.text("tar") == "all"
        fact = count_of(len(parsed.texts("names")), "file") if all_there else "first files"
        return Drawing(html=_list(parsed, size, label=name), facts=("tar", fact))
    return _packed(parsed, size, name=name)


def _packed(parsed: Parsed, size: Size, *, name: str) -> Drawing:
    inside = sniff(parsed.data, parsed.number("length"))
    what = f"one {inside.label} file"
    if not inside.encoding:
        return Drawing(html=_box([element("li", what)], size, label=name))
    text = text_of(Excerpt(data=parsed.data, whole=False), inside)
    box, _ = source_box(text, size, label=f"text inside {name}")
    return Drawing(html=box, facts=(what,))


def _list(parsed: Parsed, size: Size, *, label: str) -> Html:
    entries = zip(parsed.texts("names"), parsed.texts("sizes"), strict=False)
    rows = [
        element(
            "li", clip(name, 200), f" · {format_bytes(int(length))}" if length.isdigit() else ""
        )
        for name, length in entries
    ]
    return _box(rows, size, label=label)


def _box(rows: list[Html], size: Size, *, label: str) -> Html:
    listed = element("ul", *rows, style=f"margin:0;padding:8px 10px 8px 26px;{SMALL}")
    return scroller("div", listed, label=f"names inside {label}", style=size.box)
