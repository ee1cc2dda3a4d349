"""No key, token or password appears in any repr, text, pickle, log line or traceback."""

from __future__ import annotations

import logging
import pickle
import re
from dataclasses import replace
from itertools import product
from urllib.parse import urlsplit

import odps as stock_client  # registers a pickle function for every exception
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.access.doctor import examine
from odps_nb.client.auth.profile import Profile
from odps_nb.client.blob.file import open_blob
from odps_nb.client.calls.attempts import Attempts
from odps_nb.client.calls.progress import silent
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import iter_table_names
from odps_nb.client.options import ClientOptions
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.reading import open_read_session
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import OdpsNbError
from odps_nb.terms import BlobReference
from odps_nb.wire.calls import WriteRows
from tests.support.outputs import SECRETS, Lines, Outputs
from tests.support.service.connecting import keys_of
from tests.support.sockets.peers import Line, Peer, refused, sends
from tests.support.sockets.relays import Proxy, TlsFront, server_context

ACCOUNTS = {
    "key": {"access_id": "me", "access_key": SECRETS["access_key"]},
    "sts": {
        "credentials": odps_nb.StsToken("me", SECRETS["access_key"], token=SECRETS["sts_token"])
    },
    "bearer": {"credentials": odps_nb.BearerToken(SECRETS["bearer_token"])},
    "application": {
        "credentials": odps_nb.AccessKey(
            "me", SECRETS["access_key"], app=odps_nb.AccessKey("app", SECRETS["app_key"])
        )
    },
    "function": {"credentials": lambda: {"access_id": "me", "access_key": SECRETS["access_key"]}},
    "function that fails": {"credentials": lambda: 1 / len(SECRETS["access_key"][:0])},
    "version 4": {"access_id": "me", "access_key": SECRETS["access_key"], "region": "cn-x"},
}


assert stock_client.__version__


@pytest.fixture
def outputs(caplog, monkeypatch, request):
    monkeypatch.setattr(Attempts, "pause", lambda self, seconds: None)
    caplog.set_level(logging.DEBUG)  # includes urllib3's log lines
    kept, collected = Lines(), Outputs()
    logging.getLogger().addHandler(kept)
    yield collected
    logging.getLogger().removeHandler(kept)
    logged = "\n".join(kept.lines)
    assert "urllib3" in logged or "function that fails" in request.node.name
    collected.pieces.append(logged.encode())
    collected.check()


def use_all_operations(outputs: Outputs, odps) -> None:
    """Run every operation of a connection, and record results and errors."""
    for thing in (odps, odps.profile, odps._storage, odps.table("orders")):
        outputs.thing(thing)
    outputs.attempt(lambda: odps.profile.keys)
    outputs.attempt(lambda: list(odps.tables("*")))
    outputs.attempt(lambda: odps.table("orders").schema)
    outputs.attempt(lambda: odps.table("orders").partitions())
    outputs.attempt(lambda: odps.table("orders").read(limit=5).to_arrow(progress=silent))
    outputs.attempt(lambda: odps.table("orders").read().splits)
    outputs.attempt(lambda: odps.table("nope").write(pa.table({"id": [1]}), progress=silent))
    outputs.attempt(lambda: odps.sql("select 1 as one", progress=silent))
    outputs.attempt(lambda: odps.sql("selekt", progress=silent).to_arrow(progress=silent))
    outputs.attempt(lambda: odps.blob("/wByZWYw").bytes())
    outputs.attempt(lambda: odps.table("media").blobs("content", limit=1))
    for check in examine(odps.profile):
        outputs.thing(check)


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_secret_of_a_refused_account_is_shown(outputs, service, account):
    with odps_nb.connect(
        endpoint=service.endpoint,
        tunnel_endpoint=service.tunnel_endpoint,
        project=service.project,
        **ACCOUNTS[account],
    ) as odps:
        use_all_operations(outputs, odps)
    assert outputs.errors > 5


@pytest.mark.storage_api("blobs")
@pytest.mark.nightly
@pytest.mark.parametrize("region", [None, "cn-x"])
def test_no_secret_of_an_accepted_account_is_shown(outputs, service, odps, new_name, region):
    with odps_nb.connect(
        **keys_of(service),
        region=region,
    ) as mine:
        use_all_operations(outputs, mine)
        name = new_name("kept")
        mine.create_table(name, "id bigint, photo blob")
        rows = pa.table({"id": [1], "photo": [b"x" * 9]})
        outputs.attempt(lambda: mine.table(name).write(rows, progress=silent))
        column = mine.table(name).blobs("photo")
        outputs.thing(column)
        outputs.thing(column[0])
        result = mine.sql(f"select * from {name}", progress=silent)
        outputs.thing(result)
        outputs.attempt(lambda: result.to_arrow(progress=silent))
        mine.drop_table(name)
    outputs.check(service.access_key)


def hang_up(line: Line) -> None:
    line.request()


