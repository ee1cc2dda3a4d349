"""Each reference returns a complete, verified blob, in order; otherwise an error names it."""

from __future__ import annotations

import threading
from unittest import mock

import pytest

from odps_nb.client.blob import many
from odps_nb.client.blob.file import open_blob
from odps_nb.client.blob.many import iter_blobs, plan_batches
from odps_nb.client.blob.seekable import open_seekable, read_whole
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    ChecksumError,
    FramingError,
    LimitExceededError,
    NotFoundError,
    ProtocolError,
    ServerFaultError,
    StateError,
    TruncatedError,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import Compression
from odps_nb.wire.blocks import BLOCK_SIZE, encode_blocks
from odps_nb.wire.calls import HTTP_CODINGS
from odps_nb.wire.frames import BlobRecord, encode_frame
from tests.support.sockets.blob_answers import (
    SIZES,
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
from tests.support.sockets.scripted import Service, fail, hang_up, stall
from tests.support.threads import running


def limits(*, workers=many.BLOB_WORKERS, batch_count=many.BATCH_COUNT):
    return mock.patch.multiple(many, BLOB_WORKERS=workers, BATCH_COUNT=batch_count)


def fetch(count: int, *steps, refs=None, retry=None, max_blob=1 << 40, compression=None, **facts):
    tracker = ProgressTracker("blobs", "t")
    with (
        limits(**facts),
        Service(ReadBlobs=list(steps) or [serve]) as service,
        service.client(retry=retry or RetryPolicy(spread=0.0)) as storage,
    ):
        wanted = references(count) if refs is None else refs
        coding = compression or Compression.NONE
        found = iter_blobs(storage, wanted, tracker=tracker, max_blob=max_blob, compression=coding)
        got = list(found)
    return got, service, tracker


# -- many -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "compression"),
    [(2, Compression.NONE), (3, Compression.NONE), (8, Compression.LZ4), (21, Compression.ZSTD)],
)
def test_every_reference_gives_one_verified_record_in_order(count, compression):
    got, _, tracker = fetch(count, compression=compression)
    assert [record.data for record in got] == [content(n) for n in range(count)]
    assert [record.mime_type for record in got] == [f"text/{n}" for n in range(count)]
    assert [record.custom_file_name for record in got] == [f"{n}.txt" for n in range(count)]
    assert [record.reference for record in got] == references(count)
    assert all(record.verified for record in got)
    shown = tracker.snapshot()
    assert (shown.items, shown.items_total, shown.phase) == (count, count, Phase.FETCHING)
    assert shown.verified_bytes == shown.decoded_bytes == sum(len(content(n)) for n in range(count))


def test_an_empty_list_sends_no_request():
    got, service, _ = fetch(0)
    assert (got, service.seen) == ([], [])


@pytest.mark.parametrize("n", range(len(SIZES)))
def test_a_request_for_one_reference_returns_one_verified_record(n):
    got, service, _ = fetch(1, refs=[reference(n)])
    assert got == [BlobRecord(data=content(n), verified=True, reference=reference(n))]
    assert len(asked_refs(service)[0]) == 1


def test_batches_have_at_most_the_maximum_number_of_blobs_and_at_least_two():
    _, service, _ = fetch(21, batch_count=5, workers=1)
    batches = asked_refs(service)
    assert [n for batch in batches for n in batch] == list(range(21))
    assert {len(batch) for batch in batches} <= {4, 5}


@pytest.mark.parametrize("total", [0, 1, 2, 3, 5, 256, 257, 1000])
def test_planned_batches_contain_every_reference_once(total):
    bounds = plan_batches(total, count=256, at_least=4)
    assert [n for low, high in bounds for n in range(low, high)] == list(range(total))
    assert all(high - low > 1 for low, high in bounds) or total == 1


