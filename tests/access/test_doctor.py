"""Every check of the doctor reports its result, and every problem has a hint."""

import functools
import json
import re
import socket
import time
from importlib import metadata

import pytest

from odps_nb.access import doctor, java
from odps_nb.access.doctor import Check
from odps_nb.access.service_checks import _clock
from odps_nb.cli import main
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.options import ClientOptions
from odps_nb.client.transfer import SWITCH_ON
from odps_nb.errors import ConfigError
from odps_nb.wire import crc32c
from odps_nb.wire.calls import WireRequest

examine = functools.partial(doctor.examine, seconds=90)  # seconds allowed on a busy machine


def by_name(checks) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_all_checks_of_a_working_account_are_ok(profile):
    checks = by_name(examine(profile))
    expected = {"Python", "Libraries", "Checksums", "Java", "Spark", "Notebook"}
    expected |= {
        "Embedded service",
        "Keyring",
        "Profile",
        "Project",
        "Clock",
        "Time zone",
        "Tables",
        "SQL",
        "Storage API",
        "Storage API v1",
        "Tunnel",
        "Rows",
    }
    assert checks.keys() == expected
    wrong = [check for check in checks.values() if check.verdict == "bad"]
    assert wrong == []
    assert profile.access_key not in str(checks)
    for name in ("Project", "Clock", "Time zone", "Tables", "SQL", "Tunnel", "Rows", "Profile"):
        assert checks[name].ok
    assert checks["Project"].found == f"{profile.project} responds at {profile.endpoint}"
    assert checks["Time zone"].found == "UTC, in the project and in this connection"
    assert re.fullmatch(r"select 1 as one returned its row in \d+\.\d s", checks["SQL"].found)


# -- the services that transfer rows ----------------------------------------------------------

NAMES = ("Storage API", "Storage API v1", "Tunnel", "Rows")


@pytest.fixture
def account(service_pool):
    """Return a function that returns the profile of an account with these transfer services."""

    def with_services(names: str, refusal: str = "not-found", **more) -> Profile:
        options = ("--services", names, "--form", f"refusal={refusal}")
        service = service_pool.get(options=options, samples=more.pop("samples", True))
        facts = {name: getattr(service, name) for name in ("endpoint", "project")}
        keys = {name: getattr(service, name) for name in ("access_id", "access_key")}
        return Profile(**facts, **keys, **more)

    return with_services


def transfers(profile: Profile) -> list[Check]:
    checks = by_name(examine(profile))
    assert "SeCrEt" not in str(checks)
    assert profile.access_key not in str(checks)
    return [checks[name] for name in NAMES]


def test_each_check_shows_the_response_of_its_service(account):
    storage, version_1, tunnel, rows = transfers(account("storage,storage-v1,tunnel"))
    for check in (storage, version_1):
        assert (check.verdict, check.to_do) == ("ok", "")
        assert check.found == "a read session of local.types_all, 8 rows"
    assert tunnel.found == "a download session of local.types_all, 8 rows"
    assert rows.found == "a new connection transfers rows by the Storage API"


@pytest.mark.parametrize("refusal", ["not-found", "no-permission", "quota", "no-path", "region"])
@pytest.mark.gate(2)
def test_the_check_of_a_missing_storage_api_says_how_to_enable_it(account, refusal):
    storage, version_1, tunnel, rows = transfers(account("tunnel", refusal))
    assert [storage.verdict, version_1.verdict] == ["optional", "optional"]
    assert re.search(r"HTTP 40[034] · request id \w+", storage.found)
    assert "code " in storage.found or refusal == "no-path"
    assert SWITCH_ON in storage.to_do
    assert version_1.to_do == "ignore this while the tunnel works"
    assert (tunnel.verdict, rows.verdict) == ("ok", "ok")
    assert rows.found == "a new connection transfers rows by the tunnel"


def test_version_1_is_used_if_only_the_newer_storage_api_is_missing(account):
    storage, version_1, _, rows = transfers(account("storage-v1,tunnel"))
    assert (storage.verdict, version_1.verdict) == ("optional", "ok")
    assert rows.found == "a new connection transfers rows by the Storage API v1"


