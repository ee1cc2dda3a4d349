"""Calls are signed, retried only where that is safe, and have complete error messages."""

from __future__ import annotations

import gzip
import logging
import pickle
from dataclasses import replace

import pytest

from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls import responses
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import (
    AccessDeniedError,
    BrokenStreamError,
    CancelledError,
    ConfigError,
    ConnectError,
    FramingError,
    NotFoundError,
    OversizeError,
    RequestTimeoutError,
    ServerFaultError,
    ServiceError,
    StateError,
    ThrottledError,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.wire.calls import (
    CommitWriteSession,
    CreateReadSession,
    EmptyAnswer,
    GetReadSession,
    ReadSessionAnswer,
    WireRequest,
)
from odps_nb.wire.http_date import parse_date
from odps_nb.wire.signing import verify
from tests.support.sockets.peers import answers, refused
from tests.support.sockets.scripted import TABLE, Service, fail, give, hang_up, raw, stall, wire_of
from tests.support.threads import open_sockets, wait_until

ASK = GetReadSession(table=TABLE, session_id="s")
FOUND = ReadSessionAnswer(session_id="s", splits_count=3)
COMMIT = CommitWriteSession(table=TABLE, session_id="s")


def test_a_document_that_a_proxy_has_compressed_is_refused_with_a_hint():
    refused = pytest.raises(FramingError, match="compressed document")
    with Service(GetReadSession=[raw(gzip.compress(b"{}"))]) as service, refused as caught:
        service.storage.call(ASK)
    assert "proxies" in caught.value.hint


def uploaded(storage):
    with storage.upload(ASK) as upload:
        upload.finish()


@pytest.mark.parametrize("send", [lambda storage: storage.call(ASK), uploaded])
def test_a_signature_that_a_proxy_echoes_is_in_no_log_line_and_error(caplog, send):
    def echo(line, seen):
        line.send(f"GET / {seen.headers['authorization']}\r\n\r\n".encode())
        raise ConnectionError

    caplog.set_level(logging.DEBUG, "odps_nb")
    with (
        Service(GetReadSession=[echo]) as service,
        service.client(retry=RetryPolicy(max_attempts=1)) as storage,
        pytest.raises(BrokenStreamError, match="is not HTTP/1") as caught,
    ):
        send(storage)
    (seen,) = service.seen
    signature = seen.headers["authorization"].partition(":")[2]
    assert signature not in caplog.text + str(caught.value)


def test_a_call_is_signed_scoped_and_decoded():
    with Service(GetReadSession=[give(FOUND)]) as service, service.client() as storage:
        assert storage.call(ASK) == FOUND
    seen = service.seen[0]
    wire = wire_of(seen)
    assert wire.params[-1] == ("curr_project", "p")
    assert (
        verify(
            seen.method, seen.target, seen.headers, keys={"me": "secret-key"}.get, now=_date(seen)
        )
        == "me"
    )
    assert seen.headers["user-agent"] == seen.headers["x-odps-user-agent"] == storage.user_agent
    assert seen.headers["odps-tunnel-retry-index"] == "0"
    assert storage.user_agent.startswith("odps_nb/")


def _date(seen) -> float:
    from email.utils import parsedate_to_datetime

    return parsedate_to_datetime(seen.headers["date"]).timestamp()


def test_a_region_signs_with_version_4():
    facts = {"profile": {"region": "cn-hangzhou"}}
    with Service(GetReadSession=[give(FOUND)]) as service, service.client(**facts) as storage:
        storage.call(ASK)
    seen = service.seen[0]
    assert "/cn-hangzhou/odps/aliyun_v4_request:" in seen.headers["authorization"]
    assert (
        verify(
            seen.method, seen.target, seen.headers, keys={"me": "secret-key"}.get, now=_date(seen)
        )
        == "me"
    )


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (500, "InternalServerError", "need ak v3 support"),
        (500, "InternalServerError", "AccessKey ACL denied"),
        (400, "InvalidParameter", "ODPS-0410051: invalid credentials"),
        (401, "Unauthorized", "the authorization header is invalid or missing"),
    ],
)
def test_if_signature_version_4_is_refused_the_error_names_the_alternative(status, code, message):
    for region, hinted in (("cn-hangzhou", True), (None, False)):
        with (
            Service(GetReadSession=[fail(status, code, message)]) as service,
            service.client(
                profile={"region": region}, retry=RetryPolicy(max_attempts=1)
            ) as storage,
            pytest.raises(ServiceError) as caught,
        ):
            storage.call(ASK)
        assert ("without region=" in (caught.value.hint or "")) is hinted
        assert len(service.seen) == 1


