"""Evidence 163: two SQL jobs of a project with one ``<Guid>`` are one instance.

Sources: a live test of the Java SDK (``UniqueIdentifyIDTest``), its changelog of 0.52.0
("idempotent submission"), and a live test of pyodps (``test_create_instance``).
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
import requests

from odps_nb import ClientOptions
from odps_nb.access.connection import Connection
from odps_nb.errors import InvalidRequestError, OdpsNbError, QueryError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.wire.control import CancelInstance, GetInstanceSource, SubmitSql
from tests.support.service.connecting import connected
from tests.support.service.peer import Peer
from tests.support.service.protected import analyst_of, owner_of, protected_service
from tests.support.spark.watched import injected, misbehave

SLOW = "select count(*) from range_a a cross join range_a b cross join range_a c;"


def submit(peer: Peer, sql: str, guid: str, **more: Any) -> str:
    """Submit a job; return the id of its instance."""
    request = SubmitSql(project=peer.service.project, sql=sql, unique_id=guid, **more)
    answer = peer.ok(request.encode())
    return request.decode_answer(answer.content, dict(answer.headers)).instance_id


def state(peer: Peer, instance_id: str) -> str:
    (task,) = peer.wait(instance_id).tasks
    return task.status


# -- the embedded service --------------------------------------------------------------------------


def test_another_text_with_the_same_guid_returns_the_first_instance(peer: Peer) -> None:
    """Evidence 163: "select 1" and "select 2" have one id, even if the second text is not SQL."""
    guid = str(uuid4())
    first = submit(peer, "select 1;", guid)
    assert submit(peer, "select 2;", guid) == first
    assert submit(peer, "selec;", guid) == first
    assert submit(peer, "select 1;", str(uuid4())) != first


def test_jobs_without_a_guid_are_separate_instances(peer: Peer) -> None:
    """Evidence 163: neither an empty Guid nor the property ``uuid`` identifies a job."""
    ids = {submit(peer, "select 1;", "") for _ in range(3)}
    wire = SubmitSql(project=peer.service.project, sql="select 1", unique_id="u-3").encode()
    assert wire.body is not None
    body = wire.body.replace(b"<Guid>u-3</Guid>", b"")
    assert b"<Name>uuid</Name><Value>u-3</Value>" in body
    ids |= {peer.ok(wire, body).headers["Location"] for _ in range(2)}
    assert len(ids) == 5


def test_a_statement_with_a_guid_runs_once_even_if_submitted_several_times(peer: Peer) -> None:
    """Evidence 163: even after the job has ended, with the outcome of the first job."""
    peer.sql("create table of_one_guid (a bigint);")
    guid = str(uuid4())
    ids = set()
    for _ in range(3):
        ids.add(submit(peer, "insert into of_one_guid values (1);", guid))
        assert [state(peer, one) for one in ids] == ["Success"]
    assert peer.read("of_one_guid").num_rows == 1


def test_requests_at_the_same_moment_run_one_statement(peer: Peer) -> None:
    """Evidence 163: if two requests arrive together, one of them starts the job."""
    peer.sql("create table at_once (a bigint);")
    ready = threading.Barrier(8)

    def send(guid: str) -> str:
        with requests.Session() as session:
            ready.wait()
            mine = Peer(peer.service, session=session)
            return submit(mine, "insert into at_once values (1);", guid)

    with ThreadPoolExecutor(8) as pool:
        for guid in (str(uuid4()) for _ in range(5)):
            (instance_id,) = set(pool.map(send, [guid] * 8))
            assert state(peer, instance_id) == "Success"
    assert peer.read("at_once").num_rows == 5


def test_a_running_job_is_found_by_its_guid(peer: Peer) -> None:
    """Evidence 163: even after the job was stopped."""
    peer.sql("create table range_a (n bigint);")
    peer.write("range_a", pa.table({"n": range(5000)}))
    guid = str(uuid4())
    first = submit(peer, SLOW, guid)
    assert submit(peer, "select 1;", guid) == first
    peer.ok(CancelInstance(project=peer.service.project, instance_id=first).encode())
    assert submit(peer, SLOW, guid) == first
    assert state(peer, first) == "Cancelled"


def test_a_job_with_a_refused_text_does_not_occupy_its_guid(peer: Peer) -> None:
    """If a statement was not started, a later statement may use its Guid."""
    guid = str(uuid4())
    for _ in range(2):
        with pytest.raises(InvalidRequestError):
            submit(peer, "selec nonsense from;", guid)
    assert state(peer, submit(peer, "select 1;", guid)) == "Success"


def test_an_estimate_may_have_a_guid(peer: Peer) -> None:
    guid = str(uuid4())
    first = submit(peer, "select 1;", guid, estimates=True)
    assert submit(peer, "select 1;", guid, estimates=True) == first


def test_the_document_of_a_job_has_its_guid(peer: Peer) -> None:
    """Evidence 163: pyodps reads it back (``get_unique_identifier_id``)."""
    guid = str(uuid4())
    instance_id = submit(peer, "select 1;", guid)
    wire = GetInstanceSource(project=peer.service.project, instance_id=instance_id).encode()
    assert re.search(r"<Guid>(.*)</Guid>", peer.ok(wire).text)[1] == guid


@pytest.mark.nightly
def test_a_guid_is_known_after_a_restart_and_a_kill(tmp_path: Path) -> None:
    """A statement whose response was lost in a crash of the service is not run again."""
    guid, root = str(uuid4()), tmp_path / "root"
    with start(root, samples=False) as first:
        peer = Peer(first)
        peer.sql("create table survived (a bigint);")
        made = submit(peer, "insert into survived values (1);", guid)
        assert state(peer, made) == "Success"
        os.kill(first.pid, signal.SIGKILL)
    with start(root, samples=False) as second:
        peer = Peer(second)
        assert submit(peer, "insert into survived values (1);", guid) == made
        assert peer.read("survived").num_rows == 1


@pytest.mark.nightly
def test_a_guid_used_by_another_key_does_not_return_its_instance(tmp_path: Path) -> None:
    """The result of a statement belongs to the key that submitted it."""
    with (
        protected_service(tmp_path) as service,
        owner_of(service) as owner,
        analyst_of(service) as analyst,
    ):
        sent = SubmitSql(project="ours", sql="select 1;", unique_id=str(uuid4()))
        first, second = (one._storage.submit(sent) for one in (owner, analyst))
    assert first.instance_id != second.instance_id


# -- the client ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def faulty_service() -> Iterator[LocalService]:
    """A service that fails on request."""
    with start(samples=False, options=("--misbehave",)) as running:
        yield running


@pytest.fixture
def odps(faulty_service: LocalService) -> Iterator[Connection]:
    with connected(faulty_service) as odps:
        odps.create_table("t", "a bigint", if_not_exists=True)
        odps.sql("truncate table t")
        yield odps
        misbehave(odps)


def lose(odps: Connection, how: str = "closed after it was handled", times: int = 1) -> None:
    """Lose the responses to the next requests that submit a job."""
    action = f"/api/projects/{odps.profile.project}/instances"
    misbehave(odps, {"action": action, "times": times, **LOST[how]})


LOST: dict[str, dict[str, object]] = {
    "closed after it was handled": {"fault": "close"},
    "cut in the middle": {"fault": "cut", "at": 20},
    "refused by a gateway": {"fault": "status", "status": 502},
    "busy": {"fault": "status", "status": 503},
    "too many requests": {"fault": "status", "status": 429},
    "conflict, try later": {"fault": "status", "status": 409, "retry_after": 0.01},
}


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("how", "times"), [*((how, 1) for how in LOST), ("closed after it was handled", 3)]
)
def test_an_insert_whose_response_is_lost_inserts_once(
    odps: Connection, how: str, times: int
) -> None:
    """Evidence 163: the client sends the job again, and the service runs it once."""
    lose(odps, how, times)
    odps.sql("insert into t values (1)", progress=False)
    assert injected(odps) == [times]
    misbehave(odps)
    assert odps.table("t").read().row_count == 1


@pytest.mark.gate(3)
@pytest.mark.parametrize("make", ["create", "drop", "add", "ctas", "merge", "cost"])
def test_every_statement_of_the_client_survives_a_lost_response(
    odps: Connection, make: str
) -> None:
    """Evidence 163: a statement runs once even if a second run would duplicate rows or fail."""
    odps.sql("drop table if exists made")
    if make in ("drop", "add", "merge"):
        odps.create_table("made", "id bigint", primary_key=["id"] if make == "merge" else [])
    lose(odps)
    if make == "create":
        odps.create_table("made", "id bigint")
    elif make == "drop":
        odps.drop_table("made")
    elif make == "add":
        odps.sql("alter table made add columns (b string)")
    elif make == "ctas":
        odps.sql("create table made as select 1 as id")
    elif make == "merge":
        odps.sql(
            "merge into made using (select 1 as id) s on made.id = s.id"
            " when not matched then insert values (s.id)"
        )
    else:
        assert odps.sql_cost("select * from t").complexity
    assert injected(odps) == [1]


def test_a_query_reads_its_rows_after_a_lost_response(odps: Connection) -> None:
    """Evidence 163: the id of the first instance leads to its result."""
    lose(odps)
    assert odps.sql("select 1 as one", progress=False).to_arrow().to_pylist() == [{"one": 1}]


def test_a_lost_response_does_not_hide_the_failure_of_a_statement(odps: Connection) -> None:
    """Evidence 163: the second response contains the failure of the first instance."""
    lose(odps)
    with pytest.raises(QueryError) as caught:
        odps.sql("select cast('x' as bigint) / a from t where nowhere = 1")
    assert not caught.value.in_doubt


def test_a_statement_is_in_doubt_if_no_request_gets_a_response(
    faulty_service: LocalService,
) -> None:
    """Evidence 163: all retries failed, and the statement may have been executed."""
    with connected(faulty_service, client_options=ClientOptions(retries=1)) as odps:
        odps.create_table("t", "a bigint", if_not_exists=True)
        lose(odps, times=2)
        with pytest.raises(OdpsNbError) as caught:
            odps.sql("insert into t values (1)", progress=False)
        assert caught.value.in_doubt
