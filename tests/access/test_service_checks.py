"""Each online check of the doctor decodes a response, and all checks end in time."""

import contextlib
import dataclasses
import socket
import threading
import time

import pytest

from odps_nb.access.service_checks import check_project, check_service
from odps_nb.client.auth.profile import Profile
from odps_nb.wire import control
from odps_nb.wire.control import (
    InstanceResult,
    InstanceStatus,
    SubmittedInstance,
    TaskResult,
    TaskState,
)
from tests.support.sockets.peers import Peer
from tests.support.sockets.scripted import ControlService, fail, give, raw

LONG = 90  # long enough for a busy machine
SHORT, MEDIUM = 1.2, 3.0
SLACK = 1.5  # seconds allowed on a busy machine
ALL = ("Project", "Clock", "Time zone", "Tables", "SQL")
TRANSFERS = ("Storage API", "Storage API v1", "Tunnel", "Rows")
PROJECT = give(control.ProjectInfo(name="p", properties={"odps.sql.timezone": "UTC"}))
TABLES = give(control.TablePage(names=("t",)))
BODY, HEADERS = SubmittedInstance(instance_id="i1").encode(location="http://x")
SUBMITTED = raw(BODY, 201, **HEADERS)
DONE = InstanceStatus(status="Terminated")
RUNNING, OVER = give(InstanceStatus(status="Running")), give(DONE)


def profile_of(peer: Peer, **more) -> Profile:
    facts = {"endpoint": f"{peer.url}/api", "project": "p", "access_id": "i", "access_key": "kk"}
    return Profile(**facts, **more)


def checks_by_name(profile: Profile, seconds: float = LONG):
    return {check.name: check for check in check_service(profile, seconds=seconds)}


def silent(line, seen=None) -> None:
    line.peer.release.wait(30)


def silent_after_the_request(line) -> None:
    line.request()
    line.peer.release.wait(30)


def drip_after(start: bytes):
    def script(line, seen=None) -> None:
        if seen is None:
            line.request()
        line.send(start)
        with contextlib.suppress(OSError):
            while not line.peer.release.wait(0.05):
                line.send(b"x")

    return script


BODY_THAT_DRIPS = drip_after(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n<Project>")
NETWORKS = {
    "silent": silent,
    "silent after the request": silent_after_the_request,
    "a head that drips": drip_after(b"HTTP/1.1 200 OK\r\nX-A: "),
    "a body that drips": BODY_THAT_DRIPS,
}


# -- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
def test_a_service_that_does_not_respond_is_reported_as_bad_before_the_limit(network):
    with Peer(NETWORKS[network]) as peer:
        for check in (check_service, check_project):
            began = time.monotonic()
            checks = {one.name: one for one in check(profile_of(peer), seconds=SHORT)}
            project = checks["Project"]
            assert time.monotonic() - began < SHORT + SLACK
            assert project.verdict == "bad"
            assert project.to_do.startswith(("check the network,", "check the endpoint, VPN"))


def test_a_slow_dns_lookup_does_not_exceed_the_time_limit(monkeypatch):
    end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: end.wait(30) and [])
    profile = Profile(
        endpoint="http://odps.example/api", project="p", access_id="i", access_key="k"
    )
    try:
        began = time.monotonic()
        checks = checks_by_name(profile, SHORT)
        assert SHORT * 0.8 < time.monotonic() - began < SHORT + SLACK
    finally:
        end.set()
    assert tuple(checks) == ALL + TRANSFERS
    assert [one.verdict for one in checks.values()] == ["bad"] + ["optional"] * 8
    for one in checks.values():
        assert one.found == "not checked: the 1.2 s for the checks of the service have passed"
        assert one.to_do


@pytest.mark.parametrize(  # after a slow body, no time is left to check SQL
    ("step", "sql"), [(silent, "bad"), (BODY_THAT_DRIPS, "optional")], ids=["silent", "drips"]
)
def test_each_check_has_a_result_if_only_the_project_request_is_answered(step, sql):
    waiting = ("ListTables", "SubmitSql", "GetTunnelEndpoint", "GetTable")
    script = {name: [step] for name in waiting}
    with ControlService(GetProject=[PROJECT], **script) as service:
        began = time.monotonic()
        checks = checks_by_name(profile_of(service), MEDIUM)
        assert time.monotonic() - began < MEDIUM + SLACK
    assert set(ALL) <= checks.keys()
    assert [checks[name].verdict for name in ALL] == ["ok", "optional", "ok", "bad", sql]
    assert "Rows" in checks


@pytest.mark.parametrize("states", [[RUNNING], [silent]], ids=["running", "silent"])
def test_a_query_that_does_not_end_is_cancelled(states):
    script = {"SubmitSql": [SUBMITTED], "GetInstance": states, "CancelInstance": [raw(b"")]}
    names = ("GetTable", "GetTunnelEndpoint")
    missing = {name: [fail(404, "NoSuchObject")] for name in names}
    with ControlService(GetProject=[PROJECT], ListTables=[TABLES], **script, **missing) as service:
        sql = checks_by_name(profile_of(service), MEDIUM)["SQL"]
        assert len(service.calls["CancelInstance"]) == 1
    assert (sql.verdict, "instance i1" in sql.found) == ("bad", True)
    assert sql.found.endswith("it was cancelled")