def test_a_blob_that_is_referenced_twice_is_fetched_once():
    refs = [reference(n) for n in (5, 3, 5, 5, 3, 4)]
    got, service, _ = fetch(0, refs=refs, workers=1)
    assert [number(record.reference) for record in got] == [5, 3, 5, 5, 3, 4]
    assert [record.data for record in got] == [content(number(ref)) for ref in refs]
    assert asked_refs(service) == [[5, 3, 4]]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("trouble", [cut_at, flip_at])
def test_a_broken_batch_resumes_at_the_blob_that_failed(trouble, share):
    got, service, tracker = fetch(8, trouble(share), serve, workers=1)
    assert [record.data for record in got] == [content(n) for n in range(8)]
    first, second = asked_refs(service)
    assert second == first[-len(second) :] or second == [7, 7]
    assert tracker.snapshot().retries + tracker.snapshot().resumes == 1


@pytest.mark.parametrize(
    "trouble", [hang_up, fail(503, "ServiceUnavailable"), fail(429, "FlowExceeded")]
)
def test_a_failure_before_the_first_blob_is_retried(trouble):
    got, _, _ = fetch(4, trouble, serve, workers=1)
    assert len(got) == 4


def test_a_flipped_bit_in_every_response_raises_a_checksum_error():
    with pytest.raises(ChecksumError) as caught:
        fetch(1, flip_at(0.5), refs=[reference(7)], retry=RetryPolicy(max_attempts=2))
    assert caught.value.request_id == "req-1"
    note = caught.value.notes[-1]
    assert "BlobRead of 1 blobs, starting at number 0 at the service 127.0.0.1:" in note
    assert ", 2 attempts" in note


FRAME = encode_frame(b"x")
FILLS = next(f for n in range(4000) if len((f := encode_frame(bytes(n))) + FRAME * 2) == BLOCK_SIZE)


@pytest.mark.parametrize(
    "given", [[FRAME], [FRAME] * 2, [FRAME] * 4, [FRAME, FRAME, FILLS, FRAME]], ids=len
)
def test_a_wrong_number_of_blobs_raises_an_error(given):
    def step(line, seen) -> None:
        line.answer(encode_blocks(b"".join(given)))

    with pytest.raises((TruncatedError, FramingError)):
        fetch(3, step, workers=1, retry=RetryPolicy(max_attempts=1))


@pytest.mark.parametrize("place", [0, 5, 12])
def test_the_error_names_an_unknown_reference(place):
    refs = references(13)
    refs[place] = reference(1234)
    tracker_items = []
    with limits(workers=1), Service(ReadBlobs=[serve]) as service:

        def consume() -> None:
            for record in iter_blobs(service.storage, refs):
                tracker_items.append(record.data)

        with pytest.raises(NotFoundError, match=reference(1234).token) as caught:
            consume()
    assert tracker_items == [content(n) for n in range(place)]
    assert f"blob {place} in the list of references" in caught.value.notes
    assert (caught.value.code, caught.value.request_id) == ("NoSuchObject", "req-1")


def test_a_blob_over_the_limit_is_refused():
    with pytest.raises(LimitExceededError):
        fetch(8, max_blob=1000, workers=1)


def test_a_blob_without_a_length_is_not_reported_as_verified():
    def until_close(line, seen) -> None:
        line.send(line.headline() + body_of(asked(seen).references))
        raise ConnectionError

    got, _, _ = fetch(1, until_close, refs=[reference(5)])
    assert (got[0].data, got[0].verified) == (content(5), False)


def test_closing_the_iterator_ends_threads_and_connections():
    with Service(ReadBlobs=[serve]) as service, service.client() as storage:
        records = iter_blobs(storage, references(40), max_bytes=1)
        assert next(records).data == content(0)
        records.close()
        assert [t for t in running() if t.name.startswith("odps_nb")] == []


def test_cancelling_wakes_a_waiting_fetch():
    token = CancelToken()

    def cancel(line, seen) -> None:
        token.cancel()
        assert line.wait_closed()

    with (
        Service(ReadBlobs=[cancel]) as service,
        service.client(read_timeout=60.0) as storage,
        pytest.raises(CancelledError),
    ):
        list(iter_blobs(storage, references(4), cancel=token))


