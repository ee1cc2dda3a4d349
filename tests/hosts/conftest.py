"""A notebook with every kind of output, and programs that run or publish notebooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.lab import notebook

VIEWS = {
    "connect": "%load_ext odps_nb\nodps = %odps connect",
    "sql": "%%odps sql\nselect status, count(*) as n from orders group by status order by n",
    "explore": 'odps.table("orders").explore()',
    "blobs": 'odps.table("media").blobs("content", limit=4)',
    "chart": 'odps.table("orders").chart("status")',
}
"""Cells, each with what a reader must see in any page that is made of them."""
SEEN = ("1351026", "Søren Quispe", "mountains.jpg", "cancelled")

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def kernel_env(service: Any) -> dict[str, str]:
    """Environment variables with which a kernel connects to this run's service."""
    keys = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")
    return {**os.environ, **{f"ODPS_{key.upper()}": getattr(service, key) for key in keys}}


@pytest.fixture
def program(kernel_env: dict[str, str], tmp_path: Path) -> Program:
    """Return a function that runs a module as a program in an empty folder."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=kernel_env, capture_output=True, text=True, timeout=600
        )

    return run


@pytest.fixture(scope="session")
def executed(kernel_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook with tables, a gallery and a chart, executed and saved with its widgets."""
    path = tmp_path_factory.mktemp("executed") / "views.ipynb"
    path.write_text(json.dumps(notebook(*VIEWS.values())), "utf-8")
    command = [sys.executable, "-m", "nbconvert", "--execute", "--inplace", "--to", "notebook"]
    subprocess.run([*command, str(path)], env=kernel_env, check=True, timeout=600)
    return path
