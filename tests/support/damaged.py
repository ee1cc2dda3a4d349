"""Heads of real files with a few damaged bytes, to test that one blob does not affect others."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from odps_nb.access.blob import MAX_BYTES, MAX_PIXELS
from odps_nb.convert import blob_content, blob_conversion
from odps_nb.convert.pictures import PICTURES
from odps_nb.errors import (
    ConversionError,
    LimitExceededError,
    MissingDependencyError,
    OdpsNbWarning,
)
from odps_nb.formats.kind import HEAD
from odps_nb.formats.registry import media_type
from odps_nb.formats.shared import GRID
from odps_nb.notebook.preview.peek import recognise_head
from odps_nb.notebook.preview.tile import UNREAD, tile
from tests.support.previews import Value

#: The documented errors of the methods that read and convert a blob.
TYPED = (ConversionError, LimitExceededError, MissingDependencyError)
#: Pieces that change how the bytes around them are read: encodings, quotes, lengths, markers.
_PIECES = (
    b"\x81", b"caf\xe9", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b$B", b"\x00", b"\x01", b'"', b"\n\n",
    b"\xff\xff\xff\xff", b"[" * 40, b"<!--", b"# -*- coding: utf-7 -*-\n", b"+ADw-", "世".encode(),
)  # fmt: skip


def damaged_heads(files: Sequence[Path | bytes], seed: int, count: int) -> Iterator[bytes]:
    """Yield ``count`` damaged heads of the files; they depend only on the seed."""
    rng = random.Random(seed)
    for _ in range(count):
        given = rng.choice(files)
        data = bytearray((given if isinstance(given, bytes) else given.read_bytes())[: HEAD + 1000])
        for _ in range(rng.choice((1, 1, 2, 6))):
            at = rng.choice((rng.randrange(len(data) + 1), rng.randrange(min(64, len(data)) + 1)))
            way = rng.randrange(4)
            if way == 0 and at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            elif way == 1:
                data[at : at + rng.randrange(3)] = rng.choice(_PIECES)
            elif way == 2:
                data += rng.choice(_PIECES)
            else:
                del data[max(at, 20) :]
        yield bytes(data)


def escaped(data: bytes) -> list[str]:
    """Return the exceptions that a tile, a search, a type detection or a conversion raises."""
    ways = {
        "recognise_head": lambda: recognise_head(Value(data)),
        "upload": lambda: media_type(data[:HEAD], len(data), "file"),
        "to_text": lambda: blob_content.as_text(data, None),
        "to_table": lambda: blob_conversion.table(data, mime, max_bytes=MAX_BYTES),
        "to_numpy": lambda: blob_content.as_array(data, mime),
        "to_pil": lambda: blob_conversion.picture(data, mime, max_pixels=MAX_PIXELS),
    }
    found = []
    try:
        made = tile(Value(data), size=GRID)
        mime = made.format.mime
        if made.format is UNREAD:  # the guard of tiles, which must be the last resort
            found.append(f"tile: {made.notes}")
    except Exception as error:  # noqa: BLE001  # the test looks for exceptions
        return [f"tile: {error!r}"]
    if mime not in PICTURES:
        del ways["to_pil"]
    for name, way in ways.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OdpsNbWarning)  # warns of invalid bytes
                way()
        except TYPED:
            continue
        except Exception as error:  # noqa: BLE001  # as above
            found.append(f"{name}: {error!r}")
    return found
