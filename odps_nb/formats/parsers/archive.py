"""Archives and compressed files: the names inside, or the first decompressed bytes.

Nothing is extracted to disk. Compressed streams are decompressed into memory up to 1 MiB, enough
for the first names in a tar file or the first lines of text.
"""

from __future__ import annotations

import bz2
import contextlib
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import zstandard

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.parsers.strip import Parts, samples
from odps_nb.formats.shared import Size, is_tar
from odps_nb.parsing.encodings import detect
from odps_nb.parsing.reasons import DAMAGED, ENDS_EARLY
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, format_bytes, shorten

#: Maximum decompressed bytes.
MAX_UNPACKED: Final = 1024 * 1024
_HEAD: Final = 64 * 1024
_NAMES: Final = 200
_UTF_8: Final = 0x800  # flags of a ZIP entry
_ENCRYPTED: Final = 1
_MULTIBYTE: Final = ("utf-8", "gb18030", "gbk", "gb2312", "big5", "cp932", "cp949")
_SAMPLE: Final = 4 * 1024 * 1024  # maximum bytes of a picture or sound to show
_SHOWN: Final = (*(".jpg", ".jpeg", ".png", ".webp"), *(".flac", ".wav", ".mp3", ".ogg", ".opus"))
_CUT: Final = (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, OSError)
_PIECE: Final = 1024  # bytes to decompress at once
# the limits of memory (xz) and of the window size (zstd) are 128 MiB
_UNPACKERS: Final[dict[str, Callable[[], Any]]] = {
    "gzip": partial(zlib.decompressobj, wbits=31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": partial(lzma.LZMADecompressor, memlimit=1 << 27),
    "zstd": zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj,
}
_Found = dict[str, Any]

try:
    import rarfile
except ImportError:  # `parse` reports that rarfile is missing
    rarfile = None
else:
    # disabled: rarfile would run an external program to decompress a comment
    rarfile.rar3_decompress = lambda *_, **__: b""


def parse(data: bytes, options: dict[str, Any]) -> tuple[_Found, bytes]:
    """Return an archive's files as ``names``, or a compressed file's first bytes as data."""
    label, whole = options["label"], options["whole"]
    if label in ("ZIP", "NumPy archive"):
        return _with_samples(_zip(data), partial(_zipped, data), options)
    if label == "tar":
        return _with_samples(_tar(data, whole=whole), partial(_tarred, data), options)
    if label == "RAR":
        return _rar(data, whole=whole), b""
    inner, ended = _unpack(data, label)
    note = ENDS_EARLY * (whole and not ended)
    if is_tar(inner):
        listed = _tar(inner, whole=whole and ended and len(inner) < MAX_UNPACKED)
        return {**listed, "facts": ("tar", *listed["facts"]), "note": note or listed["note"]}, b""
    return {"length": len(inner), "note": note}, inner[:_HEAD]


def _with_samples(listed: _Found, parts: Parts, options: dict[str, Any]) -> tuple[_Found, bytes]:
    sounds, data = samples(parts, Size(**options["size"]))
    return {**listed, **sounds}, data


def _entries(files: list[tuple[str, int]], *facts: str, note: str = "") -> _Found:
    names = [f"{shorten(name, 200)} · {format_bytes(size)}" for name, size in files]
    return {"names": names, "facts": facts, "note": note}


def _listed(infos: list[Any], *, whole: bool = True) -> _Found:
    files = [(info.filename, info.file_size) for info in infos[:_NAMES]]
    return _entries(files, count_of(len(infos), "file") if whole else "first files")


def _zip(data: bytes) -> _Found:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
    # names without the flag for UTF-8 are in the encoding of the system that wrote the archive
    old = [info for info in infos[:_NAMES] if not info.flag_bits & _UTF_8]
    encoding = detect("\n".join(info.filename for info in old).encode("cp437", "replace"))
    if encoding and encoding.name in _MULTIBYTE:
        for info in old:
            info.filename = info.filename.encode("cp437").decode(encoding.name, "replace")
    listed = _listed(infos)
    is_locked = any(info.flag_bits & _ENCRYPTED for info in infos)
    return {**listed, "facts": (*listed["facts"], *["password-protected"] * is_locked)}


def _zipped(data: bytes) -> Iterator[tuple[str, bytes]]:
    # after a damaged or encrypted member, no more samples are read, but all names are listed
    failures = (*_CUT, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
    with contextlib.suppress(*failures), zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                read = info.file_size <= _SAMPLE and info.filename.lower().endswith(_SHOWN)
                yield info.filename, archive.read(info) if read else b""


def _tarred(data: bytes) -> Iterator[tuple[str, bytes]]:
    with contextlib.suppress(*_CUT), tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if member.isreg() and (file := archive.extractfile(member)):
                yield member.name, file.read(_SAMPLE)


def _rar(data: bytes, *, whole: bool) -> _Found:
    if rarfile is None:
        raise MissingDependencyError("listing RAR archives needs rarfile", extra="previews")
    # read only this part of a multi-part archive, because the other parts are separate blobs
    with rarfile.RarFile(io.BytesIO(data), part_only=True) as archive:
        infos, locked, broken = archive.infolist(), archive.needs_password(), archive.strerror()
    if not infos:
        why = "password-protected" if locked else broken and f"{DAMAGED}: a header in it"
        raise UnshowableError(why or "no file begins in this part of the archive")
    return _listed(infos, whole=whole)


def _tar(data: bytes, *, whole: bool) -> _Found:
    files: list[tuple[str, int]] = []
    ended = False
    # errors are expected if only the beginning was decompressed
    with (
        contextlib.suppress(tarfile.TarError, EOFError, ValueError, OSError),
        tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive,
    ):
        files.extend((member.name, member.size) for member in islice(archive, _NAMES))
        ended = data[archive.offset : archive.offset + 1] == b"\0"  # a block of zeros
    if not files:
        damaged = f"{DAMAGED}: it contains no complete file"
        raise UnshowableError(damaged if whole else "no file in the part that was read")
    if whole and ended:
        return _entries(files, count_of(len(files), "file"))
    is_cut = whole and len(files) < _NAMES
    return _entries(files, "first files", note=f"{DAMAGED}: its end was not found" * is_cut)


def _unpack(data: bytes, label: str) -> tuple[bytes, bool]:
    """Decompress up to `MAX_UNPACKED` bytes; also return if more follows or the end is valid.

    A file may contain several streams, as written by pbzip2, bgzip and programs that append.
    """
    file, inner, unpacker = io.BytesIO(data), bytearray(), _UNPACKERS[label]()
    while len(inner) < MAX_UNPACKED:
        if not (piece := file.read(_PIECE)):
            return bytes(inner), False
        # zstandard has no limit, so the size of a piece limits its output (to 32 MiB)
        limit = () if label == "zstd" else (MAX_UNPACKED - len(inner),)
        inner += unpacker.decompress(piece, *limit)
        if unpacker.eof:
            at = file.seek(-len(unpacker.unused_data), io.SEEK_CUR)
            if not data.startswith(data[:3], at):
                return bytes(inner), True
            unpacker = _UNPACKERS[label]()
    return bytes(inner[:MAX_UNPACKED]), True
