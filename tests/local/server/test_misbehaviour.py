"""Faults on request, as a client sees them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
import requests

from odps_nb.errors import InvalidRequestError, SessionExpiredError, ThrottledError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.terms import IndexSplit
from odps_nb.wire import calls
from odps_nb.wire.calls import WireRequest
from tests.support.service.peer import Peer

ROWS = pa.table({"a": pa.array(range(20_000))})
BROKEN = (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError)


@pytest.fixture(scope="module")
def faulty_service() -> Iterator[LocalService]:
    with start(samples=False, options=("--misbehave",)) as running:
        peer = Peer(running)
        peer.sql("CREATE TABLE t (a bigint);")
        peer.write("t", ROWS)
        yield running


@pytest.fixture
def peer(faulty_service: LocalService) -> Iterator[Peer]:
    peer = Peer(faulty_service)
    yield peer
    peer.ok(WireRequest(method="DELETE", path="/misbehaviour"))
    peer.session.close()


def ask(peer: Peer, *rules: dict[str, Any]) -> None:
    body = json.dumps({"rules": rules}).encode()
    peer.ok(WireRequest(method="PUT", path="/misbehaviour", body=body))


def read(peer: Peer, session_id: str) -> bytes:
    request = calls.ReadRows(table=peer.table("t"), session_id=session_id, split=IndexSplit(0))
    return peer.ok(request.encode()).content


def test_a_cut_fault_breaks_a_stream_once_at_the_given_byte(peer: Peer) -> None:
    session = peer.open_read("t")
    whole = read(peer, session.session_id)
    ask(peer, {"action": "TableRead", "fault": "cut", "at": 5000})
    request = calls.ReadRows(
        table=peer.table("t"), session_id=session.session_id, split=IndexSplit(0)
    )
    got = bytearray()
    response = peer.ok(request.encode())
    with pytest.raises(BROKEN):
        got.extend(byte for chunk in response.iter_content(1000) for byte in chunk)
    assert got == whole[: len(got)]
    assert len(got) <= 5000
    assert read(peer, session.session_id) == whole


def test_a_corrupt_fault_changes_the_given_byte(peer: Peer) -> None:
    session = peer.open_read("t")
    whole = read(peer, session.session_id)
    ask(peer, {"action": "TableRead", "fault": "corrupt", "at": 4321})
    spoiled = read(peer, session.session_id)
    assert [i for i, (a, b) in enumerate(zip(whole, spoiled, strict=True)) if a != b] == [4321]


def test_a_rule_for_one_session_does_not_affect_others(peer: Peer) -> None:
    affected, spared = peer.open_read("t").session_id, peer.open_read("t").session_id
    rule = {"action": "TableRead", "session": affected, "fault": "corrupt", "at": 4321}
    ask(peer, rule)
    whole = read(peer, spared)
    assert read(peer, affected) != whole
    assert read(peer, spared) == whole


def test_a_refusal_has_the_configured_status_and_retry_after(peer: Peer) -> None:
    ask(peer, {"action": "*", "fault": "status", "status": 429, "retry_after": 0.5, "skip": 1})
    peer.open_read("t")
    with pytest.raises(ThrottledError) as caught:
        peer.open_read("t")
    assert caught.value.retry_after == 0.5
    peer.open_read("t")


def test_a_stall_lasts_the_configured_time(peer: Peer) -> None:
    session = peer.open_read("t")
    ask(peer, {"action": "TableRead", "fault": "stall", "at": 100, "seconds": 0.3})
    began = time.monotonic()
    read(peer, session.session_id)
    assert time.monotonic() - began >= 0.3


def test_a_stall_ends_when_the_client_disconnects(peer: Peer, faulty_service: LocalService) -> None:
    peer.sql("CREATE TABLE large (a bigint);")
    peer.write("large", pa.table({"a": pa.array(range(1_000_000))}))
    session = peer.open_read("large")
    ask(peer, {"action": "TableRead", "fault": "stall", "at": 1_500_000, "seconds": 600})
    request = calls.ReadRows(
        table=peer.table("large"), session_id=session.session_id, split=IndexSplit(0)
    )
    service = psutil.Process(faulty_service.pid)
    root = next(Path(file.path).parent for file in service.open_files() if "lock" in file.path)
    for ready in (root / "hot").glob("*.arrow"):
        ready.unlink()  # mapped files stay open; Parquet files are open only during a read
    before = len(service.open_files())
    with peer.ok(request.encode()) as response:
        chunks = response.iter_content(1000)  # a deleted iterator would close the connection
        assert next(chunks)
        assert len(service.open_files()) > before  # the file with unsent rows is open
    give_up = time.monotonic() + 60
    while len(service.open_files()) > before:
        assert time.monotonic() < give_up, "files of a disconnected client are open"
        time.sleep(0.01)


def test_an_expired_session_stays_expired(peer: Peer) -> None:
    session = peer.open_read("t")
    ask(peer, {"action": "TableRead", "fault": "expire"})
    for _ in range(2):
        with pytest.raises(SessionExpiredError):
            read(peer, session.session_id)


def test_a_commit_whose_response_is_lost_has_taken_effect(peer: Peer) -> None:
    peer.sql("CREATE TABLE lost (a bigint);")
    session = peer.open_write("lost")
    peer.open_stream("lost", session, "0")
    peer.put("lost", session, "0", ROWS)
    peer.close_stream("lost", session, "0")
    ask(peer, {"action": "TableCommitWriteSession", "fault": "close"})
    with pytest.raises(BROKEN):
        peer.commit("lost", session)
    state = peer.call(calls.GetWriteSession(table=peer.table("lost"), session_id=session))
    assert state.status == "COMMITTED"
    assert peer.read("lost").num_rows == 20_000


def test_invalid_rules_are_refused(peer: Peer) -> None:
    for rule in ({"action": "*", "fault": "explode"}, {"fault": "cut"}, {"x": 1}):
        with pytest.raises(InvalidRequestError):
            ask(peer, rule)


def test_all_routes_except_that_of_fault_rules_need_a_signature(
    faulty_service: LocalService,
) -> None:
    paths = [
        "/x",
        "/api/x",
        "/api/misbehaviour",
        "/api/storage/v2?Action=BlobRead",
        "/projects/local",
    ]
    for path in paths:
        for method in ("GET", "PUT", "POST", "DELETE"):
            answer = requests.request(method, faulty_service.tunnel_endpoint + path, timeout=10)
            assert answer.status_code == 401, (method, path)
