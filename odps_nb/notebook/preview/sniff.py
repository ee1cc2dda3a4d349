"""What a blob is, told from its bytes by our own table of signatures.

What the server declares is only a label: nothing here looks at it. Only kinds of this table are
ever shown as more than text or hex, so a new kind of preview starts with a line here. Pure: takes
bytes, gives a `Kind`; decodes no media.
"""

from __future__ import annotations

import struct
from typing import Final

from odps_nb.notebook.preview.media_types import BINARY, EMPTY, Family, Kind
from odps_nb.notebook.preview.sniff_text import sniff_text

__all__ = ["HEAD", "Family", "Kind", "sniff"]

#: Bytes that `sniff` wants to see, if there are so many.
HEAD: Final = 64 * 1024


def _kind(family: Family, mime: str, label: str, *aliases: str) -> Kind:
    return Kind(family=family, mime=mime, label=label, aliases=aliases)


_F = Family
_PNG = _kind(_F.IMAGE, "image/png", "PNG", "image/x-png")
_JPEG = _kind(_F.IMAGE, "image/jpeg", "JPEG", "image/jpg", "image/pjpeg")
_GIF = _kind(_F.IMAGE, "image/gif", "GIF")
_WEBP = _kind(_F.IMAGE, "image/webp", "WebP")
_BMP = _kind(_F.IMAGE, "image/bmp", "BMP", "image/x-ms-bmp", "image/x-bmp")
_TIFF = _kind(_F.IMAGE, "image/tiff", "TIFF", "image/tif")
_AVIF = _kind(_F.IMAGE, "image/avif", "AVIF")
_WAV = _kind(_F.AUDIO, "audio/wav", "WAV", "audio/x-wav", "audio/wave", "audio/vnd.wave")
_MP3 = _kind(_F.AUDIO, "audio/mpeg", "MP3", "audio/mp3", "audio/x-mpeg")
_FLAC = _kind(_F.AUDIO, "audio/flac", "FLAC", "audio/x-flac")
_OGG = _kind(_F.AUDIO, "audio/ogg", "Ogg", "application/ogg", "audio/opus", "audio/vorbis")
_M4A = _kind(_F.AUDIO, "audio/mp4", "M4A", "audio/x-m4a", "audio/m4a", "video/mp4")
_MP4 = _kind(_F.VIDEO, "video/mp4", "MP4", "video/x-m4v", "audio/mp4", "application/mp4")
_WEBM = _kind(_F.VIDEO, "video/webm", "WebM", "audio/webm", "video/x-matroska")
_OGV = _kind(_F.VIDEO, "video/ogg", "Ogg video", "application/ogg")
_PDF = _kind(_F.PDF, "application/pdf", "PDF", "application/x-pdf")
_PARQUET = _kind(
    _F.COLUMNS,
    "application/vnd.apache.parquet",
    "Parquet",
    "application/x-parquet",
    "application/parquet",
)
_ARROW = _kind(
    _F.COLUMNS, "application/vnd.apache.arrow.file", "Arrow file", "application/x-feather"
)
_ARROWS = _kind(_F.COLUMNS, "application/vnd.apache.arrow.stream", "Arrow stream")
_NPY = _kind(_F.ARRAY, "application/x-npy", "NumPy", "application/x-numpy")
_NPZ = _kind(_F.ARCHIVE, "application/x-npz", "NumPy archive", "application/zip")
_ZIP = _kind(
    _F.ARCHIVE, "application/zip", "ZIP", "application/x-zip-compressed", "application/x-zip"
)
_GZIP = _kind(
    _F.ARCHIVE,
    "application/gzip",
    "gzip",
    "application/x-gzip",
    "application/x-tar",
    "application/x-tgz",
)
_BZIP2 = _kind(_F.ARCHIVE, "application/x-bzip2", "bzip2", "application/bzip2")
_XZ = _kind(_F.ARCHIVE, "application/x-xz", "xz")
_ZSTD = _kind(_F.ARCHIVE, "application/zstd", "zstd", "application/x-zstd")
_TAR = _kind(_F.ARCHIVE, "application/x-tar", "tar", "application/tar")


