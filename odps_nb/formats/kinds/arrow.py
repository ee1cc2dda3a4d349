"""Arrow IPC files and streams: column names, types and first rows."""

from __future__ import annotations

import struct

from odps_nb.formats.kind import MIB, Format, Head, Kind
from odps_nb.formats.parsing import draw_parsed

_FILE = Format(
    "application/vnd.apache.arrow.file",
    "Arrow file",
    aliases=("application/x-feather",),
    starts=(b"ARROW1\x00\x00",),
)
_STREAM = Format("application/vnd.apache.arrow.stream", "Arrow stream")


def _recognise(head: Head) -> Format | None:
    """Recognise a stream by its continuation marker, schema length and flatbuffer offset."""
    if len(head.data) < 12 or not head.data.startswith(b"\xff\xff\xff\xff"):
        return None
    length, root = struct.unpack_from("<iI", head.data, 4)
    return _STREAM if 0 < length < 1 << 24 and length % 8 == 0 and root < length else None


KIND = Kind(
    name="arrow",
    formats=(_FILE, _STREAM),
    draw=draw_parsed,
    whole=True,
    recognise=_recognise,
    limit=8 * MIB,
)
