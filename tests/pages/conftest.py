"""The code in pages runs in an empty home; ``connect("local")`` uses the service of this run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from odps_nb.local.server import launch
from tests.support.pages import empty_home

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService


@dataclass(frozen=True)
class SharedService:
    """The embedded service of this run, which outlives a page's connections."""

    service: LocalService

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)

    def stop(self) -> None:
        """Do not stop the service, because other tests use it."""


@pytest.fixture
def empty_folder(
    service: LocalService, odps: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The empty folder in which a page's code runs; its tables are dropped afterwards."""
    monkeypatch.setattr(launch, "start", lambda root, *, project=None: SharedService(service))
    there = set(odps.tables())
    with empty_home(tmp_path) as folder:
        yield folder
    for name in set(odps.tables()) - there:
        odps.drop_table(name)
