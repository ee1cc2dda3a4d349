"""Decodes the layers of a blob body, detecting their order from the checksums.

``docs/protocol.md`` section 6.4.

::

    one body:  CRC blocks ( coding ( raw blob | frames ) )      in newer services
               coding ( CRC blocks ( raw blob | frames ) )      in older descriptions

If the headers name a coding, the first block determines the order: if its checksum matches, the CRC
blocks are outermost. Without a coding, both orders produce the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from odps_nb.errors import ProtocolError
from odps_nb.terms import Compression
from odps_nb.wire._push import BytesLike, PieceDecoder, PushDecoder
from odps_nb.wire.blocks import STORED_SIZE, TRAILER_SIZE, BlockDecoder
from odps_nb.wire.codings import Decoder, coding_of, decoder, sniff
from odps_nb.wire.crc32c import crc32c
from odps_nb.wire.frames import DEFAULT_MAX_BLOB, BlobEvent, FrameDecoder, RawDecoder

_MAGIC_SIZE = 4


def has_own_checksum(block: BytesLike) -> bool:
    """Whether the last four bytes are the CRC32C of the bytes before them."""
    size = len(block) - TRAILER_SIZE
    return size > 0 and crc32c(block[:size]) == int.from_bytes(block[size:], "little")


class _CodingInside(PieceDecoder):
    """Decoder of CRC blocks around a coding; a payload without a magic number is uncompressed."""

    __slots__ = ("_blocks", "_coding", "_decoder", "_head", "_max_output")

    def __init__(self, coding: Compression, max_output: int | None) -> None:
        super().__init__()
        self._coding, self._max_output = coding, max_output
        self._blocks = BlockDecoder()
        self._decoder: Decoder | None = None
        self._head = b""

    def _pieces(self, chunk: memoryview) -> Iterator[bytes]:
        yield from self._decode(self._blocks.feed(chunk))

    def _pieces_eof(self) -> Iterator[bytes]:
        yield from self._decode(self._blocks.feed_eof())
        if self._decoder is None:
            yield self._head  # too short for a magic number, and therefore uncompressed
        else:
            yield from self._decoder.pieces_eof()

    def _decode(self, payload: bytes) -> Iterator[bytes]:
        if self._decoder is None:
            self._head += payload
            if len(self._head) < _MAGIC_SIZE:
                return
            payload, self._head = self._head, b""
            coding = self._coding if sniff(payload) is self._coding else Compression.NONE
            self._decoder = decoder(coding, max_output=self._max_output)
        yield from self._decoder.pieces(payload)


class _CodingOutside(PieceDecoder):
    """Decoder of a coding around CRC blocks."""

    __slots__ = ("_blocks", "_decoder")

    def __init__(self, coding: Compression, max_output: int | None) -> None:
        super().__init__()
        self._blocks = BlockDecoder()
        self._decoder = decoder(coding, max_output=max_output)

    def _pieces(self, chunk: memoryview) -> Iterator[bytes]:
        yield from _noted(self._blocks.feed(piece) for piece in self._decoder.pieces(chunk))

    def _pieces_eof(self) -> Iterator[bytes]:
        yield from _noted(self._end())

    def _end(self) -> Iterator[bytes]:
        self._decoder.feed_eof()
        yield self._blocks.feed_eof()


def _noted(pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except ProtocolError as error:
        error.add_note(
            "the checksum of the first block did not match, so the content coding was decoded first"
        )
        raise


class PayloadDecoder(PieceDecoder):
    """Decoder that converts a blob body to its verified payload, raw or framed."""

    __slots__ = ("_coding", "_held", "_inner", "_max_output")

    def __init__(
        self, content_encoding: str | Compression | None = None, *, max_output: int | None = None
    ) -> None:
        super().__init__()
        self._coding = coding_of(content_encoding)
        self._max_output = max_output
        self._held = bytearray()
        self._inner: PieceDecoder | None = (
            BlockDecoder() if self._coding is Compression.NONE else None
        )

    def _pieces(self, chunk: memoryview) -> Iterator[bytes]:
        if self._inner is not None:
            yield from self._inner.pieces(chunk)
            return
        self._held += chunk
        if len(self._held) >= STORED_SIZE:
            yield from self._choose().pieces(self._held)
            self._held = bytearray()

    def _pieces_eof(self) -> Iterator[bytes]:
        inner = self._inner
        if inner is None:
            inner = self._choose()
            yield from inner.pieces(self._held)
        yield from inner.pieces_eof()

    def _choose(self) -> PieceDecoder:
        first = memoryview(self._held)[:STORED_SIZE]
        inside = not first or has_own_checksum(first)
        self._inner = (_CodingInside if inside else _CodingOutside)(self._coding, self._max_output)
        return self._inner


class BlobBodyDecoder(PushDecoder[list[BlobEvent]]):
    """Decoder that converts a whole blob body (blocks, coding and frames) to events.

    ``content_encoding``: the header's value, or a `Compression`; ``None`` when the header is
    absent. ``expected_count``: number of requested references; the body is raw for one reference,
    and otherwise framed. ``max_output``: maximum bytes after decompression; ``None`` for no limit.
    ``max_blob``: maximum bytes of one blob.
    """

    __slots__ = ("_frames", "_payload")

    def __init__(
        self,
        content_encoding: str | Compression | None,
        expected_count: int,
        max_output: int | None = None,
        *,
        max_blob: int = DEFAULT_MAX_BLOB,
    ) -> None:
        super().__init__()
        self._payload = PayloadDecoder(content_encoding, max_output=max_output)
        self._frames: PushDecoder[list[BlobEvent]] = (
            RawDecoder(max_blob=max_blob)
            if expected_count == 1
            else FrameDecoder(expected_count, max_blob=max_blob)
        )

    def events(self, chunk: BytesLike) -> Iterator[BlobEvent]:
        """Yield the events of ``feed`` one by one, in bounded memory.

        Consume the iterator fully before the next call; otherwise every later call raises
        `StateError`.
        """
        self._enter()
        for piece in self._payload.pieces(chunk):
            yield from self._frames.feed(piece)
        self._alive = True

    def events_eof(self) -> Iterator[BlobEvent]:
        """Yield the events of ``feed_eof`` one by one."""
        self._enter()
        for piece in self._payload.pieces_eof():
            yield from self._frames.feed(piece)
        yield from self._frames.feed_eof()
        self._ended = True

    def _feed(self, chunk: BytesLike) -> list[BlobEvent]:
        return self._frames.feed(self._payload.feed(chunk))

    def _feed_eof(self) -> list[BlobEvent]:
        return self._frames.feed(self._payload.feed_eof()) + self._frames.feed_eof()
