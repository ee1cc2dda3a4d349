"""Fetches several blobs per request, whole or in parts, and resumes at a blob that failed."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odps_nb.client.blob.response import (
    MAX_BLOB,
    WORTH_READING,
    DeliveredPrefix,
    blob_events,
    unknown_blob,
)
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import (
    FramingError,
    LimitExceededError,
    NotFoundError,
    OdpsNbError,
    ProtocolError,
)
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import BlobReference, Compression
from odps_nb.wire.calls import ReadBlobs
from odps_nb.wire.frames import BlobData, BlobEnd, BlobEvent, BlobRecord, BlobStart


class BlobPart(NamedTuple):
    """A part of a blob, or a whole small blob; a tuple, because many are created.

    ``verified`` is true only in the last part, if the whole blob's checksums and length match.
    """

    data: bytes
    start: BlobStart
    is_last: bool
    verified: bool
    request_id: str | None = None


@dataclass(slots=True)
class _Answer:
    """An open response with its events and the number of blobs still to be read."""

    response: HttpResponse
    events: Iterator[BlobEvent]
    remaining: int
    framed: bool
    doubled: bool  # whether a single reference was sent twice, to get a frame
    start: BlobStart | None = None  # the current blob's first event


class BlobBatch:
    """Fetches blobs by reference, in as few requests as possible.

    ``places`` are the references' indexes in the caller's list, for messages. ``framed``: request
    metadata even if only one blob remains. `parts` yields parts of about ``piece`` bytes.
    """

    def __init__(
        self,
        storage: StorageClient,
        references: Sequence[BlobReference],
        *,
        places: Sequence[int],
        compression: Compression = Compression.NONE,
        max_blob: int = MAX_BLOB,
        framed: bool = True,
        piece: int = sys.maxsize,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken,
    ) -> None:
        self._storage, self._references, self._places = storage, references, places
        self._compression, self._max_blob, self._framed = compression, max_blob, framed
        self._tracker = tracker or ProgressTracker("blobs", f"{len(references)} blobs")
        self._piece, self._cancel = piece, cancel
        self._unique = list(dict.fromkeys(references))
        self._window = len(self._unique)  # references per request
        self._done = 0
        self._delivered = DeliveredPrefix()  # counts bytes of the current blob
        self._damaged: int | None = None  # value of `_done` at the last damaged response
        self._answer: _Answer | None = None
        self._attempts = storage.attempts(
            f"BlobRead of {len(self._unique)} blobs, starting at number {places[0]}",
            tracker=tracker,
            cancel=cancel,
        )

    def records(self) -> Iterator[BlobRecord]:
        """Iterate over one record per reference; leaving early closes the connection."""
        left = Counter(self._references)
        repeated: dict[BlobReference, BlobRecord] = {}
        with self._attempts:
            try:
                for reference in self._references:
                    record = repeated.pop(reference, None) or self._record(reference)
                    left[reference] -= 1
                    if left[reference]:
                        repeated[reference] = record
                    self._tracker.add(items=1)
                    yield record
                    self._attempts.progressed()  # exclude time between records from the deadline
            finally:
                self._drop()

    def parts(self) -> Iterator[BlobPart]:
        """Iterate over the distinct blobs in parts; only one part is in memory at a time.

        Leaving the iterator early closes the connection.
        """
        with self._attempts:
            try:
                while self._done < len(self._unique):
                    part = self.next_part()
                    if part.is_last:
                        self._tracker.add(items=1)
                    yield part
                    self._attempts.progressed()
            finally:
                self._drop()

    def skip(self, number: int) -> None:
        """Skip the unread bytes of the blob with index ``number``, and continue with the next blob.

        A few bytes are read and dropped. If there are more, the connection is closed, and another
        request fetches the following blobs.
        """
        answer = self._answer
        if self._done == number and answer is not None and answer.start is not None:
            left = (answer.start.length or 0) - self._delivered.size
            with contextlib.suppress(OdpsNbError):  # errors in skipped bytes are irrelevant
                while left <= WORTH_READING and self._done == number:
                    self._advance()
        if self._done == number:
            self._drop()
            self._end_blob()
        self._window = len(self._unique)
        self._attempts.progressed()

    def close(self) -> None:
        """Release the connection. Idempotent."""
        self._drop()
        self._attempts.stop()

    def _record(self, reference: BlobReference) -> BlobRecord:
        part = self.next_part()
        return BlobRecord(
            data=part.data,
            mime_type=part.start.content_type,
            custom_file_name=part.start.custom_file_name,
            verified=part.verified,
            reference=reference,
            request_id=part.request_id,
        )

    def next_part(self) -> BlobPart:
        """Return the next part; after an error, call `skip` to continue with the next blob."""
        while True:
            try:
                self._cancel.check()
                return self._advance()
            except (NotFoundError, LimitExceededError) as error:
                self._drop()
                self._narrow(error)
            except OdpsNbError as error:
                self._drop()
                self._note_damage(error)
                resume = f"blob {self._done}" if self._done or self._delivered.size else None
                self._attempts.again(error, idempotent=True, resume=resume)

    def _narrow(self, error: NotFoundError | LimitExceededError) -> None:
        """Halve the number of blobs per request, to isolate an unknown or oversized blob."""
        count = self._asked()
        if count > 1:
            self._window = count // 2
        elif isinstance(error, NotFoundError):
            raise unknown_blob(error, self._unique[self._done], self._place()) from error
        else:
            error.add_note(self._place())
            raise error

    def _note_damage(self, error: OdpsNbError) -> None:
        """Add a note about the damaged blob; if the damage recurs, request fewer blobs at a time.

        Each chunk is verified as a whole, so the damage may be in any of its blobs.
        """
        if not isinstance(error, ProtocolError):
            return
        count = 1 if self._delivered.size else self._asked()
        more = f", or one of the {count - 1} after it" if count > 1 else ""
        error.add_note(self._place() + more)
        if self._damaged == self._done:
            self._window = max(1, count // 4)
        self._damaged = self._done

    def _asked(self) -> int:
        return min(self._window, len(self._unique) - self._done)

    def _place(self) -> str:
        index = self._places[self._references.index(self._unique[self._done])]
        return place_note(index)

    def _advance(self) -> BlobPart:
        answer = self._answer
        if answer is None:
            answer = self._answer = self._open()
        part = self._read(answer)
        if not part.is_last:
            self._delivered.add(part.data)
            return part
        answer.remaining, answer.start = answer.remaining - 1, None
        if not answer.remaining:
            self._finish(answer, part.start.length or 0)
        self._end_blob()
        return part

    def _end_blob(self) -> None:
        self._done += 1
        self._delivered = DeliveredPrefix()

    def _open(self) -> _Answer:
        references = tuple(self._unique[self._done : self._done + self._window])
        # The response to a single reference has no frame, so that reference is sent twice.
        named = references * 2 if len(references) == 1 and self._framed else references
        response = self._storage.open(
            ReadBlobs(references=named, compression=self._compression), attempts=self._attempts
        )
        try:
            events = blob_events(response, len(named), max_blob=self._max_blob)
            self._delivered.restart()
            framed, doubled = len(named) > 1, len(named) > len(references)
            return _Answer(response, events, len(references), framed=framed, doubled=doubled)
        except BaseException:  # including an interrupt
            response.close()
            raise

    def _read(self, answer: _Answer) -> BlobPart:
        prefix, pieces, held = self._delivered, list[bytes | memoryview](), 0
        for event in answer.events:
            if isinstance(event, BlobData):
                data = prefix.skip_delivered(event.data) if prefix.size else event.data
                pieces.append(data)
                held += len(data)
                if held >= self._piece and answer.start is not None:
                    return self._part(answer, answer.start, b"".join(pieces), is_last=False)
            elif isinstance(event, BlobStart):
                answer.start = event
            elif isinstance(event, BlobEnd) and answer.start is not None:
                prefix.finish()
                return self._part(answer, answer.start, b"".join(pieces), is_last=True)
        raise FramingError("the response ends before the last blob")

    def _part(self, answer: _Answer, start: BlobStart, data: bytes, *, is_last: bool) -> BlobPart:
        verified = is_last and (answer.framed or answer.response.is_delimited)
        self._tracker.add(
            wire_bytes=answer.response.new_wire_bytes(),
            decoded_bytes=len(data),
            verified_bytes=self._delivered.size + len(data) if verified else 0,
        )
        return BlobPart(data, start, is_last, verified, answer.response.request_id)

    def _finish(self, answer: _Answer, length: int) -> None:
        # Only the end of the body, or a second copy, proves that the last blob is complete.
        if not answer.doubled:
            next(answer.events, None)  # raises an error if more bytes follow
        if answer.doubled and length <= WORTH_READING:
            with contextlib.suppress(OdpsNbError):  # errors in the unused copy are irrelevant
                for _ in answer.events:
                    pass
        self._drop()

    def _drop(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.response.close()


def place_note(place: int) -> str:
    """Return a note that locates a reference by its index in the caller's list."""
    return f"blob {place} in the list of references"
