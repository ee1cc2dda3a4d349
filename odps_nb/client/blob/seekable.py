"""Opens one blob as a seekable file.

Fetched bytes are kept, because the protocol does not support range requests for blobs.
"""

from __future__ import annotations

import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from odps_nb.client.blob.file import BlobFile, open_blob
from odps_nb.client.blob_cache import BlobCache, CachedBlob
from odps_nb.errors import (
    ChecksumError,
    ConfigError,
    LimitExceededError,
    StateError,
    TruncatedError,
)
from odps_nb.lifetime import Home
from odps_nb.terms import BlobReference, format_bytes

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

MEMORY = 8 << 20
"""Maximum bytes of a blob to keep in memory; a larger blob is kept in a file."""
_PIECE = 1 << 20


class Spool(CachedBlob):
    """Bytes received in order, in memory or, above a limit, in an unnamed temporary file."""

    size: int

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), 0)

    def append(self, piece: bytes) -> None:
        """Append a piece; after an error or an interrupt, none of its bytes are kept."""
        try:
            if isinstance(self._file, io.BytesIO) and self.size + len(piece) > MEMORY:
                self._move(self._file)
            self._file.seek(self.size)
            _write(self._file, piece)
        except OSError as error:
            raise ConfigError(
                f"a blob cannot be kept in a temporary file: {error.strerror}",
                option="TMPDIR",
                hint="free some space, or set TMPDIR to a folder with space for the whole blob",
            ) from error
        self.size += len(piece)

    def pieces(self) -> Iterator[bytes]:
        """Iterate over all bytes in pieces."""
        for offset in range(0, self.size, _PIECE):
            piece = bytearray(min(_PIECE, self.size - offset))
            self.read_at(offset, memoryview(piece))
            yield bytes(piece)

    def _move(self, before: io.BytesIO) -> None:
        # The file is unbuffered, because a forked child would write a filled buffer again.
        file = tempfile.TemporaryFile(prefix="odps-nb-", buffering=0)  # noqa: SIM115  closed by close()
        try:
            with before.getbuffer() as held:
                _write(file, held[: self.size])
        except BaseException:
            file.close()
            raise
        before.close()
        self._file = file


