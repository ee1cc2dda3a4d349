"""Blocks and blob frames, compared with pyodps' stream classes on the same bytes (goals: docs).

``python -m benchmarks.bench_wire``. Peers: `odps.maxstorage` of the installed pyodps, and the
older class of pyodps 0.13.1, which verifies nothing. Limits: one CRC32C pass over the bytes, and
a new copy of them. Processor time is measured, because everything runs in this process and never
waits.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

from odps.maxstorage.io.blob_reader import BlobDataIterator as MaxBlobDataIterator
from odps.maxstorage.io.blob_reader import BlobStreamReader as MaxBlobStreamReader
from odps.maxstorage.io.crc import CrcStrippedInputStream

from benchmarks import _older_peer
from benchmarks._measure import Case, Goal, compare, header, summary
from odps_nb.stream_io import BlobDataIterator, BlobStreamReader, CrcStrippingStream
from odps_nb.wire import crc32, crc32c
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.frames import FrameHeader, encode_frame

MIB = 1 << 20
MAX, OLDER = "pyodps maxstorage", "pyodps 0.13.1, unverified"
LIMIT, COPY = "limit: one CRC32C pass", "limit: a fresh copy"


class OnlyReads:
    """A raw stream that has only the method ``read`` and hides that its data is in memory."""

    def __init__(self, body: bytes) -> None:
        self.read = io.BytesIO(body).read


def drain(stream: Any, size: int) -> int:
    """Read a stream to its end in reads of ``size`` bytes."""
    total = 0
    while part := stream.read(size):
        total += len(part)
    return total


def drain_into(stream: Any, target: bytearray) -> int:
    """Read a stream to its end into the same buffer repeatedly."""
    total = 0
    while count := stream.readinto(target):
        total += count
    return total


def require(what: str, *payloads: bytes) -> None:
    """Stop unless all sides return the same bytes."""
    if any(payload != payloads[0] for payload in payloads):
        raise SystemExit(f"bench: {what} differ between odps_nb and a peer")


def bench_blocks(older: Any, rounds: int) -> None:
    """Strip and verify 64 MiB of blocks, at several read sizes."""
    header("CRC32C blocks, 64 MiB: verify and strip")
    payload = random.Random(1).randbytes(64 * MIB)
    body = encode_blocks(payload)
    require(
        "blocks", payload, CrcStrippingStream(body).read(), _whole(CrcStrippedInputStream, body)
    )
    source = bytearray(payload)
    copy = Case(COPY, lambda: bytes(source))
    one_pass = Case(LIMIT, lambda: crc32c.crc32c(body))
    for size in (4096, 65_536, MIB, 8 * MIB, -1):
        cases = [
            Case("odps_nb", lambda n=size: drain(CrcStrippingStream(io.BytesIO(body)), n)),
            Case(MAX, lambda n=size: drain(CrcStrippedInputStream(io.BytesIO(body)), n)),
            one_pass if size > 0 else copy,
        ]
        if older is not None and 0 < size <= MIB:
            strip = older._CRCStrippingStream
            cases.insert(2, Case(OLDER, lambda n=size, k=strip: drain(k(io.BytesIO(body)), n)))
        title = f"read({'' if size < 0 else f'{size:,}'})"
        _judged(
            title, cases, rounds, len(payload), [Goal(MAX, 10)] if size > 0 else [Goal(COPY, 0.7)]
        )
    for size in (65_536, MIB, 8 * MIB):
        target = bytearray(size)
        compare(
            f"readinto, {size:,} bytes at a time (the peer: read)",
            Case("odps_nb", lambda t=target: drain_into(CrcStrippingStream(io.BytesIO(body)), t)),
            Case(MAX, lambda n=size: drain(CrcStrippedInputStream(io.BytesIO(body)), n)),
            Case(
                "odps_nb, a source with read(n) only",
                lambda t=target: drain_into(CrcStrippingStream(OnlyReads(body)), t),
            ),
            one_pass,
            rounds=rounds,
            clock=process_time,
            size=len(payload),
            goals=[Goal(MAX, 15), Goal(LIMIT, 0.45)],
        )


def _judged(
    title: str,
    cases: list[Case],
    rounds: int,
    size: int,
    goals: list[Goal],
    count: int | None = None,
) -> None:
    clock = process_time
    compare(title, *cases, rounds=rounds, size=size, count=count, goals=goals, clock=clock)


def _whole(kind: Callable[[Any], Any], body: bytes) -> bytes:
    stream = kind(io.BytesIO(body))
    return b"".join(iter(lambda: stream.read(MIB), b""))


def bench_frames(older: Any, rounds: int) -> None:
    """Measure blobs framed in one stream: many small, some medium, a few large ones."""
    header("blobs framed in one stream: blocks, footers and count verified")
    for count, size, goal in ((20_000, 512, 4), (5_000, 16_384, 8), (4, 32 * MIB, 6)):
        body, blob = _framed(count, size)
        _require_same_blobs(body, count, blob)
        cases = [
            Case("odps_nb", lambda b=body, n=count: _count(BlobDataIterator, b, n)),
            Case(MAX, lambda b=body, n=count: _count(MaxBlobDataIterator, b, n)),
        ]
        if older is not None and size <= 16_384:
            kind = older.BlobDataIterator
            cases.append(Case(OLDER, lambda b=body, k=kind: sum(1 for _ in k(io.BytesIO(b)))))
        if size > MIB:
            cases.append(
                Case(COPY, lambda b=blob, n=count: [bytes(bytearray(b)) for _ in range(n)])
            )
        title = f"{count:,} × {size:,} B, materialised"
        _judged(title, cases, rounds, count * size, [Goal(MAX, goal)], count)
    target = bytearray(MIB)
    compare(
        f"4 × {32 * MIB:,} B, streamed in reads of 1 MiB",
        Case("odps_nb", lambda: _stream(BlobStreamReader(_ours(body, 4)))),
        Case("odps_nb, readinto", lambda: _stream_into(_ours(body, 4), target)),
        Case(MAX, lambda: _stream(MaxBlobStreamReader(_theirs(body, 4)))),
        Case(LIMIT, lambda: crc32c.crc32c(body)),
        rounds=rounds,
        clock=process_time,
        size=4 * 32 * MIB,
        goals=[Goal(MAX, 12)],
    )
    if older is not None:
        body, _ = _framed(2, 4 * MIB)
        compare(
            f"2 × {4 * MIB:,} B, materialised (small, for the older class is quadratic)",
            Case("odps_nb", lambda: _count(BlobDataIterator, body, 2)),
            Case(OLDER, lambda: sum(1 for _ in older.BlobDataIterator(io.BytesIO(body)))),
            rounds=1,
            clock=process_time,
            size=8 * MIB,
        )


def _framed(count: int, size: int) -> tuple[bytes, bytes]:
    blob = random.Random(size).randbytes(size)
    frame = encode_frame(blob, FrameHeader(content_type="image/png"))
    return encode_blocks(frame * count), blob


def _ours(body: bytes, count: int) -> BlobDataIterator:
    return BlobDataIterator(io.BytesIO(body), expected_count=count)


def _theirs(body: bytes, count: int) -> MaxBlobDataIterator:
    return MaxBlobDataIterator(io.BytesIO(body), expected_count=count)


def _require_same_blobs(body: bytes, count: int, blob: bytes) -> None:
    for records in (_ours(body, count), _theirs(body, count)):
        found = 0
        for record in records:
            require("blobs", record.data, blob)
            require("types", (record.mime_type or "").encode(), b"image/png")
            found += 1
        require("counts", bytes(found), bytes(count))


def _count(kind: Any, body: bytes, count: int) -> int:
    return sum(1 for _ in kind(io.BytesIO(body), expected_count=count))


def _stream(reader: Any) -> int:
    total = 0
    while reader is not None:
        total += drain(reader, MIB)
        reader = reader.next()
    return total


def _stream_into(iterator: BlobDataIterator, target: bytearray) -> int:
    reader: BlobStreamReader | None = BlobStreamReader(iterator)
    total = 0
    while reader is not None:
        total += drain_into(reader, target)
        reader = reader.next()
    return total


def main() -> int:
    """Run all benchmarks; the exit status is 0 even if a goal is missed, which the table shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-older", action="store_true", help="omit pyodps 0.13.1")
    options = parser.parse_args()
    print(f"CRC32C by {crc32c.IMPLEMENTATION}; CRC-32 by {crc32.IMPLEMENTATION}")
    older = None if options.no_older else _older_peer.load()
    bench_blocks(older, options.rounds)
    bench_frames(older, options.rounds)
    summary()
    return 0


if __name__ == "__main__":
    sys.exit(main())
