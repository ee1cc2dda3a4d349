"""Archives and packed files: the names inside, or the first lines of a packed text."""

from __future__ import annotations

from odps_nb.notebook.display.html import SMALL, Html, element, scroller
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, source_box
from odps_nb.notebook.preview.kind import BINARIES, MIB, Format, Head, Kind, text_of
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.registry import sniff
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.client import Parsed
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, format_bytes, shorten

_NPZ = Format(mime="application/x-npz", label="NumPy archive", aliases=("application/zip",))
_ZIP = Format(
    mime="application/zip",
    label="ZIP",
    aliases=("application/x-zip-compressed", "application/x-zip"),
    starts=(b"PK\x05\x06",),  # an empty one
)
_TAR = Format(mime="application/x-tar", label="tar", aliases=("application/tar",))
_RAR = Format(
    mime="application/vnd.rar",
    label="RAR",
    aliases=("application/x-rar-compressed", "application/x-rar"),
    starts=(b"Rar!\x1a\x07",),
)
_PACKED = (
    Format(
        mime="application/gzip",
        label="gzip",
        aliases=("application/x-gzip", "application/x-tar", "application/x-tgz"),
        starts=(b"\x1f\x8b\x08",),
    ),
    Format(
        mime="application/x-bzip2", label="bzip2", aliases=("application/bzip2",), starts=(b"BZh",)
    ),
    Format(mime="application/x-xz", label="xz", starts=(b"\xfd7zXZ\x00",)),
    Format(
        mime="application/zstd",
        label="zstd",
        aliases=("application/x-zstd",),
        starts=(b"\x28\xb5\x2f\xfd",),
    ),
)


def _recognise(head: Head) -> Format | None:
    if head.data.startswith(b"ustar", 257):
        return _TAR
    if not head.data.startswith(b"PK\x03\x04"):
        return None
    length = int.from_bytes(head.data[26:28], "little")  # of the first name
    return _NPZ if head.data[30 : 30 + length].endswith(b".npy") else _ZIP


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if format.label in (_ZIP.label, _NPZ.label) and not excerpt.whole:
        raise UnshowableError("too large to look inside")
    whole = "yes" if excerpt.whole else "no"
    parsed = parse("archive", excerpt.data, size, label=format.label, whole=whole)
    if "count" in parsed.found:
        fact = count_of(parsed.number("count"), "file")
        return Drawing(html=_list(parsed, size, label=name), facts=(fact,))
    if "names" in parsed.found and "tar" not in parsed.found:
        return Drawing(html=_list(parsed, size, label=name), facts=("first files",))
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
            "li", shorten(name, 200), f" · {format_bytes(int(length))}" if length.isdigit() else ""
        )
        for name, length in entries
    ]
    return _box(rows, size, label=label)


def _box(rows: list[Html], size: Size, *, label: str) -> Html:
    listed = element("ul", *rows, style=f"margin:0;padding:8px 10px 8px 26px;{SMALL}")
    return scroller("div", listed, label=f"names inside {label}", style=size.box)


KIND = Kind(
    name="archive",
    formats=(_ZIP, _NPZ, _TAR, _RAR, *_PACKED),
    draw=_draw,
    recognise=_recognise,
    precedence=BINARIES + 20,  # after the others: a tar proves itself only at byte 257
    limit=8 * MIB,
)
