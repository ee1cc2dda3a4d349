"""Video: a player around the original bytes, which only the browser decodes."""

from __future__ import annotations

from odps_nb.notebook.display.html import TINT, data_url, element
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, framed
from odps_nb.notebook.preview.kind import Format, Head, Kind
from odps_nb.notebook.preview.shared import Size, UnshowableError

__all__ = ["KIND"]

_WEBM = Format(mime="video/webm", label="WebM", aliases=("audio/webm", "video/x-matroska"))
_OGG = Format(mime="video/ogg", label="Ogg video", aliases=("application/ogg",))
_MP4 = Format(
    mime="video/mp4",
    label="MP4",
    aliases=("video/x-m4v", "audio/mp4", "application/mp4"),
    brands=(
        *(b"isom", b"iso2", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42"),
        *(b"avc1", b"M4V ", b"dash"),
    ),
)


def _recognise(head: Head) -> Format | None:
    # the DocType element of EBML (id 42 82) stands in the first bytes
    if head.data.startswith(b"\x1a\x45\xdf\xa3") and b"\x42\x82\x84webm" in head.data[:64]:
        return _WEBM
    return _OGG if head.data.startswith(b"OggS") and b"\x80theora" in head.data[:512] else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if not excerpt.whole:
        raise UnshowableError("too large to put into the notebook")
    source = data_url(format.mime, excerpt.data)
    player = element(
        "video",
        attributes={"controls": "", "preload": "metadata", "src": source, "aria-label": name},
        style=f"max-width:100%;height:{size.height}px;background-color:{TINT}",
    )
    return Drawing(html=framed(player, size))


KIND = Kind(
    name="video", formats=(_MP4, _WEBM, _OGG), draw=_draw, recognise=_recognise, embedded=True
)
