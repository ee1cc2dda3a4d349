"""The choice of tests for accounts without the Storage API (tests/support/service/services.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.service.services import REASONS

MODULE = "tests/access/test_scan.py"


def collected(repo: Path, *options: str) -> tuple[list[str], str]:
    """Return the ids of the tests of a module that a run would choose, and what it prints."""
    command = [sys.executable, "-m", "pytest", MODULE, "--collect-only", "-o", "addopts="]
    command += ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", *options]
    env = {**os.environ, "PYTEST_ADDOPTS": ""}  # -v would change the list
    done = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(rf"^{MODULE}::(\S+)", done.stdout, re.MULTILINE), done.stdout


def test_a_module_marked_every_service_runs_for_each_set_of_services(repo: Path) -> None:
    tests, _ = collected(repo)
    for services in ("all", "tunnel", "storage-v1"):
        assert f"test_a_limit_is_exact[{services}]" in tests
    blobs = [name for name in tests if name.startswith("test_an_empty_result_has_its_columns")]
    assert blobs == ["test_an_empty_result_has_its_columns[all]"]


@pytest.mark.parametrize("services", ["tunnel", "storage-v1,tunnel"])
def test_a_run_without_the_storage_api_counts_deselected_tests(repo: Path, services: str) -> None:
    tests, printed = collected(repo, "--services", services)
    assert "test_a_limit_is_exact" in tests
    assert not [name for name in tests if name.startswith("test_an_empty_result_has_its_columns")]
    assert f"deselected, because there is only {services} " in printed
    assert re.search(r"^ +1  blobs$", printed, re.MULTILINE)
    assert re.search(r"^ +1  in all$", printed, re.MULTILINE)


def test_tests_give_only_known_reasons_for_needing_the_storage_api(repo: Path) -> None:
    found = {
        reason
        for path in (repo / "tests").rglob("*.py")
        for reason in re.findall(r'mark\.storage_api\(\s*"([^"]+)"', path.read_text("utf-8"))
    }
    assert found == {*REASONS}