@pytest.mark.parametrize(("schema", "sent"), [("sc", "sc"), (None, None)])
def test_the_schema_is_sent_as_parameter_curr_schema_unless_the_table_is_in_none(schema, sent):
    facts = {"profile": {"schema": "sc"}}
    with Service(GetReadSession=[give(FOUND)]) as service, service.client(**facts) as storage:
        storage.call(replace(ASK, table=replace(ASK.table, schema=schema)))
    assert dict(wire_of(service.seen[0]).params).get("curr_schema") == sent


@pytest.mark.parametrize(
    "trouble",
    [fail(503, "ServiceUnavailable"), fail(500, "InternalServerError"), hang_up, raw(b"{oops")],
    ids=["503", "500", "cut", "no JSON"],
)
def test_an_idempotent_call_is_retried(trouble):
    tracker = ProgressTracker("read", "t")
    with Service(GetReadSession=[trouble, trouble, give(FOUND)]) as service:
        assert service.storage.call(ASK, tracker=tracker) == FOUND
    assert service.slept == [0.2, 0.4]
    assert [seen.headers["odps-tunnel-retry-index"] for seen in service.seen] == ["0", "1", "2"]
    assert len({seen.headers["odps-tunnel-retry-trace-id"] for seen in service.seen}) == 1
    assert tracker.snapshot().retries == 2
    assert "TableGetReadSession p.t" in tracker.snapshot().events[0]


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [(fail(503, "ServiceUnavailable"), ServerFaultError), (hang_up, BrokenStreamError)],
    ids=["503", "cut"],
)
def test_a_call_that_is_not_idempotent_is_not_retried(trouble, kind):
    with Service(CommitWriteSession=[trouble]) as service, pytest.raises(kind):
        service.storage.call(COMMIT)
    assert len(service.seen) == 1


def test_throttling_waits_for_the_requested_seconds():
    throttled = fail(429, "FlowExceeded", **{"Retry-After": "3"})
    with Service(CommitWriteSession=[throttled, throttled, give(EmptyAnswer())]) as service:
        service.storage.call(COMMIT)
    assert service.slept == [3.0, 3.0]


LATER = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"Date": "Wed, 21 Oct 2026 07:27:45 GMT"}, 15.0),
        ({}, 20.0),  # computed with the client's own clock
        (
            {"Date": "Wed, 21 Oct 2026 07:30:00 GMT"},
            0.2,
        ),  # in the past: the policy determines the wait
    ],
    ids=["server clock", "client clock", "past"],
)
def test_throttling_waits_until_the_requested_date(headers, waited):
    throttled = fail(429, "FlowExceeded", **{"Retry-After": LATER, **headers})
    with (
        Service(GetReadSession=[throttled, give(FOUND)]) as service,
        service.client(clock=lambda: parse_date(LATER) - 20.0) as storage,
    ):
        storage.call(ASK)
    assert service.slept == [waited]


def test_a_wait_until_a_distant_date_is_limited_like_a_wait_in_seconds():
    throttled = fail(429, "FlowExceeded", **{"Retry-After": LATER})
    with (
        Service(GetReadSession=[throttled]) as service,
        service.client(clock=lambda: 0.0) as storage,
        pytest.raises(ThrottledError) as caught,
    ):
        storage.call(ASK)
    assert pickle.loads(pickle.dumps(caught.value)).retry_after == 3600.0
    assert "retry after 3600 s" in "\n".join(caught.value.__notes__)
    assert service.slept == []


