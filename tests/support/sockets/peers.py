"""A raw-socket peer controlled by a script: right or wrong responses, stalls, disconnects; TLS."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


def own_address() -> str:
    """Return a loopback address on which only this process listens.

    Use the address for a listener that must receive nothing: a port of 127.0.0.1 may have belonged
    to another process, whose clients still connect. Only Linux accepts every address of 127/8
    without configuration; on other systems, the address is 127.0.0.1.
    """
    if sys.platform != "linux":
        return "127.0.0.1"
    high, low = divmod(os.getpid(), 256)
    return f"127.{64 + high // 256 % 128}.{high % 256}.{low}"


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False


class Line:
    """One accepted connection, controlled by the script."""

    def __init__(self, sock: socket.socket, peer: Peer) -> None:
        self.sock, self.peer = sock, peer
        self.file = sock.makefile("rb")

    def head(self) -> Seen | None:
        """Read a request line and headers; return None if the client has closed the connection."""
        line = self.file.readline()
        if not line:
            return None
        method, target, _ = line.decode("latin-1").split(" ", 2)
        seen = Seen(method, target)
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("utf-8").partition(":")
            seen.headers[name.strip().lower()] = value.strip()
        self.peer.seen.append(seen)
        return seen

    def request(self) -> Seen | None:
        """Read a whole request."""
        seen = self.head()
        if seen is not None:
            self.drain(seen)
        return seen

    def drain(self, seen: Seen) -> None:
        """Read the body of a request whose headers were read."""
        if seen.headers.get("transfer-encoding") == "chunked":
            while True:
                line = self.file.readline()
                if not line:
                    return
                size = int(line, 16)
                seen.body += self.file.read(size)
                self.file.readline()
                if not size:
                    break
        else:
            seen.body = self.file.read(int(seen.headers.get("content-length", 0)))
        seen.whole = True

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, body: bytes = b"", status: int = 200, **headers: str) -> None:
        """A complete response with Content-Length."""
        self.send(self.headline(status, **{"Content-Length": str(len(body)), **headers}) + body)

    @staticmethod
    def headline(status: int = 200, **headers: str) -> bytes:
        lines = [f"HTTP/1.1 {status} X", "x-odps-request-id: req-1"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode()

    def chunked(self, *pieces: bytes, end: bool = True) -> None:
        """Headers and chunks; without ``end``, the last chunk is missing."""
        self.send(self.headline(**{"Transfer-Encoding": "chunked"}))
        for piece in pieces:
            self.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        if end:
            self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def wait_closed(self, timeout: float = 60.0, *, reads: bool = True) -> bool:
        """Wait until the client closes; False if it does not. Without ``reads``, read nothing."""
        if not reads:
            waiting = select.poll()
            waiting.register(self.sock, select.POLLRDHUP | select.POLLHUP)
            return bool(waiting.poll(timeout * 1000))
        self.sock.settimeout(timeout)
        try:
            while self.sock.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


Script = Callable[[Line], None]


class Peer:
    """Listens on loopback; runs ``script(line)`` per connection, then closes that connection."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self._scripts = scripts
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.seen: list[Seen] = []
        self.connections = 0
        self.errors: list[BaseException] = []
        self.release = threading.Event()  # scripts that stall wait for this event
        self._lines: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if error.errno == errno.EMFILE:  # a test has exhausted the descriptors for a moment
                    time.sleep(0.01)
                    continue
                return
            script = self._scripts[min(self.connections, len(self._scripts) - 1)]
            self.connections += 1
            self._lines.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock, script), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, script: Script) -> None:
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
                self._lines.append(sock)
        except OSError:  # the client disconnected, or does not trust this server
            sock.close()
            return
        line = Line(sock, self)
        try:
            script(line)
        except (OSError, ValueError):
            pass  # the client disconnected; the test checks what it received
        except BaseException as error:  # noqa: BLE001
            self.errors.append(error)
        finally:
            line.file.close()
            sock.close()

    def close(self) -> None:
        self.release.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._lines:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in [self._accepting, *self._threads]:
            thread.join(10)
            assert not thread.is_alive()
        if self.errors:
            raise self.errors[0]

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def answers(*bodies: bytes, status: int = 200, **headers: str) -> Script:
    """A script that responds to one request after another on one connection."""

    def script(line: Line) -> None:
        for body in bodies:
            if line.request() is None:
                return
            line.answer(body, status, **headers)

    return script


def sends(data: bytes) -> Script:
    """A script that responds to a request with some bytes and closes the connection."""

    def script(line: Line) -> None:
        line.request()
        line.send(data)

    return script


@contextlib.contextmanager
def refused() -> Iterator[str]:
    """The URL of a port on which no process listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound but not listening, so no other process gets the port
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@contextlib.contextmanager
def dropping() -> Iterator[str]:
    """The URL of a listener whose queue is full, so that it drops packets, as a firewall does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        held = [socket.socket() for _ in range(8)]
        try:
            for one in held:
                one.setblocking(False)
                one.connect_ex(listener.getsockname())
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for one in held:
                one.close()


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """The URL of a server that accepts connections and never responds."""
    with Peer(lambda line: line.wait_closed()) as peer:
        yield peer.url
