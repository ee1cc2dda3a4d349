"""Push decoders and encoders for zstd and LZ4 frames (``docs/protocol.md`` sections 1.4, 6.4).

A decoder treats concatenated frames as one stream, raises if the input ends inside a frame, and
limits its total output. Empty input is decoded as an empty stream.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import lz4.frame
import zstandard

from odps_nb.errors import FramingError, OversizeError, StateError, TruncatedError
from odps_nb.terms import Compression
from odps_nb.wire._push import BytesLike, PieceDecoder

HTTP_NAMES = {Compression.ZSTD: "zstd", Compression.LZ4: "x-lz4-frame"}
"""Names in ``Accept-Encoding`` and ``Content-Encoding``."""

ZSTD_MAGIC = bytes.fromhex("28b52ffd")
LZ4_MAGIC = bytes.fromhex("04224d18")

MAX_PIECE = 1 << 20
"""Maximum size of one output piece in bytes."""

_ZSTD_MAX_WINDOW = 128 << 20
_PROBE = b"odps_nb"
_ZSTD_PROBE = zstandard.ZstdCompressor().compress(_PROBE)


def from_http_name(name: str | None) -> Compression:
    """Return the coding for a ``Content-Encoding`` value; ``NONE`` if absent or identity."""
    text = (name or "identity").strip().lower()
    if text == "identity":
        return Compression.NONE
    for coding, spelling in HTTP_NAMES.items():
        if text == spelling:
            return coding
    raise FramingError(
        f"the body has the unknown content coding {text!r}",
        hint="check for a proxy that alters bodies; the service sends zstd, x-lz4-frame or none",
    )


def coding_of(content_encoding: str | Compression | None) -> Compression:
    """Return the coding for a `Compression` or a header value."""
    if isinstance(content_encoding, Compression):
        return content_encoding
    return from_http_name(content_encoding)


def sniff(first4: BytesLike) -> Compression | None:
    """Return the coding whose magic number is ``first4``, or ``None``."""
    head = bytes(first4[:4])
    if head == ZSTD_MAGIC:
        return Compression.ZSTD
    return Compression.LZ4 if head == LZ4_MAGIC else None


class Decoder(PieceDecoder):
    """Decoder of one content coding; ``feed`` returns all available output.

    Raises `OversizeError` if the output exceeds ``max_output`` (bytes; ``None``: no limit), and
    buffers at most one piece (1 MiB) beyond it. ``pieces`` yields the output in pieces of at most
    this size, so that streams of any size are decoded in bounded memory.
    """

    __slots__ = ("_max_output", "_taken", "_total")
    name: Compression
    failure: type[Exception]

    def __init__(self, max_output: int | None) -> None:
        super().__init__()
        self._max_output = max_output
        self._taken = 0
        self._total = 0

    def _pieces(self, chunk: memoryview) -> Iterator[bytes]:
        try:
            for piece in self._decode(chunk):
                self._total += len(piece)
                if self._max_output is not None and self._total > self._max_output:
                    raise OversizeError(
                        f"the {self.name.value} stream decodes to more than "
                        f"{self._max_output} bytes",
                        offset=self._taken,
                        limit=self._max_output,
                        actual=self._total,
                        hint="increase max_output if you trust the source",
                    )
                yield piece
        except self.failure as error:
            raise FramingError(
                f"the {self.name.value} stream is damaged: {error}",
                offset=self._taken,
                hint="fetch it again; the bytes were damaged in transit",
            ) from error
        self._taken += len(chunk)

    def _pieces_eof(self) -> Iterator[bytes]:
        if self._taken and self._is_inside_frame():
            raise TruncatedError(
                f"the {self.name.value} stream ends inside a frame, after {self._taken} bytes",
                offset=self._taken,
                actual=self._taken,
            )
        return iter(())

    @abstractmethod
    def _decode(self, chunk: memoryview) -> Iterator[bytes]: ...

    def _is_inside_frame(self) -> bool:
        return False


class _Identity(Decoder):
    __slots__ = ()
    name = Compression.NONE
    failure = FramingError  # never raised

    def _decode(self, chunk: memoryview) -> Iterator[bytes]:
        yield bytes(chunk)


class _NeedsInputError(Exception):
    """The decoder has consumed all available input."""


class _Input:
    """The zstd reader's input: the rest of the current chunk. It never reports an end of file."""

    __slots__ = ("rest",)

    def __init__(self) -> None:
        self.rest: BytesLike = b""

    def read(self, size: int) -> BytesLike:
        if not self.rest:
            raise _NeedsInputError
        part, self.rest = self.rest[:size], self.rest[size:]
        return part


