"""pyodps' own tests against the embedded service: tunnel, tables, SQL, version 1.

No package contains these tests. They are fetched from pyodps' repository at `COMMIT`, copied next
to the installed pyodps in a temporary folder, and run there by a separate pytest. This repository
contains none of them. ``pyodps_left_out.toml`` lists the tests that cannot pass.

Run by ``make versions``, not by ``make test``: it needs the repository and several minutes.
``PYODPS_REPOSITORY`` names another source, such as a folder.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import odps
import pytest

from odps_nb.local.server.launch import LocalService
from tests.support.clients.recording import start
from tests.versions.results import record

pytestmark = pytest.mark.timeout(3600)

COMMIT = "d4cdf3cf7a8022b278d17b54d5491239753dcbc9"  # 2026-08-14
REPOSITORY = "https://github.com/aliyun/aliyun-odps-python-sdk"
BUILD = Path(__file__).resolve().parent.parent.parent / "build"
KEPT = BUILD / "pyodps-tests.git"  # this one commit
LOG = BUILD / "pyodps-tests.log"
SECONDS = 300  # for one test, on a loaded machine
LEFT_OUT = tomllib.loads(Path(__file__).with_name("pyodps_left_out.toml").read_text("utf-8"))
RAN = f"Its own tests at commit {COMMIT[:8]}: {', '.join(LEFT_OUT['run'])}."
CANNOT_PASS = {test for one in LEFT_OUT["left_out"] for test in one["tests"]}
MAY_PASS = {test for one in LEFT_OUT["left_out"] if one.get("unsteady") for test in one["tests"]}

#: Sections in the configuration of these tests: connections to projects with a feature.
WITHOUT_SCHEMAS = ("odps", "odps_daily", "odps_with_tunnel_quota", "odps_with_mcqa2")
WITH_SCHEMAS = ("odps_with_schema",)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of pyodps that includes its tests."""
    place = tmp_path_factory.mktemp("pyodps")
    shutil.copytree(Path(odps.__file__).parent, place / "odps")
    git = ("git", "--git-dir", str(KEPT))
    if subprocess.run((*git, "cat-file", "-e", COMMIT), capture_output=True).returncode:
        source = os.environ.get("PYODPS_REPOSITORY", REPOSITORY)
        subprocess.run(("git", "init", "--quiet", "--bare", str(KEPT)), check=True)
        subprocess.run((*git, "fetch", "--quiet", "--depth", "1", source, COMMIT), check=True)
    tests = (*git, "archive", COMMIT, "--", ":(glob)odps/**/conftest.py", ":(glob)odps/**/tests/**")
    packed = subprocess.run(tests, capture_output=True, check=True).stdout
    subprocess.run(("tar", "-x", "-C", str(place)), input=packed, check=True)
    return place


@pytest.fixture(scope="module")
def ends(place: Path) -> dict[str, str]:
    """The result of each of these tests: ``passed``, or why it did not pass."""
    report = place / "report.xml"
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(place)]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--tb=short", "--show-capture=no"]
    command += ["--timeout", str(SECONDS), f"--junitxml={report}"]
    command += [f"odps/{file}" for file in LEFT_OUT["run"]]
    env = os.environ | {"PYTHONPATH": f"{place}{os.pathsep}{os.environ['PYTHONPATH']}", "TZ": "UTC"}
    with start(samples=False) as plain, start(samples=False, options=("--schemas",)) as schemas:
        write_config(place / "odps" / "tests" / "test.conf", plain, schemas)
        with LOG.open("w") as log:
            subprocess.run(command, cwd=place, env=env, stdout=log, stderr=log)
    found = dict(read_report(report))
    passed = sum(end == "passed" for end in found.values())
    failed = sum(end != "passed" and not is_in(CANNOT_PASS, test) for test, end in found.items())
    files = [
        {"what": ", ".join(f"`{name}`" for name in one["files"]), **one}
        for one in LEFT_OUT["files"]
    ]
    left_out = [*files, *LEFT_OUT["left_out"]]
    record("pyodps", odps.__version__, RAN, passed, left_out, failed=failed)
    return found


def write_config(path: Path, plain: LocalService, with_schemas: LocalService) -> None:
    """Write the configuration that these tests read."""
    config = configparser.ConfigParser(interpolation=None)
    for names, service in ((WITHOUT_SCHEMAS, plain), (WITH_SCHEMAS, with_schemas)):
        for name in names:
            config[name] = {
                "project": service.project,
                "access_id": service.access_id,
                "secret_access_key": service.access_key.replace("%", "%%"),
                "endpoint": service.endpoint,
            }
    config["odps_with_mcqa2"]["quota_name"] = "interactive"
    config["test"] = {"logging_level": "WARNING", "default_tunnel_quota_name": "default"}
    path.touch(mode=0o600)
    with path.open("w") as file:
        config.write(file)


def read_report(report: Path) -> Iterator[tuple[str, str]]:
    """Yield each test in a pytest report, named as in the list, and its result."""
    for case in ET.parse(report).iter("testcase"):  # written by our own pytest
        file = str(case.get("classname")).removeprefix("odps.").replace(".", "/") + ".py"
        told = [child for child in case if child.tag in ("failure", "error", "skipped")]
        end = f"{told[0].tag}: {told[0].get('message')}" if told else "passed"
        yield f"{file}::{case.get('name')}", end


def is_in(tests: set[str], test: str) -> bool:
    """Return whether the list contains a test, with or without its parameters."""
    return test in tests or test.partition("[")[0] in tests


def test_every_file_runs_or_is_left_out(place: Path) -> None:
    found = {str(p.relative_to(place / "odps")) for p in (place / "odps").rglob("test_*.py")}
    skipped = tuple(name for one in LEFT_OUT["files"] for name in one["files"])
    assert not {p for p in found - set(LEFT_OUT["run"]) if not p.startswith(skipped)}
    assert set(LEFT_OUT["run"]) <= found
    assert all(any(file.startswith(name) for file in found) for name in skipped)


def test_every_test_passes_that_is_not_left_out(ends: dict[str, str]) -> None:
    failed = {t: end for t, end in ends.items() if end != "passed" and not is_in(CANNOT_PASS, t)}
    assert not failed, "\n".join(f"{test}: {end}" for test, end in failed.items())


def test_no_test_passes_that_is_left_out(ends: dict[str, str]) -> None:
    passed = {test for test, end in ends.items() if end == "passed" and is_in(CANNOT_PASS, test)}
    assert not {test for test in passed if not is_in(MAY_PASS, test)}


def test_every_name_in_the_list_is_one_of_a_test(ends: dict[str, str]) -> None:
    assert not CANNOT_PASS - {*ends, *(test.partition("[")[0] for test in ends)}