def test_the_repr_of_a_record_shows_no_content():
    assert repr(BlobRecord(data=b"secret" * 1000)) == (
        "BlobRecord(data=<6.0 kB>, mime_type=None, custom_file_name=None, verified=True)"
    )


# -- a blob as a file ----------------------------------------------------------------------------


def opened(service, n: int, *, retry=None, timeout=5.0):
    storage = service.client(retry=retry or RetryPolicy(spread=0.0), read_timeout=timeout)
    return storage, open_blob(storage, reference(n))


@pytest.mark.parametrize("size", [-1, 1000, 4096, 1 << 20])
def test_a_blob_reads_like_a_file(size):
    with Service(ReadBlobs=[serve]) as service, service.client() as storage:
        for n in range(len(SIZES)):
            with open_blob(storage, reference(n)) as file:
                assert file.size == len(content(n))
                assert not file.verified
                got = file.read() if size < 0 else b"".join(iter(lambda: file.read(size), b""))
                assert got == content(n)
                assert file.read(5) == b""
                assert (file.verified, file.tell()) == (True, len(got))


@pytest.mark.parametrize("compression", [Compression.ZSTD, Compression.LZ4])
def test_the_size_of_an_encoded_blob_is_known_at_its_end(compression):
    def coded(line, seen) -> None:
        headers = {"Content-Encoding": HTTP_CODINGS[compression]}
        line.answer(body_of(asked(seen).references, compression), **headers)

    with Service(ReadBlobs=[coded]) as service:
        storage, file = opened(service, 7)
        with storage, file:
            assert file.size is None
            assert file.read() == content(7)
            assert (file.size, file.verified) == (300_000, True)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.999])
@pytest.mark.parametrize("trouble", [cut_at, flip_at])
def test_a_broken_blob_file_resumes(trouble, share):
    with Service(ReadBlobs=[trouble(share), trouble(share), serve]) as service:
        storage, file = opened(service, 7)
        with storage, file:
            assert file.read() == content(7)
            assert file.verified
    assert len(service.seen) == 3


def other(blob: bytes):
    return lambda line, seen: line.answer(encode_blocks(blob))


@pytest.mark.parametrize("blob", [bytes(300_000), content(7)[:1000]], ids=["other", "shorter"])
def test_a_blob_that_changes_in_the_meantime_raises_an_error(blob):
    with Service(ReadBlobs=[cut_at(0.5), other(blob)]) as service:
        storage, file = opened(service, 7, retry=RetryPolicy(max_attempts=2))
        with (
            storage,
            file,
            pytest.raises(ChecksumError, match="the blob has changed since the connection broke"),
        ):
            file.read()


@pytest.mark.parametrize(
    ("blob", "kind"),
    [
        (bytes(300_000), ChecksumError),
        (content(7)[:-1], TruncatedError),
        (content(7) + b"x", TruncatedError),
    ],
    ids=["other", "shorter", "longer"],
)
def test_a_seekable_blob_that_changes_after_an_error_raises_another_error(blob, kind):
    with (
        Service(ReadBlobs=[cut_at(0.5), other(blob)]) as service,
        service.client(retry=RetryPolicy(max_attempts=1)) as storage,
        open_seekable(storage, reference(7), cache=None, ask_size=None) as file,
    ):
        assert file.read(10) == content(7)[:10]
        with pytest.raises(BrokenStreamError):
            file.read()
        with pytest.raises(kind):
            file.read()
        assert not file.verified


def chunked(line, seen) -> None:
    line.chunked(body_of(asked(seen).references), end=False)
    raise ConnectionError


@pytest.mark.parametrize("step", [cut_at(0.01), chunked], ids=["stated", "counted"])
def test_a_blob_over_max_bytes_is_not_read_to_its_end(step):
    with Service(ReadBlobs=[step]) as service, pytest.raises(LimitExceededError):
        read_whole(service.storage, reference(7), cache=None, max_bytes=1000)
    assert len(service.calls["ReadBlobs"]) == 1


