"""If the address of the Storage API is withdrawn, the client requests it again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from odps_nb.errors import ConnectError
from odps_nb.local.server.launch import LocalService
from tests.support.named import NewName
from tests.support.service.connecting import connected
from tests.support.sockets.relays import TlsFront
from tests.support.spark.altering import Altering


class Named:
    """The address of the Storage API that the service reports; counts the requests for it."""

    def __init__(self, service: LocalService) -> None:
        own = urlsplit(service.tunnel_endpoint)
        self.place = (own.hostname or "", own.port or 0)
        self.address, self.asked = own.netloc, 0

    def change(self, _action: str, status: int, body: bytes) -> tuple[int, bytes]:
        if not re.fullmatch(rb"127\.0\.0\.1:\d+", body):
            return status, body
        self.asked += 1
        return status, self.address.encode()

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Report an address that forwards to the service and is closed at the end."""
        with TlsFront(self.place, None) as front:
            self.address = f"127.0.0.1:{front.port}"
            yield


@pytest.fixture
def named(service: LocalService) -> Named:
    return Named(service)


@pytest.fixture
def between(service: LocalService, named: Named) -> Iterator[str]:
    """The endpoint of a proxy whose service reports a chosen address."""
    base = service.endpoint.removesuffix("/api")
    with Altering(base, named.change) as proxy:
        yield f"{proxy.url}/api"


def test_reads_and_writes_continue_at_the_new_address(
    service: LocalService, named: Named, between: str, new_name: NewName
) -> None:
    with connected(service, endpoint=between, tunnel_endpoint=None) as odps:
        with named.elsewhere():
            table = odps.create_table(new_name("moves"), pa.table({"id": [1, 2]}))
            assert table.read().to_arrow().num_rows == 2
            assert named.asked == 1
            write = table.open_write()
            write.write(pa.table({"id": [3]}))
        with named.elsewhere():
            write.write(pa.table({"id": [4]}))
            write.commit()
            assert named.asked == 2
        with named.elsewhere():
            assert sorted(table.read().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
        assert named.asked == 3
        with pytest.raises(ConnectError):
            table.read().to_arrow()
        odps.drop_table(table.name)


def test_a_tunnel_endpoint_in_the_profile_is_not_replaced(
    service: LocalService, named: Named, between: str
) -> None:
    with named.elsewhere():
        gone = f"http://{named.address}"
    with (
        connected(service, endpoint=between, tunnel_endpoint=gone) as odps,
        pytest.raises(ConnectError),
    ):
        odps.table("orders").head()
    assert not named.asked
