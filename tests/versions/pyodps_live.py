"""pyodps' own tests against the embedded service: tunnel, tables, SQL, version 1.

They run next to a copy of the installed pyodps. ``pyodps_left_out.toml`` lists the tests that
cannot pass.

Run by ``make versions``, not by ``make test``: it needs the repository and several minutes.
``PYODPS_REPOSITORY`` names another source, such as a folder.
"""

from __future__ import annotations

import configparser
import os
import shutil
import tempfile
from pathlib import Path

import odps
import pytest

from odps_nb.local.server.launch import LocalService
from tests.support.clients.recording import start
from tests.versions.foreign_suite import ForeignSuite, SuiteChecks

pytestmark = pytest.mark.timeout(3600)

PYODPS = ForeignSuite(
    name="pyodps",
    repository="https://github.com/aliyun/aliyun-odps-python-sdk",
    variable="PYODPS_REPOSITORY",
    commit="d4cdf3cf7a8022b278d17b54d5491239753dcbc9",  # 2026-08-14
    version=odps.__version__,
    root="odps",
    seconds=300,  # enough for a loaded machine
)

#: Sections in the configuration of these tests: connections to projects with a feature.
WITHOUT_SCHEMAS = ("odps", "odps_daily", "odps_with_tunnel_quota", "odps_with_mcqa2")
WITH_SCHEMAS = ("odps_with_schema",)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of pyodps that includes its tests."""
    place = tmp_path_factory.mktemp("pyodps")
    shutil.copytree(Path(odps.__file__).parent, place / "odps")
    PYODPS.unpack(place, "odps/**/conftest.py", "odps/**/tests/**")
    return place


@pytest.fixture(scope="module")
def ends(place: Path) -> dict[str, str]:
    """The result of each of these tests: ``passed``, or why it did not pass."""
    env = {"PYTHONPATH": f"{place}{os.pathsep}{os.environ['PYTHONPATH']}", "TZ": "UTC"}
    with (
        tempfile.TemporaryDirectory() as leftovers,  # a test of resources leaves a folder
        start(samples=False) as plain,
        start(samples=False, options=("--schemas",)) as schemas,
    ):
        write_config(place / "odps" / "tests" / "test.conf", plain, schemas)
        return PYODPS.run(place, {**env, "TMPDIR": leftovers})


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


class TestPyodps(SuiteChecks):
    suite = PYODPS
