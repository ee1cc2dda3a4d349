"""A simple server of large bodies in a separate process, so that it shares no memory or lock.

``/blob/<MiB>`` returns one raw blob in CRC blocks, and ``/arrow/<MiB>`` an Arrow stream; both are
chunked. ``/upload`` accepts any body and responds as the service does to a blob. Only a subset of
HTTP is implemented.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

MIB = 1 << 20
CHUNK = 1 << 18


def _blob(mib: int) -> Iterator[bytes]:
    from odps_nb.wire.blocks import encode_blocks

    unit = encode_blocks(random.Random(1).randbytes(MIB))
    return (unit for _ in range(mib))


def _arrow(mib: int) -> Iterator[bytes]:
    import numpy as np
    import pyarrow as pa

    from odps_nb.wire.arrow_stream import END_MARKER

    values = np.random.default_rng(1).integers(0, 1 << 60, size=(4, MIB // 8))
    batch = pa.record_batch({f"c{index}": column for index, column in enumerate(values)})
    yield batch.schema.serialize().to_pybytes()
    message = batch.serialize().to_pybytes()
    for _ in range(mib // 4):
        yield message
    yield END_MARKER


def _serve(connection: socket.socket) -> None:
    # A client that has read enough may reset the connection.
    with suppress(ConnectionResetError), connection, connection.makefile("rb") as file:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while line := file.readline():
            path = line.split(b" ")[1].decode()
            chunked = False
            while (header := file.readline()) not in (b"\r\n", b""):
                chunked |= header.lower().startswith(b"transfer-encoding: chunked")
            if path == "/upload":
                _take(connection, file, chunked)
                continue
            _, what, size = path.split("/")
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for part in {"blob": _blob, "arrow": _arrow}[what](int(size)):
                for at in range(0, len(part), CHUNK):
                    piece = memoryview(part)[at : at + CHUNK]
                    connection.sendall(b"%x\r\n" % len(piece))
                    connection.sendall(piece)
                    connection.sendall(b"\r\n")
            connection.sendall(b"0\r\n\r\n")


def _take(connection: socket.socket, file: BinaryIO, chunked: bool) -> None:
    size, digest = 0, hashlib.md5(usedforsecurity=False)
    while chunked and (length := int(file.readline(), 16)):
        data = file.read(length)
        digest.update(data)
        size += length
        file.readline()
    file.readline()
    answer = {"BlobReference": "/wByZWYw", "Size": size, "MD5Value": digest.hexdigest()}
    body = json.dumps(answer).encode()
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def main() -> None:
    """Serve until the parent closes the standard input."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    sys.stdin.read()


def _accept(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


@contextmanager
def serving() -> Iterator[str]:
    """Run the server in a child process; yield its URL."""
    command = [sys.executable, "-m", "benchmarks._body_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(child.stdout.readline())}"
        finally:
            child.stdin.close()


if __name__ == "__main__":
    main()
