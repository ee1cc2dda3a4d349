"""Access rights: which key may read and write which projects.

A key without an entry has all rights. A service without entries does not check rights. Each route
declares the right that its requests need in the project (`odps_nb.local.routes.table`). SQL
statements name projects in their text, so rights are checked when these names are resolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from odps_nb.errors import ConfigError
from odps_nb.local import errors


class Right(IntEnum):
    """What a key may do in a project; a higher right includes the lower ones.

    QUERY allows describing tables and running SQL, but only the first rows of a result can be
    downloaded, as in a project with data protection (``docs/protocol.md`` section 3.14).
    """

    QUERY = 1
    READ = 2
    WRITE = 3


class Rights:
    """The rights of all keys, as key id → project → ``"query"``, ``"read"`` or ``"write"``."""

    def __init__(self, given: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._given = {
            access_id: {project.casefold(): _right(name) for project, name in projects.items()}
            for access_id, projects in (given or {}).items()
        }
        self.projects = tuple(dict.fromkeys(p for own in (given or {}).values() for p in own))

    def limits(self, access_id: str) -> bool:
        """Return whether this key has limited rights."""
        return access_id in self._given

    def allows(self, access_id: str, project: str, right: Right) -> bool:
        """Return whether a key has a right in a project."""
        own = self._given.get(access_id)
        return own is None or own.get(project.casefold(), 0) >= right

    def require(self, access_id: str, project: str, right: Right) -> None:
        """Raise 403 ``NoPermission`` unless the key has the right."""
        if not self.allows(access_id, project, right):
            raise errors.forbidden(
                "ODPS-0130013:Authorization exception - Authorization Failed [4002], the key has "
                f"no {right.name.lower()} permission in the project {project!r}"
            )


def _right(name: Any) -> Right:
    try:
        return Right[str(name).upper()]
    except KeyError:
        raise ConfigError(
            f"{name!r} is not an access right",
            option="credentials",
            hint='use "query", "read" or "write"',
        ) from None
