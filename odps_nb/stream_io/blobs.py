"""`BlobDataIterator` and `BlobStreamReader` read the blobs of a download."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from odps_nb.errors import ProtocolError, StateError
from odps_nb.stream_io.base import ByteReader, Guarded, read_into_new
from odps_nb.stream_io.payload import PayloadStream
from odps_nb.terms import Compression
from odps_nb.wire.blocks import BlockDecoder
from odps_nb.wire.calls.core import find_header
from odps_nb.wire.codings import coding_of
from odps_nb.wire.frames import (
    DEFAULT_MAX_BLOB,
    RETAINED_BYTES,
    BlobEnd,
    BlobRecord,
    BlobStart,
    ChecksumKind,
    FrameDecoder,
    check_data_size,
)
from odps_nb.wire.layers import PayloadDecoder

_SKIP = 256 << 10
_SMALL = 128 << 10  # bytes; a smaller window is widened to complete a partial frame
_RAW_START = BlobStart(0, None, None, None, {})
_NO_END = BlobEnd(-1, 0, ChecksumKind.NONE, False)


class _Blobs:
    """The blobs of a payload stream, read one at a time.

    `FrameDecoder` reports how many bytes it needs and receives only these bytes. For blob
    data, it only computes the checksum. The ``length`` and ``left`` of the current blob are
    ``None`` while they are unknown, as in a raw body.
    """

    def __init__(
        self, body: Any, count: int, coding: Any, *, max_output: int | None, max_blob: int
    ) -> None:
        self._max_blob = max_blob
        if coding is None:
            coding = find_header(getattr(body, "headers", None) or {}, "content-encoding")
        coding = coding_of(coding)
        plain = coding is Compression.NONE  # if true, large reads decode into the caller's buffer
        decoder = BlockDecoder() if plain else PayloadDecoder(coding, max_output=max_output)
        self.stream = PayloadStream(body, decoder)
        self.count, self.is_raw = count, count == 1
        self.frames = FrameDecoder(count, max_blob=self._max_blob)
        self.index = -1
        self.length: int | None = 0
        self.left: int | None = 0
        self.start = _RAW_START
        self.end = _NO_END

    def noted(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Call a step; if it raises, add a note that states which blob failed."""
        try:
            return step(*arguments)
        except ProtocolError as error:
            error.add_note(f"blob {max(self.index, 0)} of {self.count}")
            raise

    def open_next(self) -> bool:
        """Advance from the end of the current blob to the next; return ``False`` after the last."""
        self.index += 1
        self.end = _NO_END
        if self.is_raw:
            self.length = self.left = None if self.index == 0 else 0
            return self.index == 0
        if self.index == self.count:
            self._feed(1)  # raises if another byte follows
            return False
        self._feed_to(BlobStart)
        self.length = self.left = self.start.length
        if not self.left:
            self._feed_to(BlobEnd)
        return True

    def take(self, size: int) -> bytes:
        """Return ``size`` bytes of the blob (negative: all that remain); fewer only at its end."""
        wanted = size if self.left is None or 0 <= size < self.left else self.left
        if wanted and (self.is_raw or wanted <= RETAINED_BYTES):
            data = self.stream.read(wanted)
            self._account(data, wanted)  # keeps `data` itself, not a copy, for the checksum
            return data
        return read_into_new(self.take_into, wanted)

    def take_into(self, target: memoryview) -> int:
        """Fill ``target``, or stop at the end of the blob; return the number of bytes read."""
        target = target[: self.left]
        count = self.stream.readinto(target) if target else 0
        self._account(target[:count], len(target))
        return count

    def _account(self, data: bytes | memoryview, wanted: int) -> None:
        is_short = len(data) < wanted or wanted < 0
        if self.left is None:
            check_data_size(self.stream.tell(), self._max_blob, 0)
            if is_short:
                self.length, self.left = self.stream.tell(), 0
        elif wanted:
            self.frames.feed_data(data)
            self.left -= len(data)
            if is_short:
                self.frames.feed_eof()
            if not self.left:
                self._feed_to(BlobEnd)

    def scan(self) -> list[BlobRecord]:
        """Return the complete blobs in the window, except the body's last blob."""
        scan = partial(self.frames.scan, leave=1)
        records = self.stream.take_window(scan)
        if not records and self.stream.ready < _SMALL and self.stream.widen():
            records = self.stream.take_window(scan)  # `widen` may have completed the frame
        self.index += len(records)
        return records

    def _feed_to(self, kind: type[BlobStart | BlobEnd]) -> None:
        while self._feed(self.frames.wanted) is not kind:
            pass

    def _feed(self, size: int) -> type | None:
        """Feed the next bytes; return the type of the last event that they produce, or ``None``."""
        data = self.stream.read(size)
        events = self.frames.feed(data)
        if len(data) < size:
            self.frames.feed_eof()
        for event in events:
            if isinstance(event, BlobStart):
                self.start = event
            elif isinstance(event, BlobEnd):
                self.end = event
        return type(events[-1]) if events else None