def test_the_check_of_a_missing_chosen_service_suggests_another_service(account):
    options = ClientOptions(transfer="storage")
    checks = transfers(account("tunnel", client_options=options))
    assert [check.verdict for check in checks] == ["optional", "optional", "ok", "bad"]
    assert checks[-1].found == (
        "a new connection cannot transfer rows: it uses the Storage API, because of "
        "transfer='storage'"
    )
    assert checks[-1].to_do == "connect with transfer='auto'"
    chosen = ClientOptions(transfer="tunnel")
    rows = transfers(account("tunnel", client_options=chosen))[-1]
    assert rows.found.endswith("by the tunnel, because of transfer='tunnel'")


@pytest.fixture(scope="module")
def faulty(_private_home):
    """A service that refuses requests by rules, and a function that sets the rules."""
    from odps_nb.local.server.launch import start

    with start(options=("--misbehave", "--services", "storage,storage-v1,tunnel")) as service:
        facts = ("endpoint", "project", "access_id", "access_key")
        profile = Profile(**{name: getattr(service, name) for name in facts})
        with StorageClient(profile) as storage:

            def refuse(status: int, *actions: str) -> None:
                rule = {"fault": "status", "status": status, "times": 0}
                rules = [{"action": action, **rule} for action in actions]
                body = json.dumps({"rules": rules}).encode()
                storage.rest(WireRequest(method="PUT", path="/misbehaviour", body=body))

            yield profile, refuse


READ, V1, TUNNEL = "TableCreateReadSession", "/api/storage/v1", "/projects"


def test_without_any_service_all_checks_are_bad_with_a_hint(faulty):
    profile, refuse = faulty
    refuse(405, READ, V1, TUNNEL)
    checks = transfers(profile)
    assert [check.verdict for check in checks] == ["bad"] * 4
    assert checks[0].to_do == SWITCH_ON
    for check in checks[:3]:
        assert "HTTP 405 · request id MISBEHAVIOUR" in check.found
        assert check.to_do
    assert checks[3].found == "no service transfers rows"


def test_a_storage_api_that_fails_is_not_reported_as_missing(faulty):
    profile, refuse = faulty
    refuse(503, READ, V1)
    checks = transfers(profile)
    assert [check.verdict for check in checks] == ["optional", "optional", "ok", "bad"]
    assert SWITCH_ON not in checks[0].to_do
    assert checks[3].to_do == "connect with transfer='tunnel'"


def test_the_checks_send_at_most_three_requests_to_each_service(faulty):
    profile, refuse = faulty
    refuse(400, READ, V1, TUNNEL)
    transfers(profile)
    with StorageClient(profile) as storage:
        _, body = storage.rest(WireRequest(method="GET", path="/misbehaviour"))
    assert all(1 <= rule["injected"] <= 3 for rule in json.loads(body)["rules"])


def test_for_a_project_without_tables_the_report_says_that_no_read_was_checked(account):
    profile = account("tunnel", samples=False)
    checks = by_name(examine(profile))
    assert checks.keys().isdisjoint(NAMES[:3])
    assert checks["Rows"].verdict == "optional"
    assert checks["Rows"].found.startswith("no table was found with which")
    assert checks["Rows"].to_do == "create a table, and run the check again"


def test_every_failed_check_says_what_to_do(profile):
    for check in examine("no_such_profile"):
        assert check.ok or check.to_do


def test_an_endpoint_without_a_server_is_diagnosed():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    unreachable = Profile(
        endpoint=f"http://127.0.0.1:{port}/api", project="p", access_id="i", access_key="kkk"
    )
    checks = by_name(examine(unreachable))
    assert checks["Project"].verdict == "bad"
    assert checks["Project"].to_do
    assert "attempts" not in checks["Project"].found
    assert "Tables" not in checks
    assert "Project" not in by_name(examine(unreachable, online=False))


def test_java_is_optional(monkeypatch, tmp_path):
    monkeypatch.setattr(java, "JVM_FOLDER", tmp_path / "none")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = by_name(examine(online=False))["Java"]
    assert (check.verdict, "no Java was found" in check.found) == ("optional", True)
    assert "only Spark needs it" in check.to_do
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    check = by_name(examine(online=False))["Java"]
    assert (check.verdict, "Java 8 in" in check.found) == ("optional", True)


