"""Blobs that are fetched together (floor 3): one record each, resumed at the blob that failed.

Must not know: how batches are cut, or that there are others at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odps_nb.client.blob_stream import blob_events
from odps_nb.client.cancel import CancelToken
from odps_nb.client.progress import ProgressTracker
from odps_nb.client.storage import StorageClient
from odps_nb.errors import FramingError, NotFoundError, OdpsNbError
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import BlobReference, Compression, format_bytes
from odps_nb.wire.calls import ReadBlobs
from odps_nb.wire.frames import BlobData, BlobEnd, BlobEvent, BlobStart

__all__ = ["BlobBatch", "BlobRecord", "unknown_blob"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRecord:
    """One whole blob.

    ``mime_type`` and ``custom_file_name`` are known when the blob came in a batch. ``verified``
    says that its checksums and its length were proved; it is false only for a single blob
    from a server that does not tell the length of its body.
    """

    data: bytes
    mime_type: str | None = None
    custom_file_name: str | None = None
    verified: bool = False
    reference: BlobReference | None = None

    def __repr__(self) -> str:
        return (
            f"BlobRecord(<{format_bytes(len(self.data))}>, mime_type={self.mime_type!r}, "
            f"custom_file_name={self.custom_file_name!r}, verified={self.verified})"
        )


@dataclass(slots=True)
class _Answer:
    """An answer that is being read: how many blobs it still owes, and its events."""

    response: HttpResponse
    events: Iterator[BlobEvent]
    owed: int
    framed: bool
    doubled: bool  # one reference, asked for twice to get it in a frame
    told: int = 0  # wire bytes that the tracker knows of


class BlobBatch:
    """References that are fetched together, in as few requests as it takes.

    Parameters
    ----------
    first
        Number of the first reference in the whole job, for messages.
    framed
        Whether metadata is wanted even when a single blob is left to ask for.
    """

    def __init__(
        self,
        storage: StorageClient,
        references: Sequence[BlobReference],
        *,
        first: int,
        compression: Compression,
        max_blob: int,
        framed: bool,
        tracker: ProgressTracker | None,
        cancel: CancelToken,
    ) -> None:
        self._storage, self._references, self._first = storage, references, first
        self._compression, self._max_blob, self._framed = compression, max_blob, framed
        self._tracker, self._cancel = tracker, cancel
        self._unique = list(dict.fromkeys(references))
        self._window = len(self._unique)  # references of one request
        self._done = 0
        self._answer: _Answer | None = None
        self._attempts = storage.attempts(
            f"BlobRead of {len(self._unique)} blobs from number {first}",
            tracker=tracker,
            cancel=cancel,
        )

    def records(self) -> Iterator[BlobRecord]:
        """Iterate over one record per reference; leaving early closes the connection."""
        left = Counter(self._references)
        kept: dict[BlobReference, BlobRecord] = {}
        with self._attempts:
            try:
                for reference in self._references:
                    record = kept.pop(reference, None) or self._next()
                    left[reference] -= 1
                    if left[reference]:
                        kept[reference] = record
                    if self._tracker is not None:
                        self._tracker.add(items=1)
                    yield record
            finally:
                self._drop()

    def _next(self) -> BlobRecord:
        while True:
            try:
                self._cancel.check()
                return self._advance()
            except NotFoundError as error:
                self._narrow(error)
            except OdpsNbError as error:
                self._drop()
                resume = f"blob {self._done}" if self._done else None
                self._attempts.again(error, idempotent=True, resume=resume)

    def _narrow(self, error: NotFoundError) -> None:
        """Ask for fewer at a time until it is clear which reference is unknown."""
        asked = min(self._window, len(self._unique) - self._done)
        if asked == 1:
            raise unknown_blob(
                error, self._unique[self._done], f"blob {self._place()} of the references"
            ) from error
        self._window = asked // 2

    def _place(self) -> int:
        return self._first + self._references.index(self._unique[self._done])

    def _advance(self) -> BlobRecord:
        answer = self._answer
        if answer is None:
            answer = self._answer = self._open()
        record = self._read(answer)
        answer.owed -= 1
        if not answer.owed:
            self._finish(answer)
        self._done += 1
        self._attempts.progressed()
        return record

    def _open(self) -> _Answer:
        asked = tuple(self._unique[self._done : self._done + self._window])
        # One reference is answered without a frame: asked for twice, it has one.
        named = asked * 2 if len(asked) == 1 and self._framed else asked
        response = self._storage.open(
            ReadBlobs(references=named, compression=self._compression), attempts=self._attempts
        )
        events = blob_events(response, len(named), max_blob=self._max_blob)
        framed, doubled = len(named) > 1, len(named) > len(asked)
        return _Answer(response, events, len(asked), framed=framed, doubled=doubled)

    def _read(self, answer: _Answer) -> BlobRecord:
        start: BlobStart | None = None
        pieces: list[bytes] = []
        for event in answer.events:
            if isinstance(event, BlobStart):
                start = event
            elif isinstance(event, BlobData):
                pieces.append(event.data)
            elif isinstance(event, BlobEnd) and start is not None:
                return self._record(answer, start, b"".join(pieces))
        raise FramingError("the answer ends before the last blob")

    def _record(self, answer: _Answer, start: BlobStart, data: bytes) -> BlobRecord:
        verified = answer.framed or answer.response.is_delimited
        if self._tracker is not None:
            wire = answer.response.wire_bytes
            self._tracker.add(
                wire_bytes=wire - answer.told,
                decoded_bytes=len(data),
                verified_bytes=len(data) if verified else 0,
            )
            answer.told = wire
        return BlobRecord(
            data=data,
            mime_type=start.content_type,
            custom_file_name=start.custom_file_name,
            verified=verified,
            reference=self._unique[self._done],
        )

    def _finish(self, answer: _Answer) -> None:
        # Only the end of the body proves the last blob, unless a second copy of it follows.
        if not answer.doubled and next(answer.events, None) is not None:
            raise FramingError("more blobs came than were asked for")
        self._drop()

    def _drop(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.response.close()


def unknown_blob(error: NotFoundError, reference: BlobReference, place: str) -> NotFoundError:
    """Say which reference the service does not know."""
    token = reference.token
    shown = token if len(token) <= 80 else token[:79] + "…"
    made = NotFoundError(
        f"the service does not know the blob reference {shown!r}: {error}",
        status=error.status,
        code=error.code,
        request_id=error.request_id,
        hint="references are those of rows read from this project; the row may be gone",
    )
    made.add_note(place)
    return made
