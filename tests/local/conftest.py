"""Services without samples, and a plain HTTP client for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from odps_nb.local.server.launch import LocalService, start
from tests.support.service.peer import Peer, make_table


@pytest.fixture(scope="session")
def bare(empty_service: LocalService) -> LocalService:
    """The shared service without samples."""
    return empty_service


@pytest.fixture
def peer(bare: LocalService) -> Iterator[Peer]:
    peer = Peer(bare)
    yield peer
    peer.session.close()


@pytest.fixture(scope="module")
def _fine() -> Iterator[LocalService]:
    options = ("--min-split-bytes", "1", "--filter-block-rows", "1", "--kept-ranges")
    with start(samples=False, options=options) as running:
        yield running


@pytest.fixture
def fine(_fine: LocalService) -> Iterator[Peer]:
    """A service that, unlike the real one, makes splits of any size and filters exactly."""
    peer = Peer(_fine)
    yield peer
    peer.session.close()


@pytest.fixture
def new_table(peer: Peer) -> Callable[[str], str]:
    """Create a table with a new name; return the name."""
    return partial(make_table, peer)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"
