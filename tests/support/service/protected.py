"""A service whose key ``analyst`` may query, but not download: a project with protected data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from odps_nb.access.connection import Connection
from odps_nb.local.server.launch import LocalService, start
from tests.support.service.connecting import connected

__all__ = ["NUMBERS", "analyst_of", "owner_of", "protected_service"]

#: The parameter is the number of rows in thousands; values count from 0.
NUMBERS = "select d.id * 1000 + e.id as n from numbers d cross join numbers e where d.id < {}"
_KEYS = {"owner": "o-secret", "analyst": "a-secret"}


@contextmanager
def protected_service(folder: Path) -> Iterator[LocalService]:
    """Serve a table ``numbers`` of a thousand rows; ``folder`` contains the keys."""
    path = folder / "credentials.json"
    path.write_text(json.dumps({"keys": _KEYS, "rights": {"analyst": {"ours": "query"}}}))
    path.chmod(0o600)
    options = ("--credentials", str(path))
    with start(samples=False, project="ours", options=options) as running:
        with owner_of(running) as owner:
            owner.create_table("numbers", pd.DataFrame({"id": range(1000)}))
        yield running


def owner_of(service: LocalService) -> Connection:
    """Connect with the key that has all permissions."""
    return connected(service, access_id="owner", access_key=_KEYS["owner"])


def analyst_of(service: LocalService, **more: str) -> Connection:
    """Connect with the key that may query."""
    return connected(service, access_id="analyst", access_key=_KEYS["analyst"], **more)