def test_endless_throttling_ends_at_the_deadline():
    with (
        Service(GetReadSession=[fail(429, "QPSExceeded")]) as service,
        service.client(retry=RetryPolicy(max_attempts=3)) as storage,
        pytest.raises(ThrottledError) as caught,
    ):
        storage.call(ASK)
    assert len(service.seen) == 3
    assert "TableGetReadSession p.t SessionId=s at the service" in caught.value.notes[0]
    assert ", 3 attempts" in caught.value.notes[0]


def test_an_error_names_code_status_request_id_action_and_target():
    with (
        Service(GetReadSession=[fail(404, "NoSuchTable", "ODPS-0130131: t")]) as service,
        pytest.raises(NotFoundError) as caught,
    ):
        service.storage.call(ASK)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.status, error.code, error.request_id) == (404, "NoSuchTable", "req-1")
    place = service.url.partition("//")[2]
    assert error.notes == (f"TableGetReadSession p.t SessionId=s at the service {place}",)
    assert len(service.seen) == 1


def test_an_empty_response_to_a_session_request_raises_an_error():
    with (
        Service(GetReadSession=[raw(b"{}")]) as service,
        service.client(retry=RetryPolicy(max_attempts=2)) as storage,
        pytest.raises(FramingError) as caught,
    ):
        storage.call(ASK)
    assert caught.value.request_id == "req-1"


def test_a_silent_server_raises_a_timeout_with_a_note():
    with (
        Service(GetReadSession=[stall]) as service,
        service.client(read_timeout=0.1, retry=RetryPolicy(max_attempts=1)) as storage,
        pytest.raises(RequestTimeoutError) as caught,
    ):
        storage.call(ASK)
    assert "TableGetReadSession" in caught.value.notes[0]


def test_a_refused_connection_is_a_connect_error_after_a_few_attempts():
    slept: list[float] = []
    with refused() as url:
        profile = Profile(
            endpoint=url, tunnel_endpoint=url, project="p", access_id="a", access_key="k"
        )
        with (
            StorageClient(profile, sleep=slept.append) as storage,
            pytest.raises(ConnectError),
        ):
            storage.call(ASK)
    assert len(slept) == 3


def test_cancelling_ends_a_call_that_waits():
    token = CancelToken()

    def cancel(line, seen):
        token.cancel()
        assert line.wait_closed()

    with (
        Service(GetReadSession=[cancel]) as service,
        service.client(read_timeout=60.0) as storage,
        pytest.raises(CancelledError),
    ):
        storage.call(ASK, cancel=token)


def test_cancelling_ends_the_wait_between_attempts():
    token = CancelToken()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        token.cancel()

    throttled = fail(429, "FlowExceeded", **{"Retry-After": "60"})
    with (
        Service(GetReadSession=[throttled]) as service,
        service.client(sleep=sleep) as storage,
        pytest.raises(CancelledError),
    ):
        storage.call(ASK, cancel=token)
    assert slept == [0.1]


def test_the_tunnel_endpoint_is_requested_once():
    with answering(b"127.0.0.1:99") as (peer, storage):
        assert storage.tunnel_endpoint == "http://127.0.0.1:99"
        assert storage.tunnel_endpoint == "http://127.0.0.1:99"
    assert [seen.target for seen in peer.seen] == [
        "/api/projects/p/tunnel?service=&quotaName=q&curr_project=p"
    ]


@pytest.mark.parametrize("text", [b"", b"<no/>", b"two words"])
def test_an_invalid_tunnel_endpoint_is_refused(text):
    with (
        answering(text) as (_, storage),
        pytest.raises(FramingError, match="not the host name of a tunnel endpoint") as caught,
    ):
        _ = storage.tunnel_endpoint
    assert "tunnel_endpoint=" in caught.value.hint


