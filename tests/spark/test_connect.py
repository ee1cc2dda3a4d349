"""Spark Connect: the same calls through a server, which listens on loopback and logs no key."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import odps_nb.spark
from odps_nb.errors import ConfigError, ConnectError, MissingDependencyError
from odps_nb.spark.launch import connect
from tests.spark.connect_job import LASTS
from tests.spark.connect_stops import GONE_WITHIN

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

PORT = str(connect.PORT)

# The first test waits for the job, which reports where it hangs.
pytestmark = pytest.mark.timeout(LASTS + 120)


@pytest.fixture(scope="module")
def observations(odps: Connection, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The observations of a process that starts a server, and of a process that connects to it."""
    log = tmp_path_factory.mktemp("connect-log")
    given = odps.profile.as_options()
    given.pop("name", None)
    document = {
        "connection": {**given, "api_version": odps.profile.api_version},
        "log": str(log),
        "table": f"connected_{log.name.replace('-', '_')}",
    }
    said = tmp_path_factory.mktemp("connect-said") / "stderr"  # the threads of a job that hangs
    with said.open("w") as stderr:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.spark.connect_job"],
            input=json.dumps(document),  # an argument would show the key to every process
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=LASTS + 60,
        )
    assert done.returncode == 0, said.read_text()[-100_000:] + done.stdout[-200_000:]
    logged = [path.read_text() for path in log.rglob("*") if path.is_file()]
    return {**json.loads(done.stdout.splitlines()[-1]), "log": "\n".join(logged)}


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("who", ["own", "client"])
def test_every_function_works_through_a_connect_server(
    observations: dict[str, Any], odps: Connection, who: str
) -> None:
    """The client has no Java, and its address comes from SPARK_REMOTE."""
    seen = observations[who]
    assert seen["kind"] == "pyspark.sql.connect.session"
    assert seen["written"] == 1000
    assert seen["read"] == seen["loaded"] == [2000, 1000]
    assert seen["known"] == 2000
    assert seen["seen"] == 20
    media = odps.table("media").read(columns=["name", "content"], limit=3).to_arrow().to_pylist()
    assert seen["blobs"] == {
        row["name"]: hashlib.sha256(odps.blob(row["content"]).bytes()).hexdigest() for row in media
    }


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_a_local_connect_server_listens_on_loopback_only(observations: dict[str, Any]) -> None:
    assert observations["listening"][PORT] is True


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_settings_are_applied_to_the_session_and_an_active_session_is_reused(
    observations: dict[str, Any],
) -> None:
    assert observations["zone"]
    assert observations["client"]["shuffles"] == "3"
    assert observations["again"] is True


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_only_refused_settings_of_the_user_are_reported(observations: dict[str, Any]) -> None:
    named = ("spark.driver.memory", "spark.eventLog.enabled", "spark.eventLog.compress")
    expected = {f"Failed to set {name}" for name in (*named, "spark.eventLog.dir")}
    assert set(observations["refused"]) == expected


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_errors_are_restored_with_their_types(observations: dict[str, Any]) -> None:
    kinds = {what: kind for what, (kind, _, _) in observations["failures"].items()}
    assert kinds == {
        "columns": "ConversionError",
        "values": "ConversionError",
        "table": "NotFoundError",
        "overwrite": "ArgumentError",
    }
    for _, message, hint in observations["failures"].values():
        assert "SQLSTATE" not in message + hint
        assert "java" not in (message + hint).lower()


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_no_key_is_in_the_log_of_the_server(observations: dict[str, Any], odps: Connection) -> None:
    # The log must contain plans, including those with options; otherwise this test could not fail.
    assert "SparkListenerConnectOperationStarted" in observations["log"]
    assert "redacted" in observations["log"]
    assert str(odps.profile.access_key) not in observations["log"]
    assert str(odps.profile.access_id) not in observations["log"]


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_an_interrupt_or_a_cancel_ends_the_reads_of_the_tasks(observations: dict[str, Any]) -> None:
    errors = {
        what: seen["error"] for what, seen in observations["stopped"].items() if "error" in seen
    }
    assert errors == {
        "action": "KeyboardInterrupt",
        "query": "CancelledError",
        "connection": "CancelledError",
        "write": "KeyboardInterrupt",
    }
    # The service would have stalled for ten minutes, and the test waited until the connections were
    # closed.
    assert all(
        seen["took"] < GONE_WITHIN for seen in observations["stopped"].values() if "took" in seen
    )


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_an_interrupted_write_is_aborted(observations: dict[str, Any]) -> None:
    seen = observations["stopped"]["write"]
    assert (seen["phase"], seen["status"]) == ("cancelled", "ABORTED")


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_a_write_shows_the_number_of_finished_tasks(observations: dict[str, Any]) -> None:
    seen = observations["stopped"]["tasks"]
    done, total = seen["seen"]
    assert 0 < done < total
    assert seen["end"] == [total, total, 300]
    assert (seen["phase"], seen["rows"]) == ("done", 300)


# -- errors before a server is contacted --------------------------------------------------------


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that no Spark session runs, although other tests may have started one."""
    monkeypatch.setattr("odps_nb.spark.launch.session_factory._running", lambda: None)


@pytest.mark.usefixtures("alone")
def test_a_missing_server_is_reported_immediately_without_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound but not listening, so connections are refused
        port = held.getsockname()[1]
        monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{port}/;token=very-secret")
        with pytest.raises(ConnectError, match=f"listens on 127.0.0.1:{port}") as caught:
            odps_nb.spark.session()
    assert "very-secret" not in f"{caught.value!r}{caught.value}{caught.value.hint}"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "remote",
    ["http://x/?token=very-secret", "sc://", "sc://x:port/;token=s", "localhost:15002"],
)
def test_an_invalid_address_is_refused(remote: str) -> None:
    with pytest.raises(ConfigError, match="is not the address") as caught:
        odps_nb.spark.session(remote=remote)
    assert "secret" not in f"{caught.value!r}"


@pytest.mark.usefixtures("alone")
def test_the_address_of_a_server_is_not_a_master() -> None:
    with pytest.raises(ConfigError, match="master is the address") as caught:
        odps_nb.spark.session("sc://x/;token=very-secret")
    assert "remote=" in str(caught.value.hint)
    assert "secret" not in f"{caught.value!r}"


@pytest.mark.usefixtures("alone")
def test_a_master_and_a_remote_cannot_be_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="both master and remote"):
        odps_nb.spark.session("local[2]", remote="sc://x")
    monkeypatch.setenv("SPARK_REMOTE", "sc://x")
    with pytest.raises(ConfigError, match="both master and remote") as caught:
        odps_nb.spark.session("local[2]")
    assert "unset SPARK_REMOTE" in str(caught.value.hint)


@pytest.mark.usefixtures("alone")
def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(MissingDependencyError, match="needs grpc") as caught:
        odps_nb.spark.session(remote="local[2]")
    assert caught.value.extra == "connect"
    assert "odps-nb[connect]" in str(caught.value.hint)


def test_a_port_in_use_is_reported_before_java_starts() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        with pytest.raises(ConfigError, match="is in use"):
            connect.check_free(held.getsockname()[1])
