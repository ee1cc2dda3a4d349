"""`ClientOptions`: accepted values, their sources, and how they reach other processes."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odps_nb
from odps_nb import ClientOptions, Connection
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import ArgumentError, ConfigError
from odps_nb.spark.tasks.credentials import TaskProfile

KEYS = {"endpoint": "http://127.0.0.1:1/api", "project": "p", "access_id": "a", "access_key": "k"}
OTHER = ClientOptions(
    retries=2, deadline=90, connect_timeout=1.5, read_timeout=np.float32(20), connections=4
)


def test_a_silent_connection_is_retried_within_the_deadline_by_default():
    default = ClientOptions()
    assert default.retries * default.read_timeout < default.deadline
    assert default.work_timeout * 2 <= default.deadline
    with StorageClient(Profile(**KEYS)) as storage:
        policy = storage.attempts("a call").policy
    assert (policy.max_attempts, policy.deadline) == (default.retries + 1, default.deadline)


@pytest.mark.parametrize(
    "options",
    [
        ClientOptions(read_timeout=100, deadline=101),
        ClientOptions(read_timeout=30, deadline=90),
        ClientOptions(read_timeout=0.1, connect_timeout=0.1, deadline=0.5),
        ClientOptions(read_timeout=600, deadline=1800),
    ],
    ids=repr,
)
def test_time_outs_leave_time_for_a_retry_before_the_deadline(options):
    assert options.read_timeout <= options.work_timeout < options.deadline


SECONDS = ("deadline", "connect_timeout", "read_timeout")
NO_SECONDS = [-1, 0, float("nan"), float("inf"), 86_401, "30", True, None]


@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize("value", NO_SECONDS, ids=repr)
def test_an_invalid_number_of_seconds_is_refused(name, value):
    with pytest.raises(ArgumentError, match=f"{name} is .*a number of seconds, above 0") as caught:
        ClientOptions(**{name: value})
    assert caught.value.argument == name
    assert f"{name}=" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("retries", value) for value in (-1, 1.5, True, None, "3")),
        *(("connections", value) for value in (0, float("nan"), False)),
    ],
)
def test_an_invalid_count_is_refused(name, value):
    with pytest.raises(ArgumentError, match=f"{name} is .*a whole number of at least") as caught:
        ClientOptions(**{name: value})
    assert caught.value.argument == name


def test_numpy_numbers_become_plain_numbers():
    made = ClientOptions(retries=np.int64(3), read_timeout=np.float64(7), connections=np.uint8(9))
    assert made == ClientOptions(retries=3, read_timeout=7.0, connections=9)
    assert (type(made.retries), type(made.read_timeout)) == (int, float)


@pytest.mark.parametrize("name", ["read_timeout", "connect_timeout"])
def test_a_deadline_shorter_than_the_time_outs_is_refused_with_a_hint(name):
    with pytest.raises(ArgumentError, match=f"not longer than {name}.*never be retried") as caught:
        ClientOptions(**{name: 60, "deadline": 60})
    assert caught.value.argument == "deadline"
    ClientOptions(**{name: 60, "deadline": 180})  # as the hint suggests
    ClientOptions(**{name: 60, "deadline": 60, "retries": 0})


def test_client_options_are_frozen_and_accept_only_keywords():
    with pytest.raises(dataclasses.FrozenInstanceError):
        OTHER.retries = 5
    with pytest.raises(ArgumentError, match="by keyword"):
        ClientOptions(3)
    assert pickle.loads(pickle.dumps(OTHER)) == OTHER


# -- sources of options ------------------------------------------------------------------------

FILE = """
[work]
endpoint = "http://127.0.0.1:1/api"
project = "p"
access_id = "a"
access_key = "k"
retries = 2
deadline = 90
connect_timeout = 1.5
read_timeout = 20
connections = 4
"""


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    monkeypatch.setenv("ODPS_NB_PROFILES", str(path))
    return path


def test_connect_takes_client_options_from_its_argument_a_profile_or_the_environment(
    profiles, monkeypatch
):
    def options_of(*source: Any, **facts: Any) -> ClientOptions:
        with odps_nb.connect(*source, **facts) as odps:
            return odps._storage.options

    assert options_of(**KEYS) == ClientOptions()
    assert options_of(**KEYS, client_options=OTHER) == OTHER
    assert options_of("work") == OTHER
    assert options_of("work", client_options=ClientOptions()) == ClientOptions()
    assert options_of(Profile(**KEYS), client_options=OTHER) == OTHER
    assert options_of(Profile(**KEYS, client_options=OTHER)) == OTHER
    monkeypatch.setenv("ODPS_READ_TIMEOUT", "7.5")
    monkeypatch.setenv("ODPS_RETRIES", "1")
    assert options_of(**KEYS) == ClientOptions(read_timeout=7.5, retries=1)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ('read_timeout = "soon"', "read_timeout"),
        ("read_timeout = nan", "read_timeout"),
        ("retries = -1", "retries"),
        ("retries = true", "retries"),
        ("read_timeout = 90", "deadline"),
        ("timeout = 3", "timeout"),
    ],
)
def test_an_invalid_option_in_a_profile_raises_an_error_that_names_it(profiles, line, option):
    key = line.split(" ")[0]
    kept = [one for one in FILE.splitlines() if not one.startswith(f"{key} ")]
    profiles.write_text("\n".join([*kept, line]))
    with pytest.raises(ConfigError) as caught:
        Profile.resolve("work")
    assert caught.value.option == option
    assert caught.value.hint


def test_an_invalid_environment_variable_raises_an_error_that_names_it(monkeypatch):
    monkeypatch.setenv("ODPS_RETRIES", "many")
    with pytest.raises(ConfigError, match="retries is 'many'; it must be a number") as caught:
        odps_nb.connect(**KEYS)
    assert caught.value.option == "retries"


@pytest.mark.parametrize("value", [30, {"read_timeout": 30}, "30"], ids=repr)
def test_an_invalid_value_of_client_options_is_refused(value):
    with pytest.raises(ConfigError, match="client_options is a") as caught:
        odps_nb.connect(**KEYS, client_options=value)
    assert "odps_nb.ClientOptions" in caught.value.hint


# -- where they go ----------------------------------------------------------------------------


def test_the_repr_of_a_profile_shows_client_options_that_differ_from_the_defaults():
    profile = Profile(**KEYS, client_options=OTHER)
    assert Profile.from_options(profile.as_options()) == profile
    assert profile.as_settings()["read_timeout"] == "20.0"
    assert "read_timeout=20.0" in repr(profile)
    assert "client_options" not in repr(Profile(**KEYS))
    assert "read_timeout" not in Profile(**KEYS).as_options()


def test_client_options_are_sent_to_tasks(odps: Connection):
    profile = dataclasses.replace(odps.profile, client_options=OTHER)
    with Connection(profile) as connection:
        task = pickle.loads(pickle.dumps(TaskProfile.of(connection._storage)))
        with task.open() as storage:
            assert storage.options == OTHER
        split, *_ = pickle.loads(
            pickle.dumps(connection.table("orders").read(["id"])._split_tasks())
        )
        assert dict(split.settings)["read_timeout"] == "20.0"


def test_a_client_uses_its_own_options_or_those_of_its_profile():
    profile = Profile(**KEYS, client_options=OTHER)
    with StorageClient(profile) as storage:
        assert storage.options == OTHER
    with StorageClient(profile, options=ClientOptions(retries=0)) as storage:
        assert storage.options.retries == 0
