"""Who a task is: a profile on its way to the executors (floor 5).

A `Profile` refuses to be pickled. A `TaskProfile` is the one value that carries keys to tasks; it
travels inside the pickled function of a task or the pickled options of a data source, which are
in no plan, no event log and no UI, and it never goes into a Spark setting or SQL text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.client.profile import Profile

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.client.storage import StorageClient

__all__ = ["TaskProfile", "profile_of"]


def profile_of(odps: Connection | Profile | str | None) -> Profile:
    """Return the profile of a connection, a profile's name, or (``None``) of the environment.

    Raises
    ------
    ConfigError
        The profile is not known or not complete.
    """
    if isinstance(odps, Profile):
        return odps
    if odps is None or isinstance(odps, str):
        return Profile.resolve(odps)
    return odps.profile


@dataclass(frozen=True, slots=True, repr=False)
class TaskProfile:
    """The settings of a profile, keys included, as a value that Spark may pickle.

    Its repr shows endpoint and project only.
    """

    settings: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, storage: StorageClient) -> TaskProfile:
        """Take everything that a task needs to reach what the driver reached.

        The tunnel endpoint goes along, so that a thousand tasks do not ask for it again.
        """
        settings = storage.profile.as_options() | {"tunnel_endpoint": storage.tunnel_endpoint}
        return cls(tuple(settings.items()))

    @property
    def profile(self) -> Profile:
        """The profile again, where a task runs."""
        return Profile.from_options(dict(self.settings))

    def open(self) -> StorageClient:
        """Return a client; whoever opened it closes it."""
        from odps_nb.client.storage import StorageClient

        return StorageClient(self.profile)

    def __repr__(self) -> str:
        known = dict(self.settings)
        return f"TaskProfile(endpoint={known.get('endpoint')!r}, project={known.get('project')!r})"
