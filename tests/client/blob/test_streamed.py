"""Blobs are streamed in order and once; each is complete or raises an error."""

from __future__ import annotations

import contextlib
import io
import shutil
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.client.blob import streamed as blob_streamed
from odps_nb.client.blob.streamed import ReferenceRanges, iter_streamed_blobs
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.errors import (
    CancelledError,
    ChecksumError,
    NotFoundError,
    StateError,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import BlobReference, Compression
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.frames import FrameEncoder, FrameHeader
from tests.support.interrupting import interrupt
from tests.support.sockets.blob_answers import (
    asked,
    asked_refs,
    body_of,
    content,
    cut_at,
    flip_at,
    number,
    reference,
    references,
    serve,
)
from tests.support.sockets.scripted import Service
from tests.support.threads import running

MIB = 1 << 20
LARGE = 7  # the number of a blob of 300,000 bytes


def positions(refs) -> dict[BlobReference, list[int]]:
    return {ref: [place] for place, ref in enumerate(refs)}


@contextlib.contextmanager
def streamed(refs, *steps, client=None, **facts):
    """The blobs of some references, and the service that received the requests."""
    client = {"retry": RetryPolicy(spread=0.0), **(client or {})}
    names = {"workers": "BLOB_WORKERS", "piece": "PIECE_BYTES", "waiting": "WAITING_BYTES"}
    limits = {name: getattr(blob_streamed, name) for name in names.values()}
    limits |= {names[key]: facts.pop(key) for key in names if key in facts}
    with (
        mock.patch.multiple(blob_streamed, **limits),
        Service(ReadBlobs=list(steps) or [serve]) as service,
        service.client(**client) as storage,
    ):
        blobs = iter_streamed_blobs(storage, positions(refs), **facts)
        with contextlib.closing(blobs):
            yield blobs, service


def two_large(*steps, **facts):
    """Blob 4 and the large one, in one request, in pieces of about 1000 bytes."""
    refs = [reference(4), reference(LARGE)]
    return streamed(refs, *steps, **{"workers": 1, "piece": 1000, **facts})


# -- complete blobs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "piece", "compression"),
    [
        *((count, 1000, Compression.NONE) for count in (1, 2, 3, 21, 60)),
        *((21, piece, Compression.ZSTD) for piece in (1, 1000, MIB)),
        *((21, piece, Compression.NONE) for piece in (1, MIB)),
    ],
)
def test_every_blob_is_streamed_completely_in_order_and_once(count, piece, compression):
    tracker = ProgressTracker("blobs", "t")
    facts = {"compression": compression, "tracker": tracker, "piece": piece}
    with streamed(references(count), **facts) as (blobs, service):
        for n, blob in enumerate(blobs):
            assert (blob.reference, blob.positions) == (reference(n), (n,))
            assert (blob.size, blob.mime_type) == (len(content(n)), f"text/{n}")
            assert (blob.file_name, blob.verified) == (f"{n}.txt", False)
            assert blob.read() == content(n)
            assert (blob.verified, blob.tell()) == (True, blob.size)
        assert n == count - 1
    fetched = [n for refs in asked_refs(service) for n in dict.fromkeys(refs)]
    assert sorted(fetched) == list(range(count))
    shown = tracker.snapshot()
    assert (shown.items, shown.items_total) == (count, count)
    assert shown.verified_bytes == shown.decoded_bytes == sum(len(content(n)) for n in range(count))


def test_an_empty_list_of_blobs_sends_no_request():
    with streamed([]) as (blobs, service):
        assert list(blobs) == []
        assert service.seen == []


def test_a_streamed_blob_is_a_binary_file():
    with two_large() as (blobs, _):
        next(blobs)
        blob, buffer, copy = next(blobs), bytearray(10), io.BytesIO()
        assert blob.readable()
        assert blob.read(5) == content(LARGE)[:5]
        assert blob.readinto(buffer) == 10
        assert bytes(buffer) == content(LARGE)[5:15]
        shutil.copyfileobj(blob, copy)
        assert copy.getvalue() == content(LARGE)[15:]
        assert blob.read(1) == b""