def _known(mime: str, label: str, *aliases: str) -> Kind:
    """A kind that we can name but not draw: it gets hex."""
    return _kind(_F.BINARY, mime, label, *aliases)


# (offset, bytes, kind), tried in this order
_SIGNATURES: Final = (
    (0, b"\x89PNG\r\n\x1a\n", _PNG),
    (0, b"\xff\xd8\xff", _JPEG),
    (0, b"GIF87a", _GIF),
    (0, b"GIF89a", _GIF),
    (0, b"II*\x00", _TIFF),
    (0, b"MM\x00*", _TIFF),
    (0, b"fLaC", _FLAC),
    (0, b"ID3", _MP3),
    (0, b"%PDF-", _PDF),
    (0, b"PAR1", _PARQUET),
    (0, b"ARROW1\x00\x00", _ARROW),
    (0, b"\x93NUMPY", _NPY),
    (0, b"PK\x05\x06", _ZIP),
    (0, b"\x1f\x8b\x08", _GZIP),
    (0, b"BZh", _BZIP2),
    (0, b"\xfd7zXZ\x00", _XZ),
    (0, b"\x28\xb5\x2f\xfd", _ZSTD),
    (257, b"ustar", _TAR),
    # an icon may hold a PNG of any size behind a header that says 16 × 16, so it is not decoded
    (0, b"\x00\x00\x01\x00", _known("image/x-icon", "ICO", "image/vnd.microsoft.icon")),
    (0, b"7z\xbc\xaf\x27\x1c", _known("application/x-7z-compressed", "7z")),
    (0, b"Rar!\x1a\x07", _known("application/vnd.rar", "RAR", "application/x-rar-compressed")),
    (0, b"Obj\x01", _known("application/avro", "Avro", "avro/binary")),
    (0, b"ORC", _known("application/vnd.apache.orc", "ORC", "application/x-orc")),
    (0, b"SQLite format 3\x00", _known("application/vnd.sqlite3", "SQLite")),
    (0, b"\x89HDF\r\n\x1a\n", _known("application/x-hdf5", "HDF5", "application/x-hdf")),
    (0, b"\x7fELF", _known("application/x-executable", "ELF program", "application/x-elf")),
    (0, b"MZ", _known("application/vnd.microsoft.portable-executable", "Windows program")),
    (0, b"\x04\x22\x4d\x18", _known("application/x-lz4", "LZ4")),
    (0, b"wOFF", _known("font/woff", "web font")),
    (0, b"wOF2", _known("font/woff2", "web font")),
    (0, b"\x00\x01\x00\x00\x00", _known("font/ttf", "TrueType font")),
)

