"""A function or a program renews keys in time and only once; keys are never displayed."""

import shlex
import stat
import sys
import threading
import traceback

import pytest

import odps_nb
from odps_nb.client.auth.profile import Profile
from odps_nb.client.auth.renewal import CredentialSource, from_process
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import AccessDeniedError, ConfigError
from odps_nb.wire.calls import GetReadSession, ReadSessionAnswer
from tests.support.clocks import Clock
from tests.support.sockets.scripted import TABLE, Service, fail, give

FOUND = ReadSessionAnswer(session_id="s", splits_count=3)
PLACE = {"endpoint": "http://127.0.0.1:1/api", "project": "p"}
SECRET = "Xs3cretX"


class NumberedKeys:
    """Returns numbered keys with a limited lifetime; can be made to fail."""

    def __init__(self, clock: Clock, life: float | None) -> None:
        self.clock, self.life, self.count, self.broken = clock, life, 0, False

    def __call__(self) -> dict[str, object]:
        self.count += 1
        if self.broken:
            raise RuntimeError(SECRET)
        keys: dict[str, object] = {"access_id": f"id{self.count}", "access_key": SECRET}
        return keys if self.life is None else keys | {"expiration": self.clock.now + self.life}


@pytest.mark.parametrize(
    ("life", "kept", "renewed"), [(3600, 3299, 3301), (60, 29, 31), (None, 59, 61)]
)
def test_keys_are_renewed_before_they_expire(life, kept, renewed):
    clock = Clock()
    numbered = NumberedKeys(clock, life)
    source = CredentialSource(numbered, "a test", clock=clock)
    began = clock.now
    for at, found in ((0, "id1"), (kept, "id1"), (renewed, "id2")):
        clock.now = began + at
        assert source.get()["access_id"] == found


def test_a_failed_renewal_keeps_the_old_keys_while_they_are_valid():
    clock = Clock()
    numbered = NumberedKeys(clock, 3600)
    source = CredentialSource(numbered, "a test", clock=clock)
    began, first = clock.now, source.get()
    numbered.broken = True
    for at in (3400, 3410, 3590):
        clock.now = began + at
        assert source.get() == first
    assert numbered.count == 3  # not at 3410, because half a minute has not passed
    clock.now = began + 3600
    with pytest.raises(ConfigError, match="a test failed: RuntimeError") as caught:
        source.get()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    numbered.broken = False
    assert source.get()["access_id"] == "id5"


def test_many_threads_share_one_renewal():
    numbered = NumberedKeys(Clock(), 3600)
    source = CredentialSource(numbered, "a test", clock=numbered.clock)
    threads = [threading.Thread(target=source.get) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbered.count == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "returned NoneType instead"),
        ({}, "must return access_id"),
        ({"access_id": "me"}, "must return access_id"),
        ({"access_id": "me", "access_key": 5}, "not a string"),
        ({"access_id": " ", "access_key": SECRET}, "must return access_id"),
        ({"access_id": "me", "access_key": SECRET, "expiration": 2e12}, "not in seconds"),
        ({"access_id": "me", "access_key": SECRET, "expiration": float("nan")}, "not in seconds"),
        ({"access_id": "me", "access_key": SECRET, "expiration": "soon"}, "not a time"),
        ({"access_id": "me", "access_key": SECRET, "expiration": 1}, "have already expired"),
        (
            {"access_id": "me", "access_key": SECRET, "expiration": "2001-01-01T00:00:00Z"},
            "have already expired",
        ),
    ],
)
def test_invalid_keys_are_refused_and_not_shown(given, why):
    with pytest.raises(ConfigError, match=why) as caught:
        CredentialSource(lambda: given, "a test").get()
    assert SECRET not in repr(caught.value) + str(caught.value)


def test_the_variable_names_of_alibaba_s_tools_are_accepted():
    given = {
        "AccessKeyId": "me",
        "AccessKeySecret": "key",
        "SecurityToken": "token",
        "Expiration": "2999-01-01T00:00:00Z",
        "Code": "Success",
    }
    keys = CredentialSource(lambda: given, "a test").get()
    assert keys == {"access_id": "me", "access_key": "key", "sts_token": "token"}


# -- programs -----------------------------------------------------------------------------------


def program(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def test_keys_can_come_from_a_program():
    text = '\ufeff{"access_id": "me", "access_key": "k"}\n'  # PowerShell adds the byte order mark
    found = from_process(program(f"import os; os.write(1, {text.encode()!r})"))
    assert found == {"access_id": "me", "access_key": "k"}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/no/such/program --key " + SECRET, "cannot be started"),
        ("", "cannot be started"),
        (f"/bin/echo '{SECRET}", "No closing quotation"),
        (program(f"import sys; print('{SECRET}', file=sys.stderr); sys.exit(3)"), "status 3"),
        (program(f"print('{SECRET}')"), "no JSON object"),
        (program(f"print('[\"{SECRET}\"]')"), "no JSON object"),
        (program(f"print('[\"{SECRET}\",' + '[' * 10**5)"), "no JSON object"),
    ],
)
def test_a_failing_program_is_reported_without_its_output(command, why):
    with pytest.raises(ConfigError, match=why) as caught:
        from_process(command)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_program_runs_without_a_shell(tmp_path):
    with pytest.raises(ConfigError):
        from_process(f"true; touch {tmp_path / 'made'}")
    assert not (tmp_path / "made").exists()


