"""The pipeline tutorial runs as saved, in a real kernel with a real Spark session."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from odps_nb.access.connection import Connection
from odps_nb.local.server.launch import LocalService

if TYPE_CHECKING:
    import nbformat

NAME = "06_spark_pipeline.ipynb"


@pytest.fixture
def notebook(repo: Path) -> nbformat.NotebookNode:
    import nbformat  # importing it at module level would take a second in every worker

    found = nbformat.read(repo / "notebooks" / NAME, as_version=4)
    nbformat.validate(found)
    return found


def test_the_notebook_is_saved_without_results(notebook: nbformat.NotebookNode):
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)


def test_the_notebook_stays_within_the_memory_of_binder(notebook: nbformat.NotebookNode):
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert 'session("local[1]", spark_driver_memory="512m", quiet=True)' in code
    assert notebook.cells[-1].source == "spark.stop()"


def test_the_pages_link_to_the_notebook(repo: Path):
    places = ["README.md", "notebooks/01_quickstart.ipynb", "tools/lab.py"]
    assert [place for place in places if NAME not in (repo / place).read_text("utf-8")] == []


def _shown(cell: nbformat.NotebookNode) -> str:
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        parts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    return "\n".join(parts)


@pytest.mark.kernel
@pytest.mark.spark
@pytest.mark.nightly  # a kernel with its own Spark; `make test` has the quickstart
def test_every_cell_runs_and_the_gallery_shows_the_thumbnails(
    notebook: nbformat.NotebookNode, service: LocalService, odps: Connection
):
    env = os.environ | service.environment
    from nbclient import NotebookClient

    try:
        NotebookClient(notebook, timeout=300, kernel_name="python3").execute(env=env)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        texts = {cell.source.split("\n")[-1]: _shown(cell) for cell in cells}
        assert [out for cell in cells for out in cell.outputs if out.get("name") == "stderr"] == []

        rows = odps.table("media").read().row_count
        assert f"{rows} rows" in texts["receipt"]
        for problem in ("DecompressionBombError", "UnidentifiedImageError", "UnicodeDecodeError"):
            assert problem in texts["problems"]
        gallery = texts["%odps blobs media_features -c thumbnail -p kind=picture -n 24"]
        stored = odps.table("media_features").blobs("thumbnail", limit=99)
        assert gallery.count("<figure") == len(stored) == 15
        assert {blob.mime_type for blob in stored} == {"image/jpeg"}
        assert "mountains.jpg" in gallery
        assert "静夜思" in _shown(cells[-2])

        saved = json.dumps(notebook)
        assert service.access_key not in saved
        assert service.access_id not in saved
        assert len(saved) < 2_000_000
    finally:
        odps.drop_table("media_features", if_exists=True)
