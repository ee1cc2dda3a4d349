"""urllib3 connections that can be aborted, and that notice a response while still sending.

An `Abort` also stops a connection attempt. If a response arrives before the request is
complete, the connection stops sending. `Exchange` records whether anything was sent (for retries).
"""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
)
from urllib3.poolmanager import PoolManager
from urllib3.util import wait_for_read
from urllib3.util.ssltransport import SSLTransport

from odps_nb.http.body import BodyResponse
from odps_nb.http.waiting import (
    Abort,
    bound_receiving,
    connect,
    receives_more,
    unbound_receiving,
    wait_until_ready,
)
from odps_nb.lifetime import renew_after_fork
from odps_nb.secret import hide_authorization

_RECORD = 1 << 14  # maximum bytes in one TLS record


@dataclass(slots=True, eq=False, repr=False)
class Exchange:
    """The record of one attempt at a request, filled in by the connection."""

    abort: Abort
    send_timeout: float | None = None
    """Maximum seconds during which the peer accepts no bytes."""
    head_timeout: float | None = None
    """Maximum seconds to receive the whole response head after sending the request."""
    receive_buffer: int | None = None
    """Maximum bytes to receive ahead of the reader; ``None``: no limit."""
    sent: bool = False
    """Whether at least one byte of the request was sent."""
    answered_early: bool = False
    ahead: bytes = b""
    """Bytes of the response received while the request was being sent."""
    body: BodyResponse | None = None
    connection: HTTPConnection | None = None
    """The connection on which ``body`` arrives."""
    source_error: BaseException | None = None
    """The error that the caller's request body raised."""

    def drop(self) -> None:
        """Close the connection of a response that no caller will receive. Idempotent."""
        self.abort.detach()
        # the connection of a closed body may already be in use again
        if self.body is not None and not self.body.isclosed():
            self.body.close()
            if self.connection is not None:
                self.connection.close()


# Passes the exchange from `RequestsTransport.send` to urllib3's connection within one thread.
EXCHANGE: ContextVar[Exchange] = ContextVar("odps_nb_exchange")


class _Response(BodyResponse):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._exchange = EXCHANGE.get()
        self._exchange.body = self  # set first, so that an interrupted caller can close the body
        super().__init__(*args, ahead=self._exchange.ahead, **kwargs)
        self.end_within(self._exchange.head_timeout)

    def begin(self) -> None:
        super().begin()
        if self._exchange.answered_early:
            self.will_close = True  # the request is incomplete: do not reuse the connection


class _Guarded(HTTPConnection):
    response_class = _Response

    def _new_conn(self) -> socket.socket:
        try:
            addresses = socket.getaddrinfo(
                self._dns_host.strip("[]"), self.port, 0, socket.SOCK_STREAM
            )
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except UnicodeError as error:  # a label in the name is empty or too long
            raise NameResolutionError(self.host, self, socket.gaierror(str(error))) from error
        failure: OSError = OSError("the host name has no address")
        for family, kind, protocol, _, address in addresses:
            sock = socket.socket(family, kind, protocol)
            try:
                return self._connect(sock, address)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, f"no connection within {self.timeout} s") from failure
        raise NewConnectionError(self, str(failure)) from failure

    def _connect(self, sock: socket.socket, address: Any) -> socket.socket:
        for option in self.socket_options or ():
            sock.setsockopt(*option)
        timeout = self.timeout
        EXCHANGE.get().abort.attach(sock)
        connect(sock, address, timeout if isinstance(timeout, (int, float)) else None)
        if (size := EXCHANGE.get().receive_buffer) is not None:
            bound_receiving(sock, size)
        return sock

    @property
    def is_connected(self) -> bool:
        """Whether the pool may reuse this connection; false if its receive buffer is too large."""
        if not super().is_connected:
            return False
        exchange = EXCHANGE.get(None)
        size = None if exchange is None else exchange.receive_buffer
        return size is None or not receives_more(_plain(self.sock), size)

    def _tunnel(self) -> None:
        exchange, timeout = EXCHANGE.get(), self.sock.gettimeout()
        try:
            super()._tunnel()
        except (OSError, HTTPException) as error:
            cause, text = error, hide_authorization(str(error))
            if text != str(error):  # the proxy repeats the request, which contains a password
                cause = OSError(text)
            raise ProxyError(f"the proxy failed: {text}", cause) from cause
        finally:
            exchange.sent, exchange.body = False, None  # they belong to the CONNECT request
        self.sock.settimeout(timeout)  # reading the proxy's response set a shorter time-out

    def getresponse(self) -> Any:
        """Read the head; the exchange records this connection so that `drop` can close it."""
        EXCHANGE.get().connection = self
        return super().getresponse()

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:  # the connection is reused, or its TLS handshake has just ended
            exchange = EXCHANGE.get()
            exchange.abort.attach(self.sock)
            if exchange.receive_buffer is not None:
                bound_receiving(_plain(self.sock), exchange.receive_buffer)
            else:
                unbound_receiving(_plain(self.sock))
        super().request(*args, **kwargs)

    def send(self, data: Any) -> None:
        """Send ``data``; raise `BrokenPipeError` to make urllib3 read an early response."""
        if self.sock is None:
            self.connect()
        exchange, sock = EXCHANGE.get(), self.sock
        if not exchange.sent or isinstance(sock, SSLTransport):
            # Headers are sent in one piece, and so is the whole body if TLS runs inside TLS.
            exchange.sent = True
            sock.settimeout(exchange.send_timeout)  # replaces the connect time-out
            super().send(data)
            return
        try:
            if isinstance(sock, ssl.SSLSocket):
                _encrypt_unless_responded(sock, memoryview(data), exchange)
            else:
                _send_unless_responded(sock, memoryview(data))
        except (BrokenPipeError, ConnectionResetError):
            exchange.answered_early = True
            raise


