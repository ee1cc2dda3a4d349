"""dbt-maxcompute's own functional tests against the embedded service, in a project with schemas.

They run with the installed dbt-maxcompute, unchanged. ``dbt_left_out.toml`` lists the tests that
cannot pass.

Run by ``make versions``, not by ``make test``: it needs the repository and several minutes.
``DBT_MAXCOMPUTE_REPOSITORY`` names another source, such as a folder.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.clients.recording import start
from tests.versions.foreign_suite import ForeignSuite, SuiteChecks

pytestmark = pytest.mark.timeout(7200)

DBT = ForeignSuite(
    name="dbt",
    repository="https://github.com/aliyun/dbt-maxcompute",
    variable="DBT_MAXCOMPUTE_REPOSITORY",
    commit="4d2b57856032354987b4114c9d8265e73148dffa",  # 2026-06-03
    version=f"dbt-maxcompute {metadata.version('dbt-maxcompute')}",
    root="tests/functional",
    seconds=180,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with these tests."""
    place = tmp_path_factory.mktemp("dbt")
    DBT.unpack(place, "tests/__init__.py", "tests/conftest.py", "tests/functional/**")
    return place


@pytest.fixture(scope="module")
def ends(place: Path) -> dict[str, str]:
    """The result of each of these tests: ``passed``, or why it did not pass."""
    profile = place / "dbt_profile.yml"
    env = {"PYTHONPATH": str(place), "TZ": "UTC", "DBT_PROFILE_PATH": str(profile)}
    env |= {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}  # keeps dbt from using the network
    # two tests expect SQL with the name of this project
    with start(samples=False, project="dingxin", options=("--schemas",)) as service:
        keys = {
            "type": "maxcompute",
            "project": service.project,
            "schema": "default",
            "endpoint": service.endpoint,
            "access_key_id": service.access_id,
            "access_key_secret": service.access_key,
        }
        profile.touch(mode=0o600)
        profile.write_text(json.dumps(keys))  # JSON is valid YAML
        return DBT.run(place, env)


class TestDbt(SuiteChecks):
    suite = DBT
