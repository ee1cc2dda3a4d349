"""Relays between a client and a server: TLS in front of a plain service, and proxies."""

from __future__ import annotations

import base64
import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

import trustme

from tests.support.sockets.peers import Line, Peer, Seen

Place = tuple[str, int]


def server_context(authority: trustme.CA, *names: str, **facts) -> ssl.SSLContext:
    """TLS for a server with these names (127.0.0.1 and localhost by default)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1", "localhost")), **facts).configure_cert(context)
    return context


def pump(
    one: socket.socket, other: socket.socket, on_data: Callable[[bytes], object] = len
) -> None:
    """Forward bytes both ways until either side ends; ``on_data`` receives the bytes of ``one``."""
    pairs = {one: other, other: one}
    while True:
        waiting = [sock for sock in pairs if isinstance(sock, ssl.SSLSocket) and sock.pending()]
        for sock in waiting or select.select(list(pairs), [], [])[0]:
            data = sock.recv(1 << 16)
            if not data:
                return
            if sock is one:
                on_data(data)
            pairs[sock].sendall(data)


@contextlib.contextmanager
def connect_to(place: Place) -> Iterator[socket.socket]:
    with socket.create_connection(place) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


class TlsFront(Peer):
    """Accepts TLS (without a context, plain) connections, and forwards their bytes to a service.

    ``said`` contains the bytes of each connection, if requested.
    """

    def __init__(self, place: Place, tls: ssl.SSLContext | None, *, listens: bool = False) -> None:
        self._place, self._listens = place, listens
        self.said: list[bytearray] = []
        super().__init__(self._carry, tls=tls)

    def _carry(self, line: Line) -> None:
        said = bytearray()
        self.said.append(said)
        with connect_to(self._place) as sock:
            pump(line.sock, sock, said.extend if self._listens else len)


class Proxy(Peer):
    """An HTTP proxy that can reach only the ``places`` in its table.

    ``user``: ``name:password`` that it requires. It records the requested hosts.
    """

    def __init__(
        self,
        places: Mapping[str, Place],
        *,
        user: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._places = places
        self._pass = user and "Basic " + base64.b64encode(user.encode()).decode()
        self.asked: list[tuple[str, str]] = []
        super().__init__(self._serve_one, tls=tls)

    def _serve_one(self, line: Line) -> None:
        seen = line.head()
        if seen is None:
            return
        tunnel = seen.method == "CONNECT"
        host = seen.target.partition(":")[0] if tunnel else urlsplit(seen.target).hostname or ""
        self.asked.append((seen.method, host))
        if not tunnel:
            line.drain(seen)
        if self._pass and seen.headers.get("proxy-authorization") != self._pass:
            line.answer(b"who are you?", 407, Proxy_Authenticate="Basic", Connection="close")
        elif host not in self._places:
            line.answer(b"never heard of it", 502, Connection="close")
        else:
            with connect_to(self._places[host]) as sock:
                if tunnel:
                    line.send(b"HTTP/1.1 200 here you are\r\n\r\n")
                elif seen.whole:
                    sock.sendall(_forwarded(seen))
                else:
                    return
                pump(line.sock, sock)


def _forwarded(seen: Seen) -> bytes:
    parts = urlsplit(seen.target)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = {k: v for k, v in seen.headers.items() if not k.startswith("proxy-")}
    kept |= {"connection": "close", "content-length": str(len(seen.body))}
    kept.pop("transfer-encoding", None)
    lines = [f"{seen.method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in kept.items())]
    return "\r\n".join([*lines, "", ""]).encode() + seen.body


class Metered(Peer):
    """Forwards requests to a service, and counts the response bytes that a client's kernel accepts.

    It waits for a client that receives nothing; ``stalled`` is set while it does.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self.carried = 0
        self.stalled = threading.Event()
        super().__init__(self._carry)

    def _carry(self, line: Line) -> None:
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # a small buffer
        with connect_to(self._place) as sock:
            while True:
                for ready in select.select([line.sock, sock], [], [])[0]:
                    data = ready.recv(1 << 14)
                    if not data:
                        return
                    if ready is line.sock:
                        sock.sendall(data)
                    else:
                        self._pass_on(line.sock, memoryview(data))

    def _pass_on(self, client: socket.socket, data: memoryview) -> None:
        while data:
            if not select.select([], [client], [], 0.25)[1]:
                self.stalled.set()
                select.select([], [client], [])
            self.stalled.clear()
            client.setblocking(False)
            count = client.send(data)
            client.setblocking(True)
            self.carried, data = self.carried + count, data[count:]
