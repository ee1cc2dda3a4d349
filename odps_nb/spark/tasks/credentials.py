"""`TaskProfile`: carries a profile, with its keys, to the executors.

The profile is pickled with the function of a task or with the class of a data source; neither
appears in plans, event logs or the UI. Spark settings and SQL text never contain the profile.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.client.calls.storage import StorageClient

KEYS = "ODPS_NB_SPARK_KEYS"
_EXECUTOR = "executor"


def profile_of(odps: Connection | Profile | str | None) -> Profile:
    """Return the profile for a connection or profile name; ``None``: the environment's profile."""
    if isinstance(odps, Profile):
        return odps
    if isinstance(odps, str):
        return Profile.resolve(odps)
    if odps is None:
        try:
            return Profile.resolve(None)
        except ConfigError as error:
            error.add_note("no connection was passed, so the environment was used")
            error.hint = "pass the connection that odps_nb.connect() returns" + (
                f"; or {error.hint}" if error.hint else ""
            )
            raise
    profile = getattr(odps, "profile", None)  # some Spark objects also have this attribute
    if not isinstance(profile, Profile):
        raise ArgumentError(
            f"odps is of type {type(odps).__name__}, not a connection",
            argument="odps",
            hint="pass a connection from odps_nb.connect(), a Profile or a profile's name",
        )
    return profile


@dataclass(frozen=True, slots=True, repr=False)
class TaskProfile:
    """The settings of a profile, keys included, as a value that Spark can pickle.

    With ``ODPS_NB_SPARK_KEYS=executor`` in the driver's environment, the value contains no keys:
    each task looks up its own keys (``finds_keys``). The repr shows only the endpoint and the
    project.
    """

    settings: tuple[tuple[str, str], ...]
    finds_keys: bool = False

    @classmethod
    def of(cls, storage: StorageClient) -> TaskProfile:
        """Return the settings that a task needs to connect like the driver.

        Includes the tunnel endpoint, so that tasks do not have to look it up.
        """
        finds_keys = os.environ.get(KEYS) == _EXECUTOR
        profile = storage.profile
        settings = profile.as_settings() if finds_keys else profile.as_options()
        settings["tunnel_endpoint"] = storage.tunnel_endpoint
        return cls(tuple(settings.items()), finds_keys)

    @property
    def profile(self) -> Profile:
        """The profile; a worker rebuilds it for its first task with these settings."""
        return _found(self.settings) if self.finds_keys else _rebuilt(self.settings)

    @contextmanager
    def open(self) -> Iterator[StorageClient]:
        """Provide a client for the duration of a task.

        A worker keeps the client for the next task with these settings, except after an error.
        """
        from pyspark import TaskContext

        from odps_nb.client.calls.storage import StorageClient

        profile = self.profile
        if TaskContext.get() is None:
            with StorageClient(profile) as storage:
                yield storage
            return
        storage = _kept.pop() if _kept and _kept[-1].profile == profile else StorageClient(profile)
        try:
            yield storage
        except BaseException:
            storage.close()
            raise
        while _kept:
            _kept.pop().close()
        _kept.append(storage)

    def __repr__(self) -> str:
        known = dict(self.settings)
        return f"TaskProfile(endpoint={known.get('endpoint')!r}, project={known.get('project')!r})"


@functools.lru_cache(4)
def _rebuilt(settings: tuple[tuple[str, str], ...]) -> Profile:
    return Profile.from_options(dict(settings))


# The last task's client, unless another task is using it.
_kept: list[StorageClient] = []


# Profiles whose keys come from a program, keyed by settings. The tasks of one worker share them, so
# the program runs again only when the keys expire.
_RENEWED: dict[tuple[tuple[str, str], ...], Profile] = {}


def _found(settings: tuple[tuple[str, str], ...]) -> Profile:
    known = _RENEWED.get(settings)
    if known is not None:
        return known
    named: dict[str, Any] = dict(settings)
    try:
        name = named.pop("name", None)
        profile = Profile._from_settings(named, "the settings of the driver", name)
    except ConfigError as error:
        error.add_note(
            f"on {socket.gethostname()}, where the task looked up its keys because "
            f"{KEYS}={_EXECUTOR} is set in the notebook"
        )
        raise
    if profile.credential_process:
        _RENEWED[settings] = profile
    return profile
