"""The kind of a blob is detected from its bytes, not from its declared type."""

import codecs
import gzip
import importlib
import io
import mimetypes
import struct
import tarfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odps_nb.convert import blob_content
from odps_nb.formats import media_types
from odps_nb.formats.kind import HEAD, Format
from odps_nb.formats.registry import differs, kinds, media_type, sniff

WHAT = {
    "mountains.jpg": "image/jpeg",
    "mandelbrot.png": "image/png",
    "julia.webp": "image/webp",
    "life.gif": "image/gif",
    "rings.bmp": "image/bmp",
    "rose.svg": "image/svg+xml",
    "script_inside.svg": "image/svg+xml",
    "melody.wav": "audio/wav",
    "melody.mp3": "audio/mpeg",
    "drift.mp4": "video/mp4",
    "order.json": "application/json",
    "cities.csv": "text/csv",
    "telemetry.csv": "text/csv",
    "scores.tsv": "text/tab-separated-values",
    "weather.parquet": "application/vnd.apache.parquet",
    "weather.arrow": "application/vnd.apache.arrow.file",
    "weather.arrows": "application/vnd.apache.arrow.stream",
    "weights.npy": "application/x-npy",
    "model.npz": "application/x-npz",
    "invoice.pdf": "application/pdf",
    "report.html": "text/html",
    "you_have_won.html": "text/html",
    "not_a_picture.png": "text/html",
    "feed.xml": "application/xml",
    "静夜思.txt": "text/plain",
    "مرحبا.txt": "text/plain",
    "utf16.txt": "text/plain",
    "bundle.zip": "application/zip",
    "logs.tar.gz": "application/gzip",
    "random.bin": "application/octet-stream",
    "empty.dat": "application/x-empty",
    "cut_short.jpg": "image/jpeg",
    "144_megapixels.png": "image/png",
}


@pytest.fixture(scope="module")
def files(sample_blobs):
    return {blob.file_name: blob for blob in sample_blobs if blob is not None}


def kind_of(data: bytes) -> Format:
    return sniff(data[:HEAD], len(data))


def test_every_sample_is_recognised_under_any_name(files):
    assert set(WHAT) <= set(files)
    for name, blob in files.items():
        if name in WHAT:
            assert kind_of(blob.data).mime == WHAT[name], name


def test_only_mislabelled_samples_get_a_badge(files):
    liars = {n for n, blob in files.items() if differs(blob.mime_type, kind_of(blob.data))}
    assert liars == {"not_a_picture.png", '"><img src=x onerror=alert(1)>.txt'}


@given(st.binary(max_size=400), st.booleans())
@example(b"RIFF", True)
@example(b"\x00\x00\x00\xffftyp", True)
@example(b"OggS", False)
@example(b"\xff\xff\xff\xff\x10\x00\x00\x00\x08\x00\x00\x00", True)
@example(b"BM" + bytes(20), True)
@example(b"\xff\xfb\x90\x00", True)
@example(b"\x08", False)
@example(b"\x08\x05\x12", True)
@example(b"\x00\x00\x01\x00", True)
def test_any_bytes_are_recognised_as_some_kind(data, whole):
    kind = sniff(data, len(data) if whole else None)
    assert isinstance(kind, Format)
    assert kind.kind in {each.name for each in kinds()}


def test_a_truncated_sample_is_recognised_as_some_kind(files):
    for blob in files.values():
        for cut in range(0, min(len(blob.data), 300), 7):
            assert isinstance(sniff(blob.data[:cut], len(blob.data)), Format)