# -- profiles -----------------------------------------------------------------------------------


def test_a_profile_can_name_a_program_that_returns_keys(tmp_path):
    path = tmp_path / "profiles.toml"
    command = program('print(\'{"access_id": "me", "access_key": "k", "sts_token": "t"}\')')
    path.write_text(
        f'[work]\nendpoint = "{PLACE["endpoint"]}"\nproject = "p"\n'
        f"credential_process = '''{command}'''\n"
    )
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    profile = Profile.resolve("work", environ={"ODPS_NB_PROFILES": str(path)})
    keys = profile.keys
    assert (keys.access_id, keys.access_key, keys.sts_token) == ("me", "k", "t")
    assert "credential_process=<hidden>" in repr(profile)
    sent = profile.as_options()
    assert (sent["access_id"], sent["sts_token"]) == ("me", "t")
    assert Profile.from_options(sent).keys == keys


def test_two_sources_of_keys_in_one_profile_are_refused():
    with pytest.raises(ConfigError, match="cannot be combined"):
        Profile(**PLACE, access_id="me", access_key="k", credentials=dict)
    with pytest.raises(ConfigError, match="both an id and a key"):
        Profile(**PLACE, access_id="me", access_key="k", app_id="a")
    shown = repr(Profile(**PLACE, credentials=lambda: {"access_key": SECRET}))
    assert "credentials=<function>" in shown


def test_each_request_is_signed_with_the_current_keys(monkeypatch):
    given, clock = iter(["one", "two", "three"]), Clock()
    monkeypatch.setitem(CredentialSource.__init__.__kwdefaults__, "clock", clock)

    def ask() -> dict[str, object]:
        ends = clock.now + 40  # keys are renewed after half of their lifetime
        return {"access_id": next(given), "access_key": "k", "sts_token": "t", "expiration": ends}

    with Service(GetReadSession=[give(FOUND)]) as service:
        facts = {"endpoint": service.url + "/api", "tunnel_endpoint": service.url, "project": "p"}
        profile = Profile(**facts, credentials=ask, app_id="app", app_key=SECRET)
        with StorageClient(profile) as storage:
            for seconds in (0, 15, 10):
                clock.now += seconds
                storage.call(GetReadSession(table=TABLE, session_id="s"))
        seen = [one.headers for one in service.seen]
    assert [one["authorization"].split(":")[0] for one in seen] == [
        "ODPS one",
        "ODPS one",
        "ODPS two",
    ]
    assert {one["authorization-sts-token"] for one in seen} == {"t"}
    assert all("access_id:app," in one["application-authentication"] for one in seen)


def given_keys(*ids: str):
    """Return keys of each id in turn, and then fail."""
    left = iter(ids)
    return lambda: {"access_id": next(left), "access_key": "k", "sts_token": "t"}


OLD = fail(401, "AuthenticationRequestExpired")


@pytest.mark.parametrize("refusal", [OLD, fail(403, "NoPermission", "the STS token has expired")])
def test_keys_that_the_service_calls_expired_are_renewed_once(refusal):
    with Service(GetReadSession=[refusal, give(FOUND), refusal, give(FOUND)]) as service:
        facts = {"endpoint": service.url + "/api", "tunnel_endpoint": service.url, "project": "p"}
        profile = Profile(**facts, credentials=given_keys("one", "two", "three"))
        with StorageClient(profile) as storage:
            for _ in range(2):
                storage.call(GetReadSession(table=TABLE, session_id="s"))
        seen = [one.headers["authorization"].split(":")[0] for one in service.seen]
    assert seen == ["ODPS one", "ODPS two", "ODPS two", "ODPS three"]


@pytest.mark.parametrize(
    ("ids", "script", "requests", "note"),
    [
        (("one", "one"), [OLD], 1, ""),  # no other keys
        (("one",), [OLD], 1, "new keys could not be fetched"),
        (("one", "two", "three"), [OLD], 2, ""),
        (("one", "two"), [fail(403, "NoPermission")], 1, ""),
    ],
)
def test_a_refusal_is_raised_if_new_keys_cannot_help(ids, script, requests, note):
    with Service(GetReadSession=script) as service:
        facts = {"endpoint": service.url + "/api", "tunnel_endpoint": service.url, "project": "p"}
        profile = Profile(**facts, credentials=given_keys(*ids))
        with StorageClient(profile) as storage, pytest.raises(AccessDeniedError) as caught:
            storage.call(GetReadSession(table=TABLE, session_id="s"))
        assert len(service.seen) == requests
    assert note in " ".join(caught.value.__notes__)


def test_a_connection_accepts_a_function_and_hides_its_keys(service):
    def ask() -> dict[str, str]:
        return {"access_id": service.access_id, "access_key": service.access_key}

    with odps_nb.connect(
        endpoint=service.endpoint, project=service.project, credentials=ask
    ) as odps:
        assert odps.table("orders").read(["id"], limit=3).to_arrow().num_rows == 3
        assert service.access_key not in repr(odps) + repr(odps.profile)
