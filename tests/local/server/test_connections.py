"""Half-sent requests and too many connections, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psutil
import pytest
import requests
import uvicorn

from odps_nb.local.server.connections import Connection
from odps_nb.local.server.launch import LocalService

WITHIN = 30.0
WHOLE = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
BEGINNINGS = [b"", b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: h\r\nX-A: " + b"a" * 900]


class Impatient(Connection):
    head_seconds = 0.3


class Narrow(Connection):
    most = 4


class Held:
    """An application that answers when it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.entered.release()
        if scope["path"] == "/held":
            await asyncio.to_thread(self.let_go.wait, WITHIN)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % len(body)})


@contextmanager
def served(app: Any, kind: type[Connection]) -> Iterator[Callable[[], socket.socket]]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=kind, lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    with ExitStack() as stack:
        yield lambda: stack.enter_context(
            socket.create_connection(listener.getsockname(), timeout=WITHIN)
        )
        server.should_exit = True
    thread.join(WITHIN)
    listener.close()


def ended(link: socket.socket) -> bool:
    """Wait for the end of a connection, whatever comes before it."""
    with suppress(ConnectionResetError):
        while link.recv(65536):
            pass
    return True


def answer(link: socket.socket) -> bytes:
    found = b""
    while b"\r\n\r\n" not in found:
        found += link.recv(65536)
    return found


def test_a_head_that_does_not_come_ends_its_connection() -> None:
    with served(Held(), Impatient) as connect:
        links = [(connect(), start) for start in BEGINNINGS for _ in range(5)]
        for link, start in links:
            link.sendall(start)
        assert all(ended(link) for link, _ in links)


def test_bytes_that_drip_do_not_buy_time() -> None:
    """The clock runs from the first byte of a head; each byte more does not wind it."""
    with served(Held(), Impatient) as connect:
        link = connect()
        link.settimeout(0.05)
        over = False
        for _ in range(600):
            try:
                link.sendall(b"G")
                over = link.recv(1) == b""
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                over = True
            if over:
                break
        assert over


def test_a_second_head_has_to_come_in_time_too() -> None:
    with served(Held(), Impatient) as connect:
        apart, together = connect(), connect()
        apart.sendall(WHOLE)
        assert answer(apart).startswith(b"HTTP/1.1 200")
        apart.sendall(WHOLE[:20])
        together.sendall(WHOLE + WHOLE[:20])
        assert ended(apart)
        assert ended(together)


def test_a_slow_body_and_a_slow_answer_are_not_cut() -> None:
    app = Held()
    with served(app, Impatient) as connect:
        slow, other = connect(), connect()
        slow.sendall(b"POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab")
        other.sendall(b"G")
        assert ended(other)  # by now the time of a head is over
        slow.sendall(b"cde")
        assert app.entered.acquire(timeout=WITHIN)
        again = connect()
        assert ended(again)
        app.let_go.set()
        assert answer(slow).startswith(b"HTTP/1.1 200")


def test_a_connection_without_a_request_makes_room_for_one_with() -> None:
    with served(Held(), Narrow) as connect:
        waiting = [connect() for _ in range(Narrow.most)]
        for link in waiting:
            link.sendall(b"GET")
        for turn in range(2):
            link = connect()
            link.sendall(WHOLE)
            assert answer(link).startswith(b"HTTP/1.1 200")
            assert ended(waiting[turn])


def test_when_all_are_at_work_the_next_is_refused_and_may_come_again() -> None:
    app = Held()
    with served(app, Narrow) as connect:
        busy = [connect() for _ in range(Narrow.most)]
        for link in busy:
            link.sendall(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n")
        for _ in busy:
            assert app.entered.acquire(timeout=WITHIN)
        refused = connect()
        assert refused.recv(65536).startswith(b"HTTP/1.1 503")
        assert ended(refused)
        app.let_go.set()
        for link in busy:
            assert answer(link).startswith(b"HTTP/1.1 200")
        late = connect()
        late.sendall(WHOLE)
        assert answer(late).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("count", [Connection.most + 88])
def test_hundreds_of_half_sent_requests_keep_nobody_out(bare: LocalService, count: int) -> None:
    port = int(bare.tunnel_endpoint.rsplit(":", 1)[1])
    with ExitStack() as stack:
        for _ in range(count):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN))
            link.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert requests.get(bare.endpoint, timeout=WITHIN).status_code == 401
        open_now = [
            one
            for one in psutil.Process(bare.pid).net_connections("inet")
            if one.status == psutil.CONN_ESTABLISHED
        ]
        assert len(open_now) <= Connection.most
