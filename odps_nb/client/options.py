"""`ClientOptions`: retries, time-outs, connections and transfer service of a client."""

from __future__ import annotations

import contextlib
import numbers
import operator
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from odps_nb.errors import ArgumentError, ConfigError
from odps_nb.explained import explained_init
from odps_nb.terms import TransferMode

MAX_SECONDS = 86_400.0
_WORKING = 4  # ``work_timeout`` as a multiple of ``read_timeout``
_DOCUMENT = 10  # ``document_timeout`` as a multiple of ``read_timeout``


@explained_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Retries, time-outs, connections and transfer service of a client. Immutable.

    Times are in seconds. A connection that is silent for ``read_timeout`` is closed, and its
    request is retried. Reads resume at the next row, blobs at the next byte. Until a host has
    responded for the first time, the limits are shorter: 5 s for a connection, 10 s for a response,
    and two slow attempts, unless a time-out exceeds its default. See
    ``docs/howto/retries-and-timeouts.md``.

    Parameters
    ----------
    retries
        Maximum number of retries of a request; 0 for none. Default: 6. Counting starts again when
        rows or bytes arrive. A connection that cannot be opened is retried at most 3 times.
    deadline
        Maximum time between the first attempt (or the last progress) and the start of another
        attempt, in seconds. Default: 300. Unless ``retries`` is 0, it must exceed both time-outs;
        otherwise a silent connection would never be retried.
    connect_timeout
        Maximum time to open a connection, in seconds, for each address of the host. It also limits
        each pause in the TLS handshake. Default: 10.
    read_timeout
        Maximum seconds during which an open connection transfers no bytes in either direction.
        Default: 30. See `work_timeout` for requests that may take longer.
    connections
        Maximum idle connections to keep open per host. Default: 32. More are opened if needed and
        closed after use. The ``workers=`` argument of a read limits its connections.
    transfer
        Which services transfer rows: ``"auto"`` (default) uses the Storage API or, if the account
        lacks it, its version 1 or the tunnel. ``"storage"`` and ``"tunnel"`` use only these.

    Raises
    ------
    ArgumentError
        A value is unknown, not a number, out of range, or conflicts with another.

    Examples
    --------
    >>> from odps_nb import ClientOptions
    >>> ClientOptions(retries=2, read_timeout=5).work_timeout
    20.0
    """

    retries: int = 6
    deadline: float = 300.0
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    connections: int = 32
    transfer: str = TransferMode.AUTO.value

    def __post_init__(self) -> None:
        object.__setattr__(self, "transfer", TransferMode.of(self.transfer).value)
        object.__setattr__(self, "retries", _count("retries", self.retries, least=0))
        object.__setattr__(self, "connections", _count("connections", self.connections, least=1))
        for name in ("deadline", "connect_timeout", "read_timeout"):
            object.__setattr__(self, name, _seconds(name, getattr(self, name)))
        longest = max(("connect_timeout", "read_timeout"), key=lambda name: getattr(self, name))
        seconds: float = getattr(self, longest)
        if self.retries and self.deadline <= seconds:
            raise ArgumentError(
                f"deadline ({self.deadline:g} s) is not longer than {longest} ({seconds:g} s): "
                "a silent connection would never be retried",
                argument="deadline",
                hint=f"pass a deadline= of at least 3 times {longest}, a shorter {longest}=, or "
                "retries=0",
            )

    @property
    def work_timeout(self) -> float:
        """Maximum seconds to wait for a response while the service works on a request.

        It is 4 times ``read_timeout``, but at most half of ``deadline``, and at least
        ``read_timeout``. It applies to uploads, to closing a write stream, to commits and to the
        submission of SQL statements. Read sessions may take longer, because they are polled until
        they are ready.
        """
        return max(self.read_timeout, min(_WORKING * self.read_timeout, self.deadline / 2))

    @property
    def document_timeout(self) -> float:
        """Maximum seconds for a whole JSON or XML response: 10 times ``read_timeout``."""
        return _DOCUMENT * self.read_timeout

    def as_settings(self) -> dict[str, str]:
        """Return the options that differ from the defaults, as text."""
        named = {option.name: getattr(self, option.name) for option in fields(self)}
        default = ClientOptions()
        return {key: str(v) for key, v in named.items() if v != getattr(default, key)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> ClientOptions:
        """Create options from a mapping of names to text or numbers; ignore unknown names.

        Raises
        ------
        ConfigError
            A value is not a number, is out of range, or conflicts with another.
        """
        named = {key: _number(key, settings[key]) for key in OPTION_FIELDS if key in settings}
        try:
            return cls(**named)
        except ArgumentError as error:
            raise ConfigError(str(error), option=error.argument, hint=error.hint) from None


OPTION_FIELDS = tuple(option.name for option in fields(ClientOptions))


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, str) or name == "transfer":
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    raise ConfigError(
        f"{name} is {value!r}; it must be a number", option=name, hint="pass a number"
    )


def _count(name: str, value: Any, *, least: int) -> int:
    with contextlib.suppress(TypeError):
        if not isinstance(value, bool) and (count := operator.index(value)) >= least:
            return count
    raise ArgumentError(
        f"{name} is {value!r}; it must be a whole number of at least {least}",
        argument=name,
        hint=f"pass a whole number, e.g. {name}=6",
    )


def _seconds(name: str, value: Any) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < (seconds := float(value)) <= MAX_SECONDS:
        raise ArgumentError(
            f"{name} is {value!r}; it must be a number of seconds, above 0 and at most one day",
            argument=name,
            hint=f"pass seconds, e.g. {name}=60",
        )
    return seconds
