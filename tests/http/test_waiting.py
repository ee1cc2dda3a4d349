"""Every wait notices a signal, an abort and a deadline."""

from __future__ import annotations

import _thread
import socket
import threading
import time

import pytest

from odps_nb.http.transport import HttpRequest, RequestsTransport
from odps_nb.http.waiting import SLICE, SlicedReader, connect, wait_until_ready
from tests.support.sockets.peers import Line, Peer, answers, refused


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_signal_that_wakes_no_thread_is_handled():
    def script(line: Line) -> None:
        line.request()
        # Mark the signal as pending for the main thread without waking the thread.
        _thread.interrupt_main()
        if line.wait_closed(20):  # a third of the read time-out
            closed.set()

    closed = threading.Event()
    transport = RequestsTransport()
    with Peer(script) as peer:
        with pytest.raises(KeyboardInterrupt):
            transport.send(HttpRequest(method="GET", url=peer.url, read_timeout=60.0))
        assert closed.wait(30)
    transport.close()


@pytest.mark.parametrize("timeout", [0.05, 0.25])
def test_silence_raises_no_error_before_the_timeout(pair, timeout):
    ours, _ = pair
    ours.settimeout(timeout)
    with SlicedReader(ours, hold=ours.makefile("rb", 0)) as reader:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            reader.readinto(bytearray(1))
        assert time.monotonic() - began >= timeout - 0.02


def test_bytes_that_arrive_after_several_wait_slices_are_read(pair):
    ours, theirs = pair
    ours.settimeout(10.0)
    with SlicedReader(ours, hold=ours.makefile("rb", 0)) as reader:
        with pytest.raises(TimeoutError):
            wait_until_ready(ours, 2.5 * SLICE, read=True)
        theirs.sendall(b"late")
        buffer = bytearray(10)
        assert reader.readinto(buffer) == 4
        assert buffer[:4] == b"late"
        theirs.close()
        assert reader.readinto(buffer) == 0


def test_a_reader_works_after_its_socket_object_was_closed(pair):
    ours, theirs = pair
    ours.settimeout(5.0)
    reader = SlicedReader(ours, hold=ours.makefile("rb", 0))
    ours.close()  # as http.client does if the response announces the end of the connection
    theirs.sendall(b"rest")
    buffer = bytearray(4)
    assert reader.readinto(buffer) == 4
    assert reader.readable()
    assert reader.fileno() >= 0
    reader.close()
    reader.close()
    assert ours.fileno() == -1


def test_connect_errors_have_the_message_of_the_operating_system():
    with refused() as url, socket.socket() as sock, pytest.raises(ConnectionRefusedError):
        connect(sock, ("127.0.0.1", int(url.rpartition(":")[2])), 5.0)


def test_a_connected_socket_keeps_its_timeout():
    with Peer(answers()) as peer, socket.socket() as sock:
        connect(sock, ("127.0.0.1", peer.port), 3.5)
        assert sock.gettimeout() == 3.5
