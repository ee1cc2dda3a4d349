"""What is known of the real service, asked of the embedded one by raw requests.

Each test names the fact by its number in the list of facts that this project keeps, and the public
source that shows it. Sources: C++ is aliyun/aliyun-odps-sdk-cpp, ``test/max_storage_api`` (live
tests) and ``max_storage_api`` (code); Python is aliyun/aliyun-odps-python-sdk; Java is
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
    """Speaks to it by raw requests."""
    with Raw(empty_service) as raw:
        yield raw


@pytest.fixture
def peer(empty_service: LocalService) -> Iterator[Peer]:
    """Speaks to it by calls."""
    peer = Peer(empty_service)
    yield peer
    peer.session.close()