class _Zstd(Decoder):
    __slots__ = ("_input", "_reader")
    name = Compression.ZSTD
    failure = zstandard.ZstdError

    def __init__(self, max_output: int | None) -> None:
        super().__init__(max_output)
        library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
        self._input = _Input()
        source: Any = self._input  # used as a file object; only `read` is called
        self._reader = library.stream_reader(source, read_across_frames=True)

    def _decode(self, chunk: BytesLike) -> Iterator[bytes]:
        self._input.rest = chunk
        with suppress(_NeedsInputError):
            while True:
                yield self._reader.read1(MAX_PIECE)

    def _is_inside_frame(self) -> bool:
        # The library cannot report this, so feed one more frame, which is decoded only at a frame
        # boundary. Feed it in two parts, because libzstd decodes a whole frame even after half a
        # header.
        parts = (_ZSTD_PROBE[:-1], _ZSTD_PROBE[-1:])
        try:
            return b"".join(piece for part in parts for piece in self._decode(part)) != _PROBE
        except self.failure:
            return True


class _Lz4(Decoder):
    __slots__ = ("_frame",)
    name = Compression.LZ4
    failure = RuntimeError

    def __init__(self, max_output: int | None) -> None:
        super().__init__(max_output)
        self._frame: Any = None

    def _decode(self, chunk: memoryview) -> Iterator[bytes]:
        rest: BytesLike | None = chunk
        while rest:
            frame = self._frame = self._frame or lz4.frame.LZ4FrameDecompressor()
            yield frame.decompress(rest, MAX_PIECE)
            while not (frame.eof or frame.needs_input):
                yield frame.decompress(b"", MAX_PIECE)
            rest = frame.unused_data
            if frame.eof:
                self._frame = None

    def _is_inside_frame(self) -> bool:
        return self._frame is not None


def decoder(name: Compression | str | None, *, max_output: int | None = None) -> Decoder:
    """Create a push decoder."""
    kinds: dict[Compression, type[Decoder]] = {
        Compression.NONE: _Identity,
        Compression.ZSTD: _Zstd,
        Compression.LZ4: _Lz4,
    }
    return kinds[Compression.of(name)](max_output)


class Encoder:
    """Encoder of one content coding: call ``feed`` any number of times, then ``finish`` once."""

    __slots__ = ("_compress", "_flush", "_head")

    def __init__(
        self, compress: Callable[[Any], bytes], flush: Callable[[], bytes], head: bytes = b""
    ) -> None:
        self._compress, self._flush = compress, flush
        self._head: bytes | None = head

    def feed(self, chunk: BytesLike) -> bytes:
        """Encode more bytes; return the encoded bytes that are available."""
        head, self._head = self._taken(), b""
        return head + self._compress(chunk)

    def finish(self) -> bytes:
        """End the stream; return the remaining bytes."""
        head, self._head = self._taken(), None
        return head + self._flush()

    def _taken(self) -> bytes:
        if self._head is None:
            raise StateError("this encoder is finished")
        return self._head


def encoder(name: Compression | str | None) -> Encoder:
    """Create an encoder whose frames contain a content checksum."""
    frame: Any
    match Compression.of(name):
        case Compression.ZSTD:
            frame = zstandard.ZstdCompressor(write_checksum=True).compressobj()
            return Encoder(frame.compress, frame.flush)
        case Compression.LZ4:
            # the decoder of Java (lz4-java) rejects blocks that depend on earlier ones
            frame = lz4.frame.LZ4FrameCompressor(content_checksum=True, block_linked=False)
            # Begin the frame here, so an empty stream is also a valid frame.
            return Encoder(frame.compress, frame.flush, frame.begin())
        case _:
            return Encoder(bytes, bytes)
