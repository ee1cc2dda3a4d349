"""Temporary credentials that a function or program renews before they expire."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from odps_nb.client.auth.choice import is_complete
from odps_nb.client.auth.shapes import check_shapes
from odps_nb.client.auth.sources import stated
from odps_nb.errors import ConfigError
from odps_nb.lifetime import renew_after_fork
from odps_nb.secret import Hidden, Secret, forget_locals

MARGIN = 300.0  # renew keys this many seconds before they expire
HOLD = 60.0  # seconds to cache keys without an expiration time
PATIENCE = 30.0  # seconds to wait before retrying a failed renewal
PROCESS_SECONDS = 60.0
_LAST_SECOND = 253402300799  # 9999-12-31T23:59:59Z; an expiration in milliseconds is later
_SHAPE = '{"access_id": …, "access_key": …, "sts_token": …, "expiration": …}'

# Accepted field names, in lower case and without underscores. Alibaba's tools use some of them.
_NAMES = {
    "accessid": "access_id",
    "accesskeyid": "access_id",
    "accesskey": "access_key",
    "accesskeysecret": "access_key",
    "ststoken": "sts_token",
    "securitytoken": "sts_token",
    "bearertoken": "bearer_token",
    "expiration": "expiration",
}


class CredentialSource:
    """A thread-safe cache of credentials, which fetches new ones shortly before they expire.

    If a renewal fails, the old credentials are used as long as they are valid. ``ask`` returns a
    mapping with ``access_id``, ``access_key`` and possibly ``sts_token``, or with ``bearer_token``.
    Its optional ``expiration`` is in seconds since the epoch, or ISO 8601 text. ``what`` is the
    name of the source in error messages.

    Examples
    --------
    >>> source = CredentialSource(lambda: {"access_id": "me", "access_key": "secret"}, "a test")
    >>> sorted(source.get())
    ['access_id', 'access_key']
    """

    def __init__(
        self,
        ask: Callable[[], Mapping[str, Any]],
        what: str,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ask, self._what, self._clock = ask, what, clock
        self._lock = threading.Lock()
        self._keys = Hidden()
        self._renew_at = self._ends_at = 0.0
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Create a new lock, because a renewal in the parent does not continue in the child."""
        self._lock = threading.Lock()

    def get(self) -> Mapping[str, str]:
        """Return valid credentials. Errors never show what the function or program returned."""
        with self._lock:
            now = self._clock()
            if now < self._renew_at:
                return self._keys
            try:
                keys, ends_at = self._asked(now)
            except ConfigError:
                if now >= self._ends_at:
                    raise
                self._renew_at = min(self._ends_at, now + PATIENCE)
                return self._keys
            self._keys, self._ends_at = keys, ends_at
            left = ends_at - now
            self._renew_at = ends_at - min(MARGIN, left / 2)
            return keys

    def expire(self) -> None:
        """Fetch new keys at the next `get`, because the service says that these have expired."""
        with self._lock:
            self._renew_at = self._ends_at = 0.0

    def _asked(self, now: float) -> tuple[Hidden, float]:
        named = self._given()
        expiration = named.pop("expiration", None)
        if isinstance(expiration, str):  # the expiration may also be a number
            expiration = Secret(expiration)
        keys = Hidden((key, named[key]) for key in named if key and named[key])
        if not all(isinstance(keys[key], str) for key in keys):
            raise self._no_keys("returned a key that is not a string")
        keys = stated(keys)
        if not is_complete(keys):
            raise self._no_keys("must return access_id and access_key, or bearer_token")
        keys = Hidden((key, Secret(keys[key])) for key in keys)
        ends_at = now + 2 * HOLD if expiration in (None, "") else self._seconds(expiration)
        if not ends_at <= _LAST_SECOND:
            raise self._no_keys("returned an expiration that is not in seconds")
        if ends_at <= now:
            raise self._no_keys("returned keys that have already expired")
        check_shapes(keys)
        return keys, ends_at

    def _given(self) -> Hidden:
        """Call the source and normalise its field names; keep secrets out of tracebacks."""
        try:
            returned = self._ask()
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - any failure becomes a ConfigError
            forget_locals(error)
            failure = type(error).__name__
        else:
            if isinstance(returned, Mapping):
                return Hidden(
                    (_NAMES.get(str(key).lower().replace("_", ""), ""), returned[key])
                    for key in returned
                )
            kind = type(returned).__name__
            del returned
            raise self._no_keys(f"returned {kind} instead of a mapping")
        raise ConfigError(  # without the cause, whose message may contain keys
            f"{self._what} failed: {failure}",
            option="credentials",
            hint=getattr(self._ask, "hint", "call it directly to see why"),
        )

    def _seconds(self, value: object) -> float:
        moment = None
        try:
            if isinstance(value, (int, float)):
                return float(value)
            moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        except (ValueError, OverflowError):
            pass  # drop the exception, because its message shows the value, which may be secret
        if moment is None:
            raise self._no_keys("returned an expiration that is not a time")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def _no_keys(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self._what} {why}",
            option="credentials",
            hint=f"return {_SHAPE}",
        )


def from_process(command: str) -> Mapping[str, Any]:
    """Run a program without a shell, and return the JSON object that it prints.

    Errors show neither the program's arguments nor its output, because both may contain keys.
    """
    command = Secret(command)
    what, hint = (
        "credential_process",
        "check the quotes; the program and its arguments are quoted as in a shell",
    )
    try:
        words = [Secret(word) for word in shlex.split(command)]
    except ValueError as error:  # the error's message does not contain the command
        forget_locals(error)
        why = f"cannot be read: {error}"
    else:
        what = f"the credential process {str(words[0]) if words else ''!r}"
        try:
            code, printed = _run(words)
        except (OSError, IndexError, ValueError) as error:
            forget_locals(error)
            why = "cannot be started"
            hint = "pass the full path of an executable program"
        except subprocess.TimeoutExpired as error:
            forget_locals(error)
            why = f"did not end within {PROCESS_SECONDS:.0f} s"
            hint = "run it by hand; it must not prompt for input"
        else:
            if not code and (document := _object(printed)) is not None:
                return document
            why = f"failed with exit status {code}" if code else "printed no JSON object"
            hint = f"run it by hand to see why; it must print {_SHAPE}"
    raise ConfigError(f"{what} {why}", option="credential_process", hint=hint)


def _run(words: list[Secret]) -> tuple[int, Secret]:
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROCESS_SECONDS
    )
    return done.returncode, Secret(done.stdout.decode("utf-8-sig", "surrogateescape"))


def _object(printed: Secret) -> Hidden | None:
    try:
        document = json.loads(printed)
    except (ValueError, RecursionError):
        return None
    return Hidden(document) if isinstance(document, dict) else None
