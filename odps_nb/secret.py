"""Text that nobody sees by accident: keys and tokens as values without a repr.

Tracebacks with local variables (``%xmode Verbose``, collectors of errors) show the repr of all
that stands in a frame. What is secret becomes a `Secret` where it enters, so that no frame of
ours has it in clear. Knows no profile and no signature.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

__all__ = ["SECRET_NAMES", "Hidden", "Secret", "forget_locals", "hidden", "hides_secrets"]

SECRET_NAMES = ("access_key", "sts_token", "bearer_token", "app_key", "credential_process")
"""Settings that are never shown; the words of a command may be keys."""

P = ParamSpec("P")
R = TypeVar("R")


class Secret(str):
    """Text as any other, but for its repr.

    Examples
    --------
    >>> Secret("abc"), Secret("abc") == "abc"
    (<hidden>, True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "<hidden>"


class Hidden(dict[str, Any]):
    """A dictionary as any other, but for its repr, which tells how many there are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} hidden>"


def hidden(settings: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Hidden:
    """Copy settings, with a `Secret` for each one that is secret."""
    copied = Hidden(settings)
    for name in SECRET_NAMES:
        if isinstance(copied.get(name), str):
            copied[name] = Secret(copied[name])
    return copied


def hides_secrets(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function get its keyword arguments `hidden`; its own frame has no others."""

    @functools.wraps(function)
    def hiding(*args: P.args, **given: P.kwargs) -> R:
        given = hidden(given)  # type: ignore[assignment]  # the same, seen by nobody
        return function(*args, **given)

    return hiding


def forget_locals(error: BaseException) -> None:
    """Clear the local variables of all that has ended with an error, and with those before it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        waiting += [one.__cause__, one.__context__]
        waiting += [arg for arg in one.args if isinstance(arg, BaseException)]
