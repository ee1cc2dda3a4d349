"""Everything else: a hex dump of the first bytes, and the names of formats without a preview."""

from __future__ import annotations

from typing import Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, text_box
from odps_nb.notebook.preview.kind import LAST, UNKNOWN, Format, Head, Kind
from odps_nb.notebook.preview.shared import Size

_BINARY = Format(UNKNOWN, "binary")
# compound files from old Microsoft programs, identified by their stream names
_COMPOUND: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_STREAMS: Final = {
    "WordDocument": Format("application/msword", "Word 97"),
    "PowerPoint Document": Format("application/vnd.ms-powerpoint", "PowerPoint 97"),
    "__properties_version1.0": Format("application/vnd.ms-outlook", "Outlook message"),
    "": Format(
        "application/x-ole-storage",
        "compound file",
        aliases=(
            *("application/vnd.ms-excel", "application/msword", "application/vnd.ms-powerpoint"),
            *("application/vnd.ms-outlook", "application/x-msi", "application/vnd.visio"),
            "application/vnd.ms-office",
        ),
    ),
}
_ISO_MEDIA = Format("application/mp4", "ISO media")
_PCAP: Final = ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1")
_FORMATS = (
    Format("application/x-7z-compressed", "7z", starts=(b"7z\xbc\xaf\x27\x1c",)),
    Format(
        "application/x-executable",
        "ELF program",
        aliases=("application/x-elf",),
        starts=(b"\x7fELF",),
    ),
    Format("application/vnd.microsoft.portable-executable", "Windows program", starts=(b"MZ",)),
    Format("application/x-lz4", "LZ4", starts=(b"\x04\x22\x4d\x18",)),
    Format("application/x-riff", "RIFF", starts=(b"RIFF",)),
    Format("application/vnd.las", "LAS", aliases=("application/vnd.laszip",), starts=(b"LASF",)),
    Format("application/x-hdf", "HDF4", starts=(b"\x0e\x03\x13\x01",)),
    Format(
        "application/vnd.tcpdump.pcap",
        "pcap",
        aliases=("application/x-pcap",),
        starts=tuple(map(bytes.fromhex, _PCAP)),
    ),
)
# formats with signatures beyond the start; each format lists alternatives as {offset: bytes}
_MARKED: Final = (
    (
        Format("application/vnd.shp", "shapefile", aliases=("application/x-esri-shape",)),
        ({0: b"\x00\x00\x27\x0a", 28: b"\xe8\x03\x00\x00"},),
    ),
    (
        Format("application/x-nifti", "NIfTI"),
        ({344: b"n+1\x00"}, {344: b"ni1\x00"}, {4: b"n+2\x00\r\n\x1a\n"}),
    ),
    (Format("application/x-grib", "GRIB"), ({0: b"GRIB", 7: b"\x01"},)),
    (
        Format("application/x-grib2", "GRIB2", aliases=("application/x-grib",)),
        ({0: b"GRIB", 7: b"\x02"},),
    ),
    (
        Format("application/x-pcapng", "pcapng", aliases=("application/vnd.tcpdump.pcap",)),
        (
            {0: b"\x0a\x0d\x0d\x0a", 8: b"\x1a\x2b\x3c\x4d"},
            {0: b"\x0a\x0d\x0d\x0a", 8: b"\x4d\x3c\x2b\x1a"},
        ),
    ),
)


def _recognise(head: Head) -> Format:
    if head.data.startswith(_COMPOUND):
        named = (name for name in _STREAMS if name.encode("utf-16-le") in head.data)
        return _STREAMS[next(named)]  # always found, because the last name, which is empty, matches
    for format, sets in _MARKED:
        for marks in sets:
            if all(head.data.startswith(mark, place) for place, mark in marks.items()):
                return format
    return _ISO_MEDIA if head.data[4:8] == b"ftyp" else _BINARY


def draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw a hex dump of the first bytes, with ``*`` for lines that repeat the previous line.

    The last line is always shown, so that the end of the repeated lines is visible.
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
    dump = text_box("\n".join(lines), size, label=f"first bytes of {name}", wrap=False)
    return Drawing(html=dump)


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
