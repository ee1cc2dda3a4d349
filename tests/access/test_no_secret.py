"""No key, token or password is in any repr, text, pickle, log line or traceback."""

from __future__ import annotations

import logging
import pickle
import traceback
from urllib.parse import urlsplit

import odps as stock_client  # registers how every exception is pickled: with all that led to it
import pyarrow as pa
import pytest
from peers import Line, Peer, refused
from relays import Proxy, TlsFront, server_context

import odps_nb
from odps_nb.access.doctor import examine
from odps_nb.client.attempts import Attempts
from odps_nb.client.progress import silent
from odps_nb.errors import OdpsNbError, StateError, explain

SECRETS = {
    "access_key": "SeCrEt-of-the-access-key",
    "sts_token": "SeCrEt-of-the-sts-token",
    "bearer_token": "SeCrEt-of-the-bearer-token",
    "app_key": "SeCrEt-of-the-application",
    "proxy": "SeCrEt-of-the-proxy",
}
ACCOUNTS = {
    "key": {"access_id": "me", "access_key": SECRETS["access_key"]},
    "sts": {
        "access_id": "me",
        "access_key": SECRETS["access_key"],
        "sts_token": SECRETS["sts_token"],
    },
    "bearer": {"bearer_token": SECRETS["bearer_token"]},
    "application": {
        "access_id": "me",
        "access_key": SECRETS["access_key"],
        "app_id": "app",
        "app_key": SECRETS["app_key"],
    },
    "function": {"credentials": lambda: {"access_id": "me", "access_key": SECRETS["access_key"]}},
    "function that fails": {"credentials": lambda: 1 / len(SECRETS["access_key"][:0])},
    "version 4": {"access_id": "me", "access_key": SECRETS["access_key"], "region": "cn-x"},
}


assert stock_client.__version__


class Told:
    """All that anybody could read: collected, and searched at the end."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.errors = 0

    def thing(self, one: object) -> None:
        """Look at what an object says of itself, and at its pickle if it allows one."""
        self.pieces += [repr(one).encode(), str(one).encode()]
        if (bundle := getattr(one, "_repr_mimebundle_", None)) is not None:
            self.attempt(lambda: self.pieces.append(str(bundle()).encode()))
        try:
            self.pieces.append(pickle.dumps(one))
        except (OdpsNbError, StateError) as error:
            self.pieces.append(repr(error).encode())
        except (TypeError, AttributeError, pickle.PicklingError):
            pass  # holds a lock or a function: Python refuses it, whatever else is in it

    def attempt(self, work) -> None:
        """Do it; look at the error if there is one, and at all that led to it."""
        try:
            self.thing(work())
        except (OdpsNbError, StateError) as error:
            self.errors += 1
            self.thing(error)
            self.pieces += [line.encode() for line in explain(error)]
            self.pieces += [line.encode() for line in traceback.format_exception(error)]

    def check(self, *secrets: str) -> None:
        whole = b"\n".join(self.pieces)
        for secret in (*SECRETS.values(), *secrets):
            place = whole.find(secret.encode())
            assert place < 0, whole[max(0, place - 200) : place + 60]


class Lines(logging.Handler):
    """Keeps every line, with the traceback that belongs to it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name} {self.format(record)}")


@pytest.fixture
def told(caplog, monkeypatch, request):
    monkeypatch.setattr(Attempts, "pause", lambda self, seconds: None)
    caplog.set_level(logging.DEBUG)  # urllib3's own lines are among them
    kept, collected = Lines(), Told()
    logging.getLogger().addHandler(kept)
    yield collected
    logging.getLogger().removeHandler(kept)
    logged = "\n".join(kept.lines)
    assert "urllib3" in logged or "function that fails" in request.node.name
    collected.pieces.append(logged.encode())
    collected.check()


