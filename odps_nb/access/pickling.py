"""Pickles connections without credentials; the unpickling process uses its own credentials.

A pickled handle contains an `Address` and never a key or token. In the process that pickled it,
unpickling returns the same connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from odps_nb.client.auth.fields import CREDENTIAL_FIELDS
from odps_nb.client.auth.profile import Profile
from odps_nb.client.auth.sources import profile_names
from odps_nb.client.options import OPTION_FIELDS, ClientOptions
from odps_nb.errors import ConfigError

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

_OPEN: WeakValueDictionary[str, Connection] = WeakValueDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Settings without credentials. ``root``: the folder that stores an embedded service's keys."""

    connection_id: str
    settings: tuple[tuple[str, str], ...]
    root: str | None = None


def remember(connection: Connection) -> None:
    """Register an open connection, by weak reference, so that unpickling can find it."""
    _OPEN[connection._address.connection_id] = connection


def connect_again(
    address: Address, make: Callable[[Callable[[], Profile]], Connection]
) -> Connection:
    """Return the open connection for an address, or a new one created by ``make``.

    A new connection looks up its credentials on first use, so that an error is raised in the
    caller's code and not during unpickling.
    """
    connection = _OPEN.get(address.connection_id)
    if connection is not None and not connection.closed:
        return connection
    return make(partial(_profile_here, address))


def _profile_here(address: Address) -> Profile:
    """Return a profile with keys from an open connection, an embedded service or this process."""
    settings: dict[str, Any] = dict(address.settings)
    settings["api_version"] = int(settings.get("api_version", 2))
    for connection in reversed(list(_OPEN.values())):
        if connection.closed or not isinstance(connection._profile, Profile):
            continue
        there = dict(connection._address.settings)
        if all(settings.get(name) == there.get(name) for name in ("endpoint", "project")):
            fixed: dict[str, Any] = {
                name: settings.get(name) for name in ("schema", "timezone", "quota")
            }
            fixed["client_options"] = ClientOptions.from_settings(settings)
            return replace(connection.profile, **fixed)
    if address.root is not None:
        from odps_nb.local.server.launch import read_keys

        settings.pop("name", None)
        options = ClientOptions.from_settings(settings)
        settings = {k: v for k, v in settings.items() if k not in OPTION_FIELDS}
        keys: Mapping[str, Any] = read_keys(address.root)
        return Profile(**settings, **keys, client_options=options)
    return profile_from_settings(settings)


def profile_from_settings(settings: Mapping[str, Any]) -> Profile:
    """Return a profile with these settings and the credentials configured in this process."""
    plain_settings = {key: value for key, value in settings.items() if key not in CREDENTIAL_FIELDS}
    name = plain_settings.pop("name", None)
    known = name if name in profile_names(os.environ) else None
    try:
        return Profile._from_settings(plain_settings, "the pickled handle", known)
    except ConfigError as error:
        error.add_note("access keys are not sent to other processes: each process needs its own")
        error.hint = (
            "set ODPS_ACCESS_ID and ODPS_ACCESS_KEY (or a profile) for the other process, or call "
            "odps_nb.connect(…) there first"
        )
        raise
