"""CRC32C blocks of blob downloads: decoder, verifier, encoder (``docs/protocol.md`` section 6.3).

::

    | 4096 payload bytes | CRC32C, 4 bytes LE | 4096 … | CRC32C | 1…4095 bytes | CRC32C |

Each CRC covers only its own block. This layer cannot detect that a body is truncated exactly after
a complete block; the frame decoder and the HTTP body length can.

Why one pass over n blocks is enough
------------------------------------
Let A be the map, linear over GF(2), that pushes one zero byte through the register, and F the
register's initial value, all ones. After a payload, the register is r and its CRC is r ^ F. Pushing
that CRC, little-endian, through the register leaves A⁴(r ^ (r ^ F)) = A⁴(F), a constant that does
not depend on the payload. The next block therefore starts from a constant instead of F, and by
linearity ends in another constant. Let c(n) be the CRC of n blocks and their trailers:

    c(1)   = A⁴(F) ^ F
    c(a+b) = A^(4100·b)(c(a)) ^ c(b)

So one CRC over all 4100·n bytes is compared with c(n). Only after a mismatch is each block checked
separately, to find the damaged one. This detects as much damage as checking each block. The
polynomial detects every error of two bits, or of any odd number of bits, in up to 2³¹-1 bits, far
more than `RUN_BLOCKS` blocks contain. It misses other damage with probability 2⁻³², the same as a
check per block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from odps_nb.errors import ChecksumError, StateError, TruncatedError
from odps_nb.wire._push import BytesLike, PieceDecoder
from odps_nb.wire.crc32c import IMPLEMENTATION, IS_FAST, crc32c

BLOCK_SIZE = 4096
"""Payload bytes of a full block."""
TRAILER_SIZE = 4
"""Bytes of the checksum after each block."""
STORED_SIZE = BLOCK_SIZE + TRAILER_SIZE
"""Bytes of a full block on the wire, with its checksum."""
RUN_BLOCKS = 256
"""Blocks to verify in one pass: 1 MiB, which makes the overhead per call negligible."""

_ONES = 0xFFFFFFFF
_PAYLOAD = np.dtype(f"V{BLOCK_SIZE}")
_BLOCK = np.dtype([("payload", _PAYLOAD), ("crc", "<u4")])


class DamagedTailError(ChecksumError, TruncatedError):  # type: ignore[misc]  # both bases have compatible fields
    """The checksum of the last, short block does not match: the block is truncated or damaged."""


@cache
def residue(count: int) -> int:
    """Return the constant CRC32C of ``count`` full, undamaged blocks with their checksums."""
    if count == 0:
        return 0
    if count == 1:
        return crc32c(crc32c(b"").to_bytes(TRAILER_SIZE, "little"))
    last = count // 2
    return _push_zeros(residue(count - last), last * STORED_SIZE) ^ residue(last)


def _push_zeros(register: int, count: int) -> int:
    # crc32c() inverts the register before and after; undo both to get the linear step alone.
    return crc32c(bytes(count), register ^ _ONES) ^ _ONES


def verify_blocks(stored: BytesLike, count: int, *, first_block: int = 0) -> None:
    """Verify ``count`` full blocks in one pass over ``count * 4100`` contiguous bytes."""
    if len(stored) != count * STORED_SIZE:
        raise ValueError(f"{len(stored)} bytes are not {count} whole blocks")
    if crc32c(stored) == residue(count):
        return
    view = memoryview(stored)
    blocks = [view[at : at + STORED_SIZE] for at in range(0, len(view), STORED_SIZE)]
    bad = [crc32c(block) == residue(1) for block in blocks].index(False)
    expected = int.from_bytes(blocks[bad][BLOCK_SIZE:], "little")
    actual = crc32c(blocks[bad][:BLOCK_SIZE])
    raise _mismatch(ChecksumError, first_block + bad, BLOCK_SIZE, expected, actual)


def verify_tail(stored: BytesLike, *, block: int = 0) -> bytes:
    """Verify the last, short block with its CRC, and return its payload."""
    offset, size = block * STORED_SIZE, len(stored) - TRAILER_SIZE
    if size <= 0:
        raise TruncatedError(
            f"the stream ends {len(stored)} bytes into block {block} (byte {offset}): "
            "too short for a payload and its checksum",
            offset=offset,
            expected=TRAILER_SIZE + 1,
            actual=len(stored),
        )
    payload = bytes(stored[:size])
    expected, actual = int.from_bytes(stored[size:], "little"), crc32c(payload)
    if actual != expected:
        raise _mismatch(DamagedTailError, block, size, expected, actual)
    return payload


def _mismatch(
    kind: type[ChecksumError], block: int, size: int, expected: int, actual: int
) -> ChecksumError:
    offset = block * STORED_SIZE
    error = kind(
        f"CRC32C of block {block} (byte {offset}, {size} payload bytes) is {actual:08x}, "
        f"but {expected:08x} is stored",
        block=block,
        offset=offset,
        expected=expected,
        actual=actual,
        hint="fetch it again; the bytes were damaged or truncated in transit",
    )
    if not IS_FAST:
        error.add_note(f"CRC32C by {IMPLEMENTATION}")
    return error


def strip_trailers(stored: BytesLike, count: int) -> bytes:
    """Return the payloads of ``count`` full, verified blocks with one strided copy."""
    payloads: bytes = _payloads(stored, count, STORED_SIZE).tobytes()
    return payloads


def strip_into(stored: BytesLike, count: int, target: memoryview) -> int:
    """Copy the payloads of ``count`` full, verified blocks into ``target``; return their size."""
    _payloads(target, count, BLOCK_SIZE)[:] = _payloads(stored, count, STORED_SIZE)
    return count * BLOCK_SIZE


def _payloads(memory: BytesLike, count: int, stride: int) -> np.ndarray[Any, Any]:
    # Items of 4096 bytes make numpy copy block by block instead of byte by byte.
    return np.ndarray((count,), _PAYLOAD, memory, 0, (stride,))


class BlockDecoder(PieceDecoder):
    """Decoder that verifies CRC32C blocks and removes their checksums; chunks may end anywhere.

    ``feed`` returns the verified payload of all complete blocks so far; ``feed_eof`` returns the
    last, short block's payload. Runs in linear time; buffers less than one block between feeds.
    """

    __slots__ = ("_blocks", "_held")

    def __init__(self) -> None:
        super().__init__()
        self._held = bytearray()
        self._blocks = 0

    def feed_into(self, chunk: BytesLike, target: memoryview) -> int:
        """Write the output of ``feed`` into ``target``; return the number of bytes."""
        self._enter()
        done = 0
        for stored, count in self._runs(chunk):
            done += strip_into(stored, count, target[done:])
        self._alive = True
        return done

    def _runs(self, chunk: BytesLike) -> list[tuple[BytesLike, int]]:
        """Return sequences of full, verified blocks, each with its number of blocks."""
        runs: list[tuple[BytesLike, int]] = []
        view = memoryview(chunk).cast("B")
        if self._held:
            missing = STORED_SIZE - len(self._held)
            self._held += view[:missing]
            view = view[missing:]
            if len(self._held) < STORED_SIZE:
                return runs
            runs.append((self._held, 1))
            self._held = bytearray()
        while len(view) >= STORED_SIZE:
            count = min(len(view) // STORED_SIZE, RUN_BLOCKS)
            runs.append((view[: count * STORED_SIZE], count))
            view = view[count * STORED_SIZE :]
        self._held += view
        for stored, count in runs:
            verify_blocks(stored, count, first_block=self._blocks)
            self._blocks += count
        return runs

    def _feed(self, chunk: BytesLike) -> bytes:
        parts = [strip_trailers(*run) for run in self._runs(chunk)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _pieces(self, chunk: memoryview) -> Iterator[bytes]:
        yield self._feed(chunk)

    def _pieces_eof(self) -> Iterator[bytes]:
        if self._held:
            yield verify_tail(self._held, block=self._blocks)


class BlockEncoder:
    """Encoder that divides a payload into blocks with checksums; chunks may end anywhere."""

    __slots__ = ("_finished", "_held")

    def __init__(self) -> None:
        self._held = bytearray()
        self._finished = False

    def feed(self, chunk: BytesLike) -> bytes:
        """Add payload bytes; return the blocks that are complete so far."""
        self._check_open()
        view = memoryview(chunk).cast("B")
        if self._held:
            missing = BLOCK_SIZE - len(self._held)
            self._held += view[:missing]
            if len(self._held) < BLOCK_SIZE:
                return b""
            head, view, self._held = _encode_whole(self._held), view[missing:], bytearray()
        else:
            head = b""
        whole = len(view) // BLOCK_SIZE * BLOCK_SIZE
        self._held += view[whole:]
        return head + _encode_whole(view[:whole])

    def finish(self) -> bytes:
        """Return the last, short block; empty if the payload ends with a full block."""
        self._check_open()
        self._finished = True
        if not self._held:
            return b""
        return bytes(self._held) + crc32c(self._held).to_bytes(TRAILER_SIZE, "little")

    def _check_open(self) -> None:
        if self._finished:
            raise StateError("this encoder is finished")


def _encode_whole(payload: BytesLike) -> bytes:
    count = len(payload) // BLOCK_SIZE
    if not count:
        return b""
    view = memoryview(payload)
    out = np.empty(count, dtype=_BLOCK)
    out["payload"] = np.frombuffer(view, dtype=_PAYLOAD)
    out["crc"] = [
        crc32c(view[at : at + BLOCK_SIZE]) for at in range(0, count * BLOCK_SIZE, BLOCK_SIZE)
    ]
    stored: bytes = out.tobytes()
    return stored


def encode_blocks(payload: BytesLike) -> bytes:
    """Return ``payload`` as blocks with their checksums; empty if the payload is empty."""
    encoder = BlockEncoder()
    return encoder.feed(payload) + encoder.finish()
