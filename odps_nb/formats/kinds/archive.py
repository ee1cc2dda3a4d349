"""Archives and compressed files: the names inside, or the first lines of compressed text."""

from __future__ import annotations

from dataclasses import replace

from odps_nb.formats.drawing import (
    Drawing,
    Excerpt,
    encoded_url,
    pictured,
    placeholder,
    source_box,
)
from odps_nb.formats.kind import BINARIES, MIB, Format, Head, Kind, text_of
from odps_nb.formats.parsing import parse, players
from odps_nb.formats.registry import sniff
from odps_nb.formats.shared import Size, is_tar
from odps_nb.html import SMALL, element, join, scroller
from odps_nb.parsing.values import UnshowableError

_NPZ = Format("application/x-npz", "NumPy archive", aliases=("application/zip",))
_ZIP = Format(
    "application/zip",
    "ZIP",
    aliases=("application/x-zip-compressed", "application/x-zip"),
    starts=(b"PK\x05\x06",),  # an empty archive
)
_TAR = Format("application/x-tar", "tar", aliases=("application/tar",))
_RAR = Format(
    "application/vnd.rar",
    "RAR",
    aliases=("application/x-rar-compressed", "application/x-rar"),
    starts=(b"Rar!\x1a\x07",),
)
_PACKED = (
    Format(
        "application/gzip",
        "gzip",
        aliases=("application/x-gzip", "application/x-tar", "application/x-tgz"),
        starts=(b"\x1f\x8b\x08",),
    ),
    Format("application/x-bzip2", "bzip2", aliases=("application/bzip2",), starts=(b"BZh",)),
    Format("application/x-xz", "xz", starts=(b"\xfd7zXZ\x00",)),
    Format(
        "application/zstd", "zstd", aliases=("application/x-zstd",), starts=(b"\x28\xb5\x2f\xfd",)
    ),
)


_LIST = "margin:0;padding:8px 10px 8px 26px;overflow-wrap:anywhere"


def _recognise(head: Head) -> Format | None:
    if is_tar(head.data):
        return _TAR
    if not head.data.startswith(b"PK\x03\x04"):
        return None
    length = int.from_bytes(head.data[26:28], "little")  # length of the first name
    return _NPZ if head.data[30 : 30 + length].endswith(b".npy") else _ZIP


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if format.label in (_ZIP.label, _NPZ.label) and not excerpt.whole:
        raise UnshowableError("too large to look inside")
    parsed = parse("archive", excerpt.data, size, label=format.label, whole=excerpt.whole)
    note = parsed.text("note")
    if "names" in parsed.found:
        rows = (element("li", entry) for entry in parsed.texts("names"))
        listed = element("ul", *rows, style=f"{_LIST};{SMALL}")
        html = scroller("div", listed, label=f"names inside {name}", style=size.box)
        if "sounds" in parsed.found:
            sounds = players(parsed, size, name=name, room=excerpt.room)
            html = join((sounds, html)) if size.layout == "single" else sounds
            return Drawing(html=html, facts=parsed.texts("facts"), note=note)
        if not parsed.data:
            return Drawing(html=html, facts=parsed.texts("facts"), note=note)
        source, alt = encoded_url(parsed.data), f"pictures inside {name}"
        drawing = pictured(source, size, alt=alt, facts=parsed.texts("facts"), note=note)
        return (
            replace(drawing, html=join((drawing.html, html)))
            if size.layout == "single"
            else drawing
        )
    inside = sniff(parsed.data, parsed.number("length"))
    what = f"one {inside.label} file"
    if not inside.encoding:
        return placeholder(what, size, note=note)
    text = text_of(Excerpt(data=parsed.data, whole=False), inside)
    html = source_box(text, size, label=f"text inside {name}")
    return Drawing(html=html, facts=(what,), note=note)


KIND = Kind(
    name="archive",
    formats=(_ZIP, _NPZ, _TAR, _RAR, *_PACKED),
    draw=_draw,
    recognise=_recognise,
    precedence=BINARIES + 20,  # tried late: tar has no signature before byte 257
    limit=8 * MIB,
    head=MIB,  # this part of a tar usually contains the first samples
)
