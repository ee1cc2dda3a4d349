"""Heads and first bytes of several blobs, one after the other, in as few requests as possible.

In the answer to several references each blob comes in a frame, with size, type and name before its
bytes (``docs/protocol.md`` section 6.4). Where much of a blob is not wanted, its connection is
closed, and the blobs after it are requested anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence

from odps_nb.client.blob.batch import BlobBatch, BlobPart
from odps_nb.client.blob.head import BlobHead
from odps_nb.client.blob.response import MAX_BLOB
from odps_nb.client.blob.streamed import StreamedBlob
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.storage import StorageClient
from odps_nb.terms import BlobReference, Compression

_PIECE = 1 << 16  # about as much as tells what a blob is


class Glance:
    """A blob that is looked at: nothing is requested before its head or bytes are wanted.

    Only the one that was taken last can be read.
    """

    def __init__(self, reference: BlobReference, place: int, parts: Iterator[BlobPart]) -> None:
        self._file = StreamedBlob(reference, (place,), parts)
        self._started = False

    @property
    def reference(self) -> BlobReference:
        """The reference of this blob."""
        return self._file.reference

    @property
    def known(self) -> BlobHead | None:
        """Size, type and name if they have come already; sends no request."""
        return self._file.head if self._started else None

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._begun().size

    @property
    def mime_type(self) -> str:
        """The media type that the uploader stated; empty if none. Not to be trusted."""
        return self._begun().mime_type

    @property
    def file_name(self) -> str:
        """The file name that the uploader stated; empty if none. Not to be trusted."""
        return self._begun().file_name

    def open(self) -> StreamedBlob:
        """Return it as a file that is read once, front to back.

        Raises
        ------
        NotFoundError
            The service does not know the reference.
        ChecksumError, TruncatedError
            Its first bytes stayed damaged, however often they were fetched.
        """
        return self._begun()

    def close(self) -> None:
        """Let nothing more be read; what is known of its head stays. Idempotent."""
        self._file.close()

    def _begun(self) -> StreamedBlob:
        if not self._started:
            self._file.start()
            self._started = True
        return self._file

    def __repr__(self) -> str:
        return f"<Glance at {self.reference!r}, {self.known or 'not asked for'}>"


def iter_glances(
    storage: StorageClient,
    references: Sequence[BlobReference],
    *,
    cancel: CancelToken | None = None,
) -> Generator[Glance, None, None]:
    """Iterate over blobs to look at, in order; taking the next one leaves the one before.

    What is wrong with one of them is raised by that one alone; the others can be read.
    Leaving the iterator closes its connection. Memory holds one piece of about 64 KiB.
    """
    token = storage.operation(cancel)
    at = 0
    while at < len(references):
        run = _distinct(references[at:])
        batch = BlobBatch(
            storage,
            run,
            places=range(at, at + len(run)),
            compression=Compression.NONE,
            max_blob=MAX_BLOB,
            framed=True,
            piece=_PIECE,
            tracker=None,
            cancel=token,
        )
        with contextlib.closing(batch):
            for number, reference in enumerate(run):
                glance = Glance(reference, at + number, iter(batch.next_part, None))
                try:
                    yield glance
                finally:
                    glance.close()
                batch.skip(number)
        at += len(run)


def _distinct(references: Sequence[BlobReference]) -> list[BlobReference]:
    """Return the first ones, up to one that comes again: an answer has each of them once."""
    found: dict[BlobReference, None] = {}
    for reference in references:
        if reference in found:
            break
        found[reference] = None
    return list(found)
