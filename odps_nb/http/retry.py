"""Decides whether and when to retry (``docs/protocol.md`` section 8.4); never sleeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odps_nb.errors import (
    CertificateError,
    ChecksumError,
    ConnectError,
    FramingError,
    InvalidRequestError,
    ProtocolError,
    ServerFaultError,
    ServiceError,
    ThrottledError,
    TransportError,
    TruncatedError,
)
from odps_nb.wire.calls.errors import is_time_overflow
from odps_nb.wire.http_date import parse_date


def may_have_been_done(error: BaseException) -> bool:
    """Return whether the service may have executed a request that failed with this error."""
    if isinstance(error, TransportError):
        return error.request_sent is not False
    return isinstance(error, (ServerFaultError, ProtocolError))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Retry limits: attempts, total time and backoff. Times are in seconds.

    Parameters
    ----------
    max_attempts
        Maximum number of attempts of one call, including the first.
    connect_attempts
        Maximum attempts if no connection can be opened; lower, because the endpoint is probably
        wrong.
    deadline
        Maximum time between the first attempt (or the last progress) and the start of another.
        For a read that is throttled (429) after it has received rows, this is the only limit.
    base, cap
        The wait doubles from ``base`` up to ``cap``. If the server requests a longer wait, that is
        used.
    spread
        Maximum fraction by which waits are randomly shortened, so clients do not retry in step.
    """

    max_attempts: int = 7
    connect_attempts: int = 4
    deadline: float = 300.0
    base: float = 0.2
    cap: float = 20.0
    spread: float = 0.5

    def decide(
        self,
        attempt: int,
        error: BaseException,
        *,
        idempotent: bool,
        elapsed: float,
        chance: float = 0.0,
        patient: bool = False,
        took: float = 0.0,
    ) -> float | None:
        """Return the seconds to wait before the next attempt, or ``None`` to give up.

        ``attempt`` is the number of attempts so far, ``elapsed`` the seconds since the first
        attempt began, and ``chance`` a random number in [0, 1). ``idempotent``: repeating the call
        is harmless. ``patient``: retry a 429 until the deadline if the policy allows more than one
        attempt. ``took``: duration of the last attempt in seconds; a host that has never responded
        gets only two slow attempts.
        """
        limit = self.max_attempts
        if isinstance(error, ConnectError):
            limit = min(limit, self.connect_attempts)
        if took > _SLOW_ATTEMPT and isinstance(error, TransportError) and error.never_answered:
            limit = min(limit, 2)
        enough = attempt >= limit
        if patient and limit > 1 and isinstance(error, ThrottledError):
            enough = False
        if enough or not _may_repeat(error, idempotent=idempotent):
            return None
        wait: float = min(self.cap, self.base * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS))
        wait *= 1.0 - self.spread * chance
        retry_after = getattr(error, "retry_after", None)
        if retry_after is not None:
            wait = max(wait, retry_after)
        return wait if elapsed + wait <= self.deadline else None


_SLOW_ATTEMPT = 3.0  # seconds; refused connections are faster, dropped packets and silence slower
_MOST_DOUBLINGS = 60  # enough for any base to exceed any cap; many more would overflow


def _may_repeat(error: BaseException, *, idempotent: bool) -> bool:
    if isinstance(error, ThrottledError):
        return True  # the server refused the request before executing it
    if isinstance(error, CertificateError):
        return False  # another attempt would see the same certificate
    if isinstance(error, TransportError):
        return not error.given_up and (idempotent or error.request_sent is False)
    if isinstance(error, ServerFaultError) and error.status == 501:
        return False  # the server does not have this function
    if isinstance(error, ServerFaultError) or (
        isinstance(error, ServiceError)
        # after these errors, the Java and Go SDKs also wait and then submit a job again
        and (
            (error.status == 408 and type(error) is InvalidRequestError)  # unknown error code
            or (error.status == 409 and error.retry_after is not None)
        )
        and not is_time_overflow(f"{error.code} {error.message}")
    ):
        return idempotent
    if isinstance(error, FramingError) and error.lasts:
        return False
    if isinstance(error, (TruncatedError, ChecksumError, FramingError)):
        return idempotent  # bytes were damaged in transit; a retry may succeed
    return False


def seconds_until_retry(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until the date in ``Retry-After``; ``None`` if the header has no date.

    `odps_nb.wire` parses the other form, a number of seconds. The current time is the response's
    ``Date``, or ``now`` (seconds since the epoch) if the response has none.

    Examples
    --------
    >>> until, now = "Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:29 GMT"
    >>> seconds_until_retry({"retry-after": until, "date": now}, now=0.0)
    30.0
    """
    until = parse_date(headers.get("retry-after", ""))
    if until is None:
        return None
    server_time = parse_date(headers.get("date", ""))
    return max(0.0, until - (now if server_time is None else server_time))