def test_a_missing_library_is_reported_as_bad(monkeypatch):
    version = metadata.version

    def without_lz4(package: str) -> str:
        if package == "lz4":
            raise metadata.PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(metadata, "version", without_lz4)
    check = by_name(examine(online=False))["Libraries"]
    assert (check.verdict, check.to_do) == ("bad", "pip install lz4")
    assert "pyarrow" in check.found
    assert "lz4" not in check.found


def test_a_wrong_crc32c_is_reported_as_bad(monkeypatch):
    right = crc32c.crc32c
    monkeypatch.setattr(crc32c, "crc32c", lambda data, *more: right(data, *more) ^ 1)
    check = by_name(examine(online=False))["Checksums"]
    assert check.verdict == "bad"
    assert check.found.endswith(": wrong")
    assert "--force-reinstall crc32c" in check.to_do


def test_the_connection_in_use_is_examined_and_its_failure_is_a_check(profile):
    checks = by_name(examine(lambda: profile))
    assert checks["Project"].ok

    def without_connection() -> Profile:
        raise ConfigError("no connection", option="connect", hint="run %odps connect")

    checks = by_name(examine(without_connection))
    assert (checks["Profile"].verdict, checks["Profile"].to_do) == ("bad", "run %odps connect")
    assert "Project" not in checks


def test_a_missing_profile_is_an_error_only_if_its_name_was_given():
    assert by_name(examine(online=False))["Profile"].verdict == "optional"
    assert by_name(examine("nope", online=False))["Profile"].verdict == "bad"


def test_a_wrong_clock_is_detected_even_if_the_service_refuses_requests(profile, monkeypatch):
    from odps_nb.client.calls.storage import StorageClient

    defaults = StorageClient.__init__.__kwdefaults__
    for ahead, name in ((400.0, "Clock"), (4000.0, "Project")):
        monkeypatch.setitem(defaults, "clock", lambda ahead=ahead: time.time() + ahead)
        check = by_name(examine(profile))[name]
        assert check.verdict == "bad"
        assert "this machine's clock" in check.to_do


@pytest.mark.parametrize(
    ("date", "verdict"),
    [
        ("", "optional"),
        ("soon", "optional"),
        ("Mon, 01 Jan 2024 00:00:00 +0000" + "9" * 20, "optional"),
        ("Mon, 01 Jan 2024 00:00:00 GMT", "bad"),
        ("Mon, 01 Jan 2024 00:00:00 -0000", "bad"),
    ],
)
def test_any_date_header_gives_a_result(date, verdict):
    check = _clock(date, time.time())
    assert (check.verdict, bool(check.to_do)) == (verdict, True)


def test_the_command_doctor_suggests_fixes_and_exits_with_1(profile, monkeypatch, capsys):
    monkeypatch.setenv("ODPS_ENDPOINT", profile.endpoint)
    monkeypatch.setenv("ODPS_PROJECT", "nope")
    monkeypatch.setenv("ODPS_ACCESS_ID", profile.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", profile.access_key)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "!! Project: NotFoundError" in text
    assert "check the project name" in text
    assert text.endswith("1 check failed\n")
    assert profile.access_key not in text
    monkeypatch.setenv("ODPS_PROJECT", profile.project)
    assert main(["doctor"]) == 0
    assert "!!" not in capsys.readouterr().out


def test_the_suggested_extra_contains_the_missing_package(monkeypatch):
    installed = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if "ipy" in name else installed(name))
    check = by_name(examine(online=False))["Notebook"]
    missing, _ = check.found.split(" not installed")
    lines = (line.replace("'", '"') for line in metadata.requires("odps-nb") or [])
    brought = [line for line in lines if 'extra == "notebook"' in line]
    assert all(any(line.startswith(one) for line in brought) for one in missing.split(", "))


def test_the_check_names_a_broken_kernel(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: "7.4.0")
    check = by_name(examine(online=False))["Notebook"]
    assert (check.verdict, "ipykernel 7.4.0" in check.found) == ("bad", True)
    assert "!=7.4.0" in check.to_do
