"""Signs requests and verifies signatures (``docs/protocol.md`` section 2).

The canonical string matches that of the stock clients, which decode the URL *before* splitting the
query. The verifier also accepts the standard order: split first, then decode.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, NoReturn
from urllib.parse import parse_qsl, unquote, urlparse

from odps_nb.errors import AccessDeniedError, ArgumentError, ConfigError
from odps_nb.secret import hides_secrets
from odps_nb.wire.http_date import format_date, parse_date

MAX_SKEW = 900.0
PREFIX = "aliyun_v4"
REQUEST_SUFFIX = f"{PREFIX}_request"
_VALUE = re.compile(r"[!#-&(-~]+")  # printable ASCII without blanks and quotes

SignatureVersion = Literal[2, 4]

_LAST_SECOND = 253402300799  # 9999-12-31T23:59:59Z, the latest datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Keys or tokens that sign requests. The repr hides secrets; pickling raises an error.

    A bearer token alone is sufficient. Otherwise, ``access_id`` and ``access_key`` are required.
    Temporary keys also require ``sts_token``, signature version 4 requires ``region``, and an
    application that acts for a user requires ``app_id`` and ``app_key``.

    Raises `ConfigError` if a value contains spaces, quotes or line breaks, for example because it
    was pasted. Such a value would make the signature wrong or the header invalid.
    """

    access_id: str | None = None
    access_key: str | None = field(default=None, repr=False)
    sts_token: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    region: str | None = None
    app_id: str | None = None
    app_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value and not _VALUE.fullmatch(value):
                raise ConfigError(
                    f"{name} contains characters that are invalid in credentials",
                    option=name,
                    hint="check for pasted spaces, quotes or line breaks",
                )

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise ConfigError(
            "credentials are never pickled",
            hint="send the name of a profile, or Profile.as_options() if that is safe",
        )


Credentials.__init__ = hides_secrets(Credentials.__init__)  # type: ignore[method-assign]


# -- the canonical string ---------------------------------------------------------------------


class _Resource(NamedTuple):
    path: str
    params: dict[str, str]

    def __str__(self) -> str:
        spelled = "&".join(f"{k}={v}" if v else k for k, v in sorted(self.params.items()))
        return f"{self.path}?{spelled}" if self.params else self.path


def _resource_as_sent_by_clients(relative: str) -> _Resource:
    # Clients decode, split, and decode again, which changes values that contain & or %.
    parts = urlparse(unquote(relative), allow_fragments=False)
    return _Resource(parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)))


def _resource_read_plainly(relative: str) -> _Resource:
    path, _, query = relative.partition("?")
    return _Resource(unquote(path), dict(parse_qsl(query, keep_blank_values=True)))


def canonical_string(method: str, url: str, headers: Mapping[str, str], endpoint: str) -> str:
    """Return the text to sign (``docs/protocol.md`` section 2.1)."""
    relative = url[len(endpoint.rstrip("/")) :]
    try:
        resource = _resource_as_sent_by_clients(relative)
    except ValueError:
        raise ArgumentError(f"the URL cannot be signed: {relative[:80]!r}") from None
    return _canonical(method, resource, headers)


def _canonical(method: str, resource: _Resource, headers: Mapping[str, str]) -> str:
    signed = {"content-md5": "", "content-type": "", "date": ""}
    for name, value in headers.items():
        lower = name.lower()
        if lower in signed or lower.startswith("x-odps-"):
            signed[lower] = value
    signed |= {key: value for key, value in resource.params.items() if key.startswith("x-odps-")}
    lines = [
        f"{name}:{value}" if name.startswith("x-odps-") else value
        for name, value in sorted(signed.items())
    ]
    return "\n".join((method.upper(), *lines, str(resource)))


# -- signing ----------------------------------------------------------------------------------


