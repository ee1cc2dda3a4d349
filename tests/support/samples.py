"""The files of the sample table `media`, and pictures created for tests."""

import io
import struct
import zlib
from dataclasses import dataclass, field
from functools import cache

from odps_nb.local.samples import files


@dataclass(frozen=True)
class SampleBlob:
    """The content of one BLOB cell, with its media type and file name."""

    data: bytes = field(repr=False)
    mime_type: str = ""
    file_name: str = ""


@cache
def media() -> tuple[SampleBlob | None, ...]:
    """The cells of the BLOB column, in table order."""
    stored = {}

    def store(*blob):
        key = b"%d" % len(stored)
        stored[key] = SampleBlob(*blob)
        return key

    ((_, batch),) = files.media(store)
    return tuple(stored.get(key) for key in batch.column("content").to_pylist())


def sample_file(name):
    """The bytes of one file."""
    return next(blob.data for blob in media() if blob is not None and blob.file_name == name)


def encode(image, form, **options):
    """Return ``image`` as a file in the Pillow format ``form``."""
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def bomb(side=12_000):
    """A PNG of black pixels: 144 million pixels take about 17 KB."""
    rows = zlib.compress(bytes(side * (1 + (side + 7) // 8)), 9)
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