class BlobDataIterator(Guarded, Iterator[BlobRecord]):
    """Iterates over the requested blobs in order; each `BlobRecord` is complete and checked.

    Parameters
    ----------
    raw_stream
        An object with ``read(n)`` that returns the body as received, with CRC blocks and content
        coding. Closed by `close` and by leaving a ``with`` block.
    expected_count
        Number of requested references. For one reference, the payload is raw; otherwise, it has one
        frame per reference (``docs/protocol.md`` section 6.4). The format is never guessed from the
        content.
    content_encoding
        Value of the ``Content-Encoding`` header. Default: the stream's own header, if present.
    max_output
        Maximum bytes after the content coding is decoded; ``None`` for no limit.
    max_blob
        Maximum bytes in one blob.

    Raises
    ------
    ChecksumError
        Raised by ``next``: a block's or footer's checksum does not match.
    TruncatedError
        The body ends inside a frame, or has fewer frames than references.
    FramingError
        A header, length or footer is invalid, or more bytes follow the last frame.

    Examples
    --------
    >>> from odps_nb.stream_io import BlobDataIterator
    >>> from odps_nb.wire.blocks import encode_blocks
    >>> from odps_nb.wire.frames import FrameHeader, encode_frame
    >>> frames = encode_frame(b"hi", FrameHeader(content_type="text/plain")) + encode_frame(b"")
    >>> for record in BlobDataIterator(encode_blocks(frames), expected_count=2):
    ...     print(record.data, record.mime_type)
    b'hi' text/plain
    b'' None
    """

    _name = "iterator"

    def __init__(
        self,
        raw_stream: Any,
        *,
        expected_count: int,
        content_encoding: str | Compression | None = None,
        max_output: int | None = None,
        max_blob: int = DEFAULT_MAX_BLOB,
    ) -> None:
        self._source = _Blobs(
            raw_stream, expected_count, content_encoding, max_output=max_output, max_blob=max_blob
        )
        self._ready: list[BlobRecord] = []  # in reverse order, to pop from the end
        self._is_given = False

    @property
    def expected_count(self) -> int:
        """Number of blobs that the body must contain."""
        return self._source.count

    def __iter__(self) -> BlobDataIterator:
        return self

    def __next__(self) -> BlobRecord:
        if not self._ready:
            if self._is_given:
                raise StateError("the iterator was passed to a BlobStreamReader")
            self._ready = self._guarded(self._source.noted, self._next_records)
            if not self._ready:
                raise StopIteration
        return self._ready.pop()

    def _next_records(self) -> list[BlobRecord]:
        source = self._source
        if source.index < source.count - 2 and (records := source.scan()):
            return records[::-1]
        if source.index >= source.count or not source.open_next():
            return []
        data, start, verified = source.take(-1), source.start, not source.is_raw
        if source.index == source.count - 1:
            source.open_next()  # raises if anything follows the last blob
        return [BlobRecord(data, start.content_type, start.custom_file_name, verified=verified)]

    def _hand_over(self) -> _Blobs:
        self._check_usable()
        if self._is_given or self._source.index >= 0:
            raise StateError("the iterator is already in use", hint="pass a new BlobDataIterator")
        self._is_given = True
        return self._source

    def close(self) -> None:
        """Close the raw stream. Idempotent."""
        self._closed = True
        self._ready.clear()
        self._source.stream.close()

    def __repr__(self) -> str:
        left = max(self.expected_count - 1 - self._source.index, 0) + len(self._ready)
        return f"<BlobDataIterator of {self.expected_count} blobs, {left} left>"


