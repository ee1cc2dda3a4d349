"""The process: start, stop, locks, keys, signatures, and the state after a crash."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import requests

from odps_nb.errors import AccessDeniedError, ConfigError, NotFoundError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.local.service import Service
from odps_nb.terms import IndexSplit
from odps_nb.wire import calls, control
from odps_nb.wire.signing import sign
from tests.support.service.commands import Ended, check_refusal, serve_each
from tests.support.service.peer import Peer


def wait_until_gone(pid: int, seconds: float = 20) -> bool:
    """Wait for a process that is not a child of this one."""
    try:
        psutil.Process(pid).wait(seconds)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def test_only_committed_rows_survive_restarts_and_a_kill(root: Path) -> None:
    with start(root, samples=False) as first:
        peer = Peer(first)
        peer.sql("CREATE TABLE kept (a bigint);")
        peer.write("kept", pa.table({"a": [1, 2]}))
        reading = peer.open_read("kept")
        peer.sql("CREATE TABLE days (day date);")
        peer.write("days", pa.table({"day": [dt.date(2026, 11, 30)]}))
        libraries = {
            part for m in psutil.Process(first.pid).memory_maps() for part in m.path.split("/")
        }
        assert "pyarrow" in libraries
        assert "pandas" not in libraries  # loading it takes half a second
    with start(root, samples=False) as second:
        assert second.access_key == first.access_key
        peer = Peer(second)
        assert peer.read("kept").column("a").to_pylist() == [1, 2]
        assert peer.split("kept", reading.session_id, IndexSplit(0)).num_rows == 2
        session = peer.open_write("kept")
        peer.open_stream("kept", session, "0")
        peer.put("kept", session, "0", pa.table({"a": [3]}))
        os.kill(second.pid, signal.SIGKILL)
    with start(root, samples=False) as third:
        peer = Peer(third)
        assert peer.read("kept").column("a").to_pylist() == [1, 2]
        # an open session still exists: its rows were on disk
        peer.close_stream("kept", session, "0")
        peer.commit("kept", session)
        assert peer.read("kept").column("a").to_pylist() == [1, 2, 3]


@pytest.mark.nightly
def test_a_folder_is_private_and_locked_by_one_process(root: Path) -> None:
    with start(root, samples=False) as first:
        with pytest.raises(ConfigError, match=f"served by another process.*{first.pid}"):
            Service(root)
        assert Peer(first).query("SELECT 1 AS a;").num_rows == 1
        path = root / "access_key.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        assert stat.S_IMODE((root / "catalog.sqlite").stat().st_mode) == 0o600
        assert json.loads(path.read_text()) == {first.access_id: first.access_key}
        assert first.access_key not in repr(first)


def test_a_temporary_folder_is_deleted_with_its_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    service = start(samples=False)
    assert len(list(tmp_path.glob("odps-nb-*"))) == 1
    service.stop()
    service.stop()
    assert not service.is_running
    assert list(tmp_path.glob("odps-nb-*")) == []


def test_the_service_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, sys; from odps_nb.local.server.launch import start; s = start(samples=False);"
        " print(s.pid, flush=True); os._exit(9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=60,
    )
    assert done.returncode == 9
    assert wait_until_gone(int(done.stdout))
    assert list(tmp_path.glob("odps-nb-*")) == []


def catches_term(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    (caught,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def serve(tmp_path: Path, **pipes: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "odps_nb.local.server.serve", "--json", "--no-samples"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(command, text=True, env=env, stderr=subprocess.PIPE, **pipes)  # type: ignore[call-overload,no-any-return]


def test_a_signal_before_the_service_is_ready_ends_the_service(tmp_path: Path) -> None:
    """The pipe is full, so the service is still printing its address when the signal arrives."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 512)
    os.set_blocking(writer, True)
    with serve(tmp_path, stdout=writer) as service:
        os.close(writer)
        while not catches_term(service.pid):
            assert service.poll() is None
            time.sleep(0.005)  # there is no way to know when another process has set its handlers
        service.terminate()
        while os.read(reader, 65536):  # the service writes the rest and exits
            pass
        assert service.wait(60) == 0
        assert service.stderr is not None
        assert service.stderr.read() == ""
    os.close(reader)
    assert list(tmp_path.glob("odps-nb-*")) == []


