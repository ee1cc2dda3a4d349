"""Which key may read and write which projects.

A key without rights of its own may do everything; a service without rights asks nobody. What is
asked here is the request as it came: which project it names, and whether it changes something.
Statements of SQL name projects inside their text: those are asked about where names are resolved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from odps_nb.errors import ConfigError
from odps_nb.local import faults
from odps_nb.wire.calls import WireRequest

__all__ = ["Right", "Rights", "instance_of"]

_STORAGE = "/api/storage/"
_TARGET = re.compile(r"projects\.([^.]+)\..*", re.DOTALL)
_PATH = re.compile(r"(?:/api)?/projects/([^/]+)(/[^/]*)?(/.*)?", re.DOTALL)
_INSTANCE = re.compile(r"(?:/api)?/?projects[./]([^./]+)[./]instances[./]([^./]+).*", re.DOTALL)
_READS = ("Read", "Preview")


class Right(IntEnum):
    """What a key may do in a project; the greater one holds the smaller one."""

    READ = 1
    WRITE = 2


class Rights:
    """The rights of all keys.

    Parameters
    ----------
    given
        Key id → project → ``"read"`` or ``"write"``.
    """

    def __init__(self, given: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._given = {
            access_id: {project.casefold(): _right(name) for project, name in projects.items()}
            for access_id, projects in (given or {}).items()
        }
        self.projects = tuple(dict.fromkeys(p for own in (given or {}).values() for p in own))

    def limits(self, access_id: str) -> bool:
        """Whether there is something that this key may not."""
        return access_id in self._given

    def allows(self, access_id: str, project: str, right: Right) -> bool:
        """Whether a key has a right in a project."""
        own = self._given.get(access_id)
        return own is None or own.get(project.casefold(), 0) >= right

    def require(self, access_id: str, project: str, right: Right) -> None:
        """Refuse with 403 ``NoPermission`` unless the key has the right."""
        if not self.allows(access_id, project, right):
            raise faults.forbidden(
                "ODPS-0130013:Authorization exception - Authorization Failed [4002], the key has "
                f"no right to {right.name.lower()} in the project {project!r}"
            )

    def check(self, access_id: str, wire: WireRequest) -> None:
        """Refuse a request that names a project in which the key may not do it."""
        if not self.limits(access_id):
            return
        if wire.path.startswith(_STORAGE):
            found = _TARGET.fullmatch(wire.target or "")
            right = Right.READ if _only_reads(wire.action) else Right.WRITE
        else:
            found = _PATH.fullmatch(wire.path)
            right = _right_of(wire, found[2] if found else None)
        if found is not None:
            self.require(access_id, found[1], right)


def instance_of(wire: WireRequest) -> tuple[str, str] | None:
    """Return project and id of the SQL instance that a request names, if it names one."""
    text = wire.target or "" if wire.path.startswith(_STORAGE) else wire.path
    found = _INSTANCE.fullmatch(text)
    return None if found is None else (found[1], found[2])


def _right(name: Any) -> Right:
    try:
        return Right[str(name).upper()]
    except KeyError:
        raise ConfigError(
            f"{name!r} is no right", option="credentials", hint='write "read" or "write"'
        ) from None


def _only_reads(action: str | None) -> bool:
    return any(word in (action or "") for word in _READS)


def _right_of(wire: WireRequest, kind: str | None) -> Right:
    """Say what a request of the control plane or the tunnel needs."""
    params = {key for key, _ in wire.params}
    if wire.method in ("GET", "HEAD"):
        return Right.READ
    if kind in ("/instances", "/authorization", "/logs") or "downloads" in params:
        return Right.READ  # a statement is asked about when its names are resolved
    return Right.WRITE
