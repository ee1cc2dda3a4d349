"""Hosts of one client: limits the wait for a first response, hides keys and adds error hints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from odps_nb.client.calls.responses import doubt_version_4
from odps_nb.client.options import ClientOptions
from odps_nb.client.transfer import TransferChoice, hint_without_storage, refuses_service
from odps_nb.errors import (
    AccessDeniedError,
    FramingError,
    InvalidRequestError,
    NotFoundError,
    OdpsNbError,
    ServiceError,
)
from odps_nb.http.hosts import TUNNEL_HINT, Host, Role
from odps_nb.http.transport import HttpResponse
from odps_nb.secret import Hidden, Secret, hide_authorization
from odps_nb.terms import Transfer
from odps_nb.wire.calls import WireRequest
from odps_nb.wire.calls.core import parse_table_target
from odps_nb.wire.calls.errors import STATUS_OF_CODE
from odps_nb.wire.calls.hints import is_denied

if TYPE_CHECKING:
    from odps_nb.client.auth.profile import Profile
    from odps_nb.wire.signing import Credentials

FIRST_CONNECT = 5.0
"""Default maximum seconds to open a connection to a host that has never responded."""
FIRST_SILENCE = 10.0
"""Default maximum seconds to wait for the first response of a host."""
_STORAGE_PATH = "/api/storage/"
_NO_API_HINT = "check the endpoint: it usually ends with /api, but {endpoint} has no path"
_OF_KEYS = ("Unauthorized", "AuthorizationRequired", "AuthenticationRequestExpired")
_ARGUMENT = ("InvalidArgument", "InvalidParameter")
# Codes that may also come from a server without a control plane; other codes name an object.

_VAGUE = frozenset(("NoSuchObject", "NoSuchProject", "InvalidProjectTable", "MethodNotAllowed"))


class Contacts:
    """The hosts of one client. Thread-safe, because sets and attributes are changed atomically."""

    def __init__(self, profile: Profile, options: ClientOptions, transfer: TransferChoice) -> None:
        self._profile, self._options, self._transfer = profile, options, transfer
        self._answered: set[str] = set()
        self._works = False  # whether the control plane has accepted a request
        self._service = urlsplit(profile.endpoint).netloc
        self.redactor: ErrorRedactor = ErrorRedactor()

    def host(self, endpoint: str) -> Host:
        """Return the host of an endpoint: the service, or the storage host if it differs."""
        parts = urlsplit(endpoint)
        return Host(
            place=parts.netloc,
            scheme=parts.scheme,
            role=Role.SERVICE if parts.netloc == self._service else Role.STORAGE,
            answered=parts.netloc in self._answered,
            service_answered=self._service in self._answered,
        )

    def note(self, response: HttpResponse, wire: WireRequest) -> None:
        """Remember that a host has responded."""
        self._answered.add(response.host.place)
        is_control = response.host.role is Role.SERVICE and not _of_storage(wire)
        self._works |= is_control and 200 <= response.status < 300

    def limits(
        self, host: Host, read_timeout: float | None, *, streams: bool
    ) -> tuple[float, float]:
        """Return the seconds to wait for a connection, and for bytes.

        Both are short until the host has responded once, unless the user's time-outs exceed the
        defaults. ``read_timeout``: the time-out of a request that the service may take long to
        process; it is shortened in proportion. ``streams``: whether the response is a stream. The
        wait for its bytes is not shortened, because the first bytes may take long.
        """
        options, default = self._options, ClientOptions()
        connect, silence = options.connect_timeout, options.read_timeout
        if not host.answered and connect <= default.connect_timeout:
            connect = min(connect, FIRST_CONNECT)
        if not (host.answered or streams) and silence <= default.read_timeout:
            silence = min(silence, FIRST_SILENCE)
        if read_timeout is not None:
            silence = read_timeout * silence / options.read_timeout
        return connect, silence

    @contextmanager
    def explaining(self, endpoint: str, wire: WireRequest) -> Iterator[None]:
        """Hide keys in the errors raised inside the block, and add hints about the host."""
        try:
            yield
        except OdpsNbError as error:
            self.explain(error, endpoint, wire)
            raise

    def explain(self, error: OdpsNbError, endpoint: str, wire: WireRequest) -> OdpsNbError:
        """Hide keys in an error of a request, and set its hint; return the same error."""
        self.redactor.redact(error)
        if isinstance(error, ServiceError) and self._profile.region:
            doubt_version_4(error)
        hint = None
        if not isinstance(error, (ServiceError, FramingError)):
            pass
        elif _of_storage(wire):
            hint = self._hint_of_storage(error, wire)
        elif endpoint == self._profile.endpoint:
            hint = self._hint_of_service(error, endpoint, wire)
        error.hint = hint or error.hint
        return error

    def _hint_of_storage(self, error: ServiceError | FramingError, wire: WireRequest) -> str | None:
        if not isinstance(error, ServiceError) or self._transfer.accepted(Transfer.STORAGE):
            return None
        target = wire.target or ""
        table = parse_table_target(target) if ".tables." in target else None
        hint = hint_without_storage(works=self._works)
        if error.code in _OF_KEYS or is_denied(f"{error.code} {error.message}"):
            return None
        if not refuses_service(error, table):
            is_unknown = type(error) is InvalidRequestError and error.hint is None
            return f"check the arguments; if they are valid, {hint}" if is_unknown else None
        if isinstance(error, AccessDeniedError) and error.code is not None:
            return f"{error.hint}; if you have this access, {hint}"
        return hint

    def _hint_of_service(
        self, error: ServiceError | FramingError, endpoint: str, wire: WireRequest
    ) -> str | None:
        if isinstance(error, ServiceError):
            if type(error) not in (InvalidRequestError, NotFoundError):
                return None
            quota = dict(wire.params).get("quotaName")
            if quota and (error.code in _ARGUMENT or error.code not in STATUS_OF_CODE):
                return f"check the name of the quota, quota={quota!r}, or connect without quota="
            if error.code in STATUS_OF_CODE and error.code not in _VAGUE:
                return None
        if self.host(endpoint).is_tunnel_as_endpoint:
            return TUNNEL_HINT
        if not urlsplit(endpoint).path.strip("/"):
            hint = _NO_API_HINT.format(endpoint=endpoint)
            return f"{hint}; if it is correct, {error.hint}" if error.hint else hint
        return None


def _of_storage(wire: WireRequest) -> bool:
    """Return whether a request is one of the Storage API."""
    return wire.path.startswith(_STORAGE_PATH)


_LEAST = 5  # shorter values occur in unrelated words
_PREFIX = 8  # characters that identify a key whose end was cut off


class ErrorRedactor:
    """Replaces the keys of the last requests in the texts of errors.

    Of an access id, the first 4 characters remain. Keys and tokens become ``<hidden>``, even if
    only their first 8 characters occur, because long messages are shortened.
    """

    def __init__(self) -> None:
        self._keys: Credentials | None = None
        self._pairs: list[tuple[Secret, str]] = []
        self._shown: Hidden = Hidden()  # secret or id -> its replacement

    def learn(self, keys: Credentials) -> None:
        """Register the keys that sign a request; the previous keys stay until the next renewal."""
        if keys != self._keys:
            old, self._pairs = self._pairs, list(_replacements(keys))
            self._keys, self._shown = keys, Hidden([*old, *self._pairs])

    def redact(self, error: OdpsNbError) -> OdpsNbError:
        """Hide the keys in an error's message, facts and notes; return the same error."""
        error._rewrite(self.text)
        return error

    def text(self, text: str) -> str:
        """Return a text without the keys."""
        text = hide_authorization(text)
        for value, shown in self._shown.items():
            start = value if shown != _HIDDEN else value[:_PREFIX]
            at = text.find(start)
            while at >= 0:
                end = at + len(start)
                while end - at < len(value) and text[end : end + 1] == value[end - at]:
                    end += 1
                text = text[:at] + shown + text[end:]
                at = text.find(start, at + len(shown))
        return text


_HIDDEN = "<hidden>"


def _replacements(keys: Credentials) -> Iterator[tuple[Secret, str]]:
    """Yield each key, token and id, and its URL-encoded form, with its replacement."""
    for values, is_id in (
        ((keys.access_key, keys.sts_token, keys.bearer_token, keys.app_key), False),
        ((keys.access_id, keys.app_id), True),
    ):
        for value in values:
            if value and len(value) >= _LEAST:
                shown = f"{value[:4]}…" if is_id else _HIDDEN
                yield Secret(value), shown
                yield Secret(quote(value, safe="")), shown