@pytest.mark.gate(4)
@pytest.mark.parametrize("way", ["nobody", "distrust", "proxy", "no proxy"])
@pytest.mark.parametrize("account", ["sts", "bearer", "application"])
def test_no_secret_is_shown_if_hosts_cannot_be_reached(
    outputs, service, authority, monkeypatch, way, account
):
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
            outputs.attempt(lambda: odps.table("t").schema)
            for check in examine(odps.profile):
                outputs.thing(check)
    assert outputs.errors == 1


KEY, TOKEN = SECRETS["access_key"], SECRETS["sts_token"]
PLACE = {"endpoint": "http://127.0.0.1:1/api", "project": "p"}
WRONG_SETTINGS = {
    "no project": {"endpoint": PLACE["endpoint"], "access_id": "me", "access_key": KEY},
    "no id": {**PLACE, "access_key": KEY, "sts_token": TOKEN},
    "no endpoint": {"project": "p", "bearer_token": SECRETS["bearer_token"]},
    "keys and a value": {**PLACE, "access_key": KEY, "credentials": odps_nb.BearerToken(TOKEN)},
    "a value with a space": {**PLACE, "credentials": odps_nb.StsToken("me", KEY, TOKEN + " x")},
    "a program that fails": {**PLACE, "credentials": odps_nb.CredentialProcess(f"false {KEY}")},
    "a tuple": {**PLACE, "credentials": ("me", KEY)},
    "half an application": {**PLACE, "access_id": "me", "access_key": KEY, "app_id": "a"},
    "wrong version": {**PLACE, "access_id": "me", "access_key": KEY, "api_version": 9},
    "wrong endpoint": {**PLACE, "endpoint": "h", "access_id": "me", "access_key": KEY},
    "with root": {**PLACE, "root": "/tmp", "access_id": "me", "access_key": KEY},
    "with the service": {"source": "local", "access_id": "me", "access_key": KEY},
    "of no kind": {**PLACE, "source": 7, "access_id": "me", "access_key": KEY},
    "unknown profile": {**PLACE, "source": "nope", "access_key": KEY},
    "pasted with a line break": {**PLACE, "access_id": "me", "access_key": KEY + "\nx"},
    "pasted token": {**PLACE, "access_id": "me", "access_key": KEY, "sts_token": TOKEN + " x"},
    "a key of bytes": {**PLACE, "access_id": "me", "access_key": KEY.encode()},
    "a key in a list": {**PLACE, "access_id": "me", "access_key": [KEY]},
    "a token of bytes": {
        **PLACE,
        "access_id": "me",
        "access_key": KEY,
        "sts_token": TOKEN.encode(),
    },
    "a key in quotes": {**PLACE, "access_id": "me", "access_key": f"'{KEY}'"},
    "a key as the profile": {**PLACE, "source": f"odps://me:{KEY}@p/?endpoint=http://h/api"},
    "an endpoint with a key": {"project": "p", "endpoint": f"http://me:{KEY}@h/api"},
    "a broken endpoint": {"project": "p", "endpoint": f"http://me:{KEY}@[h/api"},
    "no region": {**PLACE, "access_id": "me", "access_key": KEY, "region": "c n"},
    "two kinds of keys": {**PLACE, "access_key": KEY, "credential_process": f"echo {TOKEN}"},
    "process that fails": {**PLACE, "credential_process": f"false {TOKEN}"},
    "process that is not there": {**PLACE, "credential_process": f"/nowhere/{'x'} {TOKEN}"},
    "process with an open quote": {**PLACE, "credential_process": f"echo '{TOKEN}"},
    "process that prints no JSON": {**PLACE, "credential_process": f"echo {TOKEN}"},
    "process that prints a list": {**PLACE, "credential_process": f"echo '[\"{TOKEN}\"]'"},
    "function of a list": {**PLACE, "credentials": lambda: [KEY]},
    "function of half a key": {**PLACE, "credentials": lambda: {"access_key": KEY}},
    "function of no text": {**PLACE, "credentials": lambda: {"access_id": 1, "access_key": KEY}},
    "function of old keys": {
        **PLACE,
        "credentials": lambda: {"access_id": "me", "access_key": KEY, "expiration": 1},
    },
    "function of no time": {
        **PLACE,
        "credentials": lambda: {"access_id": "me", "access_key": KEY, "expiration": KEY},
    },
}


def check_errors_without_secret(collected: Outputs) -> None:
    collected.check()
    assert collected.errors


@pytest.mark.parametrize("settings", WRONG_SETTINGS)
def test_no_secret_is_shown_for_wrong_settings(settings):
    collected = Outputs()
    wrong = WRONG_SETTINGS[settings]
    of_a_file = wrong.keys() & {"sts_token", "bearer_token", "app_id", "credential_process"}
    open_it = Profile.resolve if of_a_file else lambda **given: odps_nb.connect(**given).profile
    collected.attempt(lambda: open_it(**wrong).keys)
    check_errors_without_secret(collected)