def _write(file: io.BytesIO | io.FileIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


RECEIVE_BUFFER = 128 << 10
"""Size of the socket's receive buffer in bytes, used until the whole blob is needed."""
_AHEAD = 64 << 10  # bytes to read ahead; few, because many files are not read to the end


class SeekableBlob(io.RawIOBase):
    """One blob as a seekable binary file, for zipfile, Pillow, pyarrow, PyAV and others.

    Created by `odps_nb.Blob.open` with ``seek=True``; the caller closes it. It returns only
    verified bytes. Threads may share it; a forked child must open its own.

    The protocol does not support ranges, so a read fetches the blob from its first byte to the last
    requested one, and at most 1 MiB more. After the first 8 MiB, the operating system may buffer a
    few MiB ahead. Fetched bytes are kept until `close`: up to 8 MiB in memory, more in an unnamed
    temporary file. `seek` fetches no bytes, but with ``whence=2`` it may send a request for the
    size.

    `read` returns fewer bytes than requested only at the end of the blob.
    """

    def __init__(
        self,
        reference: BlobReference,
        kept: CachedBlob,
        *,
        fetch: Callable[[], BlobFile] | None = None,
        ask_size: Callable[[], int] | None = None,
        when_whole: Callable[[Spool], None] | None = None,
    ) -> None:
        super().__init__()
        self.reference: BlobReference = reference
        """The reference of the blob."""
        self._kept = kept
        self._fetch, self._ask_size, self._when_whole = fetch, ask_size, when_whole
        self._stream: BlobFile | None = None
        self._whole = fetch is None
        self.verified: bool = self._whole
        """Whether the whole blob was fetched, with matching checksums and length."""
        self._size = kept.size if self._whole else None
        self._at = 0
        self._lock, self._home = threading.RLock(), Home()

    def start(self) -> SeekableBlob:
        """Send the request now, so that a missing blob raises immediately; return this file."""
        if self._fetch is not None:
            self._stream = self._fetch()
            self._size = self._stream.size
        return self

    @property
    def size(self) -> int:
        """Size in bytes; if unknown, fetched with one small request."""
        self._require_open()
        with self._lock:
            if self._size is None and self._ask_size is not None:
                self._size = self._ask_size()
            assert self._size is not None  # the size is known once the whole blob was fetched
            return self._size

    @property
    def fetched(self) -> int:
        """Number of bytes fetched so far, from the start of the blob."""
        return self._kept.size

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def seekable(self) -> bool:
        """Return ``True``."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte to read."""
        self._require_open()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set and return the position of the next `read`; raise `ValueError` if negative."""
        self._require_open()
        with self._lock:
            if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
                raise ValueError(f"whence must be 0, 1 or 2, not {whence!r}")
            base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
            position = offset + (self.size if base is None else base)
            if position < 0:
                raise ValueError(f"the position must not be negative, but is {position}")
            self._at = position
            return position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return ``size`` bytes, or fewer at the end; if negative or ``None``, all that remain.

        After an error, the next call retries.
        """
        self._require_open()
        with self._lock:
            end = None if size is None or size < 0 else self._at + size
            self._reach(end)
            there = max(0, self._kept.size - self._at)
            buffer = bytearray(there if end is None else min(there, end - self._at))
            self._take(memoryview(buffer))
            return bytes(buffer)

    def readall(self) -> bytes:
        """Return all remaining bytes."""
        return self.read(-1)

    def read1(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, like `read`. Text wrappers call this method."""
        return self.read(_PIECE if size < 0 else size)

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer``, or stop at the end of the blob; return the number of bytes read."""
        self._require_open()
        with self._lock, memoryview(buffer).cast("B") as view:
            self._reach(self._at + len(view))
            return self._take(view)

    def peek(self, size: int = 0, /) -> bytes:
        """Return some of the next bytes without moving the position; empty only at the end."""
        self._require_open()
        with self._lock:
            at, data = self._at, self.read(max(1, min(size, _PIECE)) if size else 8192)
            self._at = at
            return data

    def close(self) -> None:
        """Release the connection and the kept bytes. Idempotent."""
        if self.closed:
            return
        if not self._home.is_here:  # a parent's thread may have held the lock at the fork
            super().close()
            return
        with self._lock:
            super().close()
            self._drop()
            self._kept.close()

    def __repr__(self) -> str:
        size = "size unknown" if self._size is None else format_bytes(self._size)
        state = "closed" if self.closed else f"at {self._at}, {format_bytes(self.fetched)} fetched"
        return f"<SeekableBlob {self.reference!r} {size}, {state}>"

    def _require_open(self) -> None:
        self._home.require("this file")  # a forked child would move the parent's file position
        if self.closed:
            raise StateError("the blob is closed", hint="open it again")

    def _take(self, view: memoryview) -> int:
        count = self._kept.read_at(self._at, view)
        self._at += count
        return count

    # -- fetching -----------------------------------------------------------------------------

    def _reach(self, end: int | None) -> None:
        """Fetch the bytes before ``end`` and a few more; ``None`` fetches the rest of the blob."""
        if self._whole or (end is not None and end <= self._kept.size):
            return
        goal = None if end is None else end + _AHEAD
        if goal is not None and self._size is not None and goal >= self._size:
            goal = None
        try:
            stream = self._open_stream()
            # The caller needs more than a header, and a small receive buffer would be slow.
            if goal is None or self._kept.size >= MEMORY:
                stream.receive_freely()
            while not self._whole and (goal is None or self._kept.size < goal):
                self._fetch_piece(stream, goal)
        except BaseException:  # an interrupt may lose a piece that is not in the spool yet
            self._drop()
            raise

    def _fetch_piece(self, stream: BlobFile, goal: int | None) -> None:
        assert isinstance(self._kept, Spool)  # the blob is still incomplete
        end = goal
        if end is None and self._size is not None:
            end = self._size + 1  # one byte beyond the blob, to reach the end of the stream
        left = _PIECE if end is None else end - self._kept.size
        count = max(1, min(_PIECE, left))
        piece = stream.read(count)
        self._kept.append(piece)
        if len(piece) < count:
            self._finish(stream, self._kept)

    def _finish(self, stream: BlobFile, spool: Spool) -> None:
        if self._size is not None and spool.size != self._size:
            raise TruncatedError(
                f"the blob has {spool.size:,} bytes, but its header states {self._size:,}",
                expected=self._size,
                actual=spool.size,
                hint="read it again; if this recurs, tell the owner of the table",
            )
        self.verified = stream.verified
        self._drop()
        self._size, self._whole = spool.size, True
        if self.verified and self._when_whole is not None:
            self._when_whole(spool)

    def _open_stream(self) -> BlobFile:
        if self._stream is None and self._fetch is not None:
            self._stream = self._fetch()
            self._skip_kept(self._stream)
        assert self._stream is not None  # the blob is still incomplete
        return self._stream

    def _skip_kept(self, stream: BlobFile) -> None:
        """Skip the bytes that were already fetched; raise if they have changed."""
        offset, before = 0, bytearray(_PIECE)
        while offset < self._kept.size:
            count = self._kept.read_at(offset, memoryview(before))
            if stream.read(count) != before[:count]:
                raise ChecksumError(
                    "the blob has changed since it was opened",
                    offset=offset,
                    hint="open it again",
                )
            offset += count

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def open_seekable(
    storage: StorageClient,
    reference: BlobReference,
    *,
    cache: BlobCache | None,
    ask_size: Callable[[], int] | None,
) -> SeekableBlob:
    """Open a seekable blob from the cache, or with one request if it is not cached.

    ``ask_size`` is called if the size is needed but unknown.
    """
    cached = None if cache is None else cache.find(reference)
    if cached is not None:
        return SeekableBlob(reference, cached)

    def fetch() -> BlobFile:
        cancel = storage.operation()
        return open_blob(storage, reference, cancel=cancel, receive_buffer=RECEIVE_BUFFER)

    def keep(spool: Spool) -> None:
        if cache is not None:
            cache.keep(reference, spool.size, spool.pieces())

    spool = Spool()
    try:
        return SeekableBlob(
            reference, spool, fetch=fetch, ask_size=ask_size, when_whole=keep
        ).start()
    except BaseException:
        spool.close()
        raise


def read_whole(
    storage: StorageClient, reference: BlobReference, *, cache: BlobCache | None, max_bytes: int
) -> bytes:
    """Return a blob's bytes from the cache, or with one request if it is not cached."""
    cached = None if cache is None else cache.find(reference)
    if cached is not None:
        with SeekableBlob(reference, cached) as file:
            _require_size(file.size, max_bytes)
            return file.read()
    with open_blob(storage, reference, cancel=storage.operation()) as stream:
        _require_size(stream.size or 0, max_bytes)
        pieces, held = [], 0
        for piece in stream.pieces():
            pieces.append(piece)
            held += len(piece)
            _require_size(held, max_bytes)
        data = b"".join(pieces)
        if cache is not None and stream.verified:
            cache.keep(reference, len(data), [data])
    return data


def _require_size(size: int, limit: int) -> None:
    if size > limit:
        raise LimitExceededError(
            f"the blob has more than {format_bytes(limit)}",
            limit=limit,
            actual=size,
            hint="pass a larger max_bytes=, or read only part of the blob: blob.open(seek=True)",
        )
