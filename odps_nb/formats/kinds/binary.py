"""Everything else: a hex dump of the first bytes, and the names of formats without a preview.

A pickle is never loaded, because loading can execute arbitrary code.
"""

from __future__ import annotations

import re
from typing import Final

from odps_nb.formats import compound
from odps_nb.formats.drawing import Drawing, Excerpt, text_box
from odps_nb.formats.kind import LAST, UNKNOWN, Format, Head, Kind
from odps_nb.formats.shared import Size

_BINARY = Format(UNKNOWN, "binary")
# compound files from old Microsoft programs, identified by their stream names
_STREAMS: Final = {
    "WordDocument": Format("application/msword", "Word 97"),
    "PowerPoint Document": Format("application/vnd.ms-powerpoint", "PowerPoint 97"),
    "__properties_version1.0": Format("application/vnd.ms-outlook", "Outlook message"),
    "Quill": Format("application/vnd.ms-publisher", "Publisher"),
    "VisioDocument": Format(
        "application/vnd.visio", "Visio", aliases=("application/vnd.ms-office",)
    ),
    "": Format(
        "application/x-ole-storage",
        "compound file",
        aliases=(
            *("application/vnd.ms-excel", "application/msword", "application/vnd.ms-powerpoint"),
            *("application/vnd.ms-outlook", "application/x-msi"),
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
        aliases=(
            *("application/x-elf", "application/x-object", "application/x-sharedlib"),
            "application/x-pie-executable",
        ),
        starts=(b"\x7fELF",),
    ),
    Format("application/vnd.microsoft.portable-executable", "Windows program", starts=(b"MZ",)),
    Format("application/x-compress", "compress", starts=(b"\x1f\x9d",)),
    Format("application/x-lz4", "LZ4", starts=(b"\x04\x22\x4d\x18",)),
    Format("application/x-riff", "RIFF", starts=(b"RIFF",)),
    Format("application/vnd.las", "LAS", aliases=("application/vnd.laszip",), starts=(b"LASF",)),
    Format("application/x-hdf", "HDF4", starts=(b"\x0e\x03\x13\x01",)),
    Format(
        "application/x-netcdf",
        "netCDF-3",
        aliases=("application/netcdf",),
        starts=(b"CDF\x01", b"CDF\x02", b"CDF\x05"),
    ),
    Format(
        "application/vnd.tcpdump.pcap",
        "pcap",
        aliases=("application/x-pcap",),
        starts=tuple(map(bytes.fromhex, _PCAP)),
    ),
    Format("model/gltf-binary", "glTF", starts=(b"glTF\x02\x00\x00\x00",)),
    Format(
        "font/collection",
        "TrueType collection",
        aliases=("application/x-font-ttf", "font/ttf", "font/otf"),
        starts=(b"ttcf\x00\x01\x00\x00", b"ttcf\x00\x02\x00\x00"),
    ),
    Format(
        "font/otf",
        "OpenType",
        aliases=("application/x-font-otf", "application/vnd.ms-opentype", "font/sfnt"),
        starts=(b"OTTO\x00",),
    ),
    Format(
        "font/woff",
        "WOFF",
        aliases=("application/font-woff",),
        starts=(b"wOFF\x00\x01\x00\x00", b"wOFFOTTO"),
    ),
    Format("font/woff2", "WOFF2", starts=(b"wOF2\x00\x01\x00\x00", b"wOF2OTTO")),
)
_PICKLE = Format(
    "application/x-pickle",
    "pickle",
    aliases=("application/x-python-pickle", "application/python-pickle"),
)
# formats that cannot be identified by their first bytes alone
_MARKED: Final = tuple(
    (format, re.compile(pattern, re.DOTALL))
    for format, pattern in (
        (
            Format("application/vnd.shp", "shapefile", aliases=("application/x-esri-shape",)),
            rb"\x00\x00\x27\x0a.{24}\xe8\x03\x00\x00",
        ),
        (Format("application/x-nifti", "NIfTI"), rb".{344}n[+i]1\x00|.{4}n\+2\x00\r\n\x1a\n"),
        (Format("application/x-grib", "GRIB"), rb"GRIB...\x01"),
        (
            Format("application/x-grib2", "GRIB2", aliases=("application/x-grib",)),
            rb"GRIB...\x02",
        ),
        (
            Format("application/x-pcapng", "pcapng", aliases=("application/vnd.tcpdump.pcap",)),
            rb"\x0a\x0d\x0d\x0a.{4}(?:\x1a\x2b\x3c\x4d|\x4d\x3c\x2b\x1a)",
        ),
        (Format("video/mj2", "Motion JPEG 2000"), rb"\x00\x00\x00\x0cjP  \r\n\x87\n.{8}mjp2"),
        (Format("model/x-ply", "PLY", aliases=("application/ply",)), rb"ply\r?\nformat [ab]"),
        # the first two cards, of 80 characters each (FITS 4.0, 4.4.1)
        (
            Format("image/fits", "FITS", aliases=("application/fits", "image/x-fits")),
            rb"(?=.{80}BITPIX  = )SIMPLE  = {1,20}[TF] ",
        ),
        # version, number of tables and name of the first table
        (
            Format(
                "font/ttf",
                "TrueType",
                aliases=("application/x-font-ttf", "font/sfnt", "application/font-sfnt"),
            ),
            rb"(?:\x00\x01\x00\x00|true)\x00[\x01-\x7f].{6}[ -~]{4}",
        ),
        # a protocol, then a frame or an instruction that creates an object
        (
            _PICKLE,
            rb"\x80(?:[\x04\x05]\x95.{6}\x00\x00|[\x02-\x05][\x80-\x8fcI-NX(\[\]{}()UGKBC])",
        ),
    )
)


def _recognise(head: Head) -> Format:
    if head.data.startswith(compound.SIGNATURE):
        return _STREAMS[compound.main_stream(head.data, frozenset(_STREAMS))]
    for format, pattern in _MARKED:
        if pattern.match(head.data):
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
    note = "never loaded here: loading a pickle runs the code that it names"
    return Drawing(html=dump, note=note if format.mime == _PICKLE.mime else "")


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