def test_stopping_the_checks_early_neither_waits_nor_sends_requests():
    def late(line, seen) -> None:
        line.peer.release.wait(30)
        TABLES(line, seen)

    with ControlService(GetProject=[PROJECT], ListTables=[late]) as service:
        checks = check_service(profile_of(service), seconds=LONG)
        assert next(checks).name == "Project"
        while not service.calls["ListTables"]:
            time.sleep(0.01)
        (running,) = [one for one in threading.enumerate() if one.name == "odps_nb-checks"]
        checks.close()
        assert running.is_alive()  # still in the abandoned request
        service.release.set()
        running.join(LONG)
        assert not running.is_alive()
        assert {name for name, times in service.calls.items() if times} == {
            "GetProject",
            "ListTables",
        }


# -- content of responses -----------------------------------------------------------------------

PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>"


@pytest.mark.parametrize(
    "body", [PAGE, b"", b"<Project/>", b"<Project><Name/></Project>", b"{}", b"<Projects/>"]
)
def test_the_project_is_ok_only_if_the_response_names_it(body):
    with Peer(lambda line: line.request() and line.answer(body)) as peer:
        checks = checks_by_name(profile_of(peer))
    assert checks.keys() == {"Project"}
    assert (checks["Project"].verdict, checks["Project"].to_do != "") == ("bad", True)


@pytest.mark.parametrize(
    ("text", "verdict"), [('"one"\n1\n', "ok"), ('"one"\n2\n', "bad"), ("", "bad"), ("<a", "bad")]
)
def test_sql_is_ok_only_if_its_result_is_correct(text, verdict):
    result = InstanceResult(tasks=(TaskResult(name="AnonymousSQLTask", text=text),))
    script = {
        "GetProject": [PROJECT],
        "ListTables": [fail(403, "NoPermission")],
        "SubmitSql": [SUBMITTED],
        "GetInstance": [OVER],
        "GetTaskStatus": [give(dataclasses.replace(DONE, tasks=(TaskState(status="Success"),)))],
        "GetInstanceResult": [give(result)],
    }
    with ControlService(**script) as service:
        checks = checks_by_name(profile_of(service))
    assert checks["SQL"].verdict == verdict
    assert checks["Tables"].verdict == "bad"
    assert checks["Rows"].found.endswith("the tables could not be listed")


@pytest.fixture
def account(service_pool):
    """Return a function that returns the profile of an account with this project time zone."""

    def with_zone(form: str, **more) -> Profile:
        service = service_pool.get(options=("--form", f"project_zone={form}"), samples=False)
        names = ("endpoint", "project", "access_id", "access_key")
        return Profile(**{name: getattr(service, name) for name in names}, **more)

    return with_zone


@pytest.mark.parametrize(
    ("project", "own", "verdict", "told"),
    [
        ("UTC", None, "ok", "UTC, in the project and in this connection"),
        ("Asia/Shanghai", None, "optional", "Asia/Shanghai in SQL of the project, UTC in"),
        ("Asia/Shanghai", "Asia/Shanghai", "ok", "Asia/Shanghai, in the project and in"),
        ("UTC", "Europe/Berlin", "ok", "UTC in the project, Europe/Berlin in this connection"),
        ("none", None, "optional", "the project does not name its time zone"),
        ("none", "Asia/Shanghai", "ok", "the project does not name its time zone"),
    ],
)
def test_the_time_zones_of_the_project_and_the_connection_are_compared(
    account, project, own, verdict, told
):
    _, zone = check_project(account(project, timezone=own), seconds=LONG)
    assert zone.verdict == verdict
    assert zone.found.startswith(told)
    assert bool(zone.to_do) == (verdict == "optional")


def test_sql_uses_the_time_zone_of_the_project(account):
    import odps_nb

    with odps_nb.connect(account("Asia/Shanghai")) as odps:
        found = odps.sql("select current_timezone() as zone").to_arrow()
        assert found.to_pylist() == [{"zone": "Asia/Shanghai"}]


def test_a_quota_is_ok_only_if_a_request_with_it_was_accepted(account):
    profile = account("UTC", quota="fast")
    quota = checks_by_name(profile)["Quota"]
    assert (quota.verdict, quota.found[:17]) == ("ok", "fast was accepted")
    given = dataclasses.replace(profile, tunnel_endpoint="http://127.0.0.1:1")
    quota = checks_by_name(given)["Quota"]
    assert quota.verdict == "ok"
    assert quota.found == "fast was accepted; rows use the tunnel_endpoint that you set"
    assert "Quota" not in checks_by_name(account("UTC"))


def test_a_refused_quota_is_reported_as_bad():
    script = {"GetProject": [PROJECT], "ListTables": [TABLES], "SubmitSql": [fail(403, "No")]}
    refused = fail(400, "InvalidArgument", "the quota 'slow' does not exist")
    with ControlService(GetTunnelEndpoint=[refused], GetTable=[fail(403, "No")], **script) as peer:
        quota = checks_by_name(profile_of(peer, quota="slow"))["Quota"]
        assert [one.quota_name for one in peer.calls["GetTunnelEndpoint"]] == ["slow"]
    assert (quota.verdict, "'slow' does not exist" in quota.found) == ("bad", True)