class _GuardedTLS(_Guarded, HTTPSConnection):
    """A `_Guarded` connection over TLS."""


def _plain(sock: Any) -> socket.socket:
    """Return the underlying socket, even for TLS inside TLS."""
    plain: socket.socket = sock.socket if isinstance(sock, SSLTransport) else sock
    return plain


def _send_unless_responded(sock: socket.socket, data: memoryview) -> None:
    timeout = sock.gettimeout()
    while data:
        wait_until_ready(sock, timeout, read=True, write=True)
        if wait_for_read(sock, timeout=0.0):
            raise BrokenPipeError("the server responded before the request ended")
        data = data[sock.send(data) :]


def _encrypt_unless_responded(sock: ssl.SSLSocket, data: memoryview, exchange: Exchange) -> None:
    # Under TLS, readable bytes may be just a session ticket, so try to read. Bytes that are read
    # begin a response, so keep them for the reader.
    timeout = sock.gettimeout()
    sock.settimeout(0.0)
    try:
        while data:
            wait_until_ready(sock, timeout, read=True, write=True)
            with contextlib.suppress(ssl.SSLWantReadError):
                exchange.ahead = sock.recv(_RECORD)
                raise BrokenPipeError("the server responded before the request ended")
            with contextlib.suppress(ssl.SSLWantWriteError, ssl.SSLWantReadError):
                data = data[sock.send(data[:_RECORD]) :]  # a TLS retry must send the same bytes
    finally:
        sock.settimeout(timeout)


class _Idle(queue.LifoQueue[Any]):
    """A pool's idle connections; a forked child closes its copies without sending on them."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__(maxsize)
        renew_after_fork(self)

    def _after_fork(self) -> None:
        idle = self.queue
        super().__init__(self.maxsize)  # another thread may have held the locks at the fork
        _close_all(idle)

    def close_all(self) -> None:
        """Close the idle connections; the pool opens new ones when needed."""
        with self.mutex:
            idle, self.queue = self.queue, [None] * len(self.queue)
        _close_all(idle)


def _close_all(connections: list[Any]) -> None:
    for connection in connections:
        if connection is not None:
            connection.close()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Guarded
    QueueCls = _Idle


class _PoolTLS(HTTPSConnectionPool):
    ConnectionCls = _GuardedTLS
    QueueCls = _Idle


_POOLS = {"http": _Pool, "https": _PoolTLS}


class Adapter(HTTPAdapter):
    """The requests adapter (TLS settings, proxies) with our connection classes."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools use our connection classes."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def build_response(self, _: Any, answer: Any) -> Any:
        """Return urllib3's response unchanged; requests would add cookies and other attributes."""
        return answer

    def close(self) -> None:
        """Close idle connections at once; urllib3 leaves that to garbage collection."""
        for pool in self._pools():
            pool.close()
        super().close()

    def close_idle(self) -> None:
        """Close idle connections; later requests open new ones."""
        for pool in self._pools():
            if isinstance(pool.pool, _Idle):  # pools for a SOCKS proxy use urllib3's classes
                pool.pool.close_all()

    def _pools(self) -> Iterator[HTTPConnectionPool]:
        for manager in (self.poolmanager, *self.proxy_manager.values()):
            keys = manager.pools.keys()  # urllib3 supports iteration only over keys
            for key in keys:
                if (pool := manager.pools.get(key)) is not None:
                    yield pool

    def cert_verify(self, conn: Any, url: str, *args: Any) -> None:
        """Verify certificates wherever TLS is used, including a proxy's if the URL is http://."""
        of = "https:" if conn.scheme == "https" else url
        super().cert_verify(conn, of, *args)  # type: ignore[no-untyped-call]  # by types-requests

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> PoolManager:
        """Make a proxy's pools use our connection classes as well."""
        manager: PoolManager = super().proxy_manager_for(*args, **kwargs)
        if manager.proxy is not None and not str(manager.proxy.scheme).startswith("socks"):
            manager.pool_classes_by_scheme = _POOLS
        return manager