def derive_key(secret: str, date: str, region: str) -> bytes:
    """Return the version 4 key for a day (``yyyymmdd``, UTC) and a region."""
    key = _bytes(PREFIX + secret)
    for part in (date, region, "odps", REQUEST_SUFFIX):
        key = hmac.digest(key, _bytes(part), "sha256")
    return key


def authorization(
    canonical: str, *, credentials: Credentials, now: float, version: SignatureVersion = 2
) -> str:
    """Return the value of ``Authorization`` for a canonical string."""
    access_id, secret = credentials.access_id, credentials.access_key
    if not access_id or not secret:
        raise ConfigError(
            "no access id and key are set for signing the request",
            option="access_id" if not access_id else "access_key",
            hint="set ODPS_ACCESS_ID and ODPS_ACCESS_KEY, or name a profile",
        )
    if version == 2:
        return f"ODPS {access_id}:{_signature(_bytes(secret), canonical)}"
    if not credentials.region:
        raise ConfigError(
            "a version 4 signature needs the region",
            option="region",
            hint="pass region=, e.g. cn-hangzhou",
        )
    date = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d")
    scope = "/".join((access_id, date, credentials.region, "odps", REQUEST_SUFFIX))
    key = derive_key(secret, date, credentials.region)
    return f"ODPS {scope}:{_signature(key, canonical)}"


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    endpoint: str,
    credentials: Credentials,
    now: float,
    version: SignatureVersion = 2,
) -> dict[str, str]:
    """Return the headers that sign a request.

    Raises `ConfigError` if the credentials are incomplete.

    ``method``, ``url``, ``headers``, ``endpoint``: as in `canonical_string`; a ``Date`` is added if
    missing. ``credentials``: without an access id, the bearer token is sent instead of a signature.
    ``now``: epoch seconds. ``version``: 2 or 4; version 4 requires a region.
    """
    added: dict[str, str] = {}
    if not any(name.lower() == "date" for name in headers):
        added["Date"] = format_date(now)
    if credentials.bearer_token and not credentials.access_id:
        return added | {"x-odps-bearer-token": credentials.bearer_token}
    canonical = canonical_string(method, url, {**headers, **added}, endpoint)
    value = authorization(canonical, credentials=credentials, now=now, version=version)
    added["Authorization"] = value
    if credentials.sts_token:
        added["authorization-sts-token"] = credentials.sts_token
    if credentials.app_id and credentials.app_key:
        added["application-authentication"] = (
            f"account_provider:{PREFIX.rpartition('_')[0]},signature_method:hmac-sha1,"
            f"access_id:{credentials.app_id},"
            f"signature:{_signature(_bytes(credentials.app_key), value)}"
        )
    return added


def _signature(key: bytes, text: str) -> str:
    return base64.b64encode(hmac.digest(key, _bytes(text), hashlib.sha1)).decode("ascii")


def _bytes(text: str) -> bytes:
    # surrogatepass: a received header may contain any bytes
    return text.encode("utf-8", "surrogatepass")


# -- verification -----------------------------------------------------------------------------


class _Claim(NamedTuple):
    access_id: str
    signature: str
    date: str | None = None  # version 4 only
    region: str | None = None

    def key(self, secret: str) -> bytes:
        if self.date is None or self.region is None:
            return _bytes(secret)
        return derive_key(secret, self.date, self.region)


