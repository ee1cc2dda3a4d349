"""Errors name the right host, unreachable hosts get few retries, and keys stay hidden."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.access.service_checks import _fetch_project
from odps_nb.client.auth.profile import Profile
from odps_nb.client.blob.file import open_blob
from odps_nb.client.blob.response import fetch_blob_head
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.options import ClientOptions
from odps_nb.client.read.resume import Opening, ResumableRowStream, TextForm
from odps_nb.client.sql.query import run_sql
from odps_nb.errors import (
    AccessDeniedError,
    ConnectError,
    FramingError,
    NoStorageApiError,
    OdpsNbError,
    QueryError,
    RequestTimeoutError,
    ServerFaultError,
    ServiceError,
    TransportError,
)
from odps_nb.http.hosts import TUNNEL_HINT
from odps_nb.terms import RowRangeSplit, TextMode, Transfer
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.calls import (
    CommitWriteSession,
    CreateReadSession,
    GetReadSession,
    ReadRows,
    WireRequest,
    WriteRows,
    encode_error_json,
    encode_error_xml,
)
from odps_nb.wire.control import InstanceResult, ListTables, SubmittedInstance, TaskResult
from tests.support.sockets.blob_answers import reference
from tests.support.sockets.peers import Line, Peer, dropping, refused, silent
from tests.support.sockets.relays import Proxy
from tests.support.sockets.scripted import TABLE, ControlService

TABLES = WireRequest(method="GET", path="/projects/p/tables")
SESSION = GetReadSession(table=TABLE, session_id="s")
PAGE = b"<!-- x --><!DOCTYPE html>\n<html><head><title>Log in &amp; \x1b go\n on</title></head>"
ACCESS_ID, SECRET = "Id5tAccessIdOfTheTest", "K3y/OfTheTest+WithSigns=="


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextmanager
def client(endpoint: str, tunnel: str | None = None, **facts: Any) -> Iterator[StorageClient]:
    account = {"access_id": ACCESS_ID, "access_key": SECRET, **facts.pop("profile", {})}
    profile = Profile(endpoint=endpoint, tunnel_endpoint=tunnel, project="p", **account)
    facts = {"sleep": lambda _: None, **facts}
    with StorageClient(profile, **facts) as storage:
        yield storage


def script_of(body: bytes, status: int = 200, *, is_service: bool = True, **headers: str):
    """Respond to every request with this body; only the service sends a request id."""
    own = "x-odps-request-id: req-1\r\n" if is_service else ""
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\n{own}{more}Content-Length: {len(body)}\r\n\r\n"

    def script(line: Line) -> None:
        while line.request() is not None:
            line.send(head.encode() + body)

    return script


def failed(call: Callable[[], object]) -> OdpsNbError:
    with pytest.raises(OdpsNbError) as caught:
        call()
    return caught.value


# -- the wait for an unreachable host ------------------------------------------------------------


def attempts_of(start, options: ClientOptions, *, speed: float, answers: bool = False) -> int:
    """Count the attempts at an unreachable host, with a clock ``speed`` times as fast."""
    slept: list[float] = []
    clock = {"monotonic": lambda: time.monotonic() * speed, "sleep": slept.append}
    with start() as url, client(f"{url}/api", options=options, **clock) as storage:
        if answers:
            storage._contacts._answered.add(url.partition("//")[2])
        error = failed(lambda: storage.rest(TABLES))
    assert isinstance(error, TransportError)
    return len(slept) + 1


@pytest.mark.parametrize("start", [dropping, silent])
def test_an_unreachable_host_gets_two_slow_attempts(start):
    """0.1 s count as 4 s, so each attempt takes more than 3 s and counts as slow."""
    options = ClientOptions(connect_timeout=0.1, read_timeout=0.1, retries=3, deadline=300.0)
    assert attempts_of(start, options, speed=40.0) == 2
    assert attempts_of(start, options, speed=40.0, answers=True) == 4
    assert attempts_of(start, options, speed=1.0) == 4


def test_refused_connections_are_retried_quickly():
    assert attempts_of(refused, ClientOptions(), speed=1.0) == 4


DEFAULTS = ClientOptions()


@pytest.mark.parametrize(
    ("options", "working", "streams", "limits"),
    [
        (DEFAULTS, False, False, (5.0, 10.0)),
        (DEFAULTS, True, False, (5.0, 40.0)),
        (DEFAULTS, False, True, (5.0, 30.0)),
        (ClientOptions(connect_timeout=2, read_timeout=4), False, False, (2.0, 4.0)),
        (ClientOptions(connect_timeout=20, read_timeout=60), False, False, (20.0, 60.0)),
        (ClientOptions(connect_timeout=20, read_timeout=60), True, False, (20.0, 150.0)),
    ],
)
def test_time_outs_are_short_until_the_first_response_unless_the_user_chose_longer_ones(
    options, working, streams, limits
):
    with Peer(script_of(b"<x/>")) as peer, client(f"{peer.url}/api", options=options) as storage:
        work = options.work_timeout if working else None

        def now() -> tuple[float, float]:
            contacts = storage._contacts
            return contacts.limits(contacts.host(peer.url), work, streams=streams)

        assert now() == limits
        storage.rest(TABLES)
        assert now() == (options.connect_timeout, work or options.read_timeout)


def test_the_lookup_of_the_storage_host_is_not_repeated_by_the_request_that_needs_it():
    with refused() as url:
        slept: list[float] = []
        with client(f"{url}/api", sleep=slept.append) as storage:
            error = failed(lambda: storage.call(SESSION))
    assert isinstance(error, ConnectError)
    assert len(slept) == 3
    assert [note.split(",")[0] for note in error.notes] == [
        "GET /projects/p/tunnel",
        "TableGetReadSession p.t SessionId=s",
    ]


# -- the storage host ---------------------------------------------------------------------------


@pytest.mark.parametrize("start", [refused, dropping, silent])
def test_an_unreachable_storage_host_is_not_reported_as_the_endpoint(start):
    options = ClientOptions(connect_timeout=0.1, read_timeout=0.1, retries=1, deadline=60.0)
    with (
        Peer(script_of(b"<x/>")) as service,
        start() as url,
        client(f"{service.url}/api", url, options=options) as storage,
    ):
        storage.rest(TABLES)
        error = failed(lambda: storage.call(SESSION))
    place = url.partition("//")[2]
    assert isinstance(error, (ConnectError, RequestTimeoutError))
    assert error.message.startswith(f"the storage host {place} ")
    for said in ("the service responds", place, "VPC", "tunnel_endpoint="):
        assert said in error.hint
    assert "the endpoint" not in error.hint
    assert "read_timeout" not in error.hint


REFUSALS = [
    (400, "InvalidParameter", "quota q is not found"),
    (404, "NoSuchQuota", "the quota does not exist"),
    (403, "NoPermission", "you have no privilege to use this"),
    (400, "NotOpened", "open storage is not enabled for the tenant"),
    (404, "NotFound", "no such path"),
    (400, "Odd", "rejected"),
]


@pytest.mark.parametrize("mode", ["storage", "auto"])
@pytest.mark.parametrize(("status", "code", "message"), REFUSALS)
def test_the_hint_after_a_refusal_by_the_storage_api_names_open_storage_quota_and_vpc(
    status, code, message, mode
):
    """With ``transfer="storage"``, because with ``"auto"`` all services refuse the table."""
    options = ClientOptions(transfer=mode)
    request = CreateReadSession(table=TABLE)
    with (
        Peer(script_of(b"<x/>")) as service,
        Peer(script_of(encode_error_json(code, message, "r"), status)) as rows,
        client(f"{service.url}/api", rows.url, options=options) as storage,
    ):
        storage.rest(TABLES)
        own = failed(lambda: storage.call(request))
        ways = {one: lambda: storage.call(request) for one in (Transfer.STORAGE, Transfer.TUNNEL)}
        error = failed(lambda: storage.transfer.run(ways, what="reading p.t", table=TABLE))
    place = rows.url.partition("//")[2]
    assert own.notes == (f"TableCreateReadSession p.t at the storage host {place}",)
    assert "the control plane works" in own.hint
    for one in (own, error):
        for said in ("quota=", "tunnel_endpoint=", "the VPC", "switch on open storage"):
            assert said in one.hint
    assert "transfer='tunnel'" in own.hint
    if isinstance(error, NoStorageApiError):
        assert ("transfer='tunnel'" in error.hint) is (mode == "storage")


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "NoSuchTable", "Table not found"),
        (403, "NoPermission", "no privilege Select on projects/p/tables/t"),
        (400, "InvalidPartitionSpec", "no"),
        (403, "SignatureNotMatch", "no"),
        (401, "Unauthorized", "no"),
        (400, "Odd", "the request signature does not match"),
        (403, "Odd", "the security token has expired"),
        (429, "FlowExceeded", "quota"),
        (503, "ServiceUnavailable", "quota"),
    ],
)
def test_errors_of_a_request_do_not_suggest_a_missing_storage_api(status, code, message):
    options = ClientOptions(retries=0)
    with (
        Peer(script_of(encode_error_json(code, message, "r"), status)) as rows,
        client("http://127.0.0.1:9/api", rows.url, options=options) as storage,
    ):
        error = failed(lambda: storage.call(CreateReadSession(table=TABLE)))
    assert "open storage" not in str(error.hint)


def test_a_storage_api_that_has_accepted_a_request_is_not_reported_as_missing():
    with (
        Peer(script_of(encode_error_json("Odd", "rejected", "r"), 400)) as rows,
        client("http://127.0.0.1:9/api", rows.url) as storage,
    ):
        storage.transfer.accept(Transfer.STORAGE)
        assert failed(lambda: storage.call(SESSION)).hint is None


# -- the endpoint -------------------------------------------------------------------------------

NOT_HERE = encode_error_json("NoSuchObject", "there is no resource at this path", "r")


@pytest.mark.parametrize("path", ["", "/", "/api"])
@pytest.mark.parametrize(
    ("script", "doubted"),
    [
        (script_of(NOT_HERE, 404), True),
        (script_of(b"<html>not found</html>", 404), True),
        (script_of(PAGE), True),
        (script_of(encode_error_json("NoSuchTable", "no", "r"), 404), False),
        (script_of(encode_error_json("NoPermission", "no", "r"), 403), False),
    ],
)
def test_a_missing_endpoint_path_is_suggested_if_the_server_does_not_know_the_request(
    path, script, doubted
):
    with Peer(script) as peer, client(peer.url + path) as storage:
        error = failed(lambda: storage.rest(TABLES))
    assert ("ends with /api" in error.hint) is (doubted and path != "/api")


def test_a_tunnel_host_given_as_the_endpoint_is_reported(monkeypatch):
    body = encode_error_json("InvalidProjectTable", "not a table", "r")
    with (
        Peer(script_of(body, 400)) as peer,
        Proxy({"dt.cn-x.example": ("127.0.0.1", peer.port)}) as proxy,
        client("http://dt.cn-x.example/api") as storage,
    ):
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        error = failed(lambda: storage.rest(TABLES))
    assert error.hint == TUNNEL_HINT


@pytest.mark.parametrize(("status", "code"), [(400, "InvalidParameter"), (404, "NoSuchQuota")])
def test_the_error_names_an_unknown_quota(status, code):
    body = encode_error_json(code, "not found", "r")
    with (
        Peer(script_of(body, status)) as peer,
        client(f"{peer.url}/api", profile={"quota": "mine"}) as storage,
    ):
        error = failed(lambda: storage.tunnel_endpoint)
    assert "quota='mine'" in error.hint


# -- web pages ----------------------------------------------------------------------------------

ROWS = ReadRows(table=TABLE, session_id="s", split=RowRangeSplit(0, 1))


def _read_rows(storage: StorageClient, schema: pa.Schema | None = None) -> object:
    text = TextForm(TextMode.STRICT, None, lambda row: (str(row), row))
    opening = Opening(request=ROWS, schema=schema)
    return list(ResumableRowStream(storage, lambda _: opening, what="rows", text=text).batches())


def _read_chunks(storage: StorageClient) -> object:
    """Read rows in the checksummed chunks of the tunnel."""
    return _read_rows(storage, pa.schema([("id", pa.int64())]))


def _read_blob(storage: StorageClient) -> object:
    with open_blob(storage, reference(1)) as file:
        return file.read()


def _write(storage: StorageClient) -> object:
    request = WriteRows(table=TABLE, session_id="s", stream_id=0, stream_version=0, count=1)
    with storage.upload(request) as upload:
        return upload.finish()


RESPONSES: dict[str, Callable[[StorageClient], object]] = {
    "control plane": lambda storage: storage.rest(TABLES),
    "storage host": lambda storage: storage.tunnel_endpoint,
    "session": lambda storage: storage.call(SESSION),
    "commit": lambda storage: storage.call(CommitWriteSession(table=TABLE, session_id="s")),
    "query": lambda storage: run_sql(storage, "select 1"),
    "rows": _read_rows,
    "chunks": _read_chunks,
    "blob": _read_blob,
    "header of a blob": lambda storage: fetch_blob_head(storage, reference(1)),
    "upload": _write,
}


@pytest.mark.parametrize("what", RESPONSES)
def test_a_web_page_is_an_error_and_is_not_requested_again(what):
    """Any request that receives a web page raises one error that names the host and the title."""
    is_storage = what not in ("control plane", "storage host", "query")
    with (
        Peer(script_of(PAGE, is_service=False)) as peer,
        client(
            "http://127.0.0.1:9/api" if is_storage else f"{peer.url}/api",
            peer.url if is_storage else None,
        ) as storage,
    ):
        storage.transfer.accept(Transfer.STORAGE)
        error = failed(lambda: RESPONSES[what](storage))
    assert isinstance(error, FramingError)
    host = "the storage host" if is_storage else "the service at"
    assert error.message == (
        f"{host} {peer.url.partition('//')[2]} responded with a web page titled "
        '"Log in & \\x1b go on" instead of a response of MaxCompute'
    )
    assert "login page" in error.hint
    assert len(peer.seen) == 1


def test_a_blob_that_is_a_web_page_is_a_blob():
    with (
        Peer(script_of(encode_blocks(PAGE))) as rows,
        client("http://127.0.0.1:9/api", rows.url) as storage,
    ):
        assert _read_blob(storage) == PAGE


@pytest.mark.parametrize(("status", "sent"), [(403, 1), (404, 1), (502, 3)])
def test_an_error_that_is_a_web_page_names_the_host_and_the_title(status, sent):
    with (
        Peer(script_of(PAGE, status)) as peer,
        client(f"{peer.url}/api", options=ClientOptions(retries=2)) as storage,
    ):
        error = failed(lambda: storage.rest(TABLES))
    assert isinstance(error, ServiceError)
    place = peer.url.partition("//")[2]
    assert error.message == (
        f"the service at {place} responded with HTTP status {status} and a web page titled "
        '"Log in & \\x1b go on"'
    )
    assert len(peer.seen) == sent
    assert ("login page" in error.hint) is not isinstance(error, ServerFaultError)
    assert error.code is None


# -- hidden keys --------------------------------------------------------------------------------

TOKEN = "CAISabcdefghijklmnop/qrstuvwxyz=="
ECHO = f"id {ACCESS_ID}, key {SECRET}, in a URL K3y%2FOfTheTest%2BWithSigns%3D%3D, token {TOKEN}"


def _shown(error: BaseException | None) -> str:
    told = ""
    while isinstance(error, OdpsNbError):
        told += "\n".join([repr(error), *error.__notes__])
        error = error.__cause__
    return told


#: Each way in which text of the server becomes an error, with the status of its response.
WAYS: dict[str, tuple[Callable[[StorageClient], object], int]] = {
    "refused document": (lambda storage: storage.rest(TABLES), 400),
    "refused session": (lambda storage: storage.call(SESSION), 403),
    "document with an error": (lambda storage: storage.call(SESSION), 200),
    "refused rows": (_read_rows, 404),
    "rows with an error": (_read_rows, 200),
    "chunks with an error": (_read_chunks, 200),
    "refused blob": (_read_blob, 404),
    "refused query": (lambda storage: run_sql(storage, "select 1"), 400),
    "refused upload": (_write, 400),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_page", [False, True])
def test_no_error_shows_a_key_that_the_server_repeats(way, is_page):
    command, status = WAYS[way]
    body = encode_error_json("Odd", f"{ECHO} (to do: use {SECRET})", "r")
    if is_page:
        body = f"<html><title>{ECHO}</title>".encode()
    account = {"sts_token": TOKEN}
    with (
        Peer(script_of(body, status)) as peer,
        client(f"{peer.url}/api", peer.url, profile=account) as storage,
    ):
        told = _shown(failed(lambda: command(storage)))
    for secret in (ACCESS_ID, SECRET, TOKEN, "K3y%2F"):
        assert secret not in told
    assert "id Id5t…, key <hidden>, in a URL <hidden>, " in told


@pytest.mark.parametrize(
    "command",
    [
        lambda storage: storage.control(ListTables(project="p")),
        lambda storage: storage.call(SESSION),
        lambda storage: storage.tunnel_endpoint,
        _fetch_project,
    ],
)
def test_an_error_quotes_the_start_of_another_document_without_keys(command):
    body = f"Forbidden: {SECRET}".encode()
    with Peer(script_of(body)) as peer, client(f"{peer.url}/api") as storage:
        told = _shown(failed(lambda: command(storage)))
    assert "Forbidden: <hidden>" in told
    assert SECRET not in told


@pytest.mark.parametrize("is_declared", [True, False])
def test_an_error_document_with_a_success_status_is_an_error_of_the_service(is_declared):
    body = encode_error_xml("NoPermission", "not allowed", "r")
    body = body if is_declared else body[body.index(b"<Error") :]
    with Peer(script_of(body)) as peer, client(f"{peer.url}/api") as storage:
        for command in (
            lambda: storage.control(ListTables(project="p")),
            lambda: storage.tunnel_endpoint,
            lambda: run_sql(storage, "select 1"),
        ):
            error = failed(command)
            assert (type(error), error.message) == (AccessDeniedError, "not allowed")


@pytest.mark.parametrize("status", [405, 408, 411, 413, 431, 451])
def test_an_error_without_a_document_is_explained(status):
    with Peer(script_of(b"", status)) as peer, client(f"{peer.url}/api") as storage:
        assert (
            "a proxy or another server may have responded"
            in failed(lambda: storage.rest(TABLES)).hint
        )


@pytest.mark.parametrize(
    "greeting", [b"SSH-2.0-x\r\n", b"220 mail\r\n", b"HTTP/2 200\r\n\r\n", b"\x15\x03\x01\x00\x02"]
)
def test_the_error_names_a_server_that_does_not_speak_http(greeting):
    def script(line: Line) -> None:
        line.request()
        line.send(greeting)

    with Peer(script) as peer, client(f"{peer.url}/api") as storage:
        error = failed(lambda: storage.rest(TABLES))
    assert "is not HTTP/1" in error.message
    assert (
        error.hint
        == "check the port and the scheme (http or https) of the endpoint, and the proxies"
    )


def test_no_failed_query_shows_a_key():
    result = InstanceResult(
        tasks=(TaskResult(name="AnonymousSQLTask", status="Failed", text=ECHO),)
    )
    body, headers = SubmittedInstance(instance_id="i1", result=result).encode(location="http://x/i")
    with (
        ControlService(SubmitSql=[lambda line, _: line.answer(body, 201, **headers)]) as service,
        service.client(profile={}) as old,
        client(old.profile.endpoint) as storage,
    ):
        error = failed(lambda: run_sql(storage, "select 1"))
    assert isinstance(error, QueryError)
    assert "id Id5t…, key <hidden>" in error.message
    assert SECRET not in _shown(error)


@pytest.mark.parametrize("cut", [9, 20])
def test_a_truncated_key_is_hidden(cut):
    body = b"x" * (4000 - cut) + SECRET.encode() * 2
    with Peer(script_of(body, 400)) as peer, client(f"{peer.url}/api") as storage:
        error = failed(lambda: storage.rest(TABLES))
    assert error.message.endswith("x<hidden>…")


def test_a_secret_given_as_the_id_is_not_shown_in_full():
    swapped = {"access_id": SECRET, "access_key": ACCESS_ID}
    body = encode_error_json("InvalidAccessKeyId", f"the access id '{SECRET}' is unknown", "r")
    with Peer(script_of(body, 403)) as peer, client(peer.url, profile=swapped) as storage:
        error = failed(lambda: storage.rest(TABLES))
    assert isinstance(error, AccessDeniedError)
    assert error.message == "the access id 'K3y/…' is unknown"
