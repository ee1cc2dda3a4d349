"""The keyring recipe of keys-and-profiles.md works in an empty home, and without a keyring."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = "docs/howto/keys-and-profiles.md"
KEY = "kept-in-the-keyring"
ASK = """
import odps_nb
odps = odps_nb.connect("work")
print(odps.profile.access_id, odps.profile.project, odps.profile.access_key is not None, odps)
with odps:
    print(odps.tables("ord*"))
"""


@pytest.fixture
def home_env(tmp_path: Path) -> dict[str, str]:
    """An environment with an empty home and the commands of this installation."""
    kept = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    commands = str(Path(sys.executable).parent)
    home = tmp_path / "home"
    home.mkdir()
    env["PATH"] = f"{commands}{os.pathsep}{env.get('PATH', os.defpath)}"
    return {**env, "HOME": str(home), "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}


@pytest.fixture
def recipe(repo: Path, service) -> str:
    """The commands on the page, except the installation, with the values of the service."""
    text = (repo / PAGE).read_text("utf-8")
    (block,) = re.findall(r"```\n(pip install \"odps-nb\[keyring\]\"\n.*?)```", text, re.DOTALL)
    install, *lines = block.splitlines()
    assert install == 'pip install "odps-nb[keyring]"'
    commands = "\n".join(lines)
    for said, ours in (
        ("https://…/api", service.endpoint),
        ("LTAI…", service.access_id),
        ('"sales"', f'"{service.project}"'),
    ):
        assert said in commands
        commands = commands.replace(said, ours)
    return f"set -e\n{commands}\n"


def run(command: list[str], env: dict[str, str], said: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        command, env=env, cwd=env["HOME"], input=said, capture_output=True, text=True, check=False
    )


def test_the_keyring_recipe_works_in_an_empty_home(recipe, service, home_env):
    env = {**home_env, "PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"}
    done = run(["bash", "-c", recipe], env, f"{service.access_key}\n")
    assert done.returncode == 0, done.stderr
    asked = run([sys.executable, "-c", ASK], env)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith(f"{service.access_id} {service.project} True ")
    assert "['orders']" in asked.stdout
    assert service.access_key not in done.stdout + done.stderr + asked.stdout + asked.stderr
    profiles = Path(env["HOME"], ".config", "odps_nb", "profiles.toml")
    assert service.access_key not in profiles.read_text("utf-8")
    assert profiles.stat().st_mode & 0o077 == 0


def test_the_command_and_the_error_report_a_missing_keyring(recipe, service, home_env, repo):
    env = {**home_env, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    done = run(["bash", "-c", recipe], env, f"{KEY}\n")
    assert done.returncode != 0
    assert "NoKeyringError" in done.stderr
    assert "NoKeyringError" in (repo / PAGE).read_text("utf-8")
    result = run([sys.executable, "-c", ASK], env)
    assert "ConfigError" in result.stderr
    assert "access_key" in result.stderr


@pytest.mark.nightly  # starts a process; in `make test`, tests/client/auth reads profiles
def test_a_profile_that_contains_the_key_works_without_a_keyring(recipe, service, home_env):
    """Follow the page's instructions for a machine without a keyring service."""
    without = "\n".join(line for line in recipe.splitlines() if not line.startswith("keyring "))
    line = f"echo 'access_key = \"{service.access_key}\"' >> ~/.config/odps_nb/profiles.toml"
    done = run(["bash", "-c", f"{without}\n{line}"], home_env)
    assert done.returncode == 0, done.stderr
    env = {**home_env, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    result = run([sys.executable, "-c", ASK], env)
    assert result.returncode == 0, result.stderr
    assert "['orders']" in result.stdout
