"""Uploads blobs (``docs/protocol.md`` sections 6.1 and 6.2).

Small blobs share a request; a large one has its own. Files are read in pieces, never as a whole.
The count, sizes and MD5s in the response must match the blobs that were sent.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker, Sending
from odps_nb.client.calls.responses import CallUpload
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import ArgumentError, ChecksumError, FramingError, a_type
from odps_nb.terms import BlobReference, PartitionSpec
from odps_nb.wire.calls import WriteBlob, WriteBlobAnswer, WriteBlobBatch
from odps_nb.wire.frames import FrameEncoder, FrameHeader

BATCH_COUNT = 512
BATCH_BYTES = 32 * 2**20
PIECE = 1 << 18
SPOOLED = 8 * 2**20  # maximum bytes of an unseekable file to keep in memory
MAX_BLOB = 5 * 2**30  # 5 GB (vendor's manual; ``docs/protocol.md`` section 6.1)

BlobContent = bytes | bytearray | memoryview | os.PathLike[str] | IO[bytes]
BlobItem = (
    tuple[BlobContent, str | None, str | None] | tuple[BlobContent, str | None, str | None, bytes]
)
"""Content, media type, file name and, in a primary-key table, the distribution key of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A blob's content, which can be read again for retries; ``size`` is in bytes.

    ``modified``: when the file was modified, in nanoseconds since 1970, if the content is a path.
    """

    content: Any
    start: int
    size: int
    mime_type: str | None
    file_name: str | None
    key: bytes | None = None
    is_copy: bool = False
    modified: int | None = None

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Iterate over exactly ``size`` bytes of the content, from its start.

        Files are read as ``bytes``, which are sent without another copy.
        """
        if isinstance(self.content, memoryview):
            for at in range(0, self.size, PIECE):
                yield self.content[at : at + PIECE]
            return
        with self._opened() as file:
            left = self.size
            while left and (data := file.read(min(PIECE, left))):
                left -= len(data)
                yield data
            if left:
                raise FramingError(
                    f"{left} bytes are missing at the end of {self.content!r}",
                    hint="do not change the file during the upload",
                )
            if self.modified is not None:
                self._require_unchanged(os.fstat(file.fileno()))

    def _require_unchanged(self, now: os.stat_result) -> None:
        """Raise if the file may have been written while it was read."""
        if (now.st_size, now.st_mtime_ns) != (self.size, self.modified):
            error = FramingError(
                f"{self.content} changed while it was being sent",
                hint="repeat the call while no other program changes the file",
            )
            error.lasts = True  # another attempt would compare it with the same state
            raise error

    @contextlib.contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if isinstance(self.content, Path):
            with _file_errors(self.content):
                file = open_file(self.content)
            with file:
                yield file
        else:
            self.content.seek(self.start)
            yield self.content


def open_file(path: Path) -> IO[bytes]:
    """Open a file unbuffered and without blocking; raise `OSError` for a pipe, device or folder."""
    file = open(path, "rb", buffering=0, opener=_without_waiting)  # noqa: SIM115  caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextlib.contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Convert an `OSError` into an `ArgumentError` that names the file."""
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be read: {error.strerror or error}",
            argument="data",
            hint="check that the file exists, is readable, and is not replaced during the upload",
        ) from error


def _source(item: BlobItem, files: contextlib.ExitStack) -> _Source:
    content, mime_type, file_name, *key = item
    known: dict[str, Any] = {"mime_type": mime_type, "file_name": file_name}
    known["key"] = key[0] if key else None
    if isinstance(content, (bytes, bytearray, memoryview)):
        view = memoryview(content).cast("B")
        return _Source(content=view, start=0, size=len(view), **known)
    if isinstance(content, os.PathLike):
        path = Path(content)
        with _file_errors(path):
            status = path.stat()
        known["modified"] = status.st_mtime_ns
        return _Source(content=path, start=0, size=status.st_size, **known)
    if not callable(getattr(content, "read", None)):
        raise ArgumentError(
            f"a blob cannot be created from {a_type(type(content))}",
            argument="data",
            hint="pass bytes, a path or a binary file",
        )
    is_copy = not getattr(content, "seekable", lambda: hasattr(content, "seek"))()
    if is_copy:
        content = _spool(content, files)
    start = content.tell()
    content.seek(0, io.SEEK_END)  # some files' seek() returns None
    size = content.tell() - start
    return _Source(content=content, start=start, size=size, is_copy=is_copy, **known)


def _checked(source: _Source) -> _Source:
    name = source.file_name or getattr(source.content, "name", None)
    require_size(name or "the content of a blob", source.size)
    return source


def require_size(name: str, size: int) -> None:
    """Raise unless a blob of ``size`` bytes can be stored."""
    if size > MAX_BLOB:
        raise ArgumentError(
            f"{name} has {size:,} bytes; the maximum for a BLOB is 5 GiB",
            argument="data",
            hint="split it across several rows",
        )


def _spool(stream: IO[bytes], files: contextlib.ExitStack) -> IO[bytes]:
    """Copy a stream that cannot be rewound, so that its content can be sent again."""
    spool = tempfile.SpooledTemporaryFile(max_size=SPOOLED)  # noqa: SIM115  closed by files
    copy: IO[bytes] = files.enter_context(spool)
    while copy.tell() <= MAX_BLOB and (data := stream.read(PIECE)):  # longer streams are rejected
        copy.write(data)
    copy.seek(0)
    return copy


