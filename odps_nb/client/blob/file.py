"""Reads one blob as a file, from front to back.

`read` returns only verified bytes, and only one piece is in memory at a time. After a broken
connection, the blob is requested again, and the bytes that were already returned are verified and
skipped.
"""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from odps_nb.client.blob.response import DeliveredPrefix, blob_events, raw_size, unknown_blob
from odps_nb.client.calls.attempts import Attempts
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import NotFoundError, OdpsNbError, StateError
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import BlobReference, format_bytes
from odps_nb.wire.calls import ReadBlobs
from odps_nb.wire.frames import BlobData, BlobEvent


class PieceFile(io.RawIOBase):
    """Base class of binary files that are received from front to back, one piece at a time.

    Unlike `io.RawIOBase.read`, `read` returns fewer bytes than requested only at the blob's end.
    """

    when_closed: ClassVar[str] = "open it again"
    """Hint in the error that is raised when a closed file is read."""

    def __init__(self) -> None:
        super().__init__()
        self._piece = memoryview(b"")
        self._at = 0  # number of bytes already read

    @abstractmethod
    def _next_piece(self) -> bytes | memoryview | None:
        """Return the next piece (possibly empty), or ``None`` at the end."""

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def tell(self) -> int:
        """Return the number of bytes read so far."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``, or stop at the end of the blob; return the number of bytes read."""
        view = memoryview(buffer).cast("B")
        at = 0
        while at < len(view) and self._load():
            part = self._piece[: len(view) - at]
            view[at : at + len(part)] = part
            self._piece = self._piece[len(part) :]
            at += len(part)
            self._at += len(part)
        return at

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes, or fewer at the end; if negative or ``None``, all that remain."""
        return super().read(-1 if size is None else size) or b""

    def readall(self) -> bytes:
        """Return all remaining bytes."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Iterate over the remaining bytes in pieces, as they arrive."""
        while self._load():
            piece, self._piece = self._piece, memoryview(b"")
            self._at += len(piece)
            yield bytes(piece)

    def close(self) -> None:
        """Drop the unread bytes. Idempotent."""
        self._piece = memoryview(b"")
        super().close()

    def _load(self) -> bool:
        """Load the next piece if the current one is used up; return ``False`` at the end."""
        if self.closed:
            raise StateError("the blob is closed", hint=self.when_closed)
        while not self._piece:
            piece = self._next_piece()
            if piece is None:
                return False
            self._piece = memoryview(piece)
        return True


class BlobFile(PieceFile):
    """One blob as a binary file with `read`, `readinto` and `close`, but without seeking.

    Unlike `io.RawIOBase.read`, `read` returns fewer bytes than requested only at the blob's end.
    """

    def __init__(self, storage: StorageClient, request: ReadBlobs, attempts: Attempts) -> None:
        super().__init__()
        self._storage, self._request, self._attempts = storage, request, attempts
        self._response: HttpResponse | None = None
        self._events: Iterator[BlobEvent] = iter(())
        self._delivered = DeliveredPrefix()  # counts verified bytes, up to the current piece
        self.reference: BlobReference = request.references[0]
        """The reference of the blob."""
        self.size: int | None = None
        """Size in bytes; ``None`` if it is not known before the end of the blob."""
        self.verified: bool = False
        """Whether the whole blob was read, with matching checksums and length."""
        self._ended = False

    def receive_freely(self) -> None:
        """Remove the limit on the kernel's receive buffer that `open_blob` set."""
        self._attempts.receive_buffer = None  # applies to connections opened later
        if self._response is not None:
            self._response.receive_freely()

    def close(self) -> None:
        """Release the connection. Idempotent."""
        self._drop()
        self._attempts.stop()
        super().close()

    def start(self) -> BlobFile:
        """Send the request now, so that a missing blob raises immediately; return this file."""
        try:
            self._attempts.run(self._open, idempotent=True)
        except NotFoundError as error:
            raise unknown_blob(error, self.reference, self._attempts.what) from error
        return self

    def __repr__(self) -> str:
        size = "size unknown" if self.size is None else format_bytes(self.size)
        state = "closed" if self.closed else f"at {self.tell()}"
        return f"<BlobFile {self.reference!r} {size}, {state}>"

    def _open(self) -> None:
        self._drop()  # a failed attempt may have left a response
        response = self._storage.open(self._request, attempts=self._attempts)
        self._response = response
        self._events = blob_events(response, 1)
        self.size = raw_size(response)
        self._delivered.restart()

    def _next_piece(self) -> memoryview | None:
        """Return the next verified piece; ``None`` at the end of the blob."""
        self._attempts.progressed()  # time between reads does not count toward the deadline
        while not self._ended:
            try:
                if self._response is None:
                    self._open()
                return self._take_piece()
            except OdpsNbError as error:
                self._drop()
                resume = f"byte {self._delivered.size}" if self._delivered.size else None
                self._attempts.again(error, idempotent=True, resume=resume)
        return None

    def _take_piece(self) -> memoryview | None:
        for event in self._events:
            if isinstance(event, BlobData) and (
                piece := self._delivered.skip_delivered(event.data)
            ):
                self._delivered.add(piece)
                return piece
        self._delivered.finish()
        self._end()
        return None

    def _end(self) -> None:
        response, self._ended, self.size = self._response, True, self._delivered.size
        self.verified = response is not None and response.is_delimited
        self._drop()

    def _drop(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()


def open_blob(
    storage: StorageClient,
    reference: BlobReference,
    *,
    cancel: CancelToken | None = None,
    receive_buffer: int | None = None,
) -> BlobFile:
    """Open a blob as a file by sending one request; the caller closes it.

    ``receive_buffer`` limits the bytes that the kernel receives ahead; ``None``: no limit.
    """
    attempts = storage.attempts(f"BlobRead of {reference!r}", cancel=cancel)
    attempts.receive_buffer = receive_buffer
    return BlobFile(storage, ReadBlobs(references=(reference,)), attempts).start()