def journeys(told: Told, odps) -> None:
    """Everything that a connection does, whatever comes of it."""
    for thing in (odps, odps.profile, odps.storage, odps.table("orders")):
        told.thing(thing)
    told.attempt(lambda: odps.profile.keys)
    told.attempt(lambda: list(odps.tables("*")))
    told.attempt(lambda: odps.table("orders").schema)
    told.attempt(lambda: odps.table("orders").partitions())
    told.attempt(lambda: odps.table("orders").read(limit=5).to_arrow(progress=silent))
    told.attempt(lambda: odps.table("orders").read().splits)
    told.attempt(lambda: odps.table("nope").write(pa.table({"id": [1]}), progress=silent))
    told.attempt(lambda: odps.sql("select 1 as one", progress=silent))
    told.attempt(lambda: odps.sql("selekt", progress=silent).to_arrow(progress=silent))
    told.attempt(lambda: odps.blob("/wByZWYw").bytes())
    told.attempt(lambda: odps.table("media").blobs("content", limit=1))
    for check in examine(odps.profile):
        told.thing(check)


@pytest.mark.parametrize("account", ACCOUNTS)
def test_of_an_account_that_is_refused(told, service, account):
    with odps_nb.connect(
        endpoint=service.endpoint,
        tunnel_endpoint=service.tunnel_endpoint,
        project=service.project,
        **ACCOUNTS[account],
    ) as odps:
        journeys(told, odps)
    assert told.errors > 5


@pytest.mark.parametrize("region", [None, "cn-x"])
def test_of_an_account_that_is_welcome(told, service, odps, new_name, region):
    with odps_nb.connect(
        endpoint=service.endpoint,
        project=service.project,
        access_id=service.access_id,
        access_key=service.access_key,
        region=region,
    ) as mine:
        journeys(told, mine)
        name = new_name("kept")
        mine.create_table(name, "id bigint, photo blob")
        rows = pa.table({"id": [1], "photo": [b"x" * 9]})
        told.attempt(lambda: mine.table(name).write(rows, progress=silent))
        column = mine.table(name).blobs("photo")
        told.thing(column)
        told.thing(column[0])
        result = mine.sql(f"select * from {name}", progress=silent)
        told.thing(result)
        told.attempt(lambda: result.to_arrow(progress=silent))
        mine.drop_table(name)
    told.check(service.access_key)


def cut(line: Line) -> None:
    line.request()
    line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")


def hang_up(line: Line) -> None:
    line.request()


@pytest.mark.parametrize("script", [cut, hang_up], ids=lambda one: one.__name__)
@pytest.mark.parametrize("account", ["sts", "bearer", "application"])
def test_of_connections_that_break(told, script, account):
    with (
        Peer(script) as peer,
        odps_nb.connect(endpoint=f"{peer.url}/api", project="p", **ACCOUNTS[account]) as odps,
    ):
        told.attempt(lambda: odps.table("t").schema)
        told.attempt(lambda: odps.sql("select 1", progress=silent))
    assert told.errors == 2


@pytest.mark.parametrize("way", ["nobody", "distrust", "proxy", "no proxy"])
@pytest.mark.parametrize("account", ["sts", "bearer", "application"])
def test_of_ways_that_lead_nowhere(told, service, authority, monkeypatch, way, account):
    for name in ("NO_PROXY", "no_proxy", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    parts = urlsplit(service.endpoint)
    with (
        refused() as nobody,
        TlsFront((parts.hostname, parts.port), server_context(authority)) as front,
        Proxy({}, user="somebody:else") as proxy,
    ):
        password = SECRETS["proxy"]
        address = proxy.url if way == "proxy" else nobody
        monkeypatch.setenv("https_proxy", address.replace("://", f"://me:{password}@"))
        endpoint = {"nobody": nobody, "distrust": front.url}.get(way, "https://odps.example")
        with odps_nb.connect(endpoint=f"{endpoint}/api", project="p", **ACCOUNTS[account]) as odps:
            told.attempt(lambda: odps.table("t").schema)
            for check in examine(odps.profile):
                told.thing(check)
    assert told.errors == 1