class BlobStreamReader(ByteReader):
    """The blobs of a body as a file-like object. `read` reads one blob; `next` opens the next one.

    Buffers a window of payload, and up to 8 MiB of each blob. The read that returns a blob's last
    byte also checks the footer. For a blob over 8 MiB, an MD5 footer can be checked only if an
    earlier footer in the body was also MD5; `checksum_verified` reports whether it was checked.

    Parameters
    ----------
    iterator
        An unused `BlobDataIterator`. `close` closes the iterator's raw stream.

    Raises
    ------
    ProtocolError
        Raised by any read, for the same reasons as in `BlobDataIterator`.

    Examples
    --------
    >>> from odps_nb.stream_io import BlobDataIterator, BlobStreamReader
    >>> from odps_nb.wire.blocks import encode_blocks
    >>> from odps_nb.wire.frames import encode_frame
    >>> body = encode_blocks(encode_frame(b"first blob") + encode_frame(b"second"))
    >>> reader = BlobStreamReader(BlobDataIterator(body, expected_count=2))
    >>> reader.read(5), reader.size
    (b'first', 10)
    >>> while reader.next():
    ...     print(reader.read())
    b'second'
    """

    _name = "reader"

    def __init__(self, iterator: BlobDataIterator) -> None:
        self._source = iterator._hand_over()
        self._is_new = True

    @property
    def mime_type(self) -> str | None:
        """Content type of the current blob; ``None`` if its frame has none."""
        return self._current().start.content_type

    @property
    def custom_file_name(self) -> str | None:
        """File name of the current blob; ``None`` if its frame has none."""
        return self._current().start.custom_file_name

    @property
    def size(self) -> int | None:
        """Size of the current blob in bytes; ``None`` for a raw blob until the end is reached."""
        return self._current().length

    @property
    def checksum_kind(self) -> ChecksumKind:
        """Kind of checksum in the current blob's footer; known once the blob's end is reached."""
        return self._current().end.checksum_kind

    @property
    def checksum_verified(self) -> bool:
        """Whether the footer's checksum was verified; block checksums are always verified."""
        return self._current().end.verified

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes of the current blob (default: all left); fewer only at its end."""
        data: bytes = self._do(self._current().take, -1 if size is None else size)
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer``, or stop at the end of the current blob; return the number of bytes."""
        count: int = self._do(self._current().take_into, memoryview(buffer).cast("B"))
        return count

    def next(self) -> BlobStreamReader | None:
        """Skip the rest of the current blob and open the next; return ``None`` after the last."""
        skipped = bytearray(_SKIP)
        while self.readinto(skipped):
            pass
        if not self._ended:
            self._open_next()
        return None if self._ended else self

    def close(self) -> None:
        """Close the raw stream. Idempotent."""
        if not self._closed:
            self._closed = True
            self._source.stream.close()

    def _current(self) -> _Blobs:
        self._check_usable()
        if self._is_new:
            self._open_next()
        return self._source

    def _open_next(self) -> None:
        self._is_new = False
        self._ended = not self._do(self._source.open_next)

    def _do(self, step: Callable[..., Any], *arguments: Any) -> Any:
        return self._guarded(self._source.noted, step, *arguments)