ZIPPED = b"PK\x03\x04" + bytes(22) + b"\x05\0\0\0a.txthello"
READABLE = {"text", "code", "table", "json", "markup", "svg", "pdf"}


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=200))
@example("ORC is a creature of the woods")
@example("MZ, BZh, GIF89a, ID3, PAR1")
@example("%PDF-1.4 is how a PDF begins")
def test_text_is_never_recognised_as_a_binary_kind(text):
    assert kind_of(text.encode()).kind in READABLE


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_alone_is_empty_text(encoding):
    kind = kind_of("".encode(encoding))
    assert (kind.mime, kind.encoding) == ("text/plain", encoding)
    assert blob_content.as_text("".encode(encoding), None) == ""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_recognised_in_each_declared_encoding(encoding):
    kind = kind_of("zwei Zeilen\nüber 世界\n".encode(encoding))
    assert kind.mime == "text/plain"
    assert codecs.lookup(kind.encoding).name == codecs.lookup(encoding).name


def test_a_character_split_by_the_end_of_the_head_does_not_make_text_binary():
    text = "世" * HEAD
    assert sniff(text.encode()[:HEAD], HEAD * 3).mime == "text/plain"


def test_a_character_split_by_the_end_of_the_blob_is_not_utf_8():
    kind = kind_of("ab世".encode()[:-1])
    assert (kind.mime, kind.guessed) == ("text/plain", True)


