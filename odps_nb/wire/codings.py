"""zstd and LZ4 frame as push decoders and encoders (floor 1, ``protocol.md`` 1.4, 6.4).

A decoder takes concatenated frames as one stream, refuses a stream that ends inside a frame, and
counts what it gives out against a budget, so that a small body cannot fill the memory.
No byte at all is an empty stream: a cut before the first byte is the transport's business.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Protocol

import lz4.frame
import zstandard

from odps_nb.errors import FramingError, LimitExceededError, StateError, TruncatedError
from odps_nb.terms import Compression
from odps_nb.wire._push import BytesLike, PushDecoder

__all__ = [
    "HTTP_NAMES",
    "LZ4_MAGIC",
    "ZSTD_MAGIC",
    "Decoder",
    "Encoder",
    "decoder",
    "encoder",
    "from_http_name",
    "sniff",
]

HTTP_NAMES = {Compression.ZSTD: "zstd", Compression.LZ4: "x-lz4-frame"}
"""Spelling in ``Accept-Encoding`` and ``Content-Encoding``; no compression has no spelling."""

ZSTD_MAGIC = bytes.fromhex("28b52ffd")
LZ4_MAGIC = bytes.fromhex("04224d18")

# One zstd block can give 128 KiB for 4 bytes. The library has no bound on what one call gives,
# so the bound is on what one call gets.
_ZSTD_SLICE = 4096
_MAX_WINDOW = 1 << 27
_LZ4_PIECE = 1 << 20


def from_http_name(name: str | None) -> Compression:
    """Return the coding that a ``Content-Encoding`` value names; absent or identity: none.

    Raises
    ------
    FramingError
        For a coding that this protocol does not have.
    """
    text = (name or "identity").strip().lower()
    if text == "identity":
        return Compression.NONE
    for coding, spelling in HTTP_NAMES.items():
        if text == spelling:
            return coding
    raise FramingError(
        f"the body has the unknown content coding {text!r}",
        hint="a proxy may have changed it; the service sends zstd, x-lz4-frame or none",
    )


def sniff(first4: BytesLike) -> Compression | None:
    """Return the coding whose magic number ``first4`` is, or ``None``."""
    head = bytes(first4[:4])
    if head == ZSTD_MAGIC:
        return Compression.ZSTD
    return Compression.LZ4 if head == LZ4_MAGIC else None


class Decoder(PushDecoder[bytes]):
    """Decode one content coding; ``feed`` gives all output that is ready by now.

    Counts its output against ``max_output`` (bytes; ``None``: no limit) and raises
    `LimitExceededError` before it holds more than a slice beyond.
    """

    __slots__ = ("_max_output", "_taken", "_total")
    name: Compression

    def __init__(self, max_output: int | None) -> None:
        super().__init__()
        self._max_output = max_output
        self._taken = 0
        self._total = 0

    def _feed(self, chunk: BytesLike) -> bytes:
        parts = list(self._pieces(memoryview(chunk).cast("B")))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _feed_eof(self) -> bytes:
        if self._inside_frame():
            raise TruncatedError(
                f"the {self.name.value} stream ends inside a frame, after {self._taken} bytes",
                offset=self._taken,
                actual=self._taken,
            )
        return b""

    def _pieces(self, chunk: memoryview) -> Iterator[bytes]:
        for piece in self._decode(chunk):
            self._total += len(piece)
            if self._max_output is not None and self._total > self._max_output:
                raise LimitExceededError(
                    f"the {self.name.value} stream decodes to more than {self._max_output} bytes",
                    offset=self._taken,
                    limit=self._max_output,
                    actual=self._total,
                    hint="raise max_output if you trust the source",
                )
            yield piece
        self._taken += len(chunk)

    def _damaged(self, error: Exception) -> FramingError:
        return FramingError(
            f"the {self.name.value} stream is damaged: {error}",
            offset=self._taken,
            hint="fetch it again; the bytes were damaged on their way",
        )

    @abstractmethod
    def _decode(self, chunk: memoryview) -> Iterator[bytes]: ...

    @abstractmethod
    def _inside_frame(self) -> bool: ...


class _Identity(Decoder):
    __slots__ = ()
    name = Compression.NONE

    def _decode(self, chunk: memoryview) -> Iterator[bytes]:
        yield bytes(chunk)

    def _inside_frame(self) -> bool:
        return False


class _Zstd(Decoder):
    __slots__ = ("_frame", "_library")
    name = Compression.ZSTD

    def __init__(self, max_output: int | None) -> None:
        super().__init__(max_output)
        self._library = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def _decode(self, chunk: memoryview) -> Iterator[bytes]:
        for start in range(0, len(chunk), _ZSTD_SLICE):
            rest: bytes | memoryview = chunk[start : start + _ZSTD_SLICE]
            while rest:
                if self._frame is None:
                    self._frame = self._library.decompressobj()
                try:
                    piece = self._frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise self._damaged(error) from error
                rest = b""
                if self._frame.eof:
                    rest, self._frame = self._frame.unused_data, None
                yield piece

    def _inside_frame(self) -> bool:
        return self._frame is not None


class _Lz4(Decoder):
    __slots__ = ("_frame",)
    name = Compression.LZ4

    def __init__(self, max_output: int | None) -> None:
        super().__init__(max_output)
        self._frame: lz4.frame.LZ4FrameDecompressor | None = None

    def _decode(self, chunk: memoryview) -> Iterator[bytes]:
        rest: bytes | memoryview | None = chunk
        while rest:
            if self._frame is None:
                self._frame = lz4.frame.LZ4FrameDecompressor()
            yield self._decompress(self._frame, rest)
            while not (self._frame.eof or self._frame.needs_input):
                yield self._decompress(self._frame, b"")
            rest = b""
            if self._frame.eof:
                rest, self._frame = self._frame.unused_data, None

    def _decompress(self, frame: lz4.frame.LZ4FrameDecompressor, data: BytesLike) -> bytes:
        try:
            piece: bytes = frame.decompress(data, max_length=_LZ4_PIECE)
        except RuntimeError as error:
            raise self._damaged(error) from error
        return piece

    def _inside_frame(self) -> bool:
        return self._frame is not None


def decoder(name: Compression | str | None, *, max_output: int | None = None) -> Decoder:
    """Make a push decoder.

    Parameters
    ----------
    name
        Of the coding; `Compression.NONE` passes bytes through.
    max_output
        Bytes that the whole stream may decode to; ``None`` for no limit.
    """
    kinds: dict[Compression, type[Decoder]] = {
        Compression.NONE: _Identity,
        Compression.ZSTD: _Zstd,
        Compression.LZ4: _Lz4,
    }
    return kinds[Compression.of(name)](max_output)


class Encoder(Protocol):
    """Encode one content coding: any number of feeds, one finish."""

    def feed(self, chunk: BytesLike) -> bytes:
        """Take plain bytes; give the coded bytes that are ready."""

    def finish(self) -> bytes:
        """Give the rest of the coded stream."""


class _EncoderBase:
    __slots__ = ("_finished",)

    def __init__(self) -> None:
        self._finished = False

    def feed(self, chunk: BytesLike) -> bytes:
        self._check_open()
        return self._encode(chunk)

    def finish(self) -> bytes:
        self._check_open()
        self._finished = True
        return self._end()

    def _check_open(self) -> None:
        if self._finished:
            raise StateError("this encoder is finished")

    def _encode(self, chunk: BytesLike) -> bytes:
        return bytes(chunk)

    def _end(self) -> bytes:
        return b""


class _ZstdEncoder(_EncoderBase):
    __slots__ = ("_frame",)

    def __init__(self, level: int | None, size: int | None) -> None:
        super().__init__()
        library = zstandard.ZstdCompressor(level=3 if level is None else level, write_checksum=True)
        self._frame = library.compressobj(size=-1 if size is None else size)

    def _encode(self, chunk: BytesLike) -> bytes:
        return self._frame.compress(chunk)

    def _end(self) -> bytes:
        return self._frame.flush()


class _Lz4Encoder(_EncoderBase):
    __slots__ = ("_frame", "_head")

    def __init__(self, level: int | None, size: int | None) -> None:
        super().__init__()
        self._frame = lz4.frame.LZ4FrameCompressor(
            compression_level=level or 0, content_checksum=True
        )
        # The frame is begun here, so that an empty stream is a valid frame too.
        self._head: bytes = self._frame.begin(size or 0)

    def _encode(self, chunk: BytesLike) -> bytes:
        head, self._head = self._head, b""
        return head + bytes(self._frame.compress(chunk))

    def _end(self) -> bytes:
        head, self._head = self._head, b""
        return head + bytes(self._frame.flush())


def encoder(
    name: Compression | str | None, level: int | None = None, *, size: int | None = None
) -> Encoder:
    """Make an encoder; its frames carry a checksum of the content.

    Parameters
    ----------
    name
        Of the coding; `Compression.NONE` passes bytes through.
    level
        The library's own level; ``None`` for its default.
    size
        Bytes that will be fed in all, where known: goes into the frame's header.
    """
    match Compression.of(name):
        case Compression.ZSTD:
            return _ZstdEncoder(level, size)
        case Compression.LZ4:
            return _Lz4Encoder(level, size)
        case Compression.NONE:
            return _EncoderBase()
