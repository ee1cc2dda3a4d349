"""Translates errors of requests, urllib3, http.client and sockets into this package's errors."""

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
    CertificateError,
    ConfigError,
    ConnectError,
    FramingError,
    OdpsNbError,
    RequestTimeoutError,
)
from odps_nb.http.waiting import Abort, SilentError, TooSlowError
from odps_nb.secret import forget_locals
from odps_nb.terms import shorten

CHECK_PROXY = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY in the environment"

_SLOW = (
    "try again; if the network or the service is always this slow, connect with "
    "client_options=odps_nb.ClientOptions(read_timeout=…, deadline=…)"
)

_NO_NAME = (below.NameResolutionError, socket.gaierror)
_PROXY = (below.ProxyError, theirs.ProxyError)
_TLS = (ssl.SSLError, below.SSLError, theirs.SSLError)
_WRONG_NAME = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, …_IP_ADDRESS_MISMATCH
_WRONG_TIME = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, …_HAS_EXPIRED
_BAD_REQUEST = (
    theirs.InvalidURL,
    theirs.MissingSchema,
    theirs.InvalidSchema,
    theirs.InvalidHeader,
    below.LocationValueError,
)


def translate(error: BaseException, url: str, *, abort: Abort, sent: bool) -> OdpsNbError:
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
    for one in chain:
        if isinstance(one, theirs.RequestException):
            one.request = None  # causes are pickled, and the headers of a request hold tokens
    place = urlsplit(url).netloc or url
    if sent and _among(chain, theirs.InvalidHeader, below.InvalidHeader):
        return FramingError(
            f"the headers of the response from {place} contradict each other: {_short(chain[-1])}",
            hint="check the proxies between client and service: one may have joined two responses",
        )
    if _among(chain, *_BAD_REQUEST):
        return ConfigError(
            f"{url!r} cannot be requested: {error}", option="endpoint", hint="check the endpoint"
        )
    if (unreached := _unreached(chain, place, url, sent=sent)) is not None:
        return unreached
    if _among(chain, TooSlowError):
        return RequestTimeoutError(
            f"the response from {place} took longer than the total time allowed",
            url=url,
            request_sent=sent,
            hint=_SLOW,
        )
    if _among(chain, TimeoutError, below.ReadTimeoutError, theirs.ReadTimeout):
        silent = next((one.seconds for one in chain if isinstance(one, SilentError)), None)
        spent = "too long" if silent is None else f"{silent:g} s"
        return RequestTimeoutError(
            f"{place} was silent for {spent}", url=url, request_sent=sent, hint=_SLOW
        )
    return BrokenStreamError(
        f"the connection to {place} broke: {_short(chain[-1])}",
        url=url,
        request_sent=sent,
        hint="try again",
    )


def _unreached(
    chain: list[BaseException], place: str, url: str, *, sent: bool
) -> ConnectError | None:
    """Return the error if the server was never reached, otherwise ``None``."""
    short, listens = _short(chain[-1]), "check the endpoint, VPN and firewall"
    certificate = next(
        (one for one in chain if isinstance(one, ssl.SSLCertVerificationError)), None
    )
    if certificate is not None and not _among(chain, *_PROXY):
        return _distrusted(certificate, place, url)
    secure = "check that the endpoint supports https://, and check proxies and firewalls"
    for kinds, message, hint in (
        (_PROXY, f"the proxy cannot connect to {place}: {short}", CHECK_PROXY),
        (_NO_NAME, f"cannot resolve host name {place}", "check the endpoint's host name"),
        (() if sent else _TLS, f"no secure connection to {place}: {short}", secure),
        ((below.NewConnectionError,), f"{place} refuses the connection", listens),
        ((below.ConnectTimeoutError,), f"{place} does not answer", listens),
    ):
        if _among(chain, *kinds):
            return ConnectError(message, url=url, request_sent=False, hint=hint)
    return None


def _among(chain: list[BaseException], *kinds: type[BaseException]) -> bool:
    return any(isinstance(one, kinds) for one in chain)


def _distrusted(error: ssl.SSLCertVerificationError, place: str, url: str) -> CertificateError:
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
        f"the certificate of {place} is not trusted: {error.verify_message}",
        url=url,
        request_sent=False,
        hint=hint,
    )


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
    return shorten(str(error) or type(error).__name__, 200)
