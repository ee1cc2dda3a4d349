"""Files whose first bytes look like another kind are recognised correctly."""

import io
import json
import tarfile
import zipfile

import av
import numpy as np
import pyarrow as pa
import pytest

from fuzz import document_files, media_files
from odps_nb.convert.blob_content import as_table
from odps_nb.errors import ConversionError
from odps_nb.formats.registry import sniff
from odps_nb.notebook.preview.tile import tile
from tests.support.arrow_bodies import ipc
from tests.support.previews import Seen, Value

TIFF = b"II*\0\x08\0\0\0"


def label(data):
    return sniff(data[: 64 * 1024], len(data)).label


def repacked(data, rename=lambda name: name, *, order=lambda names: names, stored=()):
    """Return a ZIP with other names, in another order, or with more uncompressed files."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        parts = {name: old.read(name) for name in order(old.namelist())}
        for name, part in {**{rename(n): p for n, p in parts.items()}, **dict(stored)}.items():
            info = zipfile.ZipInfo(name)
            info.filename = name  # ZipInfo would replace a backslash on Windows
            new.writestr(info, part)
    return out.getvalue()


# -- pictures and documents -----------------------------------------------------------------------


def test_dicom_is_recognised_with_any_preamble():
    scan = document_files.dicom()
    both = TIFF + scan[len(TIFF) :]
    assert label(both) == "DICOM"
    assert "DICOM · MR · 48 × 32" in tile(Value(both)).text


def test_a_workbook_is_recognised_with_any_part_names():
    book = document_files.xlsx()
    assert label(repacked(book, lambda name: name.replace("/", "\\"))) == "Excel"
    assert label(repacked(book, str.upper)) == "Excel"
    assert label(repacked(book, lambda name: name.replace("workbook.xml", "book.xml"))) == "Excel"


@pytest.mark.parametrize("folder", ["ppt", "word"])
def test_a_document_that_contains_a_workbook_is_not_a_workbook(folder):
    parts = {
        f"{folder}/main.xml": "<a/>",
        f"{folder}/embeddings/book.xlsx": repacked(document_files.xlsx()),
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    assert b"xl/workbook.xml" in out.getvalue()
    assert label(out.getvalue()) != "Excel"


def test_an_opendocument_sheet_is_recognised_by_its_media_type_anywhere():
    late = repacked(document_files.ods(), order=lambda names: names[::-1])
    assert not late.startswith(b"mimetype", 30)
    assert "OpenDocument sheet · 1 sheet · 2 rows × 2 columns" in tile(Value(late)).text


def test_a_workbook_with_a_password_is_reported():
    locked = document_files.compound("EncryptedPackage", bytes(5000))
    made = tile(Value(locked))
    assert made.notes == ("password-protected: not decoded here",)
    assert "Office with a password" in made.text


def locked_ods():
    """Return a spreadsheet whose manifest declares its content as encrypted."""
    manifest = (
        b'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        b'<manifest:file-entry manifest:full-path="content.xml"><manifest:encryption-data/>'
        b"</manifest:file-entry></manifest:manifest>"
    )
    parts = {"META-INF/manifest.xml": manifest, "content.xml": bytes(range(256)) * 4}
    return repacked(document_files.ods(), stored=parts)


def locked_xls(before=b""):
    """Return a workbook whose first record declares the others as encrypted."""
    begin = document_files.xls()
    at = begin.index(b"\x42\0\2\0")
    start = before + b"\x2f\0\2\0\0\0"
    return begin[:at] + start + begin[at + len(start) :]


@pytest.mark.parametrize(
    "data",
    [locked_ods(), locked_xls(), locked_xls(b"\x86\0\0\0")],
    ids=["ods", "xls", "xls that is also protected from writing"],
)
def test_a_spreadsheet_with_a_password_is_reported(data):
    made = tile(Value(data))
    assert made.format.kind == "workbook"
    assert made.notes == ("password-protected: not decoded here",)


def test_a_notebook_of_version_3_shows_its_cells():
    cell = {"cell_type": "code", "input": ["print('tea')"], "outputs": [{}]}
    found = {"nbformat": 3, "worksheets": [{"cells": [cell]}, {"cells": [cell]}]}
    made = tile(Value(json.dumps(found).encode()))
    assert made.words.startswith("notebook · 2 cells · 2 outputs")
    assert "print('tea')" in Seen(made.html).text


def test_a_pdf_with_a_password_is_reported():
    """PDFium detects the encryption before it decrypts data."""
    lock = b"/Filter /Standard /V 1 /R 2 /P -4 /O <%b> /U <%b>" % (b"41" * 32, b"42" * 32)
    data = document_files.pdf().replace(
        b"/Root", b"/ID [<41> <41>] /Encrypt << " + lock + b" >> /Root"
    )
    made = tile(Value(data))
    assert made.notes == ("not decoded here: it is password-protected",)


# -- videos and sound ------------------------------------------------------------------------------


def with_cover(container):
    """Return sound with an embedded cover picture, as players and shops write it."""
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        sound = file.add_stream("aac", rate=48_000, layout="mono")
        cover = file.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 48, "yuvj420p"
        cover.disposition = cover.disposition.attached_pic
        picture = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")
        file.mux(cover.encode(picture))
        file.mux(cover.encode())
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 48_000
        file.mux(sound.encode(frame))
        file.mux(sound.encode())
    return out.getvalue()


def test_mp4_with_only_sound_is_sound():
    song = media_files.sound("mp4", "aac")
    assert song[8:12] == b"isom"
    assert tile(Value(song)).text.startswith("blob  M4A · 0:0")
    assert label(media_files.files()["clip.mp4"]) == "MP4"


def test_sound_with_a_cover_picture_is_not_a_video():
    text = tile(Value(with_cover("mp4"))).text
    assert "M4A" in text
    assert "MJPEG" not in text


@pytest.mark.parametrize(("name", "is_label"), [("song.flac", "FLAC"), ("song.mp3", "MP3")])
def test_sound_after_an_id3_tag_is_recognised(name, is_label):
    song = media_files.files()[name]
    song = song[song.index(b"\xff\xfb") :] if is_label == "MP3" else song
    assert label(b"ID3\x04\0\0\0\0\x02\x01" + bytes(257) + song) == is_label


def test_aac_is_recognised_with_and_without_a_tag():
    song = media_files.sound("adts", "aac")
    assert label(song) == "AAC"
    assert label(b"ID3\x04\0\0\0\0\0\x0a" + bytes(10) + song) == "AAC"
    assert "AAC · 0:0" in tile(Value(song)).text


def test_a_quicktime_video_without_ftyp_is_recognised():
    film = media_files.files()["clip.mov"]
    without = film[int.from_bytes(film[:4], "big") :]
    assert b"ftyp" not in without[:12]
    assert "QuickTime" in tile(Value(without)).text
    index = without[without.index(b"moov") - 4 :]
    assert label(index) == "QuickTime"
    assert label(b"just mdat words") == "text"


@pytest.mark.parametrize("size", [b"\x84", b"\x40\x04", b"\x10\0\0\x04", b"\x01\0\0\0\0\0\0\x04"])
def test_matroska_is_recognised_with_padding_and_long_sizes(size):
    start = b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82"
    assert label(start + size + b"webm" + bytes(40)) == "WebM"
    assert label(start + b"\x8cmatroska" + bytes(40)) == "Matroska"
    assert label(start + b"\x88webm" + bytes(40)) == "WebM"
    assert label(start + b"\x84none" + bytes(40)) == "binary"


# -- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_tile_and_a_table_have_the_same_rows_of_a_csv_with_blank_lines(end):
    data = end.join(["a,b", "", "1,2", "", "", "3,4", "5,6", ""]).encode()
    assert "CSV · 3 rows × 2 columns" in tile(Value(data)).text
    assert as_table(data, "text/csv", max_bytes=1 << 20).num_rows == 3


def test_an_arrow_interval_that_pyarrow_does_not_support_is_refused_with_a_reason():
    table = pa.table({"n": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    data = bytearray(ipc(table))
    unit = data.index(b"\2\0\xff\xff\xff\xff")  # the end of the schema
    data[unit] = 0
    data = bytes(data)
    assert str(pa.ipc.open_stream(data).schema.types) == "[DataType(month_interval)]"
    assert "pyarrow does not support" in " ".join(tile(Value(data)).notes)
    with pytest.raises(ConversionError, match="cannot be read") as caught:
        as_table(data, "application/vnd.apache.arrow.stream", max_bytes=1 << 20)
    assert "21" not in str(caught.value)


@pytest.mark.parametrize(
    ("main", "embedded", "shown"),
    [
        ("WordDocument", "Workbook", "Word 97"),
        ("Workbook", "WordDocument", "Excel 97"),
        ("Quill", "Book", "Publisher"),
        ("Contents", "MyWorkbook", "compound file"),
    ],
)
def test_a_compound_file_is_recognised_by_its_first_known_stream(main, embedded, shown):
    data = bytearray(document_files.compound(main, bytes(5000)))
    at = data.index(main.encode("utf-16-le")) + 128
    name = f"{embedded}\0".encode("utf-16-le")
    data[at : at + len(name)] = name
    data[at + 64 : at + 67] = bytes((len(name), 0, 2))
    assert label(bytes(data)) == shown


TEXTS = {
    "FASTQ": "@SEQ_1\nGATTTGGGGTTC\n+\n!''*((((***+\n@SEQ_2\nGATTTGGGG\n+\n!''*((((*\n" * 4,
    "C#": "# region x\n\n/// See [the docs](https://x.y)\n/// ```\n/// new A();\n/// ```\n"
    "namespace A\n{\n    class B\n    {\n        int c = `1`;\n    }\n}\n",
    "Julia": '"""\n    f(x)\n\n```julia\nf(1)\n```\n"""\nfunction f(x)\n    y[1](2)\nend\n# a\n\n'
    "struct A\n  x\nend\n",
    "a disk image": "img1\x01" + "x" * 9000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_resembles_another_kind_is_plain_text(name):
    assert label(TEXTS[name].encode()) not in ("Python", "Markdown", "text of Hive", "CSV")


def test_markdown_with_much_fenced_code_is_markdown():
    fence = "```c\nint a;\nint b;\nint c;\n```\n"
    assert label(f"# Title\n\nText with `code`.\n\n{fence * 8}".encode()) == "Markdown"


# -- file names and languages ---------------------------------------------------------------

SPARQL = b"PREFIX a: <http://a>\nSELECT ?x\nWHERE {\n  ?x a:b ?y\n}\nORDER BY ?x\n"
DOCUMENTED = b'"""\nUse [`f`][m.f] and `g`:\n\n## How\n\nText.\n"""\n\nfrom m import f\n\nf()\n'
FENCED = b"# Title\n\nText with `a`.\n\n```python\nfrom a import b\nimport c\ndef f():\n```\n"
ROWS_INSIDE = b'from a import b, c, d\nrows = """x,y,z\n1,2,3\n4,5,6\n7,8,9\n1,2,3\n"""\nf(rows)\n'
C_LIKE = b"import a;\nclass A {\nvoid main() {\n  int x = 1;\n}\n}\n"


