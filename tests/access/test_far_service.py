"""Tables, blobs, SQL and resumed reads work through TLS and proxies."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from odps_nb.client.calls.progress import silent
from odps_nb.errors import CertificateError
from tests.support.service.connecting import connected
from tests.support.sockets.relays import Proxy, TlsFront, server_context

PICTURE = bytes(range(256)) * 5000


@pytest.fixture
def server(service):
    """The address of the embedded service."""
    parts = urlsplit(service.endpoint)
    return parts.hostname, parts.port


def connect(service, url: str):
    return connected(service, endpoint=f"{url}/api", tunnel_endpoint=url)


def use_everything(odps, name: str) -> None:
    """Write and read rows and blobs, run a query, and read its rows."""
    odps.create_table(name, "id bigint, note string, photo blob")
    table = odps.table(name)
    rows = pa.table(
        {"id": range(3000), "note": [f"n{i}" for i in range(3000)]},
    ).append_column("photo", pa.array([PICTURE, b""] + [None] * 2998, pa.binary()))
    assert table.write(rows, progress=silent).rows == 3000
    back = table.read(columns=["id", "note"], splits=4).to_arrow(progress=silent)
    assert back.sort_by("id").equals(rows.select(["id", "note"]).cast(back.schema))
    blobs = table.blobs("photo", limit=2)
    assert sorted((blob.bytes() for blob in blobs), key=len) == [b"", PICTURE]
    with next(blob for blob in blobs if blob.size).open() as file:
        assert file.read(1000) == PICTURE[:1000]
    counted = odps.sql(f"select count(*) as n from {name}", progress=silent).to_arrow()
    assert counted.column(0).to_pylist() == [3000]
    odps.drop_table(name)


@pytest.mark.storage_api("blobs")
def test_everything_works_over_tls(service, server, trusted, new_name):
    with (
        TlsFront(server, server_context(trusted)) as front,
        connect(service, front.url) as odps,
    ):
        use_everything(odps, new_name("tls"))


@pytest.mark.storage_api("blobs")
@pytest.mark.gate(1)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_everything_works_through_a_proxy(service, server, trusted, new_name, monkeypatch, scheme):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    tls = server_context(trusted, "odps.example")
    with (
        TlsFront(server, tls) as front,
        Proxy(
            {"odps.example": ("127.0.0.1", front.port) if scheme == "https" else server}
        ) as proxy,
    ):
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        with connect(service, f"{scheme}://odps.example") as odps:
            use_everything(odps, new_name("proxied"))
    assert {host for _, host in proxy.asked} == {"odps.example"}


def test_an_untrusted_server_gets_one_request(service, server, authority, caplog):
    caplog.set_level(logging.DEBUG)
    with (
        TlsFront(server, server_context(authority)) as front,
        connect(service, front.url) as odps,
    ):
        with pytest.raises(CertificateError) as caught:
            odps.table("orders").read().to_arrow(progress=silent)
        assert front.connections == 1
    assert "REQUESTS_CA_BUNDLE" in caught.value.hint
    assert service.access_key not in caplog.text + repr(caught.value)
