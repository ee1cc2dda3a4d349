"""The stock `storage_api_v2` of pyodps 0.13.1 drives the embedded service, versions 2 and 3.

It cannot be imported beside the pyodps that is installed: `older_jobs.py` runs in a process of
its own, once, and each of its jobs is a test here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import older_jobs
import pytest

from odps_nb.local.launch import start
from tools import older_pyodps

pytestmark = pytest.mark.compat


@pytest.fixture(scope="session")
def older_sdk() -> Path:
    """Its folder; a failure, not a skip, where it cannot be had."""
    try:
        return older_pyodps.ensure()
    except RuntimeError as error:
        trouble = str(error)
    pytest.fail(trouble, pytrace=False)


@pytest.fixture(scope="module")
def said(older_sdk: Path) -> list[dict[str, Any]]:
    with start(samples=False) as local:
        where = [local.endpoint, local.project, local.access_id, local.access_key]
        done = subprocess.run(
            [sys.executable, older_jobs.__file__, str(older_sdk), *where],
            capture_output=True,
            text=True,
            timeout=110,
        )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_is_the_older_one_that_ran(said: list[dict[str, Any]]) -> None:
    import odps

    assert said[0] == {"pyodps": older_pyodps.VERSION}
    assert odps.__version__ != older_pyodps.VERSION


@pytest.mark.parametrize(("job", "version"), older_jobs.JOBS)
def test_it_does(said: list[dict[str, Any]], job: str, version: str) -> None:
    (found,) = [one for one in said[1:] if (one["job"], one["version"]) == (job, version)]
    if found["trouble"] is not None:
        pytest.fail(found["trouble"], pytrace=False)
