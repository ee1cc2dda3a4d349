"""Search by likeness as ``docs/learning-from-blobs.md`` shows it.

The other recipes of the page need torch: ``tests/versions/torch_loader.py`` runs them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection


@pytest.mark.spark
def test_pictures_are_found_by_likeness(
    spark: SparkSession, odps: Connection, repo: Path, request: pytest.FixtureRequest
) -> None:
    page = (repo / "docs" / "learning-from-blobs.md").read_text("utf-8")
    blocks = re.findall(
        r"```python\n(.*?)```", page.partition("## Search by likeness")[2], re.DOTALL
    )
    assert len(blocks) == 2
    request.addfinalizer(lambda: odps.drop_table("likeness", if_exists=True))
    names: dict[str, Any] = {"odps": odps, "spark": spark}
    for block in blocks:
        exec(block, names)
    kept = odps.table("likeness").read().to_pandas(progress=False).set_index("name")["embedding"]
    assert kept["cut_short.jpg"] is None
    assert len(names["nearest"]) == 3
    wanted = names["np"].array(kept["mountains.jpg"])
    for name, alike in names["nearest"]:
        other = names["np"].array(kept[name])
        length = names["np"].linalg.norm
        assert alike == pytest.approx(wanted @ other / length(wanted) / length(other), abs=1e-5)
    assert [alike for _, alike in names["nearest"]] == sorted(
        (alike for _, alike in names["nearest"]), reverse=True
    )
