"""The exception hierarchy; imports no other module of odps_nb.

::

    OdpsNbError
    ├── ProtocolError            the bytes violate the format
    │   ├── ChecksumError        a CRC32C, CRC-32, MD5 or size does not match
    │   ├── TruncatedError       the bytes end too early
    │   ├── FramingError         lengths, JSON or order are invalid
    │   └── OversizeError        a size in the bytes exceeds a limit; also a LimitExceededError
    ├── LimitExceededError       a limit set by the caller, such as max_bytes, is exceeded
    ├── TransportError           no response, or an incomplete one
    │   ├── ConnectError         no server at the address, or unknown host name
    │   │   └── CertificateError the server's certificate is not trusted
    │   ├── RequestTimeoutError  connected, but no data before the timeout
    │   └── BrokenStreamError    the connection broke during a transfer
    ├── ServiceError             an error response: status, code, request_id
    │   ├── InvalidRequestError  400 and similar
    │   ├── AccessDeniedError    401, 403
    │   ├── NotFoundError        404: table, partition, session, object
    │   ├── NoStorageApiError    only the Storage API can do this
    │   ├── ConflictError        409: state, offset or version
    │   ├── SessionExpiredError  the session and its snapshot have expired
    │   ├── ThrottledError       429
    │   ├── ServerFaultError     5xx
    │   └── QueryError           a SQL instance failed
    ├── ArgumentError            an argument is wrong; also a ValueError
    │   ├── MissingKeyError      no item of this name; also a KeyError
    │   └── PositionError        no item at this position; also an IndexError
    ├── ConversionError          a value or type does not fit its target
    ├── ConfigError              invalid profile, credentials or options
    │   └── MissingDependencyError   an optional library or program is not installed
    ├── CancelledError           cancelled by the user
    └── StateError               misuse: closed, consumed, wrong order; also a RuntimeError

Every error has a ``hint``: what to do, or ``None``. Other facts about an error are passed as
keywords and become attributes. Higher layers add context as notes (``add_note``) and re-raise the
same error. Message, facts and notes survive pickling, because Spark sends errors between processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

__all__ = [
    "AccessDeniedError",
    "ArgumentError",
    "BrokenStreamError",
    "CancelledError",
    "CertificateError",
    "ChecksumError",
    "ConfigError",
    "ConflictError",
    "ConnectError",
    "ConversionError",
    "FramingError",
    "InvalidRequestError",
    "LimitExceededError",
    "MissingDependencyError",
    "MissingKeyError",
    "NoStorageApiError",
    "NotFoundError",
    "OdpsNbError",
    "OdpsNbWarning",
    "OversizeError",
    "PositionError",
    "ProtocolError",
    "QueryError",
    "RequestTimeoutError",
    "ServerFaultError",
    "ServiceError",
    "SessionExpiredError",
    "StateError",
    "ThrottledError",
    "TransportError",
    "TruncatedError",
    "explain",
    "visible",
]

# Control characters may hide or overwrite text and control a terminal. Direction marks reorder
# text ("gpj.exe" looks like "exe.jpg"). A lone surrogate cannot be encoded as UTF-8. Invisible
# characters make two names look the same: those of Unicode's Default_Ignorable_Code_Point, and
# Braille's blank. Joiners and variation selectors are part of emoji and of several scripts, so they
# are escaped only beside ASCII, where they have no effect.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    "|\r(?!\n)"
    "|(?<![^\x00-\x7f])[\u200c\u200d\U000e0100-\U000e01ef]"
    "|[\u200c\u200d](?![^\x00-\x7f])"
    "|(?<![^\x00-\x7f])[\ufe00-\ufe0f](?!\u20e3)"  # 1 + FE0F + 20E3 is a keycap emoji
)


def visible(value: object, *, keep: str = "") -> str:
    """Return ``str(value)``, escaping characters that hide or reorder text, e.g. as ``\\x1b``.

    Use it to display text from a service, a file or a user. Newlines, tabs and the characters in
    ``keep`` are not escaped.
    """
    text, changed = str(value), True
    while changed:  # a joiner beside an escape, which is ASCII, must be escaped, too
        before = text
        text = _UNSEEN.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)
        changed = text != before
    return text


def shown(value: object, limit: int = 80) -> str:
    """Return the start of ``repr(value)``, or its type if the repr raises; for error messages.

    Only the first line, because the repr of a table or a data frame has many.
    """
    try:
        text, _, rest = visible(repr(value)).partition("\n")
    except Exception:  # noqa: BLE001  of the caller's class
        return a_type(type(value))
    return text[: limit - 1] + "…" if rest or len(text) > limit else text


def a_type(kind: type | str) -> str:
    """Return the name of a type with its article, e.g. ``an int``; for error messages."""
    name = kind if isinstance(kind, str) else kind.__name__
    return f"{'an' if name[:1] in 'aeioAEIO' or name == 'ndarray' else 'a'} {name}"


def _escaped(sign: str) -> str:
    number = ord(sign)
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


_IN_DOUBT = "check whether the commit or statement has succeeded before you repeat it"


class OdpsNbError(Exception):
    """Base class of all errors of this package; message, facts and notes survive pickling.

    ``in_doubt``: the response to a commit or statement was lost, so the operation may have
    succeeded or may still be running. Check the table before retrying.
    """

    fact_names: ClassVar[tuple[str, ...]] = ("hint",)
    """Names of the facts: those of the base classes, then annotations without a value."""
    hint: str | None
    in_doubt: bool = False

    def __init_subclass__(cls) -> None:
        own = (name for name in cls.__annotations__ if name not in cls.__dict__)
        cls.fact_names = (*cls.fact_names, *own)

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(visible(message))
        self._notes: list[str] = []
        unknown = facts.keys() - set(self.fact_names)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no facts named {sorted(unknown)}")
        for name in self.fact_names:
            value = facts.get(name)
            setattr(self, name, visible(value) if isinstance(value, str) else value)

    @property
    def message(self) -> str:
        """What failed, in one sentence."""
        return str(self.args[0])

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes that the layers added, innermost first."""
        return tuple(self._notes)

    @property
    def __notes__(self) -> list[str]:
        """Lines that Python prints below a traceback: notes, code, request id and hint."""
        return [*self._notes, *self._last_lines()]

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        # Libraries that pickle exceptions assign the list that the getter returned, possibly with
        # an extra note, so remove the lines that the getter added.
        lines, own = self._last_lines(), list(notes)
        for at in range(len(own) - len(lines), -1, -1):
            if own[at : at + len(lines)] == lines:
                del own[at : at + len(lines)]
                break
        self._notes = [visible(note) for note in own]

    def _last_lines(self) -> list[str]:
        facts = " · ".join(_fact_lines(self))
        excerpt = getattr(self, "excerpt", None)
        return [
            *([visible(excerpt)] if excerpt else []),
            *([facts] if facts else []),
            *self._to_do(),
        ]

    def _to_do(self) -> list[str]:
        hint = self.hint or ""
        if self.in_doubt and "rows of the table" not in hint:
            hint = f"{_IN_DOUBT}; then {hint}" if hint else _IN_DOUBT
        line = f"to do: {visible(hint)}" if hint else ""
        # messages from Spark already contain the hint
        return [line] if line and line not in self.message else []

    def __repr__(self) -> str:
        facts = ((name, getattr(self, name)) for name in self.fact_names)
        texts = [f"{name}={_shorten(value)}" for name, value in facts if value is not None]
        return f"{type(self).__name__}({', '.join([_shorten(self.message), *texts])})"

    def add_note(self, note: str, /) -> None:
        """Add a line of context."""
        self._notes.append(visible(note))

    def _rewrite(self, change: Callable[[str], str]) -> None:
        """Apply ``change`` to each text in the message, the facts and the notes."""
        self.args: tuple[Any, ...] = (change(self.message), *self.args[1:])
        for name in self.fact_names:
            if isinstance(value := getattr(self, name), str):
                setattr(self, name, change(value))
        self._notes = [change(note) for note in self._notes]

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {name: getattr(self, name) for name in self.fact_names}
        return _revive, (type(self), self.message, facts, self.notes, self.in_doubt)

    def __copy__(self) -> OdpsNbError:
        # pyodps registers a reducer for every exception class, which `copy.copy` would prefer to
        # `__reduce__`. Copies made by that reducer would share one list of notes.
        make, parts = self.__reduce__()
        copied: OdpsNbError = make(*parts)
        return copied


