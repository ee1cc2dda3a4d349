"""Ctrl-C at any line of a request is raised unchanged, and its traceback holds no connection.

A notebook keeps the last traceback, and therefore every object of its frames.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from odps_nb.http.transport import HttpRequest, RequestsTransport
from tests.support.sockets.peers import Line, Peer

FILES = ("/odps_nb/http/", "/http/client.py", "/urllib3/connection")
#: After an interrupt during closing, or before the block of a ``with`` begins, the garbage
#: collector closes the rest.
CLOSING = {"_close_pool_connections", "_close_conn", "close", "isclosed", "detach", "__enter__"}


class Interrupter:
    """Raises `KeyboardInterrupt` at the first executed line that was not interrupted before."""

    def __init__(self) -> None:
        self.met: set[tuple[str, int]] = set()
        self.place = ""

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        self.place, before = "", sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        ours = any(part in code.co_filename for part in FILES) and code.co_name not in CLOSING
        return self._traced if ours else None

    def _traced(self, frame: FrameType, event: str, _arg: Any) -> Any:
        place = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and place not in self.met and not self.place:
            self.met.add(place)
            self.place = f"{place[0]}:{place[1]}"
            raise KeyboardInterrupt
        return self._traced


def connections_to(port: int) -> set[Any]:
    """Return the addresses of this process's sockets that are connected to a port."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed, or not connected
            if not stat.S_ISSOCK(entry.stat().st_mode):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as copy:
                if copy.family == socket.AF_INET and copy.getpeername()[1] == port:
                    found.add(copy.getsockname())
    return found


def serve(line: Line) -> None:
    while line.request() is not None:
        line.answer(b"x" * 1000)


# A socket that is interrupted before it is connected holds no connection.
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_interrupt_at_any_line_is_raised_and_leaves_no_connection():
    interrupter, known, left = Interrupter(), set(), []
    with Peer(serve) as peer:
        port = int(peer.url.rpartition(":")[2])
        while True:
            transport = RequestsTransport()
            request = HttpRequest(method="GET", url=peer.url, read_timeout=5.0)
            kept = None
            try:
                with interrupter.armed(), transport.send(request) as response:
                    assert response.read() == b"x" * 1000
            except KeyboardInterrupt as error:
                kept = error  # and its traceback
            transport.close()  # closes pooled connections
            if kept is None:
                break
            ours = connections_to(port)
            left += [interrupter.place] * bool(ours - known)
            known |= ours
    assert interrupter.place == ""
    assert len(interrupter.met) > 300
    assert left == []
