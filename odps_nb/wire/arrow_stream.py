"""Checks that an Arrow IPC stream is complete, from its first message to its end marker.

Reads only the message envelopes; higher layers parse the batches with pyarrow. pyarrow accepts a
stream that stops at a message boundary as complete (``docs/protocol.md`` section 5.5), so the end
marker is required here.

::

    | ff ff ff ff | i32 LE | metadata | body |   next message …   | ff ff ff ff 00 00 00 00 |
"""

from __future__ import annotations

from typing import Literal

from odps_nb.errors import FramingError, OversizeError, StateError, TruncatedError
from odps_nb.terms import Compression
from odps_nb.wire._ipc_message import IpcMessage, parse_message
from odps_nb.wire._push import BytesLike
from odps_nb.wire.codings import HTTP_NAMES, coding_of, sniff

CONTINUATION = b"\xff\xff\xff\xff"
"""The continuation marker: the four bytes before every message."""
END_MARKER = CONTINUATION + b"\x00\x00\x00\x00"
"""A message of length zero, which ends the stream."""
DEFAULT_MAX_METADATA = 16 << 20
"""Maximum bytes of one message's metadata."""
DEFAULT_MAX_BODY = 2 << 30
"""Maximum bytes of one batch before decompression."""
DEFAULT_MAX_DECOMPRESSED = 512 << 20
"""Maximum decompressed bytes of a batch: twice the largest ``MaxBatchRawSize``."""

_PREFIX_SIZE = 8  # continuation marker and metadata length
_PROMISE = 8
_FREE_LENGTH = 1 << 20
"""Number of values always allowed in a column whose values need no bytes, such as nulls."""
_BITS = 8


class _BodyNeeds:
    """Running total of the decompressed sizes that a body's buffers declare.

    A non-empty buffer begins with an i64: its decompressed size, or -1 if it is not compressed.
    A body of 100 kB may declare gigabytes, and Arrow allocates the declared size.

    The constructor and `feed` raise `OversizeError` if the buffers together need more than
    ``limit`` bytes or a column has more values than its bytes allow. `feed` raises `FramingError`
    if a length is negative.
    """

    __slots__ = ("_at", "_held", "_limit", "_longest", "_next", "_promised", "_promises", "_stored")

    def __init__(self, message: IpcMessage, limit: int) -> None:
        self._promises, self._stored, self._longest = (
            message.promises,
            message.stored,  # at most the body size, which the caller limits
            message.longest,
        )
        self._limit = limit
        self._at = self._next = self._promised = 0
        self._held = bytearray()
        if self.known:
            self._check_lengths()

    @property
    def known(self) -> bool:
        """Whether all declared sizes have been read."""
        return self._next == len(self._promises)

    def feed(self, view: memoryview) -> None:
        """Read the next bytes of the body; chunks may end anywhere."""
        end = self._at + len(view)
        while not self.known:
            start = self._promises[self._next] + len(self._held)
            if start >= end:
                break
            skipped = start - self._at
            self._held += view[skipped : skipped + _PROMISE - len(self._held)]
            if len(self._held) < _PROMISE:
                break
            self._count(int.from_bytes(self._held, "little", signed=True))
            self._held.clear()
            self._next += 1
            if self.known:
                self._check_lengths()
        self._at = end

    def _count(self, promised: int) -> None:
        if promised < -1:
            raise FramingError(f"an Arrow buffer declares the invalid decompressed size {promised}")
        self._promised += max(0, promised)
        if self._promised > self._limit:
            raise OversizeError(
                f"an Arrow batch of {self._stored} bytes needs at least {self._promised} bytes "
                f"after decompression; the limit is {self._limit}",
                limit=self._limit,
                actual=self._promised,
                hint="read in smaller batches; if this recurs, the stream is damaged",
            )

    def _check_lengths(self) -> None:
        size = self._stored + self._promised
        accounted = max(_FREE_LENGTH, _BITS * size)
        if self._longest > accounted:
            raise OversizeError(
                f"an Arrow batch of {size} bytes declares a column of {self._longest} values; "
                f"the limit for this size is {accounted}",
                limit=accounted,
                actual=self._longest,
                hint="read in smaller batches; if this recurs, the stream is damaged",
            )


