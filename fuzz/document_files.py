"""Generates small workbooks, PDF documents and scientific images byte by byte."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np

__all__ = ["compound", "dicom", "files", "ods", "pdf", "xls", "xlsx"]

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_ROWS = (
    '<row r="1"><c r="A1" t="inlineStr"><is><t>name</t></is></c><c r="B1" t="s"><v>0</v></c></row>'
    '<row r="2"><c r="A2" t="inlineStr"><is><t>&lt;b&gt;tea</t></is></c>'
    '<c r="B2"><v>3</v></c></row>'
    '<row r="3"><c r="A3" t="inlineStr"><is><t>cake</t></is></c><c r="B3"><v>4.5</v></c></row>'
)


def files() -> dict[str, bytes]:
    """Return the files by name."""
    return {
        "book.xlsx": xlsx(),
        "book.ods": ods(),
        "book.xls": xls(),
        "page.pdf": pdf(),
        "scan.dcm": dicom(),
        "notes.md": b"# Notes\n\nSome **bold** words and `code`.\n\n## List\n\n- [tea](x)\n",
        "tool.py": b'"""A tool."""\n\nimport os\n\n\ndef main(name):\n    print("<b>", name, 4)\n',
    }


def xlsx(*, rows: str = _ROWS, strings: str = "<si><t>price</t></si>", more: str = "") -> bytes:
    """Return a workbook with two sheets; ``more`` contains relationships of the workbook."""
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"

    def link(number: int, kind: str, target: str) -> str:
        return f'<Relationship Id="rId{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'

    links = (
        link(1, "worksheet", "worksheets/sheet1.xml")
        + link(2, "worksheet", "worksheets/sheet2.xml")
        + link(3, "sharedStrings", "sharedStrings.xml")
    )
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>'
        for n, name in enumerate(("Prices &lt;b&gt;", "Empty"), 1)
    )
    return _zip(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
            f'<Default Extension="xml" ContentType="{kinds}.sheet.main+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
            f"{link(1, 'officeDocument', 'xl/workbook.xml')}</Relationships>",
            "xl/workbook.xml": f'<workbook xmlns="{_SHEETS}" xmlns:r="{_OFFICE}">'
            f"<sheets>{listed}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
            f"{links}{more}</Relationships>",
            "xl/sharedStrings.xml": f'<sst xmlns="{_SHEETS}">{strings}</sst>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_SHEETS}"><sheetData>{rows}'
            "</sheetData></worksheet>",
            "xl/worksheets/sheet2.xml": f'<worksheet xmlns="{_SHEETS}"><sheetData/></worksheet>',
        }
    )


def ods() -> bytes:
    """Return an OpenDocument sheet."""
    mime = "application/vnd.oasis.opendocument.spreadsheet"
    names = "urn:oasis:names:tc:opendocument:xmlns"
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    rows = "".join(
        f"<table:table-row>{''.join(map(cell.format, row))}</table:table-row>"
        for row in (("name", "price"), ("tea", "3"))
    )
    return _zip(
        {
            "mimetype": mime,
            "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{names}:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{mime}"/>'
            "</manifest:manifest>",
            "content.xml": f'<office:document-content xmlns:office="{names}:office:1.0" '
            f'xmlns:table="{names}:table:1.0" xmlns:text="{names}:text:1.0"><office:body>'
            f'<office:spreadsheet><table:table table:name="Prices">{rows}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        }
    )


def xls(
    rows: tuple[tuple[str | float, ...], ...] = (("name", "price"), ("<b>tea", 3.0)),
    *,
    name: str = "Prices",
) -> bytes:
    """Return a workbook with one sheet in the format of Excel 97: records in a compound file."""

    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    def begin(kind: int) -> bytes:
        return record(0x809, struct.pack("<HHHHII", 0x600, kind, 0xDBB, 0x7CC, 0, 6))

    cells = b""
    for at, row in enumerate(rows):
        for column, value in enumerate(row):
            place = struct.pack("<HHH", at, column, 0)
            if isinstance(value, str):
                text = struct.pack("<HB", len(value), 0) + value.encode("latin-1")
                cells += record(0x204, place + text)
            else:
                cells += record(0x203, place + struct.pack("<d", value))
    width = max(map(len, rows), default=0)
    extent = record(0x200, struct.pack("<IIHHH", 0, len(rows), 0, width, 0))
    end = record(10, b"")
    sheet = begin(0x10) + extent + cells + end
    first = begin(5) + record(0x42, struct.pack("<H", 1200))
    told = struct.pack("<BBBB", 0, 0, len(name), 0) + name.encode("latin-1")
    place = len(first) + 4 + 4 + len(told) + len(end)
    book = first + record(0x85, struct.pack("<I", place) + told) + end + sheet
    return compound("Workbook", book)


def compound(name: str, stream: bytes) -> bytes:
    """Return a compound file with one stream: its sectors, the directory, the sector chain."""
    stream = stream.ljust(4096, b"\0")
    stream += bytes(-len(stream) % 512)
    count, last, none = len(stream) // 512, -2, -1

    def entry(called: str, kind: int, child: int, start: int, size: int) -> bytes:
        text = (called + "\0").encode("utf-16-le")
        links = struct.pack("<HBBiii", len(text), kind, 1, none, none, child)
        return text.ljust(64, b"\0") + links + bytes(36) + struct.pack("<iQ", start, size)

    folder = entry("Root Entry", 5, 1, last, 0) + entry(name, 2, none, 0, len(stream))
    chain = [*range(1, count), last, last, -3]
    sectors = struct.pack("<128i", *chain, *[none] * (128 - len(chain)))
    numbers = (0, 1, count, 0, 4096, last, 0, last, 0, count + 1)
    header = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16)
    header += struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6) + struct.pack("<10i", *numbers)
    header += struct.pack("<108i", *[none] * 108)
    return header + stream + folder.ljust(512, b"\0") + sectors


def _zip(parts: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            way = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            archive.writestr(info, text, compress_type=way)
    return out.getvalue()


def pdf(
    *,
    content: bytes = b"0.2 0.4 0.9 rg 20 20 100 60 re f",
    page: bytes = b"/MediaBox [0 0 200 100]",
    catalog: bytes = b"",
    more: tuple[bytes, ...] = (),
    packed: bool = False,
) -> bytes:
    """Return a PDF with one page; ``more`` contains additional objects, numbered from 5."""
    way = b"/Filter /FlateDecode " if packed else b""
    held = zlib.compress(content, 9) if packed else content
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R " + catalog + b" >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R " + page + b" >>",
        b"<< " + way + b"/Length %d >>\nstream\n" % len(held) + held + b"\nendstream",
        *more,
    )
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, held in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + held + b"\nendobj\n"
    begins = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n" % (len(objects) + 1)
    return bytes(out + b"%d\n%%%%EOF\n" % begins)


def dicom(
    *,
    rows: int = 32,
    columns: int = 48,
    syntax: bytes = b"1.2.840.10008.1.2.1",
    pixels: bytes | None = None,
) -> bytes:
    """Return a 16-bit DICOM image with a patient's name (explicit lengths, little-endian)."""

    def element(group: int, number: int, kind: bytes, value: bytes) -> bytes:
        value += (b"\0" if kind in (b"UI", b"OW") else b" ") * (len(value) % 2)
        head = struct.pack("<HH2s", group, number, kind)
        if kind == b"OW":
            return head + struct.pack("<HI", 0, len(value)) + value
        return head + struct.pack("<H", len(value)) + value

    def number(group: int, which: int, value: int) -> bytes:
        return element(group, which, b"US", struct.pack("<H", value))

    if pixels is None:
        slope = np.add.outer(np.arange(rows) * 40, np.arange(columns) * 20)
        pixels = slope.astype("<u2").tobytes()
    about = element(2, 0x10, b"UI", syntax)
    meta = element(2, 0, b"UL", struct.pack("<I", len(about))) + about
    body = b"".join(
        (
            element(8, 0x60, b"CS", b"MR"),
            element(0x10, 0x10, b"PN", b"Doe^Jane<b>"),
            element(0x18, 0x15, b"CS", b"HEAD"),
            number(0x28, 2, 1),
            element(0x28, 4, b"CS", b"MONOCHROME2"),
            number(0x28, 0x10, rows),
            number(0x28, 0x11, columns),
            number(0x28, 0x100, 16),
            number(0x28, 0x101, 16),
            number(0x28, 0x102, 15),
            number(0x28, 0x103, 0),
            element(0x7FE0, 0x10, b"OW", pixels),
        )
    )
    if syntax.endswith(b".99"):
        body = zlib.compress(body)[2:-4]  # without the zlib header and checksum
    return bytes(128) + b"DICM" + meta + body
