"""Iterates over blobs of any size; each is an open file until the next one is requested.

Several requests fetch blobs concurrently. Large blobs arrive in pieces, so the number of bytes
buffered for the consumer is limited.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import ClassVar

from odps_nb.client.blob.batch import BlobBatch, BlobPart
from odps_nb.client.blob.file import PieceFile
from odps_nb.client.blob.many import BATCH_COUNT, BLOB_WORKERS
from odps_nb.client.blob.response import BlobHead, head_of
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.parallel.fan_out import fan_out
from odps_nb.errors import StateError
from odps_nb.terms import BlobReference, Compression, format_bytes

WAITING_BYTES = 32 * 2**20
PIECE_BYTES = 2**20
GLANCE_BYTES = 1 << 16  # usually enough to recognise the type of a blob
FIRST_COUNT = 8


class StreamedBlob(PieceFile):
    """The current blob of an iteration as a binary file; closed when the next one is requested.

    The bytes are verified block by block. `verified` becomes true once the whole blob has arrived
    and its own checksum matches. Unread bytes are skipped.
    """

    when_closed: ClassVar[str] = (
        "read each blob before requesting the next one, or keep the bytes that read() returns"
    )

    def __init__(
        self, reference: BlobReference, positions: Sequence[int], parts: Iterator[BlobPart]
    ) -> None:
        super().__init__()
        self.reference: BlobReference = reference
        """The reference of the blob."""
        self.positions: tuple[int, ...] = tuple(positions)
        """The blob's positions in the list of references; several if its reference is repeated."""
        self.verified: bool = False
        """Whether the whole blob arrived, with matching checksums and length."""
        self._parts = parts
        self._first: BlobPart | None = None
        self._head: BlobHead | None = None
        self._ended = False
        self._failure: BaseException | None = None

    def open(self) -> StreamedBlob:
        """Wait for the header and first bytes, unless they have arrived; return this file."""
        if self._head is None:
            if self.closed:
                raise StateError("the blob is closed", hint=self.when_closed)
            self._first = self._take()
            self._head = head_of(self._first.start)
        return self

    @property
    def known(self) -> BlobHead | None:
        """Size, media type and file name if they have arrived; sends no request."""
        return self._head

    @property
    def head(self) -> BlobHead:
        """Size, media type and file name as one value."""
        self.open()
        assert self._head is not None
        return self._head

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.head.size

    @property
    def mime_type(self) -> str:
        """The media type that the uploader declared; empty if none. Untrusted."""
        return self.head.mime_type

    @property
    def file_name(self) -> str:
        """The file name that the uploader declared; empty if none. Untrusted."""
        return self.head.file_name

    def skip_rest(self) -> None:
        """Fetch, verify and drop the unread bytes, then close the blob."""
        while not self.closed and self._next_piece() is not None:
            pass
        self.close()

    def __repr__(self) -> str:
        head, state = self._head, "closed" if self.closed else f"at {self.tell()}"
        if head is None:
            return f"<StreamedBlob {self.reference!r}, not requested>"
        return (
            f"<StreamedBlob {self.reference!r} {format_bytes(head.size)}, "
            f"mime_type={head.mime_type[:80]!r}, file_name={head.file_name[:80]!r}, {state}>"
        )

    def _next_piece(self) -> bytes | None:
        self.open()
        if self._ended:
            return None
        part, self._first = self._first or self._take(), None
        if part.is_last:
            self._ended, self.verified = True, part.verified
        return part.data

    def _take(self) -> BlobPart:
        # After an error, nothing more can be read, so raise it again if the caller suppressed it.
        if self._failure is not None:
            raise self._failure
        try:
            return next(self._parts)
        except BaseException as error:
            self._failure = error
            raise


