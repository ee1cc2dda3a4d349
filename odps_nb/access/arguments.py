"""Explains wrong arguments of `connect`, and warns of keys that others may read."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from odps_nb.client.auth.shapes import NO_NAME
from odps_nb.client.auth.tunnel_host import is_private
from odps_nb.errors import ConfigError, OdpsNbWarning, a_type
from odps_nb.secret import SECRET_NAMES, Hidden, hidden
from odps_nb.terms import did_you_mean

if TYPE_CHECKING:
    from odps_nb.client.auth.profile import Profile

P = ParamSpec("P")
R = TypeVar("R")

_BY_NAME = (
    "pass everything but a profile's name by keyword: connect(region='cn-hangzhou', project='…', "
    "access_id='…', access_key=getpass.getpass())"
)
_INSTEAD = {
    "access_key_id": "pass access_id=",
    "access_key_secret": "pass access_key=",
    "bearer_token": "pass credentials=odps_nb.BearerToken(token)",
    "credential_process": "pass credentials=odps_nb.CredentialProcess(command)",
    "name": "pass the profile's name first: connect('work')",
    "profile": "pass the profile's name first: connect('work')",
    "region_name": "pass region=",
    "secret_access_key": "pass access_key=",
    "sts_token": "pass credentials=odps_nb.StsToken(id, key, token)",
    "token": "pass credentials=odps_nb.StsToken(id, key, token) or odps_nb.BearerToken(token)",
}
_WARNED = "odps_nb.literal_key"
_MIN_LENGTH = 8  # minimum length of a key; shorter strings may occur in a cell by chance
_VENDOR_INSIDE = ".aliyun-inc.com"


def explains_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: hide secrets in arguments, and raise `ConfigError` instead of `TypeError`."""
    known = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def explaining(*args: P.args, **kwargs: P.kwargs) -> R:
        kwargs = hidden(kwargs)  # type: ignore[assignment]  # hidden() keeps types
        if (count := len(args)) > 1:
            del args  # a traceback may show them, and one may be a key
            raise ConfigError(
                f"connect takes one argument without a keyword, but {count} were passed",
                option="source",
                hint=_BY_NAME,
            )
        source = args[0] if args else kwargs.get("source")
        if isinstance(source, str) and NO_NAME.fullmatch(source):
            del args, kwargs, source
            raise ConfigError(
                "the first argument of connect is the name of a profile, not an id, a key or a URL",
                option="source",
                hint=_BY_NAME,
            )
        if isinstance(source, Mapping | Sequence) and not isinstance(source, str):
            kind = type(source)
            del args, kwargs, source  # as above
            raise ConfigError(f"cannot connect with {a_type(kind)}", option="source", hint=_BY_NAME)
        for name in kwargs.keys() - set(known):
            hint = _INSTEAD.get(name) or did_you_mean(name, known, "{}=", most=1)
            raise ConfigError(
                f"connect has no argument {name}=",
                option=name,
                hint=hint or f"its arguments are: {', '.join(known)}",
            )
        return function(*args, **kwargs)

    return explaining


def warn_of_exposed_keys(profile: Profile) -> None:
    """Warn of a key that a notebook's cell contains (once), and of a token sent over ``http://``.

    Cells are saved with the notebook and in IPython's history.
    """
    secrets = Hidden((name, getattr(profile, name)) for name in SECRET_NAMES)
    _warn_of_literal(secrets)
    parts = urlsplit(profile.endpoint)
    host = (parts.hostname or "").lower()
    has_token = bool(secrets["sts_token"] or secrets["bearer_token"])
    inside = is_private(host) or host.endswith(_VENDOR_INSIDE)
    if has_token and parts.scheme == "http" and not inside:
        _warn(f"the token is sent to {host} without encryption: use https:// in the endpoint")


def _warn_of_literal(secrets: Hidden) -> None:
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    meta = getattr(shell, "meta", None)  # Solara's shell has no such attribute
    if meta is None or meta.get(_WARNED):
        return
    cells = [cell for cell in shell.user_ns.get("In", ()) if isinstance(cell, str)]
    for name, secret in secrets.items():
        if secret and len(secret) >= _MIN_LENGTH and any(secret in cell for cell in cells):
            meta[_WARNED] = True
            _warn(
                f"a cell contains the {name}, and cells are saved: delete the cell, replace the "
                f"key if others can read the notebook, and connect with {name}=getpass.getpass(), "
                "a profile or a keyring (docs/howto/keys-and-profiles.md)"
            )
            return


def _warn(message: str) -> None:
    """Warn without a line of source code, which could contain a key."""
    warnings.warn_explicit(message, OdpsNbWarning, "odps_nb.connect", 1)
