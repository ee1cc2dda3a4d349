"""Keys from a keyring are stored as the README describes, found by name, and never displayed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import traceback

import keyring
import pytest
from keyring import errors
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.credentials import SimpleCredential

import odps_nb
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ConfigError

SECRET = "kept-in-the-keyring"
PLACE = {"ODPS_ENDPOINT": "http://127.0.0.1:1/api", "ODPS_PROJECT": "p"}


class MemoryKeyring(KeyringBackend):
    """A keyring in memory; opening it raises ``error`` if set."""

    priority = 1

    def __init__(self, *, finds_any: bool = True, error: Exception | None = None) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.opened = 0
        self._finds_any, self._error = finds_any, error

    def get_password(self, service, username):
        self.opened += 1
        if self._error is not None:
            raise self._error
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password

    def get_credential(self, service, username):
        if username is None and self._finds_any:
            self.opened += 1
            found = [name for place, name in self.kept if place == service]
            return SimpleCredential(found[0], self.kept[service, found[0]]) if found else None
        return super().get_credential(service, username or "")


@pytest.fixture
def use():
    """Set the keyring of this process; restore the previous one afterwards."""
    before = keyring.get_keyring()
    yield lambda backend: keyring.set_keyring(backend) or backend
    keyring.set_keyring(before)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the profile file, which contains no key, so everyone may read it."""

    def write(text: str) -> None:
        path = tmp_path / "profiles.toml"
        path.write_text(text)
        path.chmod(0o644)
        monkeypatch.setenv("ODPS_NB_PROFILES", str(path))

    write("")
    return write


def test_the_recipe_of_the_readme_gives_a_connection(service, write, tmp_path):
    """Use the keyring program, a keyring in a file, and another process that connects by name."""
    write(
        f'[work]\nendpoint = "{service.endpoint}"\nproject = "{service.project}"\n'
        f'access_id = "{service.access_id}"\n'
    )
    env = {
        **os.environ,
        "PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring",
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    command = [sys.executable, "-m", "keyring", "set", "odps_nb:work", service.access_id]
    subprocess.run(command, input=service.access_key, text=True, env=env, check=True, timeout=60)
    program = (
        "import odps_nb\n"
        "with odps_nb.connect('work') as odps:\n"
        "    print(odps.profile, odps.table('orders').read(limit=3, columns=['id']).to_arrow())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], text=True, env=env, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "access_key=<hidden>" in done.stdout
    assert service.access_key not in done.stdout + done.stderr


@pytest.mark.parametrize("finds_any", [True, False])
def test_a_profile_by_name_finds_its_key(use, write, finds_any):
    write(
        '[work]\nendpoint = "http://127.0.0.1:1/api"\nproject = "p"\naccess_id = "me"\n'
        '[other]\nendpoint = "http://127.0.0.1:1/api"\nproject = "p"\naccess_id = "me"\n'
    )
    drawer = use(MemoryKeyring(finds_any=finds_any))
    drawer.set_password("odps_nb:work", "me", SECRET)
    with odps_nb.connect("work") as odps:
        assert odps.profile.keys.access_key == SECRET
        assert SECRET not in repr(odps) + repr(odps.profile) + repr(odps.profile.keys)
    with pytest.raises(ConfigError, match="access_key is missing"):
        odps_nb.connect("other")


def test_without_a_profile_the_keyring_can_provide_the_id(use, write):
    drawer = use(MemoryKeyring())
    drawer.set_password("odps_nb", "me", SECRET)
    profile = Profile.resolve(environ={**os.environ, **PLACE})
    assert (profile.access_id, profile.access_key) == ("me", SECRET)


def test_the_key_of_another_user_is_never_used(use, write):
    drawer = use(MemoryKeyring())
    drawer.set_password("odps_nb", "somebody", SECRET)
    with pytest.raises(ConfigError, match="access_key is missing") as caught:
        Profile.resolve(environ={**os.environ, **PLACE}, access_id="me")
    assert "keyring set" in caught.value.hint


def test_a_key_is_never_used_with_the_id_of_another_user(use, write):
    drawer = use(MemoryKeyring())
    drawer.set_password("odps_nb", "other", SECRET)
    with pytest.raises(ConfigError, match="access_id is missing"):
        Profile.resolve(environ={**os.environ, **PLACE}, access_key="of me")


def test_a_keyring_is_opened_only_when_only_the_key_is_missing(use, write):
    drawer = use(MemoryKeyring(error=errors.KeyringLocked("locked")))
    whole = {**os.environ, **PLACE, "ODPS_ACCESS_ID": "me", "ODPS_ACCESS_KEY": "k"}
    assert Profile.resolve(environ=whole).access_key == "k"
    with pytest.raises(ConfigError, match="endpoint and project are missing"):
        Profile.resolve(access_id="me")
    assert drawer.opened == 0


@pytest.mark.parametrize(
    "error",
    [
        errors.KeyringLocked(SECRET),
        errors.InitError(SECRET),
        errors.KeyringError(SECRET),
        ValueError(SECRET),
        OSError(SECRET),
    ],
)
def test_a_keyring_that_cannot_be_opened_raises_an_error_without_secrets(use, write, caplog, error):
    caplog.set_level(logging.DEBUG)
    use(MemoryKeyring(error=error))
    with pytest.raises(ConfigError, match=f"cannot be opened: {type(error).__name__}") as caught:
        Profile.resolve(environ={**os.environ, **PLACE}, access_id="me")
    assert "unlock" in caught.value.hint
    assert SECRET not in "".join(traceback.format_exception(caught.value)) + caplog.text


class LazyCredential:
    """A credential that is fetched on demand, like keyring's own for the environment."""

    username = "me"

    @property
    def password(self):
        raise ValueError(SECRET)


def test_a_keyring_that_fails_to_return_the_key_raises_an_error_without_secrets(use, write, caplog):
    caplog.set_level(logging.DEBUG)
    use(MemoryKeyring()).get_credential = lambda service, username: LazyCredential()
    with pytest.raises(ConfigError, match="cannot be opened: ValueError") as caught:
        Profile.resolve(environ={**os.environ, **PLACE}, access_id="me")
    assert SECRET not in "".join(traceback.format_exception(caught.value)) + caplog.text


def test_a_missing_keyring_counts_as_a_missing_key(use, write):
    use(NoKeyring())
    with pytest.raises(ConfigError, match="access_key is missing"):
        Profile.resolve(environ={**os.environ, **PLACE}, access_id="me")


def test_without_the_library_no_keyring_is_opened(monkeypatch, write):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match="access_key is missing"):
        Profile.resolve(environ={**os.environ, **PLACE}, access_id="me")
