"""Hides a client's keys and tokens in errors, because servers and proxies may repeat them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from odps_nb.errors import OdpsNbError
from odps_nb.secret import Hidden, Secret

if TYPE_CHECKING:
    from odps_nb.wire.signing import Credentials

_LEAST = 5  # shorter values occur in unrelated words
_PREFIX = 8  # characters that identify a key whose end was cut off
_SIGNATURE = re.compile(r"\bODPS [^\s:]{1,200}:[A-Za-z0-9+/=]{8,}", re.ASCII)
"""An ``Authorization`` header, which is valid for some minutes."""


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
        """Add the keys that sign a request; those before a renewal remain known until the next."""
        if keys != self._keys:
            old, self._pairs = self._pairs, list(_replacements(keys))
            self._keys, self._shown = keys, Hidden([*old, *self._pairs])

    def redact(self, error: OdpsNbError) -> OdpsNbError:
        """Hide the keys in an error's message, facts and notes; return the same error."""
        error._rewrite(self.text)
        return error

    def text(self, text: str) -> str:
        """Return a text without the keys."""
        text = _SIGNATURE.sub(f"ODPS {_HIDDEN}", text)
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
    """Yield each key, token and id, also as they occur in URLs, with its replacement."""
    for values, is_id in (
        ((keys.access_key, keys.sts_token, keys.bearer_token, keys.app_key), False),
        ((keys.access_id, keys.app_id), True),
    ):
        for value in values:
            if value and len(value) >= _LEAST:
                shown = f"{value[:4]}…" if is_id else _HIDDEN
                yield Secret(value), shown
                yield Secret(quote(value, safe="")), shown
