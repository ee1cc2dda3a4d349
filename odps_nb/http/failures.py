"""Foreign errors become ours, here and nowhere else (floor 2)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests.exceptions as theirs
import urllib3.exceptions as below

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    ConfigError,
    ConnectError,
    OdpsNbError,
    RequestTimeoutError,
    StateError,
)
from odps_nb.http.abort import Abort

__all__ = ["translate"]

_NO_NAME = (below.NameResolutionError, socket.gaierror)
_NO_CONNECTION = (below.NewConnectionError, theirs.ProxyError)
_TLS = (ssl.SSLError, below.SSLError, theirs.SSLError)
_BAD_REQUEST = (
    theirs.InvalidURL,
    theirs.MissingSchema,
    theirs.InvalidSchema,
    theirs.InvalidHeader,
    below.LocationValueError,
)


def translate(
    error: BaseException, url: str, *, abort: Abort, sent: bool
) -> OdpsNbError | StateError:
    """Return our error for one of requests, urllib3, http.client or a socket.

    Parameters
    ----------
    sent
        Whether the server may have seen any of the request.
    """
    if isinstance(error, (OdpsNbError, StateError)):
        return error
    if abort.stopped:
        return CancelledError("the request was stopped")
    chain = list(_chain(error))
    place = urlsplit(url).netloc or url

    def among(*kinds: type[BaseException]) -> bool:
        return any(isinstance(one, kinds) for one in chain)

    if among(*_BAD_REQUEST):
        return ConfigError(
            f"{url!r} cannot be requested: {error}", option="endpoint", hint="check the endpoint"
        )
    if among(*_NO_NAME):
        return _connect(f"the name of {place} is not known", url, "check the endpoint's host name")
    if among(*_TLS) and not sent:
        return _connect(f"no secure connection to {place}: {chain[-1]}", url, "check certificates")
    if among(*_NO_CONNECTION):
        return _connect(f"nobody listens at {place}", url, "check the endpoint, VPN and firewall")
    if among(below.ConnectTimeoutError):
        return _connect(f"{place} does not answer", url, "check the endpoint, VPN and firewall")
    if among(TimeoutError, below.ReadTimeoutError, theirs.ReadTimeout):
        return RequestTimeoutError(
            f"{place} stayed silent for too long",
            url=url,
            request_sent=sent,
            hint="try again, or raise the read timeout",
        )
    return BrokenStreamError(
        f"the connection to {place} broke: {_short(chain[-1])}",
        url=url,
        request_sent=sent,
        hint="try again",
    )


def _connect(message: str, url: str, hint: str) -> ConnectError:
    return ConnectError(message, url=url, request_sent=False, hint=hint)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [arg for arg in one.args if isinstance(arg, BaseException)]
        waiting += [getattr(one, "reason", None), one.__cause__]
        waiting = [item for item in waiting if isinstance(item, BaseException)]


def _short(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 200 else text[:200] + "…"
