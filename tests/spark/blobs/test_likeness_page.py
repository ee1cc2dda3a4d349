"""Similarity search as shown in ``docs/learning-from-blobs.md``.

The other recipes on the page need torch: ``tests/versions/torch_loader.py`` runs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.pages import blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.storage_api("blobs")


@pytest.mark.spark
def test_pictures_are_found_by_similarity(
    spark: SparkSession, odps: Connection, repo: Path, request: pytest.FixtureRequest
) -> None:
    recipe = blocks(repo / "docs" / "learning-from-blobs.md", "python")[-2:]
    assert all("likeness" in block.text for block in recipe)
    request.addfinalizer(lambda: odps.drop_table("likeness", if_exists=True))
    names: dict[str, Any] = {"odps": odps, "spark": spark}
    for block in recipe:
        exec(block.text, names)
    rows = odps.table("likeness").read().to_arrow(progress=False).to_pylist()
    kept = {row["name"]: row["embedding"] for row in rows}
    assert kept["cut_short.jpg"] is None
    wanted = np.array(kept.pop("mountains.jpg"))
    alike = {
        name: wanted @ values / np.linalg.norm(wanted) / np.linalg.norm(values)
        for name, values in kept.items()
        if values is not None
    }
    first = sorted(alike, key=alike.__getitem__, reverse=True)[:3]
    assert [name for name, _ in names["nearest"]] == first
    for name, found in names["nearest"]:
        assert found == pytest.approx(alike[name], abs=1e-5)
