"""ORC: column names, types and first rows."""

from __future__ import annotations

from odps_nb.formats.kind import BINARIES, MIB, Format, Kind
from odps_nb.formats.parsing import draw_parsed

_ORC = Format(
    "application/vnd.apache.orc",
    "ORC",
    aliases=("application/x-orc", "audio/csound"),
    starts=(b"ORC",),
)

KIND = Kind(
    name="orc",
    formats=(_ORC,),
    draw=draw_parsed,
    whole=True,
    precedence=BINARIES + 5,
    limit=8 * MIB,
)
