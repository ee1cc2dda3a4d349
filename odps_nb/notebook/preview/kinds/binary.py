"""Everything else: the first bytes in hex, and the names of formats that we cannot draw."""

from __future__ import annotations

from typing import Final

from odps_nb.notebook.display.html import MONO, element, scroller
from odps_nb.notebook.preview.drawing import Drawing, Excerpt
from odps_nb.notebook.preview.kind import LAST, UNKNOWN, Format, Head, Kind
from odps_nb.notebook.preview.shared import Size

__all__ = ["KIND", "draw"]


def _named(mime: str, label: str, start: bytes = b"", *aliases: str) -> Format:
    return Format(mime=mime, label=label, aliases=aliases, starts=(start,) if start else ())


_BINARY = Format(mime=UNKNOWN, label="binary")
# what old programs of Microsoft wrote: a compound file, told by the names of its streams
_COMPOUND: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_STREAMS: Final = {
    "WordDocument": _named("application/msword", "Word 97"),
    "PowerPoint Document": _named("application/vnd.ms-powerpoint", "PowerPoint 97"),
    "__properties_version1.0": _named("application/vnd.ms-outlook", "Outlook message"),
    "": _named(
        *("application/x-ole-storage", "compound file", b"", "application/vnd.ms-excel"),
        *("application/msword", "application/vnd.ms-powerpoint", "application/vnd.ms-outlook"),
        *("application/x-msi", "application/vnd.visio", "application/vnd.ms-office"),
    ),
}
_ISO_MEDIA = _named("application/mp4", "ISO media")
_FORMATS = (
    _named("application/x-7z-compressed", "7z", b"7z\xbc\xaf\x27\x1c"),
    _named("application/vnd.rar", "RAR", b"Rar!\x1a\x07", "application/x-rar-compressed"),
    _named("application/x-hdf5", "HDF5", b"\x89HDF\r\n\x1a\n", "application/x-hdf"),
    _named("application/x-executable", "ELF program", b"\x7fELF", "application/x-elf"),
    _named("application/vnd.microsoft.portable-executable", "Windows program", b"MZ"),
    _named("application/x-lz4", "LZ4", b"\x04\x22\x4d\x18"),
    _named("application/x-riff", "RIFF", b"RIFF"),
    Format(mime="image/x-canon-cr3", label="camera RAW (CR3)", brands=(b"crx ",)),
)


def _recognise(head: Head) -> Format:
    if head.data.startswith(_COMPOUND):
        named = (name for name in _STREAMS if name.encode("utf-16-le") in head.data)
        return _STREAMS[next(named)]  # the empty name is in all of them
    return _ISO_MEDIA if head.data[4:8] == b"ftyp" else _BINARY


def draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw offset, hex and letters of the first bytes."""
    each = 16 if size.layout == "single" else 6
    lines = []
    for at in range(0, min(len(excerpt.data), each * size.lines), each):
        row = excerpt.data[at : at + each]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        lines.append(f"{at:04x}  {row.hex(' '):<{each * 3 - 1}}  {letters}")
    dump = element(
        "pre",
        "\n".join(lines),
        style=f"margin:0;padding:8px 10px;background:none;color:inherit;{MONO}",
    )
    box = scroller("div", dump, label=f"first bytes of {name}", style=size.box)
    return Drawing(html=box)


KIND = Kind(
    name="binary",
    formats=(*_FORMATS, *_STREAMS.values(), _ISO_MEDIA, _BINARY),
    draw=draw,
    recognise=_recognise,
    precedence=LAST,
)