def test_a_signal_after_the_first_line_of_output_ends_the_service(tmp_path: Path) -> None:
    with serve(tmp_path, stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        assert service.stdout.readline()
        service.terminate()
        assert service.wait(60) == 0
    assert list(tmp_path.glob("odps-nb-*")) == []


WRONG_OPTIONS = {
    "port in use": (("--port", "{port}"), "cannot listen on port"),
    "port of no kind": (("--port", "99999"), "cannot listen on port"),
    "no such form": (("--form", "time_zone=Mars"), "unknown form 'time_zone=Mars'"),
    "no keys": (("--credentials", "no-such-file"), "credentials in no-such-file cannot be read"),
}


@pytest.fixture(scope="module")
def refusals(bare: LocalService) -> dict[str, Ended]:
    port = bare.tunnel_endpoint.rpartition(":")[2]
    given = [[word.format(port=port) for word in words] for words, _ in WRONG_OPTIONS.values()]
    return dict(zip(WRONG_OPTIONS, serve_each(*given), strict=True))


@pytest.mark.parametrize("what", WRONG_OPTIONS)
def test_invalid_options_are_refused_with_a_message(refusals: dict[str, Ended], what: str) -> None:
    check_refusal(refusals[what], WRONG_OPTIONS[what][1])


def test_the_service_listens_on_loopback_only(bare: LocalService) -> None:
    addresses = {
        connection.laddr.ip
        for connection in psutil.Process(bare.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}


def test_a_wrong_key_an_unknown_key_and_no_key_are_distinguished(peer: Peer) -> None:
    request = control.GetProject(project=peer.service.project)
    peer.access_key = "wrong"
    with pytest.raises(AccessDeniedError) as caught:
        peer.ok(request.encode())
    assert caught.value.code == "SignatureNotMatch"
    url = request.encode().url(peer.service.endpoint)
    bare = requests.get(url, timeout=10)
    assert bare.status_code == 401
    assert "<Code>Unauthorized</Code>" in bare.text
    storage = requests.post(
        f"{peer.service.tunnel_endpoint}/api/storage/v2?Action=BlobRead&Target=generic.blob",
        json={},
        timeout=10,
    )
    assert storage.json()["Code"] == "Unauthorized"
    assert storage.json()["RequestId"] == storage.headers["x-odps-request-id"]


def test_a_skewed_clock_is_refused(bare: LocalService) -> None:
    late = Peer(bare, clock=lambda: time.time() - 1000)
    with pytest.raises(AccessDeniedError) as caught:
        late.ok(control.GetProject(project=bare.project).encode())
    assert caught.value.code == "RequestTimeTooSkewed"


def test_a_refused_upload_is_read_to_its_end_and_the_connection_is_kept(peer: Peer) -> None:
    """The rejection of a large upload without permission must be a response, not a broken pipe."""
    for key, expected in (("wrong", AccessDeniedError), (None, NotFoundError)):
        peer.access_key = key
        request = calls.WriteRows(
            table=peer.table("no_such_table"),
            session_id="x",
            stream_id="0",
            stream_version=1,
            count=1,
        )
        with pytest.raises(expected):
            peer.ok(request.encode(), (bytes(65536) for _ in range(200)))
    assert peer.ok(control.GetProject(project=peer.service.project).encode()).ok


def test_an_empty_chunked_body_is_a_body(bare: LocalService) -> None:
    with socket.create_connection(("127.0.0.1", int(bare.tunnel_endpoint.rsplit(":", 1)[1]))) as s:
        head = b"POST /api/storage/v2?Action=x HTTP/1.1\r\nHost: h\r\n"
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        for _ in range(2):
            s.sendall(head + b"0\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += s.recv(65536)
            assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/storage/v9?Action=x", 404),
        ("/api/projects/nope/tables", 404),
        ("/api/nothing/here", 404),
        ("/..%2f..%2fetc/passwd", 404),
        ("/api/projects/local/tables/..%2f..%2fetc", 404),
    ],
)
def test_requests_with_unknown_paths_are_refused_with_an_error_document(
    peer: Peer, path: str, status: int
) -> None:
    endpoint = peer.service.tunnel_endpoint
    headers = sign(
        "GET",
        endpoint + path,
        {},
        endpoint=endpoint,
        credentials=peer.credentials,
        now=time.time(),
    )
    response = requests.get(endpoint + path, headers=headers, timeout=10)
    assert response.status_code == status
    assert response.headers["x-odps-request-id"]
    assert "root:" not in response.text


def test_a_service_accepts_fault_rules_only_with_an_option(peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        peer.ok(calls.WireRequest(method="PUT", path="/misbehaviour", body=b'{"rules": []}'))


def test_many_concurrent_readers_get_complete_responses(peer: Peer) -> None:
    from concurrent.futures import ThreadPoolExecutor

    peer.sql("CREATE TABLE IF NOT EXISTS busy (a bigint);")
    rows = pa.table({"a": pa.array(range(50_000))})
    peer.write("busy", rows, overwrite=True)

    def read(_: int) -> bool:
        return Peer(peer.service).read("busy").equals(rows)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(read, range(32)))


@pytest.mark.nightly
def test_keys_and_tokens_are_read_from_a_file_that_only_the_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text(
        json.dumps(
            {
                "keys": {"me": "my-secret"},
                "sts_tokens": {"me": "temporary"},
                "bearer_tokens": {"bearer": "me"},
            }
        )
    )
    path.chmod(0o644)
    options = ("--credentials", str(path))
    check_refusal(*serve_each(options), "can be read by other users")
    path.chmod(0o600)
    with start(samples=False, options=options) as service:
        request = control.GetProject(project=service.project).encode()
        with pytest.raises(AccessDeniedError):
            Peer(service).ok(request)
        assert Peer(service).ok(request, **{"authorization-sts-token": "temporary"}).ok
        url = request.url(service.endpoint)
        for token, status in (("bearer", 200), ("stranger", 401)):
            answer = requests.get(url, headers={"x-odps-bearer-token": token}, timeout=10)
            assert answer.status_code == status
