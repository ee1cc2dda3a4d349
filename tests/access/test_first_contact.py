"""Each problem of a new user's first connection is reported soon with the correct message.

Each situation is simulated over sockets: `Gateway` forwards requests to the embedded service,
except those that the situation changes.
"""

from __future__ import annotations

import http.client
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pytest

import odps_nb
from odps_nb import ClientOptions, Connection
from odps_nb.access.doctor import examine
from odps_nb.errors import OdpsNbError
from tests.support.outputs import SECRETS, Lines, Outputs
from tests.support.sockets.peers import Line, Peer, Seen, dropping, refused

Answer = Callable[[Line, Seen], None]
PROJECT, TABLES, ROWS = "GET /projects/local?", "GET /projects/local/tables?", "/api/storage/"
SOON = ClientOptions(connect_timeout=0.4, read_timeout=0.4, deadline=20.0)
LOGIN = b"<!DOCTYPE html><html><head><title>Guest Wi-Fi</title></head><body>log in</body></html>"


class Gateway(Peer):
    """Forwards requests to a service, except to targets that begin with a key of ``changes``."""

    def __init__(self, endpoint: str, changes: dict[str, Answer]) -> None:
        self._place, self._changes = urlsplit(endpoint).netloc, changes
        super().__init__(self._talk)

    def _talk(self, line: Line) -> None:
        while (seen := line.request()) is not None:
            target = f"{seen.method} {seen.target}"
            answer = next((act for text, act in self._changes.items() if text in target), None)
            if answer is None:
                self._forward(line, seen)
            else:
                answer(line, seen)

    def _forward(self, line: Line, seen: Seen) -> None:
        behind = http.client.HTTPConnection(self._place)
        try:
            behind.putrequest(seen.method, seen.target, skip_host=True, skip_accept_encoding=True)
            for name, value in seen.headers.items():
                if name not in ("content-length", "transfer-encoding"):
                    behind.putheader(name, value)
            behind.putheader("Content-Length", str(len(seen.body)))
            behind.endheaders(seen.body)
            response = behind.getresponse()
            kept = {k: v for k, v in response.getheaders() if k.lower() in FORWARDED}
            line.answer(response.read(), response.status, **kept)
        finally:
            behind.close()


FORWARDED = ("content-type", "date", "location", "x-odps-request-id", "odps-tunnel-schema")


def page(status: int = 200, body: bytes = LOGIN) -> Answer:
    return lambda line, seen: line.answer(body, status, Content_Type="text/html")


def redirect(target: str, status: int = 302) -> Answer:
    return lambda line, seen: line.answer(
        b"", status, Location=target.format(host=seen.headers["host"])
    )


def refuse(status: int, code: str, message: str) -> Answer:
    """Respond with an error that repeats the request's credentials, as gateways do."""

    def answer(line: Line, seen: Seen) -> None:
        text = f"{message} (authorization: {seen.headers.get('authorization')})"
        if seen.target.startswith("/api/storage"):
            line.answer(json.dumps({"Code": code, "Message": text}).encode(), status)
        else:
            body = f"<Error><Code>{code}</Code><Message>{text}</Message></Error>"
            line.answer(body.encode(), status, Content_Type="application/xml")

    return answer


def silent(line: Line, seen: Seen) -> None:
    line.peer.release.wait(30)
    raise ConnectionError


