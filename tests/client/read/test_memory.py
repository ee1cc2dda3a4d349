"""Streaming reads hold less in memory than they transfer."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from contextlib import closing
from unittest import mock

import pyarrow as pa

from odps_nb.client.auth.profile import Profile
from odps_nb.client.blob import streamed
from odps_nb.client.blob.file import open_blob
from odps_nb.client.blob.streamed import iter_streamed_blobs
from odps_nb.client.blob.upload import BlobUploader
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.splits import iter_batches
from odps_nb.terms import BlobReference, PartitionSpec
from odps_nb.wire.blocks import BlockEncoder, encode_blocks
from odps_nb.wire.calls import decode_request
from odps_nb.wire.frames import FrameEncoder, FrameHeader
from tests.support.sockets.peers import Line, Peer, Seen
from tests.support.sockets.scripted import (
    SCHEMA,
    TABLE,
    Service,
    asked_split,
    ipc,
    numbers,
    wire_of,
)

MIB = 1 << 20


def peak_of(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_large_blob_is_downloaded_in_bounded_memory():
    size, piece = 48 * MIB, encode_blocks(bytes(MIB))

    def step(line, seen) -> None:
        line.send(line.headline(**{"Content-Length": str(48 * len(piece))}))
        for _ in range(48):
            line.send(piece)

    got = []

    def read() -> None:
        with open_blob(storage, BlobReference.from_raw(b"big")) as file:
            assert file.size == size
            got.append(sum(len(part) for part in file.pieces()))
            assert file.verified

    with Service(ReadBlobs=[step]) as service, service.client() as storage:
        assert peak_of(read) < 16 * MIB
    assert got == [size]


def test_many_large_blobs_are_streamed_in_bounded_memory():
    size, count, run = 12 * MIB, 8, bytes(MIB)

    def step(line, seen) -> None:
        asked, blocks = len(decode_request(wire_of(seen)).references), BlockEncoder()
        line.send(line.headline())  # ends with the connection
        for _ in range(asked):
            frame = FrameEncoder(FrameHeader(), length=size)
            line.send(blocks.feed(frame.begin()))
            for _ in range(size // MIB):
                line.send(blocks.feed(frame.feed(run)))
            line.send(blocks.feed(frame.finish()))
        line.send(blocks.finish())
        raise ConnectionError

    references = {BlobReference.from_raw(bytes([n])): [n] for n in range(count)}
    got = []

    def read() -> None:
        with closing(iter_streamed_blobs(storage, references)) as blobs:
            for blob in blobs:
                got.append(sum(len(piece) for piece in blob.pieces()))
                assert blob.verified

    with (
        mock.patch.object(streamed, "WAITING_BYTES", 4 * MIB),
        Service(ReadBlobs=[step]) as service,
        service.client() as storage,
    ):
        # the buffer, and for each of four workers its pieces and the data that the peer encodes
        assert peak_of(read) < 4 * MIB + 4 * (3 * MIB + 2 * MIB)
    assert got == [size] * count


def test_a_large_file_is_uploaded_in_bounded_memory(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(48 * MIB)
    seen_bytes: list[int] = []

    def script(line: Line) -> None:
        seen = line.head()
        if seen is None:
            return
        count, digest = drain_away(line, seen)
        seen_bytes.append(count)
        answer = {"BlobReference": "cmVm", "Size": count, "MD5Value": digest}
        line.answer(json.dumps(answer).encode())

    with Peer(script) as peer:
        profile = Profile(
            endpoint=peer.url, tunnel_endpoint=peer.url, project="p", access_id="a", access_key="k"
        )
        with StorageClient(profile) as storage:

            def write() -> None:
                BlobUploader(
                    storage=storage,
                    stream={
                        "table": TABLE,
                        "session_id": "s",
                        "stream_id": "0",
                        "stream_version": 1,
                        "route_token": None,
                    },
                    partition=PartitionSpec(),
                    column_id=1,
                    tracker=ProgressTracker("write", "t"),
                ).upload([(path, None, None)])

            assert peak_of(write) < 24 * MIB
    assert seen_bytes == [48 * MIB]


def drain_away(line: Line, seen: Seen) -> tuple[int, str]:
    assert seen.headers["transfer-encoding"] == "chunked"
    count, digest = 0, hashlib.md5()
    while size := int(line.file.readline(), 16):
        data = line.file.read(size)
        count += size
        digest.update(data)
        line.file.readline()
    line.file.readline()
    return count, digest.hexdigest()


def test_a_slow_consumer_holds_no_more_than_its_budget():
    rows = 200_000
    session = ReadSession(
        table=TABLE, session_id="s", schema=SCHEMA, splits=plan_ranges(rows, 20), row_count=rows
    )

    def step(line, seen) -> None:
        split = asked_split(seen)
        line.answer(ipc(numbers(split.offset, split.offset + split.count), rows=1000))

    held = []
    with Service(ReadRows=[step]) as service, service.client() as storage:
        before = pa.total_allocated_bytes()
        total = 0
        for batch in iter_batches(storage, session, workers=4, read_ahead=80_000):
            total += batch.num_rows
            held.append(pa.total_allocated_bytes() - before)
    assert total == rows
    # the budget, one batch per worker, one in this loop, and the data that the peer encodes
    assert max(held) < 80_000 + 6 * 8_000 * 2 + 4 * 3 * 80_000
