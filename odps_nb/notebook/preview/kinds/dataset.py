"""Datasets of science (HDF5, netCDF): names, shapes, types and attributes of what is inside."""

from __future__ import annotations

from typing import Final

from odps_nb.notebook.display.html import Html
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, headed, table_of
from odps_nb.notebook.preview.kind import MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size

_HDF: Final = b"\x89HDF\r\n\x1a\n"
_OWN: Final = (512, 1024, 2048)  # bytes of a head of another program (MATLAB) before the file
_HDF5 = Format(
    mime="application/x-hdf5",
    label="HDF5",
    aliases=(
        "application/x-hdf",
        "application/hdf5",
        "application/x-matlab-data",
        "application/netcdf",
        "application/x-netcdf",
    ),
    starts=(_HDF,),
)
_NETCDF3 = Format(
    mime="application/x-netcdf",
    label="netCDF-3",
    aliases=("application/netcdf",),
    starts=(b"CDF\x01", b"CDF\x02", b"CDF\x05"),
)


def _recognise(head: Head) -> Format | None:
    return _HDF5 if any(head.data.startswith(_HDF, place) for place in _OWN) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    parser = "netcdf" if format.label == _NETCDF3.label else "dataset"
    length = max(excerpt.size or 0, len(excerpt.data))
    parsed = parse(parser, excerpt.data, size, length=str(length))
    names = ("name", "shape", "type", "attributes")

    def draw(below: Size) -> Html:
        return table_of(names, parsed.rows("rows"), below, label=f"datasets of {name}")

    about = parsed.texts("heading")
    heading = [about[0], " · ".join(("", *about[1:]))] if about else []
    return Drawing(html=headed(heading, draw, size), facts=tuple(parsed.texts("facts")))


KIND = Kind(
    name="dataset",
    formats=(_HDF5, _NETCDF3),
    draw=_draw,
    recognise=_recognise,
    limit=8 * MIB,
    head=MIB,
)
