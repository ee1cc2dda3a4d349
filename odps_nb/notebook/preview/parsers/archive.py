"""Archives and packed files: the names inside, or the first bytes of what is packed.

Runs in the parser process. Nothing is extracted. Packed streams are unpacked into
memory up to 1 MiB, enough for the first names of a tar or the first lines of a text.
"""

from __future__ import annotations

import bz2
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from typing import Any, Final

import zstandard

from odps_nb.errors import MissingDependencyError
from odps_nb.parsing.reasons import DAMAGED, reason_of, refusal_of
from odps_nb.parsing.values import UnshowableError

#: Bytes that are unpacked at most.
MAX_UNPACKED: Final = 1024 * 1024
_HEAD: Final = 64 * 1024
_NAMES: Final = 200
_LONGEST: Final = 400
_Found = dict[str, Any]

try:
    import rarfile
except ImportError:  # said when such a file is asked for
    rarfile = None
else:
    # a packed comment would be unpacked by a program, out of a temporary file
    rarfile.rar3_decompress = lambda *_, **__: b""


def parse(data: bytes, options: dict[str, Any]) -> tuple[_Found, bytes]:
    """Return names and sizes of the files inside; of a packed file its first bytes, as data.

    Parameters
    ----------
    options
        ``label`` of the kind, and ``whole``: ``yes`` when nothing is cut.
    """
    label, whole = options["label"], options["whole"] == "yes"
    if label in ("ZIP", "NumPy archive"):
        return _zip(data), b""
    if label == "tar":
        return _tar(data, whole=whole), b""
    if label == "RAR":
        return _rar(data, whole=whole), b""
    inner = _unpack(data, label)
    if inner.startswith(b"ustar", 257):
        return _tar(inner, whole=whole and len(inner) < MAX_UNPACKED), b""
    return {"length": len(inner)}, inner[:_HEAD]


def _entries(found: list[tuple[str, int]]) -> _Found:
    names, sizes = [name[:_LONGEST] for name, _ in found], [str(size) for _, size in found]
    return {"names": names, "sizes": sizes}


def _zip(data: bytes) -> _Found:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
    except zipfile.BadZipFile as error:
        raise UnshowableError(f"{DAMAGED}: {reason_of(error)}") from None
    except (ValueError, OSError, NotImplementedError) as error:
        raise UnshowableError(refusal_of(error)) from None
    found = [(info.filename, info.file_size) for info in infos[:_NAMES]]
    return {**_entries(found), "count": len(infos)}


def _rar(data: bytes, *, whole: bool) -> _Found:
    if rarfile is None:
        raise MissingDependencyError("names inside RAR archives need rarfile", extra="previews")
    try:
        # a part of several is read alone: the others are other blobs
        with rarfile.RarFile(io.BytesIO(data), part_only=True) as archive:
            infos, locked, broken = archive.infolist(), archive.needs_password(), archive.strerror()
    except (rarfile.Error, ValueError, OSError, struct.error, IndexError) as error:
        raise UnshowableError(refusal_of(error)) from None
    if not infos:
        why = "locked with a password" if locked else broken and f"{DAMAGED}: a header in it"
        raise UnshowableError(why or "no file begins in it: it is a part of an archive")
    found = [(info.filename, info.file_size) for info in infos[:_NAMES]]
    return {**_entries(found), "count": len(infos)} if whole else _entries(found)


def _tar(data: bytes, *, whole: bool) -> _Found:
    found: list[tuple[str, int]] = []
    more = not whole
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                found.append((member.name, member.size))
                if len(found) >= _NAMES:
                    more = True
                    break
    except (tarfile.TarError, EOFError, ValueError, OSError):
        more = True  # only the first part was unpacked, and it ends where it ends
    if not found:
        part = (
            f"{DAMAGED}: no file in it is whole" if whole else "no file in the part that was read"
        )
        raise UnshowableError(part)
    return {**_entries(found), "tar": "first files" if more else "all"}


def _unpack(data: bytes, label: str) -> bytes:
    """Return up to `MAX_UNPACKED` bytes of the stream; what was cut ends where it was cut."""
    try:
        if label == "gzip":
            return zlib.decompressobj(wbits=31).decompress(data, MAX_UNPACKED)
        if label == "bzip2":
            return bz2.BZ2Decompressor().decompress(data, MAX_UNPACKED)
        if label == "xz":
            return lzma.LZMADecompressor(memlimit=1 << 27).decompress(data, MAX_UNPACKED)
        return _unpack_zstd(data)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        raise UnshowableError(f"not unpacked here: {reason_of(error)}") from None


def _unpack_zstd(data: bytes) -> bytes:
    # the window bounds the memory; the count bounds the output
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        with unpacker.stream_reader(io.BytesIO(data), read_across_frames=False) as reader:
            return reader.read(MAX_UNPACKED)
    except zstandard.ZstdError as error:
        raise UnshowableError(f"not unpacked here: {reason_of(error)}") from None
