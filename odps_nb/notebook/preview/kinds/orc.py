"""ORC: names, types and first rows."""

from __future__ import annotations

from odps_nb.notebook.preview.kind import BINARIES, MIB, Format, Kind
from odps_nb.notebook.preview.kinds import parquet

_ORC = Format(
    mime="application/vnd.apache.orc",
    label="ORC",
    aliases=("application/x-orc", "audio/csound"),
    starts=(b"ORC",),
)

KIND = Kind(name="orc", formats=(_ORC,), draw=parquet.draw, precedence=BINARIES + 5, limit=8 * MIB)