class ReferenceRanges:
    """Divides references into ranges, one per request, sized by the mean blob size so far.

    The first ranges are short. Each range has at least two items unless it is the only one.

    Examples
    --------
    >>> batches = ReferenceRanges(30, count=16, size=1000, first_count=4)
    >>> ranges = iter(batches)
    >>> next(ranges)
    (0, 4)
    >>> batches.record(100, blobs=1)
    >>> list(ranges)
    [(4, 14), (14, 24), (24, 30)]
    """

    def __init__(self, total: int, *, count: int, size: int, first_count: int) -> None:
        self._total, self._count, self._size, self._first = total, count, size, first_count
        self._bytes = self._blobs = 0

    def record(self, size: int, *, blobs: int) -> None:
        """Count bytes and completed blobs, from any thread; the counts may be inexact."""
        self._bytes, self._blobs = self._bytes + size, self._blobs + blobs

    def __iter__(self) -> Iterator[tuple[int, int]]:
        low = 0
        while low < self._total:
            count = self._first
            if self._bytes:
                count = self._size * max(1, self._blobs) // self._bytes
            elif self._blobs:  # all blobs so far were empty
                count = self._count
            high = low + max(2, min(count, self._count))
            if self._total - high < 2:
                high = self._total
            yield low, high
            low = high


def iter_streamed_blobs(
    storage: StorageClient,
    positions: Mapping[BlobReference, Sequence[int]],
    *,
    compression: Compression = Compression.NONE,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> Generator[StreamedBlob, None, None]:
    """Iterate over blobs in order, each once; requesting the next one closes the previous one.

    ``positions`` maps each reference to its positions in the caller's list. At most `WAITING_BYTES`
    are buffered for the consumer; each worker holds one more piece. Leaving the iterator early
    closes its connections and joins its threads.
    """
    references = list(positions)
    first_positions = [where[0] for where in positions.values()]
    if tracker is not None:
        tracker.plan(items_total=len(references))
        tracker.phase(Phase.FETCHING)
    batches = ReferenceRanges(
        len(references),
        count=BATCH_COUNT,
        size=max(1, WAITING_BYTES // BLOB_WORKERS),
        first_count=min(FIRST_COUNT, -(-len(references) // BLOB_WORKERS)),
    )

    def job(low: int, high: int) -> Callable[[CancelToken], Iterator[BlobPart]]:
        return lambda token: BlobBatch(
            storage,
            references[low:high],
            places=first_positions[low:high],
            compression=compression,
            piece=PIECE_BYTES,
            tracker=tracker,
            cancel=token,
        ).parts()

    def size(part: BlobPart) -> int:
        batches.record(len(part.data), blobs=part.is_last)
        return len(part.data)

    parts = fan_out(
        (job(low, high) for low, high in batches),
        size=size,
        workers=BLOB_WORKERS,
        max_bytes=WAITING_BYTES,
        cancel=storage.operation(cancel),
    )
    return _one_at_a_time(positions, parts)


def _one_at_a_time(
    positions: Mapping[BlobReference, Sequence[int]], parts: Generator[BlobPart, None, None]
) -> Generator[StreamedBlob, None, None]:
    with contextlib.closing(parts):
        for reference, where in positions.items():
            with StreamedBlob(reference, where, parts).open() as blob:
                yield blob
                blob.skip_rest()


def iter_inspected(
    storage: StorageClient,
    references: Sequence[BlobReference],
    *,
    cancel: CancelToken | None = None,
) -> Generator[StreamedBlob, None, None]:
    """Iterate over blobs for inspection, in order; requesting one closes the previous one.

    Requests are sent only when a header or bytes are needed. If much of a blob is left unread, the
    connection is closed, and another request fetches the following blobs. An error in one blob does
    not affect the others. Only one piece of about 64 KiB is in memory.
    """
    token = storage.operation(cancel)
    at = 0
    while at < len(references):
        run = _distinct(references[at:])
        batch = BlobBatch(
            storage,
            run,
            places=range(at, at + len(run)),
            piece=GLANCE_BYTES,
            cancel=token,
        )
        with contextlib.closing(batch):
            for number, reference in enumerate(run):
                with StreamedBlob(reference, (at + number,), iter(batch.next_part, None)) as blob:
                    yield blob
                batch.skip(number)
        at += len(run)


def _distinct(references: Sequence[BlobReference]) -> list[BlobReference]:
    """Return the references before the first repetition; a response contains each blob once."""
    distinct: dict[BlobReference, None] = {}
    for reference in references:
        if reference in distinct:
            break
        distinct[reference] = None
    return list(distinct)
