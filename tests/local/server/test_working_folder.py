"""The service's processes do not import files in the working folder, such as saved blobs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odps_nb.local.server import launch

SCRIPT = """
import odps_nb
with odps_nb.connect("local") as odps:
    print(odps.sql("select count(*) n from orders where id > 0").to_pandas().n[0] > 0)
"""


@pytest.mark.nightly
def test_a_saved_blob_does_not_run_when_the_service_starts(tmp_path):
    """Attack 3: `python -m` puts the working folder first in the path, whatever the options."""
    for name in ("uvicorn", "duckdb", "sqlglot", "starlette"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\nraise ImportError\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "ODPS_ACCESS_KEY": "secret"},
    )
    assert done.stdout == "True\n", done.stderr
    assert not (tmp_path / "ran").exists()


def test_keys_of_other_services_are_not_in_the_environment_of_the_service(monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_KEY", "secret")
    monkeypatch.setenv("ODPS_NB_PROFILES", "/somewhere")
    monkeypatch.setenv("MY_TOKEN", "secret")
    with launch.start(samples=False) as service:
        environment = Path(f"/proc/{service.pid}/environ").read_bytes()
    names = {entry.partition(b"=")[0] for entry in environment.split(b"\0")}
    assert not names & {b"ODPS_ACCESS_KEY", b"ODPS_NB_PROFILES", b"MY_TOKEN"}
    assert b"PATH" in names
