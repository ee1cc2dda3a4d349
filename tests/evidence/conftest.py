"""Facts about the real service, checked on the embedded service with raw requests.

Each test names the number of the fact in this project's list of facts, and the public source that
shows it. Sources: C++ is aliyun/aliyun-odps-sdk-cpp, ``test/max_storage_api`` (live tests) and
``max_storage_api`` (code); Python is aliyun/aliyun-odps-python-sdk; Java is
aliyun/aliyun-odps-java-sdk.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odps_nb.local.server.launch import LocalService
from tests.support.service.peer import Peer
from tests.support.service.raw import Raw


@pytest.fixture(scope="module")
def raw(empty_service: LocalService) -> Iterator[Raw]:
    """Sends raw requests to the embedded service."""
    with Raw(empty_service) as raw:
        yield raw


@pytest.fixture
def peer(empty_service: LocalService) -> Iterator[Peer]:
    """Sends requests to the embedded service with the client's calls."""
    peer = Peer(empty_service)
    yield peer
    peer.session.close()
