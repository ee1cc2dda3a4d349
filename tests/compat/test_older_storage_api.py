"""The stock `storage_api_v2` of pyodps 0.13.1 drives the embedded service, versions 2 and 3.

It cannot be imported together with the installed pyodps: `older_jobs.py` runs once in a separate
process, and each of its jobs is a test here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import older_pyodps
import pytest

from odps_nb.local.server.launch import LocalService
from tests.support.compat import older_jobs

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def job_results(
    run_older: Callable[..., list[dict[str, Any]]], empty_service: LocalService
) -> list[dict[str, Any]]:
    return run_older(older_jobs.__name__, empty_service)


def test_all_jobs_ran_with_the_older_pyodps(job_results: list[dict[str, Any]]) -> None:
    import odps

    assert job_results[0] == {"pyodps": older_pyodps.VERSION}
    assert odps.__version__ != older_pyodps.VERSION
    assert [(one["job"], one["version"]) for one in job_results[1:]] == list(older_jobs.JOBS)


@pytest.mark.parametrize(("job", "version"), older_jobs.JOBS)
def test_each_job_of_the_older_pyodps_module_succeeds(
    job_results: list[dict[str, Any]], job: str, version: str
) -> None:
    (found,) = [one for one in job_results[1:] if (one["job"], one["version"]) == (job, version)]
    if found["trouble"] is not None:
        pytest.fail(found["trouble"], pytrace=False)


def test_if_the_older_pyodps_cannot_be_installed_the_reason_is_reported_and_no_file_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(older_pyodps, "ROOT", tmp_path)
    monkeypatch.setattr(older_pyodps, "HOME", tmp_path / "peers" / "pyodps")
    for name, value in {"NO_INDEX": "1", "CONFIG_FILE": "/dev/null", "FIND_LINKS": ""}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(RuntimeError, match=r"(?s)cannot be installed.*make setup.*No matching"):
        older_pyodps.ensure()
    assert list((tmp_path / "peers").iterdir()) == []
