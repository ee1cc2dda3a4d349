"""zstd and LZ4 frame as push decoders and encoders (``docs/protocol.md`` sections 1.4, 6.4).

A decoder takes concatenated frames as one stream, refuses a stream that ends inside a frame, and
limits its total output, so that a small body cannot fill the memory. No byte at all is an empty
stream: the transport detects a cut before the first byte.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Protocol

import lz4.frame
import zstandard

from odps_nb.errors import FramingError, LimitExceededError, StateError, TruncatedError
from odps_nb.terms import Compression
from odps_nb.wire._push import BytesLike, PieceDecoder
from odps_nb.wire._zstd_blocks import MAX_BLOCK_OUTPUT, BlockWalker

__all__ = [
    "HTTP_NAMES",
    "LZ4_MAGIC",
    "MAX_PIECE",
    "ZSTD_MAGIC",
    "Decoder",
    "Encoder",
    "coding_of",
    "decoder",
    "encoder",
    "from_http_name",
    "sniff",
]

HTTP_NAMES = {Compression.ZSTD: "zstd", Compression.LZ4: "x-lz4-frame"}
"""Names in ``Accept-Encoding`` and ``Content-Encoding``; no compression has none."""

ZSTD_MAGIC = bytes.fromhex("28b52ffd")
LZ4_MAGIC = bytes.fromhex("04224d18")

MAX_PIECE = 8 << 20
"""Largest size of one piece of output, in bytes."""

_ZSTD_MAX_WINDOW = 128 << 20
_LZ4_SLICE = 32 << 10  # one byte of LZ4 gives at most 255


def from_http_name(name: str | None) -> Compression:
    """Return the coding for a ``Content-Encoding`` value; absent or identity: none.

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


def coding_of(content_encoding: str | Compression | None) -> Compression:
    """Return a coding, given as such or as the value of a header."""
    if isinstance(content_encoding, Compression):
        return content_encoding
    return from_http_name(content_encoding)


def sniff(first4: BytesLike) -> Compression | None:
    """Return the coding whose magic number ``first4`` is, or ``None``."""
    head = bytes(first4[:4])
    if head == ZSTD_MAGIC:
        return Compression.ZSTD
    return Compression.LZ4 if head == LZ4_MAGIC else None


class Decoder(PieceDecoder):
    """Decode one content coding; ``feed`` gives all output that is ready by now.

    Counts its output against ``max_output`` (bytes; ``None``: no limit) and raises
    `LimitExceededError` before it holds more than a piece (8 MiB) beyond. ``pieces`` gives the
    output in such pieces, for a stream of any size in bounded memory.
    """

    __slots__ = ("_max_output", "_taken", "_total")
    name: Compression

    def __init__(self, max_output: int | None) -> None:
        super().__init__()
        self._max_output = max_output
        self._taken = 0
        self._total = 0

    def _pieces_eof(self) -> Iterator[bytes]:
        if self._inside_frame():
            raise TruncatedError(
                f"the {self.name.value} stream ends inside a frame, after {self._taken} bytes",
                offset=self._taken,
                actual=self._taken,
            )
        return iter(())

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

    @abstractmethod
    def _decode(self, chunk: memoryview) -> Iterator[bytes]: ...

    @abstractmethod
    def _inside_frame(self) -> bool: ...


class _Identity(Decoder):
    __slots__ = ()
    name = Compression.NONE

    def _decode(self, chunk: memoryview) -> Iterator[bytes]:
        self._taken += len(chunk)
        yield bytes(chunk)

    def _inside_frame(self) -> bool:
        return False


class _FrameObject(Protocol):
    """The decoder of one frame in both libraries; bytes after its end are in ``unused_data``."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: BytesLike, /) -> bytes: ...


class _Frames(Decoder):
    """Decodes consecutive frames in slices, so that no call returns more than 8 MiB."""

    __slots__ = ("_frame", "_given")
    failure: type[Exception]

    def __init__(self, max_output: int | None) -> None:
        super().__init__(max_output)
        self._frame: _FrameObject | None = None
        self._given = 0  # by this frame

    def _decode(self, chunk: memoryview) -> Iterator[bytes]:
        for part in self._slices(chunk):
            rest: BytesLike | None = part
            while rest:
                frame = self._frame or self._open()
                try:
                    piece = frame.decompress(rest)
                except self.failure as error:
                    raise self._damaged(error) from error
                self._given += len(piece)
                if frame.eof:
                    self._check_end(self._given)
                    rest, self._frame, self._given = frame.unused_data, None, 0
                else:
                    rest, self._frame = b"", frame
                if piece:
                    yield piece
            self._taken += len(part)

    def _check_end(self, given: int) -> None:
        """Refuse a frame that has ended, and given so many bytes, where the library does not."""

    def _damaged(self, error: Exception | str) -> FramingError:
        return FramingError(
            f"the {self.name.value} stream is damaged: {error}",
            offset=self._taken,
            hint="fetch it again; the bytes were damaged on their way",
        )

    def _inside_frame(self) -> bool:
        return self._frame is not None

    @abstractmethod
    def _slices(self, chunk: memoryview) -> Iterator[memoryview]: ...

    @abstractmethod
    def _open(self) -> _FrameObject: ...


class _Zstd(_Frames):
    __slots__ = ("_library", "_walker")
    name = Compression.ZSTD
    failure = zstandard.ZstdError

    def __init__(self, max_output: int | None) -> None:
        super().__init__(max_output)
        self._library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
        self._walker = BlockWalker(blocks=MAX_PIECE // MAX_BLOCK_OUTPUT)

    def _slices(self, chunk: memoryview) -> Iterator[memoryview]:
        return self._walker.cut(chunk)

    def _open(self) -> _FrameObject:
        return self._library.decompressobj()

    def _check_end(self, given: int) -> None:
        promised = self._walker.promised.popleft()
        if promised is not None and promised != given:
            raise self._damaged(f"a frame promises {promised} bytes and has {given}")
        if self._walker.has_void:
            raise self._damaged("a compressed block has no bytes")


class _Lz4(_Frames):
    __slots__ = ()
    name = Compression.LZ4
    failure = RuntimeError

    def _slices(self, chunk: memoryview) -> Iterator[memoryview]:
        return (chunk[at : at + _LZ4_SLICE] for at in range(0, len(chunk), _LZ4_SLICE))

    def _open(self) -> _FrameObject:
        frame: _FrameObject = lz4.frame.LZ4FrameDecompressor()
        return frame


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
    """Encodes one content coding: call ``feed`` any number of times, ``finish`` once."""

    def feed(self, chunk: BytesLike) -> bytes:
        """Encode more bytes; return the coded bytes that are ready."""

    def finish(self) -> bytes:
        """End the stream; return the rest of it."""


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
        case _:
            return _EncoderBase()
