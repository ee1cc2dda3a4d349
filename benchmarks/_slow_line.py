"""A simulated network with latency and a speed limit per connection, in a separate process.

It relays TCP to another port of this machine: bytes arrive half a round trip after they were sent,
a new connection needs a whole round trip, and each direction of a connection has a maximum speed.
Clients can compensate for it with parallel requests and persistent connections.
"""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

CHUNK = 1 << 18
IN_FLIGHT = 16  # chunks per direction; more than latency × speed


def _pump(source: socket.socket, target: socket.socket, delay: float, speed: float) -> None:
    line: queue.Queue[tuple[float, bytes]] = queue.Queue(IN_FLIGHT)
    threading.Thread(target=_deliver, args=(line, target, speed), daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(CHUNK)
        except ConnectionResetError:  # the other side receives the end
            data = b""
        line.put((time.monotonic() + delay, data))


def _deliver(line: queue.Queue[tuple[float, bytes]], target: socket.socket, speed: float) -> None:
    free = 0.0
    while True:
        due, data = line.get()
        free = max(due, free) + len(data) / speed
        time.sleep(max(0.0, free - time.monotonic()))
        try:
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)
        except OSError:  # the reader disconnected; discard the rest
            while data:
                _, data = line.get()
            return


def _connect(near: socket.socket, port: int, round_trip: float, speed: float) -> None:
    time.sleep(round_trip)
    far = socket.create_connection(("127.0.0.1", port))
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pumps = [
        threading.Thread(target=_pump, args=(*ends, round_trip / 2, speed), daemon=True)
        for ends in ((near, far), (far, near))
    ]
    for pump in pumps:
        pump.start()


def main() -> None:
    """Relay until the parent closes the standard input."""
    port, round_trip, speed = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_connect, args=(near, port, round_trip, speed)).start()

    threading.Thread(target=accept, daemon=True).start()
    with suppress(KeyboardInterrupt):
        sys.stdin.read()


@contextmanager
def slow_line(url: str, *, round_trip: float, speed: float) -> Iterator[str]:
    """Yield a URL that reaches `url` with a latency in seconds and a speed in bytes per second."""
    parts = urlsplit(url)
    facts = [str(parts.port), str(round_trip), str(speed)]
    command = [sys.executable, "-m", "benchmarks._slow_line", *facts]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            port = int(child.stdout.readline())
            yield urlunsplit(parts._replace(netloc=f"127.0.0.1:{port}"))
        finally:
            child.stdin.close()


if __name__ == "__main__":
    main()
