"""Batches prefetched one ahead: the same batches, errors in their turn, no thread that stays."""

import gc
import io
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from odps_nb._stream_io.ahead import OneAhead
from odps_nb.errors import StateError, TruncatedError
from odps_nb.http.transport import HttpRequest, RequestsTransport
from odps_nb.stream_io import ArrowReader, Status, StreamReader
from tests.support.sockets.peers import Line, Peer
from tests.support.sockets.raw_streams import ReadOnly

BATCHES = [pa.record_batch({"id": [n] * (n + 1)}) for n in range(20)]


def ipc() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, BATCHES[0].schema) as writer:
        for batch in BATCHES:
            writer.write(batch)
    return sink.getvalue().to_pybytes()


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "odps_nb-ahead"]


def wait_for_no_helpers(seconds: float = 10.0) -> bool:
    limit = time.monotonic() + seconds
    for thread in helpers():
        thread.join(max(0.0, limit - time.monotonic()))
    return not helpers()


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert wait_for_no_helpers()


def test_prefetched_batches_are_the_same_and_the_thread_ends_with_them() -> None:
    with ArrowReader(StreamReader(io.BytesIO(ipc())), prefetch=True) as reader:
        assert reader.schema == BATCHES[0].schema
        assert list(reader) == BATCHES
        assert reader.get_status() is Status.OK
        assert wait_for_no_helpers()
        assert reader.read() is None


def test_an_error_comes_in_its_turn() -> None:
    body = ipc()[:-200]
    reader = ArrowReader(StreamReader(ReadOnly(body)), prefetch=True)
    seen = []
    with pytest.raises(TruncatedError):
        seen.extend(iter(reader.read, None))
    assert seen == BATCHES[: len(seen)]
    assert len(seen) > 10
    with pytest.raises(StateError):
        reader.read()
    reader.close()


def test_only_one_result_is_made_ahead() -> None:
    made: list[int] = []
    second = threading.Event()

    def step() -> int:
        made.append(len(made))
        if len(made) == 2:
            second.set()
        return made[-1]

    ahead = OneAhead(step, lambda: None)
    assert ahead.take() == 0
    assert second.wait(10)
    ahead.close()  # waits for the thread, so that a third would show
    ahead.close()
    assert made == [0, 1]
    assert ahead.take() == 1
    assert ahead.take() is None


def test_results_come_in_order_until_there_are_none() -> None:
    results = iter([1, 2, 3])
    ahead = OneAhead(lambda: next(results, None), lambda: None)
    assert [ahead.take() for _ in range(4)] == [1, 2, 3, None]


def test_close_interrupts_a_read_that_waits() -> None:
    body = ipc()

    def stalls(line: Line) -> None:
        line.request()
        line.send(line.headline(Content_Length=str(len(body))) + body[: len(body) // 2])
        line.peer.release.wait(30)

    transport = RequestsTransport()
    with Peer(stalls) as peer:
        answer = transport.send(HttpRequest(method="GET", url=peer.url, read_timeout=60))
        reader = ArrowReader(StreamReader(answer), prefetch=True)
        assert reader.read() == BATCHES[0]
        reader.close()
        assert wait_for_no_helpers(20)  # a third of the time after which the read would give up
        with pytest.raises(StateError):
            reader.read()
    transport.close()


def test_a_reader_that_nobody_holds_takes_its_thread_along() -> None:
    reader = ArrowReader(StreamReader(ReadOnly(ipc())), prefetch=True)
    reader.read()
    assert helpers()
    del reader
    gc.collect()
    assert wait_for_no_helpers()


def test_a_reader_that_was_never_read_has_no_thread() -> None:
    with ArrowReader(StreamReader(ReadOnly(ipc())), prefetch=True):
        assert not helpers()