def verify(
    method: str,
    path_and_query: str,
    headers: Mapping[str, str],
    *,
    keys: Callable[[str], str | None],
    prefixes: tuple[str, ...] = ("", "/api"),
    now: float,
    max_skew: float = MAX_SKEW,
    sts_tokens: Callable[[str], str | None] = lambda access_id: None,
    bearers: Callable[[str], str | None] = lambda token: None,
) -> str:
    """Verify a request's signature and return its access id.

    Raises `AccessDeniedError` with the ``status`` and ``code`` to send
    (``docs/protocol.md`` section 8.2).

    ``method``, ``path_and_query``, ``headers``: the request as received; the path starts with
    ``/``. ``keys``: function that returns an access id's secret, or ``None`` if unknown.
    ``prefixes``: paths that a client's endpoint may end with; they are not signed. ``now``: epoch
    seconds. ``max_skew``: maximum seconds between ``Date`` and ``now``. ``sts_tokens``: function
    that returns the temporary token that an access id requires, or ``None``. ``bearers``: function
    that returns the access id of a bearer token, or ``None`` if unknown.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    if "authorization" not in lower and "x-odps-bearer-token" in lower:
        found = bearers(lower["x-odps-bearer-token"])
        if found is None:
            raise _denied(401, "Unauthorized", "the bearer token is unknown")
        return found
    claim = _parse_authorization(lower.get("authorization", ""))
    secret = keys(claim.access_id)
    if secret is None:
        raise _denied(401, "Unauthorized", f"access id {claim.access_id[:64]!r} is unknown")
    key, matched = claim.key(secret), False
    for canonical in _candidates(method, path_and_query, lower, prefixes):
        expected = _bytes(_signature(key, canonical))
        # Compare all candidates, so the timing does not reveal which one nearly matched.
        matched |= hmac.compare_digest(expected, _bytes(claim.signature))
    if not matched:
        raise _denied(403, "SignatureNotMatch", "the signature does not match the request")
    _check_token(sts_tokens(claim.access_id), lower.get("authorization-sts-token"))
    _check_date(lower.get("date", ""), claim.date, now, max_skew)
    return claim.access_id


def _parse_authorization(value: str) -> _Claim:
    if not value:
        raise _denied(401, "Unauthorized", "the request is not signed")
    scheme, _, rest = value.partition(" ")
    credential, colon, signature = rest.strip().rpartition(":")
    parts = credential.split("/")
    if scheme == "ODPS" and colon and signature and parts[0]:
        if len(parts) == 1:
            return _Claim(parts[0], signature)
        if len(parts) == 5 and parts[3:] == ["odps", REQUEST_SUFFIX]:
            return _Claim(parts[0], signature, parts[1], parts[2])
    raise _denied(401, "Unauthorized", "the Authorization header is malformed")


def _candidates(
    method: str, path_and_query: str, headers: Mapping[str, str], prefixes: tuple[str, ...]
) -> Iterator[str]:
    for prefix in prefixes:
        if not path_and_query.startswith(prefix):
            continue
        relative = path_and_query[len(prefix) :]
        for read in (_resource_as_sent_by_clients, _resource_read_plainly):
            try:
                resource = read(relative)
            except ValueError:  # urllib parses paths such as //[ as an invalid host
                continue
            yield _canonical(method, resource, headers)


def _check_token(expected: str | None, given: str | None) -> None:
    if expected is None and given is None:
        return
    if not hmac.compare_digest(_bytes(expected or ""), _bytes(given or "")) or not expected:
        raise _denied(401, "Unauthorized", "the temporary token is unknown or missing")


def _check_date(text: str, day: str | None, now: float, max_skew: float) -> None:
    sent = parse_date(text)
    if sent is None:
        raise _denied(403, "RequestTimeTooSkewed", "the Date header is missing or malformed")
    moment = datetime.fromtimestamp(now, UTC)
    slack = timedelta(seconds=max_skew)
    days = {f"{moment + shift:%Y%m%d}" for shift in (-slack, timedelta(), slack)}
    if abs(now - sent) <= max_skew and (day is None or day in days):
        return
    expired = datetime.fromtimestamp(min(sent + max_skew, _LAST_SECOND), UTC)
    # The stock client parses the whole message as key:value pairs.
    raise _denied(
        403,
        "RequestTimeTooSkewed",
        f"request time and server time differ by:{abs(now - sent):.0f} s,"
        f"max_interval_date:{int(max_skew * 1000)},"
        f"expire_date:{_iso(expired)},now_date:{_iso(moment)}",
    )


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _denied(status: int, code: str, message: str) -> AccessDeniedError:
    return AccessDeniedError(message, status=status, code=code)
