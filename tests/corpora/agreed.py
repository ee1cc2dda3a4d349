"""Intended differences from other programs, each with its reason. An unused entry fails a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odps_nb.formats.registry import kinds

_UNKNOWN = "libmagic does not know the format"
_IN_TEXT = "the format is plain text, and is shown as text"
_NO_MARK = "libmagic decides by a few numbers that many other files contain"

#: Reasons by our label and libmagic's media type.
KINDS: dict[tuple[str, str], str] = {
    ("Arrow file", "application/octet-stream"): _UNKNOWN,
    ("Avro", "application/octet-stream"): _UNKNOWN,
    ("DDS", "application/octet-stream"): _UNKNOWN,
    ("NumPy", "application/octet-stream"): _UNKNOWN,
    ("PPM", "application/octet-stream"): _UNKNOWN,  # PFM
    ("Parquet", "application/octet-stream"): _UNKNOWN,
    ("camera RAW", "application/octet-stream"): _UNKNOWN,
    ("pickle", "application/octet-stream"): _UNKNOWN,
    ("JPEG 2000", "application/octet-stream"): "libmagic requires the box with the brand",
    ("MPEG-TS", "application/octet-stream"): "libmagic requires tables in the first packets",
    ("PNG", "application/octet-stream"): "libmagic requires a complete header",
    ("DICOM", "image/tiff"): "its preamble is a TIFF header, but DICM follows at byte 128",
    ("ICO", "image/x-tga"): _NO_MARK,
    ("text", "image/x-portable-bitmap"): _IN_TEXT,
    ("text", "image/x-portable-graymap"): _IN_TEXT,
    ("text", "image/x-portable-pixmap"): _IN_TEXT,
    ("binary", "image/x-ms-bmp"): "a bitmap without a file header",
    ("binary", "image/x-olympus-orf"): "only the first four bytes of the format",
}

#: Reasons for single files (corpus/path), because a rule would be wrong for other files.
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
    "exiv2/2018-01-09-exiv2-crash-001.tiff": "a BigTIFF whose header is damaged",
    "exiv2/issue_712_poc.tif": "a BigTIFF whose header is damaged",
    "exiv2/issue_1570_poc.bmff": "its brand is damaged",
    "shared-mime-info/dia.shape": "a drawing inside another XML format",
    "shared-mime-info/test.aax": "libmagic does not know this brand",
    "shared-mime-info/xml-in-mp3.mp3": "an ID3 tag that contains XML, followed by two frames",
    "mutagen/tests/data/64bit.mp4": "an index without a video, so there is nothing to show",
    "mutagen/tests/data/id3v24_extended_header.id3": "an ID3 tag without sound",
    "mutagen/tests/data/issue_21.id3": "an ID3 tag without sound",
    "mutagen/tests/data/no-tags.3g2": "libmagic does not know this brand",
    "pillow/Tests/images/hopper.tar": "the tar format of 1979, which has no signature",
    "pillow/Tests/images/l2rgb_read.bmp": "only the signature is valid: all numbers are 0x30303030",
}

#: Reasons for single files whose conversion differs from that of another library.
CONVERSIONS: dict[str, str] = {
    "exiv2/Sony.HIF": "more pixels than the default of max_pixels",
    "pillow/Tests/images/8bit.s.tif": "Pillow decodes its signed bytes as unsigned",
    "pillow/Tests/images/separate_planar_extra_samples.tiff": "its bytes are signed, as above",
    "gensim/gensim/test/test_data/simlex999.txt": "its header is a comment",
    "gensim/gensim/test/test_data/wordsim353.tsv": "its header is a comment",
}

#: Labels of files whose specific format has no preview, so they are shown as the general format.
_GENERAL = ("binary", "text", "XML", "ZIP", "RIFF", "ISO media")
_KNOWN = frozenset(
    mime for kind in kinds() for one in kind.formats for mime in (one.mime, *one.aliases)
)
#: Types that libmagic calls text, in addition to `text/…`.
_TEXTS = ("application/json", "application/javascript", "application/x-ndjson")


def is_same_kind(file: Mapping[str, Any]) -> bool:
    """Whether libmagic detects the same kind of file as odps_nb."""
    theirs = file["libmagic"].split(",")[0]  # libmagic appends wrong details
    if theirs not in _KNOWN and file["label"] in _GENERAL:
        return True  # docs/previews.md does not claim that the format is detected
    if theirs == file["mime"] or theirs in file["aliases"]:
        return True
    return bool(file["encoding"]) and (theirs.startswith("text/") or theirs in _TEXTS)


def is_disputed(corpus: str, file: Mapping[str, Any]) -> bool:
    """Whether the two results differ without a line above that explains it."""
    if is_same_kind(file) or (file["label"], file["libmagic"]) in KINDS:
        return False
    return f"{corpus}/{file['name']}" not in FILES
