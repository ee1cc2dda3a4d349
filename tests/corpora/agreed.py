"""Intended differences from other programs, each with its reason. An unused line fails a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNKNOWN = "libmagic does not know the format"
_NOT_CLAIMED = "the format has no preview here, and docs/previews.md does not claim it"
_IN_TEXT = "it is written in plain text, and shown as such"
_NO_MARK = "libmagic judges by a few numbers that many files have"

#: Our label, and libmagic's media type.
KINDS: dict[tuple[str, str], str] = {
    ("Arrow file", "application/octet-stream"): _UNKNOWN,
    ("Avro", "application/octet-stream"): _UNKNOWN,
    ("DDS", "application/octet-stream"): _UNKNOWN,
    ("NumPy", "application/octet-stream"): _UNKNOWN,
    ("Parquet", "application/octet-stream"): _UNKNOWN,
    ("DICOM", "image/tiff"): "the header of a TIFF is its preamble: DICM at byte 128 decides",
    ("ICO", "image/x-tga"): _NO_MARK,
    ("text", "application/postscript"): "a program in PostScript is not run here, but shown",
    ("text", "application/x-subrip"): _IN_TEXT,
    ("text", "image/x-portable-bitmap"): _IN_TEXT,
    ("text", "image/x-portable-graymap"): _IN_TEXT,
    ("text", "image/x-portable-pixmap"): _IN_TEXT,
    ("text", "image/x-xpixmap"): _IN_TEXT,
    ("binary", "application/vnd.iccprofile"): _NOT_CLAIMED,
    ("binary", "audio/midi"): _NOT_CLAIMED,
    ("binary", "audio/vnd.dolby.dd-raw"): _NOT_CLAIMED,
    ("binary", "audio/x-ape"): _NOT_CLAIMED,
    ("binary", "audio/x-dff"): _NOT_CLAIMED,
    ("binary", "audio/x-dsf"): _NOT_CLAIMED,
    ("binary", "audio/x-hx-aac-adif"): _NOT_CLAIMED,
    ("binary", "audio/x-musepack"): _NOT_CLAIMED,
    ("binary", "image/wmf"): _NOT_CLAIMED,
    ("binary", "image/x-dcx"): _NOT_CLAIMED,
    ("binary", "image/x-eps"): _NOT_CLAIMED,
    ("binary", "image/x-gimp-gbr"): _NOT_CLAIMED,
    ("binary", "image/x-icns"): _NOT_CLAIMED,
    ("binary", "image/x-ms-bmp"): "a bitmap without the header of a file",
    ("binary", "image/x-pcx"): _NOT_CLAIMED,
    ("binary", "image/x-qoi"): _NOT_CLAIMED,
    ("binary", "image/x-tga"): _NO_MARK,
    ("binary", "image/x-win-bitmap"): "a cursor is no icon: Pillow reads it, browsers do not",
    ("binary", "image/x-xv-thumbnail"): _NOT_CLAIMED,
    ("binary", "video/x-flc"): _NOT_CLAIMED,
    ("binary", "video/x-fli"): _NOT_CLAIMED,
}

#: A single file, as corpus/path, because the rule would be wrong for other files.
FILES: dict[str, str] = {
    "chardet/tests/EUC-TW/_ude_euc-tw1.txt": "no codec of Python reads EUC-TW",
    "chardet/tests/UTF-16BE/nobom-utf16be.txt": "libmagic wants a byte order mark",
    "chardet/tests/UTF-16LE/nobom-utf16le.txt": "libmagic wants a byte order mark",
    "chardet/tests/UTF-32BE/nobom-utf32be.txt": "libmagic wants a byte order mark",
    "chardet/tests/UTF-32LE/nobom-utf32le.txt": "libmagic wants a byte order mark",
    "chardet/tests/UTF-16BE/plane1-utf-16be.html": "libmagic wants a byte order mark",
    "chardet/tests/UTF-16LE/plane1-utf-16le.html": "libmagic wants a byte order mark",
    "chardet/tests/UTF-32BE/plane1-utf-32be.html": "libmagic wants a byte order mark",
    "chardet/tests/UTF-32LE/plane1-utf-32le.html": "libmagic wants a byte order mark",
    "chardet/tests/iso-2022-kr/_ude_iso1.txt": "libmagic does not know ISO-2022-KR",
    "chardet/tests/iso-2022-kr/_ude_iso2.txt": "libmagic does not know ISO-2022-KR",
    "chardet/tests/iso-8859-7-greek/_ude_1.txt": "libmagic takes it for a program of DOS",
    "mutagen/tests/data/64bit.mp4": "an index without any film: nothing to show",
    "mutagen/tests/data/id3v24_extended_header.id3": "an ID3 tag without its sound",
    "mutagen/tests/data/issue_21.id3": "an ID3 tag without its sound",
    "mutagen/tests/data/no-tags.3g2": "libmagic does not know this brand",
    "pillow/Tests/images/broken.png": "libmagic wants a whole header",
    "pillow/Tests/images/hopper.tar": "tar of 1979, without a mark",
    "pillow/Tests/images/hopper_bad.p7": "the header is all that is left of it",
    "pillow/Tests/images/l2rgb_read.bmp": "all its numbers are 0x30303030: only the mark is right",
}

#: A single file for which a conversion differs from that of another library.
CONVERSIONS: dict[str, str] = {}

#: Types that libmagic calls text, in addition to `text/…`.
_TEXTS = ("application/json", "application/javascript", "application/x-ndjson")


def is_same_kind(file: Mapping[str, Any]) -> bool:
    """Whether libmagic detects the same kind of file as odps_nb."""
    theirs = file["libmagic"]
    if theirs == file["mime"] or theirs in file["aliases"]:
        return True
    return bool(file["encoding"]) and (theirs.startswith("text/") or theirs in _TEXTS)


def is_disputed(corpus: str, file: Mapping[str, Any]) -> bool:
    """Whether the two results differ without a line above that explains it."""
    if is_same_kind(file) or (file["label"], file["libmagic"]) in KINDS:
        return False
    return f"{corpus}/{file['name']}" not in FILES
