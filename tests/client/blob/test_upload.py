"""Blobs are uploaded completely and in order; a response that does not match them is an error."""

from __future__ import annotations

import io
import os
import random

import pytest

from odps_nb.client.blob import upload as blob_upload
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import (
    ArgumentError,
    ChecksumError,
    FramingError,
    InvalidRequestError,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import Compression, PartitionSpec
from odps_nb.wire.calls import WriteBlobAnswer
from tests.support.sockets.ledger import Ledger
from tests.support.sockets.scripted import TABLE

SIZES = [0, 1, 4095, 4096, 4097, 1_000_000]
SPEC = PartitionSpec.of("ds=x")


def content(n: int) -> bytes:
    return random.Random(n).randbytes(SIZES[n % len(SIZES)])


def upload(service: Ledger, items, **facts):
    tracker = facts.pop("tracker", None)
    retry = facts.pop("retry", RetryPolicy(spread=0.0))
    with service.client(retry=retry) as storage:
        session = open_write_session(storage, TABLE, partition=SPEC, tracker=tracker)
        return session.open_stream().upload_blobs(items, 1, **facts)


class Once(io.RawIOBase):
    """A file that can be read once and does not support seek."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer) -> int:
        return self._data.readinto(buffer)


@pytest.mark.parametrize("fault", ["", "drop", "lost", "503", "429", "rubbish"])
def test_blobs_of_every_kind_arrive_in_order(tmp_path, fault):
    path = tmp_path / "two.bin"
    path.write_bytes(content(2))
    shifted = io.BytesIO(b"before" + content(3))
    shifted.seek(6)
    items = [
        (content(0), "text/plain", "zero.txt"),
        (bytearray(content(1)), None, None),
        (path, "image/png", None),
        (shifted, None, "three.bin"),
        (Once(content(4)), None, None),
        (memoryview(content(5)), "x/y", "Ünï.bin"),
    ]
    tracker = ProgressTracker("write", "t")
    with Ledger() as service:
        service.faults["WriteBlobBatch"].append(fault)
        references = upload(service, items, tracker=tracker)
        got = [service.blobs[int(ref.raw[4:])] for ref in references]
    assert got == [
        (content(0), "text/plain", "zero.txt"),
        (content(1), None, None),
        (content(2), "image/png", None),
        (content(3), None, "three.bin"),
        (content(4), None, None),
        (content(5), "x/y", "Ünï.bin"),
    ]
    shown = tracker.snapshot()
    assert (shown.items, shown.phase) == (6, Phase.UPLOADING)
    assert shown.verified_bytes == sum(SIZES)


@pytest.mark.parametrize("n", range(len(SIZES)))
def test_a_single_blob_is_sent_raw_and_its_md5_is_checked(n):
    with Ledger() as service:
        (reference,) = upload(service, [(content(n), None, None)])
        assert service.blobs == [(content(n), None, None)]
        assert reference == Ledger.reference(0)
    (call,) = service.calls["WriteBlob"]
    assert (call.column_id, call.partition, call.compression) == (1, SPEC, Compression.NONE)
    assert call.route_token == "rt"


@pytest.mark.parametrize("fault", ["", "lost"])
def test_progress_shows_the_current_file_and_counts_each_byte_once(fault):
    tracker = ProgressTracker("write", "t")
    seen = []

    class Watched(io.BytesIO):
        def read(self, size=-1):
            seen.append(tracker.snapshot())
            return super().read(size)

    size = 3 * blob_upload.PIECE
    items = [(b"first", None, "a.txt"), (Watched(bytes(size)), None, "large.bin")]
    tracker.plan(bytes_total=5 + size)
    with Ledger() as service:
        service.faults["WriteBlobBatch"].append(fault)
        upload(service, items, tracker=tracker)
    assert {one.name for shown in seen for one in shown.moving} == {"large.bin"}
    sent = [shown.moving[0].sent for shown in seen]
    assert sent == [n * blob_upload.PIECE for n in range(3)] * (2 if fault else 1)
    assert [shown.item_bytes for shown in seen[:3]] == [5 + at for at in sent[:3]]
    assert 0 < seen[1].fraction < seen[2].fraction < 1
    assert seen[2].wire_bytes > sent[2] - blob_upload.PIECE
    end = tracker.snapshot()
    assert (end.item_bytes, end.fraction, end.moving) == (5 + size, 1.0, ())


def test_an_empty_upload_sends_no_request():
    with Ledger() as service:
        assert upload(service, []) == []
    assert service.calls["WriteBlobBatch"] == []


def test_groups_are_bounded_by_count_and_bytes(monkeypatch):
    monkeypatch.setattr(blob_upload, "BATCH_COUNT", 3)
    monkeypatch.setattr(blob_upload, "BATCH_BYTES", 1000)
    items = [(bytes(size), "x", None) for size in (1, 1, 1, 1, 900, 2000, 1, 1)]
    with Ledger() as service:
        references = upload(service, items)
        assert references == [Ledger.reference(n) for n in range(8)]
    assert len(service.calls["WriteBlobBatch"]) == 4


def test_blobs_are_consumed_one_by_one_from_a_generator(monkeypatch):
    monkeypatch.setattr(blob_upload, "BATCH_COUNT", 2)
    taken: list[int] = []

    def items(service):
        for n in range(6):
            assert len(service.blobs) >= len(taken) - 3
            taken.append(n)
            yield bytes([n]) * 10, "x", None

    with Ledger() as service:
        upload(service, items(service))
        assert len(service.blobs) == 6


@pytest.mark.parametrize(
    ("lie", "kind"),
    [
        ({"references": ()}, FramingError),
        ({"size": 3}, ChecksumError),
        ({"md5": "0" * 32}, ChecksumError),
    ],
)
def test_a_response_that_does_not_match_raises_an_error(lie, kind):
    truth = {"references": (Ledger.reference(0),), "size": 5, "md5": None}
    with Ledger() as service:
        service._WriteBlob = lambda request, seen: WriteBlobAnswer(**{**truth, **lie})
        with pytest.raises(kind):
            upload(service, [(b"hello", None, None)], retry=RetryPolicy(max_attempts=2))
        assert len(service.calls["WriteBlob"]) == 2


def test_an_upper_case_md5_is_the_same_md5():
    with Ledger() as service:
        answer = WriteBlobAnswer(
            references=(Ledger.reference(0),), size=5, md5="5D41402ABC4B2A76B9719D911017C592"
        )
        service._WriteBlob = lambda request, seen: answer
        assert upload(service, [(b"hello", None, None)]) == [Ledger.reference(0)]


def test_a_batch_with_too_few_references_raises_an_error():
    with Ledger() as service:
        answer = WriteBlobAnswer(references=(Ledger.reference(0),), size=2, batch=True)
        service._WriteBlobBatch = lambda request, seen: answer
        with pytest.raises(FramingError, match="1 references for 2 blobs"):
            upload(
                service,
                [(b"a", "x", None), (b"b", "x", None)],
                retry=RetryPolicy(max_attempts=1),
            )


def test_a_file_that_shrinks_during_the_upload_raises_an_error(tmp_path):
    path = tmp_path / "shrinking"
    path.write_bytes(bytes(100))

    def items():
        yield path, "x", None
        path.write_bytes(bytes(10))

    with Ledger() as service:
        with pytest.raises(FramingError, match="90 bytes are missing"):
            upload(service, items(), retry=RetryPolicy(max_attempts=1))
        assert service.blobs == []


@pytest.mark.parametrize("new", [bytes(101), b"y" * 100], ids=["longer", "as long"])
def test_a_file_that_changes_during_the_upload_raises_an_error(tmp_path, new):
    path = tmp_path / "changing"
    path.write_bytes(bytes(100))
    os.utime(path, (0, 0))

    def items():
        yield path, "x", None
        path.write_bytes(new)

    with Ledger() as service:
        with pytest.raises(FramingError, match="changing changed while it was being sent"):
            upload(service, items())
        assert service.blobs == []
        assert len(service.calls["WriteBlobBatch"]) <= 1


def test_a_blob_that_is_too_large_is_not_uploaded(tmp_path):
    film = tmp_path / "film.mp4"
    with film.open("wb") as file:
        file.truncate(5 * 2**30 + 1)  # uses no disk space
    with Ledger() as service:
        with pytest.raises(ArgumentError, match=r"film\.mp4 has 5,368,709,121 bytes") as caught:
            upload(service, [(b"a", None, None), (film, "video/mp4", None)])
        assert caught.value.argument == "data"
        assert service.blobs == []


def test_an_endless_stream_is_rejected_at_the_maximum_blob_size(monkeypatch):
    monkeypatch.setattr(blob_upload, "MAX_BLOB", blob_upload.PIECE)
    endless = Once(bytes(10 * blob_upload.PIECE))
    with Ledger() as service, pytest.raises(ArgumentError, match="the content of a blob has"):
        upload(service, [(endless, None, None)])
    assert len(endless.read()) >= 7 * blob_upload.PIECE


@pytest.mark.parametrize("make", [None, os.mkdir, os.mkfifo], ids=["nothing", "folder", "pipe"])
def test_a_path_without_a_file_raises_an_error_that_names_the_path(tmp_path, make):
    path = tmp_path / "place"
    if make is not None:
        make(path)
    with Ledger() as service, pytest.raises(ArgumentError, match="cannot be read") as caught:
        upload(service, [(path, None, None)])
    assert str(path) in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("thing", [7, "text", None, object()])
def test_invalid_blob_content_is_refused(thing):
    with Ledger() as service, pytest.raises(ArgumentError) as caught:
        upload(service, [(thing, None, None)])
    assert type(thing).__name__ in str(caught.value)


def test_a_refused_upload_is_an_error_with_a_note():
    with Ledger() as service:
        service.faults["WriteBlobBatch"].append("400")
        with pytest.raises(InvalidRequestError) as caught:
            upload(service, [(b"a", "x", None), (b"b", "x", None)])
    assert "TableWriteBlob of 2 blobs into stream 0 of p.t" in caught.value.notes[0]
