"""Parquet: column names, types and first rows."""

from __future__ import annotations

from odps_nb.formats.kind import MIB, Format, Kind
from odps_nb.formats.parsing import draw_parsed

_PARQUET = Format(
    "application/vnd.apache.parquet",
    "Parquet",
    aliases=("application/x-parquet", "application/parquet"),
    starts=(b"PAR1", b"PARE"),  # PARE: with an encrypted footer
)


KIND = Kind(name="parquet", formats=(_PARQUET,), draw=draw_parsed, whole=True, limit=8 * MIB)
