"""`BlobDataIterator` and `BlobStreamReader` read the blobs of a download."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Self

from odps_nb.errors import ProtocolError, StateError
from odps_nb.stream_io.payload import open_payload, read_into_new
from odps_nb.terms import Compression
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

_SKIP = 256 << 10
_SMALL = 128 << 10  # below this size, a truncated frame is completed in the window
_RAW_START = BlobStart(0, None, None, None, {})
_NO_END = BlobEnd(-1, 0, ChecksumKind.NONE, False)


class _Blobs:
    """The blobs of a payload stream, read one at a time.

    `FrameDecoder` reports how many bytes it needs and receives only these; blob data bypasses it.
    ``length`` and ``left`` of the current blob are ``None`` while unknown, as for a raw blob.
    """

    def __init__(self, body: Any, count: int, coding: Any, **limits: Any) -> None:
        if count < 0:
            raise ValueError(f"expected_count is {count}; it must be at least 0")
        self._max_blob: int = limits.pop("max_blob")
        self.stream = open_payload(body, coding, **limits)
        self.count, self.is_raw = count, count == 1
        self.frames = FrameDecoder(count, max_blob=self._max_blob)
        self.index = -1
        self.length: int | None = 0
        self.left: int | None = 0
        self.start = _RAW_START
        self.end = _NO_END

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
        """Return ``size`` bytes of the blob, fewer only at its end; if negative, the rest."""
        wanted = size if self.left is None or 0 <= size < self.left else self.left
        if wanted and (self.is_raw or wanted <= RETAINED_BYTES):
            data = self.stream.read(wanted)
            self._account(data, wanted)  # retained, uncopied, until the footer is checked
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

    def _feed_to(self, kind: type[BlobStart | BlobEnd]) -> None:
        while (self._feed(self.frames.wanted)) is not kind:
            pass

    def _feed(self, size: int) -> type | None:
        """Feed the next bytes; return the type of the last event that they produce, if any."""
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


class BlobDataIterator(Iterator[BlobRecord]):
    """Iterates over the requested blobs in order; each `BlobRecord` is complete and checked.

    Parameters
    ----------
    raw_stream
        The body as received, including CRC blocks and content coding: an object with ``read(n)``.
        Closed by `close` and by leaving a ``with`` block.
    expected_count
        Number of requested references. For one reference, the payload is raw; otherwise, it has one
        frame per reference (``docs/protocol.md`` section 6.4). The format is never guessed from the
        content.
    content_encoding
        Value of the ``Content-Encoding`` header. Default: the header of the stream, if it has any.
    max_output
        Maximum bytes that the coding may decode to; ``None`` for no limit.
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
        self._pop = self._ready.pop
        self._left = expected_count
        self._state = ""

    @property
    def expected_count(self) -> int:
        """Number of blobs that the body must contain."""
        return self._source.count

    def __iter__(self) -> BlobDataIterator:
        return self

    def __next__(self) -> BlobRecord:
        try:
            return self._pop()
        except IndexError:
            return self._next_batch()

    def _next_batch(self) -> BlobRecord:
        if self._state:
            raise StateError(f"the iterator {self._state}")
        if not self._left and self._source.index >= 0:
            raise StopIteration
        self._state = "has already failed; data after a damaged part cannot be decoded"
        record = self._advance()
        self._state = ""
        if record is None:
            raise StopIteration
        return record

    def _advance(self) -> BlobRecord | None:
        try:
            return self._scan() or self._next_whole()
        except ProtocolError as error:
            error.add_note(f"blob {max(self._source.index, 0)} of {self.expected_count}")
            raise

    def _scan(self) -> BlobRecord | None:
        # _next_whole reads the last frame, because it also checks that nothing follows.
        if self._left < 2:
            return None
        stream, records = self._source.stream, self._scan_window()
        if not records and stream.ready < _SMALL and stream.widen():
            records = self._scan_window()  # `widen` has completed the truncated frame
        if not records:
            return None
        self._left -= len(records)
        self._source.index += len(records)
        records.reverse()
        self._ready.extend(records)
        return self._pop()

    def _scan_window(self) -> list[BlobRecord]:
        frames = self._source.frames
        return self._source.stream.take_window(lambda window, at: frames.scan(window, at, leave=1))

    def _next_whole(self) -> BlobRecord | None:
        source = self._source
        if not source.open_next():
            return None
        record = BlobRecord(
            source.take(-1),
            source.start.content_type,
            source.start.custom_file_name,
            verified=not source.is_raw,
        )
        self._left -= 1
        if not self._left:
            source.open_next()
        return record

    def _hand_over(self) -> _Blobs:
        if self._state or self._source.index >= 0:
            raise StateError("the iterator is already in use", hint="pass a new BlobDataIterator")
        self._state = "was passed to a BlobStreamReader"
        return self._source

    def close(self) -> None:
        """Close the raw stream. Idempotent."""
        self._state = "is closed"
        self._ready.clear()
        self._source.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BlobDataIterator of {self.expected_count} blobs, {self._left} left>"


class BlobStreamReader(io.BufferedIOBase):
    """The blobs of a body as a file-like object: `read` reads the current one, `next` advances.

    Buffers a window of payload, and up to 8 MiB of each blob. The read that returns a blob's last
    byte checks its footer. A larger blob's MD5 footer can be checked only if an earlier footer of
    the body was also an MD5; `checksum_verified` reports whether it was checked.

    Parameters
    ----------
    iterator
        An unused `BlobDataIterator`. `close` closes its raw stream.

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

    def __init__(self, iterator: BlobDataIterator) -> None:
        self._source = iterator._hand_over()
        self._state = "new"

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
        """Size of the current blob in bytes; ``None`` for a raw blob until its end is reached."""
        return self._current().length

    @property
    def checksum_kind(self) -> ChecksumKind:
        """Kind of checksum in the current blob's footer; known once its end is reached."""
        return self._current().end.checksum_kind

    @property
    def checksum_verified(self) -> bool:
        """Whether the footer's checksum was verified; block checksums are always verified."""
        return self._current().end.verified

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes of the current blob, fewer only at its end; by default the rest."""
        source = self._current()
        data: bytes = self._guarded(source.take, -1 if size is None else size)
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer``, or stop at the end of the current blob; return the number of bytes."""
        source = self._current()
        count: int = self._guarded(source.take_into, memoryview(buffer).cast("B"))
        return count

    def next(self) -> BlobStreamReader | None:
        """Skip the rest of the current blob and open the next; return ``None`` after the last."""
        source = self._current()
        if self._state == "ended":
            return None
        skipped = memoryview(bytearray(_SKIP))
        while self._guarded(source.take_into, skipped):
            pass
        if self._guarded(source.open_next):
            return self
        self._state = "ended"
        return None

    def readable(self) -> bool:
        """Whether the reader is open."""
        return not self.closed

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._state == "closed"

    def close(self) -> None:
        """Close the raw stream. Idempotent."""
        if not self.closed:
            self._state = "closed"
            self._source.stream.close()

    def _current(self) -> _Blobs:
        if self._state == "closed":
            raise StateError("the reader is closed", hint="read it before closing it")
        if self._state == "failed":
            raise StateError(
                "the reader has already failed; data after a damaged part cannot be decoded"
            )
        if self._state == "new":
            self._state = "open" if self._guarded(self._source.open_next) else "ended"
        return self._source

    def _guarded(self, step: Any, *arguments: Any) -> Any:
        before, self._state = self._state, "failed"
        try:
            result = step(*arguments)
        except ProtocolError as error:
            error.add_note(f"blob {self._source.index} of {self._source.count}")
            raise
        self._state = before
        return result