def _fact_lines(error: OdpsNbError) -> list[str]:
    facts = (("code", "code"), ("status", "HTTP"), ("request_id", "request id"))
    pairs = ((label, getattr(error, fact, None)) for fact, label in facts)
    lines = [visible(f"{label} {value}") for label, value in pairs if value is not None]
    wait = getattr(error, "retry_after", None)
    return [*lines, f"retry after {wait:g} s"] if isinstance(wait, int | float) and wait else lines


def _shorten(value: object) -> str:
    # Some messages and facts come from a service and may be long, and the repr of an error may be
    # logged.
    text = repr(value[:300] if isinstance(value, str) else value)
    return text if len(text) <= 240 else text[:239] + "…"


def _revive(
    cls: type[OdpsNbError],
    message: str,
    facts: dict[str, Any],
    notes: tuple[str, ...],
    in_doubt: bool = False,  # noqa: FBT001, FBT002  pickled by position
) -> OdpsNbError:
    error = cls(message, **facts)
    error.in_doubt = in_doubt
    for note in notes:
        error.add_note(note)
    return error


# -- the bytes --------------------------------------------------------------------------------


class OdpsNbWarning(UserWarning):
    """Base category of this package's warnings."""


class ProtocolError(OdpsNbError):
    """The bytes violate the format; ``offset`` counts bytes from the start of the stream."""

    offset: int | None
    request_id: str | None


