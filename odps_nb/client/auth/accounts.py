"""`AccessKey`, `StsToken`, `BearerToken` and `CredentialProcess`: a connection's credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from odps_nb.errors import ArgumentError, ConfigError, a_type
from odps_nb.explained import explained_init
from odps_nb.secret import Hidden, Secret, Unusable, hidden

T = TypeVar("T", bound=type)
A = TypeVar("A", bound="_Account")


def _hides_texts(kind: T) -> T:
    """Class decorator that converts string arguments to `Secret`, to hide them in tracebacks."""
    make: Any = kind.__init__  # type: ignore[misc]  # of a class

    def secret(value: Any) -> Any:
        if isinstance(value, str):
            return Secret(value)
        return value if value is None or isinstance(value, _Account) else Unusable(type(value))

    @wraps(make)
    def hiding(self: Any, *args: Any, **kwargs: Any) -> None:
        args = tuple(map(secret, args))
        kwargs = Hidden((name, secret(value)) for name, value in kwargs.items())
        make(self, *args, **kwargs)

    kind.__init__ = hiding  # type: ignore[misc]
    return kind


class _Account:
    """Base class of credentials. Its repr shows no secrets, and it cannot be pickled."""

    __slots__ = ()
    _settings: tuple[tuple[str, str], ...]  # (field, profile setting)
    app: AccessKey | None

    def __post_init__(self) -> None:
        name = type(self).__name__
        for field, _ in self._settings:
            value = getattr(self, field)
            if not isinstance(value, str) or not value:
                kind = value.kind if isinstance(value, Unusable) else type(value)
                what = "empty" if isinstance(value, str) else a_type(kind)
                raise ArgumentError(
                    f"{field} of {name} is {what}", argument=field, hint=f"pass {field} as text"
                )
        if self.app is not None and (not isinstance(self.app, AccessKey) or self.app.app):
            raise ArgumentError(
                f"the app of {name} must be an AccessKey that has no app itself",
                argument="app",
                hint="pass app=AccessKey(id, key)",
            )

    def _as_settings(self) -> Mapping[str, str]:
        """Return `Profile` settings with the fields' values, **secrets included**."""
        named = hidden((setting, getattr(self, field)) for field, setting in self._settings)
        if self.app is not None:
            named |= hidden({"app_id": self.app.id, "app_key": self.app.key})
        return named

    def __repr__(self) -> str:
        # a traceback may show an object whose `__init__` failed, which has no fields
        app = "" if getattr(self, "app", None) is None else ", app=AccessKey(<hidden>)"
        return f"{type(self).__name__}(<hidden>{app})"

    def __copy__(self: A) -> A:
        return self

    def __deepcopy__(self: A, _: Any) -> A:
        return self

    def __reduce_ex__(self, _: Any) -> Any:
        raise ConfigError(
            "credentials are never pickled",
            hint="pass credentials to connect() in the other process",
        )


@_hides_texts
@explained_init
@dataclass(frozen=True, slots=True, repr=False)
class AccessKey(_Account):
    """A long-lived key pair. ``app`` is an application's key pair, which also signs each request.

    Examples
    --------
    >>> from odps_nb import AccessKey
    >>> AccessKey("LTAI4F", "secret", app=AccessKey("application", "another secret"))
    AccessKey(<hidden>, app=AccessKey(<hidden>))
    """

    id: str
    key: str
    app: AccessKey | None = None

    _settings = (("id", "access_id"), ("key", "access_key"))


@_hides_texts
@explained_init
@dataclass(frozen=True, slots=True, repr=False)
class StsToken(_Account):
    """A temporary key pair and its token, which are not renewed. ``app``: see `AccessKey`."""

    id: str
    key: str
    token: str
    app: AccessKey | None = None

    _settings = (("id", "access_id"), ("key", "access_key"), ("token", "sts_token"))


@_hides_texts
@explained_init
@dataclass(frozen=True, slots=True, repr=False)
class BearerToken(_Account):
    """A token used in place of a key pair; it is not renewed. ``app``: see `AccessKey`."""

    token: str
    app: AccessKey | None = None

    _settings = (("token", "bearer_token"),)


@_hides_texts
@explained_init
@dataclass(frozen=True, slots=True, repr=False)
class CredentialProcess(_Account):
    """A program that prints keys as JSON. It runs without a shell, and again before the keys
    expire. ``command`` is the program with its arguments, quoted as in a shell. The program prints
    ``access_id``, ``access_key``, ``sts_token`` and ``expiration``; see
    ``docs/howto/keys-and-profiles.md``. ``app``: see `AccessKey`.
    """

    command: str
    app: AccessKey | None = None

    _settings = (("command", "credential_process"),)


CredentialFunction = Callable[[], Mapping[str, Any]]
"""A function that returns the keys as a mapping. It is called again before they expire."""

Account = AccessKey | StsToken | BearerToken | CredentialProcess
CredentialsLike = Account | CredentialFunction
"""Type of the ``credentials=`` argument of `odps_nb.connect`."""
