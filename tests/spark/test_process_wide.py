"""odps_nb does not change process-wide state, which other libraries share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odps_nb.local.server.launch import LocalService

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "uses",
    [
        ["import", "load_ext"],
        pytest.param(
            ["import", "load_ext", "register", "read", "a worker that reads"],
            marks=[pytest.mark.spark, pytest.mark.nightly, pytest.mark.storage_api("blobs")],
        ),
    ],
    ids=["without Spark", "with Spark"],
)
def test_import_extension_register_and_read_do_not_change_process_wide_state(
    service: LocalService, uses: list[str]
) -> None:
    given = {
        **os.environ,
        **service.environment,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.fingerprints", uses[-1]],
        cwd=ROOT,
        env=given,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {use: [] for use in uses}
