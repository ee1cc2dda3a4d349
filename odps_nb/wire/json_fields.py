"""Reads JSON object members and checks their types.

A missing or null member yields its default; unknown members are ignored. A member of the wrong type
raises `FramingError` in a response and, in a request, `InvalidRequestError` with the status and
code to send (``docs/protocol.md`` sections 3 and 8.2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from odps_nb.errors import FramingError, InvalidRequestError, OdpsNbError, shown
from odps_nb.terms import shorten

MAX_JSON_BYTES = 64 * 2**20
MAX_INTEGER = 2**63 - 1

Refuse = Callable[[str], OdpsNbError]


def in_answer(message: str) -> FramingError:
    """Create the error for a malformed response."""
    return FramingError(message, hint="check the endpoint: this is not a Storage API response")


def in_request(message: str) -> InvalidRequestError:
    """Create the error for a malformed request (400 ``InvalidArgument``)."""
    return InvalidRequestError(message, status=400, code="InvalidArgument")


def dump(value: object) -> bytes:
    """Encode JSON as the stock clients do: a space after ``,`` and ``:``, ASCII only."""
    return json.dumps(value).encode("ascii")


def parse_object(
    body: bytes, what: str, refuse: Refuse = in_answer, *, max_bytes: int = MAX_JSON_BYTES
) -> Fields:
    """Parse one JSON object; an empty body is an empty object.

    ``what``: the document's name in errors. ``refuse``: function that creates the error to
    raise: `in_answer` or `in_request`. ``max_bytes``: raise without parsing if the body is longer.
    """
    return Fields(load_object(body, what, refuse, max_bytes=max_bytes), what, refuse)


def load_object(
    body: bytes, what: str, refuse: Refuse, *, max_bytes: int = MAX_JSON_BYTES
) -> dict[str, Any]:
    """Parse one JSON object as a dict; the arguments are those of `parse_object`."""
    if len(body) > max_bytes:
        raise refuse(f"{what} has {len(body)} bytes of JSON; the limit is {max_bytes}")
    if not body.strip():
        return {}
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        start = shown(body[:60].decode("utf-8", "replace"))
        why = shorten(str(error), 120)
        raise refuse(f"{what} is not JSON: {why}; it begins with {start}") from None
    if not isinstance(value, dict):
        raise refuse(f"{what} is {_name(value)}, but a JSON object is expected")
    return value


def _no_constant(name: str) -> NoReturn:
    # Python would accept NaN and Infinity, which are not JSON.
    raise ValueError(f"{name} is not a JSON value")


class Fields:
    """A JSON object read member by member; ``what`` names it in errors.

    For an absent member, getters return ``""``, ``0``, ``()`` or ``default``; only ``need_``
    getters raise.
    """

    __slots__ = ("_members", "_refuse", "what")

    def __init__(self, members: Mapping[str, object], what: str, refuse: Refuse) -> None:
        self._members, self._refuse = members, refuse
        self.what: str = what

    def __contains__(self, key: str) -> bool:
        return self._members.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __repr__(self) -> str:
        return f"<Fields of {self.what}: {len(self._members)} members>"

    def fail(self, key: str, problem: str) -> OdpsNbError:
        """Create the error for one member; the caller raises it."""
        return self._refuse(f"{self.what}: {key} {problem}")

    def text(self, key: str, default: str = "") -> str:
        """Return a string member."""
        value = self._members.get(key)
        return default if value is None else self._text(key, value)

    def optional_text(self, key: str) -> str | None:
        """Return a string member, or ``None`` if absent or empty."""
        return self.text(key) or None

    def need_text(self, key: str) -> str:
        """Return a string member; raise if it is missing or empty."""
        value = self.text(key)
        if not value:
            raise self.fail(key, "is missing")
        return value

    def loose_text(self, key: str) -> str | None:
        """Return a string or integer member as text; ``None`` if absent."""
        value = self._members.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(self._integer(key, value))
        return self.optional_text(key)

    def header_text(self, key: str) -> str | None:
        """Return a member to send back as a header (visible ASCII only); ``None`` if absent."""
        value = self.optional_text(key)
        if value is not None and not (value.isascii() and value.isprintable()):
            raise self.fail(key, "is not valid in a header")
        return value

    def simple(self, key: str) -> str | None:
        """Return a string, number or boolean as text; ``None`` for anything else."""
        value = self._members.get(key)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            return str(value)
        return self._text(key, value) if isinstance(value, str) else None

    def integer(self, key: str, default: int = 0) -> int:
        """Return an integer member; raise if it does not fit a signed 64-bit integer."""
        value = self._members.get(key)
        return default if value is None else self._integer(key, value)

    def optional_integer(self, key: str) -> int | None:
        """Return an integer member, or ``None`` if absent."""
        return self.integer(key) if key in self else None

    def loose_integer(self, key: str) -> int | None:
        """Return an integer member, which may be sent as text; ``None`` if absent."""
        value = self._members.get(key)
        if isinstance(value, str):
            try:
                value = int(value[:20])
            except ValueError:
                raise self.fail(key, "is not an integer") from None
        return None if value is None else self._integer(key, value)

    def boolean(self, key: str, *, default: bool) -> bool:
        """Return a boolean member; ``"true"`` and ``"false"`` are accepted for the Java SDK."""
        value = self._members.get(key)
        if value is None:
            return default
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if isinstance(value, bool):
            return value
        raise self.fail(key, f"is {_name(value)}, but true or false is expected")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(self._text(key, item) for item in self._list(key))

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of integers."""
        return tuple(self._integer(key, item) for item in self._list(key))

    def inner(self, key: str) -> Fields:
        """Return a nested object; an empty one if absent."""
        value = self._members.get(key)
        return self._inner(key, {} if value is None else value)

    def inners(self, key: str) -> list[Fields]:
        """Return a list of objects."""
        return [self._inner(f"{key}[{i}]", item) for i, item in enumerate(self._list(key))]

    def mapping(self, key: str) -> dict[str, object] | None:
        """Return a nested object unparsed, to be sent unchanged; ``None`` if absent."""
        value = self._members.get(key)
        if value is None or isinstance(value, dict):
            return value
        raise self.fail(key, f"is {_name(value)}, but an object is expected")

    def _inner(self, key: str, value: object) -> Fields:
        if not isinstance(value, dict):
            raise self.fail(key, f"is {_name(value)}, but an object is expected")
        return Fields(value, f"{self.what}.{key}", self._refuse)

    def _list(self, key: str) -> list[object]:
        value = self._members.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fail(key, f"is {_name(value)}, but a list is expected")
        return value

    def _text(self, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise self.fail(key, f"is {_name(value)}, but text is expected")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:  # JSON can contain a lone surrogate, UTF-8 cannot
                raise self.fail(key, "is not valid Unicode") from None
        return value

    def _integer(self, key: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail(key, f"is {_name(value)}, but an integer is expected")
        if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            raise self.fail(key, "does not fit into 64 bits")
        return value


def _name(value: object) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return names.get(type(value), "a number")
