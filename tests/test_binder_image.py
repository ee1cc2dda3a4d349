"""Binder builds an image from ``binder/``, and every tutorial runs in it within 2 GB."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import venv
from pathlib import Path

import on_binder
import psutil
import pytest

pytestmark = pytest.mark.nightly  # each creates a new environment, from the network


def test_repo2docker_accepts_the_folder(repo: Path, tmp_path: Path) -> None:
    """Test the Dockerfile that Binder would build, without running Docker."""
    venv.create(tmp_path / "env", with_pip=True)
    commands = tmp_path / "env" / "bin"
    pip = [commands / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "jupyter-repo2docker"], check=True)
    tree = on_binder.tracked(tmp_path / "tree")
    done = subprocess.run(
        [commands / "jupyter-repo2docker", "--no-build", "--debug", tree],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    assert "Building conda environment for python=3.11" in lines
    java, copied, installed, made, entry = (
        next(place for place, line in enumerate(lines) if re.search(wanted, line))
        for wanted in (
            r"apt-get install .* openjdk-17-jre-headless",
            r"^COPY .* src/ \$\{REPO_DIR\}/$",
            r'pip install --no-cache-dir -r "binder/requirements.txt"$',
            r"^RUN \./binder/postBuild$",
            r'^ENV R2D_ENTRYPOINT="\$\{REPO_DIR\}/binder/start"$',
        )
    )
    assert java < copied < installed < made < entry  # the library is installed from its copy


@pytest.mark.spark
@pytest.mark.timeout(3600)
def test_every_tutorial_runs_with_only_the_requirements(repo: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(repo / "tools" / "on_binder.py")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=False,
    )
    print(done.stdout)
    names = {path.name for path in (repo / "notebooks").glob("*.ipynb")}
    rows = re.findall(
        r"^\| (\S+\.ipynb) \| \d+ \| (\d+) \| \d+ \| (.*) \|$", done.stdout, re.MULTILINE
    )
    assert {name for name, _, _ in rows} == names
    assert {outcome for _, _, outcome in rows} == {"ran"}
    assert max(int(peak) for _, peak, _ in rows) < 1024
    assert done.returncode == 0


def test_a_notebook_above_the_memory_limit_is_ended() -> None:
    hungry = "a = bytearray(300 * 2**20); a[::4096] = b'x' * len(a[::4096]); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hungry!r}])"
    started = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE)
    watch = on_binder.Watch(started.pid, 200 * on_binder.MIB)
    watch.start()
    try:
        assert watch.over.wait(120)
        watch.join()
        assert watch.peak > 200 * on_binder.MIB
        assert started.wait(30) == -signal.SIGKILL
    finally:
        watch.done.set()
        if psutil.pid_exists(started.pid):
            started.kill()
        assert started.stdin is not None
        started.stdin.close()
        started.wait()