class EndMarkerCheck:
    """Checks a stream message by message, up to its end marker, while the stream is read.

    Bytes inside a batch that look like the end marker are ignored, and no byte may follow the
    marker. Feed bytes here before Arrow reads them, so the decompressed size of a batch is checked
    before Arrow allocates it.
    """

    __slots__ = (
        "_batches",
        "_held",
        "_max_body",
        "_max_decompressed",
        "_max_metadata",
        "_needs",
        "_rows",
        "_skip",
        "_state",
        "_total",
        "_wanted",
    )

    def __init__(
        self,
        *,
        max_metadata: int = DEFAULT_MAX_METADATA,
        max_body: int = DEFAULT_MAX_BODY,
        max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
    ) -> None:
        self._max_metadata, self._max_body = max_metadata, max_body
        self._max_decompressed = max_decompressed
        self._needs: _BodyNeeds | None = None  # declared sizes in the current body
        self._held = bytearray()
        self._wanted = _PREFIX_SIZE
        self._state = "prefix"  # | "metadata" | "complete" | "failed"
        self._skip = 0  # remaining bytes of the current body
        self._total = self._rows = 0

    def feed(self, chunk: BytesLike) -> None:
        """Check the next bytes of the decoded stream; chunks may end anywhere."""
        if self._state == "failed":
            raise StateError("this stream has failed; bytes after an error cannot be decoded")
        before, self._state = self._state, "failed"
        self._state = self._walk(memoryview(chunk).cast("B"), before)
        self._total += len(chunk)

    def _walk(self, view: memoryview, state: str) -> str:
        at = 0
        while at < len(view):
            if state == "complete":
                raise FramingError(
                    "bytes follow the end marker of the Arrow stream", offset=self._total + at
                )
            if self._skip:
                step = min(self._skip, len(view) - at)
                if self._needs is not None:
                    self._needs.feed(view[at : at + step])
                self._skip -= step
            else:
                step = min(self._wanted - len(self._held), len(view) - at)
                self._held += view[at : at + step]
                if len(self._held) == self._wanted:
                    state = self._take_part(bytes(self._held), state, self._total + at)
            at += step
        return state

    def _take_part(self, part: bytes, state: str, offset: int) -> str:
        self._held = bytearray()
        if state == "metadata":
            message = parse_message(part)
            self._check_size(message.body_length, self._max_body, "body", offset)
            self._skip, self._wanted = message.body_length, _PREFIX_SIZE
            needs = _BodyNeeds(message, self._max_decompressed)
            self._needs = None if needs.known else needs
            self._rows += message.rows
            return "prefix"
        if part == END_MARKER:
            return "complete"
        size = int.from_bytes(part[4:], "little", signed=True)
        if part[:4] != CONTINUATION or size <= 0:
            raise FramingError(f"{part.hex(' ')} does not begin an Arrow message", offset=offset)
        self._check_size(size, self._max_metadata, "metadata", offset)
        self._wanted = size
        return "metadata"

    @staticmethod
    def _check_size(size: int, limit: int, what: str, offset: int) -> None:
        if size > limit:
            raise OversizeError(
                f"the {what} of an Arrow message has {size} bytes; the limit is {limit}",
                offset=offset,
                limit=limit,
                actual=size,
                hint=f"read in smaller batches, or increase max_{what}",
            )

    @property
    def complete(self) -> bool:
        """Whether the stream has ended with its end marker."""
        return self._state == "complete"

    @property
    def between_messages(self) -> bool:
        """Whether the next byte begins a message, or follows the end marker."""
        return self._state in ("prefix", "complete") and not (self._held or self._skip)

    @property
    def total(self) -> int:
        """Number of bytes read so far."""
        return self._total

    @property
    def rows(self) -> int:
        """Number of rows in all record batches that have started so far."""
        return self._rows

    def require(self, *, rows: int | None = None) -> None:
        """Raise unless the stream is complete and, if ``rows`` is set, has that many rows."""
        if not self.complete:
            raise TruncatedError(
                f"the Arrow stream ends after {self._total} bytes without its end marker",
                offset=self._total,
                actual=self._total,
                hint="read the split again or resume it; batches are missing",
            )
        if rows is None or rows == self._rows:
            return
        message = f"the Arrow stream has {self._rows} rows, but {rows} were expected"
        if self._rows < rows:
            raise TruncatedError(message, offset=self._total, expected=rows, actual=self._rows)
        raise FramingError(message, offset=self._total)


def sniff_body(
    first4: BytesLike, content_encoding: str | Compression | None
) -> Literal["ipc"] | Compression:
    """Return the content coding of an IPC stream (``docs/protocol.md`` section 5.5).

    ``first4``: the first four bytes of the body. ``content_encoding``: the header's value, which
    must agree with the bytes if it is present.
    """
    head = bytes(first4[:4])
    if len(head) < 4:
        raise TruncatedError(
            f"the body ends after {len(head)} bytes; an Arrow stream is longer",
            offset=len(head),
            expected=4,
            actual=len(head),
        )
    declared = coding_of(content_encoding)
    found: Literal["ipc"] | Compression | None = "ipc" if head == CONTINUATION else sniff(head)
    if found is None:
        raise FramingError(
            f"the body begins with {head.hex(' ')}, which is not Arrow, zstd or LZ4",
            offset=0,
            hint="check the proxies on the way to the service: one may compress or change bodies",
        )
    if declared is not Compression.NONE and found is not declared:
        raise FramingError(
            f"the header says {HTTP_NAMES[declared]}, but the body begins with {head.hex(' ')}",
            offset=0,
        )
    return found
