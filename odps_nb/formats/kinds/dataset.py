"""Scientific datasets (HDF5, netCDF-4): names, shapes, types and attributes of the contents."""

from __future__ import annotations

from typing import Final

from odps_nb.formats.kind import MIB, Format, Head, Kind
from odps_nb.formats.parsing import draw_parsed

_HDF: Final = b"\x89HDF\r\n\x1a\n"
# offsets of the signature in files that begin with another program's header, such as MATLAB's
_OWN: Final = (512, 1024, 2048)
_HDF5 = Format(
    "application/x-hdf5",
    "HDF5",
    aliases=(
        "application/x-hdf",
        "application/hdf5",
        "application/x-matlab-data",
        "application/netcdf",
        "application/x-netcdf",
    ),
    starts=(_HDF,),
)


def _recognise(head: Head) -> Format | None:
    return _HDF5 if any(head.data.startswith(_HDF, offset) for offset in _OWN) else None


KIND = Kind(
    name="dataset",
    formats=(_HDF5,),
    draw=draw_parsed,
    recognise=_recognise,
    limit=8 * MIB,
    head=MIB,
)