def test_unread_data_is_skipped():
    with streamed(references(21), piece=1000) as (blobs, _):
        for n, blob in enumerate(blobs):
            if n % 3 == 1:
                assert blob.read(3) == content(n)[:3]
            elif n % 3 == 2:
                assert blob.read() == content(n)


def test_a_blob_is_closed_when_the_next_one_is_requested():
    with two_large() as (blobs, _):
        kept = next(blobs)
        next(blobs)
        with pytest.raises(StateError) as caught:
            kept.read(1)
        assert "before requesting the next one" in caught.value.hint
        assert repr(kept).endswith("closed>")


def test_a_repr_is_short_even_if_metadata_is_long():
    def step(line, seen) -> None:
        header = FrameHeader(content_type="x" * 9000, custom_file_name="y" * 9000)
        frame = FrameEncoder(header, length=2)
        whole = frame.begin() + frame.feed(b"hi") + frame.finish()
        line.answer(encode_blocks(whole * 2))

    with streamed(references(1), step) as (blobs, _):
        blob = next(blobs)
        assert len(repr(blob)) < 300
        assert "2 B" in repr(blob)
        assert "at 0" in repr(blob)


# -- broken responses ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.999])
@pytest.mark.parametrize("trouble", [cut_at, flip_at])
@pytest.mark.parametrize("piece", [1000, MIB])
def test_a_broken_response_resumes_at_the_byte_where_it_stopped(trouble, share, piece):
    tracker = ProgressTracker("blobs", "t")
    with two_large(trouble(share), serve, tracker=tracker, piece=piece) as (blobs, service):
        assert [blob.read() for blob in blobs] == [content(4), content(LARGE)]
        first, *others = asked_refs(service)
    assert first == [4, LARGE]
    # resumed at the failed blob; a single blob is requested twice to get its header
    assert others in ([[LARGE, LARGE]], [[4, LARGE]])
    if trouble is cut_at and share > 0.1:  # no data from a damaged chunk is used
        assert others == [[LARGE, LARGE]]
    shown = tracker.snapshot()
    assert (shown.retries + shown.resumes, shown.items) == (1, 2)


@pytest.mark.parametrize("bad", [0, 5, 6, 12])
def test_recurring_damage_is_attributed_to_one_blob(bad):
    def step(line, seen) -> None:
        refs = asked(seen).references
        body = bytearray(body_of(refs))
        if reference(bad) in refs:
            body[10] ^= 4  # at the start of each response with the bad blob
        line.answer(bytes(body))

    seen = []
    with (
        streamed(references(13), step, workers=1) as (blobs, _),
        pytest.raises(ChecksumError) as caught,
    ):
        seen.extend(number(blob.reference) for blob in blobs)
    assert seen == list(range(bad))
    assert caught.value.notes[0] == f"blob {bad} in the list of references"


def test_persistent_damage_raises_an_error_with_its_position():
    with two_large(flip_at(0.5), client={"retry": RetryPolicy(max_attempts=2)}) as (blobs, _):
        assert next(blobs).read() == content(4)
        blob = next(blobs)
        with pytest.raises(ChecksumError) as caught:
            blob.read()
    assert "blob 1 in the list of references" in caught.value.notes
    assert not blob.verified


def test_a_blob_that_changes_after_a_break_raises_an_error():
    def other(line, seen) -> None:
        frame = FrameEncoder(FrameHeader(), length=300_000)
        whole = frame.begin() + frame.feed(bytes(300_000)) + frame.finish()
        line.answer(encode_blocks(whole * 2))

    retry = {"retry": RetryPolicy(max_attempts=2)}
    with two_large(cut_at(0.5), other, client=retry) as (blobs, _):
        next(blobs)
        with pytest.raises(ChecksumError, match="the blob has changed since the connection broke"):
            next(blobs).read()


def test_a_suppressed_error_is_raised_again():
    with two_large(flip_at(0.5), client={"retry": RetryPolicy(max_attempts=1)}) as (blobs, _):
        next(blobs)
        blob = next(blobs)
        with contextlib.suppress(ChecksumError):
            blob.read()
        with pytest.raises(ChecksumError):
            blob.read(1)
        with pytest.raises(ChecksumError):
            next(blobs)