def _groups(sources: Iterable[_Source]) -> Iterator[list[_Source]]:
    held: list[_Source] = []
    size = 0
    for source in sources:
        if held and (len(held) >= BATCH_COUNT or size + source.size > BATCH_BYTES):
            yield held
            held, size = [], 0
        held.append(source)
        size += source.size
    if held:
        yield held


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobUploader:
    """Uploads blobs into one BLOB column of a write stream."""

    storage: StorageClient
    stream: Mapping[str, Any]
    """Fields that identify the write stream in each request: table, session, id, version, token."""
    partition: PartitionSpec
    column_id: int
    tracker: ProgressTracker = field(repr=False)
    cancel: CancelToken | None = field(repr=False, default=None)

    def upload(self, items: Iterable[BlobItem]) -> list[BlobReference]:
        """Upload blobs; return one reference per blob, in order."""
        self.partition.checked()
        self.tracker.phase(Phase.UPLOADING)
        references: list[BlobReference] = []
        with contextlib.ExitStack() as files:
            for group in _groups(_checked(_source(item, files)) for item in items):
                references += self._send(group)
                for source in group:
                    if source.is_copy:  # close now: hundreds of copies would need gigabytes
                        source.content.close()
        return references

    def _send(self, group: list[_Source]) -> tuple[BlobReference, ...]:
        """Upload one group in one request, with retries, because repeating it is harmless."""
        attempts = self.storage.attempts(
            f"TableWriteBlob of {len(group)} blobs into stream {self.stream['stream_id']} "
            f"of {self.stream['table']}",
            tracker=self.tracker,
            cancel=self.cancel,
        )
        first = group[0]
        named = any(value is not None for value in (first.mime_type, first.file_name, first.key))
        alone = len(group) == 1 and not named
        request: WriteBlob | WriteBlobBatch = (
            WriteBlob(partition=self.partition, column_id=self.column_id, **self.stream)
            if alone
            else WriteBlobBatch(**self.stream)
        )

        def once() -> tuple[Sending, WriteBlobAnswer]:
            sending = Sending()
            with self.tracker.sending(sending):
                with self.storage.upload(request, attempts=attempts) as upload:
                    body = _Body(upload, sending)
                    answer = body.single(first) if alone else body.frames(group, self._header)
                self._check(answer, group)
            return sending, answer

        sending, answer = attempts.run(once, idempotent=True)
        self._tell(sending.wire_bytes, group, compared=not alone or answer.md5 is not None)
        return answer.references

    def _header(self, source: _Source) -> FrameHeader:
        return FrameHeader(
            partition_values=tuple(f"{key}={value}" for key, value in self.partition.checked()),
            column_index=self.column_id,
            distribution_key=source.key,
            content_type=source.mime_type,
            custom_file_name=source.file_name,
        )

    def _check(self, answer: WriteBlobAnswer, group: list[_Source]) -> None:
        if len(answer.references) != len(group):
            raise FramingError(
                f"the response has {len(answer.references)} references for {len(group)} blobs"
            )
        size = sum(source.size for source in group)
        if answer.size is not None and answer.size != size:
            raise ChecksumError(
                f"the server stored {answer.size} of {size} bytes",
                expected=size,
                actual=answer.size,
            )

    def _tell(self, wire_bytes: int, group: list[_Source], *, compared: bool) -> None:
        """Count blobs as progress; ``compared``: whether their checksums were verified."""
        size = sum(source.size for source in group)
        self.tracker.add(
            items=len(group),
            item_bytes=size,
            wire_bytes=wire_bytes,
            decoded_bytes=size,
            complete_bytes=0 if compared else size,
            verified_bytes=size if compared else 0,
        )


class _Body:
    """The body of one upload."""

    def __init__(self, upload: CallUpload[WriteBlobAnswer], sending: Sending) -> None:
        self._upload, self._sending = upload, sending

    def single(self, source: _Source) -> WriteBlobAnswer:
        """Send one blob without a frame; raise if the server returns a different MD5."""
        digest = hashlib.md5(usedforsecurity=False)
        self._sending.begin(source.file_name, source.size)
        for piece in source.pieces():
            digest.update(piece)
            self._write(piece)
            self._sending.add(len(piece))
        answer = self._finish()
        if answer.md5 is not None and answer.md5.lower() != digest.hexdigest():
            raise ChecksumError(
                "the server's MD5 of the blob differs from that of the bytes sent",
                expected=digest.hexdigest(),
                actual=answer.md5,
            )
        return answer

    def frames(
        self, group: list[_Source], header: Callable[[_Source], FrameHeader]
    ) -> WriteBlobAnswer:
        """Send one frame per blob; each has a checksum, which the server verifies."""
        for source in group:
            frame = FrameEncoder(header(source), length=source.size)
            self._write(frame.begin())
            self._sending.begin(source.file_name, source.size)
            for piece in source.pieces():
                self._write(frame.feed(piece))
                self._sending.add(len(piece))
            self._write(frame.finish())
        return self._finish()

    def _write(self, data: bytes | memoryview) -> None:
        self._upload.write(data)
        self._sending.wire_bytes = self._upload.sent_bytes

    def _finish(self) -> WriteBlobAnswer:
        answer = self._upload.finish()
        self._sending.wire_bytes = self._upload.sent_bytes
        return answer
