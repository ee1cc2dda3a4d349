"""Avro: field names, types and first rows."""

from __future__ import annotations

from odps_nb.formats.kind import MIB, Format, Kind
from odps_nb.formats.parsing import draw_parsed

_AVRO = Format(
    "application/vnd.apache.avro",
    "Avro",
    aliases=("application/avro", "avro/binary", "application/x-avro"),
    starts=(b"Obj\x01",),
)


KIND = Kind(name="avro", formats=(_AVRO,), draw=draw_parsed, limit=MIB)