def closed(line: Line, seen: Seen) -> None:
    raise ConnectionError


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The differences from a working account, and texts that the error must or must not contain.

    ``storage`` is the tunnel endpoint; ``{gateway}`` is replaced by the gateway's URL.
    """

    says: tuple[str, ...]
    never: tuple[str, ...] = ()
    changes: dict[str, Answer] = field(default_factory=dict)
    endpoint: str = "{gateway}/api"
    storage: str | None = None
    given: dict[str, Any] = field(default_factory=dict)
    do: str = "tables"
    requests: int | None = None
    """Maximum number of requests to the gateway."""


def tables(odps: Connection) -> object:
    return odps.tables()


def rows(odps: Connection) -> object:
    return odps.table("orders").read(["id"], partitions="ds=2024-01-01", limit=5).to_arrow()


WAYS = {"tables": tables, "rows": rows}
NOWHERE = "https://service.nowhere.invalid/api"
ONLY_STORAGE = {"transfer": "storage"}
ENDPOINT_BLAMED = ("check the endpoint", "read_timeout")
SITUATIONS = {
    "1 a host that does not exist": Situation(
        endpoint=NOWHERE,
        says=("cannot resolve the host name of the service service.nowhere.invalid", "HTTPS_PROXY"),
    ),
    "2 an endpoint without /api": Situation(
        endpoint="{gateway}",
        changes={"GET /projects": lambda line, seen: line.answer(b"", 404)},
        says=("endpoint", "usually ends with /api", "has no path"),
    ),
    "3 http where the service speaks https": Situation(
        changes={"": redirect("https://{host}/api/projects?x=SeCrEt", 301)},
        says=("a redirect to https://127.0.0.1", "(301)", "https:// in the endpoint"),
        requests=1,
    ),
    "4 the login page of a console": Situation(
        changes={"": page()},
        says=("the service", "a web page titled", "Guest Wi-Fi", "log in"),
        requests=1,
    ),
    "8 a host that accepts and stays silent": Situation(
        changes={"": silent},
        given={"client_options": replace(SOON, retries=1)},
        says=("the service", "was silent", "has not responded to this client before"),
        never=("read_timeout", "always this slow"),
    ),
    "9 an unknown id": Situation(
        given={"access_id": "LTAI5tExampleKeyId01"},
        says=("LTAI…", "is unknown", "the service", "check the access id"),
        never=("LTAI5tExampleKeyId01",),
    ),
    "11 a wrong key": Situation(
        given={"access_key": SECRETS["access_key"]}, says=("signature does not match",)
    ),
    **{
        f"12 {name} as HTTP 400": Situation(
            changes={"/projects": refuse(400, "InvalidArgument", text)}, says=says, requests=1
        )
        for name, text, says in (
            ("a signature", "User signature does not match", ("the access key matches",)),
            ("an id", "accessKeyId not found", ("check the access id",)),
            ("a token", "The security token has expired", ("check the STS or bearer token",)),
        )
    },
    "14 a project that does not exist": Situation(
        given={"project": "nope"}, says=("nope", "check the project name", "region")
    ),
    **{
        f"15 {number}": Situation(
            changes={"/projects": refuse(403, "NoPermission", f"ODPS-0420095: {text}")},
            says=(says, "at the service"),
            requests=1,
        )
        for number, text, says in (
            ("[4002]", "[4002], You don't exist in project p", "add this user to the project"),
            ("[4019]", "[4019], You have NO privilege 'odps:List'", "ask the project owner"),
            ("[4021]", "[4021], You have NO privilege", "Download"),
            ("[4031]", "[4031], The sensitive label of column 'v' is 3", "label"),
            ("[4093]", "[4093], Access Mode is AllDenied.", "bill"),
        )
    },
    **{
        f"18, 19 an unknown quota as HTTP {status}": Situation(
            changes={"/tunnel?": refuse(status, "InvalidParameter", "the quota does not exist")},
            given={"quota": "nope"},
            do="rows",
            says=("quota", "nope"),
            never=("Download", "check the name,"),
        )
        for status in (400, 404)
    },
    **{
        f"21 open storage is off, HTTP {status} {code}": Situation(
            changes={ROWS: refuse(status, code, "no")},
            given=ONLY_STORAGE,
            do="rows",
            says=("open storage", "quota", "tunnel_endpoint=", "transfer='tunnel'"),
            never=("read_timeout",),
        )
        for status, code in ((403, "NoPermission"), (400, "InvalidParameter"), (404, "NotFound"))
    },
    **{
        f"23 {text}": Situation(
            changes={"/projects": refuse(400, "InvalidArgument", text)}, says=(says,)
        )
        for text, says in (
            ("schema name is required", "connect with schema="),
            ("Invalid database operations on two-tier model", "connect without schema="),
            ("Project p is not 3-tier model project.", "connect without schema="),
        )
    },
    "28 throttled until the client gives up": Situation(
        changes={"/projects": refuse(429, "Throttled", "slow down")},
        given={"client_options": ClientOptions(retries=1)},
        says=("retries=", "2 attempts"),
        requests=2,
    ),
    "29 a login page by a redirect": Situation(
        changes={"": redirect("https://login.example/portal?from=SeCrEt")},
        says=("login.example", "log"),
        requests=1,
    ),
    "30 a login page only for rows": Situation(
        changes={ROWS: page()},
        given=ONLY_STORAGE,
        do="rows",
        says=("a web page", "Guest Wi-Fi"),
        never=("pass tunnel_endpoint=",),
    ),
    **{
        f"30 a web page with HTTP {status}": Situation(
            changes={"/projects": page(status)},
            given={"client_options": ClientOptions(retries=0)},
            says=("the service", "a web page", "Guest Wi-Fi"),
            requests=1,
        )
        for status in (400, 403, 404, 500, 502)
    },
    "33 the storage host does not exist": Situation(
        storage="https://dt.nowhere.invalid",
        do="rows",
        says=("the storage host dt.nowhere.invalid", "the service responds", "tunnel_endpoint="),
        never=ENDPOINT_BLAMED,
    ),
    "33 the storage host refuses connections": Situation(
        storage="{refused}",
        do="rows",
        says=("the storage host", "the service responds", "VPC", "tunnel_endpoint="),
        never=ENDPOINT_BLAMED,
    ),
    "33 the storage host is silent": Situation(
        storage="{silent}",
        do="rows",
        given={"client_options": SOON},
        says=("the storage host", "the service responds", "VPC", "tunnel_endpoint="),
        never=ENDPOINT_BLAMED,
    ),
    "33 the storage host hangs up": Situation(
        storage="{closed}",
        do="rows",
        given={"client_options": ClientOptions(retries=0)},
        says=("the storage host",),
        never=ENDPOINT_BLAMED,
    ),
}


@pytest.fixture
def outputs(caplog) -> Iterator[Outputs]:
    caplog.set_level(logging.DEBUG)
    kept, collected = Lines(), Outputs()
    logging.getLogger().addHandler(kept)
    yield collected
    logging.getLogger().removeHandler(kept)
    collected.pieces += [line.encode() for line in kept.lines]
    collected.check()


@pytest.fixture
def connect_in(service, monkeypatch) -> Iterator[Callable[[Situation], tuple[Connection, Gateway]]]:
    """Return a function that connects to an account in a given situation."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    used: list[Any] = []

    def peer(script: Answer) -> str:
        def talk(line: Line) -> None:
            while (seen := line.request()) is not None:
                script(line, seen)

        used.append(Peer(talk))
        return str(used[-1].url)

    with refused() as nobody:

        def connect(situation: Situation) -> tuple[Connection, Gateway]:
            gateway = Gateway(service.endpoint, situation.changes)
            used.append(gateway)
            places = {"gateway": gateway.url, "refused": nobody}
            for name, script in (("silent", silent), ("closed", closed)):
                if f"{{{name}}}" in (situation.storage or ""):
                    places[name] = peer(script)
            facts: dict[str, Any] = {
                "endpoint": situation.endpoint.format(**places),
                "project": service.project,
                "access_id": service.access_id,
                "access_key": service.access_key,
                **situation.given,
            }
            if situation.storage is not None:
                facts["tunnel_endpoint"] = situation.storage.format(**places)
            odps = odps_nb.connect(**facts)
            used.append(odps)
            return odps, gateway

        yield connect
        for one in reversed(used):
            one.close()


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.gate(12)
def test_each_situation_gives_the_expected_message(connect_in, service, outputs, name):
    situation = SITUATIONS[name]
    odps, gateway = connect_in(situation)
    with pytest.raises(OdpsNbError) as caught:
        WAYS[situation.do](odps)
    outputs.attempt(lambda: (_ for _ in ()).throw(caught.value))
    error = caught.value
    text = "\n".join([type(error).__name__, str(error), *error.__notes__])
    assert error.hint
    missing = [words for words in situation.says if words not in text]
    assert not missing, text
    wrong = [words for words in situation.never if words in text]
    assert not wrong, text
    outputs.check(service.access_key, service.access_id)
    if situation.requests is not None:
        assert len(gateway.seen) <= situation.requests


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.gate(12)
def test_the_doctor_reports_no_failing_check_as_ok(connect_in, outputs, service, name):
    """Checks that fail in a situation are not ok; all checks end in time and show no secret."""
    situation = SITUATIONS[name]
    odps, _ = connect_in(situation)
    began = time.monotonic()
    checks = {one.name: one for one in examine(odps.profile, seconds=3.0)}
    assert time.monotonic() - began < 60  # long enough for a busy machine
    for check in checks.values():
        outputs.thing(check)
        assert check.ok or check.to_do
    outputs.check(service.access_key)
    if situation.do == "tables":
        assert not (checks["Project"].ok and checks["Tables"].ok)
    elif "Quota" in checks:
        assert not checks["Quota"].ok
    elif situation.storage is not None or situation.given == ONLY_STORAGE:
        assert not checks["Storage API"].ok


def test_connecting_to_a_host_that_drops_packets_times_out(service):
    keys = {"access_id": service.access_id, "access_key": service.access_key}
    options = ClientOptions(connect_timeout=0.3, read_timeout=0.3, deadline=20.0)
    with (
        dropping() as url,
        odps_nb.connect(endpoint=f"{url}/api", project="p", client_options=options, **keys) as odps,
        pytest.raises(OdpsNbError, match=r"the service at .* does not answer") as caught,
    ):
        odps.tables()
    assert "check the endpoint, VPN and firewall" in caught.value.hint
