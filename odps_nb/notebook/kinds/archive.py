"""Archives: a list of the names inside (floor 5).

Nothing is extracted. Packed streams are unpacked into memory up to 1 MiB, enough for the first
names of a tar or the first lines of a text.
"""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zipfile
import zlib
from typing import Final

from odps_nb.notebook.html import SMALL, Html, element, scroller
from odps_nb.notebook.kinds.drawing import Drawing, Excerpt, Size, UnshowableError, clip, count_of
from odps_nb.notebook.kinds.text import source_box, text_of
from odps_nb.notebook.media_types import Kind
from odps_nb.notebook.sniff import HEAD, sniff
from odps_nb.terms import format_bytes

__all__ = ["MAX_UNPACKED", "draw"]

#: Bytes that are unpacked at most.
MAX_UNPACKED: Final = 1024 * 1024
_NAMES: Final = 200
_Entry = tuple[str, int]


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw the names and sizes of the files inside.

    Raises
    ------
    UnshowableError
        When the archive is cut or corrupt.
    """
    if kind.label in ("ZIP", "NumPy archive"):
        entries, count = _zip_entries(excerpt)
        return Drawing(html=_list(entries, size, label=name), facts=(count_of(count, "file"),))
    if kind.label == "tar":
        return _tar(excerpt.data, size, whole=excerpt.whole, name=name)
    inner = _unpack(excerpt.data, kind.label)
    inside = sniff(inner[:HEAD], len(inner))
    if inside.label == "tar":
        whole = excerpt.whole and len(inner) < MAX_UNPACKED
        return _tar(inner, size, whole=whole, name=name)
    if inside.encoding:
        text = text_of(Excerpt(data=inner[:HEAD], whole=False), inside)
        box, _ = source_box(text, size, label=f"text inside {name}")
        return Drawing(html=box, facts=(f"one {inside.label} file",))
    return Drawing(html=_list([(f"one {inside.label} file", -1)], size, label=name))


def _list(entries: list[_Entry], size: Size, *, label: str) -> Html:
    rows = [
        element("li", clip(name, 200), *([f" · {format_bytes(length)}"] if length >= 0 else []))
        for name, length in entries[:_NAMES]
    ]
    listed = element("ul", *rows, style=f"margin:0;padding:8px 10px 8px 26px;{SMALL}")
    height = "height" if size.lines < 40 else "max-height"
    return scroller("div", listed, label=f"names inside {label}", style=f"{height}:{size.height}px")


def _zip_entries(excerpt: Excerpt) -> tuple[list[_Entry], int]:
    if not excerpt.whole:
        raise UnshowableError("too large to look inside")
    try:
        with zipfile.ZipFile(io.BytesIO(excerpt.data)) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise UnshowableError(f"not a whole ZIP: {error}") from None
    return [(info.filename, info.file_size) for info in infos[:_NAMES]], len(infos)


def _tar(data: bytes, size: Size, *, whole: bool, name: str) -> Drawing:
    entries: list[_Entry] = []
    more = not whole
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                entries.append((member.name, member.size))
                if len(entries) >= _NAMES:
                    more = True
                    break
    except (tarfile.TarError, EOFError, ValueError, OSError):
        more = True  # only the first part was unpacked, and it ends where it ends
    if not entries:
        raise UnshowableError("not a whole tar")
    fact = "first files" if more else count_of(len(entries), "file")
    return Drawing(html=_list(entries, size, label=name), facts=("tar", fact))


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
        raise UnshowableError(f"not {label}: {error}") from None


def _unpack_zstd(data: bytes) -> bytes:
    import zstandard

    # the window bounds the memory; the count bounds the output
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        with unpacker.stream_reader(io.BytesIO(data), read_across_frames=False) as reader:
            return reader.read(MAX_UNPACKED)
    except zstandard.ZstdError as error:
        raise UnshowableError(f"not zstd: {error}") from None
