"""Raw streams of every kind that a reader may receive, and bodies in every order of layers."""

from __future__ import annotations

import io
from collections.abc import Callable

from odps_nb.terms import Compression
from odps_nb.wire.blocks import BLOCK_SIZE, STORED_SIZE, encode_blocks
from odps_nb.wire.codings import HTTP_NAMES, encoder
from odps_nb.wire.frames import FrameHeader, encode_frame

SIZES = [0, 1, 5, 4091, 4095, 4096, 4097, 8192, 20_000, 300_000]
READS = [1, 7, 4095, 4096, 4097, 65_536, 1 << 20]


class ReadOnly:
    """A stream that has only ``read``, which returns at most ``most`` bytes per call."""

    def __init__(self, body: bytes, most: int = 1 << 30) -> None:
        self.file, self.most, self.closed = io.BytesIO(body), most, False

    def read(self, size: int) -> bytes:
        return self.file.read(min(size, self.most))

    def close(self) -> None:
        self.closed = True


class ReadInto(ReadOnly):
    """A stream that also has ``readinto``."""

    def readinto(self, buffer: memoryview) -> int:
        return self.file.readinto(buffer[: self.most])


class WithHeaders(ReadInto):
    """A response with headers."""

    def __init__(self, body: bytes, **headers: str) -> None:
        super().__init__(body)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.status = 200


class StoringUpload:
    """An upload that stores the data it receives, and its own response."""

    status = 200

    def __init__(self) -> None:
        self.headers = {
            "x-odps-request-id": "r1",
            "x-odps-max-storage-route-token": "route-1",
        }
        self.body, self.aborted = bytearray(), False

    def write(self, data: bytes) -> None:
        self.body += data

    def finish(self) -> StoringUpload:
        return self

    def abort(self) -> None:
        self.aborted = True

    def read(self) -> bytes:
        return b'{"CommitMessage": "m", "BlobReference": "/wByZWYw"}'


KINDS: dict[str, Callable[[bytes], object]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "BytesIO": io.BytesIO,
    "read": ReadOnly,
    "readinto": ReadInto,
    "short reads": lambda body: ReadOnly(body, most=1000),
    "short readinto": lambda body: ReadInto(body, most=4101),
    "one byte a time": lambda body: (
        ReadOnly(body, most=1) if len(body) < 10_000 else ReadOnly(body)
    ),
}


def pattern(size: int, seed: int = 31) -> bytes:
    """Return bytes that do not repeat from block to block."""
    return bytes((index * seed + index // 251) % 256 for index in range(size))


def some_of(size: int) -> list[int]:
    """Return all positions near the ends of a body and of its first block, and some others."""
    edges = (0, 50, 100, BLOCK_SIZE, STORED_SIZE, size)
    near = {at for edge in edges for at in range(edge - 60, edge + 60)}
    return sorted(at for at in {*near, *range(0, size, 31)} if 0 <= at < size)


def framed(blobs: list[bytes]) -> bytes:
    """Return frames of blobs, each named by its number."""
    return b"".join(
        encode_frame(blob, FrameHeader(content_type="a/b", custom_file_name=f"{index}.bin"))
        for index, blob in enumerate(blobs)
    )


def layered(payload: bytes) -> list[tuple[str | None, bytes]]:
    """Return (content encoding, body) in every order of layers."""
    bodies: list[tuple[str | None, bytes]] = [(None, encode_blocks(payload))]
    for coding in (Compression.ZSTD, Compression.LZ4):
        bodies.append((HTTP_NAMES[coding], encode_blocks(code(coding, payload))))
        bodies.append((HTTP_NAMES[coding], code(coding, encode_blocks(payload))))
    return bodies


def code(coding: Compression, data: bytes) -> bytes:
    """Return compressed data."""
    coder = encoder(coding)
    return coder.feed(data) + coder.finish()