def test_the_control_plane_is_signed_relative_to_its_endpoint():
    with answering(b"<x/>") as (peer, storage):
        headers, body = storage.rest(WireRequest(method="GET", path="/projects/p/tables/t"))
    assert (headers["x-odps-request-id"], body) == ("req-1", b"<x/>")
    seen = peer.seen[0]
    assert (
        verify(seen.method, seen.target, seen.headers, keys={"a": "k"}.get, now=_date(seen)) == "a"
    )


def test_a_post_to_the_control_plane_is_not_retried():
    with answering(b"", status=503) as (peer, storage), pytest.raises(ServerFaultError):
        storage.rest(WireRequest(method="POST", path="/projects/p/instances", body=b"<x/>"))
    assert len(peer.seen) == 1


class answering:
    def __init__(self, body: bytes, status: int = 200, sts_token: str | None = None) -> None:
        from tests.support.sockets.peers import Peer

        self.peer = Peer(answers(body, body, body, status=status))
        keys = {"access_id": "a", "access_key": "k", "sts_token": sts_token}
        profile = Profile(endpoint=self.peer.url + "/api", project="p", quota="q", **keys)
        self.storage = StorageClient(profile, sleep=lambda seconds: None)

    def __enter__(self):
        return self.peer, self.storage

    def __exit__(self, *_):
        self.storage.close()
        self.peer.close()


def test_cancelling_and_closing_reach_only_the_running_operations():
    with Service() as service, service.client() as storage:
        first = storage.operation()
        storage.cancel()
        second = storage.operation()
        assert (first.cancelled, second.cancelled) == (True, False)
    assert second.cancelled


def test_a_closed_client_raises_a_state_error():
    with Service(GetReadSession=[give(FOUND)]) as service:
        before = open_sockets()
        with service.client() as storage:
            storage.call(ASK)
        wait_until(lambda: open_sockets() <= before)
        storage.close()
        for call in (
            lambda: storage.call(ASK),
            lambda: storage.open(ASK),
            lambda: storage.upload(COMMIT),
            lambda: storage.rest(WireRequest(method="GET", path="/x")),
        ):
            with pytest.raises(StateError):
                call()
    assert "closed" in repr(storage)


def test_a_client_cannot_be_pickled():
    with (
        Service(GetReadSession=[give(FOUND)]) as service,
        pytest.raises(ConfigError, match="another process"),
    ):
        pickle.dumps(service.storage)


def test_logs_errors_and_reprs_contain_no_secret(caplog):
    caplog.set_level(logging.DEBUG)
    with (
        Service(GetReadSession=[fail(403, "SignatureNotMatch")]) as service,
        pytest.raises(AccessDeniedError) as caught,
    ):
        service.storage.call(ASK)
    signature = service.seen[0].headers["authorization"]
    shown = f"{caught.value!r} {caught.value.notes} {caught.getrepr()} {service.storage!r}"
    told = shown + caplog.text
    assert "secret-key" not in told
    assert signature not in told
    assert any(
        "TableGetReadSession p.t SessionId=s: 403, request id req-1" in one
        for one in caplog.messages
    )


def test_a_token_is_not_sent_to_a_host_of_another_domain():
    """Attack 5: the service, or whoever responds in its place, chooses the host."""
    with (
        answering(b"tunnel.example.com", sts_token="t") as (peer, storage),
        pytest.raises(ConfigError, match="another domain") as caught,
    ):
        storage.call(ASK)
    assert "tunnel_endpoint=" in caught.value.hint
    assert {seen.target.partition("?")[0] for seen in peer.seen} == {"/api/projects/p/tunnel"}


def test_a_document_that_is_too_large_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(responses, "MAX_DOCUMENT", 100)
    with (
        Service(CreateReadSession=[raw(b" " * 101)]) as service,
        service.client() as storage,
        pytest.raises(OversizeError, match="too large"),
    ):
        storage.call(CreateReadSession(table=TABLE))
    assert len(service.calls["CreateReadSession"]) == 1
