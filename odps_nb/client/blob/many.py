"""Fetches many blobs by reference, or one with its metadata (``docs/protocol.md`` section 6).

The order, number, checksums and lengths of the blobs are verified. After a broken response,
fetching resumes at the blob that failed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial

from odps_nb.client.blob.batch import BlobBatch
from odps_nb.client.blob.response import MAX_BLOB
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.parallel.fan_out import DEFAULT_MAX_BYTES, fan_out
from odps_nb.errors import NotFoundError, ProtocolError
from odps_nb.terms import BlobReference, Compression
from odps_nb.wire.frames import BlobRecord

BATCH_COUNT = 256
BLOB_WORKERS = 4


def iter_blobs(
    storage: StorageClient,
    references: Iterable[BlobReference],
    *,
    compression: Compression = Compression.NONE,
    framed: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_blob: int = MAX_BLOB,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> Generator[BlobRecord, None, None]:
    """Iterate over one record per reference, in order, even for empty blobs.

    Leaving the iterator early closes its connections and joins its threads. At most ``max_bytes``
    bytes are buffered for the consumer; a blob of more than ``max_blob`` bytes raises an error.
    Without ``framed``, a single reference is fetched without metadata.
    """
    all_references = list(references)
    framed = framed or len(all_references) > 1
    fetch = partial(_fetch, storage, all_references, compression, max_blob, framed, tracker)
    _plan(tracker, len(all_references))
    return fan_out(
        [
            partial(fetch, low, high)
            for low, high in plan_batches(
                len(all_references), count=BATCH_COUNT, at_least=BLOB_WORKERS
            )
        ],
        size=lambda record: len(record.data),
        workers=BLOB_WORKERS,
        max_bytes=max_bytes,
        cancel=storage.operation(cancel),
    )


def iter_blobs_or_errors(
    storage: StorageClient,
    references: Sequence[BlobReference],
    *,
    compression: Compression,
    batch_count: int,
    max_bytes: int,
    max_blob: int,
    tracker: ProgressTracker | None,
    cancel: CancelToken | None,
) -> Generator[BlobRecord | NotFoundError | ProtocolError, None, None]:
    """Iterate over one result per reference, in order: a record with metadata, or an error.

    An unknown, oversized or repeatedly damaged blob affects only its own result, because the
    remaining blobs of its request are then fetched one by one. Errors that do not concern a single
    blob (no connection, missing permission, failing service) are raised. References must be
    distinct.
    """
    fetch = partial(_fetch, storage, references, compression, max_blob, True, tracker)
    bounds = plan_batches(len(references), count=batch_count, at_least=BLOB_WORKERS)
    _plan(tracker, len(references))
    return fan_out(
        [partial(_outcomes, fetch, low, high) for low, high in bounds],
        size=lambda outcome: len(outcome.data) if isinstance(outcome, BlobRecord) else 0,
        workers=BLOB_WORKERS,
        max_bytes=max_bytes,
        cancel=storage.operation(cancel),
    )


def _plan(tracker: ProgressTracker | None, count: int) -> None:
    if tracker is not None:
        tracker.plan(items_total=count)
        tracker.phase(Phase.FETCHING)


def _fetch(
    storage: StorageClient,
    references: Sequence[BlobReference],
    compression: Compression,
    max_blob: int,
    framed: bool,  # noqa: FBT001  passed by `partial` only
    tracker: ProgressTracker | None,
    low: int,
    high: int,
    cancel: CancelToken,
) -> Iterator[BlobRecord]:
    batch = BlobBatch(
        storage,
        references[low:high],
        places=range(low, high),
        compression=compression,
        max_blob=max_blob,
        framed=framed,
        tracker=tracker,
        cancel=cancel,
    )
    return batch.records()


def _outcomes(
    fetch: Callable[[int, int, CancelToken], Iterator[BlobRecord]],
    low: int,
    high: int,
    cancel: CancelToken,
) -> Iterator[BlobRecord | NotFoundError | ProtocolError]:
    """Fetch blobs in one request; after an error, fetch the remaining blobs one by one."""
    at = low
    try:
        for record in fetch(low, high, cancel):
            yield record
            at += 1
    except (NotFoundError, ProtocolError) as error:
        if high - low == 1:
            yield error
            return
    for index in range(at, high):
        yield from _outcomes(fetch, index, index + 1, cancel)


def plan_batches(total: int, *, count: int, at_least: int) -> list[tuple[int, int]]:
    """Divide ``[0, total)`` into at least ``at_least`` ranges of at most ``count`` items.

    Each range has two items or more unless ``total`` is 1, because responses with one blob lack
    metadata.
    """
    number = min(max(at_least, -(-total // max(2, count))), max(1, total // 2))
    edges = [total * n // number for n in range(number + 1)]
    return [(low, high) for low, high in itertools.pairwise(edges) if low < high]
