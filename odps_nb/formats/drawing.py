"""The input and output of preview kinds, and HTML boxes that several kinds use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.shared import GRID, Size
from odps_nb.html import (
    BACKDROP,
    LINE,
    MONO,
    MUTED,
    SMALL,
    TINT,
    Html,
    data_url,
    element,
    join,
    scroller,
)
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import shorten

_CELL: Final = 60
_LINE: Final = 400
_HEADING: Final = 25  # pixels
# first bytes of the picture formats that parsers return
_MADE: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/webp": b"RIFF",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The first bytes of a blob."""

    data: bytes = field(repr=False)
    whole: bool  #: Whether ``data`` is the whole blob.
    size: int | None = None  #: Size of the whole blob, if known.
    verified: bool = False  #: Whether ``data`` is the whole blob and its checksums match.
    room: int = 0  #: Maximum original bytes to embed in the page.


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawn preview."""

    html: Html
    facts: tuple[str, ...] = ()  #: Items for the caption, such as ``480 × 360``.
    note: str = ""  #: One line below the caption.
    picture: str = ""  #: ``data:`` URL of the picture, for views that show it without the markup.
    player: str = ""  #: ``data:`` URL of the audio or video, for the same views.
    refused: bool = False  #: Whether the preview shows only the reason in ``note``.


def framed(content: str, size: Size) -> Html:
    """Return ``content`` centred in a tinted box of the tile's height."""
    return element(
        "div",
        content,
        style=f"display:flex;align-items:center;justify-content:center;background-color:{TINT};"
        f"min-height:{min(size.height, GRID.height)}px",
    )


def placeholder(words: str, size: Size, *, facts: tuple[str, ...] = (), note: str = "") -> Drawing:
    """Draw ``words`` in place of a picture."""
    return Drawing(html=framed(element("em", words, style=MUTED), size), facts=facts, note=note)


def refusal(reason: str, size: Size) -> Drawing:
    """Draw the reason why a blob is not shown, in place of its content."""
    style = f"{MUTED};padding:12px 16px;overflow-wrap:anywhere;max-height:100%;overflow:auto"
    words = element("div", element("em", reason), attributes={"dir": "auto"}, style=style)
    return Drawing(html=framed(words, size), note=reason, refused=True)


def reason_to_show(error: Exception) -> str:
    """Return the reason why a blob is not drawn, with a hint if a dependency is missing."""
    return f"{error}: {error.hint}" if isinstance(error, MissingDependencyError) else str(error)


def encoded_url(data: bytes) -> str:
    """Return the ``data:`` URL of a picture that a parser encoded."""
    mime = next((mime for mime, start in _MADE.items() if data.startswith(start)), "")
    if not mime:
        raise UnshowableError("the parser returned no picture")
    return data_url(mime, data)


def pictured(
    source: str,
    size: Size,
    *,
    alt: str,
    facts: tuple[str, ...] = (),
    note: str = "",
) -> Drawing:
    """Draw the picture of a ``data:`` URL, centred in a box."""
    style = f"max-width:100%;width:auto;max-height:{size.height}px"
    if not source.startswith("data:image/jpeg"):
        style += f";{BACKDROP}"
    html = framed(element("img", attributes={"src": source, "alt": alt}, style=style), size)
    return Drawing(html=html, facts=facts, note=note, picture=source)


def text_box(content: str, size: Size, *, label: str, wrap: bool = True) -> Html:
    """Return monospaced text in a scrollable box."""
    wrapping = "pre-wrap;overflow-wrap:anywhere" if wrap else "pre"
    text = element(
        "pre",
        content,
        attributes={"dir": "auto"} if wrap else None,
        style=f"margin:0;padding:8px 10px;white-space:{wrapping};background:none;color:inherit;"
        f"{MONO}",
    )
    return scroller("div", text, label=label, style=size.box)


def source_box(text: str, size: Size, *, label: str) -> Html:
    """Return the first lines of ``text`` in a scrollable box."""
    lines = text.splitlines()[: size.lines]
    return text_box("\n".join(shorten(line, _LINE) for line in lines), size, label=label)


def card(title: str, rows: Iterable[str], size: Size) -> Html:
    """Return a few rows of text or markup below a title, centred in a box."""
    inner = element(
        "div",
        element("div", title, style="font-weight:bold;font-size:18px"),
        *(element("div", row) for row in rows),
        attributes={"dir": "auto"},
        style=f"padding:12px 16px;border:{LINE};border-radius:4px;{SMALL}",
    )
    return framed(inner, size)


def headed(words: Sequence[str], draw: Callable[[Size], Html], size: Size) -> Html:
    """Return the result of ``draw``, with ``words`` (if not empty) on a line above it."""
    if not words:
        return draw(size)
    line = element(
        "div",
        element("b", shorten(words[0], 80)),
        *(f" {shorten(word, 120)}" for word in words[1:]),
        attributes={"dir": "auto"},
        style=f"height:{_HEADING}px;padding:4px 8px;box-sizing:border-box;white-space:nowrap;"
        f"overflow:hidden;text-overflow:ellipsis;{SMALL}",
    )
    return join((line, draw(replace(size, height=size.height - _HEADING))))


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], size: Size, *, label: str) -> Html:
    """Return a table of strings, limited to the columns and cell widths that fit."""
    dots = ["…"] if len(head) > size.columns else []
    style = "padding:2px 8px;white-space:nowrap;text-align:left;background:none"
    style += f";border-bottom:{LINE}"

    def line(tag: str, texts: Sequence[str], attributes: dict[str, str | int | None]) -> Html:
        cells = (shorten(text, _CELL) for text in (*texts[: size.columns], *dots))
        return element(
            "tr", *(element(tag, text, attributes=attributes, style=style) for text in cells)
        )

    table = element(
        "table",
        element("thead", line("th", head, {"scope": "col"})),
        element("tbody", *(line("td", row, {"dir": "auto"}) for row in rows)),
        style=f"border-collapse:collapse;margin:0;{SMALL}",
    )
    return scroller("div", table, label=label, style=size.box)
