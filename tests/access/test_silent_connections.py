"""A silent connection is closed after the read time-out, and the operation still succeeds.

A proxy in front of the embedded service stops once, at one request of a job, and waits until the
client closes the connection. `tests.sweep` runs every job with silence at each of its requests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import odps_nb
from odps_nb import ClientOptions, Connection
from odps_nb.errors import AccessDeniedError, RequestTimeoutError
from tests.support.named import NewName
from tests.support.sockets.peers import Peer
from tests.sweep.proxy import BreaksOne

SOON = ClientOptions(read_timeout=0.5, deadline=60.0)
LATER = ClientOptions(read_timeout=2.0, deadline=60.0)  # long enough for a busy machine
ROWS = 100_000


def numbers(start: int, stop: int) -> pd.DataFrame:
    return pd.DataFrame(
        {"id": range(start, stop), "name": [f"row {n}" for n in range(start, stop)]}
    )


@contextmanager
def silent_at(
    odps: Connection, fault: str, action: str, options: ClientOptions = SOON
) -> Iterator[tuple[Connection, BreaksOne]]:
    """A connection through a proxy that goes silent at the first request of an action."""
    profile = odps.profile
    with (
        BreaksOne(profile.tunnel_endpoint or "", fault, action) as proxy,
        odps_nb.connect(
            profile,
            endpoint=f"{proxy.url}/api",
            tunnel_endpoint=proxy.url,
            client_options=options,
        ) as client,
    ):
        yield client, proxy
        assert proxy.injected, f"no {action} was sent"


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> str:
    """A table with rows 0 to 9."""
    name = new_name("silent")
    odps.create_table(name, "id bigint, name string").write(numbers(0, 10), progress=False)
    return name


@pytest.fixture(scope="module")
def large(odps: Connection) -> Iterator[str]:
    name = f"silent_{os.getpid()}"
    odps.create_table(name, "id bigint, name string").write(numbers(0, ROWS), progress=False)
    yield name
    odps.drop_table(name)


@pytest.mark.storage_api("its requests")
@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("fault", "action"),
    [
        ("silent before", "TableCreateReadSession"),
        ("silent after", "TableRead"),
        ("stalled", "TableRead"),
    ],
)
def test_a_read_over_a_silent_connection_returns_every_row_once(odps, large, fault, action):
    with silent_at(odps, fault, action) as (client, _):
        rows = client.table(large).read(progress=False).to_pandas()
    assert rows["id"].tolist() == list(range(ROWS))


@pytest.mark.storage_api("its requests")
def test_a_read_over_a_silent_connection_resumes_at_the_next_row(odps, large):
    with silent_at(odps, "stalled", "TableRead", LATER) as (client, proxy):
        scan = client.table(large).read(splits=1, progress=False)
        assert [n for batch in scan.batches() for n in batch["id"].to_pylist()] == [*range(ROWS)]
        first, second = (one.target for one in proxy.seen if "Action=TableRead&" in one.target)
    assert "Offset=0&" in first
    assert "Offset=0&" not in second


@pytest.mark.storage_api("its requests")
def test_without_retries_silence_is_an_error_that_names_its_setting(odps, large):
    options = replace(LATER, retries=0)
    with (
        silent_at(odps, "stalled", "TableRead", options) as (client, _),
        pytest.raises(RequestTimeoutError, match="silent for 2 s") as caught,
    ):
        client.table(large).read(progress=False).to_pandas()
    assert "ClientOptions(read_timeout=" in caught.value.hint


@pytest.mark.storage_api("its requests")
@pytest.mark.parametrize(
    ("fault", "action"),
    [("silent after", "InstanceCreateReadSession"), ("stalled", "InstanceRead")],
)
def test_the_result_of_a_query_over_a_silent_connection_is_complete(odps, table, fault, action):
    with silent_at(odps, fault, action) as (client, _):
        rows = client.sql(f"select id from {table} order by id limit 10", progress=False)
        assert rows.to_pandas(progress=False)["id"].tolist() == list(range(10))


def rows_of(odps: Connection, name: str) -> list[int]:
    return sorted(odps.table(name).read(["id"], progress=False).to_arrow()["id"].to_pylist())


@pytest.mark.storage_api("its requests")
@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("fault", "action"),
    [
        ("silent before", "TableCreateWriteStream"),
        ("silent before", "TableWrite"),
        ("silent after", "TableWrite"),
        ("silent before", "TableCommitWriteSession"),
        ("silent after", "TableCommitWriteSession"),
    ],
)
def test_a_write_over_a_silent_connection_is_committed_once(odps, table, fault, action):
    with silent_at(odps, fault, action) as (client, _):
        client.table(table).write(numbers(10, 20), progress=False)
    assert rows_of(odps, table) == list(range(20))


@pytest.mark.storage_api("its requests")
def test_a_stalled_upload_is_sent_again(odps, table):
    """The upload is larger than the buffers of the sockets, so sending blocks."""
    wide = pd.DataFrame({"id": range(10, 15), "name": [c * 1_500_000 for c in "abcde"]})
    with silent_at(odps, "silent inside", "TableWrite") as (client, _):
        client.table(table).write(wide, progress=False)
    found = odps.table(table).read(where="id >= 10", progress=False).to_pandas()
    assert found["name"].str.len().tolist() == [1_500_000] * 5


@pytest.mark.storage_api("its requests")
def test_an_upsert_over_a_silent_connection_is_committed_once(odps, new_name):
    name = new_name("silent")
    odps.create_table(name, "id bigint not null, name string", primary_key="id")
    odps.table(name).upsert(numbers(0, 10), progress=False)
    with silent_at(odps, "silent after", "TableCommitWriteSession") as (client, _):
        client.table(name).upsert(numbers(5, 15), progress=False)
    assert rows_of(odps, name) == list(range(15))


@pytest.mark.storage_api("blobs")
@pytest.mark.nightly
def test_blobs_over_a_silent_connection_are_transferred_unchanged(odps, new_name):
    name, content = new_name("silent"), {n: bytes([n]) * 300_000 for n in range(3)}
    odps.create_table(name, "id bigint, b blob")
    with silent_at(odps, "silent inside", "TableWriteBlob") as (client, _):
        rows = pd.DataFrame({"id": content.keys(), "b": content.values()})
        client.table(name).write(rows, progress=False)
    with silent_at(odps, "stalled", "BlobRead") as (client, _):
        rows = client.table(name).read(progress=False).to_arrow().to_pydict()
        found = client.blobs(rows["b"]).fetch(progress=False)
        assert dict(zip(rows["id"], (one.data for one in found), strict=True)) == content


def test_a_silent_tls_handshake_times_out():
    """The request was not sent, so even a statement is sent again."""
    with Peer(lambda line: line.wait_closed()) as peer:
        url = peer.url.replace("http://", "https://")
        options = ClientOptions(connect_timeout=0.2, retries=2)
        with (
            odps_nb.connect(
                endpoint=url, project="p", access_id="a", access_key="k", client_options=options
            ) as client,
            pytest.raises(RequestTimeoutError) as caught,
        ):
            client.sql("select 1", progress=False)
    assert caught.value.request_sent is False
    assert peer.connections == 3


def test_a_wrong_sts_token_is_distinguished_from_a_wrong_key(odps):
    profile = odps.profile
    facts: dict[str, Any] = {
        "endpoint": profile.endpoint,
        "project": profile.project,
    }
    account = (profile.access_id, profile.access_key)
    with (
        odps_nb.connect(**facts, credentials=odps_nb.StsToken(*account, "wrong")) as client,
        pytest.raises(AccessDeniedError, match="token") as caught,
    ):
        client.tables()
    assert caught.value.hint.startswith("check the STS")
    key = odps_nb.AccessKey(*account)
    with odps_nb.connect(**facts, credentials=key) as client:  # without the wrong token
        client.tables()
