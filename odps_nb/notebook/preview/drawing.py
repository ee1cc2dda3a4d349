"""What a kind draws from and returns, and the HTML boxes that several kinds use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from odps_nb.notebook.display.html import (
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
from odps_nb.notebook.preview.shared import GRID, Size
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import shorten

_CELL: Final = 60
_LINE: Final = 400
_HEADING: Final = 25  # pixels
# what our parsers encode
_MADE: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/webp": b"RIFF",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The first bytes of a blob; ``whole`` when they are all, ``size`` of all if known.

    ``verified``: they are all, and their checksums were compared. ``room``: how many bytes may go
    into the page as they are.
    """

    data: bytes
    whole: bool
    size: int | None = None
    verified: bool = False
    room: int = 0

    @property
    def all_data(self) -> bytes:
        """The bytes of the whole blob; raises `UnshowableError` if these are not all."""
        if not self.whole:
            raise UnshowableError("too large to look inside")
        return self.data

    def __repr__(self) -> str:
        return f"Excerpt(<{len(self.data)} of {self.size} bytes>, whole={self.whole})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawn preview: markup, facts for the caption (``480 × 360``), a one-line note."""

    html: Html
    facts: tuple[str, ...] = ()
    note: str = ""


def framed(picture: str, size: Size) -> Html:
    """Return ``picture`` in the middle of a tinted box of the tile's height."""
    return element(
        "div",
        picture,
        style=f"display:flex;align-items:center;justify-content:center;background-color:{TINT};"
        f"min-height:{min(size.height, GRID.height)}px",
    )


def made_picture(data: bytes) -> tuple[str, str]:
    """Return media type and ``data:`` URL of a picture that a parser encoded."""
    mime = next((mime for mime, start in _MADE.items() if data.startswith(start)), "")
    if not mime:
        raise UnshowableError("the parser returned no picture")
    return mime, data_url(mime, data)


def picture_box(data: bytes, size: Size, *, alt: str) -> Html:
    """Return a picture that a parser encoded, in the middle of a box."""
    mime, source = made_picture(data)
    picture = element(
        "img",
        attributes={"src": source, "alt": alt},
        style=f"max-width:100%;max-height:{size.height}px;width:auto;height:auto;"
        + (BACKDROP if mime != "image/jpeg" else ""),
    )
    return framed(picture, size)


def source_box(text: str, size: Size, *, label: str) -> tuple[Html, bool]:
    """Return the first lines, escaped, in a box that scrolls, and whether any were left out."""
    lines = text.splitlines()
    shown = [line[:_LINE] + ("…" if len(line) > _LINE else "") for line in lines[: size.lines]]
    box = scroller(
        "div",
        element(
            "pre",
            "\n".join(shown),
            attributes={"dir": "auto"},
            style=f"margin:0;padding:8px 10px;white-space:pre-wrap;overflow-wrap:anywhere;"
            f"background:none;color:inherit;{MONO}",
        ),
        label=label,
        style=size.box,
    )
    return box, len(lines) > len(shown)


def card(title: str, rows: Sequence[Html], size: Size) -> Html:
    """Return a few rows below a title, in the middle of a box."""
    inner = element(
        "div",
        element("div", title, style="font-weight:bold;font-size:18px"),
        *rows,
        attributes={"dir": "auto"},
        style=f"padding:12px 16px;border:{LINE};border-radius:4px;{SMALL}",
    )
    return framed(inner, size)


def headed(words: Sequence[str], draw: Callable[[Size], Html], size: Size) -> Html:
    """Return what ``draw`` makes, below a line of ``words`` (the first one is bold) if any."""
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


def headed_lines(heading: Sequence[str], lines: Sequence[str], size: Size, *, name: str) -> Html:
    """Return the first lines of a text, below a heading if there is one."""

    def draw(below: Size) -> Html:
        if not lines:
            return framed(element("em", "no text", style=MUTED), below)
        return source_box("\n".join(lines), below, label=f"text of {name}")[0]

    return headed(heading, draw, size)


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], size: Size, *, label: str) -> Html:
    """Return a table of texts, cut to the columns and the cell width that fit."""
    shown = head[: size.columns]
    more = len(head) > len(shown)
    cell = (
        f"padding:2px 8px;border-bottom:{LINE};white-space:nowrap;text-align:left;background:none"
    )
    names = [
        element("th", shorten(text, _CELL), attributes={"scope": "col"}, style=cell)
        for text in shown
    ]
    lines = [
        element(
            "tr",
            *(
                element("td", shorten(text, _CELL), attributes={"dir": "auto"}, style=cell)
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