@pytest.mark.parametrize("place", [0, 5, 12])
def test_the_error_names_the_position_of_an_unknown_blob(place):
    refs = references(13)
    refs[place] = reference(1234)
    seen = []
    with streamed(refs) as (blobs, _), pytest.raises(NotFoundError) as caught:
        seen.extend(number(blob.reference) for blob in blobs)
    assert seen == list(range(place))
    assert reference(1234).token in str(caught.value)
    assert caught.value.notes.count(f"blob {place} in the list of references") == 1


def test_a_slow_reader_does_not_use_up_the_retry_deadline():
    hours = iter(range(0, 10**9, 3600))
    client = {"monotonic": lambda: next(hours), "retry": RetryPolicy(deadline=4 * 3600.0)}
    with two_large(cut_at(0.5), serve, client=client) as (blobs, _):
        assert next(blobs).read() == content(4)
        blob = next(blobs)
        assert blob.read(5000) == content(LARGE)[:5000]
        for _ in range(100):
            next(hours)
        assert blob.read() == content(LARGE)[5000:]


# -- stopping -----------------------------------------------------------------------------------


def test_closing_the_iterator_ends_threads_and_connections():
    with streamed(references(60), waiting=1, piece=1) as (blobs, _):
        assert next(blobs).read() == content(0)
        blobs.close()
        assert [t for t in running() if t.name.startswith("odps_nb")] == []


@pytest.mark.parametrize("workers", [1, 4])
def test_cancelling_wakes_a_thread_that_waits_for_a_blob(workers):
    token = CancelToken()

    def cancel(line, seen) -> None:
        body = body_of([reference(LARGE)] * 2)
        line.send(line.headline(**{"Content-Length": str(len(body))}) + body[:100_000])
        token.cancel()
        assert line.wait_closed()

    facts = {"workers": workers, "cancel": token, "client": {"read_timeout": 60.0}}
    with streamed([reference(n) for n in (LARGE, 15, 23, 31)], cancel, **facts) as (blobs, _):

        def drain() -> None:
            for blob in blobs:
                blob.read()

        with pytest.raises(CancelledError):
            drain()


@pytest.mark.usefixtures("repeated_interrupts")
def test_after_an_interrupt_a_blob_returns_no_more_bytes():
    def interrupt_there(line, seen) -> None:
        body = body_of([reference(4), reference(LARGE)])
        line.send(line.headline(**{"Content-Length": str(len(body))}) + body[:100_000])
        interrupt()
        assert line.wait_closed()

    def drain() -> None:
        for blob in blobs:
            kept.append(blob)
            blob.read()

    kept = []
    with two_large(interrupt_there, client={"read_timeout": 60.0}) as (blobs, _):
        with pytest.raises(KeyboardInterrupt):
            drain()
        for blob in kept:
            with pytest.raises((KeyboardInterrupt, StateError)):
                blob.read(1)


# -- batches -----------------------------------------------------------------------------------


@given(
    total=st.integers(0, 500),
    sizes=st.lists(st.integers(0, 5000), max_size=20),
    count=st.integers(1, 64),
)
def test_batches_contain_each_blob_once_and_at_least_two_blobs(total, sizes, count):
    batches = ReferenceRanges(total, count=count, size=4000, first_count=3)
    coming, bounds = iter(sizes), []
    for low, high in batches:
        bounds.append((low, high))
        batches.record(next(coming, 100), blobs=1)
    assert [n for low, high in bounds for n in range(low, high)] == list(range(total))
    assert all(2 <= high - low <= max(3, count + 1) for low, high in bounds) or total == 1


def test_batch_sizes_depend_on_the_received_blobs():
    batches = ReferenceRanges(1000, count=256, size=1000, first_count=8)
    ranges = iter(batches)
    assert next(ranges) == (0, 8)
    batches.record(0, blobs=8)
    assert next(ranges) == (8, 264)  # after empty blobs
    batches.record(1600, blobs=8)
    assert next(ranges) == (264, 274)  # after 16 blobs of 100 bytes on average
    batches.record(10**9, blobs=0)
    assert next(ranges) == (274, 276)  # a large blob is being received
