"""`to_ray()`: one read task per split, in processes with their own keys.

Run by ``make versions``, not by ``make test``: Ray is large and takes half a minute to start.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from odps_nb.errors import ArgumentError

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def _cluster(odps) -> Iterator[None]:
    settings = odps.profile.as_options()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("access_id", "access_key"):
            patch.setenv(f"ODPS_{name.upper()}", settings[name])
        path = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": path})
        yield
        ray.shutdown()
        shutil.rmtree(Path(tempfile.gettempdir()) / "ray")  # Ray's logs


@pytest.mark.usefixtures("_cluster")
def test_the_rows_are_those_of_a_read(odps):
    source = odps.table("orders").read(
        ["id", "status", "created", "ds"],
        partitions="ds=2024-01-02",
        where="quantity >= 9",
        splits=3,
    )
    expected = source.to_arrow(progress=False)
    found = source.to_ray().to_pandas()
    assert found["id"].sort_values().tolist() == sorted(expected["id"].to_pylist())
    assert set(found["status"]) == set(expected["status"].to_pylist())


@pytest.mark.usefixtures("_cluster")
def test_an_empty_table_has_its_columns(odps, new_name):
    table = odps.create_table(new_name("empty"), "id bigint, name string")
    assert table.to_ray().count() == 0


def test_a_limit_is_refused(odps):
    with pytest.raises(ArgumentError, match="limit"):
        odps.table("orders").read(limit=3).to_ray()
