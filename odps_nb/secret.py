"""Hides keys and tokens in reprs, which tracebacks and logs show, and creates private folders.

Tracebacks with local variables (``%xmode Verbose``, error collectors) show reprs. So secrets are
converted to `Secret` as soon as they enter the package.
"""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

SECRET_NAMES = ("access_key", "sts_token", "bearer_token", "app_key", "credential_process")
"""Settings whose values are never shown; ``credential_process`` is a command that may hold keys."""

_AUTHORIZATION = re.compile(
    r"(\bODPS )[^\s:]{1,200}:[A-Za-z0-9+/=]{8,}|"  # a signature, which is valid for some minutes
    r"(?i:(authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|negotiate|ntlm)\s+)[^\s\"'<>,;]+)",
    re.ASCII,
)
P = ParamSpec("P")
R = TypeVar("R")


class Secret(str):
    """A `str` whose repr hides its content.

    Examples
    --------
    >>> Secret("abc"), Secret("abc") == "abc"
    (<hidden>, True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "<hidden>"


class Unusable(NamedTuple):
    """A placeholder for an argument of the wrong type, whose value may be a secret."""

    kind: type


class Hidden(dict[str, Any]):
    """A `dict` whose repr shows only its size."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} hidden>"


def hidden(settings: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Hidden:
    """Return a copy of the settings, with secret values converted to `Secret` or `Unusable`."""
    copied = Hidden(settings)
    for name in SECRET_NAMES:
        if isinstance(copied.get(name), str):
            copied[name] = Secret(copied[name])
        elif not isinstance(copied.get(name), (type(None), Unusable)):
            copied[name] = Unusable(type(copied[name]))
    for name in ("endpoint", "tunnel_endpoint"):
        if isinstance(copied.get(name), str) and {"@", "?"} & {*copied[name]}:
            copied[name] = Secret(copied[name])  # may contain a password; Profile rejects it
    if isinstance(copied.get("credentials"), (str, bytes, tuple, list, Mapping)):
        copied["credentials"] = Secret("refused by Profile")  # may contain a key
    return copied


def hides_secrets(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: pass the function's keyword arguments through `hidden` before each call."""

    @functools.wraps(function)
    def hiding(*args: P.args, **kwargs: P.kwargs) -> R:
        kwargs = hidden(kwargs)  # type: ignore[assignment]  # hidden() keeps types
        return function(*args, **kwargs)

    return hiding


def hide_authorization(text: str) -> str:
    """Return a text, which may repeat headers of a request, without ``Authorization`` values.

    >>> hide_authorization("Proxy-Authorization: Basic bWU6c2VjcmV0")
    'Proxy-Authorization: Basic <hidden>'
    """
    return _AUTHORIZATION.sub(lambda match: f"{match[1] or match[2]}<hidden>", text)


def forget_locals(error: BaseException) -> None:
    """Clear the local variables in the traceback frames of an error and its causes."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        traceback.clear_frames(current.__traceback__)
        waiting += [current.__cause__, current.__context__]
        waiting += [arg for arg in current.args if isinstance(arg, BaseException)]


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700, whatever the umask."""
    for directory in reversed([folder, *folder.parents]):
        if not directory.exists():
            directory.mkdir(mode=0o700, exist_ok=True)