def test_no_secret_is_shown_for_wrong_values():
    collected = Outputs()
    for wrong in (
        lambda: odps_nb.AccessKey("", KEY),
        lambda: odps_nb.StsToken(5, key=KEY, token=TOKEN),
        lambda: odps_nb.BearerToken(TOKEN, app=KEY),
        lambda: odps_nb.AccessKey("me", KEY, app=odps_nb.BearerToken(TOKEN)),
        lambda: odps_nb.AccessKey("me", KEY.encode()),
        lambda: odps_nb.AccessKey("me", KEY, app=("you", TOKEN)),
        lambda: pickle.dumps(odps_nb.CredentialProcess(f"echo {KEY}")),
    ):
        collected.attempt(wrong)
    collected.check()
    assert collected.errors == 7
    assert repr(object.__new__(odps_nb.StsToken)) == "StsToken(<hidden>)"  # as seen in a traceback


PROFILE_FILES = {
    "not TOML": f'[work]\naccess_key = "{KEY}',
    "another name": f'[other]\naccess_key = "{KEY}"\n[work2]\nsts_token = "{TOKEN}"',
    "a typing error": f'[work]\nacess_key = "{KEY}"',
    "a wrong type": f'[work]\naccess_key = ["{KEY}"]',
    "half of it": f'[work]\naccess_key = "{KEY}"\nendpoint = "http://h"',
    "spaces": f'[work]\naccess_id = "me"\naccess_key = "{KEY} x"\n'
    'endpoint = "http://h"\nproject = "p"',
}


@pytest.mark.parametrize("text", PROFILE_FILES)
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_no_secret_is_shown_for_wrong_profile_files(tmp_path, monkeypatch, text, mode):
    path = tmp_path / "profiles.toml"
    path.write_text(PROFILE_FILES[text])
    path.chmod(mode)
    monkeypatch.setenv("ODPS_NB_PROFILES", str(path))
    monkeypatch.setenv("ODPS_ACCESS_KEY", SECRETS["app_key"])
    collected = Outputs()
    collected.attempt(lambda: odps_nb.connect("work").profile.keys)
    check_errors_without_secret(collected)


def stay_silent(line: Line) -> None:
    line.request()
    line.peer.release.wait(30)


def respond_with_nonsense(line: Line) -> None:
    while line.request() is not None:
        line.answer(b"\xff\x00 no answer")


def throttle(line: Line) -> None:
    while line.request() is not None:
        line.answer(b'{"Code": "Throttled", "Message": "no"}', 429)


def respond_before_the_body(line: Line) -> None:
    line.head()
    line.answer(b"no", 403, Connection="close")


SCRIPTS = [
    sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx"),
    hang_up,
    stay_silent,
    respond_with_nonsense,
    sends(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello"),
    throttle,
    respond_before_the_body,
    sends(b"SSH-2.0\r\n\r\n"),
]
SIGNING = ["sts", "bearer", "application", "version 4", "function"]
#: All failures with one kind of credentials, and two failures with every other kind.
IN_THE_GATE = {("sts", script) for script in SCRIPTS}
IN_THE_GATE |= {(SIGNING[1 + at // 2], script) for at, script in enumerate(SCRIPTS)}
PAIRS = [
    pytest.param(*pair, marks=() if pair in IN_THE_GATE else pytest.mark.nightly)
    for pair in product(SIGNING, SCRIPTS)
]


@pytest.mark.gate(5)
@pytest.mark.parametrize(("account", "script"), PAIRS)
def test_no_frame_shows_a_secret_whatever_the_server_does(outputs, script, account):
    profile = Profile(
        endpoint="http://h/api", project="p", tunnel_endpoint="http://h", **ACCOUNTS[account]
    )
    with Peer(script) as peer:
        profile = replace(profile, endpoint=f"{peer.url}/api", tunnel_endpoint=peer.url)
        with StorageClient(profile, options=ClientOptions(retries=1, read_timeout=0.2)) as storage:
            table = profile.table("t")
            outputs.attempt(lambda: list(iter_table_names(storage)))
            outputs.attempt(lambda: open_read_session(storage, ReadPlan(table=table)))
            outputs.attempt(lambda: open_write_session(storage, table))
            outputs.attempt(lambda: open_blob(storage, BlobReference("/wByZWYw")))

            def upload() -> None:
                rows = WriteRows(
                    table=table, session_id="s", stream_id="0", stream_version=1, count=1
                )
                with storage.upload(rows) as body:
                    for _ in range(16):  # more than the buffers of both sides hold
                        body.write(b"x" * 10**6)
                    body.finish()

            outputs.attempt(upload)
    assert outputs.errors >= 4


def test_the_verbose_traceback_of_ipython_shows_no_secret(outputs):
    from IPython.core.ultratb import VerboseTB

    with (
        Peer(hang_up) as peer,
        odps_nb.connect(endpoint=f"{peer.url}/api", project="p", **ACCOUNTS["sts"]) as odps,
    ):
        try:
            odps.tables()
        except OdpsNbError as error:
            own = error.__traceback__.tb_next  # a user's traceback has no frame of this test
            text = VerboseTB(include_vars=True).text(type(error), error, own)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert re.search("self ?= ?<Connection", text)  # the traceback shows variables
    outputs.pieces.append(text.encode())