@pytest.mark.parametrize(
    ("data", "name", "label"),
    [
        (SPARQL, "", "text"),
        (SPARQL, "query.rq", "text"),
        (DOCUMENTED, "example.py", "Python"),
        (b"__version__ = 1\nimport os\n", "version.py", "Python"),
        (b"a plain note\n", "note.py", "text"),
        (FENCED, "page.md", "Markdown"),
        (C_LIKE, "main.dart", "text"),
        (ROWS_INSIDE, "example.py", "Python"),
        (ROWS_INSIDE, "example.rb", "text"),
        (b"export type A = B;\n" * 40 + b"export type C = {\n};\n", "", "text"),
        (b"# Rules\n\n## All\n\nall: `a`\n\techo **a**\n\tb\n", "", "text"),
        (b";; # A\n\n;; ## B\n\n(setq a `b` )\n; **c** `d`\n", "", "text"),
        (b"0x01, 0x02, 0x03,\n0x04, 0x05, 0x06,\n0x07, 0x08, 0x09\n", "", "text"),
        (b"1,2,3,\n4,5,6,\n7,8,9,\n", "", "CSV"),
        (b"<gpx version='1' xmlns='http://www.topografix.com/GPX/1/0'>\n <name>", "", "XML"),
        (b"<!-- c -->\n<a:b>\n <c/>\n</a:b>\n", "", "XML"),
        (b"<!DOCTYPE document SYSTEM 'a.dtd'>\n<document/>\n", "", "XML"),
        (b"<template>\n</template>\n<script>\n</script>\n", "", "text"),
        (b"<http://a/b> <http://a/c> 1 .\n", "", "text"),
        (b"#!/usr/bin/env perl\n\nuse a; # one, two\nuse b;\nuse c;\n", "", "text"),
    ],
)
def test_the_label_of_text_depends_on_its_content_and_then_on_its_extension(data, name, label):
    assert sniff(data, len(data), name).label == label


