"""Generates small scientific datasets, and a RAR archive, which no installed library can write."""

from __future__ import annotations

import io
import struct
import zlib

import h5py
import numpy as np

__all__ = ["files", "hdf5", "rar"]


def files() -> dict[str, bytes]:
    """Return the files by name."""
    return {"grid.h5": hdf5(), "names.rar": rar()}


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
