"""Finds the block boundaries of a zstd stream without decoding it (RFC 8878 section 3.1).

A zstd block gives at most 128 KiB and may be as short as four bytes, so a few kilobytes can
become gigabytes, and the library does not limit the output of one call. Cutting its input
after every few blocks limits it.

It also notes what the library does not look at where a frame comes in parts: what the frame
promises to decode to, if its last block is empty, and whether a compressed block is of no bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

__all__ = ["MAX_BLOCK_OUTPUT", "BlockWalker"]

MAX_BLOCK_OUTPUT = 128 << 10
"""Bytes that one block may decode to."""

_MAGIC_SIZE, _BLOCK_HEADER_SIZE, _CHECKSUM_SIZE, _SKIPPABLE_HEADER_SIZE = 4, 3, 4, 8
_MAGIC = bytes.fromhex("28b52ffd")
_SKIPPABLE = bytes.fromhex("2a4d18")
_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_RUN_OF_ONE_BYTE = 1
_OFFSET_OF_TWO = 256  # a content size of two bytes begins there


class BlockWalker:
    """Cut the chunks of a zstd stream so that no cut has more than ``blocks`` block headers.

    It refuses nothing: input that is not zstd is passed on whole, for the library to refuse.
    ``promised`` has the content size of each frame whose header was read, in their order, ``None``
    where it has none; the caller takes them out. ``has_void`` tells of a compressed block that has
    no bytes, which no stream may have.

    Examples
    --------
    >>> empty_frame = bytes.fromhex("28b52ffd 2000 010000")
    >>> walker = BlockWalker(blocks=2)
    >>> [len(part) for part in walker.cut(memoryview(empty_frame * 5))]
    [18, 18, 9]
    """

    __slots__ = (
        *("_blocks", "_checksum", "_header", "_lost", "_seen", "_skip", "_wanted", "_within"),
        *("has_void", "promised"),
    )

    def __init__(self, *, blocks: int) -> None:
        self._blocks = blocks
        self._seen = 0
        self._header = bytearray()
        self._wanted = _MAGIC_SIZE + 1
        self._within = False  # a frame: the next header is a block's
        self._checksum = False
        self._skip = 0  # bytes in front of the next header
        self._lost = False
        self.promised: deque[int | None] = deque()
        self.has_void = False

    def cut(self, chunk: memoryview) -> Iterator[memoryview]:
        """Yield ``chunk`` in parts; each but the last ends after its last allowed block header."""
        start = at = 0
        while at < len(chunk) and not self._lost:
            if self._skip:
                step = min(self._skip, len(chunk) - at)
                self._skip -= step
                at += step
                continue
            step = min(self._wanted - len(self._header), len(chunk) - at)
            self._header += chunk[at : at + step]
            at += step
            if len(self._header) == self._wanted:
                self._read_header()
            if self._seen == self._blocks:
                self._seen = 0
                yield chunk[start:at]
                start = at
        if start < len(chunk):
            yield chunk[start:]

    def _read_header(self) -> None:
        header, self._header = bytes(self._header), bytearray()
        if self._within:
            self._read_block(int.from_bytes(header, "little"))
        elif header[1:4] == _SKIPPABLE and header[0] >> 4 == 5:
            self._read_skippable(header)
        elif header[:_MAGIC_SIZE] == _MAGIC:
            self._read_frame(header)
        else:
            self._lost = True

    def _read_frame(self, header: bytes) -> None:
        descriptor = header[_MAGIC_SIZE]
        single = bool(descriptor & 0x20)
        size = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
        start = _MAGIC_SIZE + 1 + (0 if single else 1) + _DICTIONARY_ID_SIZES[descriptor & 3]
        if len(header) < start + size:
            self._header, self._wanted = bytearray(header), start + size
            return
        promised = int.from_bytes(header[start:], "little") + (_OFFSET_OF_TWO if size == 2 else 0)
        self.promised.append(promised if size else None)
        self._checksum = bool(descriptor & 4)
        self._within, self._wanted = True, _BLOCK_HEADER_SIZE

    def _read_block(self, header: int) -> None:
        self._seen += 1
        kind, size = header >> 1 & 3, header >> 3
        self.has_void |= kind > _RUN_OF_ONE_BYTE and not size
        self._skip = 1 if kind == _RUN_OF_ONE_BYTE else size
        if header & 1:
            self._skip += _CHECKSUM_SIZE if self._checksum else 0
            self._within, self._wanted = False, _MAGIC_SIZE + 1

    def _read_skippable(self, header: bytes) -> None:
        if len(header) < _SKIPPABLE_HEADER_SIZE:
            self._header = bytearray(header)
            self._wanted = _SKIPPABLE_HEADER_SIZE
            return
        self._skip = int.from_bytes(header[_MAGIC_SIZE:], "little")
        self.promised.append(None)
        self._wanted = _MAGIC_SIZE + 1