def test_a_silent_blob_file_resumes():
    def half(line, seen) -> None:
        body = body_of(asked(seen).references)
        line.send(line.headline(**{"Content-Length": str(len(body))}) + body[:100_000])
        stall(line, seen)

    with Service(ReadBlobs=[half, serve]) as service:
        storage, file = opened(service, 7, timeout=0.2)
        with storage, file:
            assert file.read() == content(7)


def test_a_slow_reader_does_not_use_up_the_retry_deadline():
    hours = iter(range(0, 10**9, 3600))
    client = {"monotonic": lambda: next(hours), "retry": RetryPolicy(deadline=4 * 3600.0)}
    with (
        Service(ReadBlobs=[cut_at(0.5), serve]) as service,
        service.client(**client) as storage,
        open_blob(storage, reference(7)) as file,
    ):
        assert file.read(5000) == content(7)[:5000]
        for _ in range(100):
            next(hours)
        assert file.read() == content(7)[5000:]
    with (
        limits(workers=1),
        Service(ReadBlobs=[cut_at(0.999), serve]) as service,
        service.client(**client) as storage,
    ):
        records = iter_blobs(storage, references(8))
        for n, record in enumerate(records):
            assert record.data == content(n)
            for _ in range(100):
                next(hours)


def test_an_unknown_blob_raises_an_error_on_opening():
    with Service(ReadBlobs=[serve]) as service, pytest.raises(NotFoundError) as caught:
        open_blob(service.storage, reference(1000))
    assert reference(1000).token in str(caught.value)


def test_opening_a_blob_on_a_failing_server_raises_a_server_error():
    with (
        Service(ReadBlobs=[fail(500, "InternalServerError")]) as service,
        service.client(retry=RetryPolicy(max_attempts=2)) as storage,
        pytest.raises(ServerFaultError),
    ):
        open_blob(storage, reference(1))


def test_each_response_in_an_unknown_coding_is_closed_before_the_next_attempt():
    """An unclosed response leaves an open socket, whose warning would fail the test."""
    gone = threading.Semaphore(0)

    def coded(line, seen) -> None:
        head = line.headline(**{"Content-Length": "99999999", "Content-Encoding": "br"})
        line.send(head + bytes(4096))
        if line.wait_closed():
            gone.release()

    with (
        Service(ReadBlobs=[coded]) as service,
        service.client(retry=RetryPolicy(max_attempts=3)) as storage,
    ):
        with pytest.raises(FramingError):
            open_blob(storage, reference(1))
        assert len(service.calls["ReadBlobs"]) == 3
        assert all(gone.acquire(timeout=10) for _ in range(3))


def test_closing_a_file_frees_its_connection():
    gone = threading.Event()

    def endless(line, seen) -> None:
        line.send(line.headline(**{"Content-Length": "99999999"}) + encode_blocks(bytes(4096)))
        if line.wait_closed():
            gone.set()

    with Service(ReadBlobs=[endless]) as service:
        storage, file = opened(service, 1)
        with storage:
            assert file.read(10) == bytes(10)
            file.close()
            file.close()
            assert gone.wait(10)
            with pytest.raises((StateError, ValueError)):
                file.read(1)
    assert repr(file).endswith("closed>")


def test_truncation_of_a_blob_always_raises_an_error():
    body, whole = body_of([reference(4)]), (0, 4100)
    around = {at for edge in (4, 4096, *whole, len(body)) for at in range(edge - 4, edge + 5)}
    cuts = sorted(at for at in {*around, *range(0, len(body), 250)} if 0 <= at < len(body))
    steps = [lambda line, seen, at=at: line.answer(body[:at]) for at in cuts]
    once = RetryPolicy(max_attempts=1)
    with Service(ReadBlobs=steps) as service, service.client(retry=once) as storage:
        for at in cuts:
            with open_blob(storage, reference(4)) as file:
                if at in whole:  # truncation after a whole block, which only the length reveals
                    assert content(4).startswith(file.read())
                else:
                    with pytest.raises(ProtocolError):
                        file.read()
