"""Sends one request and returns its response, without signing or retrying.

A body is complete only if HTTP proves it (Content-Length or last chunk). Bodies are not decoded in
this module (``docs/protocol.md`` section 1.6). Errors of requests, urllib3, http.client and sockets
are translated into this package's errors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
from requests.structures import CaseInsensitiveDict

from odps_nb.errors import (
    ConnectError,
    RequestTimeoutError,
    ServiceError,
    StateError,
    ThrottledError,
    TransportError,
)
from odps_nb.http.body import BodyResponse
from odps_nb.http.connection import EXCHANGE, Adapter, Exchange
from odps_nb.http.failures import translate
from odps_nb.http.hosts import CHECK_PROXY, TUNNEL_HINT, Host
from odps_nb.http.surroundings import ProxyEnvironment
from odps_nb.http.waiting import Abort
from odps_nb.lifetime import Home, renew_after_fork
from odps_nb.terms import MAX_ID, shorten

A = TypeVar("A")
R = TypeVar("R")
_LOOK = 1 << 18  # default bytes per read


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request to send. Times are in seconds; ``body`` is bytes or an iterator of chunks.

    ``read_timeout`` limits each pause while waiting for or reading a response, and the time to
    receive its headers. ``send_timeout`` (default: ``read_timeout``) limits each pause in which the
    peer accepts no data. ``document_timeout`` limits the time for a body after
    `HttpResponse.end_in_time` is called. ``abort`` lets another thread stop the exchange.
    ``receive_buffer`` limits the bytes that the kernel receives ahead. ``host`` names the host in
    errors.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    body: bytes | Iterable[bytes] | None = field(repr=False, default=None)
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    send_timeout: float | None = None
    document_timeout: float = 300.0
    abort: Abort = field(repr=False, compare=False, default_factory=Abort)
    receive_buffer: int | None = None
    host: Host | None = None


class HttpResponse:
    """A response with an unread body; the caller reads it to the end or closes the response.

    Closing the response early closes the connection; reading to the end returns the connection to
    the pool. Only `arriving` may be used from another thread.
    """

    def __init__(
        self, raw: Any, body: BodyResponse, request: HttpRequest, *, early: bool = False
    ) -> None:
        self.early = early  # the server responded before it had received the whole request
        self.status: int = raw.status
        self.headers: Mapping[str, str] = CaseInsensitiveDict(raw.headers)
        request_id = self.headers.get("x-odps-request-id")
        self.request_id: str | None = request_id and shorten(request_id, MAX_ID)
        self.url: str = request.url
        self.host: Host = (request.host or Host.of(request.url)).having_answered()
        self.length: int | None = None if body.chunked else body.length
        self.is_delimited: bool = body.is_delimited
        self.wire_bytes: int = 0
        self._received = body.received  # value of body.received when wire_bytes was last updated
        self._reported = 0
        self._raw, self._body, self._request = raw, body, request
        self.closed: bool = False
        """Whether the connection was released, by `close` or at the end of the body."""
        self._ended = False
        self._broken: BaseException | None = None
        self._home = Home()

    def new_wire_bytes(self) -> int:
        """Return the growth of ``wire_bytes`` since the last call, for progress displays."""
        before, self._reported = self._reported, self.wire_bytes
        return self._reported - before

    @property
    def arriving(self) -> int:
        """Bytes received since the last call of `new_wire_bytes`, even during a running read.

        Excludes bytes that are still in the socket file's buffer (at most 256 KiB).
        """
        return max(0, self.wire_bytes - self._reported + self._body.received - self._received)

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``, or stop at the end of the body; return the number of bytes."""
        self._require_readable()
        return self._account(self._guarded(self._body.fill, memoryview(buffer)))

    def read(self, n: int = -1) -> bytes:
        """Return ``n`` bytes (fewer only at the end of the body); if negative, the whole body."""
        if n < 0:
            return b"".join(self.chunks(_LOOK))
        buffer = bytearray(n)
        count = self.readinto(buffer)
        del buffer[count:]
        return bytes(buffer)

    def read1(self, n: int = _LOOK) -> bytes:
        """Wait once, then return the bytes that have arrived, at most ``n``; empty at the end."""
        self._require_readable()
        data = self._guarded(self._body.some, n)
        self._account(len(data))
        return data

    def chunks(self, size: int = _LOOK) -> Iterator[bytes]:
        """Iterate over the body as it arrives, in pieces of at most ``size`` bytes."""
        while data := self.read1(size):
            yield data

    def end_in_time(self) -> None:
        """Limit the time for the rest of the body to the request's ``document_timeout``."""
        self._body.end_within(self._request.document_timeout)

    def receive_freely(self) -> None:
        """Remove the limit set by the request's ``receive_buffer``, to read the body faster."""
        if self._request.receive_buffer is not None and not self.closed:
            self._request.abort.receive_freely()

    def close(self) -> None:
        """Release the connection, or close it if the body was not read to its end. Idempotent."""
        self.closed = True
        if not self._home.is_here:
            return  # the parent uses the connection; a forked child only drops its copy
        self._request.abort.detach()
        if not self._body.isclosed():
            self._raw.close()
        self._raw.release_conn()

    def __enter__(self) -> HttpResponse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<HttpResponse {self.status} request_id={self.request_id!r} {state}>"

    def _require_readable(self) -> None:
        self._home.require("this response")
        if self._broken is not None:
            raise self._broken
        if self.closed and not self._ended:
            raise StateError("the response is closed", hint="read the response before closing it")

    def _account(self, count: int) -> int:
        self.wire_bytes += count
        self._received = self._body.received
        if self._body.fp is None:
            self._ended = True
            self.close()
        return count

    def _guarded(self, read: Callable[[A], R], argument: A) -> R:
        """Call ``read``; translate other libraries' errors, and close the response on any error."""
        try:
            return read(argument)
        except Exception as error:
            raise self._fail(error) from error
        except BaseException:
            self.close()  # after a KeyboardInterrupt, for example, the caller will not continue
            raise

    def _fail(self, error: Exception) -> Exception:
        abort = self._request.abort
        ours = translate(error, self.url, abort=abort, sent=True, host=self.host)
        if isinstance(ours, TransportError):
            ours.request_id = self.request_id
        # The traceback references the reader, and an Arrow reader references this response. The
        # garbage collector cannot see this cycle, so keep a copy without the traceback.
        self._broken = copy.copy(ours)
        self.close()
        return ours


