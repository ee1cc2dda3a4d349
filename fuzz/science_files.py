"""Generates small scientific datasets, and a RAR archive, which no installed library can write."""

from __future__ import annotations

import io
import struct
import zlib

import h5py
import numpy as np

__all__ = ["files", "hdf5", "netcdf3", "rar"]


def files() -> dict[str, bytes]:
    """Return the files by name."""
    return {"grid.h5": hdf5(), "grid.nc": netcdf3(), "names.rar": rar()}


def hdf5(*, netcdf: bool = False) -> bytes:
    """Return datasets in groups, with links to other files and a group that contains itself."""
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        if netcdf:
            file.attrs["_NCProperties"] = "version=2,netcdf=4.9.2"
        file.attrs["title"] = "Heat <b>"
        heat = file.create_dataset("heat", data=np.zeros((3, 4), "f4"), compression="gzip")
        heat.attrs["units"] = "K"
        heat.attrs["large"] = np.zeros(2000)
        group = file.create_group("station")
        group["names"] = ["north", "south"]
        group["step"] = np.int32(7)
        group["points"] = np.zeros(2, [("x", "f4"), ("label", "S3")])
        group["again"] = group
        file["soft"] = h5py.SoftLink("/heat")
        file["other"] = h5py.ExternalLink("/etc/hostname", "/x")
    return out.getvalue()


def netcdf3(version: int = 1, *, records: int = 5) -> bytes:
    """Return two variables with two dimensions, the first of which is the record dimension."""
    wide, place = (">Q" if version == 5 else ">I"), (">I" if version == 1 else ">Q")

    def number(value: int) -> bytes:
        return struct.pack(wide, value)

    def text(value: str) -> bytes:
        raw = value.encode()
        return number(len(raw)) + raw + bytes(-len(raw) % 4)

    def entries(tag: int, *parts: bytes) -> bytes:
        return struct.pack(">I", tag if parts else 0) + number(len(parts)) + b"".join(parts)

    def attribute(name: str, value: str) -> bytes:
        return text(name) + struct.pack(">I", 2) + text(value)

    def variable(name: str, kind: int, dimensions: tuple[int, ...], *about: bytes) -> bytes:
        shape = number(len(dimensions)) + b"".join(number(one) for one in dimensions)
        last = struct.pack(">I", kind) + number(40) + struct.pack(place, 400)
        return text(name) + shape + entries(12, *about) + last

    limits = text("valid_range") + struct.pack(">I", 3) + number(2) + struct.pack(">hh", -5, 7)
    return (
        b"CDF"
        + bytes([version])
        + number(records)
        + entries(10, text("time") + number(0), text("place") + number(4))
        + entries(12, attribute("title", "Tide <b>"))
        + entries(
            11,
            variable("tide", 3, (0, 1), attribute("units", "m"), limits),
            variable("name", 2, (1,)),
        )
        + bytes(200)
    )


def rar(names: tuple[str, ...] = ("tea.txt", "dir/<b>.txt"), *, locked: bool = False) -> bytes:
    """Return a RAR 5 archive of stored files; ``locked`` marks the rest of it as encrypted."""
    packed = b"Rar!\x1a\x07\x01\x00"
    packed += _block(b"\x04\x00\x00\x01\x0f" + bytes(28)) if locked else _block(b"\x01\x00\x00")
    for name in names:
        raw, body = name.encode(), b"tea\n"
        head = bytes([0x02, 0x02, len(body), 0x04, len(body), 0x20])  # with data; its CRC
        head += struct.pack("<I", zlib.crc32(body)) + b"\x00\x01" + bytes([len(raw)]) + raw
        packed += _block(head) + body
    return packed + _block(b"\x05\x00\x00")


def _block(head: bytes) -> bytes:
    sized = bytes([len(head)]) + head
    return struct.pack("<I", zlib.crc32(sized)) + sized