@pytest.mark.parametrize(
    ("start", "mime"),
    [
        (b"<!DOCTYPE html><p>x", "text/html"),
        (b"\n  <!-- a comment -->\n<HTML>", "text/html"),
        (b"<script>alert(1)</script>", "text/html"),
        (b"<img src=x onerror=alert(1)>", "text/html"),
        (b"<iframe src='javascript:1'>", "text/html"),
        (b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='x'>", "text/html"),
        (b"<?xml version='1.0'?><!-- c --><svg xmlns='x'/>", "image/svg+xml"),
        (b"<!DOCTYPE svg [<!ENTITY a 'b'>]><svg >", "image/svg+xml"),
        (b"<svg:svg xmlns:svg='x'>", "image/svg+xml"),
        (b"<?xml version='1.0'?><note/>", "application/xml"),
        (b"<?xml version='1.0'?><a>x</a>", "application/xml"),
        (b"<?xml version='1.0'?>\n<!-- c -->\n<table><title/></table>", "application/xml"),
        (b"<?xml version='1.0'?><html lang='en'><p/></html>", "text/html"),
        (b"<note>about > and <</note>", "text/plain"),
        (b"< 3 is a heart", "text/plain"),
    ],
)
def test_html_xml_and_svg_are_distinguished(start, mime):
    assert kind_of(start).mime == mime


@pytest.mark.parametrize(
    ("text", "mime"),
    [
        ('{"a": 1}', "application/json"),
        ("[1, 2, 3]", "application/json"),
        ('{"a": 1}\n{"a": 2}\n', "application/x-ndjson"),
        ("{not json}", "text/plain"),
        ("[1, 2,", "text/plain"),
        ("[" * 30_000, "text/plain"),
        ("[" + '{"key": "value", "n": 12345}, ' * 20_000, "application/json"),  # truncated
        ('{"n": ' + "9" * 60_000 + "}", "application/json"),
        ('{"cells": 3}', "application/json"),
        ('{"type": "Point", "coordinates": [1, 2', "text/plain"),
        ("a,b\n1,2\n3,4\n", "text/csv"),
        ("a;b;c\n1;2;3\n", "text/csv"),
        ('a,b\n"x, y","line\nbreak"\n3,4\n', "text/csv"),
        ("Dear friend, hello,\nall is well, thanks\n", "text/plain"),
        ("one, two\nthree\n", "text/plain"),
        ("a\tb\n1\t2\n3\t4", "text/tab-separated-values"),
    ],
)
def test_formats_of_data_in_text_are_distinguished(text, mime):
    assert kind_of(text.encode()).mime == mime


def test_mp3_is_recognised_by_two_consecutive_frame_headers():
    frame = b"\xff\xfb\x90\x00" + bytes(413)
    assert kind_of(frame + frame[:4]).mime == "audio/mpeg"
    assert kind_of(frame + bytes(4)).mime == "application/octet-stream"


def test_the_brand_distinguishes_videos_pictures_and_sound():
    def media_file(brand: bytes, *others: bytes) -> bytes:
        body = b"ftyp" + brand + bytes(4) + b"".join(others)
        return struct.pack(">I", len(body) + 4) + body + bytes(32)

    assert kind_of(media_file(b"isom")).mime == "video/mp4"
    assert kind_of(media_file(b"avif")).mime == "image/avif"
    assert kind_of(media_file(b"M4A ")).mime == "audio/mp4"
    assert kind_of(media_file(b"xxxx", b"mp42")).mime == "video/mp4"
    assert kind_of(media_file(b"qt  ")).mime == "video/quicktime"
    assert kind_of(media_file(b"xxxx")).kind == "binary"


def test_container_formats_are_distinguished_by_their_contents():
    assert kind_of(b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm" + bytes(9)).mime == "video/webm"
    assert kind_of(b"\x1a\x45\xdf\xa3\x9f\x42\x82\x88matroska").mime == "video/x-matroska"
    assert kind_of(b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84some").kind == "binary"
    assert kind_of(b"OggS\x00\x02" + bytes(22) + b"\x01\x1eOpusHead").mime == "audio/ogg"
    assert kind_of(b"OggS\x00\x02" + bytes(22) + b"\x80theora" + bytes(9)).mime == "video/ogg"
    assert kind_of(b"RIFF\x24\x00\x00\x00AVI LIST").mime == "video/x-msvideo"
    assert kind_of(b"RIFF\x24\x00\x00\x00ACONLIST").kind == "binary"


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("Python", "#!/usr/bin/env python3\nx = 1\n"),
        ("Python", "import os\nfrom a import b\n\n\ndef f(x):\n    return x\n"),
        ("Shell", "#!/bin/bash\nset -e\nls\n"),
        ("JavaScript", "import x from 'y';\nconst a = 1;\nfunction f() {\n}\n"),
        ("SQL", "SELECT a, b\nFROM t\nWHERE a = 'x'\nGROUP BY 1;\n"),
        ("Java", "package a.b;\n\nimport java.util.List;\n\npublic class A {\n}\n"),
        ("Go", 'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println(1)\n}\n'),
        ("Rust", "use std::io;\n\nfn main() {\n    let mut x = 1;\n}\n"),
        ("C", "#include <stdio.h>\n\nint main(void) {\n    return 0;\n}\n"),
        ("C++", "#include <vector>\n\nint main() {\n    std::vector<int> a;\n}\n"),
        ("C++", "#pragma once\n\nnamespace a {\nclass B {\n};\n}\n"),
        ("text", "a {\n  color: red;\n}\n\n@media print {\n  b {\n    x: y;\n  }\n}\n"),
        ("CMake", "if(WIN32)\n  set(A 1)\nendif()\n# comment\nfoo(\n  ${A}\n)\n"),
        ("text", "a {\n  b;\n}\nc {\n};\n"),
        ("text", "Words\n=====\n\nSome `x`, **y** and ``z``.\n"),
        ("text", "Metadata-Version: 2.1\nName: x\n\nimport os\n\ndef f(x):\n    pass\n"),
        ("text", "# Settings\n\n# See `x`.\n\nproject = 'x'\nauthor = \"y\"\n"),
        ("reStructuredText", "Title\n=====\n\n``code`` and `x`.\n\n.. note::\n\n   Words.\n"),
        ("reStructuredText", "Title\n-----\n\nSee :func:`f` and `that <x>`_.\n"),
        ("Markdown", "# Title\n\nSome words.\n\n## Part\n\nMore.\n"),
        ("Markdown", "Read [this](https://x.y) and run:\n\n```\nls\n```\n"),
        ("text", "# a comment\nname: x\nitems:\n  - one\n  - two\n"),
        ("text", "Where the wild things are,\nthere I want to be.\n"),
        ("text", "2024-01-02 12:00:01 INFO started\n2024-01-02 12:00:02 INFO ended\n"),
        ("text", "[section]\nkey = value\n# import this\n"),
        ("text", "Dear all,\nif you have time: write!\nYours\n"),
    ],
)
def test_the_language_of_source_code_is_recognised(label, text):
    assert kind_of(text.encode()).label == label


def test_the_file_name_takes_precedence_for_the_language():
    text = b"# Title\n\nSome `code` and **bold** words.\n"
    assert media_type(text, len(text), "") == "text/markdown"
    assert media_type(text, len(text), "a.csv") == "text/csv"
    assert media_type(text, len(text), "a.mp4") == "text/markdown"


def test_a_tar_is_recognised_by_its_signature_at_byte_257():
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"), io.BytesIO())
    assert kind_of(raw.getvalue()).mime == "application/x-tar"
    assert kind_of(gzip.compress(raw.getvalue())).mime == "application/gzip"


@pytest.mark.parametrize(
    ("declared", "data", "lies"),
    [
        ("image/png", b"\x89PNG\r\n\x1a\n\x00", False),
        ("IMAGE/PNG; q=1", b"\x89PNG\r\n\x1a\n\x00", False),
        ("image/jpeg", b"\x89PNG\r\n\x1a\n\x00", True),
        ("application/octet-stream", b"\x89PNG\r\n\x1a\n\x00", False),
        ("", b"\x89PNG\r\n\x1a\n\x00", False),
        (None, b"\x89PNG\r\n\x1a\n\x00", False),
        ("text/plain", b"<html><body>", False),
        ("text/plain", b"\x89PNG\r\n\x1a\n\x00", True),
        ("image/png", b"\x00\x01\x02", True),
        ("application/x-our-own-format", b"\x00\x01\x02", False),
        ("audio/x-wav", b"RIFF\x00\x00\x00\x00WAVEfmt ", False),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", ZIPPED, False),
        ("image/png", ZIPPED, True),
        ("image/png", b"plain words", True),
        ("text/plain", ZIPPED, True),
        ("text/csv", b"<!DOCTYPE html><title>Sign in</title>", True),
        ("application/vnd.ms-excel", b"<html><table>", True),
        ("image/x-our-own", b"<html><script>", True),
        ("text/markdown", b"<p align=center>x", False),
        ("application/json", b"# Title\n", False),
        ("image/x-our-own", b"\x89PNG\r\n\x1a\n", False),
        ("application/x-our-own", b"\x89PNG\r\n\x1a\n", True),
        ("video/x-our-own", b"\x89PNG\r\n\x1a\n", True),
        ("image/x-canon-cr2", b"II*\0\x10\0\0\0CR", False),
        ("text/<b>plain", b"plain words", True),
    ],
)
def test_a_badge_marks_a_declared_type_that_contradicts_the_bytes(declared, data, lies):
    assert differs(declared, kind_of(data)) is lies


def test_media_types_of_file_names_do_not_depend_on_the_machine(tmp_path):
    (tmp_path / "mime.types").write_text("text/odd png parquet odd\n")
    mimetypes.init([str(tmp_path / "mime.types")])
    try:
        assert mimetypes.guess_type("a.odd")[0] == "text/odd"
        importlib.reload(media_types)
        names = ("a.png", "a.parquet", "a.odd", "a.csv.gz", "data:,a")
        assert [media_types.type_of_name(name) for name in names] == [
            *("image/png", "application/vnd.apache.parquet", None, "application/gzip", None)
        ]
    finally:
        mimetypes.init()


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.png", "a.html", "a.json", "a.py", "a"])
def test_the_media_type_is_that_of_the_file_name_unless_the_content_contradicts_it(files, name):
    for blob in files.values():
        head, size = blob.data[:HEAD], len(blob.data)
        guess = media_types.type_of_name(name)
        found = sniff(head, size, name)
        contradicted = guess is None or not size or differs(guess, found)
        assert media_type(head, size, name) == (found.mime if contradicted else guess)