# the brand of an ISO base media file says what is inside
_BRANDS: Final = {
    b"avif": _AVIF,
    b"avis": _AVIF,
    b"M4A ": _M4A,
    b"M4B ": _M4A,
    **dict.fromkeys(
        (b"isom", b"iso2", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42", b"avc1", b"M4V ", b"dash"),
        _MP4,
    ),
    **dict.fromkeys((b"heic", b"heix", b"mif1"), _known("image/heic", "HEIC", "image/heif")),
    b"qt  ": _known("video/quicktime", "QuickTime"),
}


def sniff(head: bytes, size: int | None = None) -> Kind:
    """Say what a blob is from its first bytes.

    Parameters
    ----------
    head
        The first `HEAD` bytes, or all of them.
    size
        Length of the whole blob in bytes, if known; a head of that length is the whole blob.
    """
    if not head:
        return EMPTY
    # text first: "ORC", "MZ" and "GIF89a" also begin sentences, while every binary kind has bytes
    # that no text has; only a PDF may be readable as a whole
    text = sniff_text(head, whole=size is not None and size <= len(head))
    if text is not None:
        return _PDF if head.startswith(b"%PDF-") else text
    for look in (_signature, _riff, _iso_media, _zip, _ebml, _ogg, _bitmap, _mp3, _arrow):
        kind = look(head)
        if kind is not None:
            return kind
    return BINARY


def _signature(head: bytes) -> Kind | None:
    return next((kind for at, mark, kind in _SIGNATURES if head.startswith(mark, at)), None)


def _riff(head: bytes) -> Kind | None:
    if not head.startswith(b"RIFF"):
        return None
    return {b"WEBP": _WEBP, b"WAVE": _WAV}.get(head[8:12], _known("application/x-riff", "RIFF"))


def _iso_media(head: bytes) -> Kind | None:
    if head[4:8] != b"ftyp":
        return None
    # the major brand, then the compatible ones after a version number
    end = min(int.from_bytes(head[:4], "big"), len(head), 128)
    brands = [head[8:12], *(head[at : at + 4] for at in range(16, end - 3, 4))]
    found = (_BRANDS[brand] for brand in brands if brand in _BRANDS)
    return next(found, _known("application/mp4", "ISO media"))


def _zip(head: bytes) -> Kind | None:
    if not head.startswith(b"PK\x03\x04"):
        return None
    length = int.from_bytes(head[26:28], "little")
    return _NPZ if head[30 : 30 + length].endswith(b".npy") else _ZIP


def _ebml(head: bytes) -> Kind | None:
    if not head.startswith(b"\x1a\x45\xdf\xa3"):
        return None
    # the DocType element (id 42 82) stands in the first bytes
    return _WEBM if b"\x42\x82\x84webm" in head[:64] else _known("video/x-matroska", "Matroska")


def _ogg(head: bytes) -> Kind | None:
    if not head.startswith(b"OggS"):
        return None
    return _OGV if b"\x80theora" in head[:512] else _OGG


def _bitmap(head: bytes) -> Kind | None:
    """A mark of two letters proves little alone: look at the fields behind it."""
    if head.startswith(b"BM") and len(head) >= 18 and head[6:10] == bytes(4):
        return _BMP if int.from_bytes(head[14:18], "little") in (12, 40, 52, 56, 108, 124) else None
    return None


# kbit/s of MPEG-1 and MPEG-2 layer III; index 0 is "free", 15 is not allowed
_RATES_1: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_RATES_2: Final = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_HERTZ: Final = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def _mp3_frame(head: bytes, at: int) -> int | None:
    """Length of the MPEG layer III frame at ``at``, or ``None`` when there is none."""
    if len(head) < at + 4 or head[at] != 0xFF or head[at + 1] & 0xE6 != 0xE2:
        return None
    version, rate, hertz = head[at + 1] >> 3 & 3, head[at + 2] >> 4, head[at + 2] >> 2 & 3
    if version == 1 or rate in (0, 15) or hertz == 3:
        return None
    kilobits = (_RATES_1 if version == 3 else _RATES_2)[rate]
    samples = 144 if version == 3 else 72
    return samples * kilobits * 1000 // _HERTZ[version][hertz] + (head[at + 2] >> 1 & 1)


def _mp3(head: bytes) -> Kind | None:
    """Without an ID3 tag two frames in a row must fit: one alone is 11 bits of luck."""
    length = _mp3_frame(head, 0)
    return _MP3 if length and _mp3_frame(head, length) else None


def _arrow(head: bytes) -> Kind | None:
    """An IPC stream: continuation mark, length of the schema message, a flatbuffer offset."""
    if len(head) < 12 or not head.startswith(b"\xff\xff\xff\xff"):
        return None
    length, root = struct.unpack_from("<iI", head, 4)
    return _ARROWS if 0 < length < 1 << 24 and length % 8 == 0 and root < length else None
