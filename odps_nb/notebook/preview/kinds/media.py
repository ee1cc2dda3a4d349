"""SVG, sound and film: bytes that only the browser's own decoders see.

An SVG is shown by ``<img>`` alone: there it runs no script, follows no link and loads nothing
(the mode is the browser's "secure static mode"). As a document or inline it would do all three.
One that would keep the browser busy is shown as source: see `odps_nb.notebook.preview.parsers.svg`.
"""

from __future__ import annotations

from dataclasses import replace

from odps_nb.notebook.display.html import BACKDROP, TINT, data_url, element
from odps_nb.notebook.preview.kinds import text
from odps_nb.notebook.preview.kinds.drawing import Drawing, Excerpt, Size, UnshowableError
from odps_nb.notebook.preview.kinds.image import framed
from odps_nb.notebook.preview.media_types import Family, Kind
from odps_nb.notebook.preview.parsing import parse

__all__ = ["draw"]


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw a picture or a player around a ``data:`` URL of our own media type.

    Raises
    ------
    UnshowableError
        When the file is larger than a tile may be.
    """
    if not excerpt.whole:
        raise UnshowableError("too large to put into the notebook")
    if kind.family is Family.SVG:
        return _svg(excerpt, kind, size, name=name)
    source = data_url(kind.mime, excerpt.data)
    if kind.family is Family.AUDIO:
        return _audio(source, size, name=name)
    return _video(source, size, name=name)


def _svg(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    try:
        parse("svg", excerpt.data, size)
    except UnshowableError as reason:
        return replace(text.draw(excerpt, kind, size, name=name), note=str(reason))
    picture = element(
        "img",
        attributes={"src": data_url(kind.mime, excerpt.data), "alt": f"{name}, SVG"},
        style=f"max-width:100%;height:{size.height}px;{BACKDROP}",
    )
    return Drawing(html=framed(picture, size), facts=("shown as a picture",))


def _audio(source: str, size: Size, *, name: str) -> Drawing:
    player = element(
        "audio",
        attributes={"controls": "", "preload": "metadata", "src": source, "aria-label": name},
        style="width:92%",
    )
    return Drawing(html=framed(player, size))


def _video(source: str, size: Size, *, name: str) -> Drawing:
    player = element(
        "video",
        attributes={"controls": "", "preload": "metadata", "src": source, "aria-label": name},
        style=f"max-width:100%;height:{size.height}px;background-color:{TINT}",
    )
    return Drawing(html=framed(player, size))
