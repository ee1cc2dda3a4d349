"""Binder: the files are valid, agree with `pyproject.toml`, and the start script works."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from packaging.requirements import Requirement

import odps_nb

TIMEOUT = 90


@pytest.fixture
def binder(repo: Path) -> Path:
    return repo / "binder"


@pytest.mark.parametrize("name", ["start", "postBuild"])
def test_the_scripts_are_valid_and_executable(binder: Path, name: str):
    assert os.access(binder / name, os.X_OK)
    assert "set -euo pipefail" in (binder / name).read_text()
    subprocess.run(["bash", "-n", str(binder / name)], check=True)


def test_pinned_versions_are_allowed_by_the_project(binder: Path, repo: Path):
    lines = [
        line
        for line in (binder / "requirements.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert lines[-1] == ".[lab]"
    declared = {
        found.name: found
        for text in re.findall(r'"([^"\n]+)"', (repo / "pyproject.toml").read_text("utf-8"))
        if re.match(r"[a-z-]+[<>=!]=", text) and (found := Requirement(text))
    }
    for line in lines[:-1]:
        name, version = line.split("==")
        assert declared[name].specifier.contains(version), line


def test_python_and_java_have_the_required_versions(binder: Path, repo: Path):
    major, minor = re.fullmatch(
        r"python-(\d+)\.(\d+)\s*", (binder / "runtime.txt").read_text()
    ).groups()
    assert (int(major), int(minor)) >= (3, 10)
    setup = (repo / "tools" / "setup.py").read_text("utf-8")
    assert f'"{(binder / "apt.txt").read_text().strip()}"' in setup


@pytest.mark.nightly
def test_start_serves_and_passes_the_connection_settings(binder: Path, tmp_path: Path):
    bin_first = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    before = {child.pid for child in psutil.process_iter()}
    said, complained = tmp_path / "stdout", tmp_path / "stderr"
    with said.open("wb") as out, complained.open("wb") as err:
        # files, because the service keeps running and would hold pipes open
        subprocess.run(
            ["bash", str(binder / "start"), "python", "-c", show],
            stdout=out,
            stderr=err,
            env={**os.environ, "PATH": bin_first, "TMPDIR": str(tmp_path)},
            timeout=TIMEOUT,
            check=True,
            start_new_session=True,
        )
    served = [
        one
        for one in psutil.process_iter(["pid", "cmdline"])
        if one.pid not in before and str(tmp_path) in " ".join(one.info["cmdline"] or [])
    ]
    try:
        assert served
        given = json.loads(said.read_text().splitlines()[-1])
        names = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")
        settings = {name: given[f"ODPS_{name.upper()}"] for name in names}
        assert settings["endpoint"].startswith("http://127.0.0.1:")
        with odps_nb.connect(**settings) as odps:
            assert "orders" in odps.tables()
        assert settings["access_key"] not in complained.read_text()
    finally:
        for one in served:
            one.send_signal(signal.SIGTERM)
        psutil.wait_procs(served, timeout=30)
