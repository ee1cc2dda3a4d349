"""Everything else: the first bytes in hex, and the names of formats that we cannot draw."""

from __future__ import annotations

from typing import Final

from odps_nb.notebook.display.html import MONO, element, scroller
from odps_nb.notebook.preview.drawing import Drawing, Excerpt
from odps_nb.notebook.preview.kind import LAST, UNKNOWN, Format, Head, Kind
from odps_nb.notebook.preview.shared import Size


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
    _named("application/x-executable", "ELF program", b"\x7fELF", "application/x-elf"),
    _named("application/vnd.microsoft.portable-executable", "Windows program", b"MZ"),
    _named("application/x-lz4", "LZ4", b"\x04\x22\x4d\x18"),
    _named("application/x-riff", "RIFF", b"RIFF"),
    _named("application/vnd.las", "LAS", b"LASF", "application/vnd.laszip"),
    _named("application/x-hdf", "HDF4", b"\x0e\x03\x13\x01"),
    Format(
        mime="application/vnd.tcpdump.pcap",
        label="pcap",
        aliases=("application/x-pcap",),
        starts=tuple(
            bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1")
        ),
    ),
)
# formats with marks elsewhere than at the start alone: sets of marks by place, one of which fits
_MARKED: Final = (
    (
        _named("application/vnd.shp", "shapefile", b"", "application/x-esri-shape"),
        ({0: b"\x00\x00\x27\x0a", 28: b"\xe8\x03\x00\x00"},),
    ),
    (
        _named("application/x-nifti", "NIfTI"),
        ({344: b"n+1\x00"}, {344: b"ni1\x00"}, {4: b"n+2\x00\r\n\x1a\n"}),
    ),
    (_named("application/x-grib", "GRIB"), ({0: b"GRIB", 7: b"\x01"},)),
    (
        _named("application/x-grib2", "GRIB2", b"", "application/x-grib"),
        ({0: b"GRIB", 7: b"\x02"},),
    ),
    (
        _named("application/x-pcapng", "pcapng", b"", "application/vnd.tcpdump.pcap"),
        tuple(
            {0: b"\x0a\x0d\x0d\x0a", 8: order}
            for order in (b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a")
        ),
    ),
)


def _recognise(head: Head) -> Format:
    if head.data.startswith(_COMPOUND):
        named = (name for name in _STREAMS if name.encode("utf-16-le") in head.data)
        return _STREAMS[next(named)]  # the empty name is in all of them
    for format, sets in _MARKED:
        for marks in sets:
            if all(head.data.startswith(mark, place) for place, mark in marks.items()):
                return format
    return _ISO_MEDIA if head.data[4:8] == b"ftyp" else _BINARY


def draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw offset, hex and letters of the first bytes; ``*`` for lines that are as the one above.

    The last line that was read is always there, so that the stars have an end.
    """
    each = 16 if size.layout == "single" else 6
    lines: list[str] = []
    above = b""
    for at in range(0, len(excerpt.data), each):
        row = excerpt.data[at : at + each]
        if row == above and at + each < len(excerpt.data):
            if lines[-1] != "*":
                lines.append("*")
            continue
        above = row
        if len(lines) >= size.lines:
            break
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        lines.append(f"{at:04x}  {row.hex(' '):<{each * 3 - 1}}  {letters}")
    dump = element(
        "pre",
        "\n".join(lines),
        style=f"margin:0;padding:8px 10px;white-space:pre;background:none;color:inherit;{MONO}",
    )
    box = scroller("div", dump, label=f"first bytes of {name}", style=size.box)
    return Drawing(html=box)


KIND = Kind(
    name="binary",
    formats=(
        *_FORMATS,
        *_STREAMS.values(),
        *(format for format, _ in _MARKED),
        _ISO_MEDIA,
        _BINARY,
    ),
    draw=draw,
    recognise=_recognise,
    precedence=LAST,
)