class ChecksumError(ProtocolError):
    """A checksum does not match; ``expected`` and ``actual`` are the two values."""

    block: int | None
    expected: str | int | None
    actual: str | int | None


class TruncatedError(ProtocolError):
    """The bytes end too early; ``expected`` and ``actual`` are the two counts."""

    expected: int | None
    actual: int | None


class FramingError(ProtocolError):
    """A length, a JSON part or the order of parts is invalid.

    ``lasts``: a retry would return the same bytes, so the client does not retry the request.
    """

    lasts: bool = False


class LimitExceededError(OdpsNbError):
    """A result exceeds ``limit``, which is set by an argument such as ``max_bytes``."""

    limit: int | None
    actual: int | None
    request_id: str | None


class OversizeError(ProtocolError, LimitExceededError):
    """A size in the bytes exceeds ``limit``: the bytes are damaged, or the limit is too low."""

    limit: int | None
    actual: int | None


# -- transport ----------------------------------------------------------------------------


class TransportError(OdpsNbError):
    """No complete response; if ``request_sent``, the server may have executed the request."""

    url: str | None
    request_id: str | None
    request_sent: bool | None
    never_answered: bool = False
    """Whether the host has not responded to any request of this client."""
    given_up: bool = False
    """Whether a call whose result the request needs failed after its own retries."""


class ConnectError(TransportError):
    """No server listens at the address, the name does not resolve, or TLS fails."""


class CertificateError(ConnectError):
    """The server's certificate is untrusted, has expired, or is for another host name."""


class RequestTimeoutError(TransportError):
    """The server sent no data before the timeout."""


class BrokenStreamError(TransportError):
    """The connection broke during a request or a response."""


# -- error responses -----------------------------------------------------------------------------


class ServiceError(OdpsNbError):
    """An error response from the server, with HTTP ``status``, error ``code`` and ``request_id``.

    ``excerpt`` is the faulty line of a query, with a caret below the position of the error.
    """

    status: int | None
    code: str | None
    request_id: str | None
    retry_after: float | None
    excerpt: str | None
    of_lookup: bool = False
    """Whether the lookup of the storage host failed, before a request to a transfer service."""


class InvalidRequestError(ServiceError):
    """The server rejected an argument."""


class AccessDeniedError(ServiceError):
    """Unknown key, bad signature, skewed clock, or missing permission on the object."""


class NotFoundError(ServiceError):
    """The project, table, partition, session, stream or object does not exist."""


class NoStorageApiError(ServiceError):
    """The operation needs the Storage API, which the account lacks or ``transfer=`` excludes."""


class ConflictError(ServiceError):
    """The object is not in the state that the request requires."""


class SessionExpiredError(ServiceError):
    """The session has expired; a new session is not opened because its snapshot would differ."""


class ThrottledError(ServiceError):
    """Too many requests; ``retry_after``: delay in seconds sent by the server, or ``None``."""


class ServerFaultError(ServiceError):
    """The server failed (5xx)."""


class QueryError(ServiceError):
    """A SQL query failed on the service."""


# -- values and settings ----------------------------------------------------------------------


class ArgumentError(OdpsNbError, ValueError):
    """An argument is invalid; raised before the request is sent.

    `InvalidRequestError` reports arguments that the service rejects.
    """

    code: str | None
    argument: str | None


class PositionError(ArgumentError, IndexError):
    """The position is out of range for the sequence, for example because the sequence is empty."""


class MissingKeyError(ArgumentError, KeyError):
    """The mapping does not contain the key."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError.__str__ quotes the message


class ConversionError(OdpsNbError):
    """A value or type does not fit its target.

    ``row`` counts from 0; ``path`` locates a nested value, for example ``[1].price``.
    """

    column: str | None
    source_type: str | None
    target_type: str | None
    row: int | None
    path: str | None


class ConfigError(OdpsNbError):
    """A profile, credential or option is missing or contradicts another; ``option`` names it."""

    option: str | None


class MissingDependencyError(ConfigError):
    """An optional library or program is not installed; ``extra`` is the extra to install."""

    extra: str | None


class CancelledError(OdpsNbError):
    """The user cancelled the operation. A write that raises this error has committed nothing."""


class StateError(OdpsNbError, RuntimeError):
    """Misuse of an object: closed, already consumed, or called in the wrong order."""


def explain(error: BaseException) -> list[str]:
    """Describe any exception in up to three lines: what failed, where, and what to do."""
    name = type(error).__name__
    what = f"{name}: {error}"
    if not isinstance(error, OdpsNbError):
        return [visible(what)]
    where = [*(note for note in error.notes if note), *_fact_lines(error)]
    lines = [what]
    if where:
        lines.append("where: " + " · ".join(where))
    lines += error._to_do()
    return [visible(line) for line in lines]  # facts may contain unescaped text
