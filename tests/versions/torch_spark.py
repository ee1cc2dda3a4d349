"""The recipes in ``docs/blobs-in-spark.md``: a torch model in tasks, and a TorchDistributor.

Run by ``make versions``, not by ``make test``: torch is large.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings(
        "ignore:unclosed file:ResourceWarning"
    ),  # raised by TorchDistributor
]
SETTINGS = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")


def _remove_what_torch_leaves() -> None:
    for pattern in ("torchinductor_*", "torchelastic_*"):
        for left in Path(tempfile.gettempdir()).glob(pattern):
            shutil.rmtree(left)


def test_the_recipes_run_unchanged(
    spark_session, odps, service, repo, tmp_path, monkeypatch, request
):
    for name in SETTINGS:  # the ranks are processes that connect on their own
        monkeypatch.setenv(f"ODPS_{name.upper()}", getattr(service, name))
    request.addfinalizer(lambda: odps.drop_table("training", if_exists=True))
    request.addfinalizer(_remove_what_torch_leaves)
    page = (repo / "docs" / "blobs-in-spark.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {
        "odps": odps,
        "spark": spark_session,
        "weights": str(tmp_path / "weights.pt"),
    }
    for block in blocks:
        exec(block, names)
    assert {row.why.partition(":")[0] for row in names["failed"]} >= {"UnidentifiedImageError"}
    rows = odps.table("training").read(progress=False).to_arrow().to_pylist()
    assert {row["png"] for row in rows} == {True, False}
    assert {len(row["pixels"]) for row in rows} == {3 * 16 * 16}
    losses = names["losses"]
    assert len(losses) >= 20
    assert sum(losses[-3:]) < sum(losses[:3])