class Transport(Protocol):
    """Interface of objects that send one request; thread-safe."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response, whatever its status, once its headers have arrived."""

    def close(self) -> None:
        """Free all connections. Idempotent."""


class RequestsTransport:
    """A `Transport` based on requests, with a connection pool and the environment's proxies.

    Keeps up to ``pool_size`` idle connections per host, and opens more when needed.
    """

    def __init__(self, *, pool_size: int = 32) -> None:
        self._pool_size = pool_size
        self._closed = False
        self._after_fork()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Use new connections in a forked child, because the parent still uses the old ones."""
        self._adapter = Adapter(pool_connections=8, pool_maxsize=self._pool_size)
        self._environment = ProxyEnvironment()

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; return the response when its headers arrive; raise for 3xx and 407."""
        if self._closed:
            raise StateError("the transport is closed")
        exchange = Exchange(
            request.abort,
            send_timeout=request.send_timeout or request.read_timeout,
            head_timeout=request.read_timeout,
            receive_buffer=request.receive_buffer,
        )
        token = EXCHANGE.set(exchange)
        try:
            try:
                return self._response(request, exchange)
            finally:
                EXCHANGE.reset(token)
        except BaseException:  # also on Ctrl-C: a stored traceback would keep the connection open
            exchange.drop()
            raise

    def _response(self, request: HttpRequest, exchange: Exchange) -> HttpResponse:
        try:
            raw = self._send(request, exchange)
        except Exception as error:
            if exchange.source_error is not None:
                raise exchange.source_error from None
            ours = translate(
                error, request.url, abort=request.abort, sent=exchange.sent, host=request.host
            )
            if isinstance(ours, RequestTimeoutError):
                # After a laptop's sleep or a firewall's time-out, all idle connections may be dead.
                self._adapter.close_idle()
            raise ours from error
        assert exchange.body is not None  # set by our connection class
        response = HttpResponse(raw, exchange.body, request, early=exchange.answered_early)
        return _from_the_server(response)

    def _send(self, request: HttpRequest, exchange: Exchange) -> Any:
        body = request.body
        if body is not None and not isinstance(body, bytes):
            body = _source(body, exchange)
        headers = {"Accept-Encoding": "identity", **request.headers}
        prepared = requests.Request(request.method, request.url, headers, data=body).prepare()
        return self._adapter.send(
            prepared,
            stream=True,
            timeout=(request.connect_timeout, request.read_timeout),
            **self._environment.of(request.url),
        )

    def close(self) -> None:
        """Close idle connections; open responses close theirs when they end. Idempotent."""
        self._closed = True
        self._adapter.close()
        self._environment.close()


def _source(body: Iterable[bytes], exchange: Exchange) -> Iterator[bytes]:
    # Record the error: an OSError from the caller's file would look like a connection error.
    try:
        for piece in body:
            if piece:
                yield piece
    except BaseException as error:
        exchange.source_error = error
        raise


def _from_the_server(response: HttpResponse) -> HttpResponse:
    """Return the response; raise if it is 3xx or a proxy's request for a login (407)."""
    if response.status != 407 and not 300 <= response.status < 400:
        return response
    response.close()
    # If the tunnel moves a request, it names the new server in a special header, and the client
    # repeats the request at the same address. A redirect has only a Location.
    moves = "odps-tunnel-routed-server" in response.headers or "location" not in response.headers
    if response.status == 308 and moves:
        raise ThrottledError(
            "the service is moving this request to another server (HTTP 308)",
            status=308,
            code="SlotReassignment",
            request_id=response.request_id,
            hint="try again a little later",
        )
    if response.status == 407:
        raise ConnectError(
            "the proxy requires a user name and a password",
            url=response.url,
            request_sent=False,
            hint=CHECK_PROXY,
        )
    raise _redirected(response)


def _redirected(response: HttpResponse) -> ServiceError:
    """Return the error for a redirect; it shows only the host of the target."""
    host = response.host
    try:
        target = urlsplit(urljoin(response.url, response.headers.get("location", "")))
        netloc = target.netloc.rpartition("@")[2]
        is_same = target.hostname in (None, urlsplit(response.url).hostname)
    except ValueError:  # not a URL
        target, netloc, is_same = urlsplit(""), "", True
    if is_same and (target.scheme, host.scheme) == ("https", "http"):
        hint = f"use https:// in the {host.option}"
    elif host.is_tunnel_as_endpoint:
        hint = TUNNEL_HINT
    elif is_same:
        hint = f"check the {host.option}; a signed request must not be sent elsewhere"
    else:
        hint = (
            f"log in to this network if {shorten(netloc, 100)} is its login page; otherwise check "
            f"the {host.option} and the proxies"
        )
    netloc = netloc if "location" in response.headers else ""
    to = f" to {target.scheme}://{shorten(netloc, 100)}" if netloc else ""
    return ServiceError(
        f"{host} responded with a redirect{to} ({response.status}), which is never followed",
        status=response.status,
        request_id=response.request_id,
        hint=hint,
    )
