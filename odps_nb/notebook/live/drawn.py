"""What a script may show of a drawn tile: a picture, a sound or a film as a URL, else a text.

Our own markup (`odps_nb.notebook.display.html`) is taken apart here, so that no markup at all goes
to a script. A picture was encoded in the parser process; sounds and films only the browser
decodes, as in the static view.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

from odps_nb.notebook.preview.tile import Tile

_PICTURE: Final = re.compile(r'(?:<img src| poster)="(data:image/[a-z+]+;base64,[A-Za-z0-9+/=]*)"')
_PLAYER: Final = re.compile(
    r'<(?:audio|video) [^>]*src="(data:(?:audio|video)/[a-z0-9]+;base64,[A-Za-z0-9+/=]*)"'
)
_LINES: Final = frozenset({"div", "details", "li", "p", "pre", "summary", "tr"})


def picture_of(made: Tile) -> str:
    """Return the ``data:`` URL of its picture; empty where it is none."""
    found = _PICTURE.search(made.drawing)
    return found[1] if found else ""


def player_of(made: Tile) -> str:
    """Return the ``data:`` URL of its sound or film; empty where it has none."""
    found = _PLAYER.search(made.drawing)
    return found[1] if found else ""


def text_of(made: Tile, limit: int) -> str:
    """Return the texts of its drawing, up to ``limit`` characters; cells stand apart by tabs."""
    reader = _Texts()
    reader.feed(made.drawing)
    reader.close()
    lines = "".join(reader.parts).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())[:limit]


class _Texts(HTMLParser):
    """Collects the texts of our markup, a line for each block and row."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _LINES:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _LINES:
            self.parts.append("\n")
        elif tag in ("td", "th"):
            self.parts.append("\t")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)
