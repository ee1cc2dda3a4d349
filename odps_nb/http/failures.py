"""Translates errors of requests, urllib3, http.client and sockets into this package's errors."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from http.client import BadStatusLine, RemoteDisconnected, UnknownProtocol

import requests.exceptions as requests_errors
import urllib3.exceptions as urllib3_errors
from urllib3.connection import HTTPConnection

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    CertificateError,
    ConfigError,
    ConnectError,
    FramingError,
    OdpsNbError,
    RequestTimeoutError,
)
from odps_nb.http.hosts import CHECK_PROXY, Host
from odps_nb.http.waiting import Abort, SilentError, TooSlowError
from odps_nb.secret import forget_locals
from odps_nb.terms import shorten

_NO_NAME = (urllib3_errors.NameResolutionError, socket.gaierror)
_PROXY = (urllib3_errors.ProxyError, requests_errors.ProxyError)
_NOT_OPENED = (urllib3_errors.NewConnectionError, urllib3_errors.ConnectTimeoutError)
_TLS = (ssl.SSLError, urllib3_errors.SSLError, requests_errors.SSLError)
_WRONG_NAME = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, …_IP_ADDRESS_MISMATCH
_WRONG_TIME = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, …_HAS_EXPIRED
_CERTIFICATES = ("ASN1", "PEM", "X509")  # parts of OpenSSL that read files, not connections
_BAD_REQUEST = (
    requests_errors.InvalidURL,
    requests_errors.MissingSchema,
    requests_errors.InvalidSchema,
    requests_errors.InvalidHeader,
    urllib3_errors.LocationValueError,
)


def translate(
    error: BaseException, url: str, *, abort: Abort, sent: bool, host: Host | None = None
) -> OdpsNbError:
    """Translate an error of requests, urllib3, http.client or a socket into one of ours.

    ``sent``: whether the server may have received part of the request.
    """
    if isinstance(error, OdpsNbError):
        return error
    if abort.stopped:
        forget_locals(error)
        return CancelledError("the request was stopped")
    forget_locals(error)  # its frames hold headers and proxy settings, which may contain keys
    chain = list(_chain(error))
    for cause in chain:
        if isinstance(cause, requests_errors.RequestException):
            cause.request = None  # causes are pickled, and the headers of a request hold tokens
    host = host or Host.of(url)
    if sent and _among(chain, requests_errors.InvalidHeader, urllib3_errors.InvalidHeader):
        return FramingError(
            f"the headers of the response from {host} contradict each other: {_short(chain[-1])}",
            hint="check the proxies on the way to the service: one may have joined two responses",
        )
    if _among(chain, *_BAD_REQUEST):
        return ConfigError(
            f"{url!r} cannot be requested: {error}", option="endpoint", hint="check the endpoint"
        )
    unread = [c for c in chain if isinstance(c, ssl.SSLError) and c.library in _CERTIFICATES]
    if unread:
        return CertificateError(
            f"the file of trusted certificates cannot be read: {_short(unread[0])}",
            url=url,
            request_sent=False,
            hint="set REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE to a PEM file of certificates, or unset "
            "it",
        )
    failure = _unreached(chain, host, url, sent=sent) or _late(chain, host, url, sent=sent)
    if failure is not None:
        return failure
    if _among(chain, BadStatusLine, UnknownProtocol) and not _among(chain, RemoteDisconnected):
        where = (
            f"check the port and the scheme (http or https) of the {host.option}, and the proxies"
        )
        return BrokenStreamError(
            f"the response from {host} is not HTTP/1: {_short(chain[-1])}",
            url=url,
            request_sent=sent,
            hint="try again" if host.answered else where,
        )
    return BrokenStreamError(
        f"the connection to {host} broke: {_short(chain[-1])}",
        url=url,
        request_sent=sent,
        hint="try again",
    )


def _late(
    chain: list[BaseException], host: Host, url: str, *, sent: bool
) -> RequestTimeoutError | None:
    """Return the error if the server was too slow, otherwise ``None``."""
    if _among(chain, TooSlowError):
        message = f"the response from {host} took longer than the total time allowed"
        hint = host.having_answered().hint_if_silent()
        return RequestTimeoutError(message, url=url, request_sent=sent, hint=hint)
    if not _among(
        chain, TimeoutError, urllib3_errors.ReadTimeoutError, requests_errors.ReadTimeout
    ):
        return None
    silent = next((cause.seconds for cause in chain if isinstance(cause, SilentError)), None)
    spent = "too long" if silent is None else f"{silent:g} s"
    never = "" if host.answered else ", and has not responded to this client before"
    error = RequestTimeoutError(
        f"{host} was silent for {spent}{never}",
        url=url,
        request_sent=sent,
        hint=host.hint_if_silent(),
    )
    error.never_answered = not host.answered
    return error


def _unreached(
    chain: list[BaseException], host: Host, url: str, *, sent: bool
) -> ConnectError | None:
    """Return the error if the server was never reached, otherwise ``None``."""
    certificate = next(
        (cause for cause in chain if isinstance(cause, ssl.SSLCertVerificationError)), None
    )
    is_of_proxy = _among(chain, *_PROXY)
    if certificate is not None and not is_of_proxy:
        return _untrusted_certificate(certificate, host, url)
    short = _short(chain[-1])
    proxy = _proxy_place(chain) if is_of_proxy else None
    if is_of_proxy and proxy is None:
        message, hint = f"the proxy cannot connect to {host}: {short}", CHECK_PROXY
    elif _among(chain, *_NO_NAME):
        message, hint = (
            f"cannot resolve the host name of {proxy or host.named}",
            host.hint_if_unknown(),
        )
    elif not sent and _among(chain, *_TLS):
        message = f"no secure connection to {proxy or host}: {short}"
        hint = f"check that the {host.option} supports https://, and check proxies and firewalls"
    elif _among(chain, urllib3_errors.NewConnectionError):
        message, hint = f"{proxy or host} refuses the connection", host.hint_if_unreached()
    elif _among(chain, urllib3_errors.ConnectTimeoutError):
        message, hint = f"{proxy or host} does not answer", host.hint_if_unreached()
    else:
        return None
    error = ConnectError(message, url=url, request_sent=False, hint=CHECK_PROXY if proxy else hint)
    error.never_answered = not host.answered
    return error


def _proxy_place(chain: list[BaseException]) -> str | None:
    """Return the name of the proxy that was not reached; ``None`` if it responded."""
    for cause in chain:
        connection = getattr(cause, "conn", None)
        if isinstance(cause, _NOT_OPENED) and isinstance(connection, HTTPConnection):
            return f"the proxy {connection.host}:{connection.port}"
    return None


def _among(chain: list[BaseException], *kinds: type[BaseException]) -> bool:
    return any(isinstance(cause, kinds) for cause in chain)


def _untrusted_certificate(
    error: ssl.SSLCertVerificationError, host: Host, url: str
) -> CertificateError:
    if error.verify_code in _WRONG_NAME:
        hint = "use a host name that is in the certificate"
    elif error.verify_code in _WRONG_TIME:
        hint = "check this machine's clock, or renew the certificate"
    else:
        hint = (
            "if you trust its issuer, save the issuer's certificate as a PEM file and set "
            "REQUESTS_CA_BUNDLE to the path of the file"
        )
    return CertificateError(
        f"the certificate of {host} is not trusted: {error.verify_message}",
        url=url,
        request_sent=False,
        hint=hint,
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [arg for arg in cause.args if isinstance(arg, BaseException)]
        waiting += [getattr(cause, "reason", None), cause.__cause__]
        waiting = [item for item in waiting if isinstance(item, BaseException)]


def _short(error: BaseException) -> str:
    return shorten(str(error).strip() or type(error).__name__, 200)