#: As written before POSIX: without a mark, and with a checksum of the fields before it.
OLD_TAR = tarfile.TarInfo("a.txt").tobuf(tarfile.GNU_FORMAT)
OLD_TAR = OLD_TAR[:148] + b"%06o\0 " % (sum(OLD_TAR[:148]) + 256) + bytes(356)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x18ftypmjp2\0\0\0\0mjp2mj2s", "Motion JPEG 2000"),
        (b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 ", "JPEG 2000"),
        (b"II\x1a\0\0\0HEAPCCDR" + bytes(9), "camera RAW"),
        (b"\x1f\x9d\x90ab\x06\xfc\x01", "compress"),
        (b'{"a": 1}\nnull\n{"a": 2}\n', "JSON lines"),
        (b"BM" + bytes(12) + b"\x10\0\0\0" + bytes(80), "BMP"),  # a BMP of OS/2
        (b"BM" + bytes(12) + b"\x40\0\0\0" + bytes(80), "BMP"),
        (b"\x00\x00\x00\x00" + b"G" + bytes(187), "binary"),  # a single marker does not suffice
        ((b"G" + bytes(187)) * 4, "MPEG-TS"),
        ((bytes(4) + b"G" + bytes(187)) * 4, "MPEG-TS"),
        (media_files.files()["song.aac"][:100], "binary"),  # a single frame does not suffice
        (OLD_TAR, "tar"),
        (OLD_TAR.replace(b"a.txt", b"b.txt"), "binary"),  # another checksum
        (b"#!AMR-WB\n" + b"\x04" + bytes(17), "AMR"),
        (b"\0\0\0\x14ftyp3gp5\0\0\0\0mmp4" + bytes(90), "3GP"),
        (b"G'day to all of you.\n" * 30, "text"),
    ],
)
def test_signatures_of_similar_formats_are_distinguished(data, expected):
    assert label(data) == expected
