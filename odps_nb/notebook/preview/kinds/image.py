"""Raster images become small pictures that we encoded ourselves.

No byte of the original reaches the page: see `odps_nb.notebook.preview.parsers.picture`.
"""

from __future__ import annotations

from odps_nb.notebook.display.html import BACKDROP, TINT, Html, data_url, element
from odps_nb.notebook.preview.kinds.drawing import GRID, Drawing, Excerpt, Size, UnshowableError
from odps_nb.notebook.preview.media_types import Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.sniff import sniff

__all__ = ["draw", "framed"]

_TRANSPARENT = ("image/png", "image/webp")


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw a thumbnail.

    Raises
    ------
    UnshowableError
        When there are too many pixels, or the file is cut or corrupt.
    MissingDependencyError
        Without Pillow.
    """
    if not excerpt.whole:
        raise UnshowableError("too large for a thumbnail")
    parsed = parse("picture", excerpt.data, size, mime=kind.mime)
    # what we made is one of three kinds; anything else was not made by us
    mime = sniff(parsed.data, len(parsed.data)).mime
    if mime not in ("image/jpeg", *_TRANSPARENT):
        raise UnshowableError("no picture came back")
    facts = parsed.texts("facts")
    picture = element(
        "img",
        attributes={"src": data_url(mime, parsed.data), "alt": f"{name}, {' '.join(facts)}"},
        style=f"max-width:100%;max-height:{size.height}px;width:auto;height:auto;"
        + (BACKDROP if mime in _TRANSPARENT else ""),
    )
    return Drawing(html=framed(picture, size), facts=facts)


def framed(picture: str, size: Size) -> Html:
    """Return ``picture`` in the middle of a tinted box of the tile's height."""
    return element(
        "div",
        picture,
        style=f"display:flex;align-items:center;justify-content:center;background-color:{TINT};"
        f"min-height:{min(size.height, GRID.height)}px",
    )
